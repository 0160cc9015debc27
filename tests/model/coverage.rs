//! What has happened over all sequences of a run.
//!
//! A model that never rotates a table proves nothing about rotation.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use firstseen::{Stats, Verdict};

/// Everything that is counted, with its name in the report.
const KINDS: [&str; 16] = [
    "first",
    "duplicate",
    "in flight",
    "rotations",
    "merges",
    "tables expired",
    "leases lost",
    "takeovers by claim",
    "takeovers by check",
    "late commits",
    "looks through a closing table",
    "looks screened by a filter",
    "windows slid",
    "seen again after forgetting",
    "seen again after the window",
    "stores emptied by expiry",
];

/// A kind of event, as an index into [`KINDS`].
#[derive(Clone, Copy, Debug)]
#[repr(usize)]
pub(crate) enum Event {
    First,
    Duplicate,
    InFlight,
    Rotations,
    Merges,
    TablesExpired,
    LeasesLost,
    ClaimTakeover,
    CheckTakeover,
    LateCommit,
    Closing,
    Screened,
    Slid,
    SeenAfterForget,
    SeenAfterWindow,
    Emptied,
}

/// Counts by kind.
#[derive(Debug, Default)]
pub(crate) struct Coverage([AtomicU64; KINDS.len()]);

impl Coverage {
    pub(crate) fn add(&self, event: Event, count: u64) {
        self.0[event as usize].fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn hit(&self, event: Event) {
        self.add(event, 1);
    }

    pub(crate) fn verdict(&self, verdict: Verdict) {
        self.hit(match verdict {
            Verdict::FirstSeen => Event::First,
            Verdict::Duplicate => Event::Duplicate,
            Verdict::InFlight => Event::InFlight,
        });
    }

    /// Adds what one store has done in its life.
    pub(crate) fn stats(&self, stats: &Stats) {
        self.add(Event::Rotations, stats.rotations);
        self.add(Event::Merges, stats.merges);
        self.add(Event::TablesExpired, stats.tables_expired);
        self.add(Event::LeasesLost, stats.leases_lost);
    }

    /// The kinds that never happened.
    pub(crate) fn missing(&self) -> Vec<&'static str> {
        let counts = self.0.iter().map(|count| count.load(Ordering::Relaxed));
        KINDS.iter().zip(counts).filter(|(_, count)| *count == 0).map(|(kind, _)| *kind).collect()
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (kind, count)) in KINDS.iter().zip(&self.0).enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{} {kind}", count.load(Ordering::Relaxed))?;
        }
        Ok(())
    }
}
