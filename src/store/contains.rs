//! Whether many IDs are seen, without recording any: batches as in [`super::batch`], but read-only.

use crate::error::Result;
use crate::fingerprint::Fingerprint;
use crate::limits::BATCH_CHUNK;
use crate::window::Moment;

use super::engine::Engine;
use super::view::View;

/// How many IDs the stages are apart, as in a batch of checks.
const AHEAD: usize = 16;

/// IDs in flight at the same time, a power of two.
const RING: usize = 64;
const _: () = assert!(RING.is_power_of_two() && RING > 2 * AHEAD);

impl Engine {
    /// Says of each fingerprint whether it is seen and live.
    ///
    /// # Errors
    ///
    /// As [`Store::contains`](crate::Store::contains); what was answered before holds.
    pub(crate) fn contains_keys(
        &self,
        keys: &[Fingerprint],
        seen: &mut [bool],
        moment: Moment,
    ) -> Result<()> {
        let mut done = 0;
        while done < keys.len() {
            let end = (done + BATCH_CHUNK).min(keys.len());
            let view = self.views.load();
            if view.is_any_cold() {
                view.fetch(&keys[done..end]);
            }
            done += view.seen_chunk(&keys[done..end], &mut seen[done..end], moment);
            drop(view);
            if done < end {
                // The view has moved on, or a file can't be read: alone, with all that it takes.
                seen[done] = self.is_seen(keys[done], moment)?;
                done += 1;
            }
        }
        // What was answered as seen must not be undone by a crash (G2).
        self.acknowledge()
    }
}

impl View {
    /// Answers from the first on; returns how many were answered.
    fn seen_chunk(&self, keys: &[Fingerprint], seen: &mut [bool], moment: Moment) -> usize {
        let mut candidates = [0_u64; RING];
        let (mut touched, mut screened) = (0, 0);
        for (index, key) in keys.iter().enumerate() {
            while touched < (index + 2 * AHEAD).min(keys.len()) {
                self.prefetch(keys[touched]);
                touched += 1;
            }
            while screened < (index + AHEAD).min(touched) {
                let key = keys[screened];
                candidates[screened % RING] = self.screen(key);
                self.prefetch_candidates(key, candidates[screened % RING]);
                screened += 1;
            }
            match self.is_seen(*key, moment, Some(candidates[index % RING])) {
                Ok(is_seen) => seen[index] = is_seen,
                Err(_) => return index,
            }
        }
        keys.len()
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use crate::{Fingerprint, Options, Store, Verdict};

    #[test]
    fn batch_of_look_ups_equals_single_ones_and_records_nothing() {
        let store = Store::in_memory(Options::new().first_table_lines(64)).unwrap();
        let keys: Vec<Fingerprint> =
            (0..30_000_u32).map(|id| store.fingerprint(id.to_le_bytes()).unwrap()).collect();
        let odd: Vec<Fingerprint> = keys.iter().copied().skip(1).step_by(2).collect();
        store.check_fingerprints(&odd, &mut vec![Verdict::default(); odd.len()]).unwrap();
        for _ in 0..2 {
            let mut seen = vec![false; keys.len()];
            store.contains_fingerprints(&keys, &mut seen).unwrap();
            for (index, is_seen) in seen.into_iter().enumerate() {
                assert_eq!(is_seen, index % 2 == 1, "{index}");
            }
        }
        assert!(store.contains_fingerprints(&keys, &mut [false]).is_err());
    }
}
