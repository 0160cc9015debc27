//! What calls and maintenance share: the view, the leases, the clock, and the way a fact is stated.

use std::time::Duration;

use crate::clock::{Clock, Timestamp};
use crate::error::Result;
use crate::fingerprint::{Fingerprint, Hasher, Secret};
use crate::lease::Leases;
use crate::options::{Maintenance, Options, WhenFull};
use crate::stamp::{Stamp, State};
use crate::sync::{Arc, Counter, OnceLock, Worker};
use crate::table::Table;
use crate::window::{Moment, Span, TIME_MS_MAX};

use super::cursors::Cursors;
use super::durable::Durable;
use super::fact::Retry;
use super::growth;
use super::ledger::Ledger;
use super::sealed::Sealed;
use super::succession::Views;
use super::view::{Older, Place, View};

/// The part of a store that calls and maintenance work on.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) hasher: Hasher,
    pub(crate) span: Span,
    pub(crate) clock: Clock,
    /// The clock by which the log is written and synced in the background, and how often.
    pub(crate) pace: Clock,
    pub(crate) pace_interval: Duration,
    pub(crate) views: Views,
    pub(crate) leases: Leases,
    pub(crate) cursors: Cursors,
    pub(crate) worker: OnceLock<Worker>,
    pub(crate) when_full: WhenFull,
    pub(crate) memory_budget: u64,
    pub(crate) ids_expected: u64,
    pub(crate) counters: Counters,
    /// What is on disk; `None` in a store in memory.
    pub(crate) durable: Option<Durable>,
    /// Latest time that any call has brought: time in a store does not go back.
    high_water_ms: Counter,
    /// One more than the number of the view whose active table somebody wants rotated.
    rotation_wanted: Counter,
    /// One more than the number of the view that cannot be rotated for lack of memory.
    pub(crate) full_at: Counter,
}

/// What a store begins with.
#[derive(Debug)]
pub(crate) struct Begin {
    pub(crate) hasher: Hasher,
    pub(crate) span: Span,
    pub(crate) clock: Clock,
    /// The latest time that is known.
    pub(crate) high_water: Timestamp,
    pub(crate) active: Table,
    /// Frozen ones: no key is in two of them, or in one and the active.
    pub(crate) older: Vec<Table>,
    pub(crate) sealed: Vec<Sealed>,
    /// The log segment from which on the active table's facts are logged.
    pub(crate) log_from: u64,
    /// Attempt numbers up to this one have been used.
    pub(crate) attempts_before: u64,
    pub(crate) cursors: Cursors,
    pub(crate) durable: Option<Durable>,
}

/// What `stats` counts besides the tables.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) rotations: Counter,
    pub(crate) merges: Counter,
    pub(crate) tables_expired: Counter,
    pub(crate) seals: Counter,
    pub(crate) sealed_bytes: Counter,
    pub(crate) compactions: Counter,
    pub(crate) compacted_bytes: Counter,
    pub(crate) records_replayed: Counter,
    pub(crate) ids_dropped: Counter,
    pub(crate) stalls: Counter,
    pub(crate) leases_lost: Counter,
    /// Memory that no view names yet: the spare table, and a filter or merged table that is being made.
    pub(crate) memory_spare: Counter,
    pub(crate) memory_filter: Counter,
    pub(crate) memory_merge: Counter,
    pub(crate) memory_fusion: Counter,
    pub(crate) memory_seal: Counter,
    pub(crate) memory_recall: Counter,
    /// Buffers through which files are written, which are not charged against the budget.
    pub(crate) buffers_seal: Counter,
    pub(crate) buffers_fusion: Counter,
    pub(crate) memory_peak: Counter,
}

impl Counters {
    /// Bytes of filters and merged tables that are being made, and of one that is brought back.
    pub(crate) fn memory_making(&self) -> u64 {
        let merging = self.memory_merge.get() + self.memory_fusion.get();
        self.memory_filter.get() + self.memory_seal.get() + self.memory_recall.get() + merging
    }

    /// Bytes of buffers through which files are written.
    pub(crate) fn file_buffers(&self) -> u64 {
        self.buffers_seal.get() + self.buffers_fusion.get()
    }
}

/// What one call, or one chunk of a batch, has recorded in the active table.
///
/// Dropped before the view that it was recorded in (J2).
#[derive(Debug, Default)]
pub(crate) struct Recorded<'l> {
    slots_created: u64,
    until_max: u64,
    /// Whether slots above the load limit may be taken: for what must not wait.
    is_urgent: bool,
    ledger: Ledger<'l>,
}

impl Recorded<'_> {
    /// What is recorded from now on is in the log already.
    pub(crate) fn is_logged_already(&mut self) {
        self.ledger.is_logged_already();
    }

    /// For the maintenance, which must find room where callers wait for it. It states nothing that is logged.
    pub(crate) fn urgent() -> Recorded<'static> {
        Recorded { is_urgent: true, ..Recorded::default() }
    }
}

impl Core {
    /// The shared part of a new store in memory.
    ///
    /// # Errors
    ///
    /// [`Error::Option`](crate::Error::Option), or [`Error::System`](crate::Error::System) when there is no
    /// memory.
    pub(crate) fn new(options: &Options) -> Result<Core> {
        options.validate()?;
        let secret = options.secret.clone().map_or_else(Secret::random, Ok)?;
        let clock = options.clock.clone().unwrap_or_else(Clock::system);
        let span = Span::new(options.window.unwrap_or_default(), options.ttl_max);
        let birth = if span.is_forever() { 0 } else { span.tick_at(clock.now()) };
        let begin = Begin {
            hasher: Hasher::new(options.hash.unwrap_or_default(), secret),
            high_water: clock.now(),
            span,
            clock,
            active: growth::first_table(options, birth)?,
            older: Vec::new(),
            sealed: Vec::new(),
            log_from: 0,
            attempts_before: 0,
            cursors: Cursors::default(),
            durable: None,
        };
        Ok(Core::begin(begin, options))
    }

    /// The shared part of a store, from what it begins with.
    pub(crate) fn begin(begin: Begin, options: &Options) -> Core {
        let Begin { span, clock, .. } = begin;
        let high_water_ms = Counter::default();
        high_water_ms.raise(begin.high_water.as_millis().min(TIME_MS_MAX));
        let view = View {
            number: 1,
            active: Arc::new(begin.active),
            rotate_at: growth::rotate_at(&span, span.tick_at(begin.high_water)),
            closing: None,
            older: begin
                .older
                .into_iter()
                .map(|table| Older::frozen(Arc::new(table), 1, begin.log_from))
                .collect(),
            kept: Vec::new(),
            sealed: begin.sealed,
            sealed_kept: 0,
            log_from: begin.log_from,
        };
        let leases_max = (options.leases_max as u64).min(growth::leases_max(options.memory_budget));
        Core {
            hasher: begin.hasher,
            span,
            // Stores that are stepped by hand go by the time that they are given.
            pace: if options.maintenance == Maintenance::Manual { clock.clone() } else { Clock::system() },
            pace_interval: options.pace_interval(),
            clock,
            views: Views::new(view),
            leases: Leases::new(leases_max, begin.attempts_before),
            cursors: begin.cursors,
            worker: OnceLock::new(),
            when_full: options.when_full,
            memory_budget: options.memory_budget,
            ids_expected: options.ids_expected,
            counters: Counters::default(),
            durable: begin.durable,
            high_water_ms,
            rotation_wanted: Counter::default(),
            full_at: Counter::default(),
        }
    }

    /// The present time; never earlier than what any call has brought before (G5).
    #[inline]
    pub(crate) fn now(&self) -> Timestamp {
        self.not_before(self.clock.now())
    }

    /// Time brought by a caller, or the latest that anybody has brought.
    #[inline]
    pub(crate) fn not_before(&self, now: Timestamp) -> Timestamp {
        let now = now.min(Timestamp::from_millis(TIME_MS_MAX));
        let high_water = self.high_water_ms.get();
        if now.as_millis() > high_water {
            self.high_water_ms.raise(now.as_millis());
            now
        } else {
            Timestamp::from_millis(high_water)
        }
    }

    /// By how many milliseconds the clock may be behind the true time.
    #[inline]
    fn lag_ms(&self) -> u64 {
        u64::try_from(self.clock.lag_max().as_millis()).unwrap_or(u64::MAX)
    }

    /// The end of a lease of `length` from `now` on, late rather than early.
    pub(crate) fn lease_end(&self, now: Timestamp, length: Duration) -> Timestamp {
        now.saturating_add(length).saturating_add(self.clock.lag_max())
    }

    /// What a call under the present view records in.
    #[inline]
    pub(crate) fn recorded(&self) -> Recorded<'_> {
        Recorded { ledger: Ledger::new(self.durable.as_ref()), ..Recorded::default() }
    }

    /// Refuses calls that the store can't answer: from a forked child, or after it was closed or poisoned.
    #[inline]
    pub(crate) fn admit(&self) -> Result<()> {
        self.durable.as_ref().map_or(Ok(()), Durable::admit)
    }

    /// Waits until everything that anybody has seen stated is as durable as the store promises (G2, J1).
    #[inline]
    pub(crate) fn acknowledge(&self) -> Result<()> {
        self.durable.as_ref().map_or(Ok(()), Durable::acknowledge)
    }

    /// The moment of a call that brings no time of its own. No clock is read in a store that never forgets.
    ///
    /// # Errors
    ///
    /// As [`Core::admit`], and [`Error::TimeToLive`](crate::Error::TimeToLive).
    #[inline]
    pub(crate) fn moment(&self, ttl: Option<Duration>) -> Result<Moment> {
        self.admit()?;
        let now = if self.span.is_forever() { Timestamp::from_millis(0) } else { self.now() };
        self.span.moment(now, self.lag_ms(), ttl)
    }

    /// Adds what was recorded to the active table's count, and asks for a rotation when one is due.
    #[inline]
    pub(crate) fn settle(&self, view: &View, moment: Moment, recorded: &Recorded<'_>) {
        if recorded.until_max == 0 && moment.now < view.rotate_at {
            return;
        }
        let is_due = view.active.count(recorded.slots_created, recorded.until_max);
        if is_due || moment.now >= view.rotate_at {
            self.want_rotation(view.number);
        }
    }

    /// Asks the maintenance to rotate the active table of a view.
    #[cold]
    pub(crate) fn want_rotation(&self, view_number: u64) {
        if self.rotation_wanted.get() <= view_number && self.full_at.get() != view_number + 1 {
            self.rotation_wanted.raise(view_number + 1);
            if let Some(worker) = self.worker.get() {
                worker.wake();
            }
        }
    }

    /// Whether somebody wants the active table of a view rotated.
    pub(crate) fn is_rotation_wanted(&self, view_number: u64) -> bool {
        self.rotation_wanted.get() > view_number
    }

    /// Bytes charged against the memory budget, and those of filters that tables in use will get.
    pub(crate) fn memory_promised(&self, view: &View) -> u64 {
        let lacking = view.older.iter().filter(|older| older.filter.is_none()).map(|older| &older.table);
        let closing = view.closing.iter().map(|closing| &closing.table);
        let filters = std::iter::once(&view.active).chain(closing).chain(lacking);
        self.memory_bytes(view)
            + filters.map(|table| growth::filter_bytes(table.slots_limit().max(table.facts()))).sum::<u64>()
    }

    /// Bytes charged against the memory budget.
    pub(crate) fn memory_bytes(&self, view: &View) -> u64 {
        let unnamed = self.counters.memory_spare.get() + self.counters.memory_making();
        view.table_bytes() + view.filter_bytes() + unnamed
    }
}

impl View {
    /// States a fact in the active table; the only way that anything is decided (G1).
    ///
    /// The version is at least `until` and exceeds every fact that the place had.
    #[inline]
    pub(crate) fn record(
        &self,
        key: Fingerprint,
        place: &Place<'_>,
        state: State,
        until: u64,
        recorded: &mut Recorded<'_>,
    ) -> Result<(), Retry> {
        let stamp = self.active.stamp(state, until).ok_or(Retry::Outdated)?;
        recorded.ledger.reserve()?;
        self.record_stamp(key, place, stamp, recorded)?;
        let until = self.active.until(stamp);
        recorded.ledger.state(key, state, until);
        recorded.until_max = recorded.until_max.max(until);
        Ok(())
    }

    /// States of an ID that is pending that it was seen until `until` and forgotten: it stays pending, and
    /// reads as forgotten when nobody has a lease on it. The log is told the latter, as leases are in none.
    pub(crate) fn record_forgotten_pending(
        &self,
        key: Fingerprint,
        place: &Place<'_>,
        until: u64,
        recorded: &mut Recorded<'_>,
    ) -> Result<(), Retry> {
        let stamp = self.active.stamp(State::Pending, until.saturating_add(1)).ok_or(Retry::Outdated)?;
        recorded.ledger.reserve()?;
        self.record_stamp(key, place, stamp, recorded)?;
        recorded.ledger.state(key, State::Forgotten, until);
        recorded.until_max = recorded.until_max.max(until);
        Ok(())
    }

    /// States a stamp that is ready, in the active table only.
    #[inline]
    pub(crate) fn record_stamp(
        &self,
        key: Fingerprint,
        place: &Place<'_>,
        stamp: Stamp,
        recorded: &mut Recorded<'_>,
    ) -> Result<(), Retry> {
        match place {
            Place::Slot(cell, found) => cell.advance(*found, stamp).map_err(|_| Retry::Moved),
            Place::Exhausted => Err(Retry::Crowded),
            Place::Vacant(_) if self.active.is_crowded() && !recorded.is_urgent => Err(Retry::Crowded),
            Place::Vacant(vacancy) => {
                let located = self.active.locate(key, *vacancy).ok_or(Retry::Crowded)?;
                recorded.slots_created += u64::from(located.is_created);
                recorded.until_max = recorded.until_max.max(1);
                located.cell.advance(Stamp::UNDECIDED, stamp).map_err(|_| Retry::Moved)
            }
        }
    }
}

/// The hash of a store, for calls that bring IDs.
impl Core {
    /// The fingerprint of an ID under the store's secret.
    #[inline]
    pub(crate) fn fingerprint(&self, id: &[u8]) -> Result<Fingerprint> {
        self.hasher.fingerprint(id)
    }
}
