//! Every whole frame of a segment in order, and whether there is anything else in it.

use super::frame::{ALIGNMENT, Frame, HEAD_BYTES, MAGIC, UnverifiedFrame};
use super::segment::{self, HEADER_BYTES, Header};
use crate::error::{Error, Result};
use crate::limits::{FRAME_BYTES_MAX, RECOVERY_WINDOW_BYTES};
use crate::storage::{Storage, StorageFile, failed};

const _: () = assert!(RECOVERY_WINDOW_BYTES >= FRAME_BYTES_MAX);

/// How often the bytes of a segment may be read again under checksums that turn out wrong. Torn frames do not
/// overlap, so a crash leaves less than one.
const FAILED_READS_MAX: u64 = 4;

/// A segment to read, up to its end or to an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) number: u64,
    pub(super) end: Option<u64>,
}

/// An open segment with a header that is right.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) header: Header,
    /// Number of the first frame, if any frame was ever synced.
    pub(super) first: Option<u64>,
    pub(super) file: Box<dyn StorageFile>,
    pub(super) end: u64,
}

impl Source {
    /// Opens a segment and syncs it: what is read from it lasts through a power cut.
    pub(super) fn open(storage: &dyn Storage, store_id: u64, part: Part) -> Result<Source> {
        let name = segment::name(part.number);
        let file = storage.open_write(&name).map_err(failed("opening", &name))?;
        let header = Header::read(&*file, store_id, part.number)?;
        file.sync().map_err(failed("syncing", &name))?;
        let end = part.end.unwrap_or(header.bytes).min(header.bytes);
        let first = segment::read_first(&*file, &header)?;
        Ok(Source { header, first, file, end })
    }
}

impl Source {
    /// How much of it frames may take: nothing of one that was made ready and never used.
    pub(super) fn bytes_used_max(&self) -> u64 {
        if self.first.is_some() { self.end } else { 0 }
    }
}

/// What a scan comes upon.
#[derive(Clone, Copy, Debug)]
pub(super) enum Found<'b> {
    Frame {
        frame: Frame<'b>,
        offset: u64,
        /// Whether it stands directly behind the one before, or first.
        is_next: bool,
    },
    /// Bytes that are not zero and no frame.
    Remains,
}

/// Hands everything in a segment to `take`, and to `progress` how many bytes were read.
pub(super) fn scan(
    source: &Source,
    progress: &mut dyn FnMut(u64),
    take: &mut dyn FnMut(Found<'_>) -> Result<()>,
) -> Result<()> {
    let mut window = Window { source, begin: 0, bytes: Vec::new(), progress };
    let (mut offset, mut is_next) = (HEADER_BYTES, true);
    let mut failed_reads = 0;
    while offset < source.end {
        let (frame, read) = window.frame(offset)?;
        if let Some(frame) = frame {
            let behind = offset + frame.bytes();
            take(Found::Frame { frame, offset, is_next })?;
            (offset, is_next) = (behind, true);
            continue;
        }
        failed_reads += read;
        if failed_reads > FAILED_READS_MAX * source.header.bytes {
            let name = segment::name(source.header.number);
            return Err(Error::corrupt(name, offset, "frames", "too much that looks like one and is none"));
        }
        let (next, has_remains) = window.next_candidate(offset)?;
        if has_remains {
            take(Found::Remains)?;
        }
        (offset, is_next) = (next, false);
    }
    Ok(())
}

/// Up to eight bytes as a number.
#[inline]
fn number_of(bytes: &[u8]) -> u64 {
    match bytes.first_chunk() {
        Some(word) => u64::from_le_bytes(*word),
        None => bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)),
    }
}

/// The part of a segment that is in memory.
struct Window<'s> {
    source: &'s Source,
    begin: u64,
    bytes: Vec<u8>,
    progress: &'s mut dyn FnMut(u64),
}

impl Window<'_> {
    /// The frame at `offset`, or how many bytes were read in vain.
    fn frame(&mut self, offset: u64) -> Result<(Option<Frame<'_>>, u64)> {
        let number = self.source.header.number;
        let head = UnverifiedFrame::read(self.bytes(offset, HEAD_BYTES)?, number);
        let Some(head) = head.filter(|head| offset + head.bytes() as u64 <= self.source.end) else {
            return Ok((None, 0));
        };
        let seed = self.source.header.seed;
        let bytes = self.bytes(offset, head.bytes())?;
        Ok((head.verify(bytes, seed), head.bytes() as u64))
    }

    /// The next place behind `offset` that begins like a frame, or the end; whether there is anything but
    /// zeros from `offset` up to it.
    fn next_candidate(&mut self, offset: u64) -> Result<(u64, bool)> {
        let end = self.source.end;
        let (mut at, mut any) = (offset, 0);
        while at < end {
            let bytes = self.bytes(at, ALIGNMENT)?;
            for word in bytes.chunks(ALIGNMENT) {
                let word = number_of(word);
                if word == MAGIC && at > offset {
                    return Ok((at, any != 0));
                }
                any |= word;
                at += ALIGNMENT as u64;
            }
        }
        Ok((end, any != 0))
    }

    /// Bytes from `offset` on: at least `count`, unless the segment ends before.
    fn bytes(&mut self, offset: u64, count: usize) -> Result<&[u8]> {
        let end = self.begin + self.bytes.len() as u64;
        let needed = (offset + count as u64).min(self.source.end);
        if offset < self.begin || needed > end {
            self.fill(offset)?;
        }
        let skipped = usize::try_from(offset - self.begin).unwrap_or(usize::MAX);
        Ok(self.bytes.get(skipped..).unwrap_or_default())
    }

    fn fill(&mut self, offset: u64) -> Result<()> {
        let count = RECOVERY_WINDOW_BYTES.min(self.source.end.saturating_sub(offset));
        self.bytes.resize(usize::try_from(count).unwrap_or(usize::MAX), 0);
        self.begin = offset;
        let name = || segment::name(self.source.header.number);
        self.source.file.read_exact_at(offset, &mut self.bytes).map_err(|e| failed("reading", &name())(e))?;
        (self.progress)(offset + count);
        Ok(())
    }
}
