//! The nearest known word to a mistyped one.

/// The word of `known` that `typed` was most likely meant to be; none when nothing is near.
pub(super) fn nearest<'a>(typed: &str, known: &[&'a str]) -> Option<&'a str> {
    let bare = typed.trim_start_matches('-');
    // The beginning of a long name is how flags get abbreviated; one letter says too little.
    if bare.len() > 1
        && let Some(whole) = known.iter().find(|word| word.trim_start_matches('-').starts_with(bare))
    {
        return Some(whole);
    }
    let (distance, word) =
        known.iter().map(|word| (edits(typed, word), *word)).min_by_key(|(edits, _)| *edits)?;
    (distance <= bare.len().div_ceil(3)).then_some(word)
}

/// Levenshtein distance: insertions, removals and replacements of one letter.
///
/// O(len of `a` * len of `b`) time, one row of memory.
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (above, letter) in a.chars().enumerate() {
        let mut diagonal = above;
        row[0] = above + 1;
        for (index, other) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != *other);
            diagonal = row[index + 1];
            row[index + 1] = replaced.min(row[index] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn edits_known_pairs_agree() {
        for (a, b, expected) in [("", "", 0), ("abc", "abc", 0), ("abc", "", 3), ("kitten", "sitting", 3)] {
            assert_eq!(edits(a, b), expected, "{a} {b}");
            assert_eq!(edits(b, a), expected, "{b} {a}");
        }
    }

    #[test]
    fn nearest_takes_beginnings_and_slips_but_no_strangers() {
        let known = ["--stats", "--json-stats", "--when-full"];
        assert_eq!(nearest("--json", &known), Some("--json-stats"));
        assert_eq!(nearest("--when_full", &known), Some("--when-full"));
        assert_eq!(nearest("--colour", &known), None);
        assert_eq!(nearest("-s", &known), None);
        assert_eq!(nearest("--stats", &[]), None);
    }
}
