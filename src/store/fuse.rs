//! Compaction on disk: two neighbouring generations become one, slice by slice, while calls go on.
//!
//! Both files are read in the order of `hi` and written in the same order, with bounded memory. The newer
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
//! While more than [`GENERATIONS_MAX`] generations are listed two neighbours are fused: those of which the
//! older one is smallest beside all that is newer than it. So a file is only written again once as much has
//! come behind it as that is worth. With at most `k` generations kept and `n` tables sealed, all in all at
//! most `1 + 2/3 k n^(1/k)` times as much is written as was sealed, sealing included
//! ([`Capacity::writes_per_key`](crate::capacity::Capacity::writes_per_key)): in a simulation with tables of
//! one size 4.3 times with 20 tables (1.6 * 10^8 keys), 8 times with 200, 13 times with 1000.
//! [`Stats::sealed_bytes`](crate::Stats::sealed_bytes) and
//! [`Stats::compacted_bytes`](crate::Stats::compacted_bytes) count.
//!
//! The pair that is cheapest together was tried first. It is nearly always that of the two newest, so the
//! newest file was written again for each table until it was as large as the others: 22 times with 200
//! tables, 118 times with 1000.

use std::cmp;

use crate::bloom::{Bloom, Mask};
use crate::error::{Error, Result};
use crate::event::Event;
use crate::fingerprint::Fingerprint;
use crate::generation::{Generation, GenerationWriter, SealedFact, Spec};
use crate::limits::{GENERATIONS_MAX, GENERATIONS_MAX_WINDOWED, IDS_PER_STEP, LINES_PER_STEP};
use crate::stamp::{State, VERSION_MAX};
use crate::storage::names::generation_name;
use crate::sync::Arc;

use super::core::Core;
use super::durable::Durable;
use super::sealed::Sealed;
use super::succession::Succession;
use super::view::View;

/// Two generations that are being made one.
#[derive(Debug)]
pub(crate) struct Fusion {
    newer: Run,
    older: Run,
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
    /// The fusion that is most worth having, if there are too many generations.
    pub(crate) fn begin(core: &Core, durable: &Durable, view: &View) -> Result<Option<Fusion>> {
        let count_max = if core.span.is_forever() { GENERATIONS_MAX } else { GENERATIONS_MAX_WINDOWED };
        if view.sealed.len() <= count_max {
            return Ok(None);
        }
        let Some(index) = next_pair(&view.sealed) else { return Ok(None) };
        let pair = &view.sealed[index..index + 2];
        let (newer, older) = (pair[0].generation(), pair[1].generation());
        let (store_id, id) = (durable.store_id(), durable.generation_number());
        let spec = Spec {
            store_id,
            id,
            ids: pair[0].ids() + pair[1].ids(),
            birth: newer.birth().min(older.birth()),
            tick_ms: core.span.tick_ms(),
            is_forever: core.span.is_forever(),
        };
        Ok(Some(Fusion {
            newer: Run::new(newer),
            older: Run::new(older),
            writer: durable.write(|storage| GenerationWriter::create(storage, spec))?,
            now: if core.span.is_forever() { 0 } else { core.span.tick_at(core.now()) },
            behind: (core.span.is_forever()
                && pair.iter().all(|sealed| sealed.log_last() < durable.log_floor()))
            .then(|| view.sealed[index + 2..].iter().map(|sealed| Arc::clone(sealed.generation())).collect()),
        }))
    }

    /// Memory of the filter that is being made.
    pub(crate) fn filter_bytes(&self) -> u64 {
        self.writer.filter_bytes()
    }

    /// Memory that is taken beside it.
    pub(crate) fn buffer_bytes(&self) -> u64 {
        let facts = self.newer.facts.capacity() + self.older.facts.capacity();
        self.writer.buffer_bytes() + (facts * size_of::<SealedFact>()) as u64
    }

    /// Whether a generation is one of the two.
    pub(crate) fn is_source(&self, id: u64) -> bool {
        id == self.newer.generation.id() || id == self.older.generation.id()
    }

    /// Copies one slice; whether it was the last.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`](crate::Error::Corrupt) when a source is damaged: both stay as they are.
    pub(crate) fn step(&mut self, durable: &Durable) -> Result<bool> {
        for _ in 0..IDS_PER_STEP {
            let order = match (self.newer.peek()?, self.older.peek()?) {
                (None, None) => return Ok(true),
                (Some(_), None) => cmp::Ordering::Less,
                (None, Some(_)) => cmp::Ordering::Greater,
                (Some(newer), Some(older)) => newer.key.hi().cmp(&older.key.hi()),
            };
            let alone = match order {
                cmp::Ordering::Less => self.newer.facts.pop(),
                cmp::Ordering::Greater => self.older.facts.pop(),
                cmp::Ordering::Equal => None,
            };
            match alone {
                Some(fact) => self.copy(durable, fact)?,
                None => self.copy_both(durable)?,
            }
        }
        Ok(false)
    }

    /// Copies the next facts of both, which have the same `hi`: of one key as a rule, and the newer one hides
    /// the older.
    fn copy_both(&mut self, durable: &Durable) -> Result<()> {
        let Some(hi) = self.newer.peek()?.map(|fact| fact.key.hi()) else { return Ok(()) };
        let mut facts = self.newer.take(hi)?;
        for fact in self.older.take(hi)? {
            if facts.iter().all(|newer| newer.key != fact.key) {
                facts.push(fact);
            }
        }
        facts.into_iter().try_for_each(|fact| self.copy(durable, fact))
    }

    fn copy(&mut self, durable: &Durable, fact: SealedFact) -> Result<()> {
        if fact.until <= self.now || fact.state == State::Forgotten && self.is_hiding_nothing(fact.key) {
            return Ok(());
        }
        match self.writer.push(fact.key, fact.state, fact.until) {
            // Keys that are not evenly spread can't be fused; both sources are as good as before.
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
        let sources = [self.newer.generation.id(), self.older.generation.id()];
        if self.writer.ids() == 0 {
            durable.write(|storage| self.writer.abandon(storage))?;
            return replace(core, durable, succession, sources, None);
        }
        let (named, filter) = durable.write(|storage| self.writer.finish(storage))?;
        let store_id = durable.store_id();
        let generation =
            durable.write(|storage| Generation::open(storage, &named, store_id, durable.access))?;
        core.counters.compactions.add(1);
        core.counters.compacted_bytes.add(named.bytes);
        replace(core, durable, succession, sources, Some((generation, filter)))
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
    sources: [u64; 2],
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

/// Which of the generations, newest first, is best fused with the one behind it: where that one is smallest
/// beside all that is newer.
fn next_pair(sealed: &[Sealed]) -> Option<usize> {
    let mut newer = 0;
    let candidates = sealed.windows(2).enumerate().filter_map(|(index, pair)| {
        newer += u128::from(pair[0].ids());
        can_fuse(pair).then(|| (index, u128::from(pair[1].ids()), newer.max(1)))
    });
    // The smaller of two fractions, without dividing.
    candidates.min_by(|one, other| (one.1 * other.2).cmp(&(other.1 * one.2))).map(|(index, ..)| index)
}

/// Whether two neighbours are close enough in time for one file to state both.
fn can_fuse(pair: &[Sealed]) -> bool {
    let birth = pair.iter().map(|sealed| sealed.generation().birth()).min().unwrap_or(0);
    let until = pair.iter().map(|sealed| sealed.generation().until_max()).max().unwrap_or(0);
    until.saturating_sub(birth) <= u64::from(VERSION_MAX)
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
