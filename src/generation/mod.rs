//! A generation: a sealed, immutable table in a file, with its Bloom filter.
//!
//! ```text
//! 0          4096                                                                        bytes
//! | header   | line 0 | line 1 | ... | line n - 1 | block 0 | ... | block b - 1 | footer |
//!   4096       64 each                              32 each                       64
//! ```
//!
//! All numbers are little-endian. The header (see `header`) has the sizes of the parts and their checksums,
//! the footer repeats the checksum of the header. A line holds up to three facts:
//!
//! ```text
//!  0        8        16       24       32       40       48   52   56   60   64
//!  | hi 0   | lo 0   | hi 1   | lo 1   | hi 2   | lo 2   | s0 | s1 | s2 | ck |
//! ```
//!
//! A `hi` of zero is an empty slot, whose other words are zero too; slots are filled in order. A stamp `s` is
//! `version << 2 | state` with the states 2 seen and 3 forgotten; the version counts ticks from the birth of
//! the generation, and the closed bit is never written. `ck` is the low half of the XXH3-64 of bytes 0 to 59,
//! under a seed made of store, generation and number of the line. A block of the filter is as in memory:
//! eight words of 32 bits.
//!
//! # Where a key is
//!
//! The home line of a key is `(hi * home_lines) >> 64`. Keys come to the writer in the order of `hi`, and
//! each goes to its home line, or to the line that is being filled when that is further on. So the whole file
//! is in the order of `hi`, and a search from the home line ends with the first empty slot or the first
//! larger `hi`: a miss walks no further than a hit. A key that would end up more than
//! [`SPARE_LINES`](crate::limits::SPARE_LINES) behind its home is refused.
//!
//! # Example
//!
//! One key, `hi` 2^63, seen until tick 7, in a generation born at tick 5 with one home line, has the stamp
//! `(7 - 5) << 2 | 2 = 10`: bytes 4096 to 4103 are `00 00 00 00 00 00 00 80`, then follow `lo`, 32 zeros,
//! `0a 00 00 00`, eight zeros and `ck`. With one block and the footer the file has 4096 + 64 + 32 + 64 bytes.
//!
//! # What a crash can leave
//!
//! The file is written under a temporary name, lines, filter, footer, and the header last, then synced, and
//! only then renamed. So a crash leaves the temporary file, which is worth nothing, or the whole file. It
//! counts from when a manifest names it.
//!
//! # What is checked
//!
//! Opening checks the length, the header, the footer and the filter, and that this is the file which the
//! manifest names. Every line proves itself whenever it is read, on a miss as on a hit (G4): the seeds make
//! lines in another's place, or from another file, as bad as flipped bits. A damaged filter is made anew from
//! the lines. [`Generation::verify`] reads everything.
//!
//! # Versions
//!
//! 1: this one. In all versions the magic, the version behind it and the header's checksum stay where they
//! are, so that a later version is told from damage. Bytes that are zero here may get a meaning that readers
//! of version 1 can do without.

mod file;
mod filter;
mod header;
mod line;
mod reader;
mod salvage;
mod scan;
#[cfg(test)]
#[cfg(not(loom))]
pub(crate) mod tests;
mod verify;
mod writer;

pub(crate) use self::file::Access;
pub(crate) use self::reader::Generation;
pub(crate) use self::salvage::{Labelled, Survivors, read_label};
pub(crate) use self::writer::{GenerationWriter, Spec};

use crate::codec::checksum;
use crate::fingerprint::Fingerprint;
use crate::stamp::State;

/// What a generation knows of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SealedFact {
    pub(crate) key: Fingerprint,
    /// Seen or forgotten.
    pub(crate) state: State,
    /// Absolute, in ticks; in a store that never forgets, a revision.
    pub(crate) until: u64,
}

/// A generation as the manifest names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Sealed {
    pub(crate) id: u64,
    /// Length of the file.
    pub(crate) bytes: u64,
    pub(crate) lines: u64,
    /// Keys in it.
    pub(crate) ids: u64,
    /// The tick that its versions count from.
    pub(crate) birth: u64,
    /// The least `until` in it; `u64::MAX` when it is empty.
    pub(crate) until_min: u64,
    /// The largest `until` in it; 0 when it is empty.
    pub(crate) until_max: u64,
    /// Checksum of its header, which has those of all other parts.
    pub(crate) header_checksum: u64,
}

/// Where the checksums of one file start, so that no part fits another file.
#[derive(Clone, Copy, Debug)]
struct Seeds {
    line: u64,
    lines: u64,
    filter: u64,
    footer: u64,
}

impl Seeds {
    fn new(store_id: u64, id: u64) -> Seeds {
        let mut names = [0; 16];
        names[..8].copy_from_slice(&store_id.to_le_bytes());
        names[8..].copy_from_slice(&id.to_le_bytes());
        let of = |part| checksum(part, &names);
        Seeds { line: of(1), lines: of(2), filter: of(3), footer: of(4) }
    }

    /// Of the line with that number.
    #[inline]
    fn of_line(self, line_index: u64) -> u64 {
        // An odd factor: different for every line.
        self.line.wrapping_add(line_index.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }
}

/// Home line of every key with this `hi`.
#[inline]
fn home(hi: u64, home_lines: u64) -> u64 {
    ((u128::from(hi) * u128::from(home_lines)) >> 64) as u64
}
