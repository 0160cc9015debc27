//! The same operations have the same results on the disk and on the simulated one.

use std::fmt::Write;
use std::io;

use super::scratch::{Scratch, seeds};
use super::sim::random::Random;
use super::sim::{Op, SimDisk};
use super::{Disk, Storage, StorageFile, read_file};

const NAMES: [&str; 4] = ["MANIFEST", "MANIFEST.new", "log-1", "log-2"];
const NAMES_BAD: [&str; 6] = ["", ".", "..", "a/b", "../a", "a\0b"];

fn told<T: std::fmt::Debug>(outcome: io::Result<T>) -> String {
    format!("{:?}", outcome.map_err(|error| error.kind()))
}

/// One random operation, and what came of it.
fn step(storage: &dyn Storage, open: &mut Vec<(Box<dyn StorageFile>, bool)>, random: &mut Random) -> String {
    let (name, other) = (NAMES[random.index(4)], NAMES[random.index(4)]);
    let (kind, at, length) = (random.below(14), random.below(3000), random.index(1500));
    let file = (!open.is_empty()).then(|| random.index(open.len()));
    let mut keep = |opened: io::Result<Box<dyn StorageFile>>, is_writable| {
        told(opened.map(|file| open.push((file, is_writable))))
    };
    match (kind, file) {
        (0, _) => format!("create {name}: {}", keep(storage.create(name), true)),
        (1, _) => format!("read {name}: {}", keep(storage.open_read(name), false)),
        (2, _) => format!("write {name}: {}", keep(storage.open_write(name), true)),
        (3, _) => format!("rename {name} to {other}: {}", told(storage.rename(name, other))),
        (4, _) => format!("remove {name}: {}", told(storage.remove(name))),
        (5, _) => format!("sync: {}", told(storage.sync_dir())),
        (6, _) => {
            let mut names = storage.list().expect("it is readable");
            names.sort();
            format!("list: {names:?}")
        }
        (_, None) => "no file is open".to_owned(),
        (7 | 8, Some(index)) if open[index].1 => {
            let bytes: Vec<u8> = (0..length).map(|_| random.next().to_le_bytes()[0] % 8).collect();
            format!("{index} write {length} at {at}: {}", told(open[index].0.write_all_at(at, &bytes)))
        }
        (9, Some(index)) if open[index].1 => {
            format!("{index} allocate {at}: {}", told(open[index].0.allocate(at)))
        }
        (7..10, Some(index)) => {
            assert!(open[index].0.write_all_at(0, &[1]).is_err());
            assert!(open[index].0.allocate(5000).is_err());
            format!("{index} is for reading only")
        }
        (10, Some(index)) => format!("{index} sync: {}", told(open[index].0.sync())),
        (11, Some(index)) => format!("{index} size: {}", told(open[index].0.size())),
        (12, Some(index)) => {
            let mut buffer = vec![0; length];
            format!(
                "{index} {length} at {at}: {} {buffer:?}",
                told(open[index].0.read_exact_at(at, &mut buffer))
            )
        }
        (_, Some(index)) => {
            drop(open.swap_remove(index));
            format!("{index} closed")
        }
    }
}

/// Random operations, then all that is there.
fn story(storage: &dyn Storage, seed: u64) -> String {
    let (mut random, mut open, mut story) = (Random::new(seed), Vec::new(), String::new());
    for _ in 0..120 {
        writeln!(story, "{}", step(storage, &mut open, &mut random)).expect("a string takes all");
    }
    for name in NAMES {
        writeln!(story, "{name}: {:?}", read_file(storage, name, 1 << 20).ok()).expect("a string takes all");
    }
    story
}

#[test]
fn operations_on_both_backends_have_the_same_results() {
    for seed in seeds(150) {
        let scratch = Scratch::new("contract");
        let disk = Disk::open(scratch.path(), false).expect("it is there");
        let (sim, short) = (SimDisk::new(seed), SimDisk::new(seed));
        short.short_io(true);
        let real = story(&disk, seed);
        assert_eq!(real, story(&sim, seed), "FIRSTSEEN_SEED={seed}");
        assert_eq!(real, story(&short, seed), "FIRSTSEEN_SEED={seed} with short reads and writes");
        assert!(short.ops_of(Op::Write) >= sim.ops_of(Op::Write));
    }
}

fn both(check: impl Fn(&dyn Storage)) {
    let scratch = Scratch::new(&format!("both-{:?}", std::thread::current().id()));
    check(&Disk::open(scratch.path(), false).expect("it is there"));
    check(&SimDisk::new(0));
}

#[test]
fn names_that_lead_elsewhere_are_refused() {
    both(|storage| {
        drop(storage.create("good").expect("the name is free"));
        for name in NAMES_BAD {
            let outcomes = [
                told(storage.create(name).map(|_| ())),
                told(storage.open_read(name).map(|_| ())),
                told(storage.open_write(name).map(|_| ())),
                told(storage.rename("good", name)),
                told(storage.rename(name, "good")),
                told(storage.remove(name)),
                told(storage.lock(name).map(|_| ())),
            ];
            assert!(outcomes.iter().all(|outcome| outcome == "Err(InvalidInput)"), "{name:?}: {outcomes:?}");
        }
        assert_eq!(storage.list().expect("it is readable"), ["good"]);
    });
}

#[test]
fn lock_taken_twice_is_refused_until_it_is_given_back() {
    both(|storage| {
        let lock = storage.lock("LOCK").expect("nobody has it");
        assert_eq!(told(storage.lock("LOCK").map(|_| ())), "Err(WouldBlock)");
        drop(storage.lock("OTHER").expect("it is another file"));
        drop(lock);
        drop(storage.lock("LOCK").expect("it is free again"));
        let mut names = storage.list().expect("it is readable");
        names.sort();
        assert_eq!(names, ["LOCK", "OTHER"]);
        assert!(!storage.place().is_empty());
    });
}

#[test]
fn map_of_a_sealed_file_shows_it_and_of_an_open_one_is_refused() {
    both(|storage| {
        for (name, content) in [("empty", &b""[..]), ("some", &[7; 5000])] {
            let file = storage.create(name).expect("the name is free");
            file.write_all_at(0, content).expect("there is room");
            assert_eq!(told(file.map()), "Err(InvalidInput)");
            let map = storage.open_read(name).expect("it is there").map().expect("it is sealed");
            assert_eq!(&map.expect("it has maps")[..], content);
        }
    });
}

#[test]
fn file_longer_than_allowed_is_not_read() {
    both(|storage| {
        storage.create("long").expect("the name is free").allocate(11).expect("there is room");
        assert_eq!(read_file(storage, "long", 11), Ok(vec![0; 11]));
        assert!(read_file(storage, "long", 10).is_err());
        assert!(read_file(storage, "missing", 10).is_err());
    });
}
