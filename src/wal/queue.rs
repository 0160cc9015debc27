//! The queue before the log: a ring of places, reserved by callers and emptied by whoever writes.
//!
//! A caller takes the next ticket (`tail`), fills the place of that ticket and publishes it. The writer, one
//! at a time, reads published places in the order of tickets and then moves `written`, which frees them:
//!
//! ```text
//!            written                tail
//!  ... free  | published  filling  | free ...
//! ```
//!
//! A place is reserved only while `tail - written` is less than there are places, so nobody waits here for
//! anybody but the writer for a place that is being filled: a few stores long, no call of the system in
//! between.
//!
//! # Synchronising pairs
//!
//! - P10 Publication: the facts of a place and everything before its reservation, written before
//!   [`Slot::drop`](Slot) stores the ticket (Release), are visible to the writer that finds it (Acquire).
//!   Without it a frame could be built from a place that is still being filled.
//! - P11 Release of places: what the writer did with places (read them, wrote them to the file) before it
//!   moved `written` (Release) is over for whoever finds it moved (Acquire): a caller that fills one anew, or
//!   one that was waiting for the write. Without it facts of the next round could be read in place of those
//!   of this one, and a caller could answer before its facts are written.

use crossbeam_utils::CachePadded;

use super::frame::{RECORD_BYTES, encode};
use crate::fingerprint::Fingerprint;
use crate::limits::{LOG_CELL_RECORDS, LOG_CELLS};
use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering, is_mutant, pause};

/// Bytes of facts in a place.
pub(super) const CELL_BYTES: usize = LOG_CELL_RECORDS * RECORD_BYTES;

/// Facts of one ticket, as they are written.
#[derive(Debug)]
struct Facts {
    len: usize,
    bytes: [u8; CELL_BYTES],
}

#[derive(Debug)]
struct Cell {
    /// One more than the ticket whose facts are complete here.
    published: AtomicU64,
    /// Never contended: the ticket's holder has it until it publishes, then the writer.
    facts: Mutex<Facts>,
}

#[derive(Debug)]
pub(super) struct Queue {
    cells: Box<[CachePadded<Cell>]>,
    tail: CachePadded<AtomicU64>,
    written: CachePadded<AtomicU64>,
}

impl Queue {
    pub(super) fn new() -> Queue {
        let cell = || Cell {
            published: AtomicU64::new(0),
            facts: Mutex::new(Facts { len: 0, bytes: [0; CELL_BYTES] }),
        };
        Queue {
            cells: (0..LOG_CELLS).map(|_| CachePadded::new(cell())).collect(),
            tail: CachePadded::new(AtomicU64::new(0)),
            written: CachePadded::new(AtomicU64::new(0)),
        }
    }

    /// Memory of all places.
    pub(super) fn memory_bytes(&self) -> u64 {
        size_of_val(&*self.cells) as u64
    }

    fn cell(&self, ticket: u64) -> &Cell {
        &self.cells[usize::try_from(ticket % LOG_CELLS).expect("there are few places")]
    }

    /// Takes the next ticket; `None` when every place is taken.
    #[inline]
    pub(super) fn take_ticket(&self) -> Option<u64> {
        // Relaxed: a stale value makes the compare-and-swap fail, which tells the present one.
        let mut ticket = self.tail.load(Ordering::Relaxed);
        loop {
            if ticket.saturating_sub(self.written()) >= LOG_CELLS {
                return None;
            }
            // Relaxed: the place was freed under P11, its facts are published under P10; a ticket alone makes
            // nothing visible.
            match self.tail.compare_exchange(ticket, ticket + 1, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Some(ticket),
                Err(found) => ticket = found,
            }
        }
    }

    /// Reserves a place; `None` when every one is taken.
    #[inline]
    pub(super) fn reserve(&self) -> Option<Slot<'_>> {
        let ticket = self.take_ticket()?;
        let cell = self.cell(ticket);
        let mut facts = cell.facts.lock();
        facts.len = 0;
        Some(Slot { cell, facts, ticket })
    }

    /// One more than the last ticket that was handed out.
    ///
    /// Whoever has seen an effect of what a caller did after it reserved sees its reservation here.
    #[inline]
    pub(super) fn tail(&self) -> u64 {
        // Relaxed: a caller that acts on what another decided has seen the decision under P1, and with it
        // the reservation that came before.
        self.tail.load(Ordering::Relaxed)
    }

    /// Everything below is in the file.
    #[inline]
    pub(super) fn written(&self) -> u64 {
        // Acquire of P11, against `set_written`.
        self.written.load(Ordering::Acquire)
    }

    /// Frees the places below `position`; only for the writer.
    pub(super) fn set_written(&self, position: u64) {
        // Release of P11: the writer is done with these places, and the file has what was in them.
        self.written.store(position, Ordering::Release);
    }

    /// Whether the facts of a ticket are complete.
    #[inline]
    pub(super) fn is_published(&self, ticket: u64) -> bool {
        // Acquire of P10, against the drop of a `Slot`.
        self.cell(ticket).published.load(Ordering::Acquire) == ticket + 1
    }

    /// Waits until the facts of a ticket, which was handed out, are complete.
    pub(super) fn wait_published(&self, ticket: u64) {
        let mut round = 0;
        while !self.is_published(ticket) {
            pause(round);
            round = round.saturating_add(1);
        }
    }

    /// Hands the complete facts of a ticket to `read`; only for the writer.
    pub(super) fn read(&self, ticket: u64, read: impl FnOnce(&[u8])) {
        debug_assert!(is_mutant("unpublished_read") || self.is_published(ticket));
        let facts = self.cell(ticket).facts.lock();
        read(&facts.bytes[..facts.len]);
    }
}

/// A reserved place. Dropping it publishes what it holds, be it nothing: the writer never waits for one that
/// is gone, not even when its holder panicked.
#[derive(Debug)]
pub(super) struct Slot<'q> {
    cell: &'q Cell,
    facts: MutexGuard<'q, Facts>,
    ticket: u64,
}

impl Slot<'_> {
    /// # Panics
    ///
    /// When it [is full](Slot::is_full).
    #[inline]
    pub(super) fn push(&mut self, key: Fingerprint, fact: u64) {
        let len = self.facts.len;
        self.facts.bytes[len..][..RECORD_BYTES].copy_from_slice(&encode(key, fact));
        self.facts.len = len + RECORD_BYTES;
    }

    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.facts.len == CELL_BYTES
    }

    #[inline]
    pub(super) fn ticket(&self) -> u64 {
        self.ticket
    }
}

impl Drop for Slot<'_> {
    #[inline]
    fn drop(&mut self) {
        // Release of P10: the facts are complete. The writer may have to wait for the lock, which goes with
        // the fields after this, but for no longer than that takes.
        self.cell.published.store(self.ticket + 1, Ordering::Release);
    }
}
