//! Stores without "insert if absent": look the keys of a batch up, then write those that are not there.
//!
//! With one thread that is all. Two threads could both look before either writes, and both find a key new; so
//! each claims the keys of its batch first, in a set under one lock that is taken twice a batch. Keys which
//! another thread has claimed are put off until the others are written. Nobody waits while holding a claim.

use std::sync::{Mutex, MutexGuard, PoisonError};

use firstseen::Verdict;
use hashbrown::HashSet;

use crate::key::{Id, KeyBytes, LowHalf, SortedKeys};
use crate::peer::{Outcome, Session};

/// A store that can look up and write.
pub(super) trait Engine {
    /// Says of each key, in ascending order, whether it is there.
    fn look(&self, keys: &[KeyBytes], are_known: &mut Vec<bool>) -> Outcome<()>;

    /// Writes keys, all or none.
    fn write(&self, keys: &[KeyBytes]) -> Outcome<()>;
}

/// The keys that threads are at work on.
#[derive(Debug, Default)]
pub(super) struct InFlight(Mutex<HashSet<u128, LowHalf>>);

impl InFlight {
    /// For a number of threads; one needs none.
    pub(super) fn for_threads(threads: usize) -> Option<Self> {
        (threads > 1).then(Self::default)
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<u128, LowHalf>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keys claimed until this is dropped.
struct Claimed<'a> {
    in_flight: Option<&'a InFlight>,
    keys: Vec<(u128, u32)>,
}

impl<'a> Claimed<'a> {
    /// Claims what nobody holds of `keys`, and leaves the rest there.
    fn take(in_flight: Option<&'a InFlight>, keys: &mut Vec<(u128, u32)>) -> Self {
        let Some(shared) = in_flight else { return Self { in_flight, keys: std::mem::take(keys) } };
        let mut held = shared.lock();
        let mut own: Option<u128> = None;
        let claimed = keys.extract_if(.., |(key, _)| {
            let is_own = own == Some(*key) || held.insert(*key);
            own = if is_own { Some(*key) } else { own };
            is_own
        });
        let keys = claimed.collect();
        Self { in_flight, keys }
    }
}

impl Drop for Claimed<'_> {
    fn drop(&mut self) {
        if let Some(shared) = self.in_flight {
            let mut held = shared.lock();
            for (key, _) in &self.keys {
                held.remove(key);
            }
        }
    }
}

/// One thread's use of an engine.
pub(super) struct LookThenWrite<'a, E> {
    engine: &'a E,
    in_flight: Option<&'a InFlight>,
    sorted: SortedKeys,
    distinct: Vec<KeyBytes>,
    are_known: Vec<bool>,
    fresh: Vec<KeyBytes>,
}

impl<'a, E: Engine> LookThenWrite<'a, E> {
    /// Begins.
    pub(super) fn new(engine: &'a E, in_flight: Option<&'a InFlight>) -> Self {
        let sorted = SortedKeys::default();
        Self { engine, in_flight, sorted, distinct: Vec::new(), are_known: Vec::new(), fresh: Vec::new() }
    }

    /// Answers for keys that nobody else is at work on.
    fn decide(&mut self, keys: &[(u128, u32)], verdicts: &mut [Verdict]) -> Outcome<()> {
        self.distinct.clear();
        for group in keys.chunk_by(|left, right| left.0 == right.0) {
            self.distinct.push(group[0].0.to_be_bytes());
        }
        self.are_known.clear();
        self.engine.look(&self.distinct, &mut self.are_known)?;
        self.fresh.clear();
        for (key, is_known) in self.distinct.iter().zip(&self.are_known) {
            if !is_known {
                self.fresh.push(*key);
            }
        }
        if !self.fresh.is_empty() {
            self.engine.write(&self.fresh)?;
        }
        let groups = keys.chunk_by(|left, right| left.0 == right.0);
        for (group, is_known) in groups.zip(&self.are_known) {
            for (_, place) in group {
                verdicts[*place as usize] = Verdict::Duplicate;
            }
            if !is_known {
                verdicts[group[0].1 as usize] = Verdict::FirstSeen;
            }
        }
        Ok(())
    }
}

impl<E: Engine> Session for LookThenWrite<'_, E> {
    fn check_batch(&mut self, ids: &[Id], verdicts: &mut [Verdict]) -> Outcome<()> {
        self.sorted.fill(ids);
        let mut keys = std::mem::take(&mut self.sorted.0);
        while !keys.is_empty() {
            let claimed = Claimed::take(self.in_flight, &mut keys);
            if claimed.keys.is_empty() {
                std::thread::yield_now();
                continue;
            }
            self.decide(&claimed.keys, verdicts)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claim_of_keys_held_elsewhere_leaves_them() {
        let shared = InFlight::for_threads(2);
        let mut first = vec![(1, 0), (2, 1), (2, 2)];
        let held = Claimed::take(shared.as_ref(), &mut first);
        assert_eq!((first.len(), held.keys.len()), (0, 3));
        let mut second = vec![(2, 0), (2, 1), (3, 2)];
        let other = Claimed::take(shared.as_ref(), &mut second);
        assert_eq!((&second[..], &other.keys[..]), (&[(2, 0), (2, 1)][..], &[(3, 2)][..]));
        drop(held);
        assert_eq!(Claimed::take(shared.as_ref(), &mut second).keys.len(), 2);
    }
}
