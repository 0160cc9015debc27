//! Words that do not belong: calls and attributes, nouns in types, notes to oneself, traces of machines.
//!
//! The forbidden words are put together from pieces here, so that this file is held to its own rules.

use crate::source::{Source, Violation, attributes};
use crate::tree::Text;

/// Nouns that say nothing, and the same for more than one.
const NOUNS: [&str; 8] = ["Manager", "Helper", "Util", "Utils", "Data", "Info", "Managers", "Helpers"];

/// Marks of unfinished work.
const MARKS: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("X", "XX")];

/// Folders of machines that the project was built on.
const FOLDERS: [&str; 3] = [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/fa", "rm/")];

/// The host names of registries and downloads; the lock file that cargo writes names one in each entry.
const HOSTS: [&str; 2] = [concat!("crates", ".io"), concat!("https://", "static.")];
const LOCK_FILE: &str = "Cargo.lock";
const LOCK_SOURCE: &str = concat!("source = \"registry+https://github.com/rust-lang/crates", ".io-index\"");

/// Words about the work on the project, in any case; the project speaks of itself alone.
const TRACES: [&str; 6] = [
    concat!("this ", "session"),
    concat!("helper ", "session"),
    concat!("closing ", "note"),
    concat!("desi", "gn.md"),
    concat!("sty", "le.md"),
    concat!("shared/", "desi", "gn"),
];

/// The same, but with their capital letters, and only as whole words.
const TRACES_EXACT: [&str; 3] = [concat!("issue", " A"), concat!("issue", " B"), concat!("issue", " C")];

/// `unwrap` in the library, unfinished code, attributes that switch a check or a test off.
pub(crate) fn code_violations(sources: &[Source]) -> Vec<Violation> {
    let mut found = Vec::new();
    for source in sources {
        for (index, token) in source.code.iter().enumerate() {
            let is_shipped = source.is_library() && !source.is_test(index);
            if is_shipped && source.reads(index, &[".", "unwrap", "(", ")"]) {
                found.push(source.violation(token.line, "`unwrap()`: `expect` says why it cannot happen"));
            }
            if source.reads(index, &["todo", "!"]) || source.reads(index, &["unimplemented", "!"]) {
                found.push(source.violation(token.line, format!("`{}!`: unfinished code", token.text)));
            }
        }
        found.extend(attribute_violations(source));
    }
    found
}

fn attribute_violations(source: &Source) -> Vec<Violation> {
    let mut found = Vec::new();
    for range in attributes(&source.code) {
        for index in range.clone() {
            let token = &source.code[index];
            if token.is("allow") && source.reads(index + 1, &["("]) {
                found.push(source.violation(token.line, "`allow`: write `expect` with a reason"));
            }
            if token.is("ignore") && !source.reads(index + 1, &["("]) {
                found.push(source.violation(token.line, "`ignore`: a test runs or goes"));
            }
        }
    }
    found
}

/// Types and files of the library that are named with a noun that says nothing.
pub(crate) fn noun_violations(sources: &[Source]) -> Vec<Violation> {
    let mut found = Vec::new();
    for source in sources.iter().filter(|source| source.is_library()) {
        let file = source.module().unwrap_or_default();
        let nouns = NOUNS.map(|noun| noun.to_ascii_lowercase());
        if file.split([':', '_']).any(|part| nouns.iter().any(|noun| noun == part)) {
            found.push(source.violation(1, format!("module `{file}` is named with an empty noun")));
        }
        for index in 1..source.code.len() {
            let name = &source.code[index];
            let is_type = ["struct", "enum", "union", "trait", "type"]
                .iter()
                .any(|word| source.code[index - 1].is(word));
            if is_type && name.is_ident() && camel_parts(&name.text).iter().any(|part| NOUNS.contains(part)) {
                found.push(
                    source.violation(name.line, format!("type `{}` is named with an empty noun", name.text)),
                );
            }
        }
    }
    found
}

/// `WalInfo` is `Wal` and `Info`.
fn camel_parts(name: &str) -> Vec<&str> {
    let capitals = name.char_indices().filter(|(_, letter)| letter.is_ascii_uppercase()).map(|(at, _)| at);
    let mut bounds: Vec<usize> = capitals.chain([0, name.len()]).collect();
    bounds.sort_unstable();
    bounds.dedup();
    bounds.windows(2).map(|pair| &name[pair[0]..pair[1]]).collect()
}

/// Notes of unfinished work in comments.
pub(crate) fn mark_violations(sources: &[Source]) -> Vec<Violation> {
    let mut found = Vec::new();
    for source in sources {
        for comment in &source.comments {
            for (offset, line) in comment.text.lines().enumerate() {
                let marks = MARKS.iter().filter(|mark| has_word(line, mark));
                found.extend(
                    marks.map(|mark| {
                        source.violation(comment.line + offset, format!("`{mark}` in a comment"))
                    }),
                );
            }
        }
    }
    found
}

/// Paths of machines, hosts of registries and words about the work, in any text file.
pub(crate) fn text_violations(texts: &[Text]) -> Vec<Violation> {
    let mut found = Vec::new();
    for text in texts {
        for (index, line) in text.text.lines().enumerate() {
            let words = forbidden(line).into_iter();
            let words = words.filter(|_| !(text.path.ends_with(LOCK_FILE) && line == LOCK_SOURCE));
            found.extend(words.map(|word| Violation {
                path: text.path.clone(),
                line: index + 1,
                text: format!("`{word}` does not belong into the project"),
            }));
        }
    }
    found
}

fn forbidden(line: &str) -> Vec<&'static str> {
    let lower = line.to_ascii_lowercase();
    let folders = FOLDERS.iter().filter(|folder| has_folder(line, folder));
    let hosts = HOSTS.iter().filter(|host| lower.contains(**host));
    let traces = TRACES.iter().filter(|trace| lower.contains(**trace));
    let exact = TRACES_EXACT.iter().filter(|trace| has_word(line, trace));
    folders.chain(hosts).chain(traces).chain(exact).copied().collect()
}

/// True if `folder` stands at the start of a path in the line, not inside one.
fn has_folder(line: &str, folder: &str) -> bool {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || "._-})".contains(letter);
    line.match_indices(folder).any(|(at, _)| !line[..at].ends_with(is_part))
}

/// True if `word` stands in the line with no letter, digit or underscore beside it.
fn has_word(line: &str, word: &str) -> bool {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let ends = line.match_indices(word).map(|(at, _)| (at, at + word.len()));
    ends.into_iter()
        .any(|(start, end)| !line[..start].ends_with(is_part) && !line[end..].starts_with(is_part))
}

mod tests {
    use super::*;

    fn lines(rule: fn(&[Source]) -> Vec<Violation>, path: &str, text: &str) -> Vec<usize> {
        rule(&[Source::new(path, text)]).iter().map(|found| found.line).collect()
    }

    fn count(path: &str, text: String) -> usize {
        text_violations(&[Text { path: path.to_owned(), text }]).len()
    }

    #[test]
    fn calls_that_stop_the_caller_are_reported() {
        let bad = concat!("fn f() {\nx.unwrap();\nto", "do!();\nunimpl", "emented!()\n}");
        assert_eq!(lines(code_violations, "src/x.rs", bad), [2, 3, 4]);
        assert_eq!(lines(code_violations, "tests/x.rs", bad), [3, 4]);
        let good =
            concat!("fn f() { x.unwrap_or(1); \"to", "do!() .unwrap()\"; }\n#[test]\nfn g() { x.unwrap(); }");
        assert!(lines(code_violations, "src/x.rs", good).is_empty());
    }

    #[test]
    fn attributes_that_switch_off_are_reported() {
        let bad = concat!(
            "#![allow(dead_code)]\n#[ig",
            "nore]\nfn a() {}\n\n#[cfg_attr(miri, ignore = \"slow\")]\nfn b() {}"
        );
        assert_eq!(lines(code_violations, "tests/x.rs", bad), [1, 2, 5]);
        let good = concat!(
            "#[expect(dead_code, reason = \"allow(x) #[ig",
            "nore]\")]\nfn allow(ignore: u8) { allow(1) }"
        );
        assert!(lines(code_violations, "src/x.rs", good).is_empty());
    }

    #[test]
    fn empty_nouns_in_types_are_reported() {
        let bad = "struct WalInfo;\nenum Data {}\ntrait LockManager {}\ntype A = B;";
        assert_eq!(lines(noun_violations, "src/x.rs", bad), [1, 2, 3]);
        assert_eq!(lines(noun_violations, "src/table/utils.rs", ""), [1]);
        assert!(
            lines(noun_violations, "src/x.rs", "struct Database;\nstruct Metadata(DataView);").is_empty()
        );
        assert!(lines(noun_violations, "tests/x.rs", bad).is_empty());
    }

    #[test]
    fn marks_of_unfinished_work_are_reported() {
        for mark in MARKS {
            assert_eq!(lines(mark_violations, "src/x.rs", &format!("/* a\n {mark}: b */")), [2], "{mark}");
            assert!(
                lines(mark_violations, "src/x.rs", &format!("// a{mark} {mark}_b {mark}H3\nfn f() {{}}"))
                    .is_empty()
            );
        }
    }

    #[test]
    fn traces_of_machines_and_work_are_reported() {
        for folder in FOLDERS {
            assert_eq!(count("README.md", format!("see `{folder}x`")), 1, "{folder}");
            assert_eq!(count("README.md", format!("see target{folder}x")), 0, "{folder}");
        }
        for word in HOSTS.iter().chain(&TRACES).chain(&TRACES_EXACT) {
            assert!(count(".ci/run", format!("a\nb {word} c")) >= 1, "{word}");
        }
        assert_eq!(
            count("README.md", format!("{}ny, {}", TRACES_EXACT[0], TRACES_EXACT[1].to_lowercase())),
            0
        );
    }

    #[test]
    fn lock_file_of_cargo_is_not_reported() {
        assert_eq!(count(LOCK_FILE, LOCK_SOURCE.to_owned()), 0);
        assert_eq!(count("README.md", LOCK_SOURCE.to_owned()), 1);
        assert_eq!(count(LOCK_FILE, format!("source = \"registry+https://{}\"", HOSTS[0])), 1);
    }
}
