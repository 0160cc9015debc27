//! The directory of a store, behind a trait: the disk, and a simulated one for tests.
//!
//! Nothing above this layer names `std::fs`. A backend offers the raw operations of a system, which may
//! come back with less than was asked for or interrupted; [`StorageFile::write_all_at`] and
//! [`StorageFile::read_exact_at`] are the only loops over them.
//!
//! What a caller may rely on after a power cut:
//!
//! - bytes of a file that was synced ([`StorageFile::sync`]) after they were written;
//! - a name that was created, renamed or removed before the directory was synced ([`Storage::sync_dir`]);
//! - nothing else: unsynced bytes may be there, not there or torn, unsynced names either way.

#![cfg_attr(not(feature = "testing"), expect(unreachable_pub, reason = "that feature makes it reachable"))]

#[cfg(test)]
#[cfg(not(loom))]
mod contract;
mod disk;
mod fork;
mod map;
pub(crate) mod names;
pub(crate) mod replace;
#[cfg(test)]
#[cfg(not(loom))]
pub(crate) mod scratch;
#[cfg(any(test, feature = "testing"))]
pub(crate) mod sim;

use std::fmt::Debug;
use std::io;

use crate::error::{Error, Result};

pub(crate) use self::disk::Disk;
pub(crate) use self::fork::ForkGuard;
pub use self::map::Map;

/// One directory that belongs to one store. File names are plain: no separators.
pub trait Storage: Debug + Send + Sync {
    /// Names of all files; names that are not UTF-8 are left out.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Opens a file that must exist, to read it.
    fn open_read(&self, name: &str) -> io::Result<Box<dyn StorageFile>>;

    /// Opens a file that must exist, to read and write it.
    fn open_write(&self, name: &str) -> io::Result<Box<dyn StorageFile>>;

    /// Creates a file that must not exist, readable and writable by the owner only.
    fn create(&self, name: &str) -> io::Result<Box<dyn StorageFile>>;

    /// Gives a file another name, in the place of any file that had it.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file that must exist.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes every creation, renaming and removal so far last through a power cut.
    fn sync_dir(&self) -> io::Result<()>;

    /// Locks the file of that name for this process, creating it if need be; it is locked as long as what
    /// is returned lives. [`io::ErrorKind::WouldBlock`] when somebody else, in this process or another,
    /// has it locked.
    fn lock(&self, name: &str) -> io::Result<Box<dyn Debug + Send + Sync>>;

    /// For messages: where the directory is.
    fn place(&self) -> String;
}

/// An open file.
pub trait StorageFile: Debug + Send + Sync {
    /// Length in bytes.
    fn size(&self) -> io::Result<u64>;

    /// Reads some bytes from `offset` on; 0 only at or behind the end of the file.
    fn read_some_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// Writes some bytes at `offset`.
    fn write_some_at(&self, offset: u64, bytes: &[u8]) -> io::Result<usize>;

    /// Makes the file `bytes` long, with real blocks for all of it, so that writing within it needs no more
    /// room. A new part reads as zeros; a longer file is cut short. After an error the length is as before.
    fn allocate(&self, bytes: u64) -> io::Result<()>;

    /// Makes everything written so far, and the length, last through a power cut.
    fn sync(&self) -> io::Result<()>;

    /// Whether a byte can be read without waiting for the disk; also true where the system doesn't say.
    fn is_at_hand(&self, _offset: u64) -> bool {
        true
    }

    /// Tells the system that a range of bytes will be read soon, and waits for nothing. Only advice: it may
    /// be refused, and nothing but speed hangs on it.
    fn will_read(&self, _offset: u64, _bytes: u64) {}

    /// A read-only view of the whole file, which must not change any more and must have been opened for
    /// reading; `None` where the backend has no such thing.
    fn map(&self) -> io::Result<Option<Map>>;
}

impl dyn StorageFile {
    /// Writes all of `bytes` at `offset`.
    pub(crate) fn write_all_at(&self, mut offset: u64, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.write_some_at(offset, bytes) {
                Ok(0) => return Err(io::Error::new(io::ErrorKind::WriteZero, "the system wrote nothing")),
                Ok(written) => {
                    bytes = &bytes[written..];
                    offset += written as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Fills `buffer` from `offset` on; an end of the file before that is [`io::ErrorKind::UnexpectedEof`].
    pub(crate) fn read_exact_at(&self, mut offset: u64, mut buffer: &mut [u8]) -> io::Result<()> {
        while !buffer.is_empty() {
            match self.read_some_at(offset, buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => {
                    buffer = &mut buffer[read..];
                    offset += read as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Refuses names that could lead out of the directory.
fn check_name(name: &str) -> io::Result<&str> {
    let is_plain = !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\\', '\0']);
    if is_plain { Ok(name) } else { Err(io::Error::new(io::ErrorKind::InvalidInput, "no plain file name")) }
}

/// An error of the system as one of ours.
pub(crate) fn failed(operation: &'static str, file: &str) -> impl FnOnce(io::Error) -> Error {
    move |error| Error::Io {
        operation,
        file: file.to_owned(),
        kind: error.kind(),
        message: error.to_string(),
    }
}

/// Reads a whole file of at most `bytes_max` bytes.
///
/// # Errors
///
/// [`Error::Io`]; [`Error::Corrupt`] when it is longer.
pub(crate) fn read_file(storage: &dyn Storage, name: &str, bytes_max: u64) -> Result<Vec<u8>> {
    let file = storage.open_read(name).map_err(failed("opening", name))?;
    let bytes = file.size().map_err(failed("reading the length", name))?;
    if bytes > bytes_max {
        return Err(Error::corrupt(
            name,
            0,
            format!("a file of at most {bytes_max} bytes"),
            format!("{bytes} bytes"),
        ));
    }
    let mut content = vec![0; usize::try_from(bytes).unwrap_or(usize::MAX)];
    file.read_exact_at(0, &mut content).map_err(failed("reading", name))?;
    Ok(content)
}

/// Copies a file into another directory, and syncs it.
///
/// # Errors
///
/// [`Error::Io`].
pub(crate) fn copy_file(from: &dyn Storage, to: &dyn Storage, name: &str) -> Result<()> {
    const STEP: u64 = 1 << 20;
    let source = from.open_read(name).map_err(failed("opening", name))?;
    let bytes = source.size().map_err(failed("reading the length", name))?;
    let target = to.create(name).map_err(failed("creating", name))?;
    let mut buffer = vec![0; usize::try_from(STEP.min(bytes)).unwrap_or(0)];
    for offset in (0..bytes).step_by(1 << 20) {
        let length = usize::try_from(STEP.min(bytes - offset)).unwrap_or(0);
        source.read_exact_at(offset, &mut buffer[..length]).map_err(failed("reading", name))?;
        target.write_all_at(offset, &buffer[..length]).map_err(failed("writing", name))?;
    }
    target.sync().map_err(failed("syncing", name))
}
