//! Whatever keys are written, all of them are found and no others.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::limits::SPARE_LINES;
use crate::stamp::VERSION_MAX;
use crate::storage::sim::{Fault, Op, SimDisk};

/// Fingerprints as a hash makes them, and such as crowd together.
fn keys() -> impl Strategy<Value = Fingerprint> {
    let half = || prop_oneof![any::<u64>(), 0..4_u64, Just(u64::MAX), (0..64_u32).prop_map(|bit| 1 << bit)];
    (half(), half()).prop_map(|(hi, lo)| Fingerprint::from_halves(hi, lo))
}

fn facts() -> impl Strategy<Value = (State, u64)> {
    (any::<bool>(), BIRTH + 1..BIRTH + u64::from(VERSION_MAX))
        .prop_map(|(is_seen, until)| (if is_seen { State::Seen } else { State::Forgotten }, until))
}

proptest! {
    #[test]
    fn written_keys_are_found_and_no_others(
        twin in proptest::collection::btree_map(keys(), facts(), 0..200),
        absent in vec(keys(), 0..100),
        // From too low an estimate to one that leaves most lines empty.
        ids in 0..1_000_usize,
    ) {
        let shelf = Shelf::default();
        let sealed = write(&shelf, spec(7, ids), &twin).unwrap();
        for access in [Access::Map, Access::Pread] {
            let generation = Generation::open(&shelf, &sealed, STORE, access).unwrap();
            assert_same(&generation, &twin, &absent);
            let is_mapped = access == Access::Map;
            prop_assert_eq!(generation.is_filter_loaded(), !is_mapped);
            let screened: Vec<bool> =
                absent.iter().map(|key| generation.may_contain_masked(*key, Mask::of(*key))).collect();
            let filter = generation.read_filter().unwrap();
            prop_assert_eq!(filter.memory_bytes(), generation.filter_bytes());
            for (key, was) in absent.iter().zip(screened) {
                prop_assert_eq!(filter.may_contain_masked(*key, Mask::of(*key)), was);
            }
            assert_same(&generation, &twin, &absent);
        }
    }

    #[test]
    fn lines_asked_for_in_parts_are_those_of_the_whole(
        twin in proptest::collection::btree_map(keys(), facts(), 0..200),
        cuts in vec(0..300_u64, 0..5),
    ) {
        let shelf = Shelf::default();
        let sealed = write(&shelf, spec(7, twin.len()), &twin).unwrap();
        let generation = Generation::open(&shelf, &sealed, STORE, Access::Pread).unwrap();
        let mut cuts = cuts;
        cuts.extend([0, generation.lines() + 300]);
        cuts.sort_unstable();
        let mut facts = Vec::new();
        for pair in cuts.windows(2) {
            generation.facts_in(pair[0], pair[1] - pair[0], &mut facts).unwrap();
        }
        prop_assert_eq!(facts, generation.facts().collect::<Result<Vec<_>>>().unwrap());
    }
}

#[test]
fn generations_of_every_small_size_answer_as_their_twins() {
    let mut random = Random(1);
    for count in 0..130 {
        let shelf = Shelf::default();
        let (twin, absent) = (random.twin(count), [(); 20].map(|()| random.key()));
        let sealed = write(&shelf, spec(1, count), &twin).unwrap();
        let generation = Generation::open(&shelf, &sealed, STORE, Access::Map).unwrap();
        assert_same(&generation, &twin, &absent);
    }
}

#[test]
#[cfg(not(miri))]
fn large_generation_answers_as_its_twin_and_takes_little_room() {
    let mut random = Random(2);
    let (shelf, count) = (Shelf::default(), 100_000);
    let (twin, absent) = (random.twin(count), (0..10_000).map(|_| random.key()).collect::<Vec<_>>());
    let sealed = write(&shelf, spec(1, count), &twin).unwrap();
    assert!(sealed.bytes * 10 <= count as u64 * 265, "{} bytes for {count} keys", sealed.bytes);
    for access in [Access::Map, Access::Pread] {
        let generation = Generation::open(&shelf, &sealed, STORE, access).unwrap();
        assert_same(&generation, &twin, &absent);
        let wrong = absent.iter().filter(|key| generation.may_contain_masked(**key, Mask::of(**key))).count();
        assert!(wrong < 150, "{wrong} of 10000 absent keys pass the filter");
    }
}

#[test]
fn filter_at_hand_answers_as_the_one_in_the_file() {
    let mut random = Random(3);
    let (shelf, twin) = (Shelf::default(), random.twin(500));
    let mut writer = GenerationWriter::create(&shelf, spec(1, twin.len())).unwrap();
    for (key, (state, until)) in &twin {
        writer.push(*key, *state, *until).unwrap();
    }
    assert_eq!(writer.ids(), 500);
    assert!(writer.filter_bytes() >= 500 * 12 / 8);
    let (sealed, filter) = writer.finish(&shelf).unwrap();
    let from_file = Generation::open(&shelf, &sealed, STORE, Access::Map).unwrap();
    for key in (0..1_000).map(|_| random.key()) {
        let mask = Mask::of(key);
        assert_eq!(filter.may_contain_masked(key, mask), from_file.may_contain_masked(key, mask));
    }
    assert_same(&from_file, &twin, &[]);
    // The same keys with the filter handed in: the same file, but for its number.
    let mut writer = GenerationWriter::create_with(&shelf, spec(2, twin.len()), filter).unwrap();
    for (key, (state, until)) in &twin {
        writer.push(*key, *state, *until).unwrap();
    }
    assert_eq!(writer.filter_bytes(), 0, "none is made");
    let (sealed, _) = writer.finish(&shelf).unwrap();
    assert_same(&Generation::open(&shelf, &sealed, STORE, Access::Map).unwrap(), &twin, &[]);
}

#[test]
fn version_is_kept_from_birth_to_the_last_one_and_refused_beyond() {
    let shelf = Shelf::default();
    let key = |hi| Fingerprint::from_halves(hi, 1);
    let mut writer = GenerationWriter::create(&shelf, spec(1, 3)).unwrap();
    let last = BIRTH + u64::from(VERSION_MAX);
    // What is over at birth is kept for one tick: windows end late, never early (G5).
    writer.push(key(1), State::Seen, 0).unwrap();
    writer.push(key(2), State::Seen, last).unwrap();
    assert_eq!(writer.push(key(3), State::Seen, last + 1), Err(Error::RevisionsUsedUp));
    writer.push(key(4), State::Forgotten, BIRTH + 1).unwrap();
    let (sealed, _) = writer.finish(&shelf).unwrap();
    assert_eq!((sealed.ids, sealed.until_min, sealed.until_max), (3, BIRTH + 1, last));
    let generation = Generation::open(&shelf, &sealed, STORE, Access::Map).unwrap();
    assert_eq!(generation.find(key(1)), Ok(Some((State::Seen, BIRTH + 1))));
    assert_eq!(generation.find(key(2)), Ok(Some((State::Seen, last))));
    assert_eq!(generation.find(key(3)), Ok(None));
}

#[test]
fn crowd_beyond_the_longest_walk_is_uneven_and_a_larger_crowd_fits_more_lines() {
    let shelf = Shelf::default();
    let crowd = |lo| Fingerprint::from_halves(1 << 40, lo);
    let room = (SPARE_LINES + 1) * 3;
    let mut writer = GenerationWriter::create(&shelf, spec(1, 10)).unwrap();
    for lo in 1..=room {
        writer.push(crowd(lo), State::Seen, BIRTH + lo).unwrap();
    }
    assert_eq!(writer.push(crowd(room + 1), State::Seen, BIRTH + 1), Err(Error::Uneven { tables: 1 }));
    let (sealed, _) = writer.finish(&shelf).unwrap();
    for access in [Access::Map, Access::Pread] {
        let generation = Generation::open(&shelf, &sealed, STORE, access).unwrap();
        for lo in 1..=room {
            assert_eq!(generation.find(crowd(lo)), Ok(Some((State::Seen, BIRTH + lo))));
        }
        assert_eq!(generation.find(crowd(room + 1)), Ok(None));
        assert_eq!(generation.verify(), Ok(room));
    }
}

#[test]
#[should_panic(expected = "keys come once and in order")]
fn key_out_of_order_is_refused() {
    let mut writer = GenerationWriter::create(&Shelf::default(), spec(1, 3)).unwrap();
    for hi in [5, 4] {
        writer.push(Fingerprint::from_halves(hi, 1), State::Seen, BIRTH + 1).unwrap();
    }
}

#[test]
#[should_panic(expected = "is no fact")]
fn state_that_is_no_fact_is_refused() {
    let mut writer = GenerationWriter::create(&Shelf::default(), spec(1, 3)).unwrap();
    let _ = writer.push(Fingerprint::from_halves(5, 1), State::Pending, BIRTH + 1);
}

/// A file was synced once, at its end: a rotation that was due waited until all of it was on the disk.
#[test]
#[cfg(not(miri))]
fn long_file_is_synced_on_the_way() {
    let disk = SimDisk::new(0);
    let mut writer = GenerationWriter::create(&disk, spec(1, 1_400_000)).unwrap();
    writer.push(Fingerprint::from_halves(u64::MAX, 1), State::Seen, BIRTH + 1).unwrap();
    let on_the_way = disk.ops_of(Op::Sync);
    assert_eq!(on_the_way, 8, "35 MiB are written");
    writer.finish(&disk).unwrap();
    assert_eq!(disk.ops_of(Op::Sync), on_the_way + 1);
}

/// A sync that fails on the way is not made good by a later one (G6).
#[test]
#[cfg(not(miri))]
fn file_whose_sync_on_the_way_failed_is_worth_nothing() {
    let disk = SimDisk::new(0);
    let mut writer = GenerationWriter::create(&disk, spec(1, 1_000_000)).unwrap();
    disk.fail(Fault { at: 0, kind: std::io::ErrorKind::Other, is_sticky: false, only: Some(Op::Sync) });
    let pushed = writer.push(Fingerprint::from_halves(u64::MAX, 1), State::Seen, BIRTH + 1);
    assert!(matches!(pushed, Err(Error::Io { operation: "syncing", .. })), "{pushed:?}");
    assert!(matches!(writer.finish(&disk), Err(Error::Poisoned { .. })));
}
