//! JSON, written by hand: objects of a few keys need no library.

use std::fmt::Write as _;

/// A string with its quotation marks; what is no UTF-8 is replaced.
pub(super) fn string(bytes: &[u8]) -> String {
    let mut text = String::from("\"");
    for letter in String::from_utf8_lossy(bytes).chars() {
        match letter {
            '"' | '\\' => text.extend(['\\', letter]),
            '\n' => text.push_str("\\n"),
            // String's writer never fails.
            letter if u32::from(letter) < 0x20 => drop(write!(text, "\\u{:04x}", u32::from(letter))),
            letter => text.push(letter),
        }
    }
    text.push('"');
    text
}

/// An array of values that are JSON already.
pub(super) fn array(values: impl Iterator<Item = String>) -> String {
    format!("[{}]", values.collect::<Vec<_>>().join(","))
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn string_of_any_bytes_is_escaped() {
        assert_eq!(string(b"a\"b\\c\nd\x01"), "\"a\\\"b\\\\c\\nd\\u0001\"");
        assert_eq!(string(b"\xff"), "\"\u{fffd}\"");
        assert_eq!(array(["1", "2"].into_iter().map(String::from)), "[1,2]");
    }
}
