//! The disk: one directory of the file system, its files opened relative to it.
//!
//! What is asked of the system, and why:
//!
//! - directories 0700, files 0600, new ones with `O_EXCL`; symbolic links inside are refused, and so is a
//!   directory that others may write: whoever can swap a file can lie about what was seen;
//! - blocks are reserved when a file is made ([`StorageFile::allocate`]), so that a full disk shows itself
//!   there and not in the middle of a log, nor as a signal from a map;
//! - the first sync of an open file is `fsync`, later ones are `fdatasync`, which on Linux also makes a new
//!   length last, but leaves out times that nobody reads;
//! - the lock is the system's on an open file (`flock`), which it drops however the process ends. It refuses
//!   a second holder in one process as well as in another. The file is never removed: a lock on a file
//!   without a name keeps nobody out.

mod access;
#[cfg(not(unix))]
mod portable;
#[cfg(all(test, unix))]
#[cfg(not(loom))]
mod tests;
#[cfg(unix)]
mod unix;

use std::fmt::Debug;
use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use self::access::Access;
#[cfg(not(unix))]
use self::portable::{Directory, is_at_hand, read_at, reserve, will_read, write_at};
#[cfg(unix)]
use self::unix::{Directory, is_at_hand, read_at, reserve, will_read, write_at};
use super::map::Map;
use super::{Storage, StorageFile, check_name, failed};
use crate::error::{Error, Result};
use crate::sync::{OnceLock, sleep};

/// How often a lock is asked for again, and after what time: a child that the last holder was just starting
/// keeps the lock until it runs its own program.
const LOCK_RETRIES: u32 = 5;
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// Zeros that are written at a time where the file system cannot reserve blocks.
const ZEROS_BYTES: usize = 64 << 10;

/// A directory of the file system.
#[derive(Debug)]
pub(crate) struct Disk {
    directory: Directory,
    path: PathBuf,
}

impl Disk {
    /// Opens the directory at `path`, which may be a symbolic link; with `create` it is made if missing, with
    /// all above it, and lasts when this returns.
    ///
    /// # Errors
    ///
    /// [`Error::Io`]: of kind `NotFound` if it is missing, of kind `PermissionDenied` if others may write it
    /// or it belongs to another user.
    pub(crate) fn open(path: &Path, create: bool) -> Result<Disk> {
        let place = path.display().to_string();
        if create {
            Directory::make(path).map_err(failed("making the directory", &place))?;
        }
        let directory = Directory::open(path).map_err(failed("opening the directory", &place))?;
        match directory.danger().map_err(failed("opening the directory", &place))? {
            None => Ok(Disk { directory, path: path.to_path_buf() }),
            Some(message) => Err(Error::Io {
                operation: "opening the directory",
                file: place,
                kind: io::ErrorKind::PermissionDenied,
                message,
            }),
        }
    }

    fn file(&self, name: &str, access: Access) -> io::Result<Box<dyn StorageFile>> {
        let file = self.directory.file(check_name(name)?, access)?;
        Ok(Box::new(DiskFile { file, access, is_synced: OnceLock::new() }))
    }
}

impl Storage for Disk {
    fn list(&self) -> io::Result<Vec<String>> {
        self.directory.list()
    }

    fn open_read(&self, name: &str) -> io::Result<Box<dyn StorageFile>> {
        self.file(name, Access::Read)
    }

    fn open_write(&self, name: &str) -> io::Result<Box<dyn StorageFile>> {
        self.file(name, Access::Write)
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn StorageFile>> {
        self.file(name, Access::Create)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.directory.rename(check_name(from)?, check_name(to)?)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.directory.remove(check_name(name)?)
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.directory.sync()
    }

    /// The error names the process that has the lock, as far as that one could write its number down.
    fn lock(&self, name: &str) -> io::Result<Box<dyn Debug + Send + Sync>> {
        let file = self.directory.file(check_name(name)?, Access::Lock)?;
        for round in 0.. {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if round < LOCK_RETRIES => sleep(LOCK_PAUSE),
                Err(TryLockError::WouldBlock) => return Err(held(&file)),
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
        note_holder(&file);
        Ok(Box::new(file))
    }

    fn place(&self) -> String {
        self.path.display().to_string()
    }
}

/// Writes the number of this process into the lock file. It serves for one message only, so that it does not
/// matter whether it gets there.
fn note_holder(file: &File) {
    let text = format!("{}\n", std::process::id());
    let _ = file.set_len(0).and_then(|()| write_at(file, 0, text.as_bytes()));
}

fn held(file: &File) -> io::Error {
    let mut text = [0; 20];
    let bytes = read_at(file, 0, &mut text).unwrap_or(0);
    let number = str::from_utf8(&text[..bytes]).ok().and_then(|text| text.trim_end().parse::<u32>().ok());
    let holder = number.map_or("another holder".to_owned(), |number| format!("process {number}"));
    io::Error::new(io::ErrorKind::WouldBlock, format!("{holder} has it locked"))
}

/// An open file of the directory.
#[derive(Debug)]
struct DiskFile {
    file: File,
    access: Access,
    /// Set once everything about the file lasts that only `fsync` covers.
    is_synced: OnceLock<()>,
}

impl StorageFile for DiskFile {
    fn size(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read_some_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        read_at(&self.file, offset, buffer)
    }

    fn write_some_at(&self, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        write_at(&self.file, offset, bytes)
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        let bytes_before = self.size()?;
        let made = match bytes {
            0 => Ok(()),
            _ => match reserve(&self.file, bytes) {
                Ok(false) => fill(&self.file, bytes_before, bytes),
                reserved => reserved.map(|_| ()),
            },
        };
        // Both ways may stop when half is done: no length is left behind that blocks do not stand for.
        match made {
            Ok(()) if bytes_before > bytes => self.file.set_len(bytes),
            Ok(()) => Ok(()),
            Err(error) => {
                let _ = self.file.set_len(bytes_before);
                Err(error)
            }
        }
    }

    fn sync(&self) -> io::Result<()> {
        if self.is_synced.get().is_some() {
            return self.file.sync_data();
        }
        self.file.sync_all()?;
        // Whoever comes second has done the same.
        let _ = self.is_synced.set(());
        Ok(())
    }

    fn is_at_hand(&self, offset: u64) -> bool {
        is_at_hand(&self.file, offset)
    }

    fn will_read(&self, offset: u64, bytes: u64) {
        will_read(&self.file, offset, bytes);
    }

    fn map(&self) -> io::Result<Option<Map>> {
        if self.access != Access::Read {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a file open for writing is not mapped"));
        }
        Map::of_file(&self.file).map(Some)
    }
}

/// Writes zeros from the end of the file on, until it is `bytes` long.
fn fill(file: &File, mut offset: u64, bytes: u64) -> io::Result<()> {
    const ZEROS: &[u8] = &[0; ZEROS_BYTES];
    while offset < bytes {
        let some = usize::try_from(bytes - offset).map_or(ZEROS_BYTES, |left| left.min(ZEROS_BYTES));
        match write_at(file, offset, &ZEROS[..some]) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => offset += written as u64,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
