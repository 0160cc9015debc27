//! Tells of a sequence that does not come to an end, which else would be a test that hangs without a word.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use crate::ops::{Op, Setup};

/// A sequence takes a thousandth of a second; a machine may be busy, but not for so long.
const PATIENCE: Duration = Duration::from_secs(60);

type Running = Mutex<Option<(Instant, Setup, Vec<Op>)>>;

/// Knows which sequence is running, and since when.
pub(crate) struct Watch(Arc<Running>);

impl Watch {
    /// Starts a thread that ends the process, with the sequence, when one takes too long.
    pub(crate) fn start(repeat: String) -> Watch {
        let running = Arc::new(Running::default());
        let watched = Arc::downgrade(&running);
        std::thread::spawn(move || {
            while is_in_time(&watched, &repeat) {
                std::thread::sleep(Duration::from_secs(1));
            }
        });
        Watch(running)
    }

    /// The sequence that runs from now on.
    pub(crate) fn begin(&self, setup: &Setup, ops: &[Op]) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) =
            Some((Instant::now(), setup.clone(), ops.to_vec()));
    }

    /// No sequence runs.
    pub(crate) fn end(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// False when there is nothing to watch any more.
fn is_in_time(watched: &Weak<Running>, repeat: &str) -> bool {
    let Some(running) = watched.upgrade() else { return false };
    let running = running.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((begun, setup, ops)) = &*running
        && begun.elapsed() > PATIENCE
    {
        eprintln!("{repeat}: no end after {PATIENCE:?}: {setup:?}, {ops:#?}");
        std::process::exit(1);
    }
    true
}
