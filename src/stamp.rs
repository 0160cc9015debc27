//! The 32 bits beside each fingerprint: what is known of it, as a number that only grows.
//!
//! ```text
//!  31       30 ........................ 2   1 0
//! | closed | version (29 bits)            | state |
//! ```
//!
//! The states are 0 undecided, 1 pending, 2 seen, 3 forgotten. The version counts ticks from the birth of
//! the table to the end of the ID's window; in a store that never forgets it counts revisions. Every
//! transition makes `version << 2 | state` larger:
//!
//! ```text
//! undecided                               -> seen(v)                  first sighting
//! undecided, forgotten(u) or seen(u) over -> pending(v)               claim
//! pending(v)                              -> seen(w), w >= v          commit, or a check after the lease
//! seen(v)                                 -> seen(w), w > v           sliding window
//! seen(v)                                 -> forgotten(v)             forget
//! forgotten(u) or seen(u) over            -> seen(v), v > u           seen anew
//! ```
//!
//! so what is known of an ID is a join-semilattice: two tables are merged by taking the maximum. The closed
//! bit belongs to rotation and is no part of the fact: once it is set no transition succeeds any more,
//! because every transition is a compare-and-swap from a stamp without it.
//!
//! # Synchronising pairs
//!
//! - P1 The compare-and-swap that decides ([`StampCell::advance`], Release) and every load or failed
//!   compare-and-swap that finds its outcome (Acquire). What the winner did before it decided is visible to
//!   whoever is told `Duplicate`: a handler that commits after its work may rely on it. Without it a
//!   duplicate could be answered from a result that the caller cannot see yet.
//! - P2 Closing ([`StampCell::close`], a read-modify-write with AcqRel) and the deciding compare-and-swap.
//!   Both are read-modify-writes of one word, so one comes first in its modification order: either closing
//!   returns the decision, or the decision fails. The Acquire side makes the winner's writes visible to the
//!   closer (as P1), the Release side hands on what the closer had seen.

use crate::sync::{AtomicU32, Ordering, is_mutant};

const CLOSED: u32 = 1 << 31;
const STATE_BITS: u32 = 2;

/// The largest version a stamp holds.
pub(crate) const VERSION_MAX: u32 = (1 << 29) - 1;

/// Ordering of the deciding compare-and-swap.
#[inline]
fn decide() -> Ordering {
    // Release and Acquire of P1; the mutant shows that the models notice its absence (Relaxed: mutant only).
    if is_mutant("decide_relaxed") { Ordering::Relaxed } else { Ordering::AcqRel }
}

/// What is known of a fingerprint in one table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// A slot, but no fact.
    Undecided,
    /// Somebody holds, or held, a lease: the lease table knows.
    Pending,
    /// Seen until the version's tick.
    Seen,
    /// Was seen and is forgotten; hides older tables.
    Forgotten,
}

/// One value of a stamp.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Stamp(u32);

impl Stamp {
    /// A slot without a fact.
    pub(crate) const UNDECIDED: Stamp = Stamp(0);

    /// # Panics
    ///
    /// When `version` is above [`VERSION_MAX`]: it would run into the closed bit.
    #[inline]
    pub(crate) fn new(state: State, version: u32) -> Stamp {
        assert!(version <= VERSION_MAX, "version {version} would overwrite the closed bit");
        let state_bits = match state {
            State::Undecided => 0,
            State::Pending => 1,
            State::Seen => 2,
            State::Forgotten => 3,
        };
        Stamp(version << STATE_BITS | state_bits)
    }

    /// The fact as a number, as files have it: without the closed bit.
    #[inline]
    pub(crate) fn to_bits(self) -> u32 {
        self.fact().0
    }

    /// The fact that a number states; a closed bit is no part of it.
    #[inline]
    pub(crate) fn from_bits(bits: u32) -> Stamp {
        Stamp(bits).fact()
    }

    #[inline]
    pub(crate) fn is_closed(self) -> bool {
        self.0 & CLOSED != 0
    }

    /// The fact without the closed bit.
    #[inline]
    pub(crate) fn fact(self) -> Stamp {
        Stamp(self.0 & !CLOSED)
    }

    #[inline]
    pub(crate) fn state(self) -> State {
        match self.0 & 3 {
            0 => State::Undecided,
            1 => State::Pending,
            2 => State::Seen,
            _ => State::Forgotten,
        }
    }

    #[inline]
    pub(crate) fn version(self) -> u32 {
        (self.0 & !CLOSED) >> STATE_BITS
    }
}

/// The stamp of a slot, shared by all threads.
#[repr(transparent)]
#[derive(Debug)]
pub(crate) struct StampCell(AtomicU32);

impl StampCell {
    #[cfg(any(loom, miri))]
    pub(crate) fn zeroed() -> Self {
        StampCell(AtomicU32::new(0))
    }

    /// The present value.
    #[inline]
    pub(crate) fn load(&self) -> Stamp {
        // Acquire of P1, against `advance`: what the winner did before is visible with its decision.
        Stamp(self.0.load(Ordering::Acquire))
    }

    /// Goes from `from` to `to`; the only operation that decides. `Err` holds what is there instead.
    ///
    /// # Panics
    ///
    /// When `to` is not larger than `from`: facts only grow.
    #[inline]
    pub(crate) fn advance(&self, from: Stamp, to: Stamp) -> Result<(), Stamp> {
        assert!(from < to && !to.is_closed(), "a stamp only grows: {from:?} to {to:?}");
        // On failure Acquire of P1: the caller acts on the decision of another.
        self.0.compare_exchange(from.0, to.0, decide(), Ordering::Acquire).map(drop).map_err(Stamp)
    }

    /// Ends all transitions and returns the last fact. Closing twice is harmless.
    #[inline]
    pub(crate) fn close(&self) -> Stamp {
        if is_mutant("closing_skipped") {
            return self.load().fact();
        }
        // AcqRel of P2, against `advance`: either this returns its decision or it fails.
        Stamp(self.0.fetch_or(CLOSED, Ordering::AcqRel)).fact()
    }

    /// Writes a fact into a table that only the caller writes to.
    #[inline]
    pub(crate) fn put(&self, stamp: Stamp) {
        // Relaxed: a merged table is read only under views that are published after this.
        self.0.store(stamp.0, Ordering::Relaxed);
    }

    /// A planted fault for the models: what an abort must never do.
    #[cfg(mutants)]
    pub(crate) fn reset(&self) {
        // Relaxed: a planted fault.
        self.0.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn stamp_fields_come_back_as_given() {
        for version in [0, 1, 77, VERSION_MAX] {
            for state in [State::Undecided, State::Pending, State::Seen, State::Forgotten] {
                let stamp = Stamp::new(state, version);
                assert_eq!((stamp.state(), stamp.version()), (state, version));
                assert!(!stamp.is_closed());
            }
        }
    }

    #[test]
    fn documented_transitions_make_the_number_larger() {
        use State::{Forgotten, Pending, Seen, Undecided};
        let steps = [
            (Undecided, 0, Seen, 1),
            (Undecided, 0, Pending, 0),
            (Forgotten, 4, Pending, 5),
            (Seen, 4, Pending, 5),
            (Pending, 5, Seen, 5),
            (Seen, 5, Seen, 6),
            (Seen, 6, Forgotten, 6),
            (Forgotten, 6, Seen, 7),
        ];
        for (from, version_from, to, version_to) in steps {
            assert!(Stamp::new(from, version_from) < Stamp::new(to, version_to));
        }
    }

    #[test]
    fn closed_stamp_keeps_its_fact_and_refuses_transitions() {
        let cell = StampCell(AtomicU32::new(0));
        let seen = Stamp::new(State::Seen, 9);
        assert_eq!(cell.advance(Stamp::UNDECIDED, seen), Ok(()));
        assert_eq!(cell.close(), seen);
        assert_eq!(cell.close(), seen);
        let found = cell.advance(seen, Stamp::new(State::Forgotten, 9)).unwrap_err();
        assert!(found.is_closed());
        assert_eq!(found.fact(), seen);
    }

    #[test]
    #[should_panic(expected = "a stamp only grows")]
    fn smaller_stamp_is_refused() {
        let cell = StampCell(AtomicU32::new(0));
        let _ = cell.advance(Stamp::new(State::Seen, 2), Stamp::new(State::Seen, 1));
    }
}
