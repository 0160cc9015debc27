//! Batches: the same checks, with the memory accesses of many overlapped.
//!
//! A check of one ID waits about 100 ns for its cache line. A batch asks for the lines of IDs further on while
//! it decides the present one, in three stages:
//!
//! ```text
//! index:        decided | deciding ... screening ... hashing
//!                         i - 2 * AHEAD  i - AHEAD     i
//! ```
//!
//! Hashing asks for the line in the active table and for the filter blocks; screening asks the filters, and for
//! the lines of the tables that may have the ID; deciding is [`View::check`], in the order of the batch, so a
//! second equal ID in one batch is a duplicate. While there is only the active table screening is left out.

use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::limits::BATCH_CHUNK;
use crate::verdict::Verdict;
use crate::window::Moment;

use super::core::Recorded;
use super::engine::Engine;
use super::view::{Retry, View};

/// How many IDs the stages are apart. Measured with 36-byte IDs and 10^7 keys in huge pages: see `benches/`.
const AHEAD: usize = 16;

/// IDs in flight at the same time, a power of two.
const RING: usize = 64;
const _: () = assert!(RING.is_power_of_two() && RING > 2 * AHEAD);

/// Where and why a chunk stopped.
struct Stop {
    index: usize,
    cause: StopCause,
}

enum StopCause {
    Retry,
    Error(Error),
}

impl Engine {
    /// Checks a batch in order; `fingerprint` gives the fingerprint of the item with an index.
    ///
    /// # Errors
    ///
    /// [`Error::Partial`] with the number of answered items and the cause.
    pub(crate) fn check_batch(
        &self,
        verdicts: &mut [Verdict],
        moment: Moment,
        fingerprint: impl Fn(usize) -> Result<Fingerprint>,
    ) -> Result<()> {
        let mut done = 0;
        while done < verdicts.len() {
            let end = (done + BATCH_CHUNK).min(verdicts.len());
            let mut stopped = self.check_chunk(&mut verdicts[done..end], moment, |i| fingerprint(done + i));
            done = stopped.as_ref().map_or(end, |stop| done + stop.index);
            if let Some(Stop { cause: StopCause::Retry, .. }) = stopped {
                // The view has moved on, or the ID is pending: this item alone, with all that it takes.
                match fingerprint(done).and_then(|key| self.check(key, moment)) {
                    Ok(verdict) => {
                        verdicts[done] = verdict;
                        done += 1;
                        stopped = None;
                    }
                    Err(error) => stopped = Some(Stop { index: 0, cause: StopCause::Error(error) }),
                }
            }
            if let Some(Stop { cause: StopCause::Error(error), .. }) = stopped {
                return Err(Error::Partial { answered: done, cause: Box::new(error) });
            }
        }
        Ok(())
    }

    /// Checks one chunk under one view; says where it stopped, if it did not reach the end.
    fn check_chunk(
        &self,
        verdicts: &mut [Verdict],
        moment: Moment,
        fingerprint: impl Fn(usize) -> Result<Fingerprint>,
    ) -> Option<Stop> {
        let view = self.views.load();
        let mut recorded = Recorded::default();
        let stop = if view.is_single() {
            view.check_chunk::<false>(verdicts, moment, fingerprint, &mut recorded)
        } else {
            view.check_chunk::<true>(verdicts, moment, fingerprint, &mut recorded)
        };
        self.settle(&view, moment, &recorded);
        stop.err()
    }
}

impl View {
    /// The three stages, or two when there is nothing to screen.
    fn check_chunk<const SCREENS: bool>(
        &self,
        verdicts: &mut [Verdict],
        moment: Moment,
        fingerprint: impl Fn(usize) -> Result<Fingerprint>,
        recorded: &mut Recorded,
    ) -> Result<(), Stop> {
        let mut keys = [Fingerprint::from_halves(1, 1); RING];
        let mut candidates = [0_u32; RING];
        let lag = if SCREENS { 2 * AHEAD } else { AHEAD };
        let count = verdicts.len();
        let mut failed = None;
        let mut hashed = count;
        for step in 0..count + lag {
            if step < hashed {
                match fingerprint(step) {
                    Ok(key) => {
                        keys[step % RING] = key;
                        if SCREENS { self.prefetch(key) } else { self.active.prefetch(key) }
                    }
                    Err(error) => {
                        hashed = step;
                        failed = Some(error);
                    }
                }
            }
            if SCREENS && step >= AHEAD && step - AHEAD < hashed {
                let key = keys[(step - AHEAD) % RING];
                let screened = self.screen(key);
                candidates[(step - AHEAD) % RING] = screened;
                self.prefetch_candidates(key, screened);
            }
            if step >= lag {
                let index = step - lag;
                if index >= hashed {
                    let cause = failed.map_or(StopCause::Retry, StopCause::Error);
                    return Err(Stop { index, cause });
                }
                let screened = if SCREENS { Some(candidates[index % RING]) } else { None };
                match self.check(keys[index % RING], moment, screened, recorded) {
                    Ok(verdict) => verdicts[index] = verdict,
                    Err(Retry::Moved | Retry::Crowded | Retry::Outdated | Retry::Pending) => {
                        return Err(Stop { index, cause: StopCause::Retry });
                    }
                }
            }
        }
        Ok(())
    }
}
