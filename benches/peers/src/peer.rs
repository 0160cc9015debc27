//! The seam between the harness and the stores: what a peer is, and what it is told.

use std::error::Error;
use std::path::PathBuf;

use firstseen::Verdict;

use crate::key::Id;

/// Whatever went wrong; a benchmark only has to say so and stop.
pub(crate) type Failure = Box<dyn Error + Send + Sync>;

/// A result of the harness.
pub(crate) type Outcome<T> = Result<T, Failure>;

/// A store that is measured, shared by all threads.
pub(crate) trait Peer: Sync {
    /// What one thread needs for its own use: a connection, buffers.
    ///
    /// # Errors
    ///
    /// Whatever the store says.
    fn session(&self) -> Outcome<Box<dyn Session + '_>>;

    /// The process that does the work, if that is not this one.
    fn server_pid(&self) -> Option<u32> {
        None
    }

    /// Ends it as its users would, with everything written.
    ///
    /// # Errors
    ///
    /// Whatever the store says.
    fn close(self: Box<Self>) -> Outcome<()> {
        Ok(())
    }
}

/// The use of a peer by one thread.
pub(crate) trait Session {
    /// Inserts the IDs of a batch that are absent, and says of each whether it was; the second of two equal
    /// ones is a duplicate.
    ///
    /// When it returns, what was inserted is as durable as the peer's entry says.
    ///
    /// # Errors
    ///
    /// Whatever the store says.
    fn check_batch(&mut self, ids: &[Id], verdicts: &mut [Verdict]) -> Outcome<()>;
}

/// What a peer may know before it begins.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// An existing folder of its own.
    pub(crate) dir: PathBuf,
    /// Distinct IDs that will be held at the end: a capacity hint for those that take one.
    pub(crate) keys_expected: u64,
    /// How many threads will use it.
    pub(crate) threads: usize,
    /// What caches of databases may hold.
    pub(crate) cache_bytes: u64,
    /// The share of new IDs, for floors that have to guess how many records they would write.
    pub(crate) new_share: f64,
}

/// What a peer keeps, and for how long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Keeps {
    /// Nothing; it gives no answers. The speed that nothing can exceed.
    Nothing,
    /// Everything in memory, until the process ends.
    Memory,
    /// What was answered survives the end of the process, but maybe not a power cut.
    Files,
    /// As [`Keeps::Files`], but a power cut may leave a file that is corrupt, or a killed process loses
    /// what was answered last.
    FilesAtRisk,
}

impl Keeps {
    /// A word for tables.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Keeps::Nothing => "floor",
            Keeps::Memory => "memory",
            Keeps::Files => "buffered",
            Keeps::FilesAtRisk => "at risk",
        }
    }

    /// Whether it can be opened again.
    pub(crate) fn is_on_disk(self) -> bool {
        matches!(self, Keeps::Files | Keeps::FilesAtRisk)
    }
}

/// What a peer needs that may not be there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Needs {
    /// Nothing.
    Nothing,
    /// A program in one of the folders of `PATH`.
    Program(&'static str),
    /// A feature of this package, with which it was not built.
    #[cfg_attr(feature = "rocksdb", expect(dead_code, reason = "it was built with all features there are"))]
    Feature(&'static str),
}

impl Needs {
    /// Why the peer cannot be measured, if so.
    pub(crate) fn missing(self) -> Option<String> {
        match self {
            Needs::Nothing => None,
            Needs::Program(program) if is_installed(program) => None,
            Needs::Program(program) => Some(format!("{program} is not installed")),
            Needs::Feature(feature) => Some(format!("this was built without the feature {feature}")),
        }
    }
}

/// Whether a program is in one of the folders of `PATH`.
pub(crate) fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// A peer by name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// The name in results and on the command line.
    pub(crate) name: &'static str,
    /// What it keeps.
    pub(crate) keeps: Keeps,
    /// What must be there for it.
    pub(crate) needs: Needs,
    /// Opens it, or opens it again.
    pub(crate) open: fn(&Place) -> Outcome<Box<dyn Peer>>,
}
