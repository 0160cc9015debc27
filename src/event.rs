//! What a store tells its observer about itself: recovery, sealing, damage.

use std::collections::VecDeque;
use std::fmt;

use crate::error::Error;
use crate::limits::EVENTS_WAITING_MAX;
use crate::sync::{Arc, Mutex};

/// Something that has happened in a store with a directory.
///
/// `Display` is one line for a log.
#[non_exhaustive]
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// The store was not closed: its log is being read.
    RecoveryStarted {
        /// Bytes of log to read.
        bytes: u64,
    },
    /// A part of the log was read.
    RecoveryProgress {
        /// Bytes read so far.
        bytes_done: u64,
        /// Bytes to read in all.
        bytes: u64,
    },
    /// The log was read to its end.
    RecoveryFinished {
        /// Records that were read.
        records: u64,
        /// Distinct IDs that they name and whose window is not over.
        ids: u64,
    },
    /// The log ended in a part that was never acknowledged, which was cut off.
    LogCut {
        /// The segment's file.
        file: String,
        /// Where it ends now.
        offset: u64,
        /// Whole frames behind that place that were left out.
        frames_discarded: u64,
    },
    /// A filter in a file was damaged and was made anew from the lines.
    FilterRebuilt {
        /// The generation's file.
        file: String,
    },
    /// A table was written to a file.
    GenerationSealed {
        /// The generation's file.
        file: String,
        /// IDs in it.
        ids: u64,
        /// Its length.
        bytes: u64,
    },
    /// Two files became one.
    GenerationsFused {
        /// The new generation's file.
        file: String,
        /// IDs in it.
        ids: u64,
        /// Its length.
        bytes: u64,
    },
    /// A file in which everything was over was removed.
    GenerationExpired {
        /// The generation's file.
        file: String,
        /// IDs in it.
        ids: u64,
    },
    /// The wall clock stands before the latest time that an earlier run has told: time goes on from there.
    ClockBehind {
        /// By how many milliseconds.
        behind_ms: u64,
    },
    /// The wall clock stands far ahead of the latest time that an earlier run has told: windows of that
    /// time are over, unless it is wrong.
    ClockAhead {
        /// By how many milliseconds.
        ahead_ms: u64,
    },
    /// A file turned out to be damaged while it was read in the background. Nothing was changed; look-ups
    /// that meet the damage are told.
    Damaged {
        /// What was found.
        cause: Error,
    },
    /// A write, sync, rename or removal has failed: the store takes no more writes (G6).
    Poisoned {
        /// What has failed.
        cause: Error,
    },
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::RecoveryStarted { bytes } => write!(f, "recovery: {bytes} bytes of log to read"),
            Event::RecoveryProgress { bytes_done, bytes } => {
                write!(f, "recovery: {bytes_done} of {bytes} bytes read")
            }
            Event::RecoveryFinished { records, ids } => {
                write!(f, "recovery: done, {records} records of {ids} live IDs")
            }
            Event::LogCut { file, offset, frames_discarded } => {
                write!(f, "{file}: cut at byte {offset}, {frames_discarded} frames behind it left out")
            }
            Event::FilterRebuilt { file } => write!(f, "{file}: damaged filter made anew"),
            Event::GenerationSealed { file, ids, bytes } => {
                write!(f, "{file}: sealed, {ids} IDs in {bytes} bytes")
            }
            Event::GenerationsFused { file, ids, bytes } => {
                write!(f, "{file}: fused from two, {ids} IDs in {bytes} bytes")
            }
            Event::GenerationExpired { file, ids } => write!(f, "{file}: over, {ids} IDs dropped"),
            Event::ClockBehind { behind_ms } => {
                write!(f, "the clock is {behind_ms} ms behind the store's: time goes on from the store's")
            }
            Event::ClockAhead { ahead_ms } => write!(f, "the clock is {ahead_ms} ms ahead of the store's"),
            Event::Damaged { cause } => write!(f, "damage: {cause}"),
            Event::Poisoned { cause } => write!(f, "poisoned: {cause}"),
        }
    }
}

/// A caller's function that is told of events.
type Told = dyn Fn(&Event) + Send + Sync;

/// Who is told.
#[derive(Clone, Default)]
pub(crate) struct Observer(Option<Arc<Told>>);

impl Observer {
    pub(crate) fn new(told: impl Fn(&Event) + Send + Sync + 'static) -> Observer {
        Observer(Some(Arc::new(told)))
    }

    pub(crate) fn tell(&self, event: &Event) {
        if let Some(told) = &self.0 {
            told(event);
        }
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Observer" } else { "None" })
    }
}

/// Events that have happened under a lock, and wait until it is let go: an observer may use the store.
///
/// One thread delivers at a time, in order; others leave theirs to it, also when it is the observer itself
/// that has made something happen.
#[derive(Debug)]
pub(crate) struct Outbox {
    observer: Observer,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    events: VecDeque<Event>,
    is_being_delivered: bool,
}

impl Outbox {
    pub(crate) fn new(observer: Observer) -> Outbox {
        Outbox { observer, waiting: Mutex::new(Waiting::default()) }
    }

    /// Keeps an event for [`Outbox::deliver`]; the oldest goes when there are too many.
    pub(crate) fn note(&self, event: Event) {
        if self.observer.0.is_none() {
            return;
        }
        let mut waiting = self.waiting.lock();
        if waiting.events.len() >= EVENTS_WAITING_MAX {
            waiting.events.pop_front();
        }
        waiting.events.push_back(event);
    }

    /// Tells the observer of what waits, unless somebody is at it. For callers that hold no lock.
    pub(crate) fn deliver(&self) {
        {
            let mut waiting = self.waiting.lock();
            if waiting.is_being_delivered || waiting.events.is_empty() {
                return;
            }
            waiting.is_being_delivered = true;
        }
        let mut turn = Turn { outbox: self, is_over: false };
        while let Some(event) = turn.next_event() {
            self.observer.tell(&event);
        }
    }
}

/// Held by the one who delivers; given back when the observer panics.
struct Turn<'o> {
    outbox: &'o Outbox,
    is_over: bool,
}

impl Turn<'_> {
    /// The next event; the turn is over, before anybody else can note one, when there is none.
    fn next_event(&mut self) -> Option<Event> {
        let mut waiting = self.outbox.waiting.lock();
        let event = waiting.events.pop_front();
        if event.is_none() {
            waiting.is_being_delivered = false;
            self.is_over = true;
        }
        event
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.outbox.waiting.lock().is_being_delivered = false;
        }
    }
}
