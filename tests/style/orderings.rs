//! Every memory ordering has its reason beside it, and every pair it cites is explained once.
//!
//! The pairs are declared in module docs, each on a line that begins with `//! - P7` and goes on to say who
//! writes, who reads, what becomes visible and what breaks without it. A comment at the site, on its line or
//! directly above its statement, cites the pair:
//!
//! ```text
//! // Release, P7 with `close`: the slot's halves are visible before the stamp.
//! // Relaxed: a statistic, nobody acts on it.
//! // SeqCst: `pinned` and `epoch` need one total order (P9): store one, then load the other.
//! ```

use std::collections::BTreeMap;

use crate::paths::{imports, use_items};
use crate::source::{Source, Violation};
use crate::statement::comments_about;

const ORDERINGS: [&str; 5] = ["Relaxed", "Acquire", "Release", "AcqRel", "SeqCst"];
const DECLARATION: &str = "//! - ";

/// A mention of an ordering outside of tests.
struct Site<'a> {
    source: &'a Source,
    index: usize,
}

/// Sites without a reason, pairs cited but not declared, and pairs declared twice.
pub(crate) fn violations(sources: &[Source]) -> Vec<Violation> {
    let pairs = declarations(sources);
    let mut found: Vec<Violation> =
        sources.iter().flat_map(sites).flat_map(|site| site.check(&pairs)).collect();
    for (pair, places) in pairs {
        let twice = places.into_iter().skip(1);
        found.extend(
            twice.map(|(source, line)| source.violation(line, format!("pair {pair} is declared again"))),
        );
    }
    found
}

/// Where each pair is declared.
fn declarations(sources: &[Source]) -> BTreeMap<String, Vec<(&Source, usize)>> {
    let mut pairs: BTreeMap<String, Vec<(&Source, usize)>> = BTreeMap::new();
    for source in sources.iter().filter(|source| source.is_library()) {
        for (index, line) in source.text.lines().enumerate() {
            let declared = line.strip_prefix(DECLARATION).map(first_word).filter(|word| is_pair(word));
            if let Some(pair) = declared {
                pairs.entry(pair.to_owned()).or_default().push((source, index + 1));
            }
        }
    }
    pairs
}

/// The letters and digits at the start of a text.
fn first_word(text: &str) -> &str {
    text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').next().unwrap_or_default()
}

/// `P` and digits, nothing else.
fn is_pair(word: &str) -> bool {
    let digits = word.strip_prefix('P').unwrap_or_default();
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// The pairs named in a comment.
fn citations(comment: &str) -> Vec<&str> {
    let words = comment.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    words.filter(|word| is_pair(word)).collect()
}

/// Every ordering of a library file: `Ordering::Release`, or `Release` alone where it was imported.
fn sites(source: &Source) -> Vec<Site<'_>> {
    let items = use_items(source);
    let imports = imports(source);
    let is_imported = |name: &str| {
        imports.iter().any(|named| {
            let parent = named.segments.iter().rev().nth(1);
            parent.is_some_and(|parent| parent == "Ordering") && (named.alias == name || named.is_glob())
        })
    };
    let is_site = |index: usize| {
        let token = &source.code[index];
        let is_path = index > 0 && source.code[index - 1].is("::");
        let is_of_ordering = is_path && index > 1 && is_ordering(source, index - 2);
        ORDERINGS.iter().any(|name| token.is(name))
            && (is_of_ordering || !is_path && is_imported(&token.text))
            && !source.is_test(index)
            && !items.iter().any(|range| range.contains(&index))
    };
    let indices = (0..source.code.len()).filter(|&index| source.is_library() && is_site(index));
    indices.map(|index| Site { source, index }).collect()
}

/// True for `Ordering`, or the name it was imported under.
fn is_ordering(source: &Source, index: usize) -> bool {
    let name = &source.code[index].text;
    let is_it = |segments: &[String]| segments.last().is_some_and(|last| last == "Ordering");
    name == "Ordering" || imports(source).iter().any(|named| named.alias == *name && is_it(&named.segments))
}

impl Site<'_> {
    fn check(&self, pairs: &BTreeMap<String, Vec<(&Source, usize)>>) -> Vec<Violation> {
        let token = &self.source.code[self.index];
        let comment = comments_about(self.source, self.index);
        let cited = citations(&comment);
        let missing = missing(&token.text, &comment, &cited).map(str::to_owned);
        let unknown = cited.iter().filter(|pair| !pairs.contains_key(**pair));
        let unknown = unknown
            .map(|pair| format!("pair {pair} is declared in no module doc (`{DECLARATION}{pair} ..`)"));
        let texts = missing.into_iter().chain(unknown);
        texts.map(|text| self.source.violation(token.line, format!("{}: {text}", token.text))).collect()
    }
}

/// What the comment of a site lacks.
fn missing(ordering: &str, comment: &str, cited: &[&str]) -> Option<&'static str> {
    let is_unread = |mark: &str| comment.split_once(mark).is_none_or(|(_, reason)| reason.trim().is_empty());
    match ordering {
        "SeqCst" if is_unread("SeqCst:") => {
            Some("a comment `SeqCst:` is to name the locations in one total order")
        }
        "Relaxed" if cited.is_empty() && is_unread("Relaxed:") => {
            Some("a comment `Relaxed:` is to say why nothing more is needed, or to cite a pair (`P1`)")
        }
        "Relaxed" => None,
        _ if cited.is_empty() => {
            Some("a comment is to cite its pair (`P1`), here or directly above the statement")
        }
        _ => None,
    }
}

mod tests {
    use super::*;

    const PAIRS: &str =
        "//! Pairs of this file.\n//! - P1 (publish): a writes, b reads.\n//! - P2: c and d.\n";

    /// Lines, counted below the declarations, of what is wrong in `text`.
    fn lines(text: &str) -> Vec<usize> {
        let sources = [Source::new("src/x.rs", &format!("{PAIRS}{text}"))];
        violations(&sources).iter().map(|found| found.line - 3).collect()
    }

    #[test]
    fn ordering_without_a_reason_is_reported() {
        assert_eq!(lines("fn f() {\nx.load(Ordering::Acquire);\n}"), [2]);
        assert_eq!(lines("fn f() {\n// why not\nx.load(atomic::Ordering::Acquire);\n}"), [3]);
        assert_eq!(lines("fn f() {\n// P1\nx.load(1);\nx.store(1, Ordering::Release);\n}"), [4]);
    }

    #[test]
    fn ordering_with_its_pair_is_not_reported() {
        assert!(lines("fn f() {\nx.load(Ordering::Acquire); // P1: sees it\n}").is_empty());
        assert!(
            lines(
                "fn f() {\n// AcqRel (P1), Acquire (P2).\nx\n.swap(Ordering::AcqRel, Ordering::Acquire);\n}"
            )
            .is_empty()
        );
        assert!(lines("fn f(a: cmp::Ordering) { cmp::Ordering::Less; Relaxed }").is_empty());
        assert!(lines("#[cfg(test)]\nmod tests { fn f() { x.load(Ordering::Acquire); } }").is_empty());
    }

    #[test]
    fn ordering_imported_by_name_is_seen() {
        for head in
            ["use a::Ordering::{self, Release};", "use a::Ordering::*;", "use a::{Ordering::Release};"]
        {
            assert_eq!(lines(&format!("{head}\nfn f() {{ x.store(1, Release) }}")), [2], "{head}");
        }
        assert_eq!(lines("use a::Ordering as O;\nfn f() { x.store(1, O::Release) }"), [2]);
    }

    #[test]
    fn relaxed_without_its_why_is_reported() {
        assert_eq!(lines("fn f() {\n// Relaxed:\nx.load(Ordering::Relaxed);\n}"), [3]);
        assert_eq!(lines("fn f() {\n// Relaxed, of course\nx.load(Ordering::Relaxed);\n}"), [3]);
        assert!(lines("fn f() {\n// Relaxed: a hint only.\nx.load(Ordering::Relaxed);\n}").is_empty());
        assert!(lines("fn f() {\nx.load(Ordering::Relaxed); // P2 orders it\n}").is_empty());
    }

    #[test]
    fn seqcst_without_locations_is_reported() {
        assert_eq!(lines("fn f() {\nfence(Ordering::SeqCst); // P1\n}"), [2]);
        assert_eq!(lines("fn f() {\nfence(Ordering::SeqCst); // SeqCst: a and b.\n}"), [2]);
        assert!(lines("fn f() {\nfence(Ordering::SeqCst); // P2, SeqCst: a and b.\n}").is_empty());
    }

    #[test]
    fn pair_unknown_or_declared_twice_is_reported() {
        assert_eq!(lines("fn f() {\nx.load(Ordering::Acquire); // P1 and P3\n}"), [2]);
        assert_eq!(lines("//! - P1, again"), [1]);
        assert!(lines("//! - P10 is another\n//! - Phase one").is_empty());
    }
}
