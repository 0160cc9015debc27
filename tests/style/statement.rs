//! Finds the comments that speak about a place in the code: those on its statement and directly above it.

use crate::lexer::Token;
use crate::source::Source;

/// Index where the statement around `index` begins.
///
/// It begins after a `;`, a brace, or a comma of a match or struct body; the comma between arguments is
/// none. An `else` belongs to its `if`, and a block that holds nothing but this one expression to what is
/// around it, so that `let order = if .. { A } else { B };` is one statement.
pub(crate) fn statement_start(code: &[Token], index: usize) -> usize {
    let mut leaves_block = is_whole_block(code, index);
    let mut at = index;
    let mut comma = None;
    while at > 0 {
        let before = &code[at - 1];
        if before.is(")") || before.is("]") || before.is("}") && code[at].is("else") {
            at = open(code, at - 1);
        } else if before.is("(") || before.is("[") || before.is("{") && leaves_block {
            leaves_block &= !before.is("{");
            (at, comma) = (at - 1, None);
        } else if before.is(";") || before.is("{") || before.is("}") {
            break;
        } else {
            comma = comma.or(before.is(",").then_some(at));
            at -= 1;
        }
    }
    comma.unwrap_or(at)
}

/// True if the path around `index` fills a block: `{ Ordering::Release }`.
fn is_whole_block(code: &[Token], index: usize) -> bool {
    let is_path = |token: &Token| token.is_ident() || token.is("::");
    let before = code[..index].iter().rev().find(|token| !is_path(token));
    let after = code[index..].iter().find(|token| !is_path(token));
    before.is_some_and(|token| token.is("{")) && after.is_some_and(|token| token.is("}"))
}

/// Index of the bracket that opens the one closed at `close`.
fn open(code: &[Token], close: usize) -> usize {
    let mut depth = 0_usize;
    for at in (0..=close).rev() {
        if code[at].is(")") || code[at].is("]") || code[at].is("}") {
            depth += 1;
        } else if code[at].is("(") || code[at].is("[") || code[at].is("{") {
            depth -= 1;
            if depth == 0 {
                return at;
            }
        }
    }
    0
}

/// The comments from the start of the statement to the end of the line of `index`, and those directly above.
pub(crate) fn comments_about(source: &Source, index: usize) -> String {
    let start = statement_start(&source.code, index);
    let first = source.code[start].line;
    let last = source.code[index].line_last;
    let inside = source.comments.iter().filter(|comment| comment.line >= first && comment.line <= last);
    let inside: Vec<&str> = inside.map(|comment| comment.text.as_str()).collect();
    format!("{}\n{}", comments_above(source, first), inside.join("\n"))
}

/// The comments on the lines that end right above `line`; a line with code on it ends them.
pub(crate) fn comments_above(source: &Source, line: usize) -> String {
    let mut texts = Vec::new();
    let mut first = line;
    for comment in source.comments.iter().rev().skip_while(|comment| comment.line_last >= line) {
        let has_code =
            source.code.iter().any(|token| token.line <= comment.line && comment.line <= token.line_last);
        if comment.line_last + 1 != first || has_code {
            break;
        }
        texts.push(comment.text.as_str());
        first = comment.line;
    }
    texts.reverse();
    texts.join("\n")
}

mod tests {
    use super::*;

    /// The comments about the first `HERE` of a source.
    fn about(text: &str) -> String {
        let source = Source::new("src/x.rs", text);
        let index = source.code.iter().position(|token| token.is("HERE")).expect("the mark is there");
        comments_about(&source, index).replace('\n', " ").trim().to_owned()
    }

    #[test]
    fn comments_above_and_beside_are_found() {
        assert_eq!(about("fn f() {\n// far\n\n// a\n// b\nx.load(HERE); // c\n// d\n}"), "// a // b // c");
        assert_eq!(about("x(1); // other\ny(\n  a,\n  HERE, // own\n);"), "// own");
    }

    #[test]
    fn statement_over_lines_has_one_comment() {
        assert_eq!(about("x;\n// a\nlet y = self\n  .z\n  .swap((1, 2), HERE);"), "// a");
        assert_eq!(about("// a\nmatch x.swap(1, HERE) {\n}"), "// a");
        assert_eq!(about("// a\nlet o = if cfg!(m) {\n  B\n} else {\n  HERE\n};"), "// a");
        assert_eq!(about("// a\nconst fn o() -> O { O::HERE }"), "// a");
    }

    #[test]
    fn comment_of_a_neighbour_does_not_count() {
        assert_eq!(about("// a\nx(OTHER);\ny(HERE);"), "");
        assert_eq!(about("match x {\n// a\nA => x(1, 2),\nB => y(3, HERE),\n}"), "");
        assert_eq!(about("// a\nfn f() {\n  y(HERE);\n}"), "");
        assert_eq!(about("// a\nif x(1) {}\ny(HERE);"), "");
        assert_eq!(about("// a\nfn f() {\nlet x = if c { HERE } else { B };\n}"), "");
    }
}
