//! Bugs that these tests have found, one by one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use firstseen::testing::{Crash, Fault, Op, SimDisk};
use firstseen::{
    Claim, Durability, Error, Event, FileAccess, Fingerprint, Maintenance, ManualClock, Options, Store,
    Timestamp, Verdict, Window,
};

use crate::setup::{Setup, open, settle};

const NOW_MS: u64 = 1_700_000_000_000;

fn check_all(store: &Store, ids: std::ops::Range<u32>, expected: Verdict) {
    for id in ids {
        assert_eq!(store.check(id.to_le_bytes()).unwrap(), expected, "ID {id}");
    }
}

/// Closing a store waited for the table that was active. In a store with a window an empty one is over at
/// once and left the view before the older one, still unsealed, had its turn: `close` said that all was in
/// files and removed the log, and whatever had been answered since the last sealing was gone.
#[test]
fn close_and_persist_with_a_frozen_table_behind_an_empty_one_keep_it() {
    for durability in [Durability::None, Durability::Buffered, Durability::Sync] {
        for (steps, ids) in (0..8).flat_map(|steps| (1..7).map(move |ids| (steps, ids))) {
            for is_closed in [true, false] {
                let window = Window::Fixed(Duration::from_secs(4));
                let setup = Setup { durability, window, ..Setup::default() };
                let disk = SimDisk::new(0);
                let store = setup.open_at(&disk, NOW_MS, FileAccess::Map).unwrap();
                check_all(&store, 0..ids, Verdict::FirstSeen);
                for _ in 0..steps {
                    let _ = store.maintain().unwrap();
                }
                if is_closed {
                    store.close().unwrap();
                } else {
                    store.persist().unwrap();
                }
                let disk = disk.crash(Crash::LoseAll);
                let store = setup.open_at(&disk, NOW_MS, FileAccess::Map).unwrap();
                check_all(&store, 0..ids, Verdict::Duplicate);
            }
        }
    }
}

/// An ID was forgotten, and sealing left that out because there was nothing that it hid. The log still had
/// it, in a segment that was shared with later facts. A commit then began with the first version again, so
/// after a kill the log said: forgotten. What had been committed was gone.
#[test]
fn id_seen_again_after_its_forgetting_was_sealed_is_there_after_a_kill() {
    for durability in [Durability::None, Durability::Buffered, Durability::Sync] {
        let setup = Setup { durability, first_table_lines: 1, ..Setup::default() };
        let disk = SimDisk::new(0);
        let store = setup.open_at(&disk, NOW_MS, FileAccess::Map).unwrap();
        check_all(&store, 0..1, Verdict::FirstSeen);
        assert!(store.forget(0_u32.to_le_bytes()).unwrap());
        settle(&store).unwrap();
        check_all(&store, 0..1, Verdict::FirstSeen);
        store.persist().unwrap();
        let store = setup.open_at(&disk.kill(), NOW_MS, FileAccess::Map).unwrap();
        check_all(&store, 0..1, Verdict::Duplicate);
    }
}

/// The same when two generations were made one: their forgotten facts went while the log still had them.
#[test]
fn id_seen_again_after_its_forgetting_was_fused_away_is_there_after_a_kill() {
    let setup = Setup { first_table_lines: 1, segment_bytes: 1 << 20, ..Setup::default() };
    let disk = SimDisk::new(0);
    let open = |disk: &SimDisk| setup.open_at(disk, NOW_MS, FileAccess::Map).unwrap();
    let store = open(&disk);
    check_all(&store, 0..2, Verdict::FirstSeen);
    settle(&store).unwrap();
    assert!(store.forget(0_u32.to_le_bytes()).unwrap());
    for id in (1..600).step_by(3) {
        check_all(&store, id * 100..id * 100 + 3, Verdict::FirstSeen);
        settle(&store).unwrap();
    }
    assert!(store.stats().compactions > 0, "nothing was fused");
    check_all(&store, 0..1, Verdict::FirstSeen);
    store.persist().unwrap();
    check_all(&open(&disk.kill()), 0..2, Verdict::Duplicate);
}

/// Each opening after a kill began a new segment of the log and kept all older ones, though there was nothing
/// in them: a process that was killed over and over filled the disk.
#[test]
fn store_that_is_killed_over_and_over_keeps_no_more_files() {
    let setup = Setup { durability: Durability::Sync, ..Setup::default() };
    let mut disk = SimDisk::new(0);
    for _ in 0..200 {
        drop(setup.open_at(&disk, NOW_MS, FileAccess::Map).unwrap());
        disk = disk.kill();
        let files = disk.files();
        assert!(files.len() <= 6, "{:?}", files.keys());
    }
}

fn commit_until_closed(store: &Store, thread: usize, is_stopped: &AtomicBool) -> Vec<String> {
    let mut committed = Vec::new();
    for number in 0.. {
        let id = format!("{thread}-{number}");
        match store.claim(&id, Duration::from_secs(60)) {
            Ok(Claim::Leased(lease)) => match lease.commit() {
                Ok(()) => committed.push(id),
                Err(Error::Closed) => break,
                Err(error) => panic!("{error}"),
            },
            Ok(claim) => panic!("{claim:?}"),
            Err(Error::Closed) => break,
            Err(error) => panic!("{error}"),
        }
        if is_stopped.load(Ordering::Relaxed) {
            break;
        }
    }
    committed
}

/// A commit that had logged its fact stated it in the active table without asking whether the store was being
/// closed: after `close` had sealed everything and before it removed the log. It was answered, and gone.
#[test]
fn commit_that_was_answered_while_the_store_was_closed_is_there_afterwards() {
    let mut lost = 0;
    for round in 0..500 {
        let setup = Setup { first_table_lines: 64, segment_bytes: 1 << 16, ..Setup::default() };
        let disk = SimDisk::new(round);
        let clock = ManualClock::new(Timestamp::from_millis(NOW_MS)).clock();
        let store = open(&disk, setup.options(clock).maintenance(Maintenance::Thread)).unwrap();
        let is_stopped = AtomicBool::new(false);
        let committed: Vec<String> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..3)
                .map(|thread| {
                    let (store, is_stopped) = (store.clone(), &is_stopped);
                    scope.spawn(move || commit_until_closed(&store, thread, is_stopped))
                })
                .collect();
            std::thread::sleep(Duration::from_micros(200 + round % 7 * 100));
            store.clone().close().unwrap();
            is_stopped.store(true, Ordering::Relaxed);
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        drop(store);
        let store = setup.open_at(&disk, NOW_MS, FileAccess::Map).unwrap();
        for id in &committed {
            lost += usize::from(store.check(id).unwrap() != Verdict::Duplicate);
        }
    }
    assert_eq!(lost, 0, "commits were lost");
}

/// Without a log a cursor went into the manifest with whatever table was sealed next, while the IDs that it
/// was committed with were still in memory: after a kill the cursor was ahead of its batch.
#[test]
fn cursor_in_a_store_without_a_log_is_never_ahead_of_its_batch() {
    let setup = Setup { durability: Durability::None, first_table_lines: 1, ..Setup::default() };
    let disk = SimDisk::new(0);
    let store = setup.open_at(&disk, NOW_MS, FileAccess::Map).unwrap();
    let commit = |ids: &[&str], cursor| {
        let batch = store.claim_batch(ids, Duration::from_secs(5)).unwrap();
        assert_eq!(batch.commit_with(&[("cursor", cursor)]).unwrap(), ids.len());
    };
    commit(&["a", "b"], 1);
    // The table is full: it is closed, the next one takes the second batch, then the first is sealed.
    let _ = store.maintain().unwrap();
    commit(&["c"], 2);
    let _ = settle(&store);
    let store = setup.open_at(&disk.kill(), NOW_MS, FileAccess::Map).unwrap();
    let is_there = store.contains("c").unwrap();
    assert!(store.cursor("cursor") < Some(2) || is_there, "cursor {:?}", store.cursor("cursor"));
}

fn windowed(window: Window) -> Options {
    let clock = ManualClock::new(Timestamp::from_millis(NOW_MS)).clock();
    Options::new().maintenance(Maintenance::Manual).window(window).clock(clock)
}

/// A table made for all records of a log, which names one ID over and over where windows slide, was larger
/// than the budget, and no next one was ever made: nothing was sealed any more, and closing answered `Full`
/// for ever.
#[test]
fn store_whose_log_has_more_records_than_its_budget_room_can_be_closed() {
    let disk = SimDisk::new(0);
    let clock = ManualClock::new(Timestamp::from_millis(NOW_MS));
    let window = Window::Sliding(Duration::from_secs(3_600));
    let options = windowed(window).clock(clock.clock()).memory_budget(1 << 20).first_table_lines(64);
    let store = open(&disk, options.clone()).unwrap();
    let ids: Vec<[u8; 4]> = (0..100_u32).map(u32::to_le_bytes).collect();
    let mut verdicts = vec![Verdict::default(); ids.len()];
    for _ in 0..600 {
        clock.advance(Duration::from_millis(1));
        store.check_batch(&ids, &mut verdicts).unwrap();
    }
    let disk = disk.kill();
    let store = open(&disk, options.clone()).unwrap();
    assert!(store.stats().table_bytes < 1 << 20, "{:?}", store.stats());
    store.close().unwrap();
    check_all(&open(&disk, options).unwrap(), 0..100, Verdict::Duplicate);
}

/// Names of cursors that are not ASCII take three bytes for each in the manifest, which was refused when it
/// came to a megabyte: the store was poisoned, and then never opened again.
#[test]
fn as_many_cursors_as_are_taken_fit_in_the_manifest() {
    let disk = SimDisk::new(0);
    let store = open(&disk, windowed(Window::Forever)).unwrap();
    let names: Vec<String> =
        (0..4_000).map(|number| format!("{}{number:04}", "\u{44f}".repeat(98))).collect();
    for (batch, names) in names.chunks(500).enumerate() {
        let cursors: Vec<(&str, u64)> = names.iter().map(|name| (name.as_str(), 7)).collect();
        let claims = store.claim_batch(&[batch.to_le_bytes()], Duration::from_secs(5)).unwrap();
        assert_eq!(claims.commit_with(&cursors).unwrap(), 1);
    }
    store.close().unwrap();
    let store = open(&disk, windowed(Window::Forever)).unwrap();
    assert_eq!(store.cursor(&names[3_999]), Some(7));
}

/// The manifest took any time that a call had brought, and refused to be read with one beyond all bounds.
#[test]
fn store_that_was_told_the_end_of_time_opens_again() {
    for window in [Window::Forever, Window::Fixed(Duration::from_secs(60))] {
        let disk = SimDisk::new(0);
        for _ in 0..2 {
            let store = open(&disk, windowed(window)).unwrap();
            let _ = store.check_at("a", Timestamp::from_millis(u64::MAX)).unwrap();
            assert_eq!(store.check("a").unwrap(), Verdict::Duplicate);
            store.close().unwrap();
        }
    }
}

/// A store that was poisoned and then closed gave its directory up, but its maintenance went on writing the
/// log beside the next owner.
#[test]
fn poisoned_store_writes_nothing_once_it_was_closed() {
    let disk = SimDisk::new(0);
    let options = || windowed(Window::Fixed(Duration::from_secs(60)));
    let store = open(&disk, options()).unwrap();
    check_all(&store, 0..50, Verdict::FirstSeen);
    disk.fail(Fault {
        at: 0,
        kind: std::io::ErrorKind::StorageFull,
        is_sticky: false,
        only: Some(Op::Create),
    });
    let other = store.clone();
    assert!(store.close().is_err(), "the generation could not be made");
    let next = open(&disk, options()).unwrap();
    check_all(&next, 50..60, Verdict::FirstSeen);
    let before = disk.files();
    for _ in 0..50 {
        let _ = other.maintain();
        assert!(other.check("x").is_err());
    }
    assert!(before == disk.files(), "the first owner still writes");
    check_all(&next, 0..60, Verdict::Duplicate);
}

/// Checks fingerprints one by one and demands one verdict of all.
fn check_keys(store: &Store, keys: &[Fingerprint], expected: Verdict) {
    let mut verdicts = [Verdict::default()];
    for key in keys {
        store.check_fingerprints(&[*key], &mut verdicts).unwrap();
        assert_eq!(verdicts[0], expected, "{key:?}");
    }
}

/// Fingerprints that callers bring may crowd. Several tables took them; the one table that the log was read
/// back into had no room for all of them, and the store was never opened again.
#[test]
fn keys_that_crowd_in_several_tables_are_read_back() {
    for window in [Window::Forever, Window::Fixed(Duration::from_secs(3_600))] {
        for is_maintained in [false, true] {
            let disk = SimDisk::new(0);
            let options = windowed(window).first_table_lines(64);
            let store = open(&disk, options.clone()).unwrap();
            let keys: Vec<Fingerprint> = (1..7_000).map(|lo| Fingerprint::from_halves(1 << 63, lo)).collect();
            for keys in keys.chunks(500) {
                check_keys(&store, keys, Verdict::FirstSeen);
                if is_maintained {
                    let _ = store.maintain().unwrap();
                }
            }
            assert!(store.stats().rotations >= 2, "one table had room for all");
            let disk = disk.kill();
            for is_closed in [false, true, false] {
                let store = open(&disk, options.clone()).unwrap();
                check_keys(&store, &keys, Verdict::Duplicate);
                if is_closed {
                    store.close().unwrap();
                }
            }
        }
    }
}

/// A sparse table had room for keys that crowd; a file with fewer lines had not, and sealing it poisoned the
/// store.
#[test]
fn table_whose_keys_crowd_is_sealed() {
    let disk = SimDisk::new(0);
    let options = windowed(Window::Forever).first_table_lines(4_096);
    let store = open(&disk, options.clone()).unwrap();
    // 4,200 keys at home in 500 of 4,096 lines.
    let step = (500 << 52) / 4_200;
    let keys: Vec<Fingerprint> =
        (1..=4_200).map(|number| Fingerprint::from_halves((1 << 63) + number * step, number)).collect();
    check_keys(&store, &keys, Verdict::FirstSeen);
    assert_eq!(store.stats().rotations, 0, "the table was to have room");
    store.close().unwrap();
    let store = open(&disk, options).unwrap();
    assert_eq!(store.stats().records_replayed, 0);
    check_keys(&store, &keys, Verdict::Duplicate);
}

/// While the log was read for the first of two times, which may take minutes, no progress was told.
#[test]
fn reading_a_log_back_tells_of_each_part_of_it() {
    let disk = SimDisk::new(0);
    let store = open(&disk, windowed(Window::Forever).first_table_lines(64)).unwrap();
    let ids: Vec<[u8; 4]> = (0..700_000_u32).map(u32::to_le_bytes).collect();
    let mut verdicts = vec![Verdict::default(); ids.len()];
    store.check_batch(&ids, &mut verdicts).unwrap();
    let disk = disk.kill();
    let events = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&events);
    let options = windowed(Window::Forever).observer(move |event| told.lock().unwrap().push(event.clone()));
    let reads = disk.ops_of(Op::Read);
    let store = open(&disk, options).unwrap();
    let reads = disk.ops_of(Op::Read) - reads;
    let events = events.lock().unwrap();
    let done: Vec<u64> = events
        .iter()
        .filter_map(|event| match event {
            Event::RecoveryProgress { bytes_done, .. } => Some(*bytes_done),
            _ => None,
        })
        .collect();
    let Some(Event::RecoveryStarted { bytes }) = events.first() else { panic!("{events:?}") };
    assert!(done.len() >= 4 && done.is_sorted() && done.last() == Some(bytes), "{bytes}: {done:?}");
    let Some(Event::RecoveryFinished { records, .. }) = events.last() else { panic!("{events:?}") };
    // One reading: a window of 4 MiB at a time, and a few words of each file.
    assert!(reads < 60, "{reads} reads of {records} records");
    store.check_batch(&ids, &mut verdicts).unwrap();
    assert!(verdicts.iter().all(|verdict| verdict.is_duplicate()));
}

/// Of two commits that set one cursor at the same time one was logged last and the other one answered last: a
/// kill put the cursor back to what nobody had been told.
#[test]
fn cursor_that_many_commit_is_read_back_as_it_was_told_last() {
    for round in 0..1_000_u64 {
        let disk = SimDisk::new(round);
        // One sync answers several, in no order.
        let options = windowed(Window::Forever).durability(Durability::Sync).log_segment_bytes(1 << 16);
        let store = open(&disk, options.clone()).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                let store = &store;
                scope.spawn(move || {
                    for number in 0..5_u64 {
                        let id = [thread.to_le_bytes(), number.to_le_bytes()].concat();
                        let claims = store.claim_batch(&[id], Duration::from_secs(5)).unwrap();
                        assert_eq!(claims.commit_with(&[("cursor", thread * 100 + number)]).unwrap(), 1);
                    }
                });
            }
        });
        let told = store.cursor("cursor");
        let later = open(&disk.kill(), options).unwrap();
        assert_eq!(later.cursor("cursor"), told, "round {round}");
    }
}

/// Tables in which everything was over were dropped without the log that only they needed: it grew for ever
/// in a store that nobody stepped.
#[test]
fn log_of_tables_that_are_over_is_removed_without_a_step() {
    let disk = SimDisk::new(0);
    let clock = ManualClock::new(Timestamp::from_millis(NOW_MS));
    let setup = Setup { window: Window::Fixed(Duration::from_secs(4)), ..Setup::default() };
    let store = open(&disk, setup.options(clock.clock())).unwrap();
    let (mut segments_max, mut segments_made) = (0, 0);
    for id in 0..4_000_u32 {
        assert_eq!(store.check(id.to_le_bytes()).unwrap(), Verdict::FirstSeen);
        clock.advance(Duration::from_millis(1_500));
        let files = disk.files();
        let segments: Vec<&String> = files.keys().filter(|file| file.starts_with("log-")).collect();
        segments_max = segments_max.max(segments.len());
        segments_made = segments.last().map_or(0, |last| last[4..].parse::<usize>().unwrap());
    }
    assert!(segments_max * 2 < segments_made, "{segments_max} of {segments_made} segments");
    drop(store);
    let store = setup.open_at(&disk, clock.clock().now().as_millis(), FileAccess::Map).unwrap();
    assert_eq!(store.check(3_999_u32.to_le_bytes()).unwrap(), Verdict::Duplicate);
}
