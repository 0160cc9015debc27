//! One line of a generation as bytes: written slot by slot, and read only with its checksum.

use crate::codec::checksum;
use crate::fingerprint::Fingerprint;
use crate::limits::{LINE_BYTES, SLOTS_PER_LINE};
use crate::stamp::{Stamp, State};

/// Bytes in a line.
pub(super) const BYTES: usize = 64;

/// Slots in a line.
pub(super) const SLOTS: usize = 3;

const _: () = assert!(BYTES as u64 == LINE_BYTES && SLOTS as u64 == SLOTS_PER_LINE);

/// Where the stamps begin, and where the checksum is.
const STAMPS_AT: usize = 48;
const CHECK_AT: usize = 60;

/// A line, checked or not.
pub(super) type Line = [u8; BYTES];

/// What a line says about a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Look {
    /// The key is here.
    Hit(Stamp),
    /// The key is nowhere: here is an empty slot or a later key.
    Absent,
    /// All slots belong to earlier keys: the search goes on in the next line.
    Further,
}

/// Writes a slot.
pub(super) fn put(line: &mut Line, slot: usize, key: Fingerprint, stamp: Stamp) {
    line[16 * slot..16 * slot + 16].copy_from_slice(&key.to_bytes());
    let at = STAMPS_AT + 4 * slot;
    line[at..at + 4].copy_from_slice(&stamp.to_bits().to_le_bytes());
}

/// Writes the checksum, when all slots are written.
pub(super) fn seal(line: &mut Line, seed: u64) {
    let check = check_of(line, seed);
    line[CHECK_AT..].copy_from_slice(&check.to_le_bytes());
}

/// Whether the line is what was written in this place.
#[inline]
pub(super) fn is_intact(line: &Line, seed: u64) -> bool {
    line[CHECK_AT..] == check_of(line, seed).to_le_bytes()
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "a line has room for the low half")]
fn check_of(line: &Line, seed: u64) -> u32 {
    checksum(seed, &line[..CHECK_AT]) as u32
}

/// Looks for a key in a line that is intact.
#[inline]
pub(super) fn look(line: &Line, key: Fingerprint) -> Look {
    // Compared without a branch, as in memory: which slot a key is in cannot be predicted.
    let mut hits = 0_u32;
    let mut ends = 0_u32;
    for slot in 0..SLOTS {
        let (hi, lo) = halves(line, slot);
        hits |= u32::from((hi == key.hi()) & (lo == key.lo())) << slot;
        ends |= u32::from((hi == 0) | (hi > key.hi()));
    }
    if hits != 0 {
        Look::Hit(stamp(line, hits.trailing_zeros() as usize))
    } else if ends != 0 {
        Look::Absent
    } else {
        Look::Further
    }
}

/// The facts of a line that is intact, in order; `None` in the place of what no writer has written.
pub(super) fn slots(line: &Line) -> impl Iterator<Item = Option<(Fingerprint, State, u32)>> {
    (0..SLOTS).filter_map(move |slot| match halves(line, slot) {
        (0, 0) if stamp(line, slot) == Stamp::UNDECIDED => None,
        (0, _) | (_, 0) => Some(None),
        (hi, lo) => {
            let fact = fact_of(stamp(line, slot));
            Some(fact.map(|(state, version)| (Fingerprint::from_halves(hi, lo), state, version)))
        }
    })
}

/// State and version; `None` for a state that is never sealed.
#[inline]
pub(super) fn fact_of(stamp: Stamp) -> Option<(State, u32)> {
    match stamp.state() {
        State::Undecided | State::Pending => None,
        state @ (State::Seen | State::Forgotten) => Some((state, stamp.version())),
    }
}

#[inline]
fn halves(line: &Line, slot: usize) -> (u64, u64) {
    let words = line.as_chunks::<8>().0;
    (u64::from_le_bytes(words[2 * slot]), u64::from_le_bytes(words[2 * slot + 1]))
}

#[inline]
fn stamp(line: &Line, slot: usize) -> Stamp {
    let words = line.as_chunks::<4>().0;
    Stamp::from_bits(u32::from_le_bytes(words[STAMPS_AT / 4 + slot]))
}
