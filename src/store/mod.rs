//! The store: one answer to "has this ID been seen before?" for all threads of a process.

mod batch;
mod check;
mod claim;
mod cold;
mod commit;
mod compact;
mod contains;
mod core;
mod cursors;
mod durable;
mod engine;
mod evidence;
mod explain;
mod fact;
mod files;
mod fuse;
mod growth;
mod handle;
mod held;
mod kept;
mod ledger;
mod lifecycle;
mod maintain;
mod open;
mod outcome;
mod pace;
mod pacers;
mod pending;
mod recall;
mod refill;
mod replay;
mod rescue;
mod salvage;
mod seal;
mod sealed;
mod stream;
mod succession;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;
mod transfer;
mod upkeep;
mod verify;
mod view;

pub use self::explain::{Explanation, Known};
pub use self::held::{Claim, ClaimBatch, Lease};
pub use self::maintain::Progress;
pub use self::outcome::Salvage;
pub use self::transfer::Imported;
pub use self::verify::Verification;

use std::time::Duration;

use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::lease::Token;
use crate::options::{Options, Window};
use crate::stats::{Stats, collision_probability};
use crate::verdict::Verdict;
use crate::wal::Log;

use self::engine::Engine;
use self::handle::Handle;

/// Remembers which IDs were seen.
///
/// A handle: cloning is cheap, all clones are the same store, and every method takes `&self` from any
/// number of threads at once.
///
/// [`Store::check`] records an ID *before* the caller has done its work: should the caller die in between,
/// a redelivery is a duplicate and the work is never done (at most once). To do the work at least once, and
/// only once while the lease is kept, use [`Store::claim`], do the work, then [`Lease::commit`].
///
/// ```
/// use std::time::Duration;
/// use firstseen::{Claim, Options, Store};
///
/// let store = Store::in_memory(Options::new())?;
/// match store.claim("invoice-17", Duration::from_secs(30))? {
///     Claim::Leased(lease) => {
///         // ... do the work; should it fail, drop the lease and the ID is free again ...
///         lease.commit()?;
///     }
///     Claim::Duplicate => { /* done before */ }
///     Claim::InFlight { until } => { /* somebody is at it, at most until then */ let _ = until; }
/// }
/// assert!(store.contains("invoice-17")?);
/// # Ok::<(), firstseen::Error>(())
/// ```
///
/// # How long a call takes
///
/// Growth stops nobody: the next table is reserved and touched ahead of need, and filters, merges, seals and
/// fusions go on in slices behind the callers. In memory no call should take longer than 20 ms beyond what
/// the machine interrupts every program for; most take less than a microsecond. Where IDs come faster than
/// maintenance makes room, callers wait for it, and [`Stats::stalls`] counts. With a directory a call also
/// waits for its part of the log, as long as the disk takes for that.
#[derive(Clone, Debug)]
pub struct Store {
    engine: Handle,
}

impl Store {
    /// Creates a store that keeps its state in memory only.
    ///
    /// # Errors
    ///
    /// [`Error::Option`] names the option whose value was refused; [`Error::System`] when the system gives no
    /// memory, random numbers or thread.
    #[expect(clippy::needless_pass_by_value, reason = "a builder is given away when it is done")]
    pub fn in_memory(options: Options) -> Result<Store> {
        Ok(Store { engine: Handle::new(Engine::new(&options)?) })
    }

    /// Checks one ID and records it as seen.
    ///
    /// Among concurrent calls on one ID in one window exactly one gets [`Verdict::FirstSeen`] (G1); whoever
    /// gets [`Verdict::Duplicate`] sees what that caller did before its call. Nothing is recorded for an ID
    /// that somebody holds a lease on.
    ///
    /// # Errors
    ///
    /// [`Error::Full`], [`Error::IdLength`], [`Error::Poisoned`], [`Error::RevisionsUsedUp`]; the ID was
    /// not recorded then.
    ///
    /// # Complexity
    ///
    /// One cache line of the active table; for new IDs also one filter block for each frozen table (a
    /// handful). No allocation, no lock (but for IDs under a lease), and no system call but the clock's in
    /// stores with a window. Waits only when tables fill faster than new ones are made ready, which `stats`
    /// counts.
    #[inline]
    pub fn check(&self, id: impl AsRef<[u8]>) -> Result<Verdict> {
        self.engine.check(self.engine.fingerprint(id.as_ref())?, self.engine.moment(None)?)
    }

    /// Checks one ID at a time that the caller brings: for event time and for tests.
    ///
    /// Time in a store does not go back: an event from before the latest time that any call has brought
    /// counts as of that time, so a window ends late for it, never early (G5). Calls without a time of their
    /// own and the maintenance bring the clock's, so a replay of old events needs a store whose clock is a
    /// [`ManualClock`](crate::ManualClock); and a time far in the future ends all windows for good.
    ///
    /// # Errors
    ///
    /// As [`Store::check`].
    pub fn check_at(&self, id: impl AsRef<[u8]>, now: Timestamp) -> Result<Verdict> {
        self.engine.admit()?;
        let moment = self.engine.span.moment(self.engine.not_before(now), 0, None)?;
        self.engine.check(self.engine.fingerprint(id.as_ref())?, moment)
    }

    /// Checks one ID that, if it is new, stays seen for `ttl` instead of the store's window.
    ///
    /// A `ttl` of zero is over at once, or after one tick. An ID that was forgotten ([`Store::forget`])
    /// stays seen at least until its earlier window would have ended.
    ///
    /// # Errors
    ///
    /// As [`Store::check`], and [`Error::TimeToLive`] when the store never forgets or `ttl` is longer than
    /// [`Options::ttl_max`].
    pub fn check_with(&self, id: impl AsRef<[u8]>, ttl: Duration) -> Result<Verdict> {
        self.engine.check(self.engine.fingerprint(id.as_ref())?, self.engine.moment(Some(ttl))?)
    }

    /// Checks a batch in order: `verdicts[i]` answers `ids[i]`, and a second equal ID is a duplicate.
    ///
    /// Several times as fast as single checks, because the cache misses of many IDs overlap. All items are
    /// checked at one time. Other calls may come in between two items.
    ///
    /// # Errors
    ///
    /// [`Error::BufferLength`] when the lengths differ (nothing is recorded); [`Error::Partial`] with the
    /// number of items that were answered and recorded, and the cause, as of [`Store::check`].
    ///
    /// # Complexity
    ///
    /// As [`Store::check`] for each ID; no allocation, one reading of the clock.
    pub fn check_batch<T: AsRef<[u8]>>(&self, ids: &[T], verdicts: &mut [Verdict]) -> Result<()> {
        same_length(ids.len(), verdicts.len())?;
        self.engine.check_ids(ids, verdicts, self.engine.moment(None)?)
    }

    /// The same for IDs that are fingerprints already, from [`Store::fingerprint`] or evenly spread digests.
    ///
    /// # Errors
    ///
    /// As [`Store::check_batch`].
    pub fn check_fingerprints(&self, keys: &[Fingerprint], verdicts: &mut [Verdict]) -> Result<()> {
        same_length(keys.len(), verdicts.len())?;
        self.engine.check_keys(keys, verdicts, self.engine.moment(None)?)
    }

    /// The fingerprint of an ID in this store.
    ///
    /// # Errors
    ///
    /// [`Error::IdLength`] in a store with [`Hash::Exact`](crate::Hash::Exact).
    #[inline]
    pub fn fingerprint(&self, id: impl AsRef<[u8]>) -> Result<Fingerprint> {
        self.engine.fingerprint(id.as_ref())
    }

    /// Whether an ID is seen and its window is not over. Records nothing; an ID under a lease is not seen.
    ///
    /// # Errors
    ///
    /// [`Error::IdLength`].
    pub fn contains(&self, id: impl AsRef<[u8]>) -> Result<bool> {
        self.engine.contains(self.engine.fingerprint(id.as_ref())?, self.engine.moment(None)?)
    }

    /// The same for a batch of IDs that are fingerprints already: `seen[i]` answers `keys[i]`.
    ///
    /// # Errors
    ///
    /// [`Error::BufferLength`] when the lengths differ.
    ///
    /// # Complexity
    ///
    /// As [`Store::check_fingerprints`] for IDs that are seen.
    pub fn contains_fingerprints(&self, keys: &[Fingerprint], seen: &mut [bool]) -> Result<()> {
        same_length(keys.len(), seen.len())?;
        self.engine.contains_keys(keys, seen, self.engine.moment(None)?)
    }

    /// Claims an ID: the caller may do its work, for at most `lease` without a sign of life, then commits.
    ///
    /// Among concurrent claims and checks of one ID exactly one gets it. A lease that is over is not ended,
    /// but anybody may take the ID over from then on.
    ///
    /// # Errors
    ///
    /// As [`Store::check`], and [`Error::LeaseLimit`].
    ///
    /// # Complexity
    ///
    /// One lock that IDs share by their fingerprint (1 of 64), at most one allocation.
    pub fn claim(&self, id: impl AsRef<[u8]>, lease: Duration) -> Result<Claim> {
        self.claim_fingerprint(self.engine.fingerprint(id.as_ref())?, lease)
    }

    /// Claims many IDs: the safe way to consume a batch from a broker (claim, do the work, commit,
    /// acknowledge). An ID that comes twice in the batch is in flight the second time.
    ///
    /// # Errors
    ///
    /// [`Error::Partial`] with the number of IDs that were claimed; these claims are aborted again.
    pub fn claim_batch<T: AsRef<[u8]>>(&self, ids: &[T], lease: Duration) -> Result<ClaimBatch> {
        let mut claims = Vec::with_capacity(ids.len());
        for id in ids {
            match self.claim(id, lease) {
                Ok(claim) => claims.push(claim),
                Err(error) => return Err(Error::Partial { answered: claims.len(), cause: Box::new(error) }),
            }
        }
        Ok(ClaimBatch::new(&self.engine, claims))
    }

    /// [`Lease::commit`] by token.
    ///
    /// # Errors
    ///
    /// [`Error::LeaseLost`], and as [`Store::check`]; the lease is still held after any error but the first.
    pub fn commit(&self, token: Token) -> Result<()> {
        self.engine.commit(token, self.engine.moment(None)?)
    }

    /// [`Lease::abort`] by token.
    ///
    /// # Errors
    ///
    /// [`Error::LeaseLost`].
    pub fn abort(&self, token: Token) -> Result<()> {
        self.engine.abort(token)
    }

    /// [`Lease::extend`] by token.
    ///
    /// # Errors
    ///
    /// [`Error::LeaseLost`].
    pub fn extend(&self, token: Token, lease: Duration) -> Result<Timestamp> {
        self.engine.extend(token, lease)
    }

    /// Makes a seen ID unseen; false when it was not seen (an ID under a lease is not).
    ///
    /// # Errors
    ///
    /// As [`Store::check`].
    pub fn forget(&self, id: impl AsRef<[u8]>) -> Result<bool> {
        self.engine.forget(self.engine.fingerprint(id.as_ref())?, self.engine.moment(None)?)
    }

    /// How long IDs stay seen in this store.
    #[must_use]
    pub fn window(&self) -> Window {
        self.engine.span.window()
    }

    /// About how many IDs are held.
    ///
    /// Exact while no ID is renewed, forgotten or aborted and none is over; such IDs may count twice, or
    /// until their table is dropped.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.engine.views.load().ids()
    }

    /// Whether no ID is held; exact like [`Store::len`].
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Counts and sizes; a few hundred memory reads.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let engine = &*self.engine;
        let view = engine.views.load();
        let counters = &engine.counters;
        let memory_bytes = engine.memory_bytes(&view);
        let log = engine.durable.as_ref().and_then(|durable| durable.log());
        let lease_bytes = engine.leases.memory_bytes();
        let buffer_bytes = log.map_or(0, Log::memory_bytes) + counters.file_buffers();
        let log = log.map(|log| log.stats()).unwrap_or_default();
        Stats {
            ids: view.ids(),
            memory_bytes,
            memory_bytes_peak: counters.memory_peak.get().max(memory_bytes),
            table_bytes: view.table_bytes(),
            filter_bytes: view.filter_bytes(),
            spare_bytes: counters.memory_spare.get(),
            making_bytes: counters.memory_making(),
            held_bytes: memory_bytes + lease_bytes + buffer_bytes,
            lease_bytes,
            buffer_bytes,
            memory_budget: engine.memory_budget,
            tables: view.tables().count(),
            tables_unfiltered: view.older.iter().filter(|older| older.filter.is_none()).count(),
            generations: view.sealed.len(),
            generation_bytes: view.sealed.iter().map(|sealed| sealed.generation().file_bytes()).sum(),
            seals: counters.seals.get(),
            sealed_bytes: counters.sealed_bytes.get(),
            compactions: counters.compactions.get(),
            compacted_bytes: counters.compacted_bytes.get(),
            records_replayed: counters.records_replayed.get(),
            log_bytes: log.bytes_written,
            log_writes: log.frames,
            log_syncs: log.syncs,
            rotations: counters.rotations.get(),
            merges: counters.merges.get(),
            tables_expired: counters.tables_expired.get(),
            ids_dropped: counters.ids_dropped.get(),
            stalls: counters.stalls.get(),
            leases: engine.leases.held(),
            leases_lost: counters.leases_lost.get(),
            tick_ms: if engine.span.is_forever() { 0 } else { engine.span.tick_ms() },
            collision_probability: collision_probability(view.ids()),
        }
    }

    /// Everything that is known of one ID, and where it is kept: for people.
    ///
    /// # Errors
    ///
    /// [`Error::IdLength`].
    pub fn explain(&self, id: impl AsRef<[u8]>) -> Result<Explanation> {
        self.engine.explain(self.engine.fingerprint(id.as_ref())?)
    }

    /// One step of background work, for stores with [`Maintenance::Manual`](crate::Maintenance::Manual);
    /// repeat until it answers [`Progress::Idle`]. Harmless beside the maintenance thread.
    ///
    /// # Errors
    ///
    /// [`Error::System`] when the system refuses memory; later steps try again.
    pub fn maintain(&self) -> Result<Progress> {
        self.engine.maintain()
    }

    fn claim_fingerprint(&self, key: Fingerprint, lease: Duration) -> Result<Claim> {
        let claimed = self.engine.claim(key, lease, self.engine.moment(None)?)?;
        Ok(Claim::new(&self.engine, &claimed))
    }
}

fn same_length(ids: usize, verdicts: usize) -> Result<()> {
    if ids == verdicts { Ok(()) } else { Err(Error::BufferLength { ids, verdicts }) }
}
