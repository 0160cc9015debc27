//! What a store tells about itself.

/// A picture of a store at one time; counts taken while other threads go on are estimates.
#[non_exhaustive]
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Stats {
    /// IDs held; an ID that is in two tables (renewed, or forgotten and seen again) counts twice.
    pub ids: u64,
    /// Bytes charged against the budget: tables, filters, memory prepared for the next table, and what is
    /// being made of them.
    pub memory_bytes: u64,
    /// The largest [`Stats::memory_bytes`] that the maintenance has seen.
    pub memory_bytes_peak: u64,
    /// The part of [`Stats::memory_bytes`] in tables.
    pub table_bytes: u64,
    /// The part of [`Stats::memory_bytes`] in filters.
    pub filter_bytes: u64,
    /// The part of [`Stats::memory_bytes`] prepared for the next table.
    pub spare_bytes: u64,
    /// The part of [`Stats::memory_bytes`] in filters and merged tables that are being made.
    pub making_bytes: u64,
    /// All memory that the store holds: [`Stats::memory_bytes`], and what is not charged against the budget.
    ///
    /// The process has a few hundred KiB beside it, and pages of sealed files as the system sees fit.
    pub held_bytes: u64,
    /// The part of [`Stats::held_bytes`] in the lease table, which does not shrink.
    pub lease_bytes: u64,
    /// The part of [`Stats::held_bytes`] in the log's queue and in buffers through which files are written:
    /// a few MiB at most, whatever the store holds.
    pub buffer_bytes: u64,
    /// The budget in bytes.
    pub memory_budget: u64,
    /// Tables in use: the active one, one that is closing, and the frozen ones.
    pub tables: usize,
    /// Sealed generations, each in a file.
    pub generations: usize,
    /// Bytes of their files.
    pub generation_bytes: u64,
    /// Times that a table was sealed.
    pub seals: u64,
    /// Bytes that were written for that.
    pub sealed_bytes: u64,
    /// Times that generations were fused into one.
    pub compactions: u64,
    /// Bytes that were written for that. Together with [`Stats::sealed_bytes`], and over the latter: how
    /// often everything was written.
    pub compacted_bytes: u64,
    /// Records that were read back from the log when the store was opened.
    pub records_replayed: u64,
    /// Bytes written to the log since the store was opened.
    pub log_bytes: u64,
    /// Writes to the log: calls share them.
    pub log_writes: u64,
    /// Syncs of the log: calls share them.
    pub log_syncs: u64,
    /// Frozen tables whose filter is not ready yet: each costs every new ID one more cache line.
    pub tables_unfiltered: usize,
    /// Times that a new active table was made.
    pub rotations: u64,
    /// Times that tables in memory were merged into one.
    pub merges: u64,
    /// Frozen tables that were dropped because everything in them was over.
    pub tables_expired: u64,
    /// IDs that were dropped before their time to make room
    /// ([`WhenFull::ForgetOldest`](crate::WhenFull::ForgetOldest)).
    pub ids_dropped: u64,
    /// Calls that had to wait for room in a table.
    pub stalls: u64,
    /// Leases held, those that are over but not taken over included.
    pub leases: u64,
    /// Commits, aborts and extensions that were refused because the lease was no longer held.
    pub leases_lost: u64,
    /// Milliseconds in a tick, by which windows may end late; zero in a store that never forgets.
    pub tick_ms: u64,
    /// Probability that two of the IDs held have one fingerprint, so that one was called a duplicate wrongly:
    /// about `ids^2 / 2^129`.
    pub collision_probability: f64,
}

/// Probability of at least one collision among `ids` random 128-bit fingerprints, at most 1.
pub(crate) fn collision_probability(ids: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "an estimate needs no more than the leading digits")]
    let ids = ids as f64;
    (ids * (ids - 1.0).max(0.0) / 2.0_f64.powi(129)).min(1.0)
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn collision_probability_follows_the_birthday_bound() {
        assert!(collision_probability(0) == 0.0 && collision_probability(1) == 0.0);
        let at_1e10 = collision_probability(10_000_000_000);
        assert!((1.4e-19..1.5e-19).contains(&at_1e10), "{at_1e10}");
        assert!(collision_probability(u64::MAX) <= 1.0);
    }
}
