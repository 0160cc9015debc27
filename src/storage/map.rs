//! A read-only view of a whole file, and a page of memory that a forked child finds empty.
//!
//! The view is a map, or a copy where the backend has none. This is one of the two files with unsafe code.
//! Rust takes the bytes behind a `&[u8]` for constant, and touching a mapped page whose file was cut short
//! ends the process with a signal. Against both stand these facts:
//!
//! - only files that were sealed are mapped: through a descriptor that cannot write, after their last byte
//!   was written and synced, and nothing in this crate opens such a file for writing;
//! - no other process of ours writes them: the directory is locked (G9);
//! - no other user does: the directory is writable by its owner only;
//! - all their blocks exist, so that reading takes no room on the disk.
//!
//! What remains: whoever changes or cuts short a file of an open store by hand, as its owner or as root, can
//! end the process or get wrong answers. So can a disk that cannot read a block back: the signal is the only
//! way in which the system can say so.

#![expect(unsafe_code, reason = "this file turns mapped files into slices")]

use std::fs::File;
use std::io;
use std::ops::{Deref, Range};

use memmap2::{Mmap, MmapMut};

use crate::sync::Arc;

/// The bytes of a file that does not change any more. Cheap to clone; the view is gone with the last clone.
#[derive(Clone, Debug)]
pub struct Map(Source);

#[derive(Clone, Debug)]
enum Source {
    File(Arc<Mmap>),
    #[cfg(any(test, feature = "testing"))]
    Copy(Arc<[u8]>),
}

impl Map {
    /// Maps all of `file`, which must be sealed in the sense of this module.
    pub(super) fn of_file(file: &File) -> io::Result<Map> {
        // SAFETY: the bytes do not change and the file is not cut short while the map lives. `DiskFile::map`,
        // the only caller, maps files opened for reading, and those who call it map sealed files only; other
        // processes are kept out by the lock, other users by the mode of the directory (see above, also for
        // what a user can still do by hand).
        let map = unsafe { Mmap::map(file) }?;
        Ok(Map(Source::File(Arc::new(map))))
    }

    /// A view of a copy.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn of_bytes(bytes: impl Into<Arc<[u8]>>) -> Map {
        Map(Source::Copy(bytes.into()))
    }

    /// Tells the system that pages will be touched in no order, so that it reads no neighbours along. Only
    /// advice: it may be refused, and nothing but speed hangs on it.
    pub(crate) fn advise_random(&self) {
        #[cfg(unix)]
        if let Some(map) = self.file() {
            let _ = map.advise(memmap2::Advice::Random);
        }
    }

    /// Tells the system that a range of bytes will be read soon. Only advice, as above.
    pub(crate) fn will_need(&self, range: Range<usize>) {
        #[cfg(unix)]
        if let Some(map) = self.file() {
            let end = range.end.min(map.len());
            if range.start < end {
                let _ = map.advise_range(memmap2::Advice::WillNeed, range.start, end - range.start);
            }
        }
        #[cfg(not(unix))]
        let _ = range;
    }

    /// The map of a file, if this is one.
    #[cfg(unix)]
    fn file(&self) -> Option<&Mmap> {
        match &self.0 {
            Source::File(map) => Some(map),
            #[cfg(any(test, feature = "testing"))]
            Source::Copy(_) => None,
        }
    }
}

impl Deref for Map {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Source::File(map) => map,
            #[cfg(any(test, feature = "testing"))]
            Source::Copy(bytes) => bytes,
        }
    }
}

impl AsRef<[u8]> for Map {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

/// A page of which a forked child sees zeros, whatever is written to it here; `None` where the system has no
/// such thing.
#[cfg(target_os = "linux")]
pub(super) fn page_wiped_on_fork() -> Option<MmapMut> {
    use rustix::mm::{Advice, madvise};

    let mut page = MmapMut::map_anon(rustix::param::page_size()).ok()?;
    let (start, bytes) = (page.as_mut_ptr().cast(), page.len());
    // SAFETY: the range is exactly one private anonymous mapping, which `page` owns and which nobody else
    // knows of. The advice leaves its content in this process alone; in a child it reads as zeros, a valid
    // value of bytes.
    let advised = unsafe { madvise(start, bytes, Advice::LinuxWipeOnFork) };
    advised.ok().map(|()| page)
}

/// Other systems have no such page.
#[cfg(not(target_os = "linux"))]
pub(super) fn page_wiped_on_fork() -> Option<MmapMut> {
    None
}

#[cfg(all(test, target_os = "linux"))]
#[cfg(not(any(loom, miri)))]
mod tests {
    use rustix::process::{Pid, WaitOptions, waitpid};

    use super::*;
    use crate::storage::fork::ForkGuard;

    unsafe extern "C" {
        fn fork() -> i32;
        fn _exit(status: i32) -> !;
    }

    /// Runs `code` in a forked child and returns what it returned there.
    fn in_child(code: impl Fn() -> i32) -> Option<i32> {
        // SAFETY: the child runs `code`, which here only reads memory, and ends without running anything of
        // the test program, whose other threads it does not have.
        let number = unsafe { fork() };
        if number == 0 {
            let status = code();
            // SAFETY: ends the child at once.
            unsafe { _exit(status) }
        }
        let child = Pid::from_raw(number).expect("the fork went well");
        let (_, status) = waitpid(Some(child), WaitOptions::empty()).expect("it is ours").expect("it ended");
        status.exit_status()
    }

    #[test]
    fn guard_asked_in_a_forked_child_finds_it() {
        let guard = ForkGuard::new();
        let child = in_child(|| {
            let grandchild = in_child(|| i32::from(guard.is_child()));
            i32::from(guard.is_child()) + 2 * grandchild.unwrap_or(0)
        });
        assert_eq!(child, Some(3));
        assert!(!guard.is_child());
    }

    #[test]
    fn page_wiped_on_fork_is_known_here() {
        let Some(mut page) = page_wiped_on_fork() else {
            println!("skipped: this kernel has no such page");
            return;
        };
        page[7] = 9;
        assert_eq!(in_child(|| i32::from(page[7])), Some(0));
        assert_eq!(page[7], 9);
    }

    #[test]
    fn copy_reads_like_a_map() {
        let map = Map::of_bytes(vec![1, 2, 3]);
        map.advise_random();
        map.will_need(0..3);
        assert_eq!((&map[..], map.as_ref()), (&[1, 2, 3][..], &*map.clone()));
    }
}
