//! A directory in memory, for tests that open the same few bytes a hundred thousand times.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io;

use crate::storage::{Map, Storage, StorageFile};
use crate::sync::{Arc, Mutex};

type Bytes = Arc<Mutex<Vec<u8>>>;

/// Files by their names, and how many operations that change something are left before all of them fail.
#[derive(Debug, Default)]
pub(crate) struct Shelf {
    files: Mutex<BTreeMap<String, Bytes>>,
    changes_left: Arc<Mutex<Option<u64>>>,
}

#[derive(Debug)]
struct ShelfFile {
    bytes: Bytes,
    changes_left: Arc<Mutex<Option<u64>>>,
}

impl Shelf {
    /// Every operation that changes something fails from the one after `changes` on.
    pub(crate) fn fail_after(&self, changes: u64) {
        *self.changes_left.lock() = Some(changes);
    }

    /// Nothing fails any more.
    pub(crate) fn recover(&self) {
        *self.changes_left.lock() = None;
    }

    /// The content of a file.
    pub(crate) fn content(&self, name: &str) -> Vec<u8> {
        self.files.lock()[name].lock().clone()
    }

    /// Puts a file there.
    pub(crate) fn put(&self, name: &str, content: &[u8]) {
        self.files.lock().insert(name.to_owned(), Arc::new(Mutex::new(content.to_vec())));
    }

    fn open(&self, bytes: &Bytes) -> Box<dyn StorageFile> {
        Box::new(ShelfFile { bytes: Arc::clone(bytes), changes_left: Arc::clone(&self.changes_left) })
    }
}

fn change(changes_left: &Mutex<Option<u64>>) -> io::Result<()> {
    match &mut *changes_left.lock() {
        None => Ok(()),
        Some(0) => Err(io::Error::other("no more changes")),
        Some(left) => {
            *left -= 1;
            Ok(())
        }
    }
}

impl Storage for Shelf {
    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.files.lock().keys().cloned().collect())
    }

    fn open_read(&self, name: &str) -> io::Result<Box<dyn StorageFile>> {
        let files = self.files.lock();
        Ok(self.open(files.get(name).ok_or(io::ErrorKind::NotFound)?))
    }

    fn open_write(&self, name: &str) -> io::Result<Box<dyn StorageFile>> {
        self.open_read(name)
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn StorageFile>> {
        change(&self.changes_left)?;
        if self.files.lock().contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.put(name, &[]);
        self.open_read(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        change(&self.changes_left)?;
        let mut files = self.files.lock();
        let file = files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        files.insert(to.to_owned(), file);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        change(&self.changes_left)?;
        self.files.lock().remove(name).map(drop).ok_or(io::ErrorKind::NotFound.into())
    }

    fn sync_dir(&self) -> io::Result<()> {
        change(&self.changes_left)
    }

    fn lock(&self, _name: &str) -> io::Result<Box<dyn Debug + Send + Sync>> {
        Ok(Box::new(()))
    }

    fn place(&self) -> String {
        "memory".to_owned()
    }
}

impl StorageFile for ShelfFile {
    fn size(&self) -> io::Result<u64> {
        Ok(self.bytes.lock().len() as u64)
    }

    fn read_some_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.bytes.lock();
        let from = usize::try_from(offset).unwrap().min(bytes.len());
        // At most a thousand at a time, as a system may.
        let count = buffer.len().min(bytes.len() - from).min(1000);
        buffer[..count].copy_from_slice(&bytes[from..from + count]);
        Ok(count)
    }

    fn write_some_at(&self, offset: u64, from: &[u8]) -> io::Result<usize> {
        change(&self.changes_left)?;
        let mut bytes = self.bytes.lock();
        let (at, count) = (usize::try_from(offset).unwrap(), from.len().min(50_000));
        let end = bytes.len().max(at + count);
        bytes.resize(end, 0);
        bytes[at..at + count].copy_from_slice(&from[..count]);
        Ok(count)
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        change(&self.changes_left)?;
        self.bytes.lock().resize(usize::try_from(bytes).unwrap(), 0);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        change(&self.changes_left)
    }

    fn map(&self) -> io::Result<Option<Map>> {
        Ok(Some(Map::of_bytes(self.bytes.lock().clone())))
    }
}
