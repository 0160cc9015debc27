//! Growth from a small table to millions of IDs, under eight threads.

use std::io::Write;
use std::time::{Duration, Instant};

use firstseen::{Durability, Maintenance, Options, Stats, Store, Verdict};

use crate::random::Random;

use super::{batch, check, name, store, wait_for};

const THREADS: u64 = 8;
const IDS: u64 = 4_000_000;
const IDS_PER_THREAD: u64 = IDS / THREADS;

/// Memory that does not depend on how many IDs there are: the first table, the smallest next ones.
const BYTES_CONSTANT: u64 = 16 << 20;
const BYTES_PER_ID: u64 = 70;

/// Inserts one thread's share and asks for earlier ones in between; returns how long each insert took.
fn insert(store: &Store, thread: u64) -> Vec<Duration> {
    let mut random = Random::new(thread);
    let first = thread * IDS_PER_THREAD;
    (first..first + IDS_PER_THREAD)
        .map(|id| {
            let begun = Instant::now();
            assert_eq!(check(store, name(id)), Verdict::FirstSeen, "ID {id}");
            let took = begun.elapsed();
            let earlier = first + random.below(id - first + 1);
            assert_eq!(check(store, name(earlier)), Verdict::Duplicate, "ID {earlier}");
            took
        })
        .collect()
}

#[test]
fn growth_to_millions_of_ids_keeps_verdicts_and_memory_in_bounds() {
    let store = store(Options::new().first_table_lines(1 << 10));
    let mut took: Vec<Duration> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                scope.spawn({
                    let store = &store;
                    move || insert(store, thread)
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let stats = wait_for(&store, |stats| stats.tables <= 6 && stats.tables_unfiltered == 0);
    assert_eq!(stats.ids, IDS);
    assert!(stats.rotations > 8 && stats.merges > 0, "{stats:?}");
    for bytes in [stats.memory_bytes, stats.memory_bytes_peak] {
        assert!(bytes < IDS * BYTES_PER_ID + BYTES_CONSTANT, "{bytes} bytes: {stats:?}");
    }
    for chunk in 0..IDS / 100_000 {
        let names: Vec<[u8; 8]> = (chunk * 100_000..(chunk + 1) * 100_000).map(name).collect();
        assert!(batch(&store, &names).iter().all(|verdict| verdict.is_duplicate()), "chunk {chunk}");
    }
    report(&mut took, &stats);
}

/// IDs for which the maintenance takes one step: a slice of some 16,000 lines, about a millisecond.
const IDS_PER_STEP: u64 = 1 << 14;

/// A rotation is never queued behind a filter, a merge, a seal or a fusion: these go on in slices of bounded
/// work. From when a table should be rotated until it takes no more IDs four steps are taken here, and the
/// filter of one table alone takes eight.
#[test]
fn growth_with_little_maintenance_never_makes_a_caller_wait() {
    let dir = std::env::temp_dir().join(format!("firstseen-growth-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    let options = Options::new().maintenance(Maintenance::Manual).first_table_lines(1 << 17);
    for (which, store) in [
        ("in memory", store(options.clone())),
        ("directory", Store::open_with(&dir, options.durability(Durability::None)).unwrap()),
    ] {
        for first in (0..IDS).step_by(IDS_PER_STEP as usize) {
            let names: Vec<[u8; 8]> = (first..first + IDS_PER_STEP).map(name).collect();
            assert!(batch(&store, &names).iter().all(|verdict| verdict.is_first_seen()), "{which} {first}");
            store.maintain().unwrap();
        }
        let stats = store.stats();
        assert_eq!(stats.stalls, 0, "{which}: {stats:?}");
        assert!(stats.rotations > 3 && stats.merges + stats.seals > 0, "{which}: {stats:?}");
    }
    let _ = std::fs::remove_dir_all(&dir);
}

/// Figures to look at; a busy machine makes them longer, so they decide nothing.
fn report(took: &mut [Duration], stats: &Stats) {
    took.sort_unstable();
    let at = |share: f64| took[((took.len() - 1) as f64 * share) as usize];
    let line = format!(
        "growth: {IDS} IDs, median {:?}, p99.9 {:?}, longest {:?}, {} bytes an ID at the peak, {} at rest, \
         {} stalls",
        at(0.5),
        at(0.999),
        at(1.0),
        stats.memory_bytes_peak / IDS,
        stats.memory_bytes / IDS,
        stats.stalls
    );
    let mut out = std::io::stderr();
    writeln!(out, "{line}").unwrap();
}
