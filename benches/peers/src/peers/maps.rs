//! Sets in memory, all over the same keys and hash.

use std::sync::{Mutex, MutexGuard, PoisonError};

use dashmap::DashSet;
use firstseen::Verdict;
use hashbrown::HashSet;

use crate::key::{Id, LowHalf, key_of};
use crate::peer::{Outcome, Peer, Place, Session};

/// `hashbrown` for one thread; for more a lock is taken for each batch.
pub(super) fn hashbrown(place: &Place) -> Outcome<Box<dyn Peer>> {
    let set = HashSet::with_capacity_and_hasher(usize::try_from(place.keys_expected)?, LowHalf);
    Ok(Box::new(Locked { set: Mutex::new(set), is_shared: place.threads > 1 }))
}

/// `dashmap`, the sharded set.
pub(super) fn dashset(place: &Place) -> Outcome<Box<dyn Peer>> {
    let set = DashSet::with_capacity_and_hasher(usize::try_from(place.keys_expected)?, LowHalf);
    Ok(Box::new(Dash(set)))
}

/// `papaya`, the lock-free set.
pub(super) fn papaya(place: &Place) -> Outcome<Box<dyn Peer>> {
    let capacity = usize::try_from(place.keys_expected)?;
    Ok(Box::new(Papaya(papaya::HashSet::builder().capacity(capacity).hasher(LowHalf).build())))
}

type Keys = HashSet<u128, LowHalf>;

struct Locked {
    set: Mutex<Keys>,
    is_shared: bool,
}

impl Locked {
    fn lock(&self) -> MutexGuard<'_, Keys> {
        self.set.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Peer for Locked {
    fn session(&self) -> Outcome<Box<dyn Session + '_>> {
        Ok(if self.is_shared { Box::new(Sharing(self)) } else { Box::new(Alone(self.lock())) })
    }
}

/// Takes the lock for each batch.
struct Sharing<'a>(&'a Locked);

impl Session for Sharing<'_> {
    fn check_batch(&mut self, ids: &[Id], verdicts: &mut [Verdict]) -> Outcome<()> {
        let mut set = self.0.lock();
        answer(ids, verdicts, |key| set.insert(key));
        Ok(())
    }
}

/// Took the lock once and for all.
struct Alone<'a>(MutexGuard<'a, Keys>);

impl Session for Alone<'_> {
    fn check_batch(&mut self, ids: &[Id], verdicts: &mut [Verdict]) -> Outcome<()> {
        answer(ids, verdicts, |key| self.0.insert(key));
        Ok(())
    }
}

struct Dash(DashSet<u128, LowHalf>);

impl Peer for Dash {
    fn session(&self) -> Outcome<Box<dyn Session + '_>> {
        Ok(Box::new(&self.0))
    }
}

impl Session for &DashSet<u128, LowHalf> {
    fn check_batch(&mut self, ids: &[Id], verdicts: &mut [Verdict]) -> Outcome<()> {
        answer(ids, verdicts, |key| self.insert(key));
        Ok(())
    }
}

struct Papaya(papaya::HashSet<u128, LowHalf>);

impl Peer for Papaya {
    fn session(&self) -> Outcome<Box<dyn Session + '_>> {
        Ok(Box::new(&self.0))
    }
}

impl Session for &papaya::HashSet<u128, LowHalf> {
    fn check_batch(&mut self, ids: &[Id], verdicts: &mut [Verdict]) -> Outcome<()> {
        let set = self.pin();
        answer(ids, verdicts, |key| set.insert(key));
        Ok(())
    }
}

/// Answers one by one, as a set without batches does.
#[inline]
fn answer(ids: &[Id], verdicts: &mut [Verdict], mut insert: impl FnMut(u128) -> bool) {
    for (id, verdict) in ids.iter().zip(verdicts) {
        *verdict = if insert(key_of(id)) { Verdict::FirstSeen } else { Verdict::Duplicate };
    }
}
