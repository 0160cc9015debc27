//! The stream that a store is exported as: a set of facts, in blocks that prove themselves.
//!
//! ```text
//! | header | block 0 | block 1 | ... | end mark |
//!   64       48 to 98,328 each         32            bytes
//! ```
//!
//! All numbers are little-endian.
//!
//! | header bytes | field | |
//! | --- | --- | --- |
//! | 0 | magic | `fseen-x\n` |
//! | 8 | version | u32, 1 |
//! | 12 | hash | u32: 1 XXH3, 2 keyed, 3 exact |
//! | 16 | check value of hash and secret | u64 |
//! | 24 | window | u32: 0 forever, 1 fixed, 2 sliding |
//! | 28 | zero | u32 |
//! | 32 | milliseconds in a tick | u64 |
//! | 40 | time in the store when the export began | u64, milliseconds since the Unix epoch |
//! | 48 | number of the stream | u64, random |
//! | 56 | checksum of bytes 0 to 55 | u64, seed 0 |
//!
//! | block bytes | field | |
//! | --- | --- | --- |
//! | 0 | kind | u32: 1 facts, 2 end mark |
//! | 4 | count of facts | u32, 1 to 4096; 0 in the end mark |
//! | 8 | number of the block | u64, from 0 |
//! | 16 | facts, 24 bytes each; in the end mark a u64: how many facts there were in all | |
//! | last 8 | checksum of all bytes before | u64, seeded by the number of the stream |
//!
//! A fact is as in the log: fingerprint (`hi`, `lo`), then `absolute version << 2 | state` with the states 2
//! seen and 3 forgotten. Of facts on one key the largest counts, in whatever order they come.
//!
//! # The order of facts
//!
//! Any order is valid, and the result is the same. A writer should keep every stretch of the stream spread
//! over all values of `hi`: a table is in the order of `hi`, so facts that come in this order crowd in one
//! part of each table that takes them in. This one cuts the range of `hi` into short slices and takes them in
//! the order of their bits reversed (van der Corput's sequence).
//!
//! # Example
//!
//! A store that never forgets, with one key of `hi` 5 and `lo` 7, is the header, one block of
//! `01 00 00 00  01 00 00 00`, eight zeros, `05` and seven zeros, `07` and seven zeros, `06` and seven zeros
//! (version 1, seen) and its checksum, and the end mark `02 00 00 00  00 00 00 00`, block number 1, count 1,
//! checksum: 64 + 48 + 32 bytes.
//!
//! # What can be missing
//!
//! A stream is whole when its end mark was read: whatever is missing, repeated, swapped or changed before it
//! fails a checksum, a number or the count. Blocks hold one after the other: what was read before an error is
//! right.
//!
//! # Versions
//!
//! 1: this one. In all versions the header has 64 bytes, its magic, version and checksum where they are now.

use std::io::{ErrorKind, Read, Write};

use crate::codec::{Reader, checksum};
use crate::error::{Error, Result};
use crate::fingerprint::{Fingerprint, Hash};
use crate::options::Window;
use crate::stamp::{State, VERSION_MAX};
use crate::storage::failed;
use crate::wal::Record;

/// What errors call it.
pub(super) const STREAM: &str = "the exported stream";

/// Facts in a block at most.
pub(super) const FACTS_PER_BLOCK: usize = 4096;

const MAGIC: [u8; 8] = *b"fseen-x\n";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 64;
const HEADER_CHECKSUM_AT: usize = HEADER_BYTES - 8;
const BLOCK_HEAD_BYTES: usize = 16;
const FACT_BYTES: usize = 24;
const TOTAL_BYTES: usize = 8;
const CHECKSUM_BYTES: usize = 8;
const KIND_FACTS: u32 = 1;
const KIND_END: u32 = 2;

/// What the header says of the store that was exported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Label {
    pub(super) hash: Hash,
    pub(super) check_value: u64,
    pub(super) window: WindowKind,
    pub(super) tick_ms: u64,
    pub(super) time_ms: u64,
    /// Seed of the blocks' checksums, so that no block fits another stream.
    pub(super) number: u64,
}

/// A window without its length: ends are absolute, so stores of different lengths understand each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum WindowKind {
    Forever,
    Fixed,
    Sliding,
}

/// Writes a stream.
#[derive(Debug)]
pub(super) struct StreamWriter<'s, S: ?Sized> {
    sink: &'s mut S,
    number: u64,
    block: u64,
    facts: u64,
    /// The block that is being filled, its head included.
    bytes: Vec<u8>,
}

/// Reads a stream block by block.
#[derive(Debug)]
pub(super) struct StreamReader<'s, S: ?Sized> {
    source: &'s mut S,
    label: Label,
    block: u64,
    facts: u64,
    offset: u64,
    bytes: Vec<u8>,
}

/// A header as it was read.
#[derive(Debug)]
struct UnverifiedHeader([u8; HEADER_BYTES]);

impl<'s, S: Write + ?Sized> StreamWriter<'s, S> {
    /// Writes the header.
    pub(super) fn begin(sink: &'s mut S, label: Label) -> Result<StreamWriter<'s, S>> {
        let mut writer = StreamWriter { sink, number: label.number, block: 0, facts: 0, bytes: Vec::new() };
        writer.write(&label.encode())?;
        writer.begin_block();
        Ok(writer)
    }

    /// Adds facts.
    pub(super) fn push(&mut self, records: &[Record]) -> Result<()> {
        for record in records {
            self.bytes.extend_from_slice(&record.key.to_bytes());
            self.bytes.extend_from_slice(&record.fact.to_le_bytes());
            if self.bytes.len() >= BLOCK_HEAD_BYTES + FACTS_PER_BLOCK * FACT_BYTES {
                self.end_block()?;
            }
        }
        Ok(())
    }

    /// Writes what is left; the stream is not whole yet.
    pub(super) fn flush(&mut self) -> Result<()> {
        if self.bytes.len() > BLOCK_HEAD_BYTES { self.end_block() } else { Ok(()) }
    }

    /// Ends the stream; answers how many facts it has.
    pub(super) fn finish(mut self) -> Result<u64> {
        self.flush()?;
        self.bytes.extend_from_slice(&self.facts.to_le_bytes());
        self.seal(KIND_END, 0)?;
        self.sink.flush().map_err(failed("writing", STREAM))?;
        Ok(self.facts)
    }

    fn begin_block(&mut self) {
        self.bytes.clear();
        self.bytes.resize(BLOCK_HEAD_BYTES, 0);
    }

    fn end_block(&mut self) -> Result<()> {
        let count = (self.bytes.len() - BLOCK_HEAD_BYTES) / FACT_BYTES;
        self.seal(KIND_FACTS, u32::try_from(count).expect("a block is short"))?;
        self.facts += count as u64;
        self.block += 1;
        self.begin_block();
        Ok(())
    }

    /// Fills in the head, and writes the block with its checksum.
    fn seal(&mut self, kind: u32, count: u32) -> Result<()> {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes[..4].copy_from_slice(&kind.to_le_bytes());
        bytes[4..8].copy_from_slice(&count.to_le_bytes());
        bytes[8..BLOCK_HEAD_BYTES].copy_from_slice(&self.block.to_le_bytes());
        bytes.extend_from_slice(&checksum(self.number, &bytes).to_le_bytes());
        self.write(&bytes)?;
        self.bytes = bytes;
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.sink.write_all(bytes).map_err(failed("writing", STREAM))
    }
}

impl<'s, S: Read + ?Sized> StreamReader<'s, S> {
    /// Reads and checks the header.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] when it is none, or damaged; [`Error::Format`] for a later version; [`Error::Io`].
    pub(super) fn begin(source: &'s mut S) -> Result<StreamReader<'s, S>> {
        let mut header = UnverifiedHeader([0; HEADER_BYTES]);
        read_exact(source, &mut header.0, 0)?;
        let (label, offset) = (header.verify()?, HEADER_BYTES as u64);
        Ok(StreamReader { source, label, block: 0, facts: 0, offset, bytes: Vec::new() })
    }

    pub(super) fn label(&self) -> Label {
        self.label
    }

    /// Facts read so far.
    pub(super) fn facts(&self) -> u64 {
        self.facts
    }

    /// Reads the next block in the place of what was in `records`; false at the end mark, behind which
    /// nothing is read.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`], [`Error::Io`].
    pub(super) fn next(&mut self, records: &mut Vec<Record>) -> Result<bool> {
        records.clear();
        self.bytes.resize(BLOCK_HEAD_BYTES, 0);
        read_exact(self.source, &mut self.bytes, self.offset)?;
        let mut head = Reader::new(&self.bytes);
        let (kind, count, number) = (head.u32(), head.u32(), head.u64());
        let count = count.and_then(|count| usize::try_from(count).ok()).unwrap_or(usize::MAX);
        let is_end = kind == Some(KIND_END) && count == 0;
        let is_facts = kind == Some(KIND_FACTS) && (1..=FACTS_PER_BLOCK).contains(&count);
        if !(is_end || is_facts) || number != Some(self.block) {
            return Err(damaged(self.offset, format!("block {} of facts, or the end mark", self.block)));
        }
        let payload = if is_end { TOTAL_BYTES } else { count * FACT_BYTES };
        self.bytes.resize(BLOCK_HEAD_BYTES + payload + CHECKSUM_BYTES, 0);
        let rest_at = self.offset + BLOCK_HEAD_BYTES as u64;
        read_exact(self.source, &mut self.bytes[BLOCK_HEAD_BYTES..], rest_at)?;
        self.verify_checksum()?;
        if is_end {
            return self.verify_total().map(|()| false);
        }
        self.take_facts(records)?;
        self.offset += self.bytes.len() as u64;
        self.block += 1;
        self.facts += count as u64;
        Ok(true)
    }

    fn verify_checksum(&self) -> Result<()> {
        let (sealed, sum) = self.bytes.split_at(self.bytes.len() - CHECKSUM_BYTES);
        if sum == checksum(self.label.number, sealed).to_le_bytes() {
            return Ok(());
        }
        Err(damaged(self.offset, format!("block {} with its checksum", self.block)))
    }

    fn verify_total(&self) -> Result<()> {
        let total = Reader::new(&self.bytes[BLOCK_HEAD_BYTES..]).u64();
        if total == Some(self.facts) {
            return Ok(());
        }
        Err(damaged(self.offset, format!("the end of {} facts", self.facts)))
    }

    /// The facts of a block whose checksum holds. Whoever wrote others than a store can have wrote no export.
    fn take_facts(&self, records: &mut Vec<Record>) -> Result<()> {
        let facts = &self.bytes[BLOCK_HEAD_BYTES..self.bytes.len() - CHECKSUM_BYTES];
        for fact in facts.as_chunks::<FACT_BYTES>().0 {
            let mut reader = Reader::new(fact);
            let (hi, lo, fact) = (reader.u64(), reader.u64(), reader.u64());
            let (hi, lo, fact) = (hi.unwrap_or(0), lo.unwrap_or(0), fact.unwrap_or(0));
            let until_max =
                if self.label.window == WindowKind::Forever { VERSION_MAX.into() } else { u64::MAX >> 2 };
            let is_fact = fact & 3 >= State::Seen as u64 && (1..=until_max).contains(&(fact >> 2));
            if hi == 0 || lo == 0 || !is_fact {
                return Err(damaged(self.offset, "facts that a store can have".to_owned()));
            }
            records.push(Record { key: Fingerprint::from_halves(hi, lo), fact });
        }
        Ok(())
    }
}

impl Label {
    fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&hash_number(self.hash).to_le_bytes());
        bytes[16..24].copy_from_slice(&self.check_value.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.window.number().to_le_bytes());
        bytes[32..40].copy_from_slice(&self.tick_ms.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.time_ms.to_le_bytes());
        bytes[48..56].copy_from_slice(&self.number.to_le_bytes());
        let sum = checksum(0, &bytes[..HEADER_CHECKSUM_AT]);
        bytes[HEADER_CHECKSUM_AT..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }
}

impl UnverifiedHeader {
    fn verify(&self) -> Result<Label> {
        let bytes = &self.0;
        if bytes[..8] != MAGIC {
            return Err(damaged(0, "the beginning of an export".to_owned()));
        }
        if bytes[HEADER_CHECKSUM_AT..] != checksum(0, &bytes[..HEADER_CHECKSUM_AT]).to_le_bytes() {
            return Err(damaged(HEADER_CHECKSUM_AT as u64, "the checksum of the header".to_owned()));
        }
        self.read().ok_or_else(|| damaged(8, "a header that a store writes".to_owned()))?
    }

    /// The fields; `None` when one has no meaning.
    fn read(&self) -> Option<Result<Label>> {
        let mut reader = Reader::new(&self.0[8..]);
        let version = reader.u32()?;
        if version != VERSION {
            let (found, known) = (version.into(), VERSION.into());
            return Some(Err(Error::Format { file: STREAM.to_owned(), found, known }));
        }
        let hash = hash_of(reader.u32()?)?;
        let check_value = reader.u64()?;
        let window = WindowKind::of_number(reader.u32()?)?;
        let _zero = reader.u32()?;
        let (tick_ms, time_ms, number) = (reader.u64()?, reader.u64()?, reader.u64()?);
        Some(Ok(Label { hash, check_value, window, tick_ms, time_ms, number }))
    }
}

impl WindowKind {
    const ALL: [WindowKind; 3] = [WindowKind::Forever, WindowKind::Fixed, WindowKind::Sliding];

    pub(super) fn of(window: Window) -> WindowKind {
        match window {
            Window::Forever => WindowKind::Forever,
            Window::Fixed(_) => WindowKind::Fixed,
            Window::Sliding(_) => WindowKind::Sliding,
        }
    }

    fn number(self) -> u32 {
        match self {
            WindowKind::Forever => 0,
            WindowKind::Fixed => 1,
            WindowKind::Sliding => 2,
        }
    }

    fn of_number(number: u32) -> Option<WindowKind> {
        WindowKind::ALL.into_iter().find(|kind| kind.number() == number)
    }
}

fn hash_number(hash: Hash) -> u32 {
    match hash {
        Hash::Xxh3 => 1,
        Hash::Keyed => 2,
        Hash::Exact => 3,
    }
}

fn hash_of(number: u32) -> Option<Hash> {
    [Hash::Xxh3, Hash::Keyed, Hash::Exact].into_iter().find(|hash| hash_number(*hash) == number)
}

/// Fills `bytes`; a stream that ends before is damaged.
fn read_exact(source: &mut (impl Read + ?Sized), bytes: &mut [u8], offset: u64) -> Result<()> {
    source.read_exact(bytes).map_err(|error| match error.kind() {
        ErrorKind::UnexpectedEof => Error::corrupt(STREAM, offset, "the stream to go on", "its end"),
        _ => failed("reading", STREAM)(error),
    })
}

#[cold]
fn damaged(offset: u64, expected: String) -> Error {
    Error::corrupt(STREAM, offset, expected, "something else")
}
