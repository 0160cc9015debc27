//! Damaged stores: what is told of them, and what is saved.
//!
//! `FIRSTSEEN_SEED` sets the course of chance.

#![expect(clippy::unwrap_used, reason = "what goes wrong in a test fails it")]
#![expect(clippy::cast_possible_truncation, reason = "random numbers and small counts")]

#[path = "damage/files.rs"]
mod files;

use std::collections::BTreeSet;
use std::time::Duration;

use firstseen::{Error, Hash, Maintenance, ManualClock, Options, Secret, Store, Timestamp, Verdict, Window};

use files::{Dir, Random, frames, generations, logs};

/// IDs of each closed run.
const PER_RUN: u32 = 3_000;

fn id(number: u32) -> [u8; 4] {
    number.to_le_bytes()
}

fn options() -> Options {
    Options::new().log_segment_bytes(1 << 18)
}

/// A store that was closed `runs` times, each time with as many new IDs.
fn closed_store(name: &str, runs: u32) -> Dir {
    let dir = Dir::new(name);
    for run in 0..runs {
        let store = Store::open_with(dir.path(), options()).unwrap();
        let ids: Vec<_> = (run * PER_RUN..(run + 1) * PER_RUN).map(id).collect();
        store.check_batch(&ids, &mut vec![Verdict::default(); ids.len()]).unwrap();
        store.close().unwrap();
    }
    dir
}

/// A store that was not closed, with one frame of the log for each ID.
fn logged_store(name: &str, ids: u32) -> Dir {
    let dir = Dir::new(name);
    // By hand: a thread would put marks among the frames that are counted here.
    let store = Store::open_with(dir.path(), options().maintenance(Maintenance::Manual)).unwrap();
    for number in 0..ids {
        assert_eq!(store.check(id(number)).unwrap(), Verdict::FirstSeen);
        if number == ids / 2 {
            // Frames from here on say that all before them is synced.
            store.persist().unwrap();
        }
    }
    end(store, &dir);
    dir
}

/// Lets a store go without closing it, and waits for its maintenance thread.
fn end(store: Store, dir: &Dir) {
    drop(store);
    while matches!(Store::verify(dir.path()), Err(Error::Locked { .. })) {}
}

/// Salvages into a new directory, checks that the damaged one is as before, and opens what was saved; with
/// the IDs below `ids` that are in it.
fn salvaged(dir: &Dir, options: Options, ids: u32) -> (firstseen::Salvage, Store, BTreeSet<u32>) {
    let into = Dir::new(&format!("{}-saved", dir.name()));
    let before = dir.contents();
    let salvage = Store::salvage_with(dir.path(), into.path(), options.clone()).unwrap();
    assert!(dir.contents() == before, "the damaged store was changed");
    assert!(Store::verify(into.path()).unwrap().is_sound());
    let store = Store::open_with(into.path(), options).unwrap();
    let saved: BTreeSet<u32> = (0..ids).filter(|number| store.contains(id(*number)).unwrap()).collect();
    assert!((ids..ids + 1000).all(|number| !store.contains(id(number)).unwrap()), "an ID out of nowhere");
    (salvage, store, saved)
}

fn place_of(error: &Error) -> (&str, u64) {
    match error {
        Error::Corrupt { file, offset, .. } => (file, *offset),
        other => unreachable!("{other} is no damage"),
    }
}

#[test]
fn sound_store_is_verified_and_salvaged_whole() {
    let dir = closed_store("sound", 3);
    let before = dir.contents();
    let verification = Store::verify(dir.path()).unwrap();
    assert!(dir.contents() == before);
    assert!(verification.is_sound() && !verification.needs_recovery, "{verification}");
    let ids: u64 = verification.generations.iter().map(|(_, ids)| ids).sum();
    assert_eq!(ids, u64::from(3 * PER_RUN));
    let bytes: usize = before.values().map(Vec::len).sum();
    assert_eq!((verification.files, verification.bytes), (before.len() as u64, bytes as u64));
    let (salvage, _store, saved) = salvaged(&dir, Options::new(), 3 * PER_RUN);
    assert!(salvage.is_complete() && salvage.damages.is_empty(), "{salvage}");
    assert_eq!((salvage.ids, saved.len()), (u64::from(3 * PER_RUN), 3 * PER_RUN as usize));
}

#[test]
fn store_not_closed_is_sound_and_salvaged_whole() {
    let dir = logged_store("unclosed", 500);
    let verification = Store::verify(dir.path()).unwrap();
    assert!(verification.is_sound() && verification.needs_recovery, "{verification}");
    assert_eq!(verification.log_records, 500);
    let (salvage, _store, saved) = salvaged(&dir, Options::new(), 500);
    assert!(salvage.is_complete(), "{salvage}");
    assert_eq!((salvage.ids, saved.len(), salvage.log_records), (500, 500, 500));
}

#[test]
fn damaged_lines_are_all_named_and_nothing_else_is_lost() {
    let dir = closed_store("lines", 2);
    let file = generations(&dir).remove(0);
    let lines: [u64; 4] = [0, 7, 8, 500];
    for line in lines {
        dir.flip(&file, 4096 + 64 * line + 5);
    }
    let verification = Store::verify(dir.path()).unwrap();
    let places: Vec<_> = verification.damages.iter().map(place_of).collect();
    let expected: Vec<_> = lines.iter().map(|line| (file.as_str(), 4096 + 64 * line)).collect();
    assert_eq!(places, expected);
    let (salvage, _store, saved) = salvaged(&dir, Options::new(), 2 * PER_RUN);
    assert_eq!((salvage.lines_lost, salvage.frames_lost, salvage.files_unreadable), (4, 0, 0));
    assert_eq!(salvage.ids, saved.len() as u64);
    let lost = 2 * PER_RUN as usize - saved.len();
    assert!((4..=12).contains(&lost), "{lost}");
}

#[test]
fn generation_cut_short_keeps_the_lines_that_are_there() {
    let dir = closed_store("short", 1);
    let file = generations(&dir).remove(0);
    let lines = 700;
    dir.cut(&file, 4096 + 64 * lines + 10);
    let verification = Store::verify(dir.path()).unwrap();
    assert!(verification.damages.iter().any(|damage| place_of(damage).0 == file), "{verification}");
    let (salvage, _store, saved) = salvaged(&dir, Options::new(), PER_RUN);
    assert_eq!(salvage.ids, saved.len() as u64);
    assert!(salvage.lines_lost > 100 && saved.len() > 1500, "{salvage}");
    assert!(PER_RUN as usize - saved.len() <= 3 * salvage.lines_lost as usize);
}

#[test]
fn generation_without_its_head_filter_and_foot_loses_nothing() {
    let dir = closed_store("head", 1);
    let file = generations(&dir).remove(0);
    let bytes = dir.read(&file).len() as u64;
    for offset in [0, 40, 4090, bytes - 1, bytes - 200] {
        dir.flip(&file, offset);
    }
    let verification = Store::verify(dir.path()).unwrap();
    assert!(!verification.is_sound());
    let (salvage, _store, saved) = salvaged(&dir, Options::new(), PER_RUN);
    assert_eq!((salvage.ids, salvage.lines_lost, saved.len()), (u64::from(PER_RUN), 0, PER_RUN as usize));
}

#[test]
fn damaged_filter_alone_is_told() {
    let dir = closed_store("filter", 1);
    let file = generations(&dir).remove(0);
    let bytes = dir.read(&file).len() as u64;
    dir.flip(&file, bytes - 100);
    let verification = Store::verify(dir.path()).unwrap();
    assert_eq!(verification.damages.len(), 1, "{verification}");
    assert_eq!(place_of(&verification.damages[0]).0, file);
}

#[test]
fn generation_that_is_gone_is_counted() {
    let dir = closed_store("gone", 3);
    let file = generations(&dir).remove(1);
    dir.remove(&file);
    let verification = Store::verify(dir.path()).unwrap();
    assert_eq!(place_of(&verification.damages[0]), (file.as_str(), 0));
    let (salvage, _store, saved) = salvaged(&dir, Options::new(), 3 * PER_RUN);
    assert_eq!((salvage.files_unreadable, saved.len()), (1, 2 * PER_RUN as usize), "{salvage}");
}

#[test]
fn frame_that_is_damaged_loses_its_own_records_only() {
    let dir = logged_store("frame", 300);
    let file = logs(&dir).remove(0);
    let frame = frames(&dir.read(&file))[100];
    dir.flip(&file, frame + 60);
    assert!(matches!(Store::open(dir.path()), Err(Error::Corrupt { .. })));
    let verification = Store::verify(dir.path()).unwrap();
    assert!(verification.damages.iter().any(|damage| place_of(damage).0 == file), "{verification}");
    let (salvage, _store, saved) = salvaged(&dir, Options::new(), 300);
    assert_eq!((salvage.frames_lost, saved.len(), salvage.ids), (1, 299, 299), "{salvage}");
}

/// What was never synced may be gone after a power cut, so nobody can tell it from damage. It is told.
#[test]
fn frames_behind_one_that_was_never_synced_are_counted() {
    let dir = Dir::new("unsynced");
    let store = Store::open_with(dir.path(), options().maintenance(Maintenance::Manual)).unwrap();
    for number in 0..50 {
        assert_eq!(store.check(id(number)).unwrap(), Verdict::FirstSeen);
    }
    // As after a kill: a store that ends says that all was synced.
    let killed = dir.copy("unsynced-killed");
    end(store, &dir);
    let dir = killed;
    let file = logs(&dir).remove(0);
    let frame = frames(&dir.read(&file))[30];
    dir.flip(&file, frame + 60);
    let verification = Store::verify(dir.path()).unwrap();
    assert!(verification.is_sound() && verification.frames_discarded == 19, "{verification}");
    let (salvage, _store, saved) = salvaged(&dir, Options::new(), 50);
    assert_eq!((salvage.frames_lost, saved.len()), (1, 49), "{salvage}");
}

#[test]
fn log_cut_in_the_middle_keeps_the_frames_before() {
    let dir = logged_store("log-cut", 300);
    let file = logs(&dir).remove(0);
    let whole: u32 = 123;
    dir.cut(&file, frames(&dir.read(&file))[whole as usize] + 20);
    assert!(!Store::verify(dir.path()).unwrap().is_sound());
    let (salvage, _store, saved) = salvaged(&dir, Options::new(), 300);
    assert!(!salvage.is_complete(), "{salvage}");
    assert!(saved.into_iter().eq(0..whole), "{salvage}");
}

#[test]
fn log_segment_without_its_header_is_counted() {
    let dir = Dir::new("segment");
    let store = Store::open_with(dir.path(), options()).unwrap();
    // Several segments, none of which is needed by nobody.
    for number in 0..9_000 {
        let _ = store.check(id(number)).unwrap();
    }
    end(store, &dir);
    let files = logs(&dir);
    assert!(files.len() >= 3, "{files:?}");
    dir.flip(&files[1], 33);
    let lost = frames(&dir.read(&files[1])).len();
    let (salvage, _store, saved) = salvaged(&dir, Options::new(), 9_000);
    assert_eq!((salvage.files_unreadable, salvage.frames_lost), (1, lost as u64), "{salvage}");
    assert!((9_000 - saved.len()).abs_diff(lost) <= 9, "{salvage}");
}

#[test]
fn manifest_destroyed_is_made_up_for_by_files_and_options() {
    let dir = closed_store("manifest", 2);
    dir.write("MANIFEST", b"nothing of it is left\n");
    let verification = Store::verify(dir.path()).unwrap();
    assert_eq!(place_of(&verification.damages[0]).0, "MANIFEST");
    assert_eq!(verification.generations.len(), 2, "{verification}");
    let into = Dir::new("manifest-refused");
    let refused = Store::salvage(dir.path(), into.path());
    assert!(matches!(refused, Err(Error::Option { name: "hash", .. })), "{refused:?}");
    let (salvage, _store, saved) = salvaged(&dir, Options::new().hash(Hash::Xxh3), 2 * PER_RUN);
    assert!(salvage.is_complete(), "{salvage}");
    assert_eq!(saved.len(), 2 * PER_RUN as usize);
}

#[test]
fn manifest_with_one_wrong_byte_needs_no_options() {
    let dir = closed_store("flipped", 2);
    let text = String::from_utf8(dir.read("MANIFEST")).unwrap();
    dir.flip("MANIFEST", text.find("run ").unwrap() as u64);
    let (salvage, store, saved) = salvaged(&dir, Options::new(), 2 * PER_RUN);
    assert!(salvage.is_complete(), "{salvage}");
    assert_eq!((saved.len(), store.window()), (2 * PER_RUN as usize, Window::Forever));
}

#[test]
fn manifest_gone_beside_a_log_is_made_up_for() {
    let dir = logged_store("no-manifest", 200);
    dir.remove("MANIFEST");
    let (salvage, store, saved) = salvaged(&dir, Options::new().hash(Hash::Xxh3), 200);
    assert_eq!((saved.len(), store.window()), (200, Window::Forever), "{salvage}");
}

#[test]
fn secret_lost_is_an_error_unless_it_is_given() {
    let secret = Secret::random().unwrap();
    let dir = Dir::new("secret");
    let options = Options::new().secret(secret);
    let store = Store::open_with(dir.path(), options.clone()).unwrap();
    for number in 0..100 {
        let _ = store.check(id(number)).unwrap();
    }
    store.close().unwrap();
    let into = Dir::new("secret-refused");
    let refused = Store::salvage(dir.path(), into.path());
    assert!(matches!(refused, Err(Error::Mismatch { name: "secret", .. })), "{refused:?}");
    let wrong = Options::new().secret(Secret::random().unwrap());
    let refused = Store::salvage_with(dir.path(), into.path(), wrong);
    assert!(matches!(refused, Err(Error::Mismatch { name: "secret", .. })), "{refused:?}");
    let (salvage, _store, saved) = salvaged(&dir, options, 100);
    assert_eq!((salvage.ids, saved.len()), (100, 100));
}

#[test]
fn secret_that_is_damaged_is_named() {
    let dir = closed_store("damaged-secret", 1);
    dir.flip("SECRET", 100);
    let verification = Store::verify(dir.path()).unwrap();
    assert_eq!(place_of(&verification.damages[0]).0, "SECRET");
    let into = Dir::new("damaged-secret-saved");
    let refused = Store::salvage(dir.path(), into.path());
    assert!(matches!(&refused, Err(Error::Corrupt { file, .. }) if file == "SECRET"), "{refused:?}");
}

#[test]
fn salvage_keeps_windows_cursors_and_what_was_forgotten() {
    let dir = Dir::new("facts");
    let clock = ManualClock::new(Timestamp::from_millis(1_700_000_000_000));
    let hour = Duration::from_secs(3_600);
    let options = options().window(Window::Fixed(hour)).clock(clock.clock());
    let store = Store::open_with(dir.path(), options.clone()).unwrap();
    for name in ["old", "forgotten"] {
        assert_eq!(store.check(name).unwrap(), Verdict::FirstSeen);
    }
    store.close().unwrap();
    clock.advance(hour / 2);
    let store = Store::open_with(dir.path(), options.clone()).unwrap();
    assert!(store.forget("forgotten").unwrap());
    let batch = store.claim_batch(&["new"], hour).unwrap();
    let firstseen::Claim::Leased(lease) = &batch.claims()[0] else { panic!("not leased") };
    let attempt = lease.token().attempt();
    batch.commit_with(&[("partition 7", 42)]).unwrap();
    end(store, &dir);
    for is_manifest_lost in [false, true] {
        if is_manifest_lost {
            dir.write("MANIFEST", b"");
        }
        let into = Dir::new("facts-saved");
        let options = options.clone().hash(Hash::Xxh3);
        let salvage = Store::salvage_with(dir.path(), into.path(), options.clone()).unwrap();
        assert_eq!((salvage.ids, salvage.is_complete()), (2, true), "{salvage}");
        let store = Store::open_with(into.path(), options).unwrap();
        let seen = |name: &str| store.contains(name).unwrap();
        assert!(seen("old") && seen("new") && !seen("forgotten"));
        assert_eq!(store.cursor("partition 7"), Some(42));
        let later = store.claim("another", hour).unwrap().into_lease().unwrap();
        assert!(later.token().attempt() > attempt);
        drop(later);
        if is_manifest_lost {
            clock.advance(hour / 2);
            assert!(!seen("old") && seen("new"));
            clock.advance(hour / 2);
            assert!(!seen("new"));
        }
    }
}

#[test]
fn salvage_into_a_directory_in_use_is_refused() {
    let dir = closed_store("source", 1);
    let into = closed_store("target", 1);
    let before = into.contents();
    let refused = Store::salvage(dir.path(), into.path());
    assert!(matches!(refused, Err(Error::Option { name: "salvage", .. })), "{refused:?}");
    assert!(into.contents() == before);
    let _open = Store::open(dir.path()).unwrap();
    let other = Dir::new("target-2");
    assert!(matches!(Store::salvage(dir.path(), other.path()), Err(Error::Locked { .. })));
    assert!(matches!(Store::verify(dir.path()), Err(Error::Locked { .. })));
}

#[test]
fn directory_without_a_store_is_an_error() {
    let dir = Dir::new("empty");
    assert!(matches!(Store::verify(dir.path()), Err(Error::Io { .. })));
    std::fs::create_dir(dir.path()).unwrap();
    assert!(matches!(Store::verify(dir.path()), Err(Error::Io { .. })));
    let into = Dir::new("empty-saved");
    assert!(matches!(Store::salvage(dir.path(), into.path()), Err(Error::Io { .. })));
}

#[test]
fn random_damage_is_told_or_repaired_and_never_makes_ids_up() {
    let seed = std::env::var("FIRSTSEEN_SEED").ok().and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or_else(|| u64::from(std::process::id()));
    println!("FIRSTSEEN_SEED={seed}");
    let mut random = Random::new(seed);
    let original = closed_store("random", 2);
    let store = Store::open_with(original.path(), options()).unwrap();
    for number in 0..200 {
        let _ = store.check(id(2 * PER_RUN + number)).unwrap();
    }
    end(store, &original);
    let ids = 2 * PER_RUN + 200;
    for round in 0..60 {
        let dir = original.copy("random-copy");
        let names: Vec<String> = dir.contents().into_keys().collect();
        let hits = 1 + random.below(3);
        for _ in 0..hits {
            let file = &names[random.below(names.len() as u64) as usize];
            let bytes = dir.read(file).len() as u64;
            match random.below(4) {
                0 => dir.cut(file, random.below(bytes + 1)),
                _ if bytes > 0 => dir.flip(file, random.below(bytes)),
                _ => {}
            }
        }
        let before = dir.contents();
        // Either is right; neither may panic or change anything.
        let verification = Store::verify(dir.path());
        let into = Dir::new("random-saved");
        let salvage = Store::salvage_with(dir.path(), into.path(), Options::new().hash(Hash::Xxh3));
        assert!(dir.contents() == before, "{round}");
        let Ok(salvage) = salvage else { continue };
        let store = Store::open(into.path()).unwrap();
        let saved = (0..ids).filter(|number| store.contains(id(*number)).unwrap()).count() as u64;
        assert_eq!((saved, store.len()), (salvage.ids, salvage.ids), "{round}: {salvage}");
        if verification.is_ok_and(|verification| verification.is_sound()) {
            assert_eq!(saved, u64::from(ids), "{round}: called sound, but {salvage}");
        }
    }
}
