//! A line: three fingerprints and their stamps in one cache line, the bucket of the table.
//!
//! ```text
//!  0        8        16       24       32       40       48   52   56   60   64
//!  | hi 0   | lo 0   | hi 1   | lo 1   | hi 2   | lo 2   | s0 | s1 | s2 | ck |
//! ```
//!
//! A `hi` of zero is an empty slot; a `hi` with a `lo` of zero is a slot that somebody is about to take and
//! that everybody may complete. Slots are taken in order, never emptied and never given to another key, so
//! each word is written once. `ck` belongs to sealed files and is unused in memory.

use crate::fingerprint::Fingerprint;
use crate::stamp::{Stamp, StampCell};
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Slots in a line.
pub(crate) const SLOTS: usize = 3;

const _: () = assert!(SLOTS as u64 == crate::limits::SLOTS_PER_LINE);
#[cfg(not(loom))]
const _: () = {
    assert!(size_of::<Line>() as u64 == crate::limits::LINE_BYTES && align_of::<Line>() == 64);
    assert!(std::mem::offset_of!(Line, stamps) == 48 && std::mem::offset_of!(Line, check) == 60);
};

/// Three slots.
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct Line {
    /// `hi` and `lo` of each slot.
    halves: [[AtomicU64; 2]; SLOTS],
    stamps: [StampCell; SLOTS],
    check: AtomicU32,
}

/// What a line says about a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Look {
    /// The key is in this slot.
    Hit(usize),
    /// The key is not in the table; this slot is the first that could take it.
    Vacant(usize),
    /// All slots belong to other keys: the search goes on in the next line.
    Full,
}

impl Line {
    #[cfg(any(loom, miri))]
    pub(crate) fn zeroed() -> Self {
        Line {
            halves: std::array::from_fn(|_| [AtomicU64::new(0), AtomicU64::new(0)]),
            stamps: std::array::from_fn(|_| StampCell::zeroed()),
            check: AtomicU32::new(0),
        }
    }

    /// Looks for a key without writing.
    ///
    /// An answer may be out of date when it is returned: a vacant slot can be taken at any time, and
    /// [`Line::claim_slot`] finds out.
    #[inline]
    pub(crate) fn look(&self, key: Fingerprint) -> Look {
        // All three slots are compared without a branch: which slot a key is in cannot be predicted.
        let mut hits = 0_u32;
        let mut vacant = 0_u32;
        for slot in 0..SLOTS {
            let hi = self.hi(slot);
            hits |= u32::from(hi == key.hi()) << slot;
            vacant |= u32::from(hi == 0) << slot;
        }
        if hits | vacant == 0 {
            return Look::Full;
        }
        if hits == 0 {
            return Look::Vacant(vacant.trailing_zeros() as usize);
        }
        self.look_among(hits, vacant, key)
    }

    /// Resolves slots with the right `hi`: nearly always there is one, and its `lo` is right too.
    #[inline]
    fn look_among(&self, mut hits: u32, vacant: u32, key: Fingerprint) -> Look {
        while hits != 0 {
            let slot = hits.trailing_zeros() as usize;
            match self.lo(slot) {
                lo if lo == key.lo() => return Look::Hit(slot),
                0 => return Look::Vacant(slot),
                _ => hits &= hits - 1,
            }
        }
        if vacant == 0 { Look::Full } else { Look::Vacant(vacant.trailing_zeros() as usize) }
    }

    /// Takes a slot for a key, or completes it for the key that it belongs to.
    ///
    /// Returns whether the slot is the key's, and if so whether this call has made it so. All threads
    /// that bring one key go through the slots in the same order and each slot is given away once, so they
    /// all end in the same slot.
    #[inline]
    pub(crate) fn claim_slot(&self, slot: usize, key: Fingerprint) -> SlotClaim {
        let [hi, lo] = &self.halves[slot];
        // Relaxed: the words are compared only with themselves; each is written once, and what hangs on a
        // slot is in its stamp (P1).
        if let Err(found) = hi.compare_exchange(0, key.hi(), Ordering::Relaxed, Ordering::Relaxed)
            && found != key.hi()
        {
            return SlotClaim::Foreign;
        }
        // Relaxed: as above. Whoever completes the slot decides which of the keys with this `hi` owns it.
        match lo.compare_exchange(0, key.lo(), Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => SlotClaim::Created,
            Err(found) if found == key.lo() => SlotClaim::Found,
            Err(_) => SlotClaim::Foreign,
        }
    }

    /// Writes a whole slot in a table that only the caller writes to.
    #[inline]
    pub(crate) fn put(&self, slot: usize, key: Fingerprint, stamp: Stamp) {
        // Relaxed: single writer; readers come under views that are published after this.
        self.halves[slot][0].store(key.hi(), Ordering::Relaxed);
        // Relaxed: as above.
        self.halves[slot][1].store(key.lo(), Ordering::Relaxed);
        self.stamps[slot].put(stamp);
    }

    /// The stamp of a slot.
    #[inline]
    pub(crate) fn stamp(&self, slot: usize) -> &StampCell {
        &self.stamps[slot]
    }

    /// All keys of the line with their facts.
    pub(crate) fn slots(&self) -> impl Iterator<Item = (Fingerprint, Stamp)> {
        (0..SLOTS).filter_map(|slot| Some((self.key(slot)?, self.stamps[slot].load().fact())))
    }

    /// Whether a search goes on in the next line: a slot that somebody is about to take is as good as taken.
    pub(crate) fn is_full(&self) -> bool {
        (0..SLOTS).all(|slot| self.hi(slot) != 0)
    }

    /// The key of a slot, if it has one.
    #[inline]
    fn key(&self, slot: usize) -> Option<Fingerprint> {
        let (hi, lo) = (self.hi(slot), self.lo(slot));
        if hi == 0 || lo == 0 { None } else { Some(Fingerprint::from_halves(hi, lo)) }
    }

    #[inline]
    fn hi(&self, slot: usize) -> u64 {
        // Relaxed: see `claim_slot`.
        self.halves[slot][0].load(Ordering::Relaxed)
    }

    #[inline]
    fn lo(&self, slot: usize) -> u64 {
        // Relaxed: see `claim_slot`.
        self.halves[slot][1].load(Ordering::Relaxed)
    }

    /// A planted fault for the models: what an abort must never do.
    #[cfg(mutants)]
    pub(crate) fn reset(&self, slot: usize) {
        self.stamps[slot].reset();
        // Relaxed: a planted fault.
        self.halves[slot][1].store(0, Ordering::Relaxed);
        // Relaxed: a planted fault.
        self.halves[slot][0].store(0, Ordering::Relaxed);
    }
}

/// Outcome of [`Line::claim_slot`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SlotClaim {
    /// The slot was empty and is the key's now.
    Created,
    /// The slot was the key's already.
    Found,
    /// The slot belongs to another key.
    Foreign,
}
