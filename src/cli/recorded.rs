//! `filter --store`: a record is recorded as seen only after it was written, and has arrived.
//!
//! For each block: ask the store which records are seen, write the others, flush, and when they have arrived
//! ([`Output::arrived`]) record them. A run that is killed in between loses no record: the next one writes
//! again what was not recorded, at most a block and what a pipe holds. Records that are written but not
//! recorded yet are known here, so that none of them is written twice by one run.
//!
//! Nobody else records in between: one process has a store open at a time, and one thread of it is here. So
//! this is what claims and commits would do, without a lease for each record.

use std::collections::{HashSet, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::time::Duration;

use firstseen::{Fingerprint, Store, Verdict, Window};

use super::block::Block;
use super::exit::Failure;
use super::output::Output;
use super::settings::Format;
use super::sift::Sift;
use super::summary::Counts;

/// How often a pipe is asked whether its reader has caught up, while nothing else is to be done.
const PAUSE: Duration = Duration::from_millis(10);

/// Writes what is new, then records it.
pub(super) struct Recorder<'a> {
    store: &'a Store,
    format: Format,
    output: Output,
    /// Whether being seen again moves a record's window.
    slides: bool,
    /// Written and not recorded yet, in the order of writing.
    written: VecDeque<Written>,
    in_flight: HashSet<Fingerprint, BuildHasherDefault<Spread>>,
    counts: Counts,
    /// Reused from block to block.
    seen: Vec<bool>,
    verdicts: Vec<Verdict>,
}

/// What one block has to record.
struct Written {
    /// How many bytes were written with this block.
    end: u64,
    keys: Vec<Fingerprint>,
}

impl<'a> Recorder<'a> {
    pub(super) fn new(store: &'a Store, format: Format, output: Output) -> Self {
        Self {
            store,
            format,
            output,
            slides: matches!(store.window(), Window::Sliding(_)),
            written: VecDeque::new(),
            in_flight: HashSet::default(),
            counts: Counts::default(),
            seen: Vec::new(),
            verdicts: Vec::new(),
        }
    }

    /// Records the blocks that have arrived.
    fn record_arrived(&mut self) -> Result<(), Failure> {
        if self.written.is_empty() {
            return Ok(());
        }
        let arrived = self.output.arrived()?;
        while self.written.front().is_some_and(|written| written.end <= arrived) {
            let Some(written) = self.written.pop_front() else { break };
            self.verdicts.resize(self.verdicts.len().max(written.keys.len()), Verdict::Duplicate);
            let verdicts = &mut self.verdicts[..written.keys.len()];
            self.store.check_fingerprints(&written.keys, verdicts).map_err(Failure::Store)?;
            if self.written.is_empty() {
                self.in_flight.clear();
            } else {
                for key in &written.keys {
                    self.in_flight.remove(key);
                }
            }
        }
        Ok(())
    }
}

impl Sift for Recorder<'_> {
    fn store(&self) -> &Store {
        self.store
    }

    fn format(&self) -> Format {
        self.format
    }

    fn counts(&self) -> Counts {
        self.counts
    }

    fn pass(&mut self, block: &mut Block) -> Result<(), Failure> {
        block.fingerprint_records(self.store, self.format).map_err(Failure::Store)?;
        let records = block.records();
        self.seen.resize(self.seen.len().max(records), false);
        let seen = &mut self.seen[..records];
        self.store.contains_fingerprints(block.fingerprints(), seen).map_err(Failure::Store)?;
        let mut keys = Vec::new();
        for (key, seen) in block.fingerprints().iter().zip(seen.iter_mut()) {
            *seen = *seen || !self.in_flight.insert(*key);
            if self.slides || !*seen {
                keys.push(*key);
            }
        }
        self.counts.records += records as u64;
        self.counts.bytes_read += block.input_bytes() as u64;
        self.counts.first_seen += seen.iter().filter(|seen| !**seen).count() as u64;
        let kept = block.keep(seen.iter().map(|seen| !*seen));
        self.output.write(kept)?;
        self.counts.bytes_written += kept.len() as u64;
        if !keys.is_empty() {
            self.written.push_back(Written { end: self.output.written(), keys });
        }
        self.record_arrived()
    }

    fn settle(&mut self) -> Result<Option<Duration>, Failure> {
        self.record_arrived()?;
        if self.written.is_empty() {
            return Ok(None);
        }
        self.output.wait(Duration::ZERO)?;
        Ok(Some(PAUSE))
    }

    fn finish(&mut self) -> Result<(), Failure> {
        while let Some(pause) = self.settle()? {
            self.output.wait(pause)?;
        }
        Ok(())
    }
}

/// Hashes fingerprints, which are evenly spread already, by their last half.
#[derive(Default)]
pub(super) struct Spread(u64);

impl Hasher for Spread {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.0 = u64::from_ne_bytes(word);
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = word;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
