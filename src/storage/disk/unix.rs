//! A directory held open, and the files in it, on Unix.
//!
//! Everything is relative to the directory's descriptor, so that nobody can redirect it by swapping a part of
//! the path.

use std::fs::{DirBuilder, File, canonicalize};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, openat, renameat, unlinkat};
use rustix::io::Errno;

use super::access::Access;

/// Directories belong to their owner alone, and so do files.
const DIRECTORY_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// What others than the owner may do to a directory: write.
const OTHERS_WRITE: u32 = 0o022;

/// An open directory.
#[derive(Debug)]
pub(super) struct Directory(File);

impl Directory {
    /// Makes the directory, and those above it that are missing, each so that it lasts before the next is
    /// begun.
    ///
    /// The directory above the first one that exists is synced too: whoever made that one may have been
    /// killed before it was durable.
    pub(super) fn make(path: &Path) -> io::Result<()> {
        let missing: Vec<&Path> = path.ancestors().take_while(|part| !is_there(part)).collect();
        let present = path.ancestors().nth(missing.len()).map_or(PathBuf::from("."), Path::to_path_buf);
        sync_if_readable(&canonicalize(or_here(&present))?)?;
        for part in missing.into_iter().rev() {
            match DirBuilder::new().mode(DIRECTORY_MODE).create(part) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => made?,
            }
            File::open(or_here(part.parent().unwrap_or(part)))?.sync_all()?;
        }
        Ok(())
    }

    /// Opens a directory; the path may lead through links.
    pub(super) fn open(path: &Path) -> io::Result<Directory> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Directory(File::from(openat(CWD, path, flags, Mode::empty())?)))
    }

    /// Why the directory is not safe from others, if it is not.
    ///
    /// Its owner is to be this process's user or root; root itself may open anybody's.
    pub(super) fn danger(&self) -> io::Result<Option<String>> {
        let found = self.0.metadata()?;
        let mode = found.mode() & 0o7777;
        if mode & OTHERS_WRITE != 0 {
            let text = format!("others may write the directory (mode {mode:03o}): chmod go-w it first");
            return Ok(Some(text));
        }
        let user = rustix::process::geteuid();
        let is_trusted = user.is_root() || [0, user.as_raw()].contains(&found.uid());
        Ok((!is_trusted).then(|| format!("the directory belongs to another user ({})", found.uid())))
    }

    /// Names that are UTF-8, in no order.
    pub(super) fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.0)? {
            if let Ok(name) = entry?.file_name().to_str()
                && name != "."
                && name != ".."
            {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }

    /// Opens a regular file; never a link, and never waiting as a pipe would.
    pub(super) fn file(&self, name: &str, access: Access) -> io::Result<File> {
        let special = match access {
            Access::Read => OFlags::RDONLY,
            Access::Write => OFlags::RDWR,
            Access::Create => OFlags::RDWR | OFlags::CREATE | OFlags::EXCL,
            Access::Lock => OFlags::RDWR | OFlags::CREATE,
        };
        let flags = special | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = match openat(&self.0, name, flags, Mode::from_bits_truncate(FILE_MODE)) {
            Err(Errno::LOOP | Errno::MLINK) => return Err(refused("is a symbolic link")),
            opened => File::from(opened?),
        };
        if file.metadata()?.is_file() { Ok(file) } else { Err(refused("is no regular file")) }
    }

    pub(super) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(renameat(&self.0, from, &self.0, to)?)
    }

    pub(super) fn remove(&self, name: &str) -> io::Result<()> {
        Ok(unlinkat(&self.0, name, AtFlags::empty())?)
    }

    pub(super) fn sync(&self) -> io::Result<()> {
        self.0.sync_all()
    }
}

fn is_there(path: &Path) -> bool {
    or_here(path).is_dir()
}

/// The empty path is the directory that the process works in.
fn or_here(path: &Path) -> &Path {
    if path.as_os_str().is_empty() { Path::new(".") } else { path }
}

/// Syncs the directory above `path`, unless this user may not read it: then the user did not make `path`.
fn sync_if_readable(path: &Path) -> io::Result<()> {
    match File::open(path.parent().unwrap_or(path)) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        opened => opened?.sync_all(),
    }
}

fn refused(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("it {what}, which has no place in a store"))
}

pub(super) fn read_at(file: &File, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
    file.read_at(buffer, offset)
}

pub(super) fn write_at(file: &File, offset: u64, bytes: &[u8]) -> io::Result<usize> {
    file.write_at(bytes, offset)
}

/// Asks for blocks for the first `bytes` bytes; false where the file system has no such call.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn reserve(file: &File, bytes: u64) -> io::Result<bool> {
    loop {
        match rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, bytes) {
            Ok(()) => return Ok(true),
            Err(Errno::INTR) => {}
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
    }
}

/// No such call, or one with other promises.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) fn reserve(_file: &File, _bytes: u64) -> io::Result<bool> {
    Ok(false)
}

/// Asks for a byte that the system need not wait for; only a plain "it would have to" is taken for an answer.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn is_at_hand(file: &File, offset: u64) -> bool {
    use rustix::io::{ReadWriteFlags, preadv2};

    let mut byte = [0];
    let read = preadv2(file, &mut [io::IoSliceMut::new(&mut byte)], offset, ReadWriteFlags::NOWAIT);
    read != Err(Errno::AGAIN)
}

#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn will_read(file: &File, offset: u64, bytes: u64) {
    let _ = rustix::fs::fadvise(file, offset, std::num::NonZeroU64::new(bytes), rustix::fs::Advice::WillNeed);
}

/// No such calls.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) fn is_at_hand(_file: &File, _offset: u64) -> bool {
    true
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) fn will_read(_file: &File, _offset: u64, _bytes: u64) {}
