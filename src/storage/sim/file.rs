//! One file of the simulated disk: what a reader sees, and what of that would outlast a power cut.
//!
//! A sector that was written since the last sync keeps its older contents, the durable one first. A power cut
//! leaves any of them, or parts of several, or zeros or garbage; but a byte that is the same in all of them
//! stays what it is, as disks do that write whole sectors or none.

use std::collections::BTreeMap;

use super::crash::Crash;
use super::random::Random;
use crate::sync::Arc;

/// Bytes that a disk writes at a time.
pub(super) const SECTOR_BYTES: usize = 512;

/// Older contents of a sector that are kept, the durable one included.
const OLDER_MAX: usize = 4;

type Sector = Arc<[u8; SECTOR_BYTES]>;

/// Sectors without an entry are zero.
#[derive(Clone, Debug, Default)]
pub(super) struct SimFile {
    length: u64,
    length_durable: u64,
    sectors: BTreeMap<u64, Sector>,
    unsynced: BTreeMap<u64, Unsynced>,
    /// Set by a map of the file: nothing may write it any more.
    pub(super) is_mapped: bool,
}

/// A sector whose present content is not durable.
#[derive(Clone, Debug, Default)]
struct Unsynced {
    /// Never empty: the durable content, then what was written over it, but not the present content.
    older: Vec<Sector>,
    /// A sync failed: the system holds the sector for written, later syncs pass it by.
    is_given_up: bool,
}

/// A part of one sector that a range of the file covers.
struct Span {
    sector: u64,
    /// Where in the sector.
    start: usize,
    /// Where in the range.
    at: usize,
    bytes: usize,
}

/// Cuts `bytes` bytes from `offset` on at the bounds of sectors.
fn spans(offset: u64, bytes: usize) -> impl Iterator<Item = Span> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let place = offset + at as u64;
        let start = usize::try_from(place % SECTOR_BYTES as u64).expect("a sector is short");
        let span = Span {
            sector: place / SECTOR_BYTES as u64,
            start,
            at,
            bytes: (SECTOR_BYTES - start).min(bytes - at),
        };
        at += span.bytes;
        (span.bytes > 0).then_some(span)
    })
}

fn zeros() -> Sector {
    Arc::new([0; SECTOR_BYTES])
}

impl SimFile {
    /// A file that is durable as it is.
    pub(super) fn durable(bytes: &[u8]) -> SimFile {
        let mut file = SimFile::default();
        file.write(0, bytes);
        file.sync(false);
        file
    }

    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Reads what there is from `offset` on.
    pub(super) fn read(&self, offset: u64, buffer: &mut [u8]) -> usize {
        let left = usize::try_from(self.length.saturating_sub(offset)).unwrap_or(usize::MAX);
        let bytes = buffer.len().min(left);
        for span in spans(offset, bytes) {
            let part = &mut buffer[span.at..span.at + span.bytes];
            match self.sectors.get(&span.sector) {
                Some(sector) => part.copy_from_slice(&sector[span.start..span.start + span.bytes]),
                None => part.fill(0),
            }
        }
        bytes
    }

    /// All of it.
    pub(super) fn content(&self) -> Vec<u8> {
        let mut content = vec![0; usize::try_from(self.length).expect("it is kept in memory")];
        self.read(0, &mut content);
        content
    }

    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        for span in spans(offset, bytes.len()) {
            let part = &bytes[span.at..span.at + span.bytes];
            let sector = self.touch(span.sector);
            Arc::make_mut(sector)[span.start..span.start + span.bytes].copy_from_slice(part);
        }
        if !bytes.is_empty() {
            self.length = self.length.max(offset + bytes.len() as u64);
        }
    }

    /// Remembers what the sector holds, to write over it.
    fn touch(&mut self, number: u64) -> &mut Sector {
        let sector = self.sectors.entry(number).or_insert_with(zeros);
        let unsynced = self.unsynced.entry(number).or_default();
        unsynced.is_given_up = false;
        if unsynced.older.len() == OLDER_MAX {
            unsynced.older.remove(1);
        }
        unsynced.older.push(Arc::clone(sector));
        sector
    }

    /// Sets the length; what is cut off reads as zeros when the file grows again.
    pub(super) fn resize(&mut self, length: u64) {
        let first = length / SECTOR_BYTES as u64;
        let start = usize::try_from(length % SECTOR_BYTES as u64).expect("a sector is short");
        if length < self.length {
            let behind: Vec<u64> = self.sectors.range(first..).map(|(number, _)| *number).collect();
            for number in behind {
                let from = if number == first { start } else { 0 };
                Arc::make_mut(self.touch(number))[from..].fill(0);
            }
        }
        self.length = length;
    }

    /// Makes durable what no failed sync has given up; a weak sync leaves a new length out.
    pub(super) fn sync(&mut self, is_weak: bool) {
        self.unsynced.retain(|_, unsynced| unsynced.is_given_up);
        if !is_weak || self.length < self.length_durable {
            self.length_durable = self.length;
        }
    }

    /// A sync that failed: the system takes what it could not write for written. Readers go on seeing it, or
    /// see the durable content again.
    pub(super) fn sync_failed(&mut self, is_read_back: bool) {
        for (number, unsynced) in &mut self.unsynced {
            unsynced.is_given_up = true;
            if is_read_back {
                unsynced.older.truncate(1);
                self.sectors.insert(*number, Arc::clone(&unsynced.older[0]));
            }
        }
    }

    pub(super) fn is_durable(&self) -> bool {
        self.unsynced.is_empty() && self.length == self.length_durable
    }

    /// Makes of the file what a power cut leaves.
    pub(super) fn cut(&mut self, crash: Crash, random: &mut Random) {
        let length = match crash {
            Crash::KeepAll => self.length,
            Crash::LoseAll => self.length_durable,
            Crash::Random(_) => self.random_length(random),
        };
        let mood = Mood::new(random);
        for (number, unsynced) in std::mem::take(&mut self.unsynced) {
            let sector = self.sectors.get_mut(&number).expect("what was written has an entry");
            match crash {
                Crash::KeepAll => {}
                Crash::LoseAll => *sector = Arc::clone(&unsynced.older[0]),
                Crash::Random(_) => {
                    let start = number * SECTOR_BYTES as u64;
                    let bytes_durable = self.length_durable.saturating_sub(start);
                    *sector = mood.outcome(&unsynced.older, sector, bytes_durable, random);
                }
            }
        }
        // What is behind the end is gone for good, whatever the longest length ever was; what is before it is
        // durable now.
        self.length = u64::MAX;
        self.resize(length);
        self.is_mapped = false;
        self.sync(false);
    }

    /// The durable length, the present one, or any between.
    fn random_length(&self, random: &mut Random) -> u64 {
        let (low, high) = (self.length.min(self.length_durable), self.length.max(self.length_durable));
        match random.below(4) {
            0 => self.length_durable,
            1 => low + random.below(high - low + 1),
            _ => self.length,
        }
    }
}

/// How likely what is in one power cut: in some nearly all is kept, in some nearly nothing.
struct Mood {
    kept_of_8: u64,
    has_garbage: bool,
}

impl Mood {
    fn new(random: &mut Random) -> Mood {
        let kept_of_8 = [0, 1, 4, 7][random.index(4)];
        Mood { kept_of_8, has_garbage: random.chance(1, 2) }
    }

    /// What is left of one sector, of which `bytes_durable` bytes were within the durable length.
    fn outcome(&self, older: &[Sector], newest: &Sector, bytes_durable: u64, random: &mut Random) -> Sector {
        if random.chance(self.kept_of_8, 8) {
            return Arc::clone(newest);
        }
        match random.below(if self.has_garbage { 5 } else { 3 }) {
            0 => Arc::clone(&older[0]),
            1 => Arc::clone(&older[random.index(older.len())]),
            2 => {
                let bound = random.index(SECTOR_BYTES);
                let mut torn = **newest;
                torn[bound..].copy_from_slice(&older[random.index(older.len())][bound..]);
                Arc::new(torn)
            }
            kind => {
                let mut spoilt = **newest;
                for (index, byte) in spoilt.iter_mut().enumerate() {
                    let was_same = older.iter().all(|sector| sector[index] == newest[index]);
                    if !was_same || index as u64 >= bytes_durable {
                        *byte = if kind == 3 { 0 } else { random.next().to_le_bytes()[0] };
                    }
                }
                Arc::new(spoilt)
            }
        }
    }
}
