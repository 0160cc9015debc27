//! The first failure of a log, after which nothing is written any more (G6).
//!
//! # Synchronising pairs
//!
//! - P13 Fault: the error is noted before the flag is set (Release); whoever finds the flag (Acquire) finds
//!   the error. The writer looks at it under the lock it writes under, so nothing is appended behind a
//!   failed write.

use crate::error::{Error, Result};
use crate::sync::{AtomicU32, Mutex, Ordering, is_panicking};

/// Whether something failed, and what.
#[derive(Debug)]
pub(super) struct Fault {
    is_set: AtomicU32,
    first: Mutex<Option<Error>>,
}

impl Fault {
    pub(super) fn new() -> Fault {
        Fault { is_set: AtomicU32::new(0), first: Mutex::new(None) }
    }

    /// The first failure.
    pub(super) fn get(&self) -> Option<Error> {
        self.check().err()?;
        self.first.lock().clone()
    }

    /// `Ok` unless the log is poisoned.
    #[inline]
    pub(super) fn check(&self) -> Result<()> {
        // Acquire of P13, against `poison`.
        if self.is_set.load(Ordering::Acquire) == 0 { Ok(()) } else { Err(poisoned(&self.first.lock())) }
    }

    /// Does what must not be done twice: when it fails, or panics, the log is poisoned.
    pub(super) fn attempt<T>(&self, operation: &'static str, act: impl FnOnce() -> Result<T>) -> Result<T> {
        self.check()?;
        let alarm = Alarm { fault: self, operation };
        let outcome = act();
        drop(alarm);
        if let Err(error) = &outcome {
            self.poison(error);
        }
        outcome
    }

    /// Notes a failure, unless one was before.
    #[cold]
    pub(super) fn poison(&self, error: &Error) {
        self.first.lock().get_or_insert_with(|| error.clone());
        // Release of P13: the fault is noted.
        self.is_set.store(1, Ordering::Release);
    }
}

/// What all but the first are told.
#[cold]
fn poisoned(fault: &Option<Error>) -> Error {
    let operation = match fault {
        Some(
            Error::Io { operation, .. } | Error::System { operation, .. } | Error::Poisoned { operation },
        ) => operation,
        _ => "writing the log",
    };
    Error::Poisoned { operation }
}

/// Poisons the log when it is dropped by a panic.
struct Alarm<'f> {
    fault: &'f Fault,
    operation: &'static str,
}

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if is_panicking() {
            self.fault.poison(&Error::Poisoned { operation: self.operation });
        }
    }
}
