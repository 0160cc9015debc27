//! Bugs that these tests have found, one by one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use firstseen::testing::{Crash, Fault, Op, SimDisk};
use firstseen::{
    Claim, Durability, Error, FileAccess, Maintenance, ManualClock, Options, Store, Timestamp, Verdict,
    Window,
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

/// A table made for all records of a log was larger than the budget, and no next one was ever made: nothing
/// was sealed any more, and closing answered `Full` for ever.
#[test]
fn store_whose_log_filled_more_than_its_budget_can_be_closed() {
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
    assert!(store.stats().table_bytes > 1 << 20, "{:?}", store.stats());
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
