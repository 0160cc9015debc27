//! What a store is told when it is created; every value is validated, and a refused one is named.

use std::fmt;
use std::time::Duration;

use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::event::{Event, Observer};
use crate::fingerprint::{Hash, Secret};
use crate::limits::{
    LEASES_MAX_DEFAULT, MEMORY_BUDGET_DEFAULT, MEMORY_BUDGET_MIN, SYNC_MS_DEFAULT, WINDOW_MS_MAX,
};

/// How long an ID stays seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Window {
    /// For ever (the default).
    #[default]
    Forever,
    /// For this long after it was first seen.
    Fixed(Duration),
    /// For this long after it was last seen: each duplicate begins the time anew.
    Sliding(Duration),
}

impl fmt::Display for Window {
    /// How long an ID is kept, as the end of a sentence.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Window::Forever => f.write_str("forever"),
            Window::Fixed(length) => write!(f, "{length:?} from the first sighting on"),
            Window::Sliding(length) => write!(f, "{length:?} from the last sighting on"),
        }
    }
}

/// What a store without a disk does when its memory budget is used up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WhenFull {
    /// New IDs are refused with [`Error::Full`] (the default); known ones are still answered, but in a
    /// sliding window those that must be written anew to move their window, which are refused as well.
    #[default]
    Error,
    /// The oldest generation of IDs is forgotten as a whole, and counted in
    /// [`Stats::ids_dropped`](crate::Stats::ids_dropped). An ID in it counts as new again.
    ForgetOldest,
}

/// What a store with a directory keeps of what it has answered (G2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Durability {
    /// State is written when a table is sealed and when the store is closed; there is no log.
    None,
    /// The log is written in the background: at most the last such time is lost, on a kill too.
    Deferred(Duration),
    /// The log is handed to the system before a call returns (the default): a killed process loses nothing
    /// that was answered, a power cut at most the last [`Options::sync_every`].
    #[default]
    Buffered,
    /// The log is synced before a call returns: what was answered survives a power cut.
    Sync,
}

/// How sealed files are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FileAccess {
    /// Through a memory map (the default): the fastest. A file that somebody else truncates, or a medium
    /// that fails, ends the process with a bus error.
    #[default]
    Map,
    /// By reading line by line: a medium that fails is an [`Error::Io`].
    Read,
}

/// Who does the background work: new tables ahead of need, filters, merging, dropping what is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Maintenance {
    /// One thread of the store's own (the default).
    #[default]
    Thread,
    /// The caller, through [`Store::maintain`](crate::Store::maintain): for tests and simulations. A call
    /// that finds the active table too full does the least that is needed by itself. The log is synced in
    /// the background by that too; with [`Durability::Deferred`] calls write it, and where there is neither
    /// call nor step nobody does.
    Manual,
}

/// A builder for everything that can be chosen about a store.
///
/// Values are checked when the store is created; [`Error::Option`] names the one that was refused.
///
/// ```
/// use std::time::Duration;
/// use firstseen::{Options, Store, Window};
///
/// let options = Options::new().window(Window::Fixed(Duration::from_secs(3600))).expect(1_000_000);
/// let store = Store::in_memory(options)?;
/// assert_eq!(store.len(), 0);
/// # Ok::<(), firstseen::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) window: Option<Window>,
    pub(crate) ttl_max: Option<Duration>,
    pub(crate) ids_expected: u64,
    pub(crate) memory_budget: u64,
    pub(crate) when_full: WhenFull,
    pub(crate) hash: Option<Hash>,
    pub(crate) secret: Option<Secret>,
    pub(crate) clock: Option<Clock>,
    pub(crate) maintenance: Maintenance,
    pub(crate) leases_max: usize,
    pub(crate) first_lines: Option<u64>,
    pub(crate) log_segment_bytes: Option<u64>,
    pub(crate) durability: Durability,
    pub(crate) sync_every: Duration,
    pub(crate) access: FileAccess,
    pub(crate) observer: Observer,
}

impl Default for Options {
    fn default() -> Self {
        Options::new()
    }
}

impl Options {
    /// A store that never forgets, grows as needed up to 4 GiB, hashes with XXH3-128 under a random secret.
    #[must_use]
    pub fn new() -> Options {
        Options {
            window: None,
            ttl_max: None,
            ids_expected: 0,
            memory_budget: MEMORY_BUDGET_DEFAULT,
            when_full: WhenFull::Error,
            hash: None,
            secret: None,
            clock: None,
            maintenance: Maintenance::Thread,
            leases_max: LEASES_MAX_DEFAULT,
            first_lines: None,
            log_segment_bytes: None,
            durability: Durability::default(),
            sync_every: Duration::from_millis(SYNC_MS_DEFAULT),
            access: FileAccess::default(),
            observer: Observer::default(),
        }
    }

    /// How long an ID stays seen: between one millisecond and about 34 years, or for ever.
    ///
    /// Windows end late by at most one tick, never early (G5). A tick is one millisecond for windows up to
    /// three days, 16 milliseconds for 30 days, and a 2^28th of the longest window beyond.
    #[must_use]
    pub fn window(mut self, window: Window) -> Self {
        self.window = Some(window);
        self
    }

    /// The longest time to live that [`Store::check_with`](crate::Store::check_with) will be asked for;
    /// without it, the window. Needs a window; at least as long as that.
    #[must_use]
    pub fn ttl_max(mut self, ttl: Duration) -> Self {
        self.ttl_max = Some(ttl);
        self
    }

    /// How many IDs are expected at the same time: the first table is made for them at once.
    ///
    /// A hint, no limit: more are welcome, fewer only waste memory (36 bytes an expected ID).
    #[must_use]
    pub fn expect(mut self, ids: u64) -> Self {
        self.ids_expected = ids;
        self
    }

    /// Bytes that tables and filters may take together, at least 1 MiB; 4 GiB without this option.
    ///
    /// About 30 to 60 bytes an ID are used, 70 in the smallest stores. What happens at the limit:
    /// [`Options::when_full`].
    #[must_use]
    pub fn memory_budget(mut self, bytes: u64) -> Self {
        self.memory_budget = bytes;
        self
    }

    /// What happens when the memory budget is used up.
    #[must_use]
    pub fn when_full(mut self, policy: WhenFull) -> Self {
        self.when_full = policy;
        self
    }

    /// Which hash makes fingerprints of IDs.
    #[must_use]
    pub fn hash(mut self, hash: Hash) -> Self {
        self.hash = Some(hash);
        self
    }

    /// The secret of the hash; a random one without this option.
    ///
    /// Stores with one secret and hash give equal fingerprints.
    #[must_use]
    pub fn secret(mut self, secret: Secret) -> Self {
        self.secret = Some(secret);
        self
    }

    /// Where the time comes from; the system without this option.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Who does the background work.
    #[must_use]
    pub fn maintenance(mut self, maintenance: Maintenance) -> Self {
        self.maintenance = maintenance;
        self
    }

    /// How many leases may be held at the same time, at least one; 2^20 without this option.
    #[must_use]
    pub fn leases_max(mut self, leases: usize) -> Self {
        self.leases_max = leases;
        self
    }

    /// What a store with a directory keeps of what it has answered; [`Durability::Buffered`] without this
    /// option. A store may be opened with another value each time.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// What a power cut may take of what was answered with [`Durability::Buffered`]: at most that time, 1
    /// millisecond to an hour, a second without this option. The log is synced in the background twice in it.
    #[must_use]
    pub fn sync_every(mut self, interval: Duration) -> Self {
        self.sync_every = interval;
        self
    }

    /// How sealed files are read.
    #[must_use]
    pub fn file_access(mut self, access: FileAccess) -> Self {
        self.access = access;
        self
    }

    /// Who is told of recovery, sealing and damage.
    ///
    /// Called from whichever thread has come upon it, one event after the other, and that thread waits. It
    /// holds no lock then, so the store may be used, and also closed. Events of an opening come before the
    /// store does. Who takes very long over one event misses the oldest of those that come meanwhile.
    #[must_use]
    pub fn observer(mut self, told: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        self.observer = Observer::new(told);
        self
    }

    /// Home lines of the first table, for tests that want to see many rotations.
    #[doc(hidden)]
    #[must_use]
    pub fn first_table_lines(mut self, lines: u64) -> Self {
        self.first_lines = Some(lines);
        self
    }

    /// Length of a segment of the log, for tests that want to see many.
    #[doc(hidden)]
    #[must_use]
    pub fn log_segment_bytes(mut self, bytes: u64) -> Self {
        self.log_segment_bytes = Some(bytes);
        self
    }

    /// How often the log is written or synced in the background: what may be lost for some time is done twice
    /// in that time.
    pub(crate) fn pace_interval(&self) -> Duration {
        match self.durability {
            Durability::Deferred(time) => (time / 2).min(self.sync_every),
            Durability::Buffered => self.sync_every / 2,
            Durability::None | Durability::Sync => self.sync_every,
        }
    }

    /// Refuses values that no store can have.
    pub(crate) fn validate(&self) -> Result<()> {
        let refused = |name, reason: String| Err(Error::Option { name, reason });
        let length = match self.window.unwrap_or_default() {
            Window::Forever => None,
            Window::Fixed(length) | Window::Sliding(length) => Some(length),
        };
        if length.is_some_and(|length| !is_window_length(length)) {
            return refused("window", "takes 1 millisecond to 34 years".to_owned());
        }
        match (self.ttl_max, length) {
            (None, _) => {}
            (Some(_), None) => {
                return refused("ttl_max", "needs a window: the store never forgets".to_owned());
            }
            (Some(ttl), Some(length)) if !is_window_length(ttl) || ttl < length => {
                return refused("ttl_max", format!("takes the window ({length:?}) to 34 years, not {ttl:?}"));
            }
            _ => {}
        }
        if self.memory_budget < MEMORY_BUDGET_MIN {
            let reason = format!("takes at least {MEMORY_BUDGET_MIN} bytes, not {}", self.memory_budget);
            return refused("memory_budget", reason);
        }
        let is_interval = |time: Duration| (1..=3_600_000).contains(&time.as_millis());
        if !is_interval(self.sync_every) {
            return refused(
                "sync_every",
                format!("takes 1 millisecond to 1 hour, not {:?}", self.sync_every),
            );
        }
        if let Durability::Deferred(time) = self.durability
            && !is_interval(time)
        {
            return refused("durability", format!("defers by 1 millisecond to 1 hour, not {time:?}"));
        }
        if self.leases_max == 0 {
            return refused("leases_max", "takes at least 1".to_owned());
        }
        Ok(())
    }
}

fn is_window_length(length: Duration) -> bool {
    (1..=u128::from(WINDOW_MS_MAX)).contains(&length.as_millis())
}
