//! Batches where look-ups have to wait for the disk: many pages are read at the same time.
//!
//! A page that is not in memory takes 50 to 100 us to read, and a disk serves dozens of reads at once. The
//! stages of [`super::batch`] are too close together for that: a processor's prefetch of a page that is not
//! there does nothing, and each look-up waits for its own. Here all of a chunk is screened first, and the
//! system is asked to read the page of each candidate; only then is the first ID decided.
//!
//! ```text
//! hash ... peek ... screen, ask for pages   of all IDs,   then decide each in the order of the batch
//! ```
//!
//! Asking takes a system call, so it is done only while a generation is likely to be [cold]: of look-ups in
//! its file 1 in 256 asks the system whether it has to wait, and if so, those of the next while are asked for
//! ahead, of which 1 in 16 is looked at in the same way. A system that can't say so is taken to have all in
//! memory.
//!
//! With 3 * 10^7 IDs in 4 files that the page cache knew nothing of, 85,000 duplicates a second were
//! confirmed in batches of 1024 and 12,000 one by one; 15,000 in the same batches without this. A resident
//! page costs 0.2 us to ask for.
//!
//! [cold]: super::sealed::Sealed::is_cold

use crate::fingerprint::Fingerprint;
use crate::limits::BATCH_CHUNK;
use crate::verdict::Verdict;
use crate::window::Moment;

use super::batch::{AHEAD, NO_KEY};
use super::core::Recorded;
use super::view::View;

impl View {
    /// Checks one chunk, all of it screened before the first is decided; returns how many were answered.
    #[inline(never)]
    pub(super) fn check_chunk_cold(
        &self,
        verdicts: &mut [Verdict],
        moment: Moment,
        key_of: impl Fn(usize) -> Option<Fingerprint>,
        recorded: &mut Recorded<'_>,
    ) -> usize {
        let mut keys = [NO_KEY; BATCH_CHUNK];
        let mut candidates = [None; BATCH_CHUNK];
        let (mut hashed, mut peeked, mut screened) = (0, 0, 0);
        let count = verdicts.len();
        while screened < count {
            while hashed < (screened + 2 * AHEAD).min(count) {
                let Some(key) = key_of(hashed) else { break };
                keys[hashed] = key;
                self.prefetch_lines(key);
                hashed += 1;
            }
            while peeked < (screened + AHEAD).min(hashed) {
                // What is known in the active table asks no filter.
                candidates[peeked] = (!self.is_in_active(keys[peeked])).then_some(0);
                if candidates[peeked].is_some() {
                    self.prefetch_filters(keys[peeked]);
                }
                peeked += 1;
            }
            if screened == hashed {
                break;
            }
            if let Some(found) = &mut candidates[screened] {
                *found = self.screen(keys[screened]);
                self.fetch_candidates(keys[screened], *found);
            }
            screened += 1;
        }
        for index in 0..screened {
            if let Some(ahead) = (index + AHEAD < screened).then_some(index + AHEAD) {
                self.prefetch_lines(keys[ahead]);
                self.prefetch_candidates(keys[ahead], candidates[ahead].unwrap_or(0));
            }
            match self.check(keys[index], moment, candidates[index], recorded) {
                Ok(verdict) => verdicts[index] = verdict,
                Err(_) => return index,
            }
        }
        screened
    }

    /// Asks the system for the pages of many keys at the same time.
    pub(super) fn fetch(&self, keys: &[Fingerprint]) {
        for (index, key) in keys.iter().enumerate() {
            if let Some(ahead) = keys.get(index + AHEAD) {
                self.prefetch(*ahead);
            }
            if !self.is_in_active(*key) {
                self.fetch_candidates(*key, self.screen(*key));
            }
        }
    }
}

#[cfg(test)]
#[cfg(not(any(loom, miri)))]
mod tests {
    use std::collections::HashSet;

    use crate::options::{Maintenance, Options};
    use crate::storage::scratch::seeds;
    use crate::storage::sim::SimDisk;
    use crate::store::Store;
    use crate::sync::Arc;
    use crate::verdict::Verdict;

    const IDS: u32 = 30_000;
    const FILES: u32 = 3;

    fn open(disk: &SimDisk) -> Store {
        // No thread brings what is asked a lot back into memory.
        Store::open_on(Arc::new(disk.clone()), Options::new().maintenance(Maintenance::Manual)).unwrap()
    }

    fn check(store: &Store, numbers: &[u32]) -> Vec<Verdict> {
        let ids: Vec<_> = numbers.iter().map(|number| number.to_le_bytes()).collect();
        let mut verdicts = vec![Verdict::default(); ids.len()];
        store.check_batch(&ids, &mut verdicts).unwrap();
        verdicts
    }

    /// A closed store with a file for each third of the IDs.
    fn closed_store() -> SimDisk {
        let disk = SimDisk::new(0);
        for file in 0..FILES {
            let store = open(&disk);
            let numbers: Vec<_> = (file * IDS..(file + 1) * IDS).collect();
            assert!(check(&store, &numbers).iter().all(|verdict| verdict.is_first_seen()));
            store.close().unwrap();
        }
        disk
    }

    /// Old IDs, new ones, and such as come again in the same batch.
    #[test]
    fn batches_of_a_cold_store_ask_ahead_and_answer_as_ever() {
        let disk = closed_store();
        for seed in seeds(4) {
            let disk = disk.kill();
            let (store, mut state) = (open(&disk), seed | 1);
            let mut below = |end: u32| {
                state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                u32::try_from(((state >> 32) * u64::from(end)) >> 32).unwrap()
            };
            assert_eq!(store.stats().generations, FILES as usize);
            let mut seen: HashSet<u32> = (0..FILES * IDS).collect();
            disk.cold(true);
            for batch in 0..40 {
                let count = [1, 100, 1024, 3000][below(4) as usize];
                let mut numbers: Vec<_> = (0..count).map(|_| below(2 * FILES * IDS)).collect();
                numbers.extend_from_within(..count / 8);
                for (number, verdict) in numbers.iter().zip(check(&store, &numbers)) {
                    let is_new = seen.insert(*number);
                    assert_eq!(verdict.is_first_seen(), is_new, "seed {seed}, batch {batch}, ID {number}");
                }
            }
            assert!(disk.advices() > u64::from(IDS) / 4, "seed {seed}: {}", disk.advices());
            let keys: Vec<_> =
                (0..3 * FILES * IDS).map(|number| store.fingerprint(number.to_le_bytes()).unwrap()).collect();
            let mut found = vec![false; keys.len()];
            let before = disk.advices();
            store.contains_fingerprints(&keys, &mut found).unwrap();
            assert!(disk.advices() - before > u64::from(IDS), "seed {seed}: {}", disk.advices());
            assert!((0..).zip(found).all(|(number, found)| found == seen.contains(&number)), "seed {seed}");
        }
    }

    /// A system call for each look-up is not paid any more once the system has all in memory.
    #[test]
    fn store_that_has_become_warm_asks_ahead_no_more() {
        let disk = closed_store();
        let store = open(&disk);
        let numbers: Vec<_> = (0..FILES * IDS).collect();
        let advices_in = |is_cold| {
            disk.cold(is_cold);
            let before = disk.advices();
            assert!(check(&store, &numbers).iter().all(|verdict| verdict.is_duplicate()));
            disk.advices() - before
        };
        assert_eq!(advices_in(false), 0);
        assert!(advices_in(true) > u64::from(FILES * IDS) * 9 / 10);
        let left = u64::from(FILES) * (super::super::sealed::COLD_ASKED + 1024);
        assert!((1..left).contains(&advices_in(false)));
        assert_eq!(advices_in(false), 0);
    }
}
