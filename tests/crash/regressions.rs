//! Bugs that these tests have found, one by one.

use std::time::Duration;

use firstseen::testing::{Crash, SimDisk};
use firstseen::{Durability, FileAccess, Store, Verdict, Window};

use crate::setup::{Setup, settle};

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
                (0..steps).for_each(|_| drop(store.maintain().unwrap()));
                if is_closed {
                    store.close().unwrap()
                } else {
                    store.persist().unwrap()
                }
                let disk = disk.crash(Crash::LoseAll);
                let store = setup.open_at(&disk, NOW_MS, FileAccess::Map).unwrap();
                check_all(&store, 0..ids, Verdict::Duplicate);
            }
        }
    }
}

/// An ID was forgotten, and sealing left that out because there was nothing that it hid. The log still told of
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
