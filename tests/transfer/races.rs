//! Exports and imports while other threads are at work: exactly one is first, and nothing answered is missed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use firstseen::testing::SimDisk;
use firstseen::{Claim, Error, Maintenance, Options, Store};

use crate::{check_all, exported, import, options, seen_of};

const IDS: u32 = 20_000;
const ROUNDS: u64 = 6;

fn threaded() -> Options {
    options().maintenance(Maintenance::Thread).first_table_lines(64)
}

fn store(round: u64) -> Store {
    match round % 2 {
        0 => Store::in_memory(threaded()).unwrap(),
        _ => Store::open_on(Arc::new(SimDisk::new(round)), threaded()).unwrap(),
    }
}

#[test]
fn id_checked_and_imported_at_once_is_first_in_one_place() {
    let from = Store::in_memory(threaded()).unwrap();
    check_all(&from, 0..IDS);
    let bytes = exported(&from);
    for round in 0..ROUNDS {
        let into = store(round);
        let firsts: u64 = thread::scope(|scope| {
            let checks: Vec<_> = (0..2)
                .map(|_| {
                    scope.spawn(|| {
                        let check = |id: &u32| into.check(id.to_le_bytes()).unwrap().is_first_seen();
                        (0..IDS).filter(check).count() as u64
                    })
                })
                .collect();
            let changed = import(&into, &bytes).unwrap().changed;
            changed + checks.into_iter().map(|check| check.join().unwrap()).sum::<u64>()
        });
        assert_eq!(firsts, u64::from(IDS), "round {round}");
        assert_eq!(seen_of(&into, 0..IDS + 10).len(), IDS as usize);
    }
}

#[test]
fn id_committed_and_imported_at_once_is_done_in_one_place() {
    let from = Store::in_memory(threaded()).unwrap();
    check_all(&from, 0..IDS);
    for round in 0..ROUNDS {
        let into = store(round);
        let worker = || {
            let mut committed = 0;
            for id in 0..IDS {
                let Claim::Leased(lease) = into.claim(id.to_le_bytes(), Duration::from_secs(60)).unwrap()
                else {
                    continue;
                };
                match lease.commit() {
                    Ok(()) => committed += 1,
                    Err(Error::LeaseLost { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            committed
        };
        let done: u64 = thread::scope(|scope| {
            let workers: Vec<_> = (0..2).map(|_| scope.spawn(worker)).collect();
            let changed = into.merge(&from).unwrap().changed;
            changed + workers.into_iter().map(|worker| worker.join().unwrap()).sum::<u64>()
        });
        assert_eq!(done, u64::from(IDS), "round {round}");
        assert_eq!(into.stats().leases, 0);
    }
}

#[test]
fn export_beside_checks_has_all_that_was_answered_before_it() {
    for round in 0..ROUNDS {
        let from = store(round);
        let answered = AtomicU32::new(0);
        thread::scope(|scope| {
            scope.spawn(|| {
                for id in 0..IDS * 4 {
                    let _ = from.check(id.to_le_bytes()).unwrap();
                    answered.store(id + 1, Ordering::Release);
                }
            });
            loop {
                let before = answered.load(Ordering::Acquire);
                let into = Store::in_memory(threaded().first_table_lines(4096)).unwrap();
                import(&into, &exported(&from)).unwrap();
                let after = answered.load(Ordering::Acquire);
                let seen = seen_of(&into, 0..before);
                assert_eq!(seen.len(), before as usize, "round {round}");
                assert!(into.len() <= u64::from(after) + 1);
                if before == IDS * 4 {
                    break;
                }
            }
        });
    }
}

#[test]
fn stores_that_merge_into_each_other_at_once_know_the_same() {
    for round in 0..ROUNDS {
        let (one, other) = (store(round), store(round + 1));
        check_all(&one, 0..IDS);
        check_all(&other, IDS / 2..2 * IDS);
        thread::scope(|scope| {
            scope.spawn(|| one.merge(&other).unwrap());
            scope.spawn(|| other.merge(&one).unwrap());
        });
        for store in [one, other] {
            assert_eq!(seen_of(&store, 0..3 * IDS).len(), 2 * IDS as usize);
        }
    }
}
