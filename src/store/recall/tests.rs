//! Generations that come back into memory and go again, by hand on a simulated disk.

use std::time::Duration;

use super::*;
use crate::clock::{ManualClock, Timestamp};
use crate::event::Event;
use crate::fingerprint::Fingerprint;
use crate::generation::{Access, GenerationWriter, Spec};
use crate::limits::LINE_BYTES;
use crate::options::{Maintenance, Options, Window};
use crate::stamp::State;
use crate::storage::names::generation_name;
use crate::storage::sim::SimDisk;
use crate::store::view::Older;
use crate::store::{Progress, Stats, Store};
use crate::sync::Mutex;
use crate::verdict::Verdict;

/// IDs of a generation: two slices of lines.
const PER_ROUND: u32 = 60_000;
const ROUNDS: u32 = 3;
const SEEN: u32 = PER_ROUND * ROUNDS;
const WINDOW: Duration = Duration::from_secs(3_600);
/// More than all generations and tables take.
const ENOUGH: u64 = 1 << 30;

fn id(number: u32) -> [u8; 4] {
    number.to_le_bytes()
}

/// Every 97th ID of the earlier rounds is forgotten in the last one.
fn is_forgotten(number: u32) -> bool {
    number < SEEN - PER_ROUND && number.is_multiple_of(97)
}

fn is_seen(number: u32) -> bool {
    number < SEEN && !is_forgotten(number)
}

fn options(clock: &ManualClock, window: Window, budget: u64) -> Options {
    let options = Options::new().maintenance(Maintenance::Manual).clock(clock.clock());
    options.window(window).memory_budget(budget)
}

fn open(disk: &SimDisk, options: Options) -> Store {
    Store::open_on(Arc::new(disk.clone()), options).unwrap()
}

fn settle(store: &Store) {
    let is_idle = (0..100_000).any(|_| store.maintain().unwrap() == Progress::Idle);
    assert!(is_idle, "maintenance does not come to an end: {:?}", store.stats());
}

/// A closed store with a generation for each round.
fn closed_store(clock: &ManualClock, window: Window) -> SimDisk {
    let disk = SimDisk::new(0);
    for round in 0..ROUNDS {
        let store = open(&disk, options(clock, window, ENOUGH).expect(PER_ROUND.into()));
        let ids: Vec<_> = (round * PER_ROUND..(round + 1) * PER_ROUND).map(id).collect();
        let mut verdicts = vec![Verdict::default(); ids.len()];
        store.check_batch(&ids, &mut verdicts).unwrap();
        assert!(verdicts.iter().all(|verdict| verdict.is_first_seen()));
        if round + 1 == ROUNDS {
            for number in (0..SEEN).filter(|number| is_forgotten(*number)) {
                assert!(store.forget(id(number)).unwrap());
            }
        }
        store.close().unwrap();
    }
    disk
}

/// Asks for everything that was seen, and for as much that was not.
#[track_caller]
fn assert_right(store: &Store) {
    for number in 0..2 * SEEN {
        assert_eq!(store.contains(id(number)), Ok(is_seen(number)), "ID {number}: {:?}", store.stats());
    }
}

/// Generations that tables in memory answer for.
fn in_memory(store: &Store) -> usize {
    store.engine.views.load().sealed_kept
}

/// As many generations as one round makes of a table each, and all of them in their files.
#[track_caller]
fn assert_in_files(stats: &Stats) {
    assert_eq!((stats.generations, stats.tables, stats.making_bytes), (ROUNDS as usize, 1, 0), "{stats:?}");
}

#[test]
fn generations_that_are_asked_a_lot_answer_from_memory_as_from_their_files() {
    for window in [Window::Forever, Window::Fixed(WINDOW)] {
        let clock = ManualClock::new(Timestamp::from_millis(1_000_000_000));
        let disk = closed_store(&clock, window);
        let store = open(&disk, options(&clock, window, ENOUGH));
        settle(&store);
        assert_in_files(&store.stats());
        assert_right(&store);
        let mut is_on_the_way = false;
        while store.maintain().unwrap() != Progress::Idle {
            is_on_the_way |= store.stats().making_bytes > 0;
            for number in (0..SEEN).step_by(1_009) {
                assert_eq!(store.contains(id(number)), Ok(is_seen(number)), "ID {number}");
            }
        }
        let stats = store.stats();
        assert!(is_on_the_way, "a generation takes more than one slice");
        assert_eq!((in_memory(&store), stats.making_bytes), (ROUNDS as usize, 0), "{stats:?}");
        assert!(stats.memory_bytes_peak <= ENOUGH, "{stats:?}");
        assert_right(&store);
        for number in (0..SEEN).step_by(97).chain(SEEN..SEEN + 100) {
            let verdict = store.check(id(number)).unwrap();
            assert_eq!(verdict.is_duplicate(), is_seen(number), "ID {number}");
        }
    }
}

/// What is being copied goes with its file, and what is over is seen anew.
#[test]
fn generation_that_ends_while_it_is_copied_is_gone() {
    let clock = ManualClock::new(Timestamp::from_millis(1_000_000_000));
    let window = Window::Fixed(WINDOW);
    let disk = closed_store(&clock, window);
    let store = open(&disk, options(&clock, window, ENOUGH));
    assert_right(&store);
    while store.stats().making_bytes == 0 {
        assert_eq!(store.maintain().unwrap(), Progress::Worked);
    }
    clock.advance(2 * WINDOW);
    settle(&store);
    let stats = store.stats();
    assert_eq!((stats.generations, stats.tables, stats.making_bytes), (0, 1, 0), "{stats:?}");
    for number in (0..SEEN).step_by(1_009) {
        assert!(store.check(id(number)).unwrap().is_first_seen(), "ID {number} is over");
    }
}

/// There is always room for the next table: it takes none from what was brought back.
#[test]
fn copies_stay_within_the_budget_and_leave_room_for_the_next_table() {
    let clock = ManualClock::new(Timestamp::from_millis(1_000_000_000));
    let disk = closed_store(&clock, Window::Forever);
    let (mut kept_before, mut was_in_files) = (0, false);
    // So close to each other that some have room for a copy, and for the next table only without it.
    for budget in (4..32).map(|quarters: u64| quarters << 18) {
        let disk = disk.kill();
        let store = open(&disk, options(&clock, Window::Forever, budget));
        let assert_right = |store: &Store| {
            for number in (0..2 * SEEN).step_by(61) {
                assert_eq!(store.contains(id(number)), Ok(is_seen(number)), "ID {number}");
            }
        };
        assert_right(&store);
        settle(&store);
        let stats = store.stats();
        assert!(stats.memory_bytes_peak <= budget, "{stats:?}");
        assert!(in_memory(&store) >= kept_before, "{stats:?}");
        if kept_before == 0 && in_memory(&store) == 0 {
            assert_in_files(&stats);
            was_in_files = true;
        }
        assert_right(&store);
        kept_before = in_memory(&store);
        while store.stats().rotations == 0 {
            let new = SEEN + u32::try_from(store.len()).unwrap();
            assert!(store.check(id(2 * SEEN + new)).is_ok());
            store.maintain().unwrap();
        }
        let stats = store.stats();
        assert!(stats.memory_bytes_peak <= budget && in_memory(&store) == kept_before, "{stats:?}");
    }
    assert!(was_in_files);
    assert_eq!(kept_before, ROUNDS as usize);
}

/// What had to make room is asked a lot once more before it is read once more.
#[test]
fn generation_that_made_room_is_copied_again_when_it_is_asked_again() {
    let clock = ManualClock::new(Timestamp::from_millis(1_000_000_000));
    let disk = closed_store(&clock, Window::Forever);
    let store = open(&disk, options(&clock, Window::Forever, ENOUGH));
    for _ in 0..2 {
        assert_right(&store);
        settle(&store);
        assert_eq!(in_memory(&store), ROUNDS as usize);
        store.engine.lock_structure().release_sealed(&store.engine, u64::MAX);
        settle(&store);
        assert_eq!(in_memory(&store), 0, "{:?}", store.stats());
    }
}

/// A table that is needed at once does not wait for one that is not there yet.
#[test]
fn copy_that_is_not_finished_makes_room_first() {
    let clock = ManualClock::new(Timestamp::from_millis(1_000_000_000));
    let disk = closed_store(&clock, Window::Forever);
    let store = open(&disk, options(&clock, Window::Forever, ENOUGH));
    assert_right(&store);
    while store.stats().making_bytes == 0 || store.stats().tables == 1 {
        assert_eq!(store.maintain().unwrap(), Progress::Worked);
    }
    let making = store.stats().making_bytes;
    assert_eq!(store.engine.lock_structure().release_sealed(&store.engine, making), making);
    let stats = store.stats();
    assert_eq!((stats.making_bytes, stats.tables), (0, 2), "the one that is there stays: {stats:?}");
    settle(&store);
    assert_eq!(in_memory(&store), ROUNDS as usize);
    assert_right(&store);
}

/// Copies, rotations, sealing and fusion, all at once and in too little memory.
#[test]
fn threads_agree_on_one_first_while_copies_come_and_go() {
    const IDS: u32 = 300_000;
    let disk = SimDisk::new(0);
    for run in 0..3 {
        let store = open(&disk, Options::new().memory_budget(4 << 20));
        let (from, until) = (run * IDS / 3, (run + 1) * IDS / 3);
        let firsts = std::thread::scope(|scope| {
            let check = |step: u32| {
                let store = &store;
                move || {
                    let mut firsts = 0;
                    for number in from..until {
                        firsts += u32::from(store.check(id(number)).unwrap().is_first_seen());
                        let old = number.wrapping_mul(step) % (number + 1);
                        assert!(store.check(id(old)).unwrap().is_duplicate(), "ID {old}");
                        assert!(!store.contains(id(u32::MAX - number)).unwrap());
                    }
                    firsts
                }
            };
            let checkers = [7_919, 104_729, 1_299_709].map(|step| scope.spawn(check(step)));
            checkers.map(|checker| checker.join().unwrap()).into_iter().sum::<u32>()
        });
        let stats = store.stats();
        assert_eq!(firsts, until - from, "{stats:?}");
        assert!(stats.seals > 0, "{stats:?}");
        for number in 0..until {
            assert!(store.check(id(number)).unwrap().is_duplicate(), "ID {number}");
        }
        store.close().unwrap();
    }
}

/// A damaged line is told of once, answers for nothing, and takes nothing else with it.
#[test]
fn generation_with_a_damaged_line_goes_on_answering_from_its_file() {
    let clock = ManualClock::new(Timestamp::from_millis(1_000_000_000));
    let disk = closed_store(&clock, Window::Forever);
    let file = generation_name(2);
    let mut bytes = disk.files()[&file].clone();
    // A full line in the second slice.
    let of_line = |line: u64| 4_096 + line * LINE_BYTES;
    let is_full = |line: &u64| bytes[usize::try_from(of_line(*line)).unwrap() + 32] != 0;
    let offset = of_line((LINES_PER_STEP + 1_000..).find(is_full).unwrap());
    bytes[usize::try_from(offset).unwrap()] ^= 1;
    disk.overwrite(&file, &bytes);
    let told = Arc::new(Mutex::new(Vec::new()));
    let telling = Arc::clone(&told);
    let observed = options(&clock, Window::Forever, ENOUGH).observer(move |event| {
        telling.lock().push(event.clone());
    });
    let store = open(&disk, observed);
    for _ in 0..2 {
        let mut refused = 0;
        for number in 0..2 * SEEN {
            match store.contains(id(number)) {
                Ok(found) => assert_eq!(found, is_seen(number), "ID {number}"),
                Err(crate::Error::Corrupt { file: named, offset: at, .. }) => {
                    assert_eq!((named, at), (file.clone(), offset));
                    refused += 1;
                }
                Err(error) => panic!("{error}"),
            }
        }
        assert!((1..500).contains(&refused), "{refused} answers of one line");
        settle(&store);
        assert_eq!(in_memory(&store), 1, "the one before it: {:?}", store.stats());
    }
    let told = told.lock().clone();
    let is_it = |event: &Event| {
        matches!(event, Event::Damaged { cause: crate::Error::Corrupt { file: named, offset: at, .. } }
            if *named == file && *at == offset)
    };
    assert!(told.len() == 1 && is_it(&told[0]), "{told:?}");
}

/// Keys that crowd reach far behind their home lines, up to the last spare line.
#[test]
fn copy_of_a_crowded_file_answers_as_the_file() {
    const BIRTH: u64 = 1_000;
    let disk = SimDisk::new(0);
    let spec = Spec { store_id: 1, id: 1, ids: 6_000, birth: BIRTH, tick_ms: 1, is_forever: false };
    let mut writer = GenerationWriter::create(&disk, spec).unwrap();
    // Three thousand before the end, where the rest fills all spare lines.
    let crowd = u64::from(u32::MAX) << 32;
    let spread = (1..3_000_u64).map(|index| (index * (crowd / 3_000), 7));
    let crowded = (0..3 * SPARE_LINES).map(|index| (crowd + index / 2, 7 + index % 2));
    let keys: Vec<Fingerprint> =
        spread.chain(crowded).map(|(hi, lo)| Fingerprint::from_halves(hi, lo)).collect();
    let state = |index: usize| if index.is_multiple_of(5) { State::Forgotten } else { State::Seen };
    for (index, key) in keys.iter().enumerate() {
        writer.push(*key, state(index), BIRTH + 1 + index as u64).unwrap();
    }
    let (named, filter) = writer.finish(&disk).unwrap();
    let generation = Generation::open(&disk, &named, 1, Access::Map).unwrap();
    assert!(generation.lines() >= generation.home_lines() + SPARE_LINES - 1, "{named:?}");
    let sealed = Sealed::new(generation, 0);
    let others = keys.iter().map(|key| Fingerprint::from_halves(key.hi(), key.lo() + 2));
    let others = others.chain(keys.iter().map(|key| Fingerprint::from_halves(key.hi() ^ 0x8000, 7)));
    let asked: Vec<Fingerprint> = keys.iter().copied().chain(others).collect();
    let from_file: Vec<_> = asked.iter().map(|key| sealed.fact(*key)).collect();
    let mut recall = Recall::of(Arc::clone(sealed.generation())).unwrap();
    while !recall.step().unwrap() {}
    assert_eq!(recall.ids, keys.len() as u64);
    let kept = Older::kept(recall.table, filter, 1);
    for (key, fact) in asked.iter().zip(from_file) {
        assert_eq!(Ok(kept.sealed_fact(*key)), fact, "{key:?}");
    }
}
