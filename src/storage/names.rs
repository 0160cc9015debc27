//! The names of the files in a store's directory, in one place.
//!
//! | name | what it is |
//! | --- | --- |
//! | `MANIFEST` | what the store is and which files belong to it |
//! | `SECRET` | the hash secret, unless the caller keeps it |
//! | `LOCK` | locked by the owner process, never removed |
//! | `log-0000000007` | segment 7 of the log |
//! | `generation-0000000007` | generation 7 |
//! | any of these with `.new` | half of it, left by a crash before it got its name |
//!
//! Numbers are never used again. A number of more than ten digits is written in full; every other spelling
//! of a number is not one of our names.

/// What the store is and which files belong to it.
pub(crate) const MANIFEST: &str = "MANIFEST";

/// The hash secret.
pub(crate) const SECRET: &str = "SECRET";

/// Locked as long as a process has the store open.
pub(crate) const LOCK: &str = "LOCK";

const SEGMENT: &str = "log-";
const GENERATION: &str = "generation-";
/// What the name of a file that is not whole yet ends in.
pub(crate) const TEMPORARY: &str = ".new";

/// What a file is for, by its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Name {
    /// The manifest.
    Manifest,
    /// The hash secret.
    Secret,
    /// The lock.
    Lock,
    /// The segment of the log with that number.
    Segment(u64),
    /// The generation with that number.
    Generation(u64),
    /// A generation that is not finished.
    GenerationTemporary(u64),
    /// Any other file of ours that is not finished.
    Temporary,
}

impl Name {
    /// What the name says; `None` for a name that is not one of ours.
    pub(crate) fn parse(name: &str) -> Option<Name> {
        match name {
            MANIFEST => return Some(Name::Manifest),
            SECRET => return Some(Name::Secret),
            LOCK => return Some(Name::Lock),
            _ => {}
        }
        if let Some(finished) = name.strip_suffix(TEMPORARY) {
            return match Name::parse(finished)? {
                Name::Generation(number) => Some(Name::GenerationTemporary(number)),
                Name::Lock | Name::GenerationTemporary(_) | Name::Temporary => None,
                Name::Manifest | Name::Secret | Name::Segment(_) => Some(Name::Temporary),
            };
        }
        let segment = name.strip_prefix(SEGMENT).and_then(number).map(Name::Segment);
        segment.or_else(|| name.strip_prefix(GENERATION).and_then(number).map(Name::Generation))
    }
}

/// File of a segment of the log.
pub(crate) fn segment_name(segment: u64) -> String {
    format!("{SEGMENT}{segment:010}")
}

/// File of a generation.
pub(crate) fn generation_name(id: u64) -> String {
    format!("{GENERATION}{id:010}")
}

/// What a file is called until it is whole.
pub(crate) fn temporary_name(name: &str) -> String {
    format!("{name}{TEMPORARY}")
}

/// A number as the names write it.
fn number(digits: &str) -> Option<u64> {
    let number = digits.parse().ok()?;
    (format!("{number:010}") == digits).then_some(number)
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_as_written() {
        for number in [0, 7, 9_999_999_999, 10_000_000_000, u64::MAX] {
            let (segment, generation) = (segment_name(number), generation_name(number));
            assert_eq!(Name::parse(&segment), Some(Name::Segment(number)));
            assert_eq!(Name::parse(&generation), Some(Name::Generation(number)));
            let temporary = temporary_name(&generation);
            assert_eq!(Name::parse(&temporary), Some(Name::GenerationTemporary(number)));
        }
        assert_eq!(segment_name(7), "log-0000000007");
        assert_eq!(temporary_name(&generation_name(7)), "generation-0000000007.new");
        assert_eq!(Name::parse(&temporary_name(MANIFEST)), Some(Name::Temporary));
        assert_eq!(Name::parse(&temporary_name(SECRET)), Some(Name::Temporary));
    }

    #[test]
    fn names_of_others_are_not_ours() {
        let others = ["", "log-", "log-7", "log-+000000007", "log-00000000007", "log-000000000x", "manifest"];
        let more =
            [".DS_Store", "generation-0000000007.new.new", "LOCK.new", "generation--000000001", ".new"];
        for name in others.iter().chain(&more) {
            assert_eq!(Name::parse(name), None, "{name}");
        }
    }
}
