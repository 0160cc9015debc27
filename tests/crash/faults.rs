//! Every operation of the disk fails, in every script, in several ways.

use std::io::ErrorKind;

use firstseen::testing::{Crash, Fault, Op, SimDisk};
use firstseen::{Durability, Error, FileAccess, Verdict};

use crate::random::{Random, number, seed};
use crate::script::{Run, Script, compare, scripts};
use crate::setup::Setup;
use crate::workload::Outcome;

/// Operations that change the disk: the first that fails poisons the store (G6).
const WRITING: [Op; 6] = [Op::Create, Op::Write, Op::Allocate, Op::Sync, Op::Rename, Op::SyncDir];

const READING: [Op; 7] = [Op::List, Op::Open, Op::Lock, Op::Size, Op::Read, Op::Map, Op::Remove];

/// An interruption that never ends is none that a system knows.
const FAILURES: [(ErrorKind, bool); 5] = [
    (ErrorKind::Other, false),
    (ErrorKind::Other, true),
    (ErrorKind::StorageFull, false),
    (ErrorKind::StorageFull, true),
    (ErrorKind::Interrupted, false),
];

#[test]
fn any_operation_that_fails_loses_nothing_that_was_answered() {
    let (seed, mut faults, mut poisoned, mut opens) = (seed(), 0_u64, 0_u64, 0_u64);
    println!("faults: seed {seed}");
    // Every how many-th operation fails.
    let stride = number("FIRSTSEEN_FAULT_STRIDE").unwrap_or(1);
    let mut random = Random::new(seed);
    for (index, script) in scripts().iter().enumerate() {
        let sound = SimDisk::new(seed);
        let run = script.run(&sound);
        assert!(run.failure.is_none(), "script {index} fails by itself: {:?}", run.failure);
        drop(run);
        for op in WRITING.into_iter().chain(READING) {
            for at in (0..sound.ops_of(op)).step_by(usize::try_from(stride).unwrap()) {
                for (kind, is_sticky) in FAILURES {
                    let fault = Fault { at, kind, is_sticky, only: Some(op) };
                    let outcome = fail(script, &fault, &mut random);
                    let repeat = format!("FIRSTSEEN_SEED={seed}, script {index}, {fault:?}");
                    let outcome = outcome.unwrap_or_else(|text| panic!("{repeat}: {text}"));
                    faults += 1;
                    poisoned += u64::from(outcome.0);
                    opens += outcome.1;
                }
            }
        }
    }
    report!("counted: {faults} faults, {poisoned} stores poisoned, {opens} opens, seed {seed}");
    assert!(poisoned > 0);
}

/// Runs with a fault, then opens what is left; whether the store was poisoned, and how often it was opened.
fn fail(script: &Script, fault: &Fault, random: &mut Random) -> Outcome<(bool, u64)> {
    let disk = SimDisk::new(random.next());
    disk.fail(fault.clone());
    let run = script.run(&disk);
    let syncs = disk.ops_of(Op::Sync);
    let is_poisoned = after_failure(script, fault, &run)?;
    let Run { acked, durable, .. } = run;
    // What a failed sync was to write may be gone from the system's memory as well.
    let is_sync = matches!(fault.only, Some(Op::Sync));
    let low = match script.setup.durability {
        Durability::Buffered if !is_sync => acked,
        _ => durable,
    };
    let run = Run { store: None, ..run };
    if run.failure.is_some() && is_sync && disk.ops_of(Op::Sync) > syncs {
        return Err("a sync was tried again".to_owned());
    }
    compare(script, &run, &disk.kill(), low).map_err(|text| format!("after a kill: {text}"))?;
    let crash = random.pick(&[Crash::LoseAll, Crash::KeepAll, Crash::Random(1)]);
    let crash = if let Crash::Random(_) = crash { Crash::Random(random.next()) } else { crash };
    compare(script, &run, &disk.crash(crash), durable).map_err(|text| format!("after {crash:?}: {text}"))?;
    Ok((is_poisoned, 2))
}

/// Calls after the one that failed; whether they were refused because the store was poisoned.
fn after_failure(script: &Script, fault: &Fault, run: &Run) -> Outcome<bool> {
    let (Some(store), Some((call, error))) = (&run.store, &run.failure) else { return Ok(false) };
    let is_writing = fault.only.is_some_and(|op| WRITING.contains(&op));
    let is_refused = |error: &Error| matches!(error, Error::Poisoned { .. } | Error::Closed);
    let mut answers = vec![store.check("later").map(drop), store.persist(), store.check("later").map(drop)];
    answers.push(store.claim("even later", std::time::Duration::ZERO).map(drop));
    answers.push(store.check_batch(&["latest"], &mut [Verdict::default()]));
    answers.push(store.forget("later").map(drop));
    let is_poisoned = answers.iter().all(|answer| answer.as_ref().is_err_and(is_refused));
    if is_writing && !is_poisoned {
        let setup = script.setup;
        return Err(format!("{call:?} failed ({error}), but later: {answers:?}; {setup:?}"));
    }
    Ok(is_poisoned)
}

#[test]
fn scripts_with_short_and_interrupted_io_answer_the_same() {
    for (index, script) in scripts().iter().enumerate() {
        let disk = SimDisk::new(index as u64);
        disk.short_io(true);
        let run = script.run(&disk);
        assert!(run.failure.is_none(), "script {index}: {:?}", run.failure);
        let run = Run { store: None, ..run };
        let low = if script.setup.durability == Durability::Buffered { run.acked } else { run.durable };
        compare(script, &run, &disk.kill(), low).unwrap();
    }
}

/// A file system may forget that a file has grown although it was synced. Segments have their length before
/// their first use, so nothing that is answered depends on it.
#[test]
fn log_that_cannot_grow_loses_nothing_that_was_answered() {
    let (durability, segment_bytes) = (Durability::Sync, 1 << 16);
    let setup = Setup { durability, segment_bytes, first_table_lines: 100, ..Setup::default() };
    let disk = SimDisk::new(0);
    let store = setup.open_at(&disk, 0, FileAccess::Map).unwrap();
    disk.weak_sync(true);
    for id in 0..50 {
        assert_eq!(store.check([id]).unwrap(), Verdict::FirstSeen);
    }
    let image = disk.crash(Crash::LoseAll);
    image.weak_sync(false);
    let store = setup.open_at(&image, 0, FileAccess::Map).unwrap();
    for id in 0..50 {
        assert_eq!(store.check([id]).unwrap(), Verdict::Duplicate, "ID {id}");
    }
}
