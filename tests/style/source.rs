//! One file under the rules: its tokens, its module, and which of its parts are test code.

use std::ops::Range;

use crate::lexer::{Kind, Token, tokens};

/// A Rust file. Its path is relative to the repository, with `/` between the parts.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) path: String,
    pub(crate) text: String,
    pub(crate) comments: Vec<Token>,
    /// Everything but comments; what the rules call an index is an index into this.
    pub(crate) code: Vec<Token>,
    test_spans: Vec<Range<usize>>,
}

/// One breach of one rule.
#[derive(Debug)]
pub(crate) struct Violation {
    pub(crate) path: String,
    pub(crate) line: usize,
    pub(crate) text: String,
}

impl Source {
    pub(crate) fn new(path: &str, text: &str) -> Self {
        let (comments, code): (Vec<_>, Vec<_>) =
            tokens(text).into_iter().partition(|token| token.kind == Kind::Comment);
        let test_spans = test_spans(path, &code);
        Self { path: path.to_owned(), text: text.to_owned(), comments, code, test_spans }
    }

    /// True inside `#[cfg(test)]` and `#[test]` items, in a `tests.rs`, and outside of `src`.
    pub(crate) fn is_test(&self, index: usize) -> bool {
        self.test_spans.iter().any(|span| span.contains(&index))
    }

    pub(crate) fn is_library(&self) -> bool {
        self.path.starts_with("src/")
    }

    /// True for the command-line program, which stands on the public API.
    pub(crate) fn is_program(&self) -> bool {
        self.path == "src/main.rs" || self.path.starts_with("src/cli/") || self.path == "src/cli.rs"
    }

    /// The module that a file under `src` is: `table::memory`. The roots are `""` and `main`.
    pub(crate) fn module(&self) -> Option<String> {
        let inner = self.path.strip_prefix("src/")?.strip_suffix(".rs")?;
        let module = inner.strip_suffix("/mod").unwrap_or(inner).replace('/', "::");
        Some(if module == "lib" { String::new() } else { module })
    }

    pub(crate) fn violation(&self, line: usize, text: impl Into<String>) -> Violation {
        Violation { path: self.path.clone(), line, text: text.into() }
    }

    /// True if the code at `index` reads like `pattern`, token by token.
    pub(crate) fn reads(&self, index: usize, pattern: &[&str]) -> bool {
        let here = self.code.get(index..).unwrap_or(&[]);
        here.len() >= pattern.len() && here.iter().zip(pattern).all(|(token, text)| token.is(text))
    }
}

/// Marks the files which are test code as a whole because their `mod name;` stands under `#[cfg(test)]`.
pub(crate) fn mark_test_modules(sources: &mut [Source]) {
    let declared: Vec<String> = sources.iter().flat_map(test_modules).collect();
    let is_within = |module: &str| {
        declared.iter().any(|test| {
            module.strip_prefix(test).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
        })
    };
    for source in sources {
        if source.module().is_some_and(|module| is_within(&module)) {
            source.test_spans.push(0..source.code.len());
        }
    }
}

/// The modules of files of their own that this one declares in its test code.
fn test_modules(source: &Source) -> Vec<String> {
    let base = source.module().filter(|module| !module.is_empty() && module != "main");
    let prefix = base.map_or_else(String::new, |module| format!("{module}::"));
    let declared = (0..source.code.len()).filter(|&at| {
        source.is_library() && source.is_test(at) && source.code[at].is("mod") && source.reads(at + 2, &[";"])
    });
    declared.map(|at| format!("{prefix}{}", source.code[at + 1].text)).collect()
}

/// Index of the bracket that closes the one at `open`; of the last token if none does.
pub(crate) fn close(code: &[Token], open: usize) -> usize {
    let mut depth = 0_usize;
    for (index, token) in code.iter().enumerate().skip(open) {
        if token.is("(") || token.is("[") || token.is("{") {
            depth += 1;
        } else if token.is(")") || token.is("]") || token.is("}") {
            depth = depth.saturating_sub(1);
            if depth == 0 {
                return index;
            }
        }
    }
    code.len().saturating_sub(1)
}

/// Every attribute, from its `#` to its `]`, as a range of indices.
pub(crate) fn attributes(code: &[Token]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    for index in 0..code.len() {
        let bracket = index + 1 + usize::from(code.get(index + 1).is_some_and(|token| token.is("!")));
        if code[index].is("#") && code.get(bracket).is_some_and(|token| token.is("[")) {
            found.push(index..close(code, bracket) + 1);
        }
    }
    found
}

/// The item at `start`, attributes included: up to its `;` or the brace that ends it.
pub(crate) fn item(code: &[Token], start: usize) -> Range<usize> {
    let mut index = start;
    while index < code.len() {
        let token = &code[index];
        if token.is("{") {
            return start..close(code, index) + 1;
        }
        if token.is(";") || token.is("}") {
            return start..index + 1;
        }
        index = if token.is("(") || token.is("[") { close(code, index) + 1 } else { index + 1 };
    }
    start..code.len()
}

fn test_spans(path: &str, code: &[Token]) -> Vec<Range<usize>> {
    let is_test_file = !path.starts_with("src/") || path.ends_with("/tests.rs") || path.contains("/tests/");
    let attributes = attributes(code);
    let is_inner = |range: &Range<usize>| code[range.start + 1].is("!");
    if is_test_file || attributes.iter().any(|range| is_inner(range) && asks_for_test(&code[range.clone()])) {
        return std::iter::once(0..code.len()).collect();
    }
    let marks = attributes.into_iter().filter(|range| asks_for_test(&code[range.clone()]));
    marks.map(|range| item(code, range.start)).collect()
}

/// `#[test]`, `#[cfg(test)]` or `#[cfg(all(.. test ..))]`, but not where the test is under `not` or `any`.
fn asks_for_test(attribute: &[Token]) -> bool {
    let words: Vec<&str> =
        attribute.iter().filter(|token| token.is_ident()).map(|token| token.text.as_str()).collect();
    match words.as_slice() {
        ["test"] | ["cfg", "test"] => true,
        ["cfg", "all", ..] => {
            let test = attribute.iter().position(|token| token.is("test"));
            test.is_some_and(|at| !attribute[at.saturating_sub(2)].is("not")) && !words.contains(&"any")
        }
        _ => false,
    }
}

mod tests {
    use super::*;

    fn tested(path: &str, text: &str) -> Vec<String> {
        let source = Source::new(path, text);
        let idents = source.code.iter().enumerate().filter(|(_, token)| token.is_ident());
        idents.filter(|(at, _)| source.is_test(*at)).map(|(_, token)| token.text.clone()).collect()
    }

    #[test]
    fn test_items_are_exempt_and_their_neighbours_not() {
        let text = "#[cfg(test)] use a::{b}; fn c() {} #[cfg(all(test, unix))] mod d { fn e() {} } fn f() {}";
        let exempt = tested("src/x.rs", text);
        for name in ["a", "d", "e"] {
            assert!(exempt.iter().any(|ident| ident == name), "{name} is exempt");
        }
        for name in ["c", "f"] {
            assert!(!exempt.iter().any(|ident| ident == name), "{name} is not exempt");
        }
        assert!(
            tested("src/x.rs", "#[cfg(not(test))] fn a() {} #[cfg(all(unix, not(test)))] fn b() {}")
                .is_empty()
        );
    }

    #[test]
    fn files_of_tests_are_exempt_whole() {
        assert_eq!(tested("src/x/tests.rs", "fn a() {}"), ["fn", "a"]);
        assert_eq!(tested("tests/x.rs", "fn a() {}"), ["fn", "a"]);
        assert!(tested("src/x.rs", "fn a() {}").is_empty());
    }

    #[test]
    fn file_declared_under_cfg_test_is_exempt() {
        let parent = Source::new("src/store/mod.rs", "#[cfg(test)] mod model; mod real;");
        let mut sources =
            [parent, Source::new("src/store/model.rs", "x"), Source::new("src/store/real.rs", "x")];
        mark_test_modules(&mut sources);
        assert!(sources[1].is_test(0));
        assert!(!sources[2].is_test(0));
    }

    #[test]
    fn module_of_a_path_follows_the_folders() {
        let module = |path| Source::new(path, "").module();
        assert_eq!(module("src/table/memory.rs").as_deref(), Some("table::memory"));
        assert_eq!(module("src/table/mod.rs").as_deref(), Some("table"));
        assert_eq!(module("src/lib.rs").as_deref(), Some(""));
        assert_eq!(module("src/main.rs").as_deref(), Some("main"));
        assert_eq!(module("benches/check.rs"), None);
    }
}
