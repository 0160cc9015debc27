//! First and last part of a generation's file.
//!
//! | header bytes | field | |
//! | --- | --- | --- |
//! | 0 | magic | `fseen-g\n` |
//! | 8 | version | u32, 1 |
//! | 12 | flags | u32, bit 0: the store never forgets |
//! | 16 | store id | u64 |
//! | 24 | generation id | u64 |
//! | 32 | bytes in the file | u64 |
//! | 40 | lines | u64 |
//! | 48 | home lines | u64, 1 to `lines` |
//! | 56 | blocks of the filter | u64, at least 1 |
//! | 64 | keys | u64 |
//! | 72 | birth | u64, tick |
//! | 80 | milliseconds in a tick | u64 |
//! | 88 | least `until` | u64, absolute tick; all ones without keys |
//! | 96 | largest `until` | u64; zero without keys |
//! | 104 | checksum of all lines | u64 |
//! | 112 | checksum of the filter | u64 |
//! | 120 | zeros, read by nobody | |
//! | 4088 | checksum of bytes 0 to 4087 | u64, seed 0 |
//!
//! | footer bytes | field |
//! | --- | --- |
//! | 0 | magic `fseen-g.` |
//! | 8 | the header's checksum, u64 |
//! | 16 | zeros |
//! | 56 | checksum of bytes 0 to 55, u64 |
//!
//! All other checksums than the header's are under seeds of this file.

use crate::bloom::BLOCK_BYTES;
use crate::codec::{Reader, checksum, u64_at};
use crate::error::{Error, Result};
use crate::limits::{LINE_BYTES, SLOTS_PER_LINE, SPARE_LINES};

use super::{Sealed, Seeds};

/// Bytes in a header.
pub(super) const HEADER_BYTES: usize = 4096;

/// Bytes in a footer.
pub(super) const FOOTER_BYTES: usize = 64;

/// The version that is written, and the latest that is known.
const VERSION: u32 = 1;

const MAGIC: [u8; 8] = *b"fseen-g\n";
const MAGIC_FOOTER: [u8; 8] = *b"fseen-g.";
const CHECKSUM_AT: usize = HEADER_BYTES - 8;
const FOOTER_CHECKSUM_AT: usize = FOOTER_BYTES - 8;

/// What a header says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Header {
    pub(super) store_id: u64,
    pub(super) id: u64,
    pub(super) bytes: u64,
    pub(super) lines: u64,
    pub(super) home_lines: u64,
    pub(super) filter_blocks: u64,
    pub(super) ids: u64,
    pub(super) birth: u64,
    pub(super) tick_ms: u64,
    pub(super) until_min: u64,
    pub(super) until_max: u64,
    pub(super) lines_checksum: u64,
    pub(super) filter_checksum: u64,
    pub(super) is_forever: bool,
}

/// A header as it was read.
#[derive(Debug)]
pub(super) struct UnverifiedHeader<'b>(pub(super) &'b [u8; HEADER_BYTES]);

impl Header {
    /// Length of a file with these parts; `None` when no file can be that long.
    pub(super) fn bytes_of(lines: u64, filter_blocks: u64) -> Option<u64> {
        let filter = filter_blocks.checked_mul(BLOCK_BYTES as u64)?;
        let bytes = lines.checked_mul(LINE_BYTES)?.checked_add(filter)?;
        bytes.checked_add((HEADER_BYTES + FOOTER_BYTES) as u64)
    }

    /// Where the line with that number begins.
    pub(super) fn line_offset(line_index: u64) -> u64 {
        HEADER_BYTES as u64 + line_index * LINE_BYTES
    }

    /// Where the filter begins.
    pub(super) fn filter_offset(&self) -> u64 {
        Header::line_offset(self.lines)
    }

    /// Where the footer begins.
    pub(super) fn footer_offset(&self) -> u64 {
        self.bytes - FOOTER_BYTES as u64
    }

    /// The bytes, and the checksum in them.
    pub(super) fn encode(&self) -> ([u8; HEADER_BYTES], u64) {
        let mut bytes = Vec::with_capacity(HEADER_BYTES);
        bytes.extend(MAGIC);
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(u32::from(self.is_forever).to_le_bytes());
        for field in self.fields() {
            bytes.extend(field.to_le_bytes());
        }
        bytes.resize(CHECKSUM_AT, 0);
        let sum = checksum(0, &bytes);
        bytes.extend(sum.to_le_bytes());
        (bytes.try_into().expect("filled up to its length"), sum)
    }

    /// Everything from byte 16 on.
    fn fields(&self) -> [u64; 13] {
        [
            self.store_id,
            self.id,
            self.bytes,
            self.lines,
            self.home_lines,
            self.filter_blocks,
            self.ids,
            self.birth,
            self.tick_ms,
            self.until_min,
            self.until_max,
            self.lines_checksum,
            self.filter_checksum,
        ]
    }

    /// What the manifest says of this file.
    pub(super) fn sealed(&self, header_checksum: u64) -> Sealed {
        let Header { id, bytes, lines, ids, birth, until_min, until_max, .. } = *self;
        Sealed { id, bytes, lines, ids, birth, until_min, until_max, header_checksum }
    }

    /// Whether the sizes go together.
    fn is_consistent(&self) -> bool {
        let spare = self.lines.checked_sub(self.home_lines);
        self.home_lines > 0
            && spare.is_some_and(|spare| spare <= SPARE_LINES + 1)
            && self.filter_blocks > 0
            && Header::bytes_of(self.lines, self.filter_blocks) == Some(self.bytes)
            && self.ids <= self.lines.saturating_mul(SLOTS_PER_LINE)
    }
}

impl UnverifiedHeader<'_> {
    /// Checks everything that the header says of itself; answers what it says, and its checksum.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`], and [`Error::Format`] for an intact header of a later version.
    pub(super) fn verify(&self, file: &str) -> Result<(Header, u64)> {
        let damaged = |offset, expected: &str| {
            Error::corrupt(file, offset, format!("{expected} of a generation"), "something else")
        };
        if self.0[..8] != MAGIC {
            return Err(damaged(0, "the first bytes"));
        }
        let sum = checksum(0, &self.0[..CHECKSUM_AT]);
        if u64_at(self.0, CHECKSUM_AT) != Some(sum) {
            return Err(damaged(CHECKSUM_AT as u64, "the checksum of the header"));
        }
        let mut reader = Reader::new(&self.0[8..]);
        let version = reader.u32().unwrap_or(0);
        if version != VERSION {
            let (found, known) = (version.into(), VERSION.into());
            return Err(Error::Format { file: file.to_owned(), found, known });
        }
        let header = read_fields(&mut reader).filter(Header::is_consistent);
        header.map(|header| (header, sum)).ok_or_else(|| damaged(16, "sizes that go together"))
    }
}

/// Everything from byte 12 on.
fn read_fields(reader: &mut Reader<'_>) -> Option<Header> {
    let flags = reader.u32()?;
    let mut next = || reader.u64();
    Some(Header {
        store_id: next()?,
        id: next()?,
        bytes: next()?,
        lines: next()?,
        home_lines: next()?,
        filter_blocks: next()?,
        ids: next()?,
        birth: next()?,
        tick_ms: next()?,
        until_min: next()?,
        until_max: next()?,
        lines_checksum: next()?,
        filter_checksum: next()?,
        is_forever: flags & 1 != 0,
    })
}

/// The footer of a file whose header has that checksum.
pub(super) fn footer(header_checksum: u64, seeds: Seeds) -> [u8; FOOTER_BYTES] {
    let mut bytes = [0; FOOTER_BYTES];
    bytes[..8].copy_from_slice(&MAGIC_FOOTER);
    bytes[8..16].copy_from_slice(&header_checksum.to_le_bytes());
    let sum = checksum(seeds.footer, &bytes[..FOOTER_CHECKSUM_AT]);
    bytes[FOOTER_CHECKSUM_AT..].copy_from_slice(&sum.to_le_bytes());
    bytes
}
