//! A store's first opening, many crashes in a row, and windows across openings.

use std::collections::BTreeMap;
use std::time::Duration;

use firstseen::testing::{Crash, SimDisk};
use firstseen::{Claim, Durability, Error, FileAccess, Verdict, Window};

use crate::check::End;
use crate::random::{Random, number, seed};
use crate::setup::{Setup, settle};

const NOW_MS: u64 = 1_700_000_000_000;

#[test]
fn crash_while_a_store_is_created_leaves_none_or_a_whole_one() {
    let (mut opens, mut random) = (0, Random::new(seed()));
    for durability in [Durability::None, Durability::Buffered, Durability::Sync] {
        let setup = Setup { durability, ..Setup::default() };
        for is_torn in [false, true] {
            let disk = SimDisk::new(0);
            disk.rename_torn(is_torn);
            disk.record();
            let store = setup.open_at(&disk, NOW_MS, FileAccess::Map).unwrap();
            let mut states: Vec<SimDisk> = disk.recorded().into_iter().map(|(_, state)| state).collect();
            states.push(disk);
            drop(store);
            for (state, count) in states.iter().flat_map(|state| (0..20).map(move |count| (state, count))) {
                let image = if count == 0 { state.kill() } else { End::random(&mut random).image(state) };
                let store = setup.open_at(&image, NOW_MS, FileAccess::Map).unwrap();
                assert_eq!(store.len(), 0);
                assert_eq!(store.check("id").unwrap(), Verdict::FirstSeen);
                store.close().unwrap();
                let store = setup.open_at(&image, NOW_MS, FileAccess::Map).unwrap();
                assert_eq!(store.check("id").unwrap(), Verdict::Duplicate);
                opens += 2;
            }
        }
    }
    report!("counted: {opens} opens after a crash of the first");
}

/// What a crash leaves is cleared away by the next opening, and no number is used twice.
#[test]
fn many_crashes_in_a_row_leave_no_files_behind_and_use_no_number_twice() {
    let (seed, cycles) = (seed(), number("FIRSTSEEN_CYCLES").unwrap_or(400));
    println!("cycles: seed {seed}");
    let mut random = Random::new(seed);
    let window = Window::Fixed(Duration::from_secs(4));
    let setup = Setup { durability: Durability::Sync, window, segment_bytes: 5696, ..Setup::default() };
    let (mut disk, mut now_ms) = (SimDisk::new(seed), NOW_MS);
    let (mut numbered, mut most) = (BTreeMap::<String, Vec<u8>>::new(), (0, 0));
    for cycle in 0..cycles {
        disk.record();
        let store = setup.open_at(&disk, now_ms, FileAccess::Map).unwrap();
        for id in 0..random.below(30) {
            let id = format!("{cycle}-{id}");
            assert_eq!(store.check(&id).unwrap(), Verdict::FirstSeen, "{id}");
            if random.chance(1, 4) {
                for _ in 0..random.below(9) {
                    let _ = store.maintain().unwrap();
                }
            }
        }
        if random.chance(1, 2) {
            settle(&store).unwrap();
        }
        let states = disk.recorded();
        let (_, state) = &states[random.index(states.len())];
        let end = End::random(&mut random);
        disk = end.image(state);
        now_ms += random.below(900);
        for (name, bytes) in disk.files() {
            // Only what a power cut has left is sure to be there for good.
            if matches!(end, End::PowerCut(_)) && !name.ends_with(".new") && name.contains('-') {
                let head = bytes[..64].to_vec();
                let before = numbered.entry(name.clone()).or_insert_with(|| head.clone());
                assert_eq!(*before, head, "{name} was there before, in cycle {cycle}");
            }
        }
        let files = disk.files();
        most = (most.0.max(files.len()), most.1.max(files.values().map(Vec::len).sum()));
        assert!(files.len() < 40, "{} files after {cycle} crashes: {:?}", files.len(), files.keys());
    }
    let store = setup.open_at(&disk, now_ms + 20_000, FileAccess::Map).unwrap();
    settle(&store).unwrap();
    store.close().unwrap();
    let left: Vec<String> = disk.files().into_keys().collect();
    assert_eq!(left, ["LOCK", "MANIFEST", "SECRET"]);
    report!("counted: {cycles} crashes in a row, at most {most:?} files and bytes, seed {seed}");
}

/// A torn end is cut off before anything is answered: what comes after it is found at the next opening.
#[test]
fn id_answered_after_a_torn_end_is_there_after_the_next_crash() {
    let setup = Setup { durability: Durability::Buffered, first_table_lines: 100, ..Setup::default() };
    for seed in 0..300 {
        let disk = SimDisk::new(seed);
        let store = setup.open_at(&disk, NOW_MS, FileAccess::Map).unwrap();
        (0..9).for_each(|id: u8| assert!(store.check([id]).unwrap().is_first_seen()));
        let torn = disk.crash(Crash::Random(seed));
        let sync = Setup { durability: Durability::Sync, ..setup };
        let store = sync.open_at(&torn, NOW_MS, FileAccess::Map).unwrap();
        let seen: Vec<bool> = (0..9_u8).map(|id| store.contains([id]).unwrap()).collect();
        assert!(store.check("later").unwrap().is_first_seen());
        let again = torn.crash(Crash::LoseAll);
        let store = sync.open_at(&again, NOW_MS, FileAccess::Map).unwrap();
        assert!(store.contains("later").unwrap(), "seed {seed}");
        let still: Vec<bool> = (0..9_u8).map(|id| store.contains([id]).unwrap()).collect();
        assert_eq!(still, seen, "seed {seed}");
    }
}

/// The end of a window is the same millisecond after any kind of end.
#[test]
fn window_ends_at_the_same_millisecond_after_reopening() {
    let second = Duration::from_secs(1);
    for (window, length_ms) in
        [(Window::Fixed(10 * second), 10_000), (Window::Fixed(3600 * second), 3_600_000)]
    {
        for end in 0..4 {
            let setup = Setup { durability: Durability::Sync, window, ..Setup::default() };
            let disk = SimDisk::new(0);
            let store = setup.open_at(&disk, NOW_MS, FileAccess::Map).unwrap();
            assert!(store.check("id").unwrap().is_first_seen());
            let disk = match end {
                0 => disk.kill(),
                1 => disk.crash(Crash::LoseAll),
                2 => {
                    drop(store);
                    disk
                }
                _ => {
                    store.close().unwrap();
                    disk
                }
            };
            let half_ms = NOW_MS + length_ms / 2;
            let last_ms = NOW_MS + length_ms - 1;
            for (now_ms, expected) in [
                (half_ms, Verdict::Duplicate),
                (last_ms, Verdict::Duplicate),
                (last_ms + 1, Verdict::FirstSeen),
                (NOW_MS + 2 * length_ms, Verdict::FirstSeen),
                // The clock was set back meanwhile: later, never earlier.
                (NOW_MS - 10 * length_ms, Verdict::Duplicate),
            ] {
                let store = setup.open_at(&disk.kill(), now_ms, FileAccess::Map).unwrap();
                assert_eq!(store.check("id").unwrap(), expected, "{window:?}, end {end}, {now_ms}");
            }
        }
    }
}

/// Claims are volatile, and fenced across openings (G3).
#[test]
fn claim_before_a_kill_is_free_after_it_and_its_token_is_refused() {
    for durability in [Durability::None, Durability::Buffered, Durability::Sync] {
        let setup = Setup { durability, ..Setup::default() };
        let disk = SimDisk::new(0);
        let store = setup.open_at(&disk, NOW_MS, FileAccess::Map).unwrap();
        let lease = store.claim("id", Duration::from_secs(3600)).unwrap().into_lease().unwrap();
        let token = lease.into_token();
        let disk = disk.kill();
        let store = setup.open_at(&disk, NOW_MS, FileAccess::Map).unwrap();
        assert_eq!(store.commit(token), Err(Error::LeaseLost { attempt: token.attempt() }));
        let Claim::Leased(lease) = store.claim("id", Duration::from_secs(1)).unwrap() else {
            panic!("the claim has outlived its process");
        };
        assert!(lease.token().attempt() > token.attempt());
        assert_eq!(store.abort(token), Err(Error::LeaseLost { attempt: token.attempt() }));
        lease.commit().unwrap();
        assert_eq!(store.check("id").unwrap(), Verdict::Duplicate);
    }
}
