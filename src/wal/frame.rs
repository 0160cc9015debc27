//! A frame: what one write appends to the log, whole or not at all.
//!
//! All numbers are little-endian.
//!
//! | bytes | field | meaning |
//! | --- | --- | --- |
//! | 0..8 | magic | `fs-frame` |
//! | 8..16 | segment | number of the segment it was written to |
//! | 16..24 | seq | number of the frame; each is one larger than that of the frame before |
//! | 24..32 | first | seq of the first frame of this segment |
//! | 32..40 | durable below | every frame with a smaller seq had been synced when this one was built |
//! | 40..44 | count | records |
//! | 44..48 | payload | bytes of the payload, a multiple of 8 |
//! | 48..52 | kind | 1: records; 2: records, then cursors |
//! | 52..56 | zero | |
//! | 56.. | payload | `count` records, then cursors if it has any, then zeros up to a multiple of 8 |
//! | last 8 | checksum | XXH3-64 of all bytes before, seeded by the segment's seed and the seq |
//!
//! A record is 24 bytes: the fingerprint's `hi` and `lo`, then `absolute version << 2 | state`. Cursors are a
//! u32 count, then for each its u64 value, the u32 length of its name and the name in UTF-8.
//!
//! Frames begin at multiples of 8, so a scan for them looks at one word in eight bytes. A frame that is
//! found in a block which an earlier segment used, or which was copied from elsewhere, fails its checksum:
//! seeds are random and never used twice.
//!
//! # Worked example
//!
//! Two records fill 56 + 2 * 24 + 8 = 112 bytes; a frame without records (a mark, see `log`) fills 64.
//!
//! # What a crash can leave
//!
//! Any part of a frame that was not synced, in sectors of 512 bytes, and whole frames behind it. Sectors
//! that it shares with an earlier frame are taken to hold the earlier bytes unchanged.
//!
//! # History
//!
//! Format 1: this one. The version stands in the header of the segment.

use crate::codec::{Reader, checksum};
use crate::fingerprint::Fingerprint;
use crate::limits::FRAME_BYTES_MAX;

/// How a frame begins, as a number.
pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"fs-frame");

/// Bytes before the payload.
pub(super) const HEAD_BYTES: usize = 56;

/// Bytes of a frame that are not payload.
pub(super) const OVERHEAD_BYTES: usize = HEAD_BYTES + 8;

/// Bytes of a record.
pub(super) const RECORD_BYTES: usize = 24;

/// What frames begin at a multiple of.
pub(super) const ALIGNMENT: usize = 8;

const KIND_RECORDS: u32 = 1;
const KIND_CURSORS: u32 = 2;

/// One fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) key: Fingerprint,
    /// `absolute version << 2 | state`.
    pub(crate) fact: u64,
}

/// A record as it is written.
#[inline]
pub(super) fn encode(key: Fingerprint, fact: u64) -> [u8; RECORD_BYTES] {
    let mut bytes = [0; RECORD_BYTES];
    bytes[..16].copy_from_slice(&key.to_bytes());
    bytes[16..].copy_from_slice(&fact.to_le_bytes());
    bytes
}

/// Where a frame stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) segment: u64,
    pub(super) seq: u64,
    pub(super) first: u64,
    pub(super) durable_below: u64,
}

/// Seed of a frame's checksum.
fn seed_of(segment_seed: u64, seq: u64) -> u64 {
    segment_seed ^ seq.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// A frame that is being put together, in memory that is used again and again.
#[derive(Debug)]
pub(super) struct FrameBuilder {
    bytes: Vec<u8>,
    kind: u32,
    cursors: Vec<u8>,
}

impl FrameBuilder {
    pub(super) fn new() -> FrameBuilder {
        FrameBuilder { bytes: vec![0; HEAD_BYTES], kind: KIND_RECORDS, cursors: Vec::new() }
    }

    /// Begins the next frame.
    pub(super) fn clear(&mut self) {
        self.bytes.truncate(HEAD_BYTES);
        self.cursors.clear();
        self.kind = KIND_RECORDS;
    }

    /// Adds encoded records.
    pub(super) fn add(&mut self, records: &[u8]) {
        debug_assert!(records.len().is_multiple_of(RECORD_BYTES));
        self.bytes.extend_from_slice(records);
    }

    /// Adds the cursors, after all records.
    pub(super) fn add_cursors(&mut self, cursors: &[(&str, u64)]) {
        self.kind = KIND_CURSORS;
        self.cursors.extend_from_slice(&length(cursors.len()).to_le_bytes());
        for (name, value) in cursors {
            self.cursors.extend_from_slice(&value.to_le_bytes());
            self.cursors.extend_from_slice(&length(name.len()).to_le_bytes());
            self.cursors.extend_from_slice(name.as_bytes());
        }
        self.cursors.resize(self.cursors.len().next_multiple_of(ALIGNMENT), 0);
    }

    /// Whether nothing was added.
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.len() == HEAD_BYTES && self.kind == KIND_RECORDS
    }

    /// Length of the finished frame.
    pub(super) fn bytes(&self) -> u64 {
        (self.bytes.len() + self.cursors.len() + OVERHEAD_BYTES - HEAD_BYTES) as u64
    }

    /// Writes the head and the checksum. Call [`clear`](FrameBuilder::clear) before the next frame.
    pub(super) fn finish(&mut self, place: Place, segment_seed: u64) -> &[u8] {
        let count = length((self.bytes.len() - HEAD_BYTES) / RECORD_BYTES);
        self.bytes.extend_from_slice(&self.cursors);
        let payload = length(self.bytes.len() - HEAD_BYTES);
        let head = &mut self.bytes[..HEAD_BYTES];
        for (index, word) in
            [MAGIC, place.segment, place.seq, place.first, place.durable_below].into_iter().enumerate()
        {
            head[index * 8..][..8].copy_from_slice(&word.to_le_bytes());
        }
        for (index, word) in [count, payload, self.kind, 0].into_iter().enumerate() {
            head[40 + index * 4..][..4].copy_from_slice(&word.to_le_bytes());
        }
        let checksum = checksum(seed_of(segment_seed, place.seq), &self.bytes);
        self.bytes.extend_from_slice(&checksum.to_le_bytes());
        &self.bytes
    }
}

/// Length of a frame with so many records and these cursors.
pub(super) fn bytes_of(records: usize, cursors: &[(&str, u64)]) -> u64 {
    let names: usize = cursors.iter().map(|(name, _)| 12 + name.len()).sum();
    let cursors = if cursors.is_empty() { 0 } else { (4 + names).next_multiple_of(ALIGNMENT) };
    (OVERHEAD_BYTES + records * RECORD_BYTES + cursors) as u64
}

/// A length as it is written: frames are bounded, so every length in them fits.
fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).expect("a frame is shorter than FRAME_BYTES_MAX")
}

/// A head that may be anything: only its lengths are known to be possible.
#[derive(Clone, Copy, Debug)]
pub(super) struct UnverifiedFrame {
    place: Place,
    count: usize,
    payload: usize,
    kind: u32,
}

impl UnverifiedFrame {
    /// Reads a head; `None` when it can't be that of a frame of `segment`.
    pub(super) fn read(head: &[u8], segment: u64) -> Option<UnverifiedFrame> {
        let mut reader = Reader::new(head);
        if reader.u64()? != MAGIC || reader.u64()? != segment {
            return None;
        }
        let place = Place { segment, seq: reader.u64()?, first: reader.u64()?, durable_below: reader.u64()? };
        let (count, payload) = (reader.u32()?, reader.u32()?);
        let (kind, zero) = (reader.u32()?, reader.u32()?);
        let (count, payload) = (usize::try_from(count).ok()?, usize::try_from(payload).ok()?);
        let records = count.checked_mul(RECORD_BYTES)?;
        let is_filled = match kind {
            KIND_RECORDS => payload == records,
            KIND_CURSORS => payload > records,
            _ => false,
        };
        let is_short = (payload + OVERHEAD_BYTES) as u64 <= FRAME_BYTES_MAX;
        let is_ordered = place.first <= place.seq && place.durable_below <= place.seq;
        (is_filled && is_short && is_ordered && zero == 0 && payload.is_multiple_of(ALIGNMENT))
            .then_some(UnverifiedFrame { place, count, payload, kind })
    }

    /// Length of the frame if it is one.
    pub(super) fn bytes(&self) -> usize {
        self.payload + OVERHEAD_BYTES
    }

    /// The frame in `bytes`, which begin with the head that was read; `None` when they are not all of it or
    /// the checksum says no.
    pub(super) fn verify(self, bytes: &[u8], segment_seed: u64) -> Option<Frame<'_>> {
        let mut reader = Reader::new(bytes);
        let covered = reader.take(HEAD_BYTES + self.payload)?;
        let is_whole = reader.u64()? == checksum(seed_of(segment_seed, self.place.seq), covered);
        is_whole.then_some(Frame { place: self.place, kind: self.kind, count: self.count, covered })
    }
}

/// A frame whose checksum is right.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame<'b> {
    pub(super) place: Place,
    kind: u32,
    count: usize,
    covered: &'b [u8],
}

impl Frame<'_> {
    /// Its length.
    pub(super) fn bytes(&self) -> u64 {
        (self.covered.len() + OVERHEAD_BYTES - HEAD_BYTES) as u64
    }

    /// Appends its records to `records`. `None` when one has a fingerprint that does not exist.
    pub(super) fn records_into(&self, records: &mut Vec<Record>) -> Option<()> {
        let bytes = &self.covered[HEAD_BYTES..][..self.count * RECORD_BYTES];
        let mut is_sound = true;
        records.extend(bytes.chunks_exact(RECORD_BYTES).map(|record| {
            let word = |index: usize| {
                u64::from_le_bytes(*record[index * 8..].first_chunk().expect("a record has three words"))
            };
            is_sound &= word(0) != 0 && word(1) != 0;
            Record { key: Fingerprint::from_halves(word(0), word(1)), fact: word(2) }
        }));
        is_sound.then_some(())
    }

    /// Reports its cursors. `None` when they do not fill their part of the payload.
    pub(super) fn cursors(&self, report: &mut dyn FnMut(&str, u64)) -> Option<()> {
        if self.kind == KIND_RECORDS {
            return Some(());
        }
        let mut reader = Reader::new(&self.covered[HEAD_BYTES + self.count * RECORD_BYTES..]);
        for _ in 0..reader.u32()? {
            let value = reader.u64()?;
            let name_bytes = usize::try_from(reader.u32()?).ok()?;
            report(std::str::from_utf8(reader.take(name_bytes)?).ok()?, value);
        }
        (reader.rest().len() < ALIGNMENT).then_some(())
    }
}
