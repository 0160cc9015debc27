//! What the simulated disk loses and keeps, against a slow twin that knows byte by byte what is allowed.

use std::collections::BTreeSet;
use std::io::ErrorKind;

use super::*;
use crate::storage::scratch::seeds;
use crate::storage::{Storage, StorageFile, read_file};

const NAMES: [&str; 3] = ["a", "b", "c"];
const SECTOR: usize = file::SECTOR_BYTES;

/// A file as the twin sees it.
#[derive(Clone, Debug, Default)]
struct TwinFile {
    live: Vec<u8>,
    synced: Vec<u8>,
    /// Bytes and sectors written since the last sync.
    touched: BTreeSet<usize>,
    touched_sectors: BTreeSet<usize>,
    /// Lengths since the last sync.
    lengths: Vec<usize>,
}

impl TwinFile {
    fn write(&mut self, at: usize, bytes: &[u8]) {
        self.resize(self.live.len().max(at + bytes.len()));
        self.live[at..at + bytes.len()].copy_from_slice(bytes);
        self.touch(at..at + bytes.len());
    }

    fn resize(&mut self, length: usize) {
        self.touch(length..self.live.len());
        self.live.resize(length, 0);
        self.lengths.push(length);
    }

    fn touch(&mut self, bytes: std::ops::Range<usize>) {
        self.touched_sectors.extend(bytes.clone().map(|at| at / SECTOR));
        self.touched.extend(bytes);
    }

    fn sync(&mut self) {
        *self = TwinFile { live: self.live.clone(), synced: self.live.clone(), ..TwinFile::default() };
    }

    /// Whether a power cut may leave these bytes.
    fn allows(&self, found: &[u8]) -> bool {
        let lengths = || self.lengths.iter().copied().chain([self.synced.len()]);
        let is_length_good = lengths().min() <= Some(found.len()) && Some(found.len()) <= lengths().max();
        let is_open = |at: usize| {
            let is_new = at >= self.synced.len() && self.touched_sectors.contains(&(at / SECTOR));
            is_new || self.touched.contains(&at)
        };
        let durable = |at: usize| self.synced.get(at).copied().unwrap_or(0);
        is_length_good && found.iter().enumerate().all(|(at, byte)| is_open(at) || *byte == durable(at))
    }
}

#[derive(Clone, Debug, Default)]
struct Twin {
    files: Vec<TwinFile>,
    live: BTreeMap<String, usize>,
    synced: BTreeMap<String, usize>,
    /// Which files a name led to since the last sync of the directory, if it changed.
    changed: BTreeMap<String, BTreeSet<usize>>,
}

impl Twin {
    fn set(&mut self, name: &str, file: Option<usize>) {
        self.changed.entry(name.to_owned()).or_default().extend(file);
        match file {
            Some(file) => self.live.insert(name.to_owned(), file),
            None => self.live.remove(name),
        };
    }

    fn sync_dir(&mut self) {
        self.synced.clone_from(&self.live);
        self.changed.clear();
    }

    fn contents(
        &self,
        names: &BTreeMap<String, usize>,
        of: fn(&TwinFile) -> &Vec<u8>,
    ) -> BTreeMap<String, Vec<u8>> {
        names.iter().map(|(name, file)| (name.clone(), of(&self.files[*file]).clone())).collect()
    }

    /// What is wrong with what a power cut left.
    fn breach(&self, found: &BTreeMap<String, Vec<u8>>) -> Option<String> {
        for name in NAMES {
            let synced = self.synced.get(name);
            let is_good = match (found.get(name), self.changed.get(name)) {
                (None, None) => synced.is_none(),
                (None, Some(_)) => true,
                (Some(bytes), changed) => {
                    let mut files = synced.into_iter().chain(changed.into_iter().flatten());
                    files.any(|file| self.files[*file].allows(bytes))
                }
            };
            if !is_good {
                return Some(format!("{name}: {:?}", found.get(name)));
            }
        }
        None
    }
}

/// The simulated disk, its twin, and the file of each handle.
struct Pair {
    disk: SimDisk,
    twin: Twin,
    open: Vec<(Box<dyn StorageFile>, usize)>,
    random: Random,
}

impl Pair {
    fn new(seed: u64) -> Pair {
        let (disk, twin, open) = (SimDisk::new(seed), Twin::default(), Vec::new());
        disk.rename_torn(seed.is_multiple_of(3));
        Pair { disk, twin, open, random: Random::new(!seed) }
    }

    fn step(&mut self) {
        let (name, other) = (NAMES[self.random.index(3)], NAMES[self.random.index(3)]);
        let kind = self.random.below(12);
        match kind {
            0 | 1 => self.create(name),
            2 if self.disk.rename(name, other).is_ok() && name != other => {
                let file = self.twin.live[name];
                self.twin.set(name, None);
                self.twin.set(other, Some(file));
            }
            3 if self.random.chance(1, 2) && self.disk.remove(name).is_ok() => self.twin.set(name, None),
            4 => {
                self.disk.sync_dir().expect("nothing fails");
                self.twin.sync_dir();
            }
            5.. if !self.open.is_empty() => self.step_in_file(kind),
            _ => {}
        }
    }

    fn create(&mut self, name: &str) {
        if let Ok(file) = self.disk.create(name) {
            self.open.push((file, self.twin.files.len()));
            self.twin.set(name, Some(self.twin.files.len()));
            self.twin.files.push(TwinFile::default());
        }
    }

    fn step_in_file(&mut self, kind: u64) {
        let (handle, number) = &self.open[self.random.index(self.open.len())];
        let file = &mut self.twin.files[*number];
        let (at, length) = (self.random.index(2000), self.random.index(900));
        match kind {
            5 | 6 => {
                handle.sync().expect("nothing fails");
                file.sync();
            }
            7 => {
                handle.allocate(at as u64).expect("nothing fails");
                file.resize(at);
            }
            _ => {
                // Every write has bytes of its own, so that what is found tells where it came from.
                let value = self.random.next().to_le_bytes()[0] | 1;
                handle.write_all_at(at as u64, &vec![value; length + 1]).expect("nothing fails");
                file.write(at, &vec![value; length + 1]);
            }
        }
    }

    fn check(&self, seed: u64, seen: &mut BTreeMap<&'static str, u64>) {
        let live = self.twin.contents(&self.twin.live, |file| &file.live);
        let synced = self.twin.contents(&self.twin.synced, |file| &file.synced);
        assert_eq!(self.disk.files(), live, "FIRSTSEEN_SEED={seed}");
        assert_eq!(self.disk.kill().files(), live, "FIRSTSEEN_SEED={seed}");
        assert_eq!(self.disk.crash(Crash::KeepAll).files(), live, "FIRSTSEEN_SEED={seed}");
        for disk in [&self.disk, &self.disk.kill()] {
            assert_eq!(disk.crash(Crash::LoseAll).files(), synced, "FIRSTSEEN_SEED={seed}");
            let after = disk.crash(Crash::Random(self.random.clone().next()));
            let found = after.files();
            assert_eq!(self.twin.breach(&found), None, "FIRSTSEEN_SEED={seed}");
            assert_eq!(after.crash(Crash::LoseAll).files(), found, "what a cut left is durable ({seed})");
            count(&found, &live, &synced, seen);
        }
    }
}

/// Counts what kinds of states came up, so that the test cannot pass by never losing anything.
fn count(
    found: &BTreeMap<String, Vec<u8>>,
    live: &BTreeMap<String, Vec<u8>>,
    synced: &BTreeMap<String, Vec<u8>>,
    seen: &mut BTreeMap<&'static str, u64>,
) {
    let mut saw = |what, is_so: bool| *seen.entry(what).or_default() += u64::from(is_so);
    for name in NAMES {
        let (found, live, synced) = (found.get(name), live.get(name), synced.get(name));
        saw("a new name kept", synced.is_none() && found.is_some());
        saw("a new name lost", synced.is_none() && live.is_some() && found.is_none());
        saw("a removed name back", live.is_none() && found.is_some());
        if let (Some(found), Some(live), Some(synced)) = (found, live, synced) {
            saw("a new length kept", live.len() > synced.len() && found.len() == live.len());
            saw("a new length lost", live.len() > synced.len() && found.len() == synced.len());
            saw("a length between", found.len() > synced.len() && found.len() < live.len());
            for ((found, live), synced) in found.iter().zip(live).zip(synced) {
                let is_changed = live != synced;
                saw("a new byte kept", is_changed && found == live);
                saw("a new byte lost", is_changed && found == synced);
                saw("a byte zeroed", is_changed && *found == 0 && *synced != 0 && *live != 0);
                saw("a byte spoilt", is_changed && *found % 2 == 0 && ![live, synced].contains(&found));
            }
        }
    }
}

#[test]
fn power_cut_leaves_what_was_synced_and_no_more_than_was_written() {
    let mut seen = BTreeMap::new();
    for seed in seeds(1000) {
        let mut pair = Pair::new(seed);
        for _ in 0..40 {
            pair.step();
            if pair.random.chance(1, 8) {
                pair.check(seed, &mut seen);
            }
        }
        pair.check(seed, &mut seen);
    }
    println!("{seen:?}");
    if seeds(2).count() == 2 {
        assert_eq!(seen.len(), 10);
        assert!(seen.values().all(|times| *times > 0), "{seen:?}");
    }
}

/// A disk with a file that holds one synced sector of ones.
fn disk_with_file(seed: u64) -> (SimDisk, Box<dyn StorageFile>) {
    let disk = SimDisk::new(seed);
    disk.overwrite("a", &[1; SECTOR]);
    let file = disk.open_write("a").expect("it is there");
    (disk, file)
}

fn fault(at: u64, only: Option<Op>) -> Fault {
    Fault { at, kind: ErrorKind::StorageFull, is_sticky: false, only }
}

#[test]
fn failed_sync_is_not_made_good_by_a_later_one() {
    let mut values = BTreeSet::new();
    for seed in seeds(40) {
        let (disk, file) = disk_with_file(seed);
        file.write_all_at(0, &[2; SECTOR]).expect("nothing fails yet");
        disk.fail(fault(0, Some(Op::Sync)));
        assert_eq!(file.sync().expect_err("a fault").kind(), ErrorKind::StorageFull);
        file.sync().expect("the fault was for one");
        values.insert(disk.files()["a"][0]);
        assert_eq!(disk.crash(Crash::LoseAll).files()["a"], [1; SECTOR], "FIRSTSEEN_SEED={seed}");
        // What is written again is synced again.
        file.write_all_at(0, &[3; SECTOR]).expect("nothing fails any more");
        file.sync().expect("nothing fails any more");
        assert_eq!(disk.crash(Crash::LoseAll).files()["a"], [3; SECTOR], "FIRSTSEEN_SEED={seed}");
    }
    assert!(seeds(2).count() < 2 || values == BTreeSet::from([1, 2]), "{values:?}");
}

#[test]
fn failed_sync_of_the_directory_is_not_made_good_by_a_later_one() {
    let disk = SimDisk::new(0);
    drop(disk.create("a").expect("the name is free"));
    disk.fail(fault(0, Some(Op::SyncDir)));
    assert!(disk.sync_dir().is_err());
    disk.sync_dir().expect("the fault was for one");
    assert!(disk.crash(Crash::LoseAll).files().is_empty());
    assert_eq!(disk.crash(Crash::KeepAll).files().len(), 1);
    disk.rename("a", "b").expect("it is there");
    disk.sync_dir().expect("nothing fails any more");
    assert_eq!(disk.crash(Crash::LoseAll).files().into_keys().collect::<Vec<_>>(), ["b"]);
}

#[test]
fn failed_write_leaves_a_prefix() {
    let mut lengths = BTreeSet::new();
    for seed in seeds(40) {
        let (disk, file) = disk_with_file(seed);
        disk.fail(fault(1, Some(Op::Write)));
        file.write_some_at(0, &[2]).expect("the fault is for the next");
        assert!(file.write_some_at(0, &[3; 8]).is_err());
        let content = disk.files().remove("a").expect("it is there");
        let written = content.iter().filter(|byte| **byte == 3).count();
        assert!(content[written..].iter().all(|byte| *byte != 3), "FIRSTSEEN_SEED={seed}");
        lengths.insert(written);
    }
    assert!(seeds(2).count() < 2 || lengths.len() > 4, "{lengths:?}");
}

#[test]
fn fault_counts_its_operations_and_stays_if_asked() {
    let (disk, file) = disk_with_file(0);
    disk.fail(Fault { is_sticky: true, ..fault(2, None) });
    let outcomes = [file.size().is_ok(), disk.list().is_ok(), file.size().is_ok(), file.sync().is_ok()];
    assert_eq!(outcomes, [true, true, false, false]);
    disk.heal();
    file.sync().expect("all faults are gone");
    assert_eq!((disk.ops(), disk.ops_of(Op::Size), disk.ops_of(Op::Write)), (6, 2, 0));
    disk.fail(Fault { is_sticky: true, ..fault(0, None) });
    drop(disk.kill().open_read("a").expect("faults are over with the process"));
}

#[test]
fn weak_sync_keeps_bytes_but_no_new_length() {
    let (disk, file) = disk_with_file(0);
    disk.weak_sync(true);
    file.write_all_at(0, &[2; 2 * SECTOR]).expect("nothing fails");
    file.sync().expect("nothing fails");
    assert_eq!(disk.crash(Crash::LoseAll).files()["a"], [2; SECTOR]);
    disk.weak_sync(false);
    file.sync().expect("nothing fails");
    assert_eq!(disk.crash(Crash::LoseAll).files()["a"], [2; 2 * SECTOR]);
}

#[test]
fn rename_that_may_be_torn_leaves_both_names_or_none() {
    for (is_torn, expected) in [(false, vec!["a", "b"]), (true, vec!["", "a", "ab", "b"])] {
        let (disk, _) = disk_with_file(0);
        disk.rename_torn(is_torn);
        disk.rename("a", "b").expect("it is there");
        let names =
            (0..100).map(|seed| disk.crash(Crash::Random(seed)).files().into_keys().collect::<String>());
        assert_eq!(names.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>(), expected);
    }
}

#[test]
fn byte_that_no_write_changed_stays_in_a_torn_sector() {
    for seed in seeds(2000) {
        let (disk, file) = disk_with_file(0);
        // The sector is written anew with the same beginning, as a log does that appends.
        let mut content = [1; SECTOR];
        content[100..].fill(2);
        file.write_all_at(0, &content).expect("nothing fails");
        let found = disk.crash(Crash::Random(seed)).files().remove("a").expect("it is durable");
        assert_eq!((found.len(), &found[..100]), (SECTOR, &content[..100]), "FIRSTSEEN_SEED={seed}");
    }
}

#[test]
fn lock_and_map_end_with_the_process() {
    for next in [|disk: &SimDisk| disk.kill(), |disk: &SimDisk| disk.crash(Crash::KeepAll)] {
        let (disk, file) = disk_with_file(0);
        let lock = disk.lock("LOCK").expect("nobody has it");
        let map = disk.open_read("a").expect("it is there").map().expect("it is for reading");
        assert_eq!(
            file.write_some_at(0, &[2]).expect_err("it is mapped").kind(),
            ErrorKind::PermissionDenied
        );
        let after = next(&disk);
        drop(after.lock("LOCK").expect("its holder is gone"));
        after.open_write("a").expect("it is there").write_all_at(0, &[2]).expect("its map is gone");
        assert_eq!((map.expect("it has maps")[0], disk.files()["a"][0]), (1, 1));
        assert!(disk.lock("LOCK").is_err());
        drop(lock);
        disk.maps(false);
        assert!(disk.open_read("a").expect("it is there").map().expect("it is for reading").is_none());
    }
}

#[test]
fn recorded_states_are_those_before_each_operation() {
    let disk = SimDisk::new(0);
    disk.record();
    let file = disk.create("a").expect("the name is free");
    file.write_all_at(0, &[5; 3]).expect("nothing fails");
    file.sync().expect("nothing fails");
    let states = disk.recorded();
    let lengths: Vec<_> = states.iter().map(|(_, state)| state.files().get("a").map(Vec::len)).collect();
    assert_eq!(lengths, [None, Some(0), Some(3)]);
    assert_eq!(states.iter().map(|(ops, _)| *ops).collect::<Vec<_>>(), [0, 1, 2]);
}

#[test]
fn file_put_in_place_is_durable_and_leaves_open_files_alone() {
    let (disk, file) = disk_with_file(0);
    disk.overwrite("a", b"new");
    assert_eq!(file.size().expect("it is open"), SECTOR as u64);
    let after = disk.crash(Crash::LoseAll);
    assert_eq!(read_file(&after, "a", 100), Ok(b"new".to_vec()));
}
