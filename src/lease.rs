//! Who holds a lease on which ID, and until when.
//!
//! A claim leaves `Pending` in the ID's stamp; that only says: ask here. Leases live in memory alone, a
//! crash releases them all. Every transition of a stamp into or out of `Pending` happens while the lock of
//! the ID's shard is held, so what a holder of the lock reads here agrees with the stamp.
//!
//! A lease is fenced by its attempt number, which is never used twice (G3): once somebody else has taken
//! the ID over, a commit or abort with the old number finds another number, or none, and is refused.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};

use crossbeam_utils::CachePadded;

use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::limits::LEASE_SHARDS;
use crate::sync::{Counter, Mutex, MutexGuard, is_mutant};

/// The right to commit, abort or extend one lease: a plain value that may be sent elsewhere and come back.
///
/// It is worth nothing once the lease was committed, aborted or taken over, or the store was closed.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Token {
    fingerprint: Fingerprint,
    attempt: u64,
}

impl Token {
    /// From parts that [`Token::fingerprint`] and [`Token::attempt`] gave.
    #[must_use]
    pub const fn from_parts(fingerprint: Fingerprint, attempt: u64) -> Token {
        Token { fingerprint, attempt }
    }

    /// The fingerprint of the leased ID.
    #[must_use]
    pub const fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// Number of the claim, larger than that of every earlier claim in this store: a fencing token for
    /// whatever else the work touches.
    #[must_use]
    pub const fn attempt(&self) -> u64 {
        self.attempt
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({:?}, attempt {})", self.fingerprint, self.attempt)
    }
}

/// One lease.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Holder {
    pub(crate) attempt: u64,
    /// The first moment at which the lease is over.
    pub(crate) until: Timestamp,
    /// Whether its commit is being logged: until that is over nobody can take it over or change it.
    is_committing: bool,
}

/// All leases of a store.
#[derive(Debug)]
pub(crate) struct Leases {
    shards: Box<[CachePadded<Mutex<Shard>>]>,
    attempts: Counter,
    held: Counter,
    /// No lease ends before this time, as far as is known: when to look for some that are over.
    earliest_end_ms: Counter,
    leases_max: u64,
}

/// The leases on a part of the IDs, behind one lock.
#[derive(Debug, Default)]
pub(crate) struct Shard {
    holders: HashMap<Fingerprint, Holder, BuildHasherDefault<LoHasher>>,
    /// The most that the map has had room for. What it says itself is less while removed entries leave marks.
    room_max: usize,
}

impl Leases {
    /// For at most `leases_max` leases, whose attempt numbers exceed `attempts_before`.
    pub(crate) fn new(leases_max: u64, attempts_before: u64) -> Leases {
        let shards = (0..LEASE_SHARDS).map(|_| CachePadded::new(Mutex::new(Shard::default()))).collect();
        let attempts = Counter::default();
        attempts.set(attempts_before);
        Leases { shards, attempts, held: Counter::default(), earliest_end_ms: Counter::default(), leases_max }
    }

    /// Locks the shard of a key. No I/O and no waiting for other locks happens under it.
    pub(crate) fn lock(&self, key: Fingerprint) -> MutexGuard<'_, Shard> {
        self.shards[shard_index(key)].lock()
    }

    /// The last attempt number that was used.
    pub(crate) fn attempts(&self) -> u64 {
        self.attempts.get()
    }

    /// Leases that are held, those that are over but not taken over included.
    pub(crate) fn held(&self) -> u64 {
        self.held.get()
    }

    /// Memory of all leases, which is not given back when they end.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let maps = self.shards.iter().map(|shard| map_bytes(shard.lock().room_max));
        maps.sum::<u64>() + size_of_val(&*self.shards) as u64
    }

    /// The keys of all leases, shard by shard.
    pub(crate) fn keys(&self) -> Vec<Fingerprint> {
        self.shards
            .iter()
            .flat_map(|shard| shard.lock().holders.keys().copied().collect::<Vec<_>>())
            .collect()
    }

    /// Grants a lease on `key`, in the place of any that is over.
    ///
    /// # Errors
    ///
    /// [`Error::LeaseLimit`] when as many leases as allowed are held; [`Leases::sweep`] may make room.
    pub(crate) fn grant(
        &self,
        shard: &mut Shard,
        key: Fingerprint,
        now: Timestamp,
        until: Timestamp,
    ) -> Result<Token> {
        debug_assert!(shard.live(key, now).is_none(), "a live lease is never given to somebody else");
        if !shard.holders.contains_key(&key) {
            if self.held.get() >= self.leases_max {
                return Err(Error::LeaseLimit { leases_max: self.leases_max });
            }
            self.held.add(1);
        }
        self.earliest_end_ms.lower(until.as_millis());
        let attempt = self.attempts.add(1);
        shard.holders.insert(key, Holder { attempt, until, is_committing: false });
        shard.room_max = shard.room_max.max(shard.holders.capacity());
        Ok(Token { fingerprint: key, attempt })
    }

    /// Ends the lease on `key`, whoever holds it.
    pub(crate) fn end(&self, shard: &mut Shard, key: Fingerprint) {
        if shard.holders.remove(&key).is_some() {
            self.held.sub(1);
        }
    }

    /// Whether half of the allowed number of leases is held.
    pub(crate) fn is_half_full(&self) -> bool {
        self.held.get() > self.leases_max / 2
    }

    /// Forgets leases that are over: their holders are refused from now on. Returns how many.
    ///
    /// The caller holds the lock of no shard. Looks at nothing while no lease can be over, so that claims at
    /// the limit do not search in vain.
    pub(crate) fn sweep(&self, now: Timestamp) -> u64 {
        if now.as_millis() < self.earliest_end_ms.get() {
            return 0;
        }
        self.earliest_end_ms.set(u64::MAX);
        let mut dropped = 0;
        for shard in &self.shards {
            let mut shard = shard.lock();
            let before = shard.holders.len();
            shard.holders.retain(|_, holder| holder.until > now || holder.is_committing);
            let earliest = shard.holders.values().map(|holder| holder.until.as_millis()).min();
            self.earliest_end_ms.lower(earliest.unwrap_or(u64::MAX));
            dropped += (before - shard.holders.len()) as u64;
        }
        self.held.sub(dropped);
        dropped
    }
}

impl Shard {
    /// The holder of a lease on `key` that is not over, or that is being committed.
    pub(crate) fn live(&self, key: Fingerprint, now: Timestamp) -> Option<Holder> {
        self.holders.get(&key).copied().filter(|holder| holder.until > now || holder.is_committing)
    }

    /// Whether the lease on `key` is being committed.
    pub(crate) fn is_committing(&self, key: Fingerprint) -> bool {
        self.holders.get(&key).is_some_and(|holder| holder.is_committing)
    }

    /// Whether there is a lease on `key`, over or not.
    pub(crate) fn holds(&self, key: Fingerprint) -> bool {
        self.holders.contains_key(&key)
    }

    /// The lease of a token, if nobody has taken it over; it may be over.
    ///
    /// # Errors
    ///
    /// [`Error::LeaseLost`] when it is gone, somebody else's, or being committed already.
    pub(crate) fn of_token(&mut self, token: Token) -> Result<&mut Holder> {
        let lost = Error::LeaseLost { attempt: token.attempt };
        let holder = self.holders.get_mut(&token.fingerprint).ok_or_else(|| lost.clone())?;
        let is_holder = holder.attempt == token.attempt || is_mutant("token_compare_removed");
        if is_holder && !holder.is_committing { Ok(holder) } else { Err(lost) }
    }

    /// Keeps the lease of a token, which is held, from everybody until its commit is over.
    pub(crate) fn mark_committing(&mut self, token: Token) {
        if let Some(holder) = self.holders.get_mut(&token.fingerprint) {
            holder.is_committing = true;
        }
    }

    /// The commit has failed: the lease is as it was before.
    pub(crate) fn unmark_committing(&mut self, token: Token) {
        let holder = self.holders.get_mut(&token.fingerprint);
        if let Some(holder) = holder.filter(|holder| holder.attempt == token.attempt) {
            holder.is_committing = false;
        }
    }
}

/// Bytes of a hash map with room for so many leases: a power of two of places, one in eight left free, with a
/// byte beside each.
fn map_bytes(room: usize) -> u64 {
    if room == 0 {
        return 0;
    }
    let places = (room + room.div_ceil(7)).next_power_of_two();
    (places * (size_of::<(Fingerprint, Holder)>() + 1)) as u64
}

fn shard_index(key: Fingerprint) -> usize {
    usize::try_from(key.hi() % LEASE_SHARDS as u64).unwrap_or(0)
}

/// Takes the low half of a fingerprint, which is evenly spread already, as its hash.
#[derive(Default)]
pub(crate) struct LoHasher(u64);

impl Hasher for LoHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, half: u64) {
        self.0 = half;
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    const KEY: Fingerprint = Fingerprint::from_halves(5, 7);
    const OTHER: Fingerprint = Fingerprint::from_halves(5 + LEASE_SHARDS as u64, 8);

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    #[test]
    fn attempt_numbers_are_never_used_twice() {
        let leases = Leases::new(8, 0);
        let mut shard = leases.lock(KEY);
        let mut last = 0;
        for round in 0..5 {
            let token = leases.grant(&mut shard, KEY, at(round * 10), at(round * 10 + 5)).unwrap();
            assert!(token.attempt() > last);
            last = token.attempt();
        }
        assert_eq!(leases.held(), 1);
    }

    #[test]
    fn taken_over_lease_refuses_the_old_token() {
        let leases = Leases::new(8, 0);
        let mut shard = leases.lock(KEY);
        let old = leases.grant(&mut shard, KEY, at(0), at(5)).unwrap();
        assert!(shard.of_token(old).is_ok());
        let new = leases.grant(&mut shard, KEY, at(5), at(9)).unwrap();
        assert_eq!(shard.of_token(old), Err(Error::LeaseLost { attempt: old.attempt() }));
        assert!(shard.of_token(new).is_ok());
        leases.end(&mut shard, KEY);
        assert!(shard.of_token(new).is_err());
        assert_eq!(leases.held(), 0);
    }

    #[test]
    fn sweep_makes_room_only_where_leases_are_over() {
        let leases = Leases::new(1, 0);
        let old = leases.grant(&mut leases.lock(KEY), KEY, at(0), at(5)).unwrap();
        assert_eq!(leases.sweep(at(4)), 0);
        let refused = leases.grant(&mut leases.lock(OTHER), OTHER, at(4), at(9));
        assert_eq!(refused, Err(Error::LeaseLimit { leases_max: 1 }));
        assert_eq!(leases.sweep(at(5)), 1);
        assert!(leases.grant(&mut leases.lock(OTHER), OTHER, at(5), at(9)).is_ok());
        assert!(leases.lock(KEY).of_token(old).is_err());
        assert_eq!(leases.held(), 1);
    }

    #[test]
    fn lease_is_over_at_its_end_and_not_before() {
        let leases = Leases::new(8, 0);
        let mut shard = leases.lock(KEY);
        let token = leases.grant(&mut shard, KEY, at(0), at(5)).unwrap();
        assert_eq!(shard.live(KEY, at(4)).map(|holder| holder.attempt), Some(token.attempt()));
        assert_eq!(shard.live(KEY, at(5)), None);
    }
}
