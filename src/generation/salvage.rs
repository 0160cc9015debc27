//! What still reads of a generation: every line whose checksum holds, whatever else is damaged.
//!
//! A line proves itself by store, generation and its number, so neither header nor footer nor filter is
//! needed: only where the file begins, and from which tick its versions count, which the manifest says as
//! well as the header.

use crate::error::{Error, Result};
use crate::limits::{DAMAGES_MAX, GENERATION_BLOCK_BYTES, GENERATION_HEADER_BYTES, LINE_BYTES};
use crate::storage::names::generation_name;
use crate::storage::{Storage, StorageFile, failed};

use super::header::{HEADER_BYTES, Header, UnverifiedHeader};
use super::line::{self, Line};
use super::{Sealed, SealedFact, Seeds};

/// Lines that are read at once, and when that fails.
const LINES_AT_ONCE: u64 = GENERATION_BLOCK_BYTES as u64 / LINE_BYTES;
const LINES_AFTER_FAILURE: u64 = 64;

const _: () = assert!(HEADER_BYTES as u64 == GENERATION_HEADER_BYTES);

/// What a generation's file says of itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Labelled {
    pub(crate) store_id: u64,
    pub(crate) sealed: Sealed,
    pub(crate) tick_ms: u64,
    pub(crate) is_forever: bool,
}

/// Reads the header of a generation, for callers without a manifest.
///
/// # Errors
///
/// [`Error::Corrupt`], [`Error::Format`], [`Error::Io`].
pub(crate) fn read_label(storage: &dyn Storage, id: u64) -> Result<Labelled> {
    let name = generation_name(id);
    let file = storage.open_read(&name).map_err(failed("opening", &name))?;
    let size = file.size().map_err(failed("reading the length of", &name))?;
    let mut bytes = [0; HEADER_BYTES];
    if size < HEADER_BYTES as u64 {
        return Err(Error::corrupt(name, size, "the header of a generation", "the end of the file"));
    }
    file.read_exact_at(0, &mut bytes).map_err(failed("reading", &name))?;
    let (header, checksum) = UnverifiedHeader(&bytes).verify(&name)?;
    if header.id != id {
        let found = format!("generation {}", header.id);
        return Err(Error::corrupt(name, 24, format!("generation {id}"), found));
    }
    let Header { store_id, tick_ms, is_forever, .. } = header;
    Ok(Labelled { store_id, sealed: header.sealed(checksum), tick_ms, is_forever })
}

/// The facts in the lines that still read, in the order of `hi`.
#[derive(Debug)]
pub(crate) struct Survivors {
    file: Box<dyn StorageFile>,
    name: String,
    seeds: Seeds,
    birth: u64,
    lines: u64,
    /// Whole lines that the file is long enough for.
    lines_present: u64,
    line_next: u64,
    hi_last: u64,
    buffer: Vec<u8>,
    facts: std::vec::IntoIter<SealedFact>,
    lines_lost: u64,
    damages: Vec<Error>,
}

impl Survivors {
    /// Opens what is left of a generation that is known from elsewhere.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when the file can't be opened at all.
    pub(crate) fn open(storage: &dyn Storage, sealed: &Sealed, store_id: u64) -> Result<Survivors> {
        let name = generation_name(sealed.id);
        let file = storage.open_read(&name).map_err(failed("opening", &name))?;
        let size = file.size().map_err(failed("reading the length of", &name))?;
        Ok(Survivors {
            file,
            name,
            seeds: Seeds::new(store_id, sealed.id),
            birth: sealed.birth,
            lines: sealed.lines,
            lines_present: sealed.lines.min(size.saturating_sub(HEADER_BYTES as u64) / LINE_BYTES),
            line_next: 0,
            hi_last: 0,
            buffer: Vec::new(),
            facts: Vec::new().into_iter(),
            lines_lost: 0,
            damages: Vec::new(),
        })
    }

    /// Lines that did not read so far.
    pub(crate) fn lines_lost(&self) -> u64 {
        self.lines_lost
    }

    /// The places that did not read so far; of very many the first ones.
    pub(crate) fn damages(&self) -> &[Error] {
        &self.damages
    }

    /// Reads on; false at the end.
    fn fill(&mut self) -> bool {
        if self.line_next >= self.lines {
            return false;
        }
        if self.line_next >= self.lines_present {
            self.lose(self.lines - self.line_next, "the end of the file");
            return false;
        }
        let left = self.lines_present - self.line_next;
        let count = LINES_AT_ONCE.min(left);
        let mut outcome = self.read(count).map(|()| count);
        if outcome.is_err() {
            // A medium that can't read one sector is asked for the others.
            let count = LINES_AFTER_FAILURE.min(left);
            outcome = self.read(count).map(|()| count).map_err(|_| count);
        }
        match outcome {
            Ok(count) => self.take_lines(count),
            Err(count) => self.lose(count, "nothing that the medium can read"),
        }
        true
    }

    fn read(&mut self, count: u64) -> Result<(), u64> {
        self.buffer.resize(usize::try_from(count * LINE_BYTES).unwrap_or(usize::MAX), 0);
        let offset = Header::line_offset(self.line_next);
        self.file.read_exact_at(offset, &mut self.buffer).map_err(|_| count)
    }

    fn take_lines(&mut self, count: u64) {
        let buffer = std::mem::take(&mut self.buffer);
        let mut facts = Vec::new();
        for line in buffer.as_chunks().0 {
            let begun = facts.len();
            if self.take_line(line, &mut facts).is_some() {
                self.line_next += 1;
            } else {
                facts.truncate(begun);
                self.lose(1, "something else");
            }
        }
        debug_assert_eq!(buffer.len() as u64, count * LINE_BYTES);
        self.buffer = buffer;
        self.facts = facts.into_iter();
    }

    /// The facts of a line; `None` when it is damaged or was never written so.
    fn take_line(&mut self, line: &Line, facts: &mut Vec<SealedFact>) -> Option<()> {
        if !line::is_intact(line, self.seeds.of_line(self.line_next)) {
            return None;
        }
        let mut hi_last = self.hi_last;
        for slot in line::slots(line) {
            let (key, state, version) = slot?;
            if key.hi() < hi_last {
                return None;
            }
            hi_last = key.hi();
            facts.push(SealedFact { key, state, until: self.birth.saturating_add(version.into()) });
        }
        self.hi_last = hi_last;
        Some(())
    }

    /// Goes on behind lines that do not read.
    fn lose(&mut self, count: u64, found: &str) {
        if self.damages.len() < DAMAGES_MAX {
            let offset = Header::line_offset(self.line_next);
            self.damages.push(Error::corrupt(&self.name, offset, "a line with its checksum", found));
        }
        self.lines_lost += count;
        self.line_next += count;
    }
}

impl Iterator for Survivors {
    type Item = SealedFact;

    fn next(&mut self) -> Option<SealedFact> {
        loop {
            if let Some(fact) = self.facts.next() {
                return Some(fact);
            }
            if !self.fill() {
                return None;
            }
        }
    }
}
