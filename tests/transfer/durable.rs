//! What was imported is as durable as what was checked.

use std::sync::Arc;
use std::time::Duration;

use firstseen::testing::{Crash, SimDisk};
use firstseen::{Durability, ManualClock, Options, Store, Timestamp, Window};

use crate::{check_all, exported, import, options, seen_of, settle};

fn open(disk: &SimDisk, options: Options) -> Store {
    Store::open_on(Arc::new(disk.clone()), options).unwrap()
}

#[test]
fn imported_ids_survive_a_kill_and_with_sync_a_power_cut() {
    let from = Store::in_memory(options()).unwrap();
    check_all(&from, 0..3_000);
    let bytes = exported(&from);
    for durability in [Durability::Buffered, Durability::Sync] {
        for is_merge in [false, true] {
            let disk = SimDisk::new(7);
            let store = open(&disk, options().durability(durability));
            check_all(&store, 2_000..4_000);
            let imported =
                if is_merge { store.merge(&from).unwrap() } else { import(&store, &bytes).unwrap() };
            assert_eq!(imported.changed, 2_000);
            let image = if durability == Durability::Sync { disk.crash(Crash::LoseAll) } else { disk.kill() };
            let reopened = open(&image, options());
            assert_eq!(seen_of(&reopened, 0..5_000), Vec::from_iter(0..4_000), "{durability:?}");
        }
    }
}

#[test]
fn forgotten_under_a_lease_survives_a_kill() {
    let clock = ManualClock::new(Timestamp::from_millis(5_000));
    let options = options().window(Window::Fixed(Duration::from_secs(10))).clock(clock.clock());
    let from = Store::in_memory(options.clone()).unwrap();
    let other = Store::in_memory(options.clone()).unwrap();
    check_all(&from, 0..1);
    other.merge(&from).unwrap();
    assert!(from.forget(0_u32.to_le_bytes()).unwrap());

    let disk = SimDisk::new(7);
    let store = open(&disk, options.clone());
    let lease = store.claim(0_u32.to_le_bytes(), Duration::from_secs(5)).unwrap().into_lease().unwrap();
    let imported = store.merge(&from).unwrap();
    assert_eq!((imported.changed, imported.leases_lost), (1, 0));
    // Forgotten in one of two stores: also after a crash, and after the table was sealed.
    for is_sealed in [false, true] {
        let image = disk.kill();
        let reopened = open(&image, options.clone());
        if is_sealed {
            check_all(&reopened, 10..200);
            settle(&reopened);
        }
        assert_eq!(reopened.merge(&other).unwrap().changed, 0);
        assert_eq!(seen_of(&reopened, 0..1), []);
    }
    assert_eq!(store.merge(&other).unwrap().changed, 0);
    lease.commit().unwrap();
    assert_eq!(seen_of(&store, 0..1), [0]);
    assert_eq!(store.merge(&from).unwrap().changed, 0);
    assert_eq!(seen_of(&store, 0..1), [0]);
}

#[test]
fn export_of_a_store_with_files_only_reads_them() {
    let disk = SimDisk::new(3);
    let store = open(&disk, options());
    check_all(&store, 0..3_000);
    settle(&store);
    store.close().unwrap();
    for has_maps in [true, false] {
        disk.maps(has_maps);
        let store = open(&disk, options());
        let into = Store::in_memory(options()).unwrap();
        assert_eq!(import(&into, &exported(&store)).unwrap().changed, 3_000);
        assert_eq!(seen_of(&into, 0..4_000), Vec::from_iter(0..3_000));
    }
}

#[test]
fn damaged_file_ends_an_export_without_an_end_mark() {
    let disk = SimDisk::new(3);
    let store = open(&disk, options());
    check_all(&store, 0..3_000);
    store.close().unwrap();
    let files = disk.files();
    let (name, bytes) = files.iter().find(|(name, _)| name.starts_with("generation-")).unwrap();
    let mut bytes = bytes.clone();
    bytes[4096 + 3] ^= 1;
    disk.overwrite(name, &bytes);
    let store = open(&disk, options());
    let mut sink = Vec::new();
    assert!(matches!(store.export(&mut sink), Err(firstseen::Error::Corrupt { .. })));
    assert!(import(&Store::in_memory(options()).unwrap(), &sink).is_err());
}
