//! A store's directory in memory, for tests of the log alone.
//!
//! Operations fail on demand, and a power cut keeps any of the sectors that were not synced.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::storage::{Map, Storage, StorageFile};

const SECTOR_BYTES: usize = 512;

/// Which of the operations that change something fail, counted from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Failing {
    #[default]
    Never,
    Once(u64),
    From(u64),
}

#[derive(Clone, Debug, Default)]
struct Content {
    live: Vec<u8>,
    synced: Vec<u8>,
}

#[derive(Debug, Default)]
struct State {
    files: BTreeMap<String, Arc<Mutex<Content>>>,
    failing: Failing,
    operations: u64,
    /// Whether a call reads or writes one byte at a time.
    is_slow: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Memory(Arc<Mutex<State>>);

impl Memory {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no test panics in here")
    }

    /// Counts an operation that changes something.
    fn operate(&self) -> io::Result<()> {
        let mut state = self.state();
        state.operations += 1;
        let is_failing = match state.failing {
            Failing::Never => false,
            Failing::Once(number) => state.operations == number,
            Failing::From(number) => state.operations >= number,
        };
        if is_failing { Err(io::Error::other("planted")) } else { Ok(()) }
    }

    pub(super) fn fail(&self, failing: Failing) {
        self.state().failing = failing;
    }

    pub(super) fn slow_down(&self) {
        self.state().is_slow = true;
    }

    pub(super) fn operations(&self) -> u64 {
        self.state().operations
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.state().files.keys().cloned().collect()
    }

    /// Bytes of a file that was synced, or as they are.
    pub(super) fn read(&self, name: &str, is_synced: bool) -> Vec<u8> {
        let file = Arc::clone(&self.state().files[name]);
        let content = file.lock().expect("no test panics in here");
        if is_synced { content.synced.clone() } else { content.live.clone() }
    }

    /// Replaces a file, synced.
    pub(super) fn put(&self, name: &str, bytes: Vec<u8>) {
        let content = Content { synced: bytes.clone(), live: bytes };
        self.state().files.insert(name.to_owned(), Arc::new(Mutex::new(content)));
    }

    pub(super) fn take(&self, name: &str) {
        self.state().files.remove(name);
    }

    /// What another process finds: with `keep` telling for each sector that was not synced whether it was
    /// written all the same.
    pub(super) fn after_power_cut(&self, keep: &mut dyn FnMut() -> bool) -> Memory {
        let after = Memory::default();
        for (name, file) in &self.state().files {
            let content = file.lock().expect("no test panics in here");
            let mut bytes = content.live.clone();
            for (index, sector) in bytes.chunks_mut(SECTOR_BYTES).enumerate() {
                let begin = index * SECTOR_BYTES;
                let mut old = vec![0; sector.len()];
                let synced = content.synced.get(begin..).unwrap_or_default();
                let both = synced.len().min(old.len());
                old[..both].copy_from_slice(&synced[..both]);
                if *sector != old[..] && !keep() {
                    sector.copy_from_slice(&old);
                }
            }
            after.put(name, bytes);
        }
        after
    }

    /// What another process finds when this one is killed.
    pub(super) fn after_kill(&self) -> Memory {
        self.after_power_cut(&mut || true)
    }
}

fn missing() -> io::Error {
    io::ErrorKind::NotFound.into()
}

impl Storage for Memory {
    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.names())
    }

    fn open_read(&self, name: &str) -> io::Result<Box<dyn StorageFile>> {
        let content = self.state().files.get(name).cloned().ok_or_else(missing)?;
        Ok(Box::new(MemoryFile { memory: self.clone(), content }))
    }

    fn open_write(&self, name: &str) -> io::Result<Box<dyn StorageFile>> {
        self.open_read(name)
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn StorageFile>> {
        self.operate()?;
        if self.state().files.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.state().files.insert(name.to_owned(), Arc::default());
        self.open_read(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.operate()?;
        let content = self.state().files.remove(from).ok_or_else(missing)?;
        self.state().files.insert(to.to_owned(), content);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.operate()?;
        self.state().files.remove(name).map(drop).ok_or_else(missing)
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.operate()
    }

    fn lock(&self, _name: &str) -> io::Result<Box<dyn Debug + Send + Sync>> {
        Ok(Box::new(()))
    }

    fn place(&self) -> String {
        "memory".to_owned()
    }
}

#[derive(Debug)]
struct MemoryFile {
    memory: Memory,
    content: Arc<Mutex<Content>>,
}

impl MemoryFile {
    fn content(&self) -> MutexGuard<'_, Content> {
        self.content.lock().expect("no test panics in here")
    }

    fn count(&self, bytes: usize) -> usize {
        if self.memory.state().is_slow { bytes.min(1) } else { bytes }
    }
}

impl StorageFile for MemoryFile {
    fn size(&self) -> io::Result<u64> {
        Ok(self.content().live.len() as u64)
    }

    fn read_some_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.count(buffer.len());
        let content = self.content();
        let bytes = content.live.get(place(offset)..).unwrap_or_default();
        let count = count.min(bytes.len());
        buffer[..count].copy_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn write_some_at(&self, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        self.memory.operate()?;
        let count = self.count(bytes.len());
        let mut content = self.content();
        let end = place(offset) + count;
        if content.live.len() < end {
            content.live.resize(end, 0);
        }
        content.live[place(offset)..end].copy_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        self.memory.operate()?;
        self.content().live.resize(place(bytes), 0);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.memory.operate()?;
        let mut content = self.content();
        content.synced = content.live.clone();
        Ok(())
    }

    fn map(&self) -> io::Result<Option<Map>> {
        Ok(None)
    }
}

/// An offset as an index; what does not fit is behind every end.
fn place(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}
