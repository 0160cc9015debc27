//! Power cuts and kills after every operation of the disk, and again while the store is opened after one.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::check::{Checker, Counts, Expected};
use crate::random::{Random, number, seed};
use crate::workload::{Outcome, Workload};

/// Crash states of a run without `FIRSTSEEN_CRASH_STATES`.
const STATES: u64 = 100_000;

/// Calls of one workload.
const CALLS: usize = 60;

#[test]
fn store_after_any_crash_knows_what_it_has_answered_and_nothing_else() {
    let (seed, wanted) = (seed(), number("FIRSTSEEN_CRASH_STATES").unwrap_or(STATES));
    println!("crash: seed {seed}, {wanted} crash states");
    let (next, done) = (AtomicU64::new(seed), AtomicU64::new(0));
    let (total, failure, begun) = (Mutex::new(Counts::default()), Mutex::new(None), Instant::now());
    let work = || {
        // Relaxed: both only count, the results are read when the threads have ended.
        while done.load(Ordering::Relaxed) < wanted && failure.lock().unwrap().is_none() {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            match workload(seed) {
                Ok(counts) => {
                    done.fetch_add(counts.states, Ordering::Relaxed);
                    let mut total = total.lock().unwrap();
                    total.states += counts.states;
                    total.nested += counts.nested;
                    total.opens += counts.opens;
                }
                Err(text) => *failure.lock().unwrap() = Some((seed, text)),
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    if let Some((seed, text)) = failure.lock().unwrap().take() {
        panic!("repeat with FIRSTSEEN_SEED={seed} FIRSTSEEN_CRASH_STATES=1: {text}");
    }
    let Counts { states, nested, opens } = *total.lock().unwrap();
    let workloads = next.load(Ordering::Relaxed) - seed;
    let seconds = begun.elapsed().as_secs_f64();
    report!(
        "counted: {states} crash states, {nested} of them nested, {opens} opens, {workloads} workloads, \
         seed {seed}, {seconds:.1} s"
    );
    assert!(states >= wanted && (nested > 0 || wanted < 1_000));
}

/// Runs one workload and crashes it in every state of its disk.
fn workload(seed: u64) -> Outcome<Counts> {
    let workload = Workload::run(seed, CALLS)?;
    let setup = workload.setup;
    let told = |text| format!("{setup:?}: {text}");
    let random = Random::new(seed ^ 0x5EED);
    let mut checker = Checker { workload: &workload, random, counts: Counts::default() };
    for (index, section) in workload.sections.iter().enumerate() {
        for (state, (disk, moment)) in section.states().enumerate() {
            let expected = Expected::at(moment, setup.durability);
            let place = |text| told(format!("state {state} of section {index}: {text}"));
            checker.crash(disk, &expected, 1).map_err(place)?;
        }
    }
    Ok(checker.counts)
}
