//! A sealed generation as one call sees it: a file and its filter.

use crate::bloom::{Bloom, Mask};
use crate::error::Error;
use crate::fingerprint::Fingerprint;
use crate::generation::Generation;
use crate::limits::LINE_BYTES;
use crate::stamp::State;
use crate::sync::{Arc, Counter, Mutex};

use super::fact::{Fact, Retry};

/// A look-up in a file for so many of its lines: one for every fourth page.
const LINES_PER_ASKED: u64 = 4 * 4096 / LINE_BYTES;

/// One of so many look-ups in a file asks whether it has to wait for the disk. With 64 a look-up in a file
/// that was in memory took 6 % longer.
const ASKED_PER_PROBE: u64 = 256;

/// The same for look-ups whose pages are asked for ahead: what those cost beside it is little.
const AHEAD_PER_PROBE: u64 = 16;

/// Look-ups that are taken for such as have to wait, after one that had to.
pub(super) const COLD_ASKED: u64 = 4096;

/// A generation in a view.
#[derive(Clone, Debug)]
pub(crate) struct Sealed {
    generation: Arc<Generation>,
    /// The filter, where it was brought into memory: that of the file lies in its map.
    filter: Option<Arc<Bloom>>,
    /// The last log segment that may tell of what is in it.
    log_last: u64,
    /// Look-ups that went to the file.
    asked: Arc<Counter>,
    /// How many look-ups from now on are taken for such as have to wait for the disk.
    cold: Arc<Counter>,
    /// What the last failed look-up met.
    damage: Arc<Mutex<Option<Error>>>,
}

impl Sealed {
    /// A generation that is read from its file, and of which log segments up to `log_last` may tell.
    pub(crate) fn new(generation: Generation, log_last: u64) -> Sealed {
        Sealed {
            generation: Arc::new(generation),
            filter: None,
            log_last,
            asked: Arc::default(),
            cold: Arc::default(),
            damage: Arc::default(),
        }
    }

    /// Asks this filter, which is that of the file, instead of the one in the map.
    pub(crate) fn load_filter(&mut self, filter: Option<Arc<Bloom>>) {
        self.filter = filter;
    }

    /// Look-ups that went to the file before this are no reason to read all of it.
    pub(crate) fn forget_asked(&mut self) {
        self.asked = Arc::default();
    }

    pub(crate) fn generation(&self) -> &Arc<Generation> {
        &self.generation
    }

    /// The last log segment that may tell of what is in it.
    pub(crate) fn log_last(&self) -> u64 {
        self.log_last
    }

    /// Bytes of memory that its filter would take, where it is only in the map of the file.
    pub(crate) fn filter_bytes_unloaded(&self) -> Option<u64> {
        (self.filter.is_none() && !self.generation.is_filter_loaded()).then(|| self.generation.filter_bytes())
    }

    /// The filter in memory of its own, if it was brought there.
    pub(crate) fn filter(&self) -> Option<&Arc<Bloom>> {
        self.filter.as_ref()
    }

    /// Whether so many look-ups went to the file that reading all of it would have paid.
    pub(crate) fn is_worth_recalling(&self) -> bool {
        self.asked.get() > self.generation.lines() / LINES_PER_ASKED
    }

    /// What the file knows of a key.
    ///
    /// Its lines prove themselves, so a damaged one is told and never taken for an absent key (G4).
    pub(crate) fn fact(&self, key: Fingerprint) -> Result<Fact, Retry> {
        if self.asked.add(1).is_multiple_of(ASKED_PER_PROBE) {
            self.probe(key);
        }
        match self.generation.find(key) {
            Ok(None) => Ok(Fact::None),
            Ok(Some((State::Seen, until))) => Ok(Fact::Seen(until)),
            Ok(Some((_, until))) => Ok(Fact::Forgotten(until)),
            Err(error) => {
                *self.damage.lock() = Some(error);
                Err(Retry::Unreadable)
            }
        }
    }

    /// Looks whether a look-up has to wait for the disk.
    #[cold]
    #[inline(never)]
    fn probe(&self, key: Fingerprint) {
        if !self.generation.is_at_hand(key) {
            self.cold.set(COLD_ASKED);
        }
    }

    /// Whether look-ups are likely to wait for the disk, so that it pays to ask for many pages at once.
    #[inline]
    pub(crate) fn is_cold(&self) -> bool {
        self.cold.get() > 0
    }

    /// Asks the system for the page of a key ahead of its look-up, if it is likely to be on the disk only.
    pub(crate) fn fetch_line(&self, key: Fingerprint) {
        if !self.is_cold() {
            return;
        }
        let left = self.cold.get().saturating_sub(1);
        // Threads may miss a step of each other: it is an estimate.
        self.cold.set(left);
        if left.is_multiple_of(AHEAD_PER_PROBE) {
            self.probe(key);
        }
        self.generation.will_find(key);
    }

    /// What the last failed look-up met.
    pub(crate) fn damage(&self) -> Option<Error> {
        self.damage.lock().clone()
    }

    #[inline]
    pub(crate) fn may_contain(&self, key: Fingerprint, mask: Mask) -> bool {
        match &self.filter {
            Some(filter) => filter.may_contain_masked(key, mask),
            None => self.generation.may_contain_masked(key, mask),
        }
    }

    #[inline]
    pub(crate) fn prefetch_filter(&self, key: Fingerprint) {
        match &self.filter {
            Some(filter) => filter.prefetch(key),
            None => self.generation.prefetch(key),
        }
    }

    #[inline]
    pub(crate) fn prefetch_line(&self, key: Fingerprint) {
        self.generation.prefetch_line(key);
    }

    /// Bytes charged for filters.
    pub(crate) fn filter_bytes(&self) -> u64 {
        self.generation.memory_bytes() + self.filter.as_ref().map_or(0, |filter| filter.memory_bytes())
    }

    pub(crate) fn ids(&self) -> u64 {
        self.generation.ids()
    }
}
