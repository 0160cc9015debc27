//! Operations that fail, and systems that do little at a time.

use super::super::memory::{Failing, Memory};
use super::{open, push, replay};
use crate::error::{Error, Result};

/// Writes and syncs until something fails; how many numbers were pushed, written and synced by then.
fn run(memory: &Memory, done: &mut [u64; 3]) -> Result<()> {
    let log = open(memory, 1, 1, 8192)?;
    for round in 0..8 {
        let result = (|| {
            let position = push(&log, done[0]..done[0] + 40)?;
            done[0] += 40;
            log.write_until(position)?;
            done[1] = done[0];
            if round % 2 == 0 {
                log.sync_until(position)?;
                done[2] = done[0];
            }
            log.prepare()
        })();
        if let Err(error) = result {
            let operations = memory.operations();
            assert!(matches!(error, Error::Io { .. }), "{error}");
            assert_eq!(log.fault(), Some(error));
            memory.fail(Failing::Never);
            assert!(matches!(log.session(), Err(Error::Poisoned { .. })));
            assert!(matches!(log.write_until(u64::MAX), Err(Error::Poisoned { .. })));
            assert!(matches!(log.sync_until(u64::MAX), Err(Error::Poisoned { .. })));
            assert!(matches!(log.append_cursors(&[], &[("c", 1)]), Err(Error::Poisoned { .. })));
            assert!(matches!(log.prepare(), Err(Error::Poisoned { .. })));
            assert_eq!(memory.operations(), operations, "a poisoned log touches nothing");
            return Err(log.fault().unwrap());
        }
    }
    Ok(())
}

#[test]
fn failure_of_any_operation_poisons_and_loses_nothing_acknowledged() {
    let operations = {
        let memory = Memory::default();
        run(&memory, &mut [0; 3]).unwrap();
        memory.operations()
    };
    assert!(operations > 30, "{operations}");
    for number in 1..=operations {
        for failing in [Failing::Once(number), Failing::From(number)] {
            let memory = Memory::default();
            memory.fail(failing);
            let mut done = [0; 3];
            run(&memory, &mut done).unwrap_err();
            let [pushed, written, synced] = done;
            memory.fail(Failing::Never);
            for (after, least) in
                [(memory.after_kill(), written), (memory.after_power_cut(&mut || false), synced)]
            {
                if !after.names().contains(&"log-0000000001".to_owned()) {
                    assert_eq!(written, 0);
                    continue;
                }
                let (recovered, replayed) = replay(&after, 1, &[]).unwrap();
                let count = replayed.numbers.len() as u64;
                assert!(least <= count && count <= pushed + 40, "{failing:?}: {least} {count} {pushed}");
                assert_eq!(replayed.numbers, (0..count).collect::<Vec<_>>());
                let log = open(&after, recovered.next_segment, recovered.next_seq, 8192).unwrap();
                log.sync_until(push(&log, count..count + 5).unwrap()).unwrap();
                let cuts: Vec<_> = recovered.cut.into_iter().collect();
                assert_eq!(replay(&after, 1, &cuts).unwrap().1.numbers.len() as u64, count + 5);
            }
        }
    }
}

#[test]
fn system_that_does_one_byte_at_a_time_gives_the_same_files() {
    let [fast, slow] = [false, true].map(|is_slow| {
        let memory = Memory::default();
        if is_slow {
            memory.slow_down();
        }
        let mut done = [0; 3];
        run(&memory, &mut done).unwrap();
        replay(&memory, 1, &[]).unwrap()
    });
    assert_eq!(fast, slow);
    assert_eq!(fast.1.numbers.len(), 320);
}

#[test]
fn waiter_that_was_covered_before_the_failure_is_answered() {
    let memory = Memory::default();
    let log = open(&memory, 1, 1, 8192).unwrap();
    let covered = push(&log, [1]).unwrap();
    log.sync_until(covered).unwrap();
    memory.fail(Failing::From(0));
    let position = push(&log, [2]).unwrap();
    assert!(matches!(log.sync_until(position), Err(Error::Io { operation: "writing", .. })));
    assert_eq!(log.sync_until(covered), Ok(()));
    assert!(matches!(log.write_until(position), Err(Error::Poisoned { operation: "writing" })));
}
