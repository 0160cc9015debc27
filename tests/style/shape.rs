//! The shape of a file: how long and wide it and its functions are, in which letters, with what head.

use crate::source::{Source, Violation, attributes, item};

const FILE_LINES_MAX: usize = 500;
const FUNCTION_LINES_MAX: usize = 60;
const LINE_WIDTH_MAX: usize = 110;

/// Files and lines that are too long.
pub(crate) fn size_violations(sources: &[Source]) -> Vec<Violation> {
    let mut found = Vec::new();
    for source in sources {
        let lines = source.text.lines().count();
        if lines > FILE_LINES_MAX {
            found.push(source.violation(lines, format!("file of {lines} lines, at most {FILE_LINES_MAX}")));
        }
        let widths = source.text.lines().map(|line| line.chars().count());
        let wide = widths.enumerate().filter(|(_, width)| *width > LINE_WIDTH_MAX);
        found.extend(wide.map(|(index, width)| {
            source.violation(index + 1, format!("line of {width} characters, at most {LINE_WIDTH_MAX}"))
        }));
    }
    found
}

/// Functions that are too long, counted from the line of `fn` to that of the closing brace.
pub(crate) fn function_violations(sources: &[Source]) -> Vec<Violation> {
    sources.iter().flat_map(long_functions).collect()
}

fn long_functions(source: &Source) -> Vec<Violation> {
    let mut found = Vec::new();
    for at in function_starts(source) {
        let body = item(&source.code, at);
        let (line, name) = (source.code[at].line, &source.code[at + 1].text);
        let lines = source.code[body.end - 1].line_last + 1 - line;
        if lines > FUNCTION_LINES_MAX {
            let text = format!("function `{name}` of {lines} lines, at most {FUNCTION_LINES_MAX}");
            found.push(source.violation(line, text));
        }
    }
    found
}

/// Indices of the `fn` of every named function; the type `fn(..)` is none.
fn function_starts(source: &Source) -> impl Iterator<Item = usize> {
    let named = |at: &usize| source.code.get(at + 1).is_some_and(|token| token.is_ident());
    (0..source.code.len()).filter(|&at| source.code[at].is("fn")).filter(named)
}

/// Characters outside of ASCII, which a reader may not be able to tell apart or to type.
pub(crate) fn ascii_violations(sources: &[Source]) -> Vec<Violation> {
    let mut found = Vec::new();
    for source in sources {
        for (index, line) in source.text.lines().enumerate() {
            let other = line.chars().find(|letter| !letter.is_ascii());
            found.extend(other.map(|letter| {
                source.violation(index + 1, format!("U+{:04X} is not ASCII", u32::from(letter)))
            }));
        }
    }
    found
}

/// Files whose first line does not say, in a sentence, what they are for.
pub(crate) fn head_violations(sources: &[Source]) -> Vec<Violation> {
    let bad = sources.iter().filter(|source| !is_head(source.text.lines().next().unwrap_or_default()));
    bad.map(|source| source.violation(1, "a file begins with `//! ` and a sentence that ends on that line"))
        .collect()
}

/// `//! `, a capital letter or code, three words at least, and the end of a sentence on the same line.
fn is_head(line: &str) -> bool {
    let Some(sentence) = line.strip_prefix("//! ") else { return false };
    let begins = sentence.starts_with(|first: char| first.is_ascii_uppercase() || first == '`');
    let ends =
        [".", "?", "!"].iter().any(|end| sentence.ends_with(end) || sentence.contains(&format!("{end} ")));
    begins && ends && sentence.split_whitespace().count() >= 3
}

/// Names of tests which do not tell subject, condition and outcome: fewer than three words.
pub(crate) fn test_name_violations(sources: &[Source]) -> Vec<Violation> {
    sources.iter().flat_map(short_test_names).collect()
}

fn short_test_names(source: &Source) -> Vec<Violation> {
    let mut found = Vec::new();
    let tests = attributes(&source.code)
        .into_iter()
        .filter(|range| source.reads(range.start, &["#", "[", "test", "]"]));
    for range in tests {
        let Some(at) = function_starts(source).find(|at| *at >= range.end) else { continue };
        let name = &source.code[at + 1];
        if name.text.split('_').filter(|word| !word.is_empty()).count() < 3 {
            let text = format!("test `{}` is to be named subject_condition_outcome", name.text);
            found.push(source.violation(name.line, text));
        }
    }
    found
}

mod tests {
    use super::*;

    /// Lines of the violations that `rule` finds in `text`.
    fn lines(rule: fn(&[Source]) -> Vec<Violation>, text: &str) -> Vec<usize> {
        rule(&[Source::new("src/x.rs", text)]).iter().map(|found| found.line).collect()
    }

    #[test]
    fn file_or_line_too_long_is_reported() {
        assert_eq!(lines(size_violations, &"x\n".repeat(501)), [501]);
        assert!(lines(size_violations, &"x\n".repeat(500)).is_empty());
        assert_eq!(lines(size_violations, &format!("x\n{}\n", "y".repeat(111))), [2]);
        assert!(lines(size_violations, &"y".repeat(110)).is_empty());
    }

    #[test]
    fn function_too_long_is_reported() {
        let function = |lines: usize| {
            format!("\nfn f<T>(a: [u8; {{ 3 }}]) {{\n{}}}\nfn g() {{}}", "'{';\n".repeat(lines))
        };
        assert_eq!(lines(function_violations, &function(59)), [2]);
        assert!(lines(function_violations, &function(58)).is_empty());
        let strings = format!("fn f() {{ \"{{\"; r#\"{{\"#; /* {{ */ }}\nfn g() {{}}{}", "\n// x".repeat(70));
        assert!(lines(function_violations, &strings).is_empty());
        assert!(lines(function_violations, &format!("trait T {{ fn f(); }}{}", "\n".repeat(99))).is_empty());
    }

    #[test]
    fn letters_outside_of_ascii_are_reported() {
        assert_eq!(lines(ascii_violations, "a\nb \u{2013} c"), [2]);
        assert!(lines(ascii_violations, "a - c").is_empty());
    }

    #[test]
    fn head_without_a_sentence_is_reported() {
        for bad in [
            "fn f() {}",
            "//! table",
            "//! The table of",
            "//!The table of leases.",
            "// The table of leases.",
            "",
        ] {
            assert_eq!(lines(head_violations, bad), [1], "{bad}");
        }
        for good in [
            "//! The table of leases.",
            "//! `Table` holds lines: 64 bytes each. More",
            "//! Who holds which ID?",
        ] {
            assert!(lines(head_violations, good).is_empty(), "{good}");
        }
    }

    #[test]
    fn test_named_in_two_words_is_reported() {
        let text = "#[test]\n#[should_panic(expected = \"x\")]\nfn it_works() {}\nfn help() {}";
        assert_eq!(lines(test_name_violations, text), [3]);
        assert!(
            lines(test_name_violations, "#[test]\nfn table_full_is_refused() {}\nfn help() {}").is_empty()
        );
    }
}
