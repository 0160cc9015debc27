//! Models of the protocol, checked by loom on the real code: every interleaving within the stated bound.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test --release --lib --test loom`; `FIRSTSEEN_LOOM_PREEMPTIONS`
//! raises the bounds for a long run (three callers across a rotation take minutes at 3). Tables have one
//! home line here, so every key meets every other in it, and a table is due for rotation after one key.
#![cfg(loom)]

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use firstseen::{
    Claim, Error, Fingerprint, Maintenance, ManualClock, Options, Secret, Store, Timestamp, Verdict, Window,
};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

const LEASE: Duration = Duration::from_millis(100);

/// Whether a model has failed already: with a planted fault one is enough.
static HAS_FAILED: AtomicBool = AtomicBool::new(false);

/// Explores a model; prints what it took.
fn model(name: &'static str, preemptions: usize, body: impl Fn() + Send + Sync + 'static) {
    let is_mutant = std::env::var_os("FIRSTSEEN_MUTANT").is_some();
    if is_mutant && HAS_FAILED.load(std::sync::atomic::Ordering::SeqCst) {
        return;
    }
    let explored = catch_unwind(AssertUnwindSafe(|| explore(name, preemptions, body)));
    if let Err(panic) = explored {
        HAS_FAILED.store(true, std::sync::atomic::Ordering::SeqCst);
        resume_unwind(panic);
    }
}

fn explore(name: &'static str, preemptions: usize, body: impl Fn() + Send + Sync + 'static) {
    let runs = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = std::sync::Arc::clone(&runs);
    let mut builder = loom::model::Builder::new();
    let more = std::env::var("FIRSTSEEN_LOOM_PREEMPTIONS").ok().and_then(|bound| bound.parse().ok());
    let preemptions = preemptions.max(more.unwrap_or(0));
    builder.preemption_bound = Some(preemptions);
    builder.expect_explicit_explore = false;
    builder.max_branches = 20_000;
    let begun = std::time::Instant::now();
    builder.check(move || {
        counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        body();
    });
    let runs = runs.load(std::sync::atomic::Ordering::Relaxed);
    println!("loom model {name}: {runs} executions, {preemptions} preemptions, {:?}", begun.elapsed());
}

fn options() -> Options {
    let secret = Secret::from_bytes(std::array::from_fn(|index| index as u8 ^ 0x5a));
    Options::new().secret(secret).maintenance(Maintenance::Manual).first_table_lines(1)
}

fn store() -> Store {
    Store::in_memory(options()).expect("a store of one line")
}

fn key(hi: u64, lo: u64) -> Fingerprint {
    Fingerprint::from_halves(hi, lo)
}

fn check(store: &Store, key: Fingerprint) -> Verdict {
    let mut verdicts = [Verdict::default()];
    store.check_fingerprints(&[key], &mut verdicts).expect("there is room");
    verdicts[0]
}

fn firsts(verdicts: &[Verdict]) -> usize {
    verdicts.iter().filter(|verdict| verdict.is_first_seen()).count()
}

/// Makes the next maintenance step a rotation: one key fills a table of one line to its rotation load.
fn fill(store: &Store) {
    assert_eq!(check(store, key(99, 99)), Verdict::FirstSeen);
}

/// Steps maintenance `steps` times.
fn maintain(store: &Store, steps: usize) {
    for _ in 0..steps {
        let _ = store.maintain().expect("memory for a table of one line");
    }
}

/// `threads` threads check `keys`; every key is new to exactly one of them.
fn race(name: &'static str, preemptions: usize, keys: &'static [&'static [(u64, u64)]], steps: usize) {
    model(name, preemptions, move || {
        let store = store();
        if steps > 0 {
            fill(&store);
        }
        let threads: Vec<_> = keys
            .iter()
            .map(|keys| {
                let store = store.clone();
                thread::spawn(move || {
                    keys.iter().map(|&(hi, lo)| (hi, lo, check(&store, key(hi, lo)))).collect()
                })
            })
            .collect();
        maintain(&store, steps);
        let answers: Vec<(u64, u64, Verdict)> =
            threads.into_iter().flat_map(|thread| -> Vec<_> { thread.join().expect("no panic") }).collect();
        for (hi, lo, _) in &answers {
            let of_key = answers.iter().filter(|answer| (answer.0, answer.1) == (*hi, *lo));
            assert_eq!(of_key.filter(|answer| answer.2.is_first_seen()).count(), 1, "{answers:?}");
            assert_eq!(check(&store, key(*hi, *lo)), Verdict::Duplicate);
        }
    });
}

#[test]
fn two_checks_of_one_key_have_one_first() {
    race("two_checks_of_one_key", 5, &[&[(7, 1)], &[(7, 1)]], 0);
}

#[test]
fn three_checks_of_one_key_have_one_first() {
    race("three_checks_of_one_key", 3, &[&[(7, 1)], &[(7, 1)], &[(7, 1)]], 0);
}

#[test]
fn two_keys_of_one_line_are_both_first_once() {
    race("two_keys_of_one_line", 3, &[&[(7, 1), (8, 1)], &[(8, 1), (7, 1)]], 0);
}

#[test]
fn keys_with_one_upper_half_are_told_apart() {
    race("keys_with_one_upper_half", 3, &[&[(7, 1), (7, 2)], &[(7, 2), (7, 1)]], 0);
}

#[test]
fn two_checks_across_a_rotation_have_one_first() {
    race("two_checks_across_a_rotation", 3, &[&[(7, 1)], &[(7, 1)]], 2);
}

#[test]
fn three_checks_across_a_rotation_have_one_first() {
    race("three_checks_across_a_rotation", 2, &[&[(7, 1)], &[(7, 1)], &[(7, 1)]], 2);
}

#[test]
fn winner_is_visible_to_whoever_is_told_duplicate() {
    model("winner_is_visible", 3, || {
        let store = store();
        let done = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
        let threads: Vec<_> = (0..2)
            .map(|thread: usize| {
                let (store, done) = (store.clone(), Arc::clone(&done));
                thread::spawn(move || {
                    // Relaxed on purpose: the verdict alone must order the two accesses.
                    done[thread].store(1, Ordering::Relaxed);
                    let verdict = check(&store, key(7, 1));
                    if verdict.is_duplicate() {
                        assert_eq!(done[1 - thread].load(Ordering::Relaxed), 1);
                    }
                    verdict
                })
            })
            .collect();
        let verdicts: Vec<_> = threads.into_iter().map(|thread| thread.join().expect("no panic")).collect();
        assert_eq!(firsts(&verdicts), 1);
    });
}

#[path = "loom/claims.rs"]
mod claims;
