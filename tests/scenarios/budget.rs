//! What happens when the memory budget is used up.

use firstseen::{Error, Maintenance, Options, Secret, Store, Verdict, WhenFull, Window};

use crate::random::Random;

use super::{batch, check, hours, in_time, name, rests_within, secs, store, store_with_clock, wait_for};

/// The smallest budget there is.
const BUDGET: u64 = 1 << 20;

/// IDs that fit at least: at most 65 bytes each.
const IDS_MIN: u64 = BUDGET / 65;

fn small(maintenance: Maintenance) -> Options {
    Options::new().memory_budget(BUDGET).maintenance(maintenance)
}

/// Inserts IDs from 0 on until one is refused; returns how many were taken, and the error.
fn fill(store: &Store) -> (u64, Error) {
    for id in 0.. {
        match store.check(name(id)) {
            Ok(verdict) => assert_eq!(verdict, Verdict::FirstSeen, "ID {id}"),
            Err(error) => return (id, error),
        }
    }
    unreachable!("a budget has an end");
}

#[test]
fn full_store_refuses_new_ids_and_knows_all_others() {
    for maintenance in [Maintenance::Thread, Maintenance::Manual] {
        let store = store(small(maintenance));
        let (taken, error) = fill(&store);
        let Error::Full { budget_bytes: BUDGET, memory_bytes } = error else { panic!("{error}") };
        assert!(memory_bytes > BUDGET / 2, "{memory_bytes} bytes");
        assert!(taken > IDS_MIN, "{taken} IDs");
        for id in 0..taken {
            assert_eq!(check(&store, name(id)), Verdict::Duplicate, "{maintenance:?}: ID {id} of {taken}");
            assert!(store.contains(name(id)).unwrap());
        }
        let known: Vec<[u8; 8]> = (0..taken).map(name).collect();
        assert!(batch(&store, &known).iter().all(|verdict| verdict.is_duplicate()));
        assert!(store.len() >= taken);
    }
}

/// Filters, and tables made by merging, were not counted before they were made: at the end of growth a
/// store of 16 MiB took 20.
#[test]
fn memory_of_a_store_that_fills_up_stays_within_the_budget() {
    for budget in [BUDGET, 4 * BUDGET, 16 * BUDGET] {
        for policy in [WhenFull::Error, WhenFull::ForgetOldest] {
            let store = store(Options::new().memory_budget(budget).when_full(policy));
            let ids = (0..budget / 16).collect::<Vec<u64>>();
            for chunk in ids.chunks(512) {
                let names: Vec<[u8; 8]> = chunk.iter().copied().map(name).collect();
                let mut verdicts = vec![Verdict::default(); chunk.len()];
                let outcome = store.check_batch(&names, &mut verdicts);
                assert!(outcome.is_ok() || policy == WhenFull::Error, "{outcome:?}");
            }
            let stats = wait_for(&store, |stats| stats.tables_unfiltered == 0);
            assert!(stats.memory_bytes_peak <= budget, "{budget} bytes, {policy:?}: {stats:?}");
        }
    }
}

/// Merging tables that were filled to their limit made runs of full lines longer than a walk could be: in one
/// of ten full stores, and in most with 10^7 IDs and more, the merge was given up and begun again, for ever.
#[test]
fn maintenance_of_a_full_store_comes_to_rest() {
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let secret = Secret::from_bytes(std::array::from_fn(|_| random.next() as u8));
        let store = store(small(Maintenance::Manual).secret(secret));
        let (taken, _) = fill(&store);
        assert!(rests_within(&store, 1_000), "seed {seed}, {taken} IDs: {:?}", store.stats());
    }
}

/// Eight threads meet the end of the budget at the same time: whatever any of them got in stays in.
#[test]
fn threads_that_fill_a_store_lose_nothing() {
    let store = store(small(Maintenance::Thread));
    let taken: Vec<u64> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|thread: u64| {
                let store = &store;
                let ids = (thread << 32)..(thread << 32) + 100_000;
                scope.spawn(move || ids.filter(|id| store.check(name(*id)).is_ok()).collect::<Vec<_>>())
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert!(taken.len() as u64 > IDS_MIN && taken.len() < 100_000, "{} IDs", taken.len());
    let names: Vec<[u8; 8]> = taken.iter().copied().map(name).collect();
    assert!(batch(&store, &names).iter().all(|verdict| verdict.is_duplicate()));
}

#[test]
fn batch_in_a_full_store_is_answered_up_to_the_first_new_id() {
    let store = store(small(Maintenance::Manual));
    let (taken, _) = fill(&store);
    let new = loop_until_refused(&store, taken);
    let mut verdicts = [Verdict::InFlight; 5];
    let ids = [name(0), name(1), name(new), name(2), name(new + 1)];
    let Err(Error::Partial { answered: 2, cause }) = store.check_batch(&ids, &mut verdicts) else {
        panic!("the third is new")
    };
    assert!(matches!(*cause, Error::Full { .. }), "{cause}");
    assert_eq!(verdicts[..2], [Verdict::Duplicate; 2]);
    assert!(!store.contains(name(new)).unwrap() && !store.contains(name(new + 1)).unwrap());
}

/// Merging may have made room for some more: goes on until maintenance rests and nothing is taken.
fn loop_until_refused(store: &Store, mut next: u64) -> u64 {
    loop {
        assert!(rests_within(store, 10_000));
        let Ok(verdict) = store.check(name(next)) else { return next };
        assert_eq!(verdict, Verdict::FirstSeen);
        next += 1;
    }
}

/// Moving a known ID's window needs a place in the table that has none left. Answering `Duplicate` all the
/// same would end the window early, so such an ID is refused, and never called new.
#[test]
fn full_store_with_a_sliding_window_never_calls_a_known_id_new() {
    let (store, clock) = store_with_clock(Window::Sliding(hours(1)), small(Maintenance::Thread));
    let (taken, _) = fill(&store);
    clock.advance(secs(60));
    let answers: Vec<_> = (0..taken).map(|id| store.check(name(id))).collect();
    let is_right = |answer: &_| matches!(answer, Ok(Verdict::Duplicate) | Err(Error::Full { .. }));
    assert!(answers.iter().all(is_right));
    assert!(answers.contains(&Ok(Verdict::Duplicate)), "those in the active table");
    assert!((0..taken).all(|id| store.contains(name(id)) == Ok(true)));
}

#[test]
fn claim_in_a_full_store_is_refused_and_leaves_no_lease() {
    let store = store(small(Maintenance::Thread));
    let lease = store.claim("early", secs(1_000)).unwrap().into_lease().unwrap();
    let (taken, _) = fill(&store);
    let refused = (taken..taken + 10_000).find_map(|id| store.claim(name(id), secs(1)).map(drop).err());
    assert!(matches!(refused, Some(Error::Full { .. })), "{refused:?}");
    assert_eq!(store.stats().leases, 1);
    assert_eq!(check(&store, "early"), Verdict::InFlight);
    lease.abort().unwrap();
}

#[test]
fn full_store_whose_windows_end_takes_new_ids_again() {
    let (store, clock) = store_with_clock(Window::Fixed(hours(1)), small(Maintenance::Thread));
    let (taken, _) = fill(&store);
    clock.advance(hours(2));
    let stats = wait_for(&store, |stats| stats.ids == 0);
    assert!(stats.tables_expired > 1, "{stats:?}");
    assert!((0..taken / 2).all(|id| check(&store, name(id)) == Verdict::FirstSeen));
}

/// By hand nothing was ready to be forgotten; the caller looked for room again and again and never came back.
#[test]
fn store_that_forgets_the_oldest_never_refuses_and_counts_what_it_dropped() {
    const INSERTED: u64 = 300_000;
    for maintenance in [Maintenance::Thread, Maintenance::Manual] {
        let store = store(small(maintenance).when_full(WhenFull::ForgetOldest));
        let filled = in_time({
            let store = store.clone();
            move || (0..INSERTED).all(|id| check(&store, name(id)) == Verdict::FirstSeen)
        });
        assert_eq!(filled, Some(true), "{maintenance:?}: {:?}", store.stats());
        let stats = store.stats();
        assert!(stats.ids_dropped > INSERTED / 2, "{stats:?}");
        assert_eq!(stats.ids + stats.ids_dropped, INSERTED);
        let newest = INSERTED - 1_000..INSERTED;
        assert!(newest.clone().all(|id| check(&store, name(id)) == Verdict::Duplicate));
        assert_eq!(check(&store, name(0)), Verdict::FirstSeen, "the oldest are new again");
    }
}

#[test]
fn leases_outlive_the_tables_that_are_forgotten() {
    let store = store(small(Maintenance::Thread).when_full(WhenFull::ForgetOldest));
    let lease = store.claim("early", secs(1_000)).unwrap().into_lease().unwrap();
    assert!((0..200_000).all(|id| check(&store, name(id)) == Verdict::FirstSeen));
    assert!(store.stats().ids_dropped > 0);
    assert_eq!(check(&store, "early"), Verdict::InFlight);
    lease.commit().unwrap();
    assert_eq!(check(&store, "early"), Verdict::Duplicate);
}
