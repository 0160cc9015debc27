//! Batches: the same checks, with the memory accesses of many overlapped.
//!
//! A check of one ID waits about 100 ns for its cache line. A batch asks for the lines of IDs further on
//! while it decides the present one, in three stages, or four:
//!
//! ```text
//! index:        decided | deciding ... screening ... hashing
//!                         i - 2 * AHEAD  i - AHEAD     i
//! ```
//!
//! Hashing asks for the line in the active table and for the filter blocks; screening asks the filters, and
//! for the lines of the tables that may have the ID; deciding is [`View::check`], in the order of the
//! batch, so a second equal ID in one batch is a duplicate. While there is only the active table screening
//! is left out; where there are many, a stage before it peeks into the active table. Where look-ups have to
//! wait for the disk, [`super::cold`] goes further ahead.

use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::limits::BATCH_CHUNK;
use crate::table::prefetch;
use crate::verdict::Verdict;
use crate::window::Moment;

use super::core::Recorded;
use super::engine::Engine;
use super::view::View;

/// How many IDs the stages are apart.
///
/// With 36-byte IDs and 10^7 keys in huge pages 24 instead of 16 took 5 to 12 % longer for new IDs: the
/// processor has about that many line-fill buffers.
pub(super) const AHEAD: usize = 16;

/// How far before the hash an ID's bytes are asked for. Of 10^7 IDs of 36 bytes in a row a duplicate took 45
/// instead of 54 ns, a new ID 58 instead of 71; 12 and 48 came to the same.
const IDS_AHEAD: usize = 24;

/// IDs in flight at the same time, a power of two.
const RING: usize = 64;
const _: () = assert!(RING.is_power_of_two() && RING > 3 * AHEAD);

/// Frozen tables and generations from which on the active table is asked before their filters are.
const PEEK_FROM: usize = 3;

/// What the places of a ring hold before their first use.
pub(super) const NO_KEY: Fingerprint = Fingerprint::from_halves(1, 1);

impl Engine {
    /// Checks a batch of IDs in order.
    ///
    /// # Errors
    ///
    /// [`Error::Partial`] with the number of answered items and the cause.
    pub(crate) fn check_ids<T: AsRef<[u8]>>(
        &self,
        ids: &[T],
        verdicts: &mut [Verdict],
        moment: Moment,
    ) -> Result<()> {
        // A copy beside the other things that the loop uses: in the store's own memory its lines had to be
        // fetched again and again, which took 10 ns an ID.
        let hasher = self.hasher.clone();
        self.check_batch(
            verdicts,
            moment,
            |index| {
                // Where the IDs are strings each lies somewhere else; in a row they are read faster than the
                // processor foresees.
                if let Some(first) = ids.get(index + IDS_AHEAD).and_then(|id| id.as_ref().first()) {
                    prefetch(first);
                }
                hasher.fingerprint_if_taken(ids[index].as_ref())
            },
            |index| self.fingerprint(ids[index].as_ref()),
        )
    }

    /// Checks a batch of fingerprints in order.
    ///
    /// # Errors
    ///
    /// As [`Engine::check_ids`].
    pub(crate) fn check_keys(
        &self,
        keys: &[Fingerprint],
        verdicts: &mut [Verdict],
        moment: Moment,
    ) -> Result<()> {
        self.check_batch(verdicts, moment, |index| Some(keys[index]), |index| Ok(keys[index]))
    }

    /// Checks items in chunks. An item at which a chunk stops (the view has moved on, there is no room, the
    /// ID is pending or refused) is checked alone, with all that it takes. All are acknowledged at once.
    fn check_batch(
        &self,
        verdicts: &mut [Verdict],
        moment: Moment,
        key_of: impl Fn(usize) -> Option<Fingerprint>,
        key_or_error: impl Fn(usize) -> Result<Fingerprint>,
    ) -> Result<()> {
        let mut done = 0;
        let mut stopped = Ok(());
        while done < verdicts.len() && stopped.is_ok() {
            let end = (done + BATCH_CHUNK).min(verdicts.len());
            done += self.check_chunk(&mut verdicts[done..end], moment, |index| key_of(done + index));
            if done < end {
                match key_or_error(done).and_then(|key| self.decide(key, moment)) {
                    Ok(verdict) => {
                        verdicts[done] = verdict;
                        done += 1;
                    }
                    Err(cause) => stopped = Err(Error::Partial { answered: done, cause: Box::new(cause) }),
                }
            }
        }
        // What was decided holds only when it is as durable as promised.
        self.acknowledge().map_err(|cause| Error::Partial { answered: 0, cause: Box::new(cause) })?;
        stopped
    }

    /// Checks one chunk under one view; returns how many items were answered.
    fn check_chunk(
        &self,
        verdicts: &mut [Verdict],
        moment: Moment,
        key_of: impl Fn(usize) -> Option<Fingerprint>,
    ) -> usize {
        let view = self.views.load();
        let mut recorded = self.recorded();
        let answered = match view.depth() {
            _ if view.is_single() => view.check_chunk(verdicts, moment, key_of, &mut recorded),
            _ if view.is_any_cold() => view.check_chunk_cold(verdicts, moment, key_of, &mut recorded),
            behind if behind < PEEK_FROM => {
                view.check_chunk_screened::<false>(verdicts, moment, key_of, &mut recorded)
            }
            _ => view.check_chunk_screened::<true>(verdicts, moment, key_of, &mut recorded),
        };
        self.settle(&view, moment, &recorded);
        drop(recorded);
        answered
    }
}

impl View {
    /// Hashing and deciding, while there is only the active table.
    fn check_chunk(
        &self,
        verdicts: &mut [Verdict],
        moment: Moment,
        key_of: impl Fn(usize) -> Option<Fingerprint>,
        recorded: &mut Recorded<'_>,
    ) -> usize {
        let mut keys = [NO_KEY; RING];
        let count = verdicts.len();
        let mut hashed = 0;
        for index in 0..count {
            let ahead = (index + AHEAD).min(count);
            while hashed < ahead {
                let Some(key) = key_of(hashed) else { break };
                keys[hashed % RING] = key;
                self.active.prefetch(key);
                hashed += 1;
            }
            if index == hashed {
                return index;
            }
            match self.check(keys[index % RING], moment, Some(0), recorded) {
                Ok(verdict) => verdicts[index] = verdict,
                Err(_) => return index,
            }
        }
        count
    }

    /// Hashing, screening and deciding; where it `PEEKS`, looking into the active table before screening.
    ///
    /// Most duplicates come soon after the first: where there are many filters, those that the active table
    /// knows need not ask them. What it knows it goes on knowing, and without candidates a check that needs
    /// them screens for itself.
    fn check_chunk_screened<const PEEKS: bool>(
        &self,
        verdicts: &mut [Verdict],
        moment: Moment,
        key_of: impl Fn(usize) -> Option<Fingerprint>,
        recorded: &mut Recorded<'_>,
    ) -> usize {
        let mut keys = [NO_KEY; RING];
        let mut is_known = [false; RING];
        let mut candidates = [None; RING];
        let count = verdicts.len();
        let (mut hashed, mut peeked, mut screened) = (0, 0, 0);
        for index in 0..count {
            while hashed < (index + if PEEKS { 3 } else { 2 } * AHEAD).min(count) {
                let Some(key) = key_of(hashed) else { break };
                keys[hashed % RING] = key;
                self.prefetch_lines(key);
                hashed += 1;
                if !PEEKS {
                    self.prefetch_filters(key);
                    peeked = hashed;
                }
            }
            while PEEKS && peeked < (index + 2 * AHEAD).min(hashed) {
                let key = keys[peeked % RING];
                is_known[peeked % RING] = self.is_in_active(key);
                if !is_known[peeked % RING] {
                    self.prefetch_filters(key);
                }
                peeked += 1;
            }
            while screened < (index + AHEAD).min(peeked) {
                let key = keys[screened % RING];
                let found = (!is_known[screened % RING]).then(|| self.screen(key));
                self.prefetch_candidates(key, found.unwrap_or(0));
                candidates[screened % RING] = found;
                screened += 1;
            }
            if index == hashed {
                return index;
            }
            match self.check(keys[index % RING], moment, candidates[index % RING], recorded) {
                Ok(verdict) => verdicts[index] = verdict,
                Err(_) => return index,
            }
        }
        count
    }
}
