//! Compaction on disk: neighbouring generations become one, slice by slice, while calls go on.
//!
//! All are read in the order of `hi` and written in the same order, with bounded memory. The newer
//! fact of a key hides the older one, since a new fact always exceeds those found before it. What is over is
//! left out, and forgotten facts where nothing older is left to be hidden.
//!
//! ```text
//! generation-7 (newer) \
//!                       > generation-9.new --sync, rename--> generation-9 --> MANIFEST names it instead
//! generation-4 (older) /                       --> view lists it instead --> both sources are removed
//! ```
//!
//! A crash before the manifest is replaced leaves the sources, after it the result; the next opening removes
//! the files that no manifest names.
//!
//! # How much is written
//!
//! While more than [`GENERATIONS_MAX`] generations are listed the one that is smallest beside all that is
//! newer than it is fused with all that is newer, where IDs have windows with its neighbour only. So a file
//! is only written again once as much has come behind it as that is worth. With at most `k` generations kept
//! and `n` tables sealed, all in all at most `1 + 2/3 k n^(1/k)` times as much is written as was sealed,
//! sealing included ([`Capacity::writes_per_key`](crate::capacity::Capacity::writes_per_key)): of 240 tables
//! of one size 5.3 times. [`Stats::sealed_bytes`](crate::Stats::sealed_bytes) and
//! [`Stats::compacted_bytes`](crate::Stats::compacted_bytes) count.
//!
//! Two neighbours at a time were tried first: those that were cheapest together, which were nearly always the
//! two newest, so the newest file was written again for each table until it was as large as the others: 22
//! times with 200 tables, 118 times with 1000; then the same choice as now, 8.3 times with 240.

use std::ops::Range;

use crate::bloom::{Bloom, Mask};
use crate::error::{Error, Result};
use crate::event::Event;
use crate::fingerprint::Fingerprint;
use crate::generation::{Generation, GenerationWriter, SealedFact, Spec};
use crate::limits::{
    FUSED_TABLES_BEHIND, GENERATIONS_BEHIND, GENERATIONS_MAX, GENERATIONS_MAX_WINDOWED, IDS_PER_STEP,
    LINES_PER_STEP,
};
use crate::stamp::{State, VERSION_MAX};
use crate::storage::names::generation_name;
use crate::sync::Arc;

use super::core::Core;
use super::durable::Durable;
use super::sealed::Sealed;
use super::succession::Succession;
use super::view::View;

/// Generations that are being made one.
#[derive(Debug)]
pub(crate) struct Fusion {
    /// The sources, newest first.
    runs: Vec<Run>,
    writer: GenerationWriter,
    /// The present, in ticks, when it began: what is over by then is left out.
    now: u64,
    /// The generations older than these, in a store that never forgets by itself: a forgotten fact may go
    /// when none of them has anything that it hides. Elsewhere it says how long its ID stays seen when it
    /// comes again. The log must not tell of them any more either: read back, a forgotten fact would hide
    /// what was seen anew with a version that began from the first again. `None` where forgotten facts stay.
    behind: Option<Vec<Arc<Generation>>>,
}

impl Fusion {
    /// What is most worth being fused, if there are too many generations.
    pub(crate) fn next(core: &Core, view: &View) -> Option<Range<usize>> {
        let count_max = if core.span.is_forever() { GENERATIONS_MAX } else { GENERATIONS_MAX_WINDOWED };
        if view.sealed.len() <= count_max {
            return None;
        }
        // Files with a window go as a whole when they are over; fusing many would only keep them longer.
        let newest = |older: usize| if core.span.is_forever() { 0 } else { older - 1 };
        let sizes: Vec<u64> = view.sealed.iter().map(Sealed::ids).collect();
        let ranges = (1..sizes.len()).map(|older| newest(older)..older + 1);
        let ranges: Vec<_> = ranges.filter(|range| can_fuse(&view.sealed[range.clone()])).collect();
        // Callers wait for it once there are too many: what takes long comes when there is nothing else to
        // do.
        let is_behind = view.sealed.len() >= GENERATIONS_BEHIND;
        let most = if is_behind { FUSED_TABLES_BEHIND * view.active.slots_rotate() } else { u64::MAX };
        let is_short = |range: &Range<usize>| sizes[range.clone()].iter().sum::<u64>() <= most;
        let short = ranges.iter().filter(|range| is_short(range)).cloned();
        least_beside_newer(&sizes, short).or_else(|| least_beside_newer(&sizes, ranges.iter().cloned()))
    }

    /// Begins with generations that [`Fusion::next`] has named.
    pub(crate) fn begin(core: &Core, durable: &Durable, view: &View, range: Range<usize>) -> Result<Fusion> {
        let sources = &view.sealed[range.clone()];
        let spec = Spec {
            store_id: durable.store_id(),
            id: durable.generation_number(),
            ids: ids_of(sources),
            birth: birth_of(sources),
            tick_ms: core.span.tick_ms(),
            is_forever: core.span.is_forever(),
        };
        let is_logged = sources.iter().any(|sealed| sealed.log_last() >= durable.log_floor());
        let behind = || view.sealed[range.end..].iter().map(|sealed| Arc::clone(sealed.generation()));
        Ok(Fusion {
            runs: sources.iter().map(|sealed| Run::new(sealed.generation())).collect(),
            writer: durable.write(|storage| GenerationWriter::create(storage, spec))?,
            now: if core.span.is_forever() { 0 } else { core.span.tick_at(core.now()) },
            behind: (core.span.is_forever() && !is_logged).then(|| behind().collect()),
        })
    }

    /// Memory of the filter that is being made.
    pub(crate) fn filter_bytes(&self) -> u64 {
        self.writer.filter_bytes()
    }

    /// Memory that is taken beside it.
    pub(crate) fn buffer_bytes(&self) -> u64 {
        let facts = self.runs.iter().map(|run| run.facts.capacity()).sum::<usize>();
        self.writer.buffer_bytes() + (facts * size_of::<SealedFact>()) as u64
    }

    /// Whether a generation is one of the sources.
    pub(crate) fn is_source(&self, id: u64) -> bool {
        self.runs.iter().any(|run| run.generation.id() == id)
    }

    /// Copies one slice; whether it was the last.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`](crate::Error::Corrupt) when a source is damaged: all stay as they are.
    pub(crate) fn step(&mut self, durable: &Durable) -> Result<bool> {
        for _ in 0..IDS_PER_STEP {
            let Some((hi, next)) = self.next_hi()? else { return Ok(true) };
            match next {
                Some(run) => {
                    let fact = self.runs[run].facts.pop();
                    fact.map_or(Ok(()), |fact| self.copy(durable, fact))?;
                }
                None => self.copy_shared(durable, hi)?,
            }
        }
        Ok(false)
    }

    /// The least `hi` that is next in any source, and in which, if that is only one.
    fn next_hi(&mut self) -> Result<Option<(u64, Option<usize>)>> {
        let mut least: Option<(u64, Option<usize>)> = None;
        for (index, run) in self.runs.iter_mut().enumerate() {
            let Some(hi) = run.peek()?.map(|fact| fact.key.hi()) else { continue };
            match least {
                Some((other, _)) if other < hi => {}
                Some((other, _)) if other == hi => least = Some((hi, None)),
                _ => least = Some((hi, Some(index))),
            }
        }
        Ok(least)
    }

    /// Copies all facts with a `hi` that several sources have: of one key as a rule, and the newest hides the
    /// others.
    fn copy_shared(&mut self, durable: &Durable, hi: u64) -> Result<()> {
        let mut facts: Vec<SealedFact> = Vec::new();
        for run in &mut self.runs {
            for fact in run.take(hi)? {
                if facts.iter().all(|newer| newer.key != fact.key) {
                    facts.push(fact);
                }
            }
        }
        facts.into_iter().try_for_each(|fact| self.copy(durable, fact))
    }

    fn copy(&mut self, durable: &Durable, fact: SealedFact) -> Result<()> {
        if fact.until <= self.now || fact.state == State::Forgotten && self.is_hiding_nothing(fact.key) {
            return Ok(());
        }
        match self.writer.push(fact.key, fact.state, fact.until) {
            // Keys that are not evenly spread can't be fused; the sources are as good as before.
            Err(error @ (Error::Uneven { .. } | Error::RevisionsUsedUp)) => Err(error),
            outcome => outcome.map_err(|error| durable.poison(error)),
        }
    }

    /// Whether no older generation has a key, for certain.
    fn is_hiding_nothing(&self, key: Fingerprint) -> bool {
        let mask = Mask::of(key);
        self.behind
            .as_ref()
            .is_some_and(|behind| behind.iter().all(|older| !older.may_contain_masked(key, mask)))
    }

    /// Puts the result in the place of its sources.
    pub(crate) fn finish(self, core: &Core, durable: &Durable, succession: &mut Succession) -> Result<()> {
        let sources: Vec<u64> = self.runs.iter().map(|run| run.generation.id()).collect();
        if self.writer.ids() == 0 {
            durable.write(|storage| self.writer.abandon(storage))?;
            return replace(core, durable, succession, &sources, None);
        }
        let (named, filter) = durable.write(|storage| self.writer.finish(storage))?;
        let store_id = durable.store_id();
        let generation =
            durable.write(|storage| Generation::open_written(storage, &named, store_id, durable.access))?;
        core.counters.compactions.add(1);
        core.counters.compacted_bytes.add(named.bytes);
        replace(core, durable, succession, &sources, Some((generation, filter)))
    }

    /// Gives up, as a source is over: it goes as a whole.
    pub(crate) fn abandon(self, durable: &Durable) -> Result<()> {
        durable.write(|storage| self.writer.abandon(storage))
    }
}

/// The manifest first, then the view, then the files.
fn replace(
    core: &Core,
    durable: &Durable,
    succession: &mut Succession,
    sources: &[u64],
    result: Option<(Generation, Arc<Bloom>)>,
) -> Result<()> {
    let named = result.as_ref().map(|(generation, _)| generation.sealed());
    let log_last = durable.log_segment();
    durable.replace_manifest(core.now(), &core.cursors, |manifest| {
        let place = manifest.generations.iter().position(|named| sources.contains(&named.id)).unwrap_or(0);
        manifest.generations.retain(|named| !sources.contains(&named.id));
        if let Some(named) = named {
            manifest.generations.insert(place, named);
        }
    })?;
    let result = result.map(|(generation, filter)| (Sealed::new(generation, log_last), filter));
    succession.publish(&core.views, |view| view.replace_sealed(sources, result));
    if let Some(named) = named {
        let (file, ids, bytes) = (generation_name(named.id), named.ids, named.bytes);
        durable.events.note(Event::GenerationsFused { file, ids, bytes });
    }
    sources.iter().try_for_each(|id| durable.remove(&generation_name(*id)))
}

/// The range whose last and oldest one is smallest beside all that is newer, of `sizes` newest first: so
/// nothing is written again before as much has come behind it as that is worth.
pub(super) fn least_beside_newer(
    sizes: &[u64],
    ranges: impl Iterator<Item = Range<usize>>,
) -> Option<Range<usize>> {
    let share = |range: &Range<usize>| {
        let older = range.end - 1;
        let newer = sizes[..older].iter().sum::<u64>().max(1);
        // A fraction, as a whole number.
        (u128::from(sizes[older]) << 32) / u128::from(newer)
    };
    ranges.min_by_key(share)
}

fn ids_of(sealed: &[Sealed]) -> u64 {
    sealed.iter().map(Sealed::ids).sum()
}

fn birth_of(sealed: &[Sealed]) -> u64 {
    sealed.iter().map(|sealed| sealed.generation().birth()).min().unwrap_or(0)
}

/// Whether neighbours are close enough in time for one file to state all.
fn can_fuse(sealed: &[Sealed]) -> bool {
    let until = sealed.iter().map(|sealed| sealed.generation().until_max()).max().unwrap_or(0);
    until.saturating_sub(birth_of(sealed)) <= u64::from(VERSION_MAX)
}

/// One generation, read from its first line to its last.
#[derive(Debug)]
struct Run {
    generation: Arc<Generation>,
    line_next: u64,
    /// What was read and not taken yet, the next one last.
    facts: Vec<SealedFact>,
}

impl Run {
    fn new(generation: &Arc<Generation>) -> Run {
        Run { generation: Arc::clone(generation), line_next: 0, facts: Vec::new() }
    }

    /// The next fact.
    fn peek(&mut self) -> Result<Option<SealedFact>> {
        while self.facts.is_empty() && self.line_next < self.generation.lines() {
            self.generation.facts_in(self.line_next, LINES_PER_STEP, &mut self.facts)?;
            self.line_next += LINES_PER_STEP;
            self.facts.reverse();
        }
        Ok(self.facts.last().copied())
    }

    /// All facts with this `hi`, which is not less than that of the next one's.
    fn take(&mut self, hi: u64) -> Result<Vec<SealedFact>> {
        let mut taken = Vec::new();
        while let Some(fact) = self.peek()?.filter(|fact| fact.key.hi() == hi) {
            taken.push(fact);
            self.facts.pop();
        }
        Ok(taken)
    }
}
