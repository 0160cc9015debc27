//! The store against a slow, obvious twin: random sequences of calls, every answer compared.
//!
//! `FIRSTSEEN_SEED` repeats a run, `FIRSTSEEN_SEQUENCES` sets how many sequences are tried. Tables have one
//! to four lines in the beginning, so that a handful of IDs rotates them; the run as a whole must have met
//! every kind of background work, else it would prove nothing.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on stops, with the place")]

#[path = "model/coverage.rs"]
mod coverage;
#[cfg(feature = "testing")]
#[path = "model/disk.rs"]
mod disk;
#[path = "model/leases.rs"]
mod leases;
#[path = "model/ops.rs"]
mod ops;
#[path = "model/run.rs"]
mod run;
#[path = "model/twin.rs"]
mod twin;
#[path = "model/watch.rs"]
mod watch;

use std::hash::{BuildHasher, RandomState};
use std::io::Write;

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};

use coverage::Coverage;
use watch::Watch;

/// Sequences of a run without `FIRSTSEEN_SEQUENCES`.
const SEQUENCES: u32 = 40_000;

/// The same for stores on a simulated disk.
#[cfg(feature = "testing")]
const SEQUENCES_DURABLE: u32 = 20_000;

/// A run of so many sequences or more must have met everything that can happen.
const SEQUENCES_COVERING: u32 = 2_000;

#[test]
fn store_under_random_calls_answers_like_the_twin() {
    let sequences = sequences(SEQUENCES);
    let (seed, mut runner) = runner(sequences);
    let repeat = format!("repeat with FIRSTSEEN_SEED={seed} FIRSTSEEN_SEQUENCES={sequences}");
    let (coverage, watch) = (Coverage::default(), Watch::start(repeat.clone()));
    let outcome = runner.run(&(ops::setups(), ops::sequences()), |(setup, ops)| {
        watch.begin(&setup, &ops);
        let outcome = run::sequence(&setup, None, &ops, &coverage).map_err(TestCaseError::fail);
        watch.end();
        outcome
    });
    if let Err(failure) = outcome {
        panic!("{repeat}: {failure}");
    }
    let mut out = std::io::stderr();
    writeln!(out, "model: {sequences} sequences, seed {seed}: {coverage}").unwrap();
    writeln!(out, "counted: {sequences} sequences").unwrap();
    if sequences >= SEQUENCES_COVERING {
        let missing = coverage.missing();
        assert!(missing.is_empty(), "never happened in {sequences} sequences, seed {seed}: {missing:?}");
    }
}

/// The same with stores on a simulated disk, which are closed, dropped, killed and lose their power.
#[cfg(feature = "testing")]
#[test]
fn durable_store_under_random_calls_and_crashes_answers_like_the_twin() {
    let sequences = sequences(SEQUENCES_DURABLE);
    let (seed, mut runner) = runner(sequences);
    let repeat = format!("repeat with FIRSTSEEN_SEED={seed} FIRSTSEEN_SEQUENCES={sequences}");
    let (coverage, watch) = (Coverage::default(), Watch::start(repeat.clone()));
    let ends = std::sync::Arc::new(disk::Ends::default());
    let strategy = (ops::setups(), disk::habits(), ops::sequences_with_reopening());
    let outcome = runner.run(&strategy, |(setup, habits, ops)| {
        watch.begin(&setup, &ops);
        let place = Box::new(disk::OnDisk::new(habits, &ends));
        let outcome = run::sequence(&setup, Some(place), &ops, &coverage);
        watch.end();
        outcome.map_err(TestCaseError::fail)
    });
    if let Err(failure) = outcome {
        panic!("{repeat}: {failure}");
    }
    let mut out = std::io::stderr();
    writeln!(out, "model on disk: {sequences} sequences, seed {seed}: {coverage}").unwrap();
    writeln!(out, "counted: {sequences} durable sequences, {ends}").unwrap();
    assert!(sequences < SEQUENCES_COVERING || ends.are_all_met(), "{ends}");
}

/// The same seed has to give the same sequences, or no failure could be repeated.
#[test]
fn generator_with_equal_seeds_gives_equal_sequences() {
    let first = |seed| {
        let mut runner = TestRunner::new_with_rng(Config::default(), generator(seed));
        let tree = (ops::setups(), ops::sequences()).new_tree(&mut runner).unwrap();
        format!("{:?}", proptest::strategy::ValueTree::current(&tree))
    };
    assert_eq!(first(7), first(7));
    assert_ne!(first(7), first(8));
}

fn sequences(unless_given: u32) -> u32 {
    number("FIRSTSEEN_SEQUENCES").map_or(unless_given, |given| given.try_into().unwrap())
}

fn runner(sequences: u32) -> (u64, TestRunner) {
    let seed = number("FIRSTSEEN_SEED").unwrap_or_else(|| RandomState::new().hash_one(0));
    let mut config = Config::with_cases(sequences);
    config.failure_persistence = None;
    config.max_shrink_iters = 20_000;
    (seed, TestRunner::new_with_rng(config, generator(seed)))
}

fn generator(seed: u64) -> TestRng {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    TestRng::from_seed(RngAlgorithm::ChaCha, &bytes)
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is a number, not {text:?}")))
}
