//! Small stores taken through every change of structure, by hand; also what Miri looks at.

use std::time::Duration;

use super::*;
use crate::clock::ManualClock;
use crate::fingerprint::Secret;
use crate::limits::FROZEN_MAX;
use crate::options::{Maintenance, WhenFull, Window};

const WINDOW: Duration = Duration::from_secs(60);
const LEASE: Duration = Duration::from_secs(3_600);

fn options(lines: u64) -> Options {
    let secret = Secret::from_bytes(std::array::from_fn(|index| u8::try_from(index * 31 % 251).unwrap()));
    let clock = ManualClock::new(Timestamp::from_millis(1_000_000)).clock();
    Options::new().secret(secret).clock(clock).maintenance(Maintenance::Manual).first_table_lines(lines)
}

fn store(options: Options) -> Store {
    Store::in_memory(options).unwrap()
}

fn windowed(clock: &ManualClock) -> Store {
    store(options(4).window(Window::Fixed(WINDOW)).clock(clock.clock()))
}

/// Steps maintenance until nothing is left to do.
fn settle(store: &Store) {
    for _ in 0..10_000 {
        if store.maintain().unwrap() == Progress::Idle {
            return;
        }
    }
    panic!("maintenance does not come to an end: {:?}", store.stats());
}

/// Checks `ids` one by one and counts the first sightings.
fn firsts(store: &Store, ids: std::ops::Range<u32>) -> usize {
    ids.filter(|id| store.check(id.to_le_bytes()).unwrap().is_first_seen()).count()
}

#[test]
fn ids_stay_seen_through_rotations_filters_and_merges() {
    let store = store(options(2));
    let count = if cfg!(miri) { 120 } else { 20_000 };
    for first in (0..count).step_by(10) {
        assert_eq!(firsts(&store, first..first + 10), 10);
        store.maintain().unwrap();
    }
    settle(&store);
    let stats = store.stats();
    assert!(stats.rotations > 3 && stats.merges > 0, "{stats:?}");
    assert!(stats.tables <= FROZEN_MAX + 1 && stats.tables_unfiltered == 0, "{stats:?}");
    assert_eq!(firsts(&store, 0..count), 0);
    assert_eq!(firsts(&store, count..count + 50), 50);
    assert!((u64::from(count) + 50..u64::from(count) + 80).contains(&store.len()), "{}", store.len());
}

#[test]
fn batch_meets_all_kinds_of_tables_and_answers_like_single_checks() {
    let store = store(options(2));
    let count = if cfg!(miri) { 60_u32 } else { 5_000 };
    let ids: Vec<[u8; 4]> = (0..count).map(u32::to_le_bytes).collect();
    let mut verdicts = vec![Verdict::default(); ids.len()];
    for (position, batch) in ids.chunks(20).enumerate() {
        store.check_batch(batch, &mut verdicts[..batch.len()]).unwrap();
        assert!(verdicts[..batch.len()].iter().all(|verdict| verdict.is_first_seen()));
        if position % 3 == 0 {
            store.maintain().unwrap();
        }
    }
    store.check_batch(&ids, &mut verdicts).unwrap();
    assert!(verdicts.iter().all(|verdict| verdict.is_duplicate()));
}

#[test]
fn closed_key_is_decided_in_the_new_table_and_known_in_both_views() {
    let store = store(options(8));
    assert_eq!(firsts(&store, 0..16), 16);
    let held = store.engine.views.load();
    assert_eq!(store.maintain().unwrap(), Progress::Worked, "rotates");
    for _ in 0..20 {
        store.maintain().unwrap();
    }
    assert!(store.engine.views.load().closing.is_some(), "a view from before is held");
    assert_eq!(firsts(&store, 10..20), 4);
    drop(held);
    settle(&store);
    assert!(store.engine.views.load().closing.is_none());
    assert_eq!(firsts(&store, 0..20), 0);
}

#[test]
fn expired_tables_are_dropped_whole_and_their_ids_are_new() {
    let clock = ManualClock::new(Timestamp::from_millis(1_000_000));
    let store = windowed(&clock);
    for round in 0..6 {
        assert_eq!(firsts(&store, round * 20..round * 20 + 20), 20);
        clock.advance(WINDOW / 4);
        settle(&store);
    }
    assert!(store.stats().tables_expired > 0, "{:?}", store.stats());
    assert_eq!(firsts(&store, 0..20), 20, "over");
    assert_eq!(firsts(&store, 100..120), 0, "live");
    clock.advance(WINDOW);
    settle(&store);
    settle(&store);
    assert_eq!(store.len(), 0);
}

/// A lease outlives the window: the table that says `Pending` is dropped, and the ID must stay in flight.
#[test]
fn lease_outlives_the_table_that_it_was_claimed_in() {
    let clock = ManualClock::new(Timestamp::from_millis(1_000_000));
    let store = windowed(&clock);
    let lease = store.claim("leased", LEASE).unwrap().into_lease().unwrap();
    for round in 0..20 {
        assert_eq!(firsts(&store, round * 20..round * 20 + 20), 20);
        clock.advance(WINDOW / 4);
        settle(&store);
        assert_eq!(store.check("leased"), Ok(Verdict::InFlight), "round {round}");
    }
    assert!(store.stats().tables_expired > 3);
    lease.commit().unwrap();
    assert_eq!(store.check("leased"), Ok(Verdict::Duplicate));
}

/// A merge reads `Pending` as what was before the claim; the lease itself must have moved on by then.
#[test]
fn lease_and_forgotten_facts_survive_merges() {
    let store = store(options(2));
    assert_eq!(store.check("forgotten"), Ok(Verdict::FirstSeen));
    assert_eq!(firsts(&store, 0..10), 10);
    settle(&store);
    assert_eq!(store.forget("forgotten"), Ok(true));
    let lease = store.claim("leased", LEASE).unwrap().into_lease().unwrap();
    let again = store.claim("forgotten", LEASE).unwrap().into_lease().unwrap();
    let merges = |store: &Store| store.stats().merges;
    for round in 1..if cfg!(miri) { 12 } else { 400 } {
        assert_eq!(firsts(&store, round * 10..round * 10 + 10), 10);
        settle(&store);
    }
    assert!(merges(&store) > 0);
    assert_eq!(store.check("leased"), Ok(Verdict::InFlight));
    assert_eq!(store.check("forgotten"), Ok(Verdict::InFlight));
    again.abort().unwrap();
    assert_eq!(store.contains("forgotten"), Ok(false));
    lease.commit().unwrap();
    assert_eq!(store.check("leased"), Ok(Verdict::Duplicate));
    assert_eq!(store.check("forgotten"), Ok(Verdict::FirstSeen));
}

#[test]
fn forgotten_id_stays_forgotten_when_its_table_is_merged_into_the_oldest() {
    let store = store(options(2));
    assert_eq!(firsts(&store, 0..40), 40);
    settle(&store);
    for id in 0_u32..40 {
        assert_eq!(store.forget(id.to_le_bytes()), Ok(true));
    }
    let more = if cfg!(miri) { 150 } else { 2_000 };
    assert_eq!(firsts(&store, 1_000..1_000 + more), more as usize);
    settle(&store);
    assert!(store.stats().merges > 0);
    assert_eq!(firsts(&store, 0..40), 40);
}

#[test]
#[cfg(not(miri))]
fn full_store_refuses_new_ids_and_answers_old_ones() {
    let store = store(Options::new().maintenance(Maintenance::Manual).memory_budget(1 << 20));
    let full = (0_u32..).map(|id| store.check(id.to_le_bytes())).position(|answer| answer.is_err()).unwrap();
    let full = u32::try_from(full).unwrap();
    assert!(matches!(store.check(full.to_le_bytes()), Err(Error::Full { budget_bytes: 1_048_576, .. })));
    assert!(store.stats().memory_bytes <= 1 << 20);
    assert_eq!(firsts(&store, 0..full), 0);
    assert!(full > 15_000, "{full} IDs in a MiB");
}

#[test]
#[cfg(not(miri))]
fn forgetting_the_oldest_keeps_the_newest_and_counts() {
    let options = Options::new().maintenance(Maintenance::Manual).memory_budget(1 << 20);
    let store = store(options.when_full(WhenFull::ForgetOldest));
    let lease = store.claim("leased", LEASE).unwrap().into_lease().unwrap();
    for first in (0..200_000).step_by(100) {
        assert_eq!(firsts(&store, first..first + 100), 100);
        store.maintain().unwrap();
        assert!(store.stats().memory_bytes <= 1 << 20, "{:?}", store.stats());
    }
    let stats = store.stats();
    assert!(stats.ids_dropped > 150_000 && stats.ids_dropped + stats.ids >= 200_000, "{stats:?}");
    assert_eq!(firsts(&store, 195_000..200_000), 0);
    assert_eq!(store.check("leased"), Ok(Verdict::InFlight));
    lease.commit().unwrap();
}

#[test]
fn two_threads_share_a_store_through_rotations() {
    let store = store(options(1));
    let count = if cfg!(miri) { 30 } else { 3_000 };
    let found: usize = std::thread::scope(|scope| {
        let checkers = [(); 2].map(|()| scope.spawn(|| firsts(&store, 0..count)));
        for _ in 0..count {
            store.maintain().unwrap();
        }
        checkers.map(|checker| checker.join().unwrap()).into_iter().sum()
    });
    assert_eq!(found, count as usize);
}

#[test]
fn explanation_names_the_table_that_knows() {
    let store = store(options(8));
    assert_eq!(firsts(&store, 0..16), 16);
    settle(&store);
    let known = store.explain(3_u32.to_le_bytes()).unwrap();
    assert!(known.is_seen);
    assert_eq!(known.tables.first(), Some(&("active", Known::Absent)));
    assert_eq!(known.tables.last(), Some(&("frozen", Known::Seen { until: None })));
    let _lease = store.claim("leased", LEASE).unwrap();
    let leased = store.explain("leased").unwrap();
    assert!(!leased.is_seen && leased.lease.is_some());
    assert!(leased.to_string().contains("leased by attempt 1"), "{leased}");
}
