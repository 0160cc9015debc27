//! Cuts Rust source into tokens which keep their comments and know their lines.
//!
//! It knows just enough of the language that no rule is fooled by a word in a string or a brace in a
//! comment: nested comments, raw strings, byte and C strings, and a lifetime beside a char literal.

/// What a token is; keywords are identifiers here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Comment,
    Ident,
    Lifetime,
    Literal,
    Punct,
}

/// One token: its text and the first and last line it stands on, counted from 1.
#[derive(Clone, Debug)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) text: String,
    pub(crate) line: usize,
    pub(crate) line_last: usize,
}

impl Token {
    /// True for an identifier or a punctuation mark of this text; never for a literal.
    pub(crate) fn is(&self, text: &str) -> bool {
        matches!(self.kind, Kind::Ident | Kind::Punct) && self.text == text
    }

    pub(crate) fn is_ident(&self) -> bool {
        self.kind == Kind::Ident
    }
}

/// All tokens of a source, comments among them, in order.
pub(crate) fn tokens(text: &str) -> Vec<Token> {
    let mut rest = text.as_bytes();
    let mut line = 1;
    let mut tokens = Vec::new();
    while let Some(&byte) = rest.first() {
        if byte.is_ascii_whitespace() {
            line += usize::from(byte == b'\n');
            rest = &rest[1..];
            continue;
        }
        let (kind, length) = scan(rest);
        let (token, after) = rest.split_at(length.clamp(1, rest.len()));
        let text = String::from_utf8_lossy(token).into_owned();
        let line_last = line + text.matches('\n').count();
        tokens.push(Token { kind, text, line, line_last });
        (rest, line) = (after, line_last);
    }
    tokens
}

/// Kind and length of the token at the start of `rest`; the length may pass the end when the token is cut.
fn scan(rest: &[u8]) -> (Kind, usize) {
    match rest {
        [b'/', b'/', ..] => (Kind::Comment, until(rest, |byte| byte == b'\n')),
        [b'/', b'*', ..] => (Kind::Comment, block_comment(rest)),
        [b'"', ..] => (Kind::Literal, quoted(rest, 0)),
        [b'\'', ..] => tick(rest),
        [b'0'..=b'9', ..] => (Kind::Literal, number(rest)),
        [b':', b':', ..] => (Kind::Punct, 2),
        [byte, ..] if is_word(*byte) => word(rest),
        _ => (Kind::Punct, 1),
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii()
}

fn until(rest: &[u8], is_end: impl Fn(u8) -> bool) -> usize {
    rest.iter().position(|&byte| is_end(byte)).unwrap_or(rest.len())
}

/// An identifier, or a literal whose prefix looks like one (`r#".."#`, `b".."`, `c".."`, `b'.'`).
fn word(rest: &[u8]) -> (Kind, usize) {
    let length = until(rest, |byte| !is_word(byte));
    let hashes = until(&rest[length..], |byte| byte != b'#');
    let next = rest.get(length + hashes).copied();
    match &rest[..length] {
        b"r" | b"br" | b"cr" if next == Some(b'"') => (Kind::Literal, raw_string(rest, length, hashes)),
        b"r" if hashes == 1 => (Kind::Ident, 2 + until(&rest[2..], |byte| !is_word(byte))),
        b"b" | b"c" if hashes == 0 && matches!(next, Some(b'"' | b'\'')) => (Kind::Literal, quoted(rest, 1)),
        _ => (Kind::Ident, length),
    }
}

/// A literal with escapes whose opening quote is at `quote`.
fn quoted(rest: &[u8], quote: usize) -> usize {
    let mut at = quote + 1;
    while at < rest.len() && rest[at] != rest[quote] {
        at += if rest[at] == b'\\' { 2 } else { 1 };
    }
    at + 1
}

fn raw_string(rest: &[u8], prefix: usize, hashes: usize) -> usize {
    let end = [b"\"".as_slice(), &b"#".repeat(hashes)].concat();
    let body = prefix + hashes + 1;
    let found = rest[body..].windows(end.len()).position(|window| window == end);
    found.map_or(rest.len(), |at| body + at + end.len())
}

/// A char literal or a lifetime: both begin with a tick.
fn tick(rest: &[u8]) -> (Kind, usize) {
    let width = match rest.get(1) {
        Some(b'\\') => return (Kind::Literal, quoted(rest, 0)),
        Some(0xF0..) => 4,
        Some(0xE0..) => 3,
        Some(0x80..) => 2,
        _ => 1,
    };
    if rest.get(1 + width) == Some(&b'\'') {
        return (Kind::Literal, 2 + width);
    }
    (Kind::Lifetime, 1 + until(&rest[1..], |byte| !is_word(byte)))
}

/// A number; its point belongs to it only before a digit, so `0..n` and `1.max(n)` are cut rightly.
fn number(rest: &[u8]) -> usize {
    let mut at = until(rest, |byte| !is_word(byte));
    if rest.get(at) == Some(&b'.') && rest.get(at + 1).is_some_and(u8::is_ascii_digit) {
        at += 1 + until(&rest[at + 1..], |byte| !is_word(byte));
    }
    at
}

fn block_comment(rest: &[u8]) -> usize {
    let (mut at, mut depth) = (2, 1);
    while depth > 0 && at < rest.len() {
        match &rest[at..] {
            [b'/', b'*', ..] => (at, depth) = (at + 2, depth + 1),
            [b'*', b'/', ..] => (at, depth) = (at + 2, depth - 1),
            _ => at += 1,
        }
    }
    at
}

mod tests {
    use super::*;

    fn texts(source: &str, kind: Kind) -> Vec<String> {
        tokens(source).into_iter().filter(|token| token.kind == kind).map(|token| token.text).collect()
    }

    #[test]
    fn strings_with_quotes_and_braces_are_one_literal() {
        let source = "a \"x\\\"{\" b'\\'' br##\"}\"# //\"## 'c' '\\'' \"\\\\\" z";
        assert_eq!(texts(source, Kind::Ident), ["a", "z"]);
        assert_eq!(texts(source, Kind::Literal).len(), 6);
    }

    #[test]
    fn lifetime_beside_char_is_told_apart() {
        assert_eq!(texts("fn f<'a>(x: &'a str) { '\u{e4}'; 'b' }", Kind::Lifetime), ["'a", "'a"]);
        assert_eq!(texts("fn f<'a>(x: &'a str) { '\u{e4}'; 'b' }", Kind::Literal), ["'\u{e4}'", "'b'"]);
    }

    #[test]
    fn comments_nested_or_long_keep_their_lines() {
        let all = tokens("/* a /* b\n */ */ x // y\nz");
        let lines: Vec<_> = all.iter().map(|token| (token.line, token.line_last)).collect();
        assert_eq!(lines, [(1, 2), (2, 2), (2, 2), (3, 3)]);
    }

    #[test]
    fn numbers_ranges_and_raw_identifiers_are_cut_rightly() {
        assert_eq!(texts("0..n 1.5e3 1.max(2) 0x1F_u64 r#type", Kind::Ident), ["n", "max", "r#type"]);
    }

    #[test]
    fn source_cut_inside_any_token_ends_quietly() {
        for cut in ["\"abc", "'", "'\\", "r#\"x\"", "/* a", "b'", "r#", "1."] {
            assert!(!tokens(cut).is_empty(), "{cut}");
        }
    }
}
