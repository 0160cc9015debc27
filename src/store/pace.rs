//! When the log was last synced, and when callers write it.

use std::time::Duration;

use crate::clock::{Clock, Timestamp};
use crate::options::{Durability, Maintenance, Options};
use crate::sync::Counter;

/// What was synced when. Held during a round, so that none is under way when the store gives up its files.
#[derive(Debug, Default)]
pub(crate) struct Synced {
    pub(crate) at: Timestamp,
    pub(crate) position: u64,
}

/// When callers write the log themselves: in a store that is stepped by hand and may lose some of it.
#[derive(Debug)]
pub(crate) struct WritingCallers {
    clock: Clock,
    interval: Duration,
    /// When somebody last did.
    written_ms: Counter,
}

impl WritingCallers {
    /// `None` where callers leave that to others.
    pub(crate) fn new(options: &Options, clock: &Clock) -> Option<WritingCallers> {
        match (options.durability, options.maintenance) {
            (Durability::Deferred(_), Maintenance::Manual) => Some(WritingCallers {
                clock: clock.clone(),
                interval: options.pace_interval(),
                written_ms: Counter::default(),
            }),
            _ => None,
        }
    }

    /// Whether it is time to write, for the one who is told so.
    pub(crate) fn is_due(&self) -> bool {
        let now = self.clock.now();
        let written = Timestamp::from_millis(self.written_ms.get());
        let is_due = now.saturating_since(written) >= self.interval;
        if is_due {
            self.written_ms.set(now.as_millis());
        }
        is_due
    }
}
