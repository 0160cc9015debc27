//! The simulated disk as a backend.

use std::fmt::{self, Debug};
use std::io;

use super::file::SimFile;
use super::names::FileNumber;
use super::{Op, SimDisk, State};
use crate::storage::{Map, Storage, StorageFile, check_name};
use crate::sync::{Arc, MutexGuard};

impl SimDisk {
    /// Begins an operation: counts it, and gives back the state unless it is to fail.
    fn begin(&self, op: Op) -> io::Result<MutexGuard<'_, State>> {
        let (state, outcome) = self.attempt(op);
        outcome.map(|()| state)
    }

    /// The same for operations that leave something behind when they fail.
    fn attempt(&self, op: Op) -> (MutexGuard<'_, State>, io::Result<()>) {
        let mut state = self.shared.lock();
        if state.record.is_some() {
            let moment = (state.faults.count(), state.reopened());
            state.record.get_or_insert_default().push(moment);
        }
        let outcome = state.faults.begin(op);
        (state, outcome)
    }

    fn open(&self, name: &str, is_writable: bool) -> io::Result<Box<dyn StorageFile>> {
        let file = self.begin(Op::Open)?.names.get(check_name(name)?)?;
        Ok(self.handle(file, is_writable))
    }

    fn handle(&self, file: FileNumber, is_writable: bool) -> Box<dyn StorageFile> {
        Box::new(SimHandle { disk: self.clone(), file, is_writable })
    }
}

impl Storage for SimDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.begin(Op::List)?.names.list().map(|(name, _)| name.clone()).collect())
    }

    fn open_read(&self, name: &str) -> io::Result<Box<dyn StorageFile>> {
        self.open(name, false)
    }

    fn open_write(&self, name: &str) -> io::Result<Box<dyn StorageFile>> {
        self.open(name, true)
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn StorageFile>> {
        let mut state = self.begin(Op::Create)?;
        let next = state.file_next;
        state.names.create(check_name(name)?, next)?;
        let file = state.add(SimFile::default());
        Ok(self.handle(file, true))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.begin(Op::Rename)?.names.rename(check_name(from)?, check_name(to)?)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.begin(Op::Remove)?.names.remove(check_name(name)?)
    }

    fn sync_dir(&self) -> io::Result<()> {
        let (mut state, outcome) = self.attempt(Op::SyncDir);
        match &outcome {
            Ok(()) => state.names.sync(),
            Err(_) => state.names.sync_failed(),
        }
        outcome
    }

    fn lock(&self, name: &str) -> io::Result<Box<dyn Debug + Send + Sync>> {
        let mut state = self.begin(Op::Lock)?;
        let file = match state.names.get(check_name(name)?) {
            Ok(file) => file,
            Err(_) => {
                let next = state.file_next;
                state.names.create(name, next)?;
                state.add(SimFile::default())
            }
        };
        if state.locked.contains(&file) {
            return Err(io::Error::new(io::ErrorKind::WouldBlock, "another holder has it locked"));
        }
        state.locked.push(file);
        Ok(Box::new(SimLock { disk: self.clone(), file }))
    }

    fn place(&self) -> String {
        "a simulated disk".to_owned()
    }
}

/// Held as long as the file is locked.
struct SimLock {
    disk: SimDisk,
    file: FileNumber,
}

impl Debug for SimLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SimLock").field(&self.file).finish()
    }
}

impl Drop for SimLock {
    fn drop(&mut self) {
        self.disk.shared.lock().locked.retain(|file| *file != self.file);
    }
}

/// An open file.
struct SimHandle {
    disk: SimDisk,
    file: FileNumber,
    is_writable: bool,
}

impl Debug for SimHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimHandle").field("file", &self.file).field("is_writable", &self.is_writable).finish()
    }
}

impl SimHandle {
    /// The file, to change it.
    fn changed<'a>(&self, state: &'a mut State) -> io::Result<&'a mut SimFile> {
        if !self.is_writable {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "the file is open for reading only"));
        }
        let file = state.files.get_mut(&self.file).expect("files stay as long as the disk");
        if file.is_mapped {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "a mapped file must not change"));
        }
        Ok(Arc::make_mut(file))
    }
}

impl State {
    /// How much of `bytes` is read or written at once.
    fn some(&mut self, bytes: usize) -> io::Result<usize> {
        if !self.habits.is_io_short {
            return Ok(bytes);
        }
        if self.random.chance(1, 8) { Err(io::ErrorKind::Interrupted.into()) } else { Ok(bytes.min(1)) }
    }
}

impl StorageFile for SimHandle {
    fn size(&self) -> io::Result<u64> {
        Ok(self.disk.begin(Op::Size)?.files[&self.file].length())
    }

    fn read_some_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut state = self.disk.begin(Op::Read)?;
        let bytes = state.some(buffer.len())?;
        Ok(state.files[&self.file].read(offset, &mut buffer[..bytes]))
    }

    fn write_some_at(&self, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        let (mut state, outcome) = self.disk.attempt(Op::Write);
        let written = match &outcome {
            Ok(()) => state.some(bytes.len())?,
            Err(_) => state.random.index(bytes.len() + 1),
        };
        self.changed(&mut state)?.write(offset, &bytes[..written]);
        outcome.map(|()| written)
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        let mut state = self.disk.begin(Op::Allocate)?;
        self.changed(&mut state)?.resize(bytes);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let (mut state, outcome) = self.disk.attempt(Op::Sync);
        let (is_weak, is_read_back) = (state.habits.is_sync_weak, state.random.chance(1, 2));
        let file = state.files.get_mut(&self.file).expect("files stay as long as the disk");
        match &outcome {
            Ok(()) if file.is_durable() => {}
            Ok(()) => Arc::make_mut(file).sync(is_weak),
            Err(_) => Arc::make_mut(file).sync_failed(is_read_back),
        }
        outcome
    }

    fn is_at_hand(&self, _offset: u64) -> bool {
        !self.disk.shared.lock().habits.is_cold
    }

    fn will_read(&self, _offset: u64, _bytes: u64) {
        self.disk.shared.lock().advices += 1;
    }

    fn map(&self) -> io::Result<Option<Map>> {
        let mut state = self.disk.begin(Op::Map)?;
        if self.is_writable {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a file open for writing is not mapped"));
        }
        if !state.habits.has_maps {
            return Ok(None);
        }
        let file = state.files.get_mut(&self.file).expect("files stay as long as the disk");
        Arc::make_mut(file).is_mapped = true;
        Ok(Some(Map::of_bytes(file.content())))
    }
}
