//! The twin: what a store must answer, written as plainly as possible. A map, a clock, no cleverness.
//!
//! Time is counted in ticks as the store's documentation has it: a deadline is rounded up, the present is
//! rounded down. An ID that was forgotten and is seen again stays seen at least one tick longer than before,
//! but a merge of tables may have dropped what was forgotten; then both ends are possible ([`Until`]) and
//! the first answer that tells them apart decides.

use std::collections::HashMap;
use std::time::Duration;

use firstseen::{Verdict, Window};

use crate::ops::{Id, Setup};

/// The first tick at which an ID is no longer seen: one of these, usually the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Until {
    pub(crate) earliest: u64,
    pub(crate) latest: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Fact {
    #[default]
    Never,
    Seen(Until),
    /// Forgotten after so many merges of tables.
    Forgotten(Until, u64),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Held {
    pub(crate) attempt: u64,
    pub(crate) until_ms: u64,
}

/// Everything about one ID.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Entry {
    pub(crate) fact: Fact,
    /// A lease nobody has taken over; it may be over.
    pub(crate) lease: Option<Held>,
}

/// The present of one call and the deadline that it would give.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) now: u64,
    pub(crate) deadline: u64,
    /// Reading of the clock, by which leases are counted.
    pub(crate) clock_ms: u64,
    /// Merges of tables before this call.
    pub(crate) merges: u64,
}

/// What a claim must answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Expected {
    Leased,
    Duplicate,
    InFlight(u64),
}

#[derive(Debug)]
pub(crate) struct Twin {
    pub(crate) window_ms: u64,
    pub(crate) ttl_ms_max: u64,
    pub(crate) tick_ms: u64,
    is_forever: bool,
    slides: bool,
    /// The latest time that any call has brought.
    pub(crate) time_ms: u64,
    pub(crate) entries: HashMap<Id, Entry>,
    pub(crate) attempt_last: u64,
    pub(crate) leases_lost: u64,
    /// Whether every ID has had one state only, so that `len` is exact.
    pub(crate) is_plain: bool,
}

impl Twin {
    pub(crate) fn new(setup: &Setup) -> Twin {
        let window_ms = match setup.window {
            Window::Forever => 0,
            Window::Fixed(length) | Window::Sliding(length) => millis(length),
        };
        let ttl_ms_max = window_ms * u64::from(setup.ttl_factor.unwrap_or(1));
        Twin {
            window_ms,
            ttl_ms_max,
            tick_ms: tick_ms(ttl_ms_max),
            is_forever: setup.window == Window::Forever,
            slides: matches!(setup.window, Window::Sliding(_)),
            time_ms: setup.start_ms,
            entries: HashMap::new(),
            attempt_last: 0,
            leases_lost: 0,
            is_plain: true,
        }
    }

    pub(crate) fn is_forever(&self) -> bool {
        self.is_forever
    }

    /// The store was opened anew: leases are gone, and what is counted begins anew.
    pub(crate) fn reopen(&mut self) {
        self.entries.values_mut().for_each(|entry| entry.lease = None);
        self.leases_lost = 0;
    }

    /// The moment of a call at `now_ms`; time never goes back.
    pub(crate) fn moment(&mut self, now_ms: u64, clock_ms: u64, ttl_ms: u64, merges: u64) -> Moment {
        self.time_ms = self.time_ms.max(now_ms);
        if self.is_forever {
            return Moment { now: 0, deadline: 1, clock_ms, merges };
        }
        let deadline = (self.time_ms + ttl_ms).div_ceil(self.tick_ms);
        Moment { now: self.time_ms / self.tick_ms, deadline, clock_ms, merges }
    }

    /// What a check must answer; `given` only decides where the twin cannot know.
    pub(crate) fn check(&mut self, id: Id, at: Moment, given: Verdict) -> Verdict {
        let entry = self.entries.entry(id).or_default();
        entry.learn(at.now, given == Verdict::Duplicate);
        if entry.live_lease(at.clock_ms).is_some() {
            return Verdict::InFlight;
        }
        if !entry.is_live(at.now) {
            self.is_plain &= entry.fact == Fact::Never && entry.lease.is_none();
            entry.see(at);
            entry.lease = None;
            return Verdict::FirstSeen;
        }
        self.slide(id, at);
        Verdict::Duplicate
    }

    /// An ID whose window slides was seen again.
    fn slide(&mut self, id: Id, at: Moment) {
        if let (true, Some(Entry { fact: Fact::Seen(until), .. })) = (self.slides, self.entries.get_mut(&id))
        {
            self.is_plain &= until.latest >= at.deadline;
            until.earliest = until.earliest.max(at.deadline);
            until.latest = until.latest.max(at.deadline);
        }
    }

    /// Whether an ID must be seen; `given` only decides where the twin cannot know.
    pub(crate) fn contains(&mut self, id: Id, at: Moment, given: bool) -> bool {
        let entry = self.entries.entry(id).or_default();
        entry.learn(at.now, given);
        entry.is_live(at.now)
    }

    /// What a claim must answer; a lease is entered by [`Twin::lease`].
    pub(crate) fn claim(&mut self, id: Id, at: Moment, is_duplicate: bool) -> Expected {
        let entry = self.entries.entry(id).or_default();
        entry.learn(at.now, is_duplicate);
        match (entry.is_live(at.now), entry.live_lease(at.clock_ms)) {
            (true, _) => {
                self.slide(id, at);
                Expected::Duplicate
            }
            (false, Some(held)) => Expected::InFlight(held.until_ms),
            (false, None) => Expected::Leased,
        }
    }

    /// Enters the lease of a claim that was granted.
    pub(crate) fn lease(&mut self, id: Id, held: Held) {
        self.is_plain = false;
        self.attempt_last = held.attempt;
        self.entries.entry(id).or_default().lease = Some(held);
    }

    /// Whether a token still holds its lease; if so the lease is returned to be changed or taken.
    pub(crate) fn held(&mut self, id: Id, attempt: u64) -> Option<&mut Entry> {
        let entry = self.entries.entry(id).or_default();
        let is_held = entry.lease.is_some_and(|held| held.attempt == attempt);
        if is_held {
            return Some(entry);
        }
        self.leases_lost += 1;
        None
    }

    /// Ends a lease; false when the token has lost it.
    pub(crate) fn end(&mut self, id: Id, attempt: u64) -> bool {
        self.held(id, attempt).map(|entry| entry.lease = None).is_some()
    }

    /// Whether a forget must find something to forget.
    pub(crate) fn forget(&mut self, id: Id, at: Moment, given: bool) -> bool {
        let entry = self.entries.entry(id).or_default();
        entry.learn(at.now, given);
        let is_live = entry.is_live(at.now);
        if let (true, Fact::Seen(until)) = (is_live, entry.fact) {
            self.is_plain = false;
            entry.fact = Fact::Forgotten(until, at.merges);
        }
        is_live
    }

    pub(crate) fn leases(&self) -> u64 {
        self.entries.values().filter(|entry| entry.lease.is_some()).count() as u64
    }

    /// IDs that are seen without doubt at tick `now`.
    pub(crate) fn live(&self, now: u64) -> u64 {
        self.entries.values().filter(|entry| entry.is_live(now)).count() as u64
    }

    /// Whether some ID was seen and no longer is at tick `now`.
    pub(crate) fn is_any_over(&self, now: u64) -> bool {
        self.entries.values().any(|entry| entry.fact != Fact::Never && !entry.is_live(now))
    }
}

impl Entry {
    /// Settles a doubt about the window's end by what the store has answered.
    fn learn(&mut self, now: u64, is_seen: bool) {
        if let Fact::Seen(until) = &mut self.fact
            && until.earliest <= now
            && now < until.latest
        {
            if is_seen {
                until.earliest = now + 1;
            } else {
                until.latest = now;
            }
        }
    }

    pub(crate) fn is_live(&self, now: u64) -> bool {
        matches!(self.fact, Fact::Seen(until) if now < until.earliest)
    }

    pub(crate) fn live_lease(&self, clock_ms: u64) -> Option<Held> {
        self.lease.filter(|held| clock_ms < held.until_ms)
    }

    /// Seen from now on, after it was not.
    pub(crate) fn see(&mut self, at: Moment) {
        let (earliest, latest) = match self.fact {
            Fact::Never => (at.deadline, at.deadline),
            Fact::Seen(until) => (at.deadline, at.deadline.max(until.latest + 1)),
            Fact::Forgotten(until, merges) if merges == at.merges => (until.earliest + 1, until.latest + 1),
            Fact::Forgotten(until, _) => (at.deadline, until.latest + 1),
        };
        let until =
            Until { earliest: earliest.max(at.deadline), latest: latest.max(at.deadline).max(earliest) };
        self.fact = Fact::Seen(until);
    }
}

/// The smallest power of two of milliseconds for which half of 2^29 ticks are longer than `ttl_ms`.
fn tick_ms(ttl_ms: u64) -> u64 {
    (0..).map(|shift| 1 << shift).find(|tick| ttl_ms / tick < (1 << 28) - 1).unwrap()
}

fn millis(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap()
}
