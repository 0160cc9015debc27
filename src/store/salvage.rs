//! Salvage: a new store from everything that still reads of a damaged one.
//!
//! 1. find out what is known of the store, from its manifest or else from its files ([`Evidence`]);
//! 2. read every whole frame of the log, and sort its facts;
//! 3. merge them with the lines of all generations, in the order of `hi`, into one new generation: of each
//!    key the largest fact wins, as everywhere;
//! 4. write the secret, and last the manifest, which makes it a store.
//!
//! Memory: 24 bytes for each fact in the log, a filter, and a block of each generation.

use std::iter::Peekable;

use crate::error::{Error, Result};
use crate::generation::{GenerationWriter, Sealed, SealedFact, Spec, Survivors};
use crate::manifest::{Manifest, write_secret};
use crate::options::Options;
use crate::stamp::{State, VERSION_MAX};
use crate::storage::names::LOCK;
use crate::storage::{Storage, failed};
use crate::wal::{self, Extent, Record};

use super::evidence::Evidence;
use super::ledger::logged;
use super::outcome::Salvage;
use super::replay::TIME_CURSOR;
use super::verify::lock_to_read;

/// Makes a new store in `target` of what still reads in `source`, which is not touched.
pub(crate) fn salvage(source: &dyn Storage, target: &dyn Storage, options: &Options) -> Result<Salvage> {
    options.validate()?;
    let _source_lock = lock_to_read(source)?;
    let _target_lock = target.lock(LOCK).map_err(|error| super::open::refused_lock(target, error))?;
    let files = target.list().map_err(failed("listing", &target.place()))?;
    if let Some(file) = files.iter().find(|file| *file != LOCK) {
        let reason = format!("the directory is not empty, it has {file}");
        return Err(Error::Option { name: "salvage", reason });
    }
    let mut salvage = Salvage::default();
    let mut evidence = Evidence::gather(source, options, &mut salvage)?;
    let facts = read_log(source, &mut evidence, &mut salvage)?;
    let evidence = evidence.settle(&facts, options)?;
    let manifest = Rescue { source, target, evidence: &evidence }.run(facts, &mut salvage)?;
    if let Some(secret) = &evidence.stored_secret {
        write_secret(target, secret)?;
    }
    manifest.write(target)?;
    Ok(salvage)
}

/// All facts in the log in the order of keys, of each key the largest. Notes cursors and the time.
fn read_log(source: &dyn Storage, evidence: &mut Evidence, salvage: &mut Salvage) -> Result<Vec<SealedFact>> {
    let mut facts = Vec::new();
    let extent = Extent { store_id: evidence.store_id, from: evidence.log_from, cuts: &evidence.cuts };
    let mut apply = |records: &[Record]| facts.extend(records.iter().filter_map(fact_of));
    let (cursors, time_ms) = (&mut evidence.cursors, &mut evidence.time_ms);
    let mut cursor = |name: &str, value: u64| {
        if name == TIME_CURSOR {
            *time_ms = value.max(*time_ms);
        } else {
            cursors.insert(name.as_bytes().to_vec(), value);
        }
    };
    let salvaged = wal::salvage(source, extent, &mut apply, &mut cursor)?;
    salvage.log_records = salvaged.records;
    salvage.frames_lost = salvaged.frames_lost;
    salvage.files_unreadable += salvaged.segments_unreadable;
    salvage.damages.extend(salvaged.damages);
    keep_largest(&mut facts);
    Ok(facts)
}

fn fact_of(record: &Record) -> Option<SealedFact> {
    let (state, until) = match record.fact & 3 {
        bits if bits == State::Seen as u64 => (State::Seen, record.fact >> 2),
        bits if bits == State::Forgotten as u64 => (State::Forgotten, record.fact >> 2),
        _ => return None,
    };
    Some(SealedFact { key: record.key, state, until })
}

/// Sorts facts by key, and keeps the largest of each.
fn keep_largest(facts: &mut Vec<SealedFact>) {
    facts.sort_unstable_by_key(|fact| (fact.key, logged(fact.state, fact.until)));
    facts.dedup_by(|later, earlier| {
        let is_same = later.key == earlier.key;
        if is_same {
            *earlier = *later;
        }
        is_same
    });
}

/// Step 3.
struct Rescue<'r> {
    source: &'r dyn Storage,
    target: &'r dyn Storage,
    evidence: &'r Evidence,
}

impl Rescue<'_> {
    /// Writes the new generation; answers the manifest that names it.
    fn run(&self, facts: Vec<SealedFact>, salvage: &mut Salvage) -> Result<Manifest> {
        let spec = self.spec(&facts);
        let mut survivors = self.open_survivors(salvage);
        let mut writer = GenerationWriter::create(self.target, spec)?;
        let mut sources: Vec<Peekable<&mut dyn Iterator<Item = SealedFact>>> = Vec::new();
        let mut logged = facts.into_iter();
        sources.push((&mut logged as &mut dyn Iterator<Item = SealedFact>).peekable());
        for survivor in &mut survivors {
            sources.push((survivor as &mut dyn Iterator<Item = SealedFact>).peekable());
        }
        let until_max = spec.birth.saturating_add(VERSION_MAX.into());
        let mut group = Vec::new();
        while next_group(&mut sources, &mut group) {
            // What is forgotten hides nothing any more: all that is known is here.
            for fact in group.iter().filter(|fact| fact.state == State::Seen) {
                writer.push(fact.key, fact.state, fact.until.min(until_max))?;
            }
        }
        drop(sources);
        for survivor in &survivors {
            salvage.lines_lost += survivor.lines_lost();
            salvage.damages.extend_from_slice(survivor.damages());
        }
        salvage.ids = writer.ids();
        let sealed = self.finish(writer)?;
        Ok(self.evidence.manifest(spec.store_id, sealed))
    }

    /// What the new generation is going to be. A store that never forgets counts revisions from 0; in others
    /// versions are counted so that the latest fits, and what is too old for that was over long before.
    fn spec(&self, facts: &[SealedFact]) -> Spec {
        let Evidence { generations, span, new_store_id, .. } = self.evidence;
        let latest = facts.iter().map(|fact| fact.until).max().unwrap_or(0);
        let until_max = generations.iter().map(|named| named.until_max).fold(latest, u64::max);
        let is_forever = span.is_forever();
        Spec {
            store_id: *new_store_id,
            id: 1,
            ids: generations.iter().map(|named| named.ids).sum::<u64>() + facts.len() as u64,
            birth: if is_forever { 0 } else { until_max.saturating_sub(VERSION_MAX.into()) },
            tick_ms: span.tick_ms(),
            is_forever,
        }
    }

    fn open_survivors(&self, salvage: &mut Salvage) -> Vec<Survivors> {
        let mut survivors = Vec::new();
        for named in &self.evidence.generations {
            match Survivors::open(self.source, named, self.evidence.store_id) {
                Ok(opened) => survivors.push(opened),
                Err(error) => {
                    salvage.files_unreadable += 1;
                    salvage.damages.push(error);
                }
            }
        }
        survivors
    }

    fn finish(&self, writer: GenerationWriter) -> Result<Option<Sealed>> {
        if writer.ids() == 0 {
            return writer.abandon(self.target).map(|()| None);
        }
        writer.finish(self.target).map(|(sealed, _)| Some(sealed))
    }
}

/// The facts of all sources with the smallest `hi` that is left, of each key the largest, in the order of
/// keys; false at the end.
fn next_group(
    sources: &mut [Peekable<&mut dyn Iterator<Item = SealedFact>>],
    group: &mut Vec<SealedFact>,
) -> bool {
    group.clear();
    let heads = sources.iter_mut().filter_map(|source| source.peek().map(|fact| fact.key.hi()));
    let Some(hi) = heads.min() else { return false };
    for source in sources {
        while let Some(fact) = source.next_if(|fact| fact.key.hi() == hi) {
            group.push(fact);
        }
    }
    keep_largest(group);
    true
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;
    use crate::fingerprint::Fingerprint;

    #[test]
    fn largest_fact_of_each_key_is_kept_in_order() {
        let fact = |hi, lo, state, until| SealedFact { key: Fingerprint::from_halves(hi, lo), state, until };
        let mut facts = vec![
            fact(2, 1, State::Seen, 4),
            fact(1, 2, State::Seen, 9),
            fact(2, 1, State::Forgotten, 4),
            fact(1, 1, State::Seen, 1),
            fact(2, 1, State::Seen, 3),
        ];
        keep_largest(&mut facts);
        let expected =
            [fact(1, 1, State::Seen, 1), fact(1, 2, State::Seen, 9), fact(2, 1, State::Forgotten, 4)];
        assert_eq!(facts, expected);
    }
}
