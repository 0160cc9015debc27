//! Reads the paths that a source names: its `use` items, groups opened, and the paths inside its code.

use std::ops::Range;

use crate::lexer::Token;
use crate::source::{Source, item};

/// A path as it was written, `self` at the end of a group already dropped; a glob ends in `*`.
#[derive(Clone, Debug)]
pub(crate) struct Named {
    pub(crate) segments: Vec<String>,
    /// The name that a `use` binds; empty for a path inside the code and for a glob.
    pub(crate) alias: String,
    pub(crate) is_public: bool,
    pub(crate) index: usize,
    pub(crate) line: usize,
}

impl Named {
    pub(crate) fn is_glob(&self) -> bool {
        self.segments.last().is_some_and(|last| last == "*")
    }
}

/// The `use` items, from the keyword to the semicolon; `+ use<'a>` in a type is none.
pub(crate) fn use_items(source: &Source) -> Vec<Range<usize>> {
    let starts =
        (0..source.code.len()).filter(|&at| source.code[at].is("use") && !source.reads(at + 1, &["<"]));
    starts.map(|at| at..at + semicolon(&source.code[at..])).collect()
}

fn semicolon(code: &[Token]) -> usize {
    code.iter().position(|token| token.is(";")).unwrap_or(code.len())
}

/// Every name imported, one entry for each leaf of each group.
pub(crate) fn imports(source: &Source) -> Vec<Named> {
    let mut found = Vec::new();
    for range in use_items(source) {
        let is_public = is_public(source, range.start);
        let mut reader = Reader { source, range: range.clone(), is_public, found: &mut found };
        reader.range.start += 1;
        reader.tree(&[]);
    }
    found
}

/// True if the token before `index` ends a visibility: `pub` or `pub(..)`.
fn is_public(source: &Source, index: usize) -> bool {
    let before = &source.code[..index];
    match before.last() {
        Some(token) if token.is("pub") => true,
        Some(token) if token.is(")") => {
            let open = before.iter().rposition(|token| token.is("("));
            open.is_some_and(|open| open > 0 && before[open - 1].is("pub"))
        }
        _ => false,
    }
}

/// Walks one `use` tree; `range` is what is still to be read.
struct Reader<'a> {
    source: &'a Source,
    range: Range<usize>,
    is_public: bool,
    found: &'a mut Vec<Named>,
}

impl Reader<'_> {
    fn next(&mut self) -> Option<&Token> {
        let index = self.range.next()?;
        Some(&self.source.code[index])
    }

    /// Reads one tree up to the comma or brace after it; returns true if that was a comma.
    fn tree(&mut self, prefix: &[String]) -> bool {
        let mut segments = prefix.to_vec();
        let mut alias = None;
        let (index, mut is_group) = (self.range.start, false);
        let is_comma = loop {
            let Some(token) = self.next() else { break false };
            match token.text.as_str() {
                "::" => {}
                "," => break true,
                "}" => break false,
                "as" => alias = self.next().map(|token| token.text.clone()),
                "self" if !segments.is_empty() => {}
                "{" => {
                    is_group = true;
                    while self.tree(&segments) {}
                }
                text => segments.push(text.to_owned()),
            }
        };
        if !is_group && (segments.len() > prefix.len() || self.range.start > index + 1) {
            self.push(segments, alias, index);
        }
        is_comma
    }

    fn push(&mut self, segments: Vec<String>, alias: Option<String>, index: usize) {
        let last = segments.last().filter(|last| *last != "*").cloned();
        let alias = alias.or(last).unwrap_or_default();
        let line = self.source.code[index].line;
        self.found.push(Named { segments, alias, is_public: self.is_public, index, line });
    }
}

/// Every path of two segments and more in the code outside of `use` items and visibilities.
pub(crate) fn inline(source: &Source) -> Vec<Named> {
    let items = use_items(source);
    let starts = (0..source.code.len()).filter(|&at| {
        source.code[at].is_ident()
            && source.reads(at + 1, &["::"])
            && !(at > 0 && source.code[at - 1].is("::"))
            && !(at > 2 && source.reads(at - 3, &["pub", "(", "in"]))
            && !items.iter().any(|range| range.contains(&at))
    });
    starts.map(|at| path_at(source, at)).collect()
}

fn path_at(source: &Source, index: usize) -> Named {
    let mut segments = vec![source.code[index].text.clone()];
    let mut at = index + 1;
    while source.reads(at, &["::"]) && source.code.get(at + 1).is_some_and(Token::is_ident) {
        segments.push(source.code[at + 1].text.clone());
        at += 2;
    }
    Named { segments, alias: String::new(), is_public: false, index, line: source.code[index].line }
}

/// The names of the `mod name { .. }` blocks around `index`, outermost first.
pub(crate) fn inline_modules(source: &Source, index: usize) -> Vec<String> {
    let starts = (0..index).filter(|&at| source.code[at].is("mod") && source.reads(at + 2, &["{"]));
    let around = starts.filter(|&at| item(&source.code, at).contains(&index));
    around.map(|at| source.code[at + 1].text.clone()).collect()
}

mod tests {
    use super::*;

    fn imported(text: &str) -> Vec<String> {
        let source = Source::new("src/x.rs", text);
        let named = imports(&source).into_iter();
        named.map(|named| format!("{} as {}", named.segments.join("::"), named.alias)).collect()
    }

    #[test]
    fn nested_groups_are_opened() {
        assert_eq!(
            imported("use std::{fs::{self, File}, io as input,}; use crate::table::*;"),
            ["std::fs as fs", "std::fs::File as File", "std::io as input", "crate::table::* as "]
        );
        assert_eq!(imported("use crate::{a, b::{c, d}}; use self::e;").len(), 4);
        assert_eq!(imported("use super::{Table, memory::{Memory}};")[1], "super::memory::Memory as Memory");
    }

    #[test]
    fn visibility_is_seen_and_is_no_path() {
        let source = Source::new(
            "src/x.rs",
            "pub(crate) use a::B; use c::D; pub(in crate::x) fn f() {} pub use e::F;",
        );
        let public: Vec<bool> = imports(&source).iter().map(|named| named.is_public).collect();
        assert_eq!(public, [true, false, true]);
        assert!(inline(&source).is_empty());
    }

    #[test]
    fn paths_in_code_are_found_and_strings_not() {
        let source =
            Source::new("src/x.rs", "fn f() -> impl A + use<'a> { crate::a::b::<u8>(\"crate::c\"); x::Y }");
        let found: Vec<String> = inline(&source).iter().map(|named| named.segments.join("::")).collect();
        assert_eq!(found, ["crate::a::b", "x::Y"]);
    }

    #[test]
    fn inline_modules_around_a_token_are_named() {
        let source = Source::new("src/x.rs", "mod a { mod b { x } } y");
        let at = |text| source.code.iter().position(|token| token.is(text)).expect("the token is there");
        assert_eq!(inline_modules(&source, at("x")), ["a", "b"]);
        assert!(inline_modules(&source, at("y")).is_empty());
    }
}
