//! Reading the log back into a table.
//!
//! The log is a set of facts: each key's largest wins, whatever the order. It is read twice, first to count
//! (so that the table is made once, as large as needed, and nothing is taken in from a log that turns out to
//! be damaged), then to fill. Facts that are over are left out: whatever they hide in a sealed generation was
//! over before them.

use std::collections::BTreeMap;

use crate::bloom::Mask;
use crate::clock::{Clock, Timestamp};
use crate::error::{Error, Result};
use crate::event::Event;
use crate::limits::{LOAD_EXPECTED_PERCENT, LOGGED_IDS_MAX};
use crate::manifest::Manifest;
use crate::options::Options;
use crate::stamp::{State, VERSION_MAX};
use crate::storage::names::{Name, segment_name};
use crate::storage::{Storage, failed};
use crate::table::{Table, lines_for, reserve};
use crate::wal::{self, Cut, Extent, Record, Recovered};
use crate::window::Span;

use super::fact::{Fact, Retry};
use super::growth;
use super::ledger::logged;
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
    pub(super) table: Table,
    pub(super) records: u64,
    /// The latest time that the log knows.
    pub(super) time_ms: u64,
    pub(super) cursors: BTreeMap<String, u64>,
    pub(super) cut: Option<Cut>,
    pub(super) next_segment: u64,
    pub(super) next_seq: u64,
}

/// What the first reading has found.
#[derive(Debug, Default)]
struct Survey {
    records: u64,
    until_max: u64,
    time_ms: u64,
    cursors: BTreeMap<String, u64>,
}

impl Replay<'_> {
    pub(super) fn run(&self) -> Result<Replayed> {
        let mut survey = Survey { cursors: self.manifest_cursors(), ..Survey::default() };
        let recovered = self.survey(&mut survey)?;
        let clock = self.options.clock.clone().unwrap_or_else(Clock::system);
        let time_ms = self.manifest.time_ms.max(survey.time_ms);
        let now = self.tick_at(clock.now().as_millis().max(time_ms));
        let table = self.table_for(&survey, now)?;
        if recovered.records > 0 {
            let ids = self.fill(&table, now)?;
            let records = recovered.records;
            self.options.observer.tell(&Event::RecoveryFinished { records, ids });
        }
        let cut = recovered.cut;
        self.tell_cut(cut, recovered.discarded_frames);
        Ok(Replayed {
            table,
            records: recovered.records,
            time_ms,
            cursors: survey.cursors,
            cut,
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

    /// The first reading.
    fn survey(&self, survey: &mut Survey) -> Result<Recovered> {
        if self.is_without_log()? {
            let next_segment = self.manifest.log_floor;
            return Ok(Recovered {
                next_segment,
                next_seq: 1,
                records: 0,
                frames: 0,
                cut: None,
                discarded_frames: 0,
            });
        }
        let Survey { records, until_max, time_ms, cursors } = survey;
        let mut apply = |slice: &[Record]| {
            *records += slice.len() as u64;
            *until_max = slice.iter().map(|record| record.fact >> 2).fold(*until_max, u64::max);
        };
        let mut cursor = |name: &str, value: u64| {
            if name == TIME_CURSOR {
                *time_ms = value.max(*time_ms);
            } else {
                cursors.insert(name.to_owned(), value);
            }
        };
        self.read(&mut apply, &mut cursor, &mut |_, _| {})
    }

    /// A table with room for all records, born late enough to state the latest of them.
    fn table_for(&self, survey: &Survey, now: u64) -> Result<Table> {
        let birth = match self.span.is_forever() {
            true => 0,
            false => now.max(survey.until_max.saturating_sub(u64::from(VERSION_MAX))),
        };
        if survey.records == 0 {
            let mut options = self.options.clone();
            options.ids_expected = options.ids_expected.min(2 * LOGGED_IDS_MAX);
            return growth::first_table(&options, birth);
        }
        let ids = survey.records.max(self.options.ids_expected.min(2 * LOGGED_IDS_MAX));
        let floor = growth::first_lines(self.options);
        let lines = lines_for(ids, LOAD_EXPECTED_PERCENT).max(floor);
        let memory = reserve(lines)?;
        growth::touch_whole(&memory);
        Ok(Table::new(memory, birth))
    }

    /// The second reading; returns how many live IDs there are.
    fn fill(&self, table: &Table, now: u64) -> Result<u64> {
        let (mut ids, mut has_room, mut damage) = (0, true, None);
        let mut apply = |records: &[Record]| {
            for (index, record) in records.iter().enumerate() {
                if let Some(ahead) = records.get(index + AHEAD) {
                    table.prefetch(ahead.key);
                }
                match self.is_sealed(*record).map(|is_sealed| is_sealed || record.fact >> 2 <= now) {
                    Ok(true) => {}
                    Ok(false) => match take_in(table, *record) {
                        Some(is_new) => ids += u64::from(is_new),
                        None => has_room = false,
                    },
                    Err(retry) => damage = Some(retry),
                }
            }
        };
        let observer = &self.options.observer;
        let mut begun = false;
        let mut progress = |bytes_done: u64, bytes: u64| {
            if !begun {
                begun = true;
                observer.tell(&Event::RecoveryStarted { bytes });
            }
            observer.tell(&Event::RecoveryProgress { bytes_done, bytes });
        };
        self.read(&mut apply, &mut |_, _| {}, &mut progress)?;
        if damage.is_some()
            && let Some(error) = self.sealed.iter().find_map(Sealed::damage)
        {
            return Err(error);
        }
        if has_room { Ok(ids) } else { Err(Error::Uneven { tables: 1 }) }
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

    fn read(
        &self,
        apply: &mut dyn FnMut(&[Record]),
        cursor: &mut dyn FnMut(&str, u64),
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Recovered> {
        let Manifest { store_id, log_floor, .. } = *self.manifest;
        let extent = Extent { store_id, from: log_floor, cuts: &self.manifest.cuts };
        wal::recover(self.storage, extent, apply, cursor, progress)
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

/// Takes one fact in; whether its key is new to the table, `None` when there is no room.
fn take_in(table: &Table, record: Record) -> Option<bool> {
    let state = if record.fact & 3 == State::Forgotten as u64 { State::Forgotten } else { State::Seen };
    let until = record.fact >> 2;
    // The birth was chosen so that every version fits.
    let stamp = table.stamp(state, until)?;
    table.raise(record.key, stamp, until)
}
