//! Reading the log back into a table.
//!
//! The log is a set of facts: each key's largest wins, whatever the order. It is read once; what was taken
//! in is thrown away when the log turns out to be damaged. Facts that are over are left out: whatever they
//! hide in a sealed generation was over before them.

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::bloom::Mask;
use crate::clock::{Clock, Timestamp};
use crate::error::{Error, Result};
use crate::event::Event;
use crate::limits::{LOAD_EXPECTED_PERCENT, LOGGED_IDS_MAX, RECORD_BYTES, REFILL_IDS_FIRST};
use crate::manifest::Manifest;
use crate::options::Options;
use crate::stamp::State;
use crate::storage::names::{Name, segment_name};
use crate::storage::{Storage, failed};
use crate::table::{Table, lines_for};
use crate::wal::{self, Cut, Extent, Record, Recovered};
use crate::window::Span;

use super::fact::{Fact, Retry};
use super::growth;
use super::ledger::logged;
use super::refill::{Reach, Refill};
use super::sealed::Sealed;

/// How many records ahead a line is asked for.
const AHEAD: usize = 16;

/// The name under which the log keeps the time: no caller's cursor can have it.
pub(crate) const TIME_CURSOR: &str = "";

/// What to read, and under which options.
pub(super) struct Replay<'r> {
    pub(super) storage: &'r dyn Storage,
    pub(super) manifest: &'r Manifest,
    pub(super) span: &'r Span,
    pub(super) options: &'r Options,
    pub(super) sealed: &'r [Sealed],
}

/// What was read.
#[derive(Debug)]
pub(super) struct Replayed {
    /// At least one; the last is to be the active one.
    pub(super) tables: Vec<Table>,
    pub(super) records: u64,
    /// The latest time that the log knows.
    pub(super) time_ms: u64,
    pub(super) cursors: BTreeMap<String, u64>,
    pub(super) cut: Option<Cut>,
    pub(super) next_segment: u64,
    pub(super) next_seq: u64,
}

/// What was read so far.
struct Reading<'r> {
    replay: &'r Replay<'r>,
    reach: Reach,
    /// Whether the observer was told.
    has_begun: bool,
    /// The latest time that is known, and as a tick.
    time_ms: u64,
    now: u64,
    cursors: BTreeMap<String, u64>,
    refill: Option<Refill>,
    /// What ended it.
    failure: Option<Error>,
}

impl Replay<'_> {
    pub(super) fn run(&self) -> Result<Replayed> {
        let clock = self.options.clock.clone().unwrap_or_else(Clock::system);
        let now = self.tick_at(clock.now().as_millis().max(self.manifest.time_ms));
        let reading = RefCell::new(Reading {
            replay: self,
            reach: Reach::default(),
            has_begun: false,
            time_ms: self.manifest.time_ms,
            now,
            cursors: self.manifest_cursors(),
            refill: None,
            failure: None,
        });
        let recovered = self.read(&reading)?;
        let Reading { time_ms, now, cursors, refill, failure, .. } = reading.into_inner();
        if let Some(failure) = failure {
            return Err(failure);
        }
        if recovered.records > 0 {
            let (records, ids) = (recovered.records, refill.as_ref().map_or(0, Refill::ids));
            self.options.observer.tell(&Event::RecoveryFinished { records, ids });
        }
        self.tell_cut(recovered.cut, recovered.discarded_frames);
        Ok(Replayed {
            tables: refill.map_or_else(
                || self.first_table(now).map(|table| vec![table]),
                |refill| Ok(refill.into_tables()),
            )?,
            records: recovered.records,
            time_ms,
            cursors,
            cut: recovered.cut,
            next_segment: recovered.next_segment.max(self.manifest.log_floor),
            next_seq: recovered.next_seq,
        })
    }

    fn tick_at(&self, ms: u64) -> u64 {
        if self.span.is_forever() { 0 } else { self.span.tick_at(Timestamp::from_millis(ms)) }
    }

    fn manifest_cursors(&self) -> BTreeMap<String, u64> {
        let named = self.manifest.cursors.iter();
        named.map(|(name, value)| (String::from_utf8_lossy(name).into_owned(), *value)).collect()
    }

    fn ids_expected(&self) -> u64 {
        self.options.ids_expected.min(2 * LOGGED_IDS_MAX)
    }

    /// The table of a store whose log names no live ID.
    fn first_table(&self, now: u64) -> Result<Table> {
        let mut options = self.options.clone();
        options.ids_expected = self.ids_expected();
        growth::first_table(&options, now)
    }

    /// Tables to fill, for a log of so many bytes.
    fn first_refill(&self, bytes: u64, now: u64) -> Result<Refill> {
        let floor = growth::first_lines(self.options);
        let guessed_max = growth::budget_lines(self.options.memory_budget).max(floor);
        let guess = lines_for((bytes / RECORD_BYTES).min(REFILL_IDS_FIRST), LOAD_EXPECTED_PERCENT);
        let expected = lines_for(self.ids_expected(), LOAD_EXPECTED_PERCENT);
        Refill::new(guess.min(guessed_max).max(expected).max(floor), guessed_max, now)
    }

    fn read(&self, reading: &RefCell<Reading<'_>>) -> Result<Recovered> {
        let Manifest { store_id, log_floor, .. } = *self.manifest;
        if self.is_without_log()? {
            return Ok(Recovered {
                next_segment: log_floor,
                next_seq: 1,
                records: 0,
                frames: 0,
                cut: None,
                discarded_frames: 0,
            });
        }
        let extent = Extent { store_id, from: log_floor, cuts: &self.manifest.cuts };
        wal::recover(
            self.storage,
            extent,
            &mut |records| reading.borrow_mut().take_in(records),
            &mut |name, value| reading.borrow_mut().set_cursor(name, value),
            &mut |bytes_done, bytes| reading.borrow_mut().reached(Reach { bytes_done, bytes }),
        )
    }

    /// Whether a generation knows this fact, or a later one, already: a segment of the log is kept as long
    /// as any of its facts is in none.
    fn is_sealed(&self, record: Record) -> Result<bool, Retry> {
        let mask = Mask::of(record.key);
        for sealed in self.sealed.iter().filter(|sealed| sealed.may_contain(record.key, mask)) {
            let known = match sealed.fact(record.key)? {
                Fact::Seen(until) => logged(State::Seen, until),
                Fact::Forgotten(until) => logged(State::Forgotten, until),
                Fact::None | Fact::Pending(..) => continue,
            };
            // Newest first: what older ones know is less.
            return Ok(known >= record.fact);
        }
        Ok(false)
    }

    /// Whether there is no log and none is needed: the store is new, was closed, or kept none.
    fn is_without_log(&self) -> Result<bool> {
        let files = self.storage.list().map_err(failed("listing", "the directory"))?;
        let is_needed = |name| matches!(name, Name::Segment(number) if number >= self.manifest.log_floor);
        Ok(self.manifest.was_closed && !files.iter().filter_map(|file| Name::parse(file)).any(is_needed))
    }

    fn tell_cut(&self, cut: Option<Cut>, frames_discarded: u64) {
        if let Some(cut) = cut {
            let (file, offset) = (segment_name(cut.segment), cut.offset);
            self.options.observer.tell(&Event::LogCut { file, offset, frames_discarded });
        }
    }
}

impl Reading<'_> {
    fn take_in(&mut self, records: &[Record]) {
        if !self.has_begun {
            self.has_begun = true;
            let bytes = self.reach.bytes;
            self.replay.options.observer.tell(&Event::RecoveryStarted { bytes });
        }
        if self.failure.is_none() {
            self.failure = self.fill(records).err();
        }
    }

    fn fill(&mut self, records: &[Record]) -> Result<()> {
        for (index, record) in records.iter().enumerate() {
            if let (Some(ahead), Some(refill)) = (records.get(index + AHEAD), &self.refill) {
                refill.prefetch(ahead.key);
            }
            let is_known =
                record.fact >> 2 <= self.now || self.replay.is_sealed(*record).map_err(|_| self.damage())?;
            if !is_known {
                let refill = match &mut self.refill {
                    Some(refill) => refill,
                    none => none.insert(self.replay.first_refill(self.reach.bytes, self.now)?),
                };
                refill.take_in(*record, self.reach)?;
            }
        }
        Ok(())
    }

    /// Why a generation could not be asked.
    #[cold]
    fn damage(&self) -> Error {
        let latest = self.replay.sealed.iter().find_map(Sealed::damage);
        latest.unwrap_or(Error::Poisoned { operation: "reading a sealed file" })
    }

    fn set_cursor(&mut self, name: &str, value: u64) {
        if name == TIME_CURSOR {
            self.time_ms = value.max(self.time_ms);
            self.now = self.replay.tick_at(value).max(self.now);
        } else {
            self.cursors.insert(name.to_owned(), value);
        }
    }

    fn reached(&mut self, reach: Reach) {
        self.reach = reach;
        if self.has_begun {
            let Reach { bytes_done, bytes } = reach;
            self.replay.options.observer.tell(&Event::RecoveryProgress { bytes_done, bytes });
        }
    }
}
