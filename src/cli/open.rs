//! Opening a store for a command, and what is told on the way.

use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use firstseen::{Clock, Error, Event, Options, Store, Timestamp};

use super::exit::Failure;

/// Reading the log is worth a word when it takes longer than this, and again after each such step.
const PATIENCE: Duration = Duration::from_secs(1);
const STEP: Duration = Duration::from_millis(200);

/// What has put an end to a store, in whatever thread: calls are only told that something has.
#[derive(Clone, Debug, Default)]
pub(super) struct Cause(Arc<Mutex<Option<Error>>>);

impl Cause {
    /// The failure itself in the place of one that only says that there was one.
    pub(super) fn of(&self, failure: Failure) -> Failure {
        let is_poisoned = |error: &Error| match error {
            Error::Partial { cause, .. } => matches!(**cause, Error::Poisoned { .. }),
            error => matches!(error, Error::Poisoned { .. }),
        };
        match (failure, locked(&self.0).clone()) {
            (Failure::Store(error), Some(cause)) if is_poisoned(&error) => Failure::Store(cause),
            (failure, _) => failure,
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Opens a store, or makes one.
///
/// # Errors
///
/// As `Store::open_with`.
pub(super) fn open(place: &Path, options: Options, quiet: bool) -> Result<(Store, Cause), Failure> {
    let narrator = Narrator::new(quiet);
    let cause = narrator.cause.clone();
    let store = Store::open_with(place, options.observer(narrator.into_observer()));
    Ok((store.map_err(|error| cause.of(Failure::Store(error)))?, cause))
}

/// Opens a store that must be there: a mistyped name makes none.
///
/// # Errors
///
/// As [`open`], and there is none.
pub(super) fn open_existing(place: &Path, options: Options) -> Result<Store, Failure> {
    expect_store(place)?;
    open(place, options, false).map(|(store, _)| store)
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
    quiet: bool,
    cause: Cause,
    /// When a line about the log was last shown.
    shown: Mutex<Option<Timestamp>>,
}

impl Narrator {
    fn new(quiet: bool) -> Narrator {
        let clock = Clock::system();
        let begun = clock.now();
        Narrator {
            clock,
            begun,
            is_terminal: io::stderr().is_terminal(),
            quiet,
            cause: Cause::default(),
            shown: Mutex::new(None),
        }
    }

    fn into_observer(self) -> impl Fn(&Event) + Send + Sync + 'static {
        move |event| match event {
            Event::Poisoned { cause } => *locked(&self.cause.0) = Some(cause.clone()),
            _ if self.quiet => {}
            Event::RecoveryProgress { bytes_done, bytes } => self.progress(*bytes_done, *bytes),
            Event::RecoveryFinished { .. } => self.clear(),
            Event::FilterRebuilt { .. } | Event::ClockAhead { .. } => note(&event.to_string()),
            Event::ClockBehind { .. } | Event::LogCut { .. } if self.is_terminal => note(&event.to_string()),
            _ => {}
        }
    }

    fn progress(&self, bytes_done: u64, bytes: u64) {
        let now = self.clock.now();
        let mut shown = locked(&self.shown);
        let since = shown.map_or(PATIENCE, |_| STEP);
        if self.is_terminal && now.saturating_since(shown.unwrap_or(self.begun)) >= since {
            *shown = Some(now);
            let percent = 100 * bytes_done / bytes.max(1);
            let _ =
                write!(io::stderr(), "\r\x1b[Kfirstseen: reading what the last run has logged: {percent} %");
        }
    }

    fn clear(&self) {
        let mut shown = locked(&self.shown);
        if shown.take().is_some() {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

/// One line on stderr.
pub(super) fn note(text: &str) {
    let _ = writeln!(io::stderr(), "firstseen: {text}");
}
