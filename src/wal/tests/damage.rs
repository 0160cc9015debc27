//! Every bit and every length of small logs: an error or the right answer, never a fact that nobody pushed.

use super::super::memory::Memory;
use super::super::segment;
use super::{Log, open, push, replay};
use crate::error::Error;

/// Three frames, each synced, and a mark that says so.
fn marked_log() -> (Memory, Log) {
    let memory = Memory::default();
    let log = open(&memory, 1, 1, 8192).unwrap();
    for number in 0..3 {
        log.sync_until(push(&log, [number]).unwrap()).unwrap();
    }
    assert!(log.mark().unwrap());
    assert!(!log.mark().unwrap());
    (memory, log)
}

#[test]
fn flipped_bit_of_a_marked_log_is_an_error_or_changes_nothing() {
    let (memory, _log) = marked_log();
    let name = segment::name(1);
    let bytes = memory.read(&name, false);
    let (sound, _) = replay(&memory, 1, &[]).unwrap();
    let frames = 3 * 88;
    for bit in 0..(4096 + frames + 64 + 256) * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        memory.put(&name, flipped);
        let byte = bit / 8;
        match replay(&memory, 1, &[]) {
            Err(Error::Corrupt { expected, .. }) => {
                assert!(byte < 64 || (4096..4096 + frames).contains(&byte), "bit {bit}");
                let lost = format!("frame {} ", 1 + byte.saturating_sub(4096) / 88);
                assert!(byte < 64 || expected.starts_with(&lost), "bit {bit}: {expected}");
            }
            Err(error) => {
                assert!(matches!(error, Error::Format { .. }) && (8..16).contains(&byte), "{error}");
            }
            Ok((recovered, replayed)) => {
                assert_eq!(replayed.numbers, [0, 1, 2], "bit {bit}");
                // A damaged mark is a torn tail; so is what lies behind it.
                let is_behind = byte >= 4096 + frames;
                assert!((64..4096).contains(&byte) || is_behind, "bit {bit}");
                assert_eq!(recovered.cut.is_some(), is_behind, "bit {bit}");
                assert_eq!(recovered.next_seq, sound.next_seq - u64::from(recovered.frames == 3));
            }
        }
    }
}

#[test]
fn every_length_but_the_right_one_is_an_error() {
    let (memory, _log) = marked_log();
    let name = segment::name(1);
    let bytes = memory.read(&name, true);
    for length in (0..bytes.len()).chain([bytes.len() + 1]) {
        let mut cut = bytes.clone();
        cut.resize(length, 0);
        memory.put(&name, cut);
        let outcome = replay(&memory, 1, &[]);
        assert!(matches!(outcome, Err(Error::Corrupt { .. })), "length {length}: {outcome:?}");
    }
}

#[test]
fn flipped_bit_of_an_unmarked_log_loses_at_most_the_last_frame() {
    let memory = Memory::default();
    let log = open(&memory, 1, 1, 8192).unwrap();
    for number in 0..3 {
        log.sync_until(push(&log, [number]).unwrap()).unwrap();
    }
    let name = segment::name(1);
    let bytes = memory.read(&name, true);
    for bit in 4096 * 8..(4096 + 3 * 88) * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        memory.put(&name, flipped);
        match replay(&memory, 1, &[]) {
            Err(error) => assert!(bit / 8 < 4096 + 2 * 88, "bit {bit}: {error}"),
            Ok((recovered, replayed)) => {
                assert_eq!(replayed.numbers, [0, 1]);
                assert!(recovered.cut.is_some());
            }
        }
    }
}

#[test]
fn log_made_after_an_open_vouches_for_all_before_it() {
    let memory = Memory::default();
    let log = open(&memory, 1, 1, 8192).unwrap();
    log.sync_until(push(&log, 0..3).unwrap()).unwrap();
    drop(log);
    let (recovered, _) = replay(&memory, 1, &[]).unwrap();
    drop(open(&memory, recovered.next_segment, recovered.next_seq, 8192).unwrap());
    let name = segment::name(1);
    let mut bytes = memory.read(&name, true);
    bytes[4096 + 70] ^= 4;
    memory.put(&name, bytes);
    // No frame tells of it, but the header of the new segment does.
    let Err(Error::Corrupt { file, offset, expected, .. }) = replay(&memory, 1, &[]) else {
        panic!("damage that was not seen");
    };
    assert_eq!((file.as_str(), offset), (name.as_str(), 4096));
    assert!(expected.starts_with("frame 1 "), "{expected}");
}

#[test]
fn first_segment_that_lost_all_its_frames_is_refused() {
    let memory = Memory::default();
    let log = open(&memory, 1, 1, 8192).unwrap();
    log.sync_until(push(&log, 0..120).unwrap()).unwrap();
    log.sync_until(push(&log, 120..240).unwrap()).unwrap();
    log.sync_until(push(&log, 240..360).unwrap()).unwrap();
    assert_eq!(log.segment(), 3);
    for from in [1, 2] {
        let name = segment::name(from);
        let bytes = memory.read(&name, true);
        let mut emptied = bytes.clone();
        emptied[4096..].fill(0);
        memory.put(&name, emptied);
        let outcome = replay(&memory, from, &[]);
        let Err(Error::Corrupt { expected, .. }) = outcome else { panic!("{from}: {outcome:?}") };
        assert!(expected.starts_with(&format!("frame {from} ")), "{expected}");
        memory.put(&name, bytes);
    }
}

#[test]
fn damage_in_the_middle_segment_names_the_lost_frame() {
    let memory = Memory::default();
    let log = open(&memory, 1, 1, 8192).unwrap();
    for number in 0..120 {
        log.sync_until(push(&log, [number]).unwrap()).unwrap();
    }
    assert_eq!(log.segment(), 3);
    let name = segment::name(2);
    let bytes = memory.read(&name, true);
    for index in 0..46 {
        let mut damaged = bytes.clone();
        damaged[4096 + index * 88 + 40..][..20].fill(0xee);
        memory.put(&name, damaged);
        let outcome = replay(&memory, 1, &[]);
        let Err(Error::Corrupt { expected, .. }) = outcome else { panic!("frame {index}: {outcome:?}") };
        assert!(expected.starts_with(&format!("frame {} ", 47 + index)), "{expected}");
    }
    memory.take(&name);
    let outcome = replay(&memory, 1, &[]);
    assert!(matches!(&outcome, Err(Error::Corrupt { file, .. }) if *file == name), "{outcome:?}");
}

#[test]
fn swapped_and_repeated_frames_are_refused_or_cut() {
    let (memory, _log) = marked_log();
    let name = segment::name(1);
    let bytes = memory.read(&name, true);
    for (from, to) in [(0, 1), (1, 0), (0, 2), (1, 2)] {
        let mut moved = bytes.clone();
        let frame = bytes[4096 + from * 88..][..88].to_vec();
        moved[4096 + to * 88..][..88].copy_from_slice(&frame);
        memory.put(&name, moved);
        let outcome = replay(&memory, 1, &[]);
        assert!(matches!(outcome, Err(Error::Corrupt { .. })), "{from} over {to}: {outcome:?}");
    }
}

#[test]
fn file_full_of_heads_is_refused_in_bounded_time() {
    let memory = Memory::default();
    let log = open(&memory, 1, 1, 4 << 20).unwrap();
    log.write_until(push(&log, [0]).unwrap()).unwrap();
    let name = segment::name(1);
    let mut bytes = memory.read(&name, false);
    let mut head = bytes[4096..4096 + 56].to_vec();
    head[40..44].copy_from_slice(&40_000_u32.to_le_bytes());
    head[44..48].copy_from_slice(&960_000_u32.to_le_bytes());
    for chunk in bytes[8192..].chunks_exact_mut(56) {
        chunk.copy_from_slice(&head);
    }
    memory.put(&name, bytes);
    let outcome = replay(&memory, 1, &[]);
    assert!(matches!(outcome, Err(Error::Corrupt { .. })), "{outcome:?}");
}
