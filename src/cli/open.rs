//! Opening a store for a command, and what is told on the way.

use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use firstseen::{Clock, Event, Options, Store, Timestamp};

use super::exit::Failure;

/// Reading the log is worth a word when it takes longer than this, and again after each such step.
const PATIENCE: Duration = Duration::from_secs(1);
const STEP: Duration = Duration::from_millis(200);

/// Opens a store, or makes one.
///
/// # Errors
///
/// As `Store::open_with`.
pub(super) fn open(place: &Path, options: Options, quiet: bool) -> Result<Store, Failure> {
    let options = if quiet { options } else { options.observer(Narrator::new().into_observer()) };
    Store::open_with(place, options).map_err(Failure::Store)
}

/// Opens a store that must be there: a mistyped name makes none.
///
/// # Errors
///
/// As [`open`], and there is none.
pub(super) fn open_existing(place: &Path, options: Options) -> Result<Store, Failure> {
    expect_store(place)?;
    open(place, options, false)
}

/// Refuses a directory without a store.
pub(super) fn expect_store(place: &Path) -> Result<(), Failure> {
    if Store::exists(place).map_err(Failure::Store)? {
        return Ok(());
    }
    Err(Failure::NoStore { place: place.display().to_string() })
}

/// Tells on stderr what a store tells about itself, as far as that is for the user.
struct Narrator {
    clock: Clock,
    begun: Timestamp,
    is_terminal: bool,
    /// When a line about the log was last shown.
    shown: Mutex<Option<Timestamp>>,
}

impl Narrator {
    fn new() -> Narrator {
        let clock = Clock::system();
        let begun = clock.now();
        Narrator { clock, begun, is_terminal: io::stderr().is_terminal(), shown: Mutex::new(None) }
    }

    fn into_observer(self) -> impl Fn(&Event) + Send + Sync + 'static {
        move |event| match event {
            Event::RecoveryProgress { bytes_done, bytes } => self.progress(*bytes_done, *bytes),
            Event::RecoveryFinished { .. } => self.clear(),
            Event::FilterRebuilt { .. } | Event::ClockAhead { .. } => note(&event.to_string()),
            Event::ClockBehind { .. } | Event::LogCut { .. } if self.is_terminal => note(&event.to_string()),
            _ => {}
        }
    }

    fn progress(&self, bytes_done: u64, bytes: u64) {
        let now = self.clock.now();
        let mut shown = self.shown.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let since = shown.map_or(PATIENCE, |_| STEP);
        if self.is_terminal && now.saturating_since(shown.unwrap_or(self.begun)) >= since {
            *shown = Some(now);
            let percent = 100 * bytes_done / bytes.max(1);
            let _ =
                write!(io::stderr(), "\r\x1b[Kfirstseen: reading what the last run has logged: {percent} %");
        }
    }

    fn clear(&self) {
        let mut shown = self.shown.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if shown.take().is_some() {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

/// One line on stderr.
pub(super) fn note(text: &str) {
    let _ = writeln!(io::stderr(), "firstseen: {text}");
}
