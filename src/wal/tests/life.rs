//! What is written comes back, across segments, openings and power cuts.

use proptest::prelude::*;

use super::super::frame::bytes_of;
use super::super::memory::Memory;
use super::super::segment::{self, HEADER_BYTES};
use super::{Cut, STORE, open, push, replay};
use crate::error::Error;

/// Steps in which a segment of 8192 bytes is made: four slices and the end.
const SLICES: u64 = 5;

#[test]
fn facts_and_cursors_come_back_in_order() {
    let memory = Memory::default();
    let log = open(&memory, 3, 7, 64 << 10).unwrap();
    push(&log, 0..100).unwrap();
    let position =
        log.append_cursors(&[(super::key(100), super::fact(100))], &[("a", 1), ("bb", 2)]).unwrap();
    assert_eq!(log.append_cursors(&[], &[("a", 3)]).unwrap(), position + 1);
    let position = push(&log, 101..103).unwrap();
    log.sync_until(position).unwrap();
    let (recovered, replayed) = replay(&memory, 3, &[]).unwrap();
    assert_eq!(replayed.numbers, (0..103).collect::<Vec<_>>());
    assert_eq!(replayed.cursors, [("a".to_owned(), 1), ("bb".to_owned(), 2), ("a".to_owned(), 3)]);
    assert_eq!((recovered.next_segment, recovered.next_seq, recovered.frames), (5, 11, 4));
    assert_eq!((recovered.cut, recovered.discarded_frames), (None, 0));
    assert_eq!(log.stats().syncs, 1, "everything waited for one sync");
    assert_eq!(log.stats().frames, 4);
}

#[test]
fn sync_without_new_facts_asks_nothing_of_the_system() {
    let memory = Memory::default();
    let log = open(&memory, 1, 1, 64 << 10).unwrap();
    log.sync_until(push(&log, 0..1).unwrap()).unwrap();
    let operations = memory.operations();
    drop(log.session().unwrap());
    log.sync_until(log.position()).unwrap();
    assert_eq!(memory.operations(), operations);
    assert_eq!(log.stats().frames, 1, "places without facts make no frame");
}

#[test]
fn frames_that_fit_no_more_go_to_the_next_segment() {
    let memory = Memory::default();
    let log = open(&memory, 1, 1, 8192).unwrap();
    for number in 0..1000 {
        let segment = log.segment();
        log.write_until(push(&log, [number]).unwrap()).unwrap();
        assert!(log.segment() >= segment);
    }
    let per_segment = (8192 - HEADER_BYTES) / bytes_of(1, &[]);
    assert_eq!(log.segment(), 1 + (1000 - 1) / per_segment);
    let (recovered, replayed) = replay(&memory.after_kill(), 1, &[]).unwrap();
    assert_eq!(replayed.numbers, (0..1000).collect::<Vec<_>>());
    assert_eq!(recovered.frames, 1000);
    let removed = log.remove_below(u64::MAX).unwrap();
    assert_eq!(removed, log.segment() - 1, "the one being written stays");
    let last = replay(&memory, log.segment(), &[]).unwrap().1.numbers;
    assert_eq!(last.last(), Some(&999));
    assert_eq!(last.len() as u64, 1000 - removed * per_segment);
}

#[test]
fn prepared_segments_are_used_before_others_are_made() {
    let memory = Memory::default();
    let log = open(&memory, 1, 1, 8192).unwrap();
    assert!(!log.prepare().unwrap());
    log.write_until(push(&log, 0..200).unwrap()).unwrap();
    assert_eq!((log.segment(), log.stats().segments), (2, 2));
    for _ in 0..SLICES {
        assert_eq!(log.stats().segments, 2);
        assert!(log.prepare().unwrap());
    }
    assert_eq!(log.stats().segments, 3);
    assert!(!log.prepare().unwrap());
    assert_eq!(replay(&memory, 1, &[]).unwrap().1.numbers.len(), 200);
}

/// Whoever needs the segment makes what is left of it; nothing in the files tells how it was made.
#[test]
fn segment_in_the_making_is_finished_by_who_needs_it() {
    for slices in 0..=SLICES {
        let memory = Memory::default();
        let log = open(&memory, 1, 1, 8192).unwrap();
        log.write_until(push(&log, 0..200).unwrap()).unwrap();
        for _ in 0..slices {
            assert!(log.prepare().unwrap());
        }
        log.write_until(push(&log, 200..600).unwrap()).unwrap();
        let last = log.segment();
        assert!(last > 3 && log.stats().segments == last, "{slices}");
        assert_eq!(memory.names(), (1..=last).map(segment::name).collect::<Vec<_>>());
        let (_, replayed) = replay(&memory.after_kill(), 1, &[]).unwrap();
        assert_eq!(replayed.numbers, (0..600).collect::<Vec<_>>());
    }
}

/// A crash between two slices leaves a part of a file that nobody reads, and the next log removes.
#[test]
fn segment_that_a_crash_leaves_half_made_is_not_read_and_goes() {
    for slices in 0..SLICES {
        let memory = Memory::default();
        let log = open(&memory, 1, 1, 8192).unwrap();
        log.sync_until(push(&log, 0..200).unwrap()).unwrap();
        for _ in 0..slices {
            assert!(log.prepare().unwrap());
        }
        for after in [memory.after_kill(), memory.after_power_cut(&mut || false)] {
            let unfinished = after.names().iter().filter(|name| name.ends_with(".new")).count();
            assert_eq!(unfinished, usize::from(slices > 0));
            let (recovered, replayed) = replay(&after, 1, &[]).unwrap();
            assert_eq!(replayed.numbers.len(), 200);
            assert_eq!(recovered.next_segment, 3);
            let log = open(&after, recovered.next_segment, recovered.next_seq, 8192).unwrap();
            assert_eq!(after.names(), (1..=4).map(segment::name).collect::<Vec<_>>());
            log.sync_until(push(&log, 200..400).unwrap()).unwrap();
            let cuts: Vec<_> = recovered.cut.into_iter().collect();
            assert_eq!(replay(&after, 1, &cuts).unwrap().1.numbers.len(), 400);
        }
    }
}

/// What was given up is somebody else's: also a segment in the making.
#[test]
fn segment_in_the_making_is_left_alone_when_the_log_is_given_up() {
    let memory = Memory::default();
    let log = open(&memory, 1, 1, 8192).unwrap();
    log.write_until(push(&log, 0..200).unwrap()).unwrap();
    assert!(log.prepare().unwrap());
    log.give_up();
    let operations = memory.operations();
    assert!(matches!(log.prepare(), Err(Error::Poisoned { .. })));
    assert!(matches!(log.append_cursors(&[], &[("c", 1)]), Err(Error::Poisoned { .. })));
    assert_eq!(memory.operations(), operations);
}

#[test]
fn queue_that_is_full_says_so_and_takes_more_after_a_write() {
    let memory = Memory::default();
    let log = open(&memory, 1, 1, 1 << 20).unwrap();
    let mut opened = 0;
    while let Some(session) = log.session().unwrap() {
        drop(session);
        opened += 1;
    }
    assert_eq!(opened, crate::limits::LOG_CELLS);
    log.append_cursors(&[], &[("makes room for itself", 1)]).unwrap();
    assert!(log.session().unwrap().is_some());
}

#[test]
fn session_that_panics_holds_up_nobody() {
    let memory = Memory::default();
    let log = open(&memory, 1, 1, 1 << 20).unwrap();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut session = log.session().unwrap().unwrap();
        session.push(super::key(5), super::fact(5));
        panic!("planted");
    }));
    assert!(panicked.is_err());
    log.sync_until(log.position()).unwrap();
    assert_eq!(replay(&memory, 1, &[]).unwrap().1.numbers, [5]);
}

#[test]
fn commit_longer_than_a_frame_is_refused_and_harms_nothing() {
    let memory = Memory::default();
    let log = open(&memory, 1, 1, 8192).unwrap();
    let records: Vec<_> = (0..200).map(|number| (super::key(number), super::fact(number))).collect();
    assert_eq!(
        log.append_cursors(&records, &[]),
        Err(Error::CommitSize { bytes: 64 + 4800, bytes_max: 4096 })
    );
    log.append_cursors(&records[..168], &[]).unwrap();
    assert_eq!(log.fault(), None);
    assert_eq!(replay(&memory, 1, &[]).unwrap().1.numbers.len(), 168);
}

#[test]
fn threads_share_the_log_and_lose_nothing() {
    let memory = Memory::default();
    let log = open(&memory, 1, 1, 64 << 10).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (log, memory) = (&log, &memory);
            scope.spawn(move || {
                for round in 0..300 {
                    let number = thread * 1000 + round;
                    let position = push(log, [number]).unwrap();
                    match round % 3 {
                        0 => log.sync_until(position).unwrap(),
                        1 => log.write_until(position).unwrap(),
                        _ => {
                            log.append_cursors(&[], &[("c", number)]).unwrap();
                        }
                    }
                    let _ = (log.prepare().unwrap(), memory);
                }
            });
        }
    });
    log.sync_until(log.position()).unwrap();
    let mut numbers = replay(&memory.after_power_cut(&mut || false), 1, &[]).unwrap().1.numbers;
    numbers.sort_unstable();
    let expected: Vec<u64> =
        (0..4).flat_map(|thread| (0..300).map(move |round| thread * 1000 + round)).collect();
    assert_eq!(numbers, expected);
}

#[test]
fn torn_tail_is_cut_and_the_log_goes_on_behind_it() {
    let memory = Memory::default();
    let log = open(&memory, 1, 1, 8192).unwrap();
    log.sync_until(push(&log, 0..3).unwrap()).unwrap();
    log.write_until(push(&log, 3..50).unwrap()).unwrap();
    drop(log);
    let mut sectors = 0;
    let memory = memory.after_power_cut(&mut || {
        sectors += 1;
        sectors != 2
    });
    let (recovered, replayed) = replay(&memory, 1, &[]).unwrap();
    assert_eq!(replayed.numbers, [0, 1, 2]);
    let offset = HEADER_BYTES + bytes_of(3, &[]);
    assert_eq!(recovered.cut, Some(Cut { segment: 1, offset, resumes_at: 3 }));
    assert_eq!(recovered.next_seq, 2);
    // A crash before the cut is kept changes nothing.
    assert_eq!(replay(&memory, 1, &[]).unwrap(), (recovered, replayed));
    let cuts = [recovered.cut.unwrap()];
    let log = open(&memory, recovered.next_segment, recovered.next_seq, 8192).unwrap();
    assert_eq!(replay(&memory, 1, &cuts).unwrap().1.numbers, [0, 1, 2]);
    log.sync_until(push(&log, 60..62).unwrap()).unwrap();
    let (again, replayed) = replay(&memory.after_power_cut(&mut || false), 1, &cuts).unwrap();
    assert_eq!(replayed.numbers, [0, 1, 2, 60, 61]);
    assert_eq!((again.cut, again.next_seq, again.next_segment), (None, 3, 5));
}

#[test]
fn whole_frames_behind_a_hole_that_was_not_synced_are_discarded() {
    let memory = Memory::default();
    let log = open(&memory, 1, 1, 64 << 10).unwrap();
    log.sync_until(push(&log, 0..64).unwrap()).unwrap();
    for number in [100, 200, 300] {
        log.write_until(push(&log, number..number + 64).unwrap()).unwrap();
    }
    let name = segment::name(1);
    let mut bytes = memory.read(&name, false);
    let frame = usize::try_from(bytes_of(64, &[])).unwrap();
    bytes[4096 + frame..][..512].fill(0);
    memory.put(&name, bytes);
    let (recovered, replayed) = replay(&memory, 1, &[]).unwrap();
    assert_eq!(replayed.numbers, (0..64).collect::<Vec<_>>());
    assert_eq!((recovered.discarded_frames, recovered.next_seq), (2, 2));
    assert_eq!(recovered.cut.map(|cut| cut.offset), Some(4096 + frame as u64));
}

#[test]
fn leftovers_of_an_interrupted_creation_are_removed() {
    let memory = Memory::default();
    memory.put("log-0000000001.new", vec![1; 10]);
    memory.put("log-0000000001.new.old", vec![1; 10]);
    memory.put("log-1", vec![1; 10]);
    let log = open(&memory, 1, 1, 8192).unwrap();
    log.sync_until(push(&log, 0..3).unwrap()).unwrap();
    assert_eq!(memory.names(), ["log-0000000001", "log-0000000001.new.old", "log-0000000002", "log-1"]);
    assert_eq!(replay(&memory, 1, &[]).unwrap().1.numbers, [0, 1, 2]);
}

#[test]
fn frames_of_an_earlier_life_of_the_blocks_are_not_taken() {
    let memory = Memory::default();
    let log = open(&memory, 1, 1, 8192).unwrap();
    log.sync_until(push(&log, 0..3).unwrap()).unwrap();
    drop(log);
    let old = memory.read(&segment::name(1), true);
    memory.take(&segment::name(1));
    memory.take(&segment::name(2));
    let log = open(&memory, 1, 1, 8192).unwrap();
    let mut bytes = memory.read(&segment::name(1), true);
    bytes[4096..].copy_from_slice(&old[4096..]);
    memory.put(&segment::name(1), bytes);
    drop(log);
    let (recovered, replayed) = replay(&memory, 1, &[]).unwrap();
    assert!(replayed.numbers.is_empty());
    assert!(recovered.cut.is_some());
}

#[test]
fn other_stores_and_later_formats_are_refused() {
    let memory = Memory::default();
    drop(open(&memory, 1, 1, 8192).unwrap());
    let extent = super::Extent { store_id: STORE + 1, from: 1, cuts: &[] };
    let outcome = super::recover(&memory, extent, &mut |_| (), &mut |_, _| (), &mut |_, _| ());
    assert!(matches!(outcome, Err(Error::Corrupt { offset: 16, .. })), "{outcome:?}");
    let mut bytes = memory.read(&segment::name(2), true);
    bytes[8] = 2;
    memory.put(&segment::name(2), bytes);
    let operations = memory.operations();
    let outcome = replay(&memory, 1, &[]);
    assert!(matches!(outcome, Err(Error::Format { found: 2, known: 1, .. })), "{outcome:?}");
    assert!(memory.operations() <= operations + 2, "nothing but syncs");
}

/// What a run does next.
#[derive(Clone, Debug)]
enum Step {
    Push(u64),
    Write,
    Sync,
    Cursor,
    Prepare,
    Mark,
    /// A kill, or a power cut with the seed for what it keeps; then the store is opened again.
    Crash(Option<u64>),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (1..150_u64).prop_map(Step::Push),
        3 => Just(Step::Write),
        3 => Just(Step::Sync),
        1 => Just(Step::Cursor),
        1 => Just(Step::Prepare),
        1 => Just(Step::Mark),
        1 => proptest::option::of(any::<u64>()).prop_map(Step::Crash),
    ];
    proptest::collection::vec(step, 1..60)
}

/// Numbers from a seed, one bit of each for whether a sector is kept.
fn coin(seed: u64) -> impl FnMut() -> bool {
    let mut state = seed | 1;
    // Some seeds keep nearly all, some nearly nothing.
    let share = seed >> 61;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state >> 20 & 7 <= share
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn crash_keeps_what_was_synced_and_makes_nothing_up(steps in steps()) {
        let mut memory = Memory::default();
        let mut log = open(&memory, 1, 1, 8192).unwrap();
        // Numbers in the order of the log: all, written, synced.
        let (mut pushed, mut written, mut synced) = (Vec::new(), 0, 0);
        let mut cuts = Vec::new();
        let mut next = 0;
        for step in steps.into_iter().chain([Step::Crash(Some(0)), Step::Crash(None)]) {
            match step {
                Step::Push(count) => {
                    push(&log, next..next + count).unwrap();
                    pushed.extend(next..next + count);
                    next += count;
                }
                Step::Write => {
                    log.write_until(log.position()).unwrap();
                    written = pushed.len();
                }
                Step::Sync => {
                    log.sync_until(log.position()).unwrap();
                    (written, synced) = (pushed.len(), pushed.len());
                }
                Step::Cursor => {
                    log.append_cursors(&[(super::key(next), super::fact(next))], &[("c", next)]).unwrap();
                    pushed.push(next);
                    next += 1;
                    written = pushed.len();
                }
                Step::Prepare => drop(log.prepare().unwrap()),
                Step::Mark => drop(log.mark().unwrap()),
                Step::Crash(seed) => {
                    drop(log);
                    memory = match seed {
                        None => memory.after_kill(),
                        Some(seed) => memory.after_power_cut(&mut coin(seed)),
                    };
                    let least = if seed.is_some() { synced } else { written };
                    let (recovered, replayed) = replay(&memory, 1, &cuts).unwrap();
                    prop_assert!(replayed.numbers.len() >= least, "{} of {least}", replayed.numbers.len());
                    prop_assert_eq!(&replayed.numbers[..], &pushed[..replayed.numbers.len()]);
                    prop_assert_eq!(&replay(&memory, 1, &cuts).unwrap().0, &recovered);
                    cuts.extend(recovered.cut);
                    pushed = replayed.numbers;
                    (written, synced) = (pushed.len(), pushed.len());
                    log = open(&memory, recovered.next_segment, recovered.next_seq, 8192).unwrap();
                }
            }
        }
    }
}
