//! A directory and the files in it where there is no Unix: by path, with what the standard library has.
//!
//! Weaker than on Unix: links are not refused, who may write the directory is not looked at, and a directory
//! cannot be synced, so that how long names last is up to the system.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use super::access::Access;

/// The path of a directory.
#[derive(Debug)]
pub(super) struct Directory(PathBuf);

impl Directory {
    pub(super) fn make(path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
    }

    pub(super) fn open(path: &Path) -> io::Result<Directory> {
        let path = fs::canonicalize(path)?;
        if path.is_dir() { Ok(Directory(path)) } else { Err(io::ErrorKind::NotADirectory.into()) }
    }

    pub(super) fn danger(&self) -> io::Result<Option<String>> {
        Ok(None)
    }

    pub(super) fn list(&self) -> io::Result<Vec<String>> {
        let names = fs::read_dir(&self.0)?.map(|entry| Ok(entry?.file_name().into_string().ok()));
        names.filter_map(Result::transpose).collect()
    }

    pub(super) fn file(&self, name: &str, access: Access) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(access != Access::Read);
        options.create_new(access == Access::Create).create(access == Access::Lock);
        options.open(self.0.join(name))
    }

    pub(super) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.0.join(from), self.0.join(to))
    }

    pub(super) fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.0.join(name))
    }

    pub(super) fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(windows)]
pub(super) fn read_at(file: &File, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
    match std::os::windows::fs::FileExt::seek_read(file, buffer, offset) {
        // Windows takes reading behind the end for an error.
        Err(_) if file.metadata()?.len() <= offset => Ok(0),
        read => read,
    }
}

#[cfg(windows)]
pub(super) fn write_at(file: &File, offset: u64, bytes: &[u8]) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_write(file, bytes, offset)
}

#[cfg(not(windows))]
pub(super) fn read_at(_file: &File, _offset: u64, _buffer: &mut [u8]) -> io::Result<usize> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(not(windows))]
pub(super) fn write_at(_file: &File, _offset: u64, _bytes: &[u8]) -> io::Result<usize> {
    Err(io::ErrorKind::Unsupported.into())
}

/// No such call in the standard library.
pub(super) fn reserve(_file: &File, _bytes: u64) -> io::Result<bool> {
    Ok(false)
}

/// No such calls in the standard library.
pub(super) fn is_at_hand(_file: &File, _offset: u64) -> bool {
    true
}

pub(super) fn will_read(_file: &File, _offset: u64, _bytes: u64) {}
