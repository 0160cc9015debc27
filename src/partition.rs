//! Which of a fleet's stores an ID belongs to.
//!
//! A partitioned log, or an engine that partitions its state, runs one store for each partition: every ID is
//! always asked in the same store, so stores need not know of each other.
//!
//! The hash is no store's: it is fixed, without a secret, and the same in all versions of this crate, so that
//! producers, consumers and whoever moves stores agree, today and after an update. It is
//!
//! ```text
//! (XXH3-64(ID, seed "frstseen") * partitions) >> 64      the high half of a 128-bit product
//! ```
//!
//! The high half of the product cuts the hashes into equal ranges. So twice as many partitions split each of
//! the old ones in two, and in general a new partition draws from a few old neighbours only.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Eight letters as a little-endian number: 0x6e65_6573_7473_7266.
const SEED: u64 = u64::from_le_bytes(*b"frstseen");

/// The partition that an ID belongs to, out of `partitions`: 0 to `partitions - 1`.
///
/// Partitions are equally large for IDs that nobody has chosen. The hash is fixed for ever and has nothing to
/// do with that of a store: the IDs of one partition are evenly spread in its store. It is no secret either:
/// somebody who chooses IDs can send all of them to one partition. With `partitions` 0 the answer is 0.
///
/// # One store for each partition
///
/// Where the partitions are given, as those of a Kafka topic whose messages are keyed by the ID, no hash is
/// needed: one store for each partition, in a directory named for it, opened when the partition is assigned
/// and closed when it is revoked. [`ClaimBatch::commit_with`](crate::ClaimBatch::commit_with) keeps the
/// offset beside the facts. Elsewhere `partition` says which store an ID belongs to.
///
/// ```
/// use firstseen::{Options, Secret, Store, Verdict, partition};
///
/// // Created with one secret, so that they can be moved and merged later.
/// let secret = Secret::random()?;
/// let open = |_| Store::in_memory(Options::new().secret(secret.clone()));
/// let stores = (0..4).map(open).collect::<firstseen::Result<Vec<Store>>>()?;
/// let store_of = |id: &str| &stores[partition(id, 4) as usize];
///
/// assert_eq!(store_of("order-1").check("order-1")?, Verdict::FirstSeen);
/// assert_eq!(store_of("order-1").check("order-1")?, Verdict::Duplicate);
/// # Ok::<(), firstseen::Error>(())
/// ```
///
/// # Another number of partitions
///
/// changes where IDs belong, and an ID that is asked in another store than before is new there. So let new
/// stores take over what the old ones know, and only then ask them: new partition `q` of `m` takes over
/// from the old partitions `q * n / m` to `((q + 1) * n - 1) / m` of `n`, by
/// [`Store::merge`](crate::Store::merge), or [`Store::export`](crate::Store::export) and
/// [`Store::import`](crate::Store::import). What it takes over too much is never asked for and harms
/// nobody. With twice as many partitions each takes over from one old store, and two from the same.
///
/// ```
/// # use firstseen::{Options, Secret, Store, partition};
/// # let secret = Secret::random()?;
/// # let open = |_| Store::in_memory(Options::new().secret(secret.clone()));
/// let (n, m) = (2, 3);
/// let old = (0..n).map(open).collect::<firstseen::Result<Vec<Store>>>()?;
/// let _ = old[partition("order-1", n) as usize].check("order-1")?;
///
/// let new = (0..m).map(open).collect::<firstseen::Result<Vec<Store>>>()?;
/// for q in 0..m {
///     for p in q * n / m..=((q + 1) * n - 1) / m {
///         new[q as usize].merge(&old[p as usize])?;
///     }
/// }
/// assert!(new[partition("order-1", m) as usize].contains("order-1")?);
/// # Ok::<(), firstseen::Error>(())
/// ```
#[inline]
#[must_use]
pub fn partition(id: impl AsRef<[u8]>, partitions: u32) -> u32 {
    part_of(xxh3_64_with_seed(id.as_ref(), SEED), partitions)
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the high half of the product is less than `partitions`")]
fn part_of(hash: u64, partitions: u32) -> u32 {
    ((u128::from(hash) * u128::from(partitions)) >> 64) as u32
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    /// Values that were computed once, with the reference implementation of XXH3 as well: should one change,
    /// every fleet would ask the wrong stores.
    #[test]
    fn golden_ids_stay_in_their_partitions() {
        let long = [b'x'; 1000];
        let golden: [(&[u8], [u32; 5]); 6] = [
            (b"", [0, 0, 3, 328, 1_410_960_859]),
            (b"a", [0, 0, 4, 375, 1_612_242_236]),
            (b"order-1", [0, 1, 7, 658, 2_826_561_824]),
            (b"018f4e2a-7c1d-7e9b-b3a4-5d6c7e8f9a0b", [0, 1, 8, 744, 3_195_883_835]),
            (b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01", [0, 0, 5, 426, 1_831_953_446]),
            (&long, [0, 1, 11, 921, 3_956_734_411]),
        ];
        for (id, expected) in golden {
            let found = [1, 2, 12, 1000, u32::MAX].map(|partitions| partition(id, partitions));
            assert_eq!(found, expected, "{:?}", String::from_utf8_lossy(id));
        }
    }

    #[test]
    fn partition_of_any_hash_is_in_range_and_ordered() {
        for partitions in [1, 2, 3, 7, 64, 1_000_003, u32::MAX] {
            assert_eq!(part_of(0, partitions), 0);
            assert_eq!(part_of(u64::MAX, partitions), partitions - 1);
        }
        assert_eq!(partition("a", 0), 0);
    }

    #[test]
    fn ids_spread_over_partitions_evenly() {
        let mut counts = [0_u32; 12];
        for id in 0..120_000_u32 {
            counts[partition(id.to_le_bytes(), 12) as usize] += 1;
        }
        // Six standard deviations of a binomial distribution.
        assert!(counts.iter().all(|count| count.abs_diff(10_000) < 600), "{counts:?}");
    }

    #[test]
    fn new_partition_draws_from_the_old_ones_that_are_documented() {
        for (n, m) in [(1, 2), (2, 4), (2, 3), (3, 2), (12, 16), (16, 12), (7, 5), (5, 1)] {
            let mut drawn = vec![std::collections::BTreeSet::new(); m as usize];
            for id in 0..20_000_u32 {
                let id = id.to_le_bytes();
                drawn[partition(id, m) as usize].insert(partition(id, n));
            }
            for (q, drawn) in (0..m).zip(drawn) {
                let documented: Vec<u32> = (q * n / m..=((q + 1) * n - 1) / m).collect();
                assert_eq!(Vec::from_iter(drawn), documented, "{q} of {m}, before of {n}");
            }
        }
    }
}
