//! Models of one table without a store around it, checked by loom without a bound on preemptions.
//!
//! Under a store the view's lock orders almost everything; here the stamp alone must do it.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

use super::{Probe, Table, reserve};
use crate::fingerprint::Fingerprint;
use crate::stamp::{Stamp, State};

fn table() -> Table {
    Table::new(reserve(1).expect("two lines"), 0)
}

/// Tries to be the first for a key, as a check does; whether it was.
fn is_first(table: &Table, key: Fingerprint) -> bool {
    let cell = match table.find(key) {
        Probe::Hit(cell) => cell,
        Probe::Miss(vacancy) => table.locate(key, vacancy).expect("there is room").cell,
        Probe::Exhausted => panic!("two lines have room for two keys"),
    };
    cell.load() == Stamp::UNDECIDED && cell.advance(Stamp::UNDECIDED, Stamp::new(State::Seen, 1)).is_ok()
}

#[test]
fn winner_is_visible_to_whoever_finds_its_decision() {
    loom::model(|| {
        let shared = Arc::new((table(), [AtomicUsize::new(0), AtomicUsize::new(0)]));
        let threads: Vec<_> = (0..2)
            .map(|thread: usize| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    let (table, done) = &*shared;
                    // Relaxed on purpose: the stamp alone must order the two accesses.
                    done[thread].store(1, Ordering::Relaxed);
                    let is_first = is_first(table, Fingerprint::from_halves(7, 1));
                    // Relaxed on purpose: as above.
                    assert!(is_first || done[1 - thread].load(Ordering::Relaxed) == 1);
                    is_first
                })
            })
            .collect();
        let firsts = threads.into_iter().map(|thread| thread.join().expect("no panic"));
        assert_eq!(firsts.filter(|is_first| *is_first).count(), 1);
    });
}

#[test]
fn keys_with_one_upper_half_end_in_different_slots() {
    loom::model(|| {
        let table = Arc::new(table());
        let threads: Vec<_> = (1..=2)
            .map(|lo| {
                let table = Arc::clone(&table);
                thread::spawn(move || is_first(&table, Fingerprint::from_halves(7, lo)))
            })
            .collect();
        for thread in threads {
            assert!(thread.join().expect("no panic"), "each key has a slot of its own");
        }
        assert!((1..=2).all(|lo| !is_first(&table, Fingerprint::from_halves(7, lo))));
    });
}

#[test]
fn closing_returns_the_decision_or_makes_it_fail() {
    loom::model(|| {
        let table = Arc::new(table());
        let key = Fingerprint::from_halves(7, 1);
        let decider = {
            let table = Arc::clone(&table);
            thread::spawn(move || is_first(&table, key))
        };
        let last = table.locate_to_close(key).expect("there is room").close();
        let is_decided = decider.join().expect("no panic");
        assert_eq!(is_decided, last.state() == State::Seen);
    });
}
