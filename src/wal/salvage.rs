//! What still reads of a log: every whole frame, also behind damage and gaps.
//!
//! Recovery refuses a log in which something that was synced is missing. This reads on instead, and counts.
//! It writes nothing. Frames that were never acknowledged are among those it finds.

use super::frame::{Frame, Record};
use super::recover::Extent;
use super::scan::{Found, Source, scan};
use super::segment::{self, HEADER_BYTES, Header};
use crate::error::{Error, Result};
use crate::limits::DAMAGES_MAX;
use crate::storage::{Storage, failed};

/// What was found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Salvaged {
    pub(crate) frames: u64,
    pub(crate) records: u64,
    /// Frames that are missing among those found, and one for remains at the end: at least so many.
    pub(crate) frames_lost: u64,
    /// Segments of which nothing could be read.
    pub(crate) segments_unreadable: u64,
    pub(crate) damages: Vec<Error>,
    /// Number of the last frame that was found.
    last: Option<u64>,
    /// Whether there is anything but zeros behind it.
    has_remains: bool,
}

/// Reads every whole frame within an extent. `apply` gets the facts of one frame at a time, `cursor` every
/// cursor.
///
/// # Errors
///
/// [`Error::Io`] when the directory can't be listed; what else is wrong is told in [`Salvaged::damages`].
pub(crate) fn salvage(
    storage: &dyn Storage,
    extent: Extent<'_>,
    apply: &mut dyn FnMut(&[Record]),
    cursor: &mut dyn FnMut(&str, u64),
) -> Result<Salvaged> {
    let mut salvaged = Salvaged::default();
    for number in segments(storage)? {
        let is_behind_cut = |cut: &&super::Cut| cut.segment < number && number < cut.resumes_at;
        if number < extent.from || extent.cuts.iter().any(|cut| is_behind_cut(&cut)) {
            continue;
        }
        let cut = extent.cuts.iter().filter(|cut| cut.segment == number).map(|cut| cut.offset).min();
        match salvaged.open(storage, extent.store_id, number, cut) {
            Ok(source) => salvaged.read(&source, apply, cursor),
            Err(error) => {
                salvaged.segments_unreadable += 1;
                salvaged.damaged(error);
            }
        }
    }
    salvaged.frames_lost += u64::from(salvaged.has_remains);
    Ok(salvaged)
}

/// Numbers of all segments, in order.
///
/// # Errors
///
/// [`Error::Io`].
pub(crate) fn segments(storage: &dyn Storage) -> Result<Vec<u64>> {
    let names = storage.list().map_err(failed("listing", "the store's directory"))?;
    let mut numbers: Vec<u64> = names.iter().filter_map(|name| segment::number_in(name)).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// The store that a segment says it belongs to.
///
/// # Errors
///
/// As [`Header::read`].
pub(crate) fn read_store_id(storage: &dyn Storage, number: u64) -> Result<u64> {
    read_header(storage, number).map(|(header, _)| header.store_id)
}

/// The header of a segment's file, and the file's length, which may be another than the header says.
fn read_header(storage: &dyn Storage, number: u64) -> Result<(Header, u64)> {
    let name = segment::name(number);
    let file = storage.open_read(&name).map_err(failed("opening", &name))?;
    let size = file.size().map_err(failed("reading the length of", &name))?;
    if size < HEADER_BYTES {
        return Err(Error::corrupt(name, size, "the header of a log segment", "the end of the file"));
    }
    let mut bytes = [0; segment::FIELDS_BYTES];
    file.read_exact_at(0, &mut bytes).map_err(failed("reading", &name))?;
    let header = Header::decode(&bytes, &name)?;
    if header.number != number {
        let found = format!("segment {}", header.number);
        return Err(Error::corrupt(name, 24, format!("segment {number}"), found));
    }
    Ok((header, size))
}

impl Salvaged {
    fn open(
        &mut self,
        storage: &dyn Storage,
        store_id: u64,
        number: u64,
        cut: Option<u64>,
    ) -> Result<Source> {
        let name = segment::name(number);
        let (header, size) = read_header(storage, number)?;
        if header.store_id != store_id {
            let (expected, found) = (format!("store {store_id:016x}"), format!("{:016x}", header.store_id));
            return Err(Error::corrupt(name, 16, expected, found));
        }
        if size != header.bytes {
            let (expected, found) = (format!("{} bytes", header.bytes), format!("{size} bytes"));
            self.damaged(Error::corrupt(&name, size.min(header.bytes), expected, found));
        }
        let file = storage.open_read(&name).map_err(failed("opening", &name))?;
        let first = segment::read_first(&*file, &header).ok().flatten();
        Ok(Source { header, first, file, end: cut.unwrap_or(size).min(size) })
    }

    fn read(&mut self, source: &Source, apply: &mut dyn FnMut(&[Record]), cursor: &mut dyn FnMut(&str, u64)) {
        let mut facts = Vec::new();
        let outcome = scan(source, &mut |_| {}, &mut |found| {
            match found {
                Found::Remains => self.has_remains = true,
                Found::Frame { frame, offset, .. } => {
                    facts.clear();
                    self.take(&frame, offset);
                    // A frame whose checksum holds is as it was written; what is no fact is left out.
                    if frame.records_into(&mut facts).and_then(|()| frame.cursors(cursor)).is_some() {
                        self.records += facts.len() as u64;
                        apply(&facts);
                    }
                }
            }
            Ok(())
        });
        if let Err(error) = outcome {
            self.damaged(error);
        }
        if let Some(first) = source.first.filter(|first| self.last.is_none_or(|last| last < *first)) {
            // The segment says that it had a frame which was synced, and none is left.
            let expected = self.last.map_or(first, |last| last + 1);
            self.frames_lost += first - expected + 1;
            self.last = Some(first);
            self.has_remains = false;
            let name = segment::name(source.header.number);
            self.damaged(Error::corrupt(name, HEADER_BYTES, format!("frame {first}"), "no frame"));
        }
    }

    /// Counts a frame, and those that should be before it.
    fn take(&mut self, frame: &Frame<'_>, offset: u64) {
        let place = frame.place;
        let expected = self.last.map_or(place.first, |last| last + 1);
        if place.seq > expected {
            self.frames_lost += place.seq - expected;
            let expected = format!("frame {expected} before frame {}", place.seq);
            self.damaged(Error::corrupt(segment::name(place.segment), offset, expected, "none"));
        }
        self.last = self.last.max(Some(place.seq));
        self.has_remains = false;
        self.frames += 1;
    }

    fn damaged(&mut self, error: Error) {
        if self.damages.len() < DAMAGES_MAX {
            self.damages.push(error);
        }
    }
}
