//! Standard output, and how much of what was written has arrived.
//!
//! What is in a pipe is lost when its reader ends. So where the system can say how many bytes in a pipe
//! nobody has read yet, only the others count as arrived. A file has everything at once, and when that is to
//! outlive a power cut it is synced first.

use std::io::{self, StdoutLock, Write as _};
use std::time::Duration;

use super::exit::Failure;
use super::open::note;

/// What standard output is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Pipe,
    File,
    /// A terminal, a device, or anything where nothing can be found out.
    Other,
}

/// Standard output.
#[derive(Debug)]
pub(super) struct Output {
    stdout: StdoutLock<'static>,
    kind: Kind,
    /// Bytes written so far.
    written: u64,
    syncs: bool,
}

impl Output {
    /// Standard output; with `syncs` a file is synced before anything counts as arrived.
    ///
    /// A file that a killed run has left in the middle of a record gets `terminator` first, so that no record
    /// is joined to that piece.
    ///
    /// # Errors
    ///
    /// Writing fails.
    pub(super) fn open(terminator: u8, syncs: bool, quiet: bool) -> Result<Output, Failure> {
        let mut output = Output { stdout: io::stdout().lock(), kind: system::kind(), written: 0, syncs };
        if output.kind == Kind::File && system::last_byte().is_some_and(|last| last != terminator) {
            output.write(&[terminator])?;
            if !quiet {
                note("the output ended in the middle of a line: that piece was ended first");
            }
        }
        Ok(output)
    }

    /// One write for a block, flushed, as the next block may be long in coming.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        if !bytes.is_empty() {
            self.stdout.write_all(bytes).and_then(|()| self.stdout.flush()).map_err(Failure::write)?;
            self.written += bytes.len() as u64;
        }
        Ok(())
    }

    /// Bytes written so far.
    pub(super) fn written(&self) -> u64 {
        self.written
    }

    /// How many of them have arrived where no end of a reader loses them.
    ///
    /// # Errors
    ///
    /// A file can't be synced.
    pub(super) fn arrived(&self) -> Result<u64, Failure> {
        match self.kind {
            Kind::Pipe => Ok(self.written.saturating_sub(system::unread())),
            Kind::File if self.syncs => system::sync().map(|()| self.written).map_err(Failure::Output),
            Kind::File | Kind::Other => Ok(self.written),
        }
    }

    /// Lets time pass, but not when the reader of a pipe is gone.
    ///
    /// # Errors
    ///
    /// [`Failure::OutputClosed`].
    pub(super) fn wait(&self, pause: Duration) -> Result<(), Failure> {
        if system::closes_within(pause) { Err(Failure::OutputClosed) } else { Ok(()) }
    }
}

#[cfg(unix)]
mod system {
    //! What a Unix system can say about standard output.

    use std::fs::File;
    use std::io;
    use std::os::fd::AsFd as _;
    use std::os::unix::fs::FileTypeExt as _;
    use std::time::Duration;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::Kind;

    fn file() -> io::Result<File> {
        io::stdout().as_fd().try_clone_to_owned().map(File::from)
    }

    pub(super) fn kind() -> Kind {
        match file().and_then(|file| file.metadata()).map(|metadata| metadata.file_type()) {
            // Elsewhere the writing end of a pipe does not know.
            Ok(kind) if kind.is_fifo() && cfg!(target_os = "linux") => Kind::Pipe,
            Ok(kind) if kind.is_file() => Kind::File,
            _ => Kind::Other,
        }
    }

    /// The last byte of a file that is written to at its end.
    pub(super) fn last_byte() -> Option<u8> {
        use std::io::Seek as _;
        use std::os::unix::fs::FileExt as _;
        let mut file = file().ok()?;
        let bytes = file.metadata().ok()?.len();
        let is_appending = rustix::fs::fcntl_getfl(&file).ok()?.contains(rustix::fs::OFlags::APPEND);
        if bytes == 0 || !(is_appending || file.stream_position().ok()? == bytes) {
            return None;
        }
        // The descriptor itself may be for writing only.
        let mut last = [0];
        let readable = File::open("/proc/self/fd/1").or_else(|_| File::open("/dev/fd/1")).ok()?;
        readable.read_exact_at(&mut last, bytes - 1).ok()?;
        Some(last[0])
    }

    /// Bytes in the pipe that nobody has read.
    pub(super) fn unread() -> u64 {
        rustix::io::ioctl_fionread(io::stdout().as_fd()).unwrap_or(0)
    }

    pub(super) fn sync() -> io::Result<()> {
        file()?.sync_data()
    }

    /// Waits for the end of the reader, but no longer than `pause`; whether it came.
    pub(super) fn closes_within(pause: Duration) -> bool {
        let stdout = io::stdout();
        let mut asked = [PollFd::new(&stdout, PollFlags::empty())];
        let timeout = Timespec::try_from(pause).ok();
        poll(&mut asked, timeout.as_ref()).is_ok() && asked[0].revents().contains(PollFlags::ERR)
    }
}

#[cfg(not(unix))]
mod system {
    //! Where nothing can be found out.

    use std::io;
    use std::time::Duration;

    use super::Kind;

    pub(super) fn kind() -> Kind {
        Kind::Other
    }

    pub(super) fn last_byte() -> Option<u8> {
        None
    }

    pub(super) fn unread() -> u64 {
        0
    }

    pub(super) fn sync() -> io::Result<()> {
        Ok(())
    }

    pub(super) fn closes_within(pause: Duration) -> bool {
        std::thread::sleep(pause);
        false
    }
}
