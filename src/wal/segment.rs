//! A segment: a file of fixed size that frames are written into, made ready before its first use.
//!
//! | bytes | field | meaning |
//! | --- | --- | --- |
//! | 0..8 | magic | `fs-log-s` |
//! | 8..16 | version | 1 |
//! | 16..24 | store id | the store it belongs to |
//! | 24..32 | number | that in its name |
//! | 32..40 | seed | random, for the checksums of its frames |
//! | 40..48 | length | of the file |
//! | 48..56 | seq min | no frame in it has a smaller seq |
//! | 56..64 | checksum | XXH3-64 of bytes 0..56 |
//! | 64..512 | zero | |
//! | 512..520 | first | seq of the first frame in it |
//! | 520..528 | checksum | XXH3-64 of bytes 512..520, seeded by the seed |
//! | 528..4096 | zero | |
//! | 4096.. | frames | one after the other, then zeros |
//!
//! The header has a page of its own, of which only the second sector is written again: `first` is zero,
//! with no checksum, until frames go to the segment, and lasts with the first sync of any of them.
//!
//! # How one is made
//!
//! Under the name `log-NNNNNNNNNN.new` it is filled with zeros and synced, slice by slice, so that no single
//! step takes long ([`Making`]); then it gets its header and, once that is synced too, its name, and the
//! directory is synced. Writing into such a file changes no length and no map of blocks, so a sync has
//! nothing but the frames to write: half the time of one that must also turn unwritten extents into written
//! ones.
//!
//! # What a crash can leave
//!
//! A file that ends in `.new`, in any state: nobody reads it, and the next log of the store removes it. A
//! file that has its name also has its length and its header; if not it is damaged, whatever else is there.
//!
//! # History
//!
//! Format 1: this one.

use std::io;

use crate::codec::{Reader, checksum};
use crate::error::{Error, Result};
use crate::limits::{FRAME_BYTES_MAX, SEGMENT_BYTES_MAX, SEGMENT_PIECE_BYTES, SEGMENT_SLICES_PER_SYNC};
pub(super) use crate::storage::names::segment_name as name;
use crate::storage::names::{Name, TEMPORARY, temporary_name};
use crate::storage::{Storage, StorageFile, failed};

/// Bytes before the first frame.
pub(super) const HEADER_BYTES: u64 = 4096;

const MAGIC: u64 = u64::from_le_bytes(*b"fs-log-s");
const VERSION: u64 = 1;
pub(super) const FIELDS_BYTES: usize = 64;
const FIRST_OFFSET: u64 = 512;
const FIRST_BYTES: usize = 16;

/// The number in the name of a segment's file; `None` for other files.
pub(super) fn number_in(name: &str) -> Option<u64> {
    match Name::parse(name) {
        Some(Name::Segment(number)) => Some(number),
        _ => None,
    }
}

/// The number of a segment that was not finished; `None` for other files.
pub(super) fn number_in_unfinished(name: &str) -> Option<u64> {
    number_in(name.strip_suffix(TEMPORARY)?)
}

/// What a segment is made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) store_id: u64,
    pub(super) number: u64,
    pub(super) seed: u64,
    pub(super) bytes: u64,
    pub(super) seq_min: u64,
}

impl Header {
    fn encode(&self) -> [u8; FIELDS_BYTES] {
        let mut bytes = [0; FIELDS_BYTES];
        let words = [MAGIC, VERSION, self.store_id, self.number, self.seed, self.bytes, self.seq_min];
        for (index, word) in words.into_iter().enumerate() {
            bytes[index * 8..][..8].copy_from_slice(&word.to_le_bytes());
        }
        let (covered, sum) = bytes.split_at_mut(FIELDS_BYTES - 8);
        sum.copy_from_slice(&checksum(0, covered).to_le_bytes());
        bytes
    }

    /// Reads and checks the header of the file of segment `number`, and its length.
    ///
    /// # Errors
    ///
    /// [`Error::Format`], [`Error::Corrupt`], [`Error::Io`].
    pub(super) fn read(file: &(dyn StorageFile + 'static), store_id: u64, number: u64) -> Result<Header> {
        let name = name(number);
        let size = file.size().map_err(failed("reading the length of", &name))?;
        let mut bytes = [0; FIELDS_BYTES];
        if size < HEADER_BYTES {
            return Err(Error::corrupt(name, size, "the header of a log segment", "the end of the file"));
        }
        file.read_exact_at(0, &mut bytes).map_err(failed("reading", &name))?;
        let header = Header::decode(&bytes, &name)?;
        let wrong = |offset: u64, what: &str, expected: u64, found: u64| {
            Err(Error::corrupt(name.clone(), offset, format!("{what} {expected}"), found.to_string()))
        };
        if header.store_id != store_id {
            return wrong(16, "store id", store_id, header.store_id);
        }
        if header.number != number {
            return wrong(24, "number", number, header.number);
        }
        if header.bytes != size || size > SEGMENT_BYTES_MAX {
            return wrong(size, "length", header.bytes.min(SEGMENT_BYTES_MAX), size);
        }
        Ok(header)
    }

    pub(super) fn decode(bytes: &[u8; FIELDS_BYTES], name: &str) -> Result<Header> {
        let mut reader = Reader::new(bytes);
        let mut word = || reader.u64().expect("the header has eight words");
        let (magic, version) = (word(), word());
        if magic == MAGIC && version > VERSION {
            return Err(Error::Format { file: name.to_owned(), found: version, known: VERSION });
        }
        let (store_id, number, seed, length, seq_min, sum) = (word(), word(), word(), word(), word(), word());
        let expected = checksum(0, &bytes[..FIELDS_BYTES - 8]);
        if magic != MAGIC || version != VERSION || sum != expected {
            let found = format!("magic {magic:016x}, version {version}, checksum {sum:016x}");
            return Err(Error::corrupt(name, 0, "the header of a log segment", found));
        }
        Ok(Header { store_id, number, seed, bytes: length, seq_min })
    }
}

/// The seq of a segment's first frame as it is written.
fn encode_first(first: u64, seed: u64) -> [u8; FIRST_BYTES] {
    let mut bytes = [0; FIRST_BYTES];
    let (word, sum) = bytes.split_at_mut(FIRST_BYTES / 2);
    word.copy_from_slice(&first.to_le_bytes());
    sum.copy_from_slice(&checksum(seed, word).to_le_bytes());
    bytes
}

/// The seq of a segment's first frame; `None` when none of its frames was ever synced.
pub(super) fn read_first(file: &(dyn StorageFile + 'static), header: &Header) -> Result<Option<u64>> {
    let mut bytes = [0; FIRST_BYTES];
    let name = || name(header.number);
    file.read_exact_at(FIRST_OFFSET, &mut bytes).map_err(|error| failed("reading", &name())(error))?;
    let first = Reader::new(&bytes).u64();
    Ok(first.filter(|first| bytes == encode_first(*first, header.seed)))
}

/// A segment that is ready to be written.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) header: Header,
    file: Box<dyn StorageFile>,
}

/// A segment in the making, under its temporary name.
#[derive(Debug)]
pub(super) struct Making {
    number: u64,
    /// Length of the file when it is finished.
    bytes: u64,
    file: Box<dyn StorageFile>,
    /// How far it is filled with zeros.
    filled: u64,
    /// How far the zeros are synced.
    synced: u64,
}

impl Making {
    /// Begins with an empty file.
    pub(super) fn begin(storage: &dyn Storage, number: u64, bytes: u64) -> Result<Making> {
        let unfinished = temporary_name(&name(number));
        let file = storage.create(&unfinished).map_err(failed("creating", &unfinished))?;
        Ok(Making { number, bytes, file, filled: 0, synced: 0 })
    }

    /// Fills one slice, and syncs now and then, so that little is left for the last sync. Whether it can be
    /// finished now.
    pub(super) fn fill(&mut self, slice_bytes: u64) -> Result<bool> {
        if self.filled == self.bytes {
            return Ok(true);
        }
        let part = slice_bytes.min(self.bytes - self.filled);
        self.attempt("allocating", |file| file.allocate(self.filled + part))?;
        self.fill_to(self.filled + part)?;
        if self.filled - self.synced < SEGMENT_SLICES_PER_SYNC * slice_bytes {
            return Ok(self.filled == self.bytes);
        }
        self.synced = self.filled;
        self.attempt("syncing", |file| file.sync())?;
        Ok(false)
    }

    /// Fills it with zeros up to `end`, in pieces that are as fast to write again as any.
    fn fill_to(&mut self, end: u64) -> Result<()> {
        static ZEROS: [u8; SEGMENT_PIECE_BYTES] = [0; SEGMENT_PIECE_BYTES];
        while self.filled < end {
            let left = usize::try_from(end - self.filled).expect("a slice is short");
            let zeros = &ZEROS[..left.min(SEGMENT_PIECE_BYTES)];
            self.attempt("filling", |file| file.write_all_at(self.filled, zeros))?;
            self.filled += zeros.len() as u64;
        }
        Ok(())
    }

    /// Gives it its header and its name: after this it lasts through a power cut, empty. `first` is known for
    /// one that is used at once.
    pub(super) fn finish(self, storage: &dyn Storage, header: Header, first: Option<u64>) -> Result<Segment> {
        debug_assert!(
            self.filled == self.bytes && (self.number, self.bytes) == (header.number, header.bytes)
        );
        self.attempt("writing", |file| file.write_all_at(0, &header.encode()))?;
        if let Some(first) = first {
            let bytes = encode_first(first, header.seed);
            self.attempt("writing", |file| file.write_all_at(FIRST_OFFSET, &bytes))?;
        }
        self.attempt("syncing", |file| file.sync())?;
        let name = name(self.number);
        let unfinished = temporary_name(&name);
        storage.rename(&unfinished, &name).map_err(failed("renaming", &unfinished))?;
        storage.sync_dir().map_err(failed("syncing the directory of", &name))?;
        Ok(Segment { header, file: self.file })
    }

    fn attempt(
        &self,
        operation: &'static str,
        act: impl FnOnce(&(dyn StorageFile + 'static)) -> io::Result<()>,
    ) -> Result<()> {
        act(&*self.file).map_err(|error| failed(operation, &temporary_name(&name(self.number)))(error))
    }
}

impl Segment {
    /// Notes the seq of the first frame, before it is written.
    pub(super) fn begin(&self, first: u64) -> Result<()> {
        self.write(FIRST_OFFSET, &encode_first(first, self.header.seed))
    }

    /// Writes bytes of a frame.
    pub(super) fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.file.write_all_at(offset, bytes).map_err(|error| failed("writing", &self.name())(error))
    }

    /// Makes what was written last through a power cut.
    pub(super) fn sync(&self) -> Result<()> {
        self.file.sync().map_err(|error| failed("syncing", &self.name())(error))
    }

    fn name(&self) -> String {
        name(self.header.number)
    }
}

/// Removes what an interrupted [`Making`] left; how many files.
pub(super) fn remove_unfinished(storage: &dyn Storage) -> Result<u64> {
    remove_where(storage, |name| number_in_unfinished(name).is_some())
}

/// Removes the segments with smaller numbers; how many.
pub(crate) fn remove_below(storage: &dyn Storage, number: u64) -> Result<u64> {
    remove_where(storage, |name| number_in(name).is_some_and(|found| found < number))
}

fn remove_where(storage: &dyn Storage, is_over: impl Fn(&str) -> bool) -> Result<u64> {
    let mut removed = 0;
    for name in storage.list().map_err(failed("listing", "the store's directory"))? {
        if is_over(&name) {
            storage.remove(&name).map_err(failed("removing", &name))?;
            removed += 1;
        }
    }
    Ok(removed)
}

/// Longest frame that a segment of that length takes.
pub(super) fn frame_bytes_max(segment_bytes: u64) -> u64 {
    FRAME_BYTES_MAX.min(segment_bytes.saturating_sub(HEADER_BYTES))
}
