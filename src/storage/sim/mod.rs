//! A disk in memory that can lose its power.
//!
//! It keeps what a process sees and what a power cut would leave, and makes of both a new disk: the one after
//! a power cut ([`SimDisk::crash`]) or after the process was killed ([`SimDisk::kill`]). Copies share what
//! neither has changed, so that thousands of states can be looked at in a second.

mod crash;
mod disk;
mod faults;
mod file;
mod names;
pub(in crate::storage) mod random;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;

use std::collections::BTreeMap;

pub use self::crash::Crash;
use self::faults::Faults;
pub use self::faults::{Fault, Op};
use self::file::SimFile;
use self::names::{FileNumber, Names};
use self::random::Random;
use crate::sync::{Arc, Mutex};

/// A simulated disk. Clones are the same disk.
#[derive(Clone, Debug)]
pub struct SimDisk {
    shared: Arc<Mutex<State>>,
}

#[derive(Clone, Debug)]
struct State {
    names: Names,
    files: BTreeMap<FileNumber, Arc<SimFile>>,
    file_next: FileNumber,
    /// Files that are locked.
    locked: Vec<FileNumber>,
    faults: Faults,
    random: Random,
    habits: Habits,
    /// How often a file's bytes were asked for ahead.
    advices: u64,
    /// States before each operation, while they are recorded.
    record: Option<Vec<(u64, State)>>,
}

/// How the disk behaves when nothing fails.
#[derive(Clone, Copy, Debug)]
struct Habits {
    is_io_short: bool,
    is_sync_weak: bool,
    is_rename_torn: bool,
    has_maps: bool,
    is_cold: bool,
}

impl SimDisk {
    /// An empty disk; the seed decides what a fault leaves.
    #[must_use]
    pub fn new(seed: u64) -> SimDisk {
        let habits = Habits {
            is_io_short: false,
            is_sync_weak: false,
            is_rename_torn: false,
            has_maps: true,
            is_cold: false,
        };
        SimDisk::of(State {
            names: Names::default(),
            files: BTreeMap::new(),
            file_next: 1,
            locked: Vec::new(),
            faults: Faults::default(),
            random: Random::new(seed),
            habits,
            advices: 0,
            record: None,
        })
    }

    fn of(state: State) -> SimDisk {
        SimDisk { shared: Arc::new(Mutex::new(state)) }
    }

    /// The disk after a power cut now. This disk goes on as if nothing had happened.
    #[must_use]
    pub fn crash(&self, crash: Crash) -> SimDisk {
        let mut state = self.shared.lock().reopened();
        let mut random = match crash {
            Crash::Random(seed) => Random::new(seed),
            Crash::LoseAll | Crash::KeepAll => Random::new(0),
        };
        state.names.cut(crash, state.habits.is_rename_torn, &mut random);
        state.forget_nameless();
        for file in state.files.values_mut().filter(|file| !file.is_durable() || file.is_mapped) {
            Arc::make_mut(file).cut(crash, &mut random);
        }
        SimDisk::of(state)
    }

    /// The disk after the process was killed now: nothing is lost, but what was not synced can still be lost
    /// by a power cut later on.
    #[must_use]
    pub fn kill(&self) -> SimDisk {
        let mut state = self.shared.lock().reopened();
        state.forget_nameless();
        for file in state.files.values_mut().filter(|file| file.is_mapped) {
            Arc::make_mut(file).is_mapped = false;
        }
        SimDisk::of(state)
    }

    /// Lets an operation fail.
    pub fn fail(&self, fault: Fault) {
        self.shared.lock().faults.add(fault);
    }

    /// Takes back all faults.
    pub fn heal(&self) {
        self.shared.lock().faults.clear();
    }

    /// Operations so far, also on open files.
    #[must_use]
    pub fn ops(&self) -> u64 {
        self.shared.lock().faults.count()
    }

    /// Operations of one kind so far.
    #[must_use]
    pub fn ops_of(&self, op: Op) -> u64 {
        self.shared.lock().faults.count_of(op)
    }

    /// From now on reads and writes do one byte at a time and are sometimes interrupted.
    pub fn short_io(&self, is_short: bool) {
        self.shared.lock().habits.is_io_short = is_short;
    }

    /// From now on syncing a file does not make a longer length durable.
    pub fn weak_sync(&self, is_weak: bool) {
        self.shared.lock().habits.is_sync_weak = is_weak;
    }

    /// From now on a power cut may leave both names of an unsynced rename, or neither.
    pub fn rename_torn(&self, is_torn: bool) {
        self.shared.lock().habits.is_rename_torn = is_torn;
    }

    /// Whether files can be mapped (a copy, here); a disk begins with maps.
    pub fn maps(&self, has_maps: bool) {
        self.shared.lock().habits.has_maps = has_maps;
    }

    /// From now on reading is said to have to wait for the disk; a disk begins with all at hand.
    pub fn cold(&self, is_cold: bool) {
        self.shared.lock().habits.is_cold = is_cold;
    }

    /// How often bytes of a file were asked for ahead of reading them.
    #[must_use]
    pub fn advices(&self) -> u64 {
        self.shared.lock().advices
    }

    /// Keeps the state of the disk before each operation from now on.
    pub fn record(&self) {
        self.shared.lock().record = Some(Vec::new());
    }

    /// The states recorded, each with the operations before it, as [`SimDisk::ops`] counts them.
    #[must_use]
    pub fn recorded(&self) -> Vec<(u64, SimDisk)> {
        let states = self.shared.lock().record.clone().unwrap_or_default();
        states.into_iter().map(|(ops, state)| (ops, SimDisk::of(state))).collect()
    }

    /// The contents of all files, as a process sees them.
    #[must_use]
    pub fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let state = self.shared.lock();
        state.names.list().map(|(name, file)| (name.clone(), state.files[&file].content())).collect()
    }

    /// Puts a file with that content in the place of any file of that name, durable at once. Open files of
    /// the old one keep what they had.
    pub fn overwrite(&self, name: &str, bytes: &[u8]) {
        let mut state = self.shared.lock();
        let file = state.add(SimFile::durable(bytes));
        state.names.put(name, file);
    }
}

impl State {
    fn add(&mut self, file: SimFile) -> FileNumber {
        let number = self.file_next;
        self.file_next += 1;
        self.files.insert(number, Arc::new(file));
        number
    }

    /// The same without what belonged to the process: locks, and a test's faults and records.
    fn reopened(&self) -> State {
        State {
            names: self.names.clone(),
            files: self.files.clone(),
            file_next: self.file_next,
            locked: Vec::new(),
            faults: Faults::default(),
            random: self.random.clone(),
            habits: self.habits,
            advices: 0,
            record: None,
        }
    }

    /// Files that were removed, and were held by open files only.
    fn forget_nameless(&mut self) {
        let names = &self.names;
        self.files.retain(|file, _| names.leads_to(*file));
    }
}
