//! Reading the log back: what is there, and which damage is no damage.
//!
//! Frames are numbered without a gap. Everything is synced before it is read, so that nothing is answered
//! from memory that a power cut could still take back; but for that, nothing is written here.
//!
//! # The tail rule
//!
//! Frames are read one after the other up to X, where none with the next number is. From there on every
//! place where a frame may begin is looked at, to the end of the last segment:
//!
//! - A whole frame behind X says that the missing one had been synced (`durable below`): a frame that
//!   somebody was answered for is gone. That is an error which names it; nothing is changed.
//! - There are whole frames behind X, none of which says so: they were written after the last sync, and a
//!   power cut kept the later ones. The log is cut at X, they count as never written.
//! - There is none: a torn write, or the end. The log is cut at X unless everything behind it is zero.
//!
//! What has its number although one before it is missing, or a number that was there before, comes from no
//! crash: an error. So does a segment without its header or of another length (they are synced before they
//! get their name) and a gap in the numbers of segments. A full segment is treated like all others: the
//! next one says soon whether it had been synced.
//!
//! What this cannot see is damage to the frames of the last sync when none was written after it. A mark
//! ([`Log::mark`](super::Log::mark)) covers them.
//!
//! # Cuts
//!
//! A cut is kept by the store before it acknowledges anything after it, and given to every later recovery:
//! the log ends there and goes on in a later segment, whatever lies between. As long as it is not kept,
//! recovery finds it again.
//!
//! # Bounds
//!
//! One window of a segment is in memory at a time. Looking for frames reads each byte once; bytes under a
//! checksum that turned out wrong are read again, and a file that was made to be full of such places is
//! refused.

use super::frame::{Frame, Place, Record};
use super::scan::{Found, Part, Source, scan};
use super::segment::{self, HEADER_BYTES};
use crate::error::{Error, Result};
use crate::storage::{Storage, failed};

/// Where an earlier recovery ended the log: `segment` ends at `offset`, the log goes on in `resumes_at`.
/// Segments in between are ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    pub(crate) segment: u64,
    pub(crate) offset: u64,
    pub(crate) resumes_at: u64,
}

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Recovered {
    /// For [`Setup`](super::Setup): the first number that no segment has.
    pub(crate) next_segment: u64,
    /// For [`Setup`](super::Setup): number of the next frame.
    pub(crate) next_seq: u64,
    pub(crate) records: u64,
    pub(crate) frames: u64,
    /// To be kept with the earlier cuts before anything that is written after this is acknowledged.
    pub(crate) cut: Option<Cut>,
    /// Whole frames behind the cut, none of which was acknowledged as synced.
    pub(crate) discarded_frames: u64,
}

/// What is to be read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent<'a> {
    pub(crate) store_id: u64,
    /// The first segment that is still needed.
    pub(crate) from: u64,
    /// What earlier recoveries cut.
    pub(crate) cuts: &'a [Cut],
}

/// Reads the log back. `apply` gets the facts of one frame at a time, `cursor` every cursor (a later value of
/// a name replaces the earlier one), `progress` the bytes read so far and in all.
///
/// When it fails, what was reported is to be forgotten. It may be called again, with the same result.
///
/// # Errors
///
/// [`Error::Corrupt`] as told above, [`Error::Format`] for a later format, [`Error::Io`].
pub(crate) fn recover(
    storage: &dyn Storage,
    extent: Extent<'_>,
    apply: &mut dyn FnMut(&[Record]),
    cursor: &mut dyn FnMut(&str, u64),
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Recovered> {
    let numbers = numbers(storage)?;
    storage.sync_dir().map_err(failed("syncing", "the store's directory"))?;
    let sources = (extent.parts(&numbers)?.iter())
        .map(|part| Source::open(storage, extent.store_id, *part))
        .collect::<Result<Vec<Source>>>()?;
    let total = sources.iter().map(Source::bytes_used_max).sum();
    let mut replay = Replay::new(extent.from, sources.first(), apply, cursor);
    let mut done = 0;
    for source in &sources {
        let bytes_max = source.bytes_used_max();
        scan(source, &mut |bytes| progress(done + bytes.min(bytes_max), total), &mut |found| {
            replay.take(found)
        })?;
        done += bytes_max;
        progress(done, total);
    }
    replay.finish(&sources, extent.next_segment(&numbers))
}

/// Numbers of all segments, in order.
fn numbers(storage: &dyn Storage) -> Result<Vec<u64>> {
    let names = storage.list().map_err(failed("listing", "the store's directory"))?;
    let mut numbers: Vec<u64> = names.iter().filter_map(|name| segment::number_in(name)).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

impl Extent<'_> {
    /// The segments to read, each up to where it was cut.
    fn parts(&self, numbers: &[u64]) -> Result<Vec<Part>> {
        let mut parts = Vec::new();
        let mut next = self.behind_cuts(self.from);
        for &number in numbers.iter().filter(|number| **number >= self.from) {
            if number > next {
                return Err(absent(next));
            }
            if number == next {
                parts.push(Part { number, end: self.end_of(number) });
                next = self.behind_cuts(number.saturating_add(1));
            }
        }
        // A cut whose later segment was not made yet leaves nothing to read.
        if parts.is_empty() && next == self.from {
            return Err(absent(next));
        }
        Ok(parts)
    }

    /// `number`, or where the log goes on when it is one to be ignored.
    fn behind_cuts(&self, mut number: u64) -> u64 {
        while let Some(cut) = self.cuts.iter().find(|cut| cut.segment < number && number < cut.resumes_at) {
            number = cut.resumes_at;
        }
        number
    }

    fn end_of(&self, number: u64) -> Option<u64> {
        self.cuts.iter().filter(|cut| cut.segment == number).map(|cut| cut.offset).min()
    }

    fn next_segment(&self, numbers: &[u64]) -> u64 {
        let behind_files = numbers.last().map_or(0, |last| last.saturating_add(1));
        let resumed = self.cuts.iter().map(|cut| cut.resumes_at).max().unwrap_or(0);
        behind_files.max(resumed).max(self.from)
    }
}

fn absent(number: u64) -> Error {
    Error::corrupt(segment::name(number), 0, "a log segment", "no such file")
}

/// The state of a recovery between two frames.
struct Replay<'r> {
    apply: &'r mut dyn FnMut(&[Record]),
    cursor: &'r mut dyn FnMut(&str, u64),
    facts: Vec<Record>,
    /// Number of the first segment.
    from: u64,
    /// Number of the next frame, as soon as it is known.
    expected: Option<u64>,
    /// The first frame that is not there although later ones are.
    missing: Option<u64>,
    /// Number of the last whole frame, applied or not.
    last: Option<u64>,
    /// Segment and offset behind the last frame that was applied.
    end: (u64, u64),
    /// Whether there is anything but zeros behind it.
    has_remains: bool,
    records: u64,
    frames: u64,
    discarded_frames: u64,
}

impl<'r> Replay<'r> {
    fn new(
        from: u64,
        source: Option<&Source>,
        apply: &'r mut dyn FnMut(&[Record]),
        cursor: &'r mut dyn FnMut(&str, u64),
    ) -> Self {
        let from = source.map_or(from, |source| source.header.number);
        Replay {
            apply,
            cursor,
            facts: Vec::new(),
            expected: source.and_then(|source| source.first),
            from,
            missing: None,
            last: None,
            end: (from, HEADER_BYTES),
            has_remains: false,
            records: 0,
            frames: 0,
            discarded_frames: 0,
        }
    }

    fn take(&mut self, found: Found<'_>) -> Result<()> {
        match found {
            Found::Remains => self.has_remains = true,
            Found::Frame { frame, offset, is_next } => {
                self.check_order(&frame, offset)?;
                self.last = Some(frame.place.seq);
                if self.is_expected(&frame, offset, is_next)? {
                    self.apply(&frame, offset)?;
                } else {
                    self.discard(&frame, offset)?;
                }
            }
        }
        Ok(())
    }

    /// Numbers only grow, and the first frame of a segment is the one that stands first.
    fn check_order(&self, frame: &Frame<'_>, offset: u64) -> Result<()> {
        let Place { seq, first, .. } = frame.place;
        if self.last.is_some_and(|last| seq <= last) {
            let expected = format!("a frame after frame {}", self.last.unwrap_or(0));
            return Err(damage(frame, offset, expected, format!("frame {seq}")));
        }
        if (offset == HEADER_BYTES) != (seq == first) {
            return Err(damage(frame, offset, format!("frame {first} as the first"), format!("frame {seq}")));
        }
        Ok(())
    }

    /// Whether this is the next frame; if not, notes which one is missing.
    fn is_expected(&mut self, frame: &Frame<'_>, offset: u64, is_next: bool) -> Result<bool> {
        let seq = frame.place.seq;
        let expected = self.expected.unwrap_or(self.beginning(frame));
        if self.missing.is_some() || seq != expected {
            self.missing.get_or_insert(expected);
            return Ok(false);
        }
        if is_next {
            return Ok(true);
        }
        Err(damage(frame, offset, format!("frame {seq} behind the frame before it"), "something in between"))
    }

    /// Which frame the log begins with when none was ever synced in its first segment: the first of that, if
    /// there are any. One in a later segment only if nothing before it was unsynced when it was written: what
    /// was may have been in the first segment.
    fn beginning(&self, frame: &Frame<'_>) -> u64 {
        let Place { segment, first, durable_below, .. } = frame.place;
        if segment == self.from { first } else { first.min(durable_below) }
    }

    fn apply(&mut self, frame: &Frame<'_>, offset: u64) -> Result<()> {
        self.facts.clear();
        let is_sound = frame.records_into(&mut self.facts).and_then(|()| frame.cursors(self.cursor));
        if is_sound.is_none() {
            return Err(damage(frame, offset, "facts and cursors", "bytes that are none"));
        }
        if !self.facts.is_empty() {
            (self.apply)(&self.facts);
        }
        self.records += self.facts.len() as u64;
        self.frames += 1;
        self.expected = Some(frame.place.seq.saturating_add(1));
        self.end = (frame.place.segment, offset + frame.bytes());
        self.has_remains = false;
        Ok(())
    }

    /// A frame behind a missing one: does it say that the missing one was synced?
    fn discard(&mut self, frame: &Frame<'_>, offset: u64) -> Result<()> {
        let missing = self.missing.unwrap_or(frame.place.first);
        if frame.place.durable_below > missing {
            let found = format!("frame {}, written after it was synced", frame.place.seq);
            return Err(damage(frame, offset, self.lost(missing), found));
        }
        self.discarded_frames += 1;
        Ok(())
    }

    fn lost(&self, missing: u64) -> String {
        format!("frame {missing} at byte {} of {}", self.end.1, segment::name(self.end.0))
    }

    fn finish(self, sources: &[Source], next_segment: u64) -> Result<Recovered> {
        let seq_min = sources.iter().map(|source| source.header.seq_min).max().unwrap_or(0);
        let next_seq = self.missing.or(self.expected).unwrap_or(seq_min);
        if next_seq < seq_min {
            let file = segment::name(self.end.0);
            let found = format!("none, although a later segment was made after frame {}", seq_min - 1);
            return Err(Error::corrupt(file, self.end.1, self.lost(next_seq), found));
        }
        let (segment, offset) = self.end;
        let is_cut = self.has_remains || self.missing.is_some();
        Ok(Recovered {
            next_segment,
            next_seq,
            records: self.records,
            frames: self.frames,
            cut: is_cut.then_some(Cut { segment, offset, resumes_at: next_segment }),
            discarded_frames: self.discarded_frames,
        })
    }
}

/// Damage that a whole frame tells of.
fn damage(frame: &Frame<'_>, offset: u64, expected: impl Into<String>, found: impl Into<String>) -> Error {
    Error::corrupt(segment::name(frame.place.segment), offset, expected, found)
}
