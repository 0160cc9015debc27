//! Passes over all facts of a generation: for merging, exporting and verifying.

use crate::error::Result;
use crate::fingerprint::Fingerprint;
use crate::limits::{GENERATION_BLOCK_BYTES, LINE_BYTES};
use crate::stamp::{Stamp, State};

use super::file::{SealedFile, index};
use super::header::Header;
use super::line;
use super::{SealedFact, home};

/// Lines that are read at once behind the last home line of a range of keys.
const LINES_BEHIND: u64 = 4;

/// Lines that are read at once.
const LINES_AT_ONCE: u64 = GENERATION_BLOCK_BYTES as u64 / LINE_BYTES;

impl SealedFile {
    /// All facts in the order of `hi`, each line checked; ends with the first error.
    pub(super) fn facts(&self) -> Facts<'_> {
        Facts { file: self, line_next: 0, facts: Vec::new().into_iter() }
    }

    /// Appends the facts in `count` lines from `first` on, in the order of `hi`; lines behind the last are
    /// none.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] at the first damaged line; [`Error::Io`].
    pub(super) fn facts_in(&self, first: u64, count: u64, facts: &mut Vec<SealedFact>) -> Result<()> {
        self.each_block(first, first.saturating_add(count), |block, block_first| {
            for (line, line_index) in block.as_chunks().0.iter().zip(block_first..) {
                self.facts_of(line, line_index, facts)?;
            }
            Ok(())
        })
    }

    /// Hands on what is in `count` lines from `first` on: number of the line, slot, key and stamp. Answers
    /// the last `hi`; none may be less than `hi_least`.
    pub(super) fn each_slot_in(
        &self,
        first: u64,
        count: u64,
        mut hi_least: u64,
        mut visit: impl FnMut(u64, usize, Fingerprint, Stamp),
    ) -> Result<u64> {
        self.each_block(first, first.saturating_add(count), |block, block_first| {
            for (line, line_index) in block.as_chunks().0.iter().zip(block_first..) {
                for (slot, fact) in self.intact_slots(line, line_index)?.enumerate() {
                    let (key, state, version) = fact.ok_or_else(|| self.damaged(line_index))?;
                    // A search in the file would end here, and one in a copy would not.
                    if key.hi() < hi_least || home(key.hi(), self.header.home_lines) > line_index {
                        return Err(self.damaged(line_index));
                    }
                    hi_least = key.hi();
                    visit(line_index, slot, key, Stamp::new(state, version));
                }
            }
            Ok(())
        })?;
        Ok(hi_least)
    }

    /// What a line has in its slots, when its checksum is right.
    fn intact_slots(
        &self,
        line: &line::Line,
        line_index: u64,
    ) -> Result<impl Iterator<Item = Option<(Fingerprint, State, u32)>>> {
        if line::is_intact(line, self.seeds.of_line(line_index)) {
            Ok(line::slots(line))
        } else {
            Err(self.damaged(line_index))
        }
    }

    /// Appends the facts of keys with a `hi` in `first..=last`, in the order of `hi`.
    ///
    /// No key is before its home line, and all are in the order of `hi`: so they begin at the home of
    /// `first`, and end where a larger `hi` is met behind the home of `last`.
    ///
    /// # Errors
    ///
    /// As [`SealedFile::facts_in`].
    pub(super) fn facts_between(&self, first: u64, last: u64, facts: &mut Vec<SealedFact>) -> Result<()> {
        let (mut line, end) = (home(first, self.header.home_lines), home(last, self.header.home_lines) + 1);
        let mut count = end - line;
        let begun = facts.len();
        while line < self.header.lines {
            self.facts_in(line, count, facts)?;
            line = line.saturating_add(count);
            if facts[begun..].last().is_some_and(|fact| fact.key.hi() > last) {
                break;
            }
            count = LINES_BEHIND;
        }
        let mut index = 0;
        facts.retain(|fact| {
            index += 1;
            index <= begun || (first..=last).contains(&fact.key.hi())
        });
        Ok(())
    }

    /// Appends the facts of one line.
    pub(super) fn facts_of(
        &self,
        line: &line::Line,
        line_index: u64,
        facts: &mut Vec<SealedFact>,
    ) -> Result<()> {
        for slot in self.intact_slots(line, line_index)? {
            let (key, state, version) = slot.ok_or_else(|| self.damaged(line_index))?;
            let until = self.header.birth.saturating_add(version.into());
            facts.push(SealedFact { key, state, until });
        }
        Ok(())
    }

    /// Calls `visit` with the lines `first..end` block by block, and the number of the first of each.
    pub(super) fn each_block(
        &self,
        first: u64,
        end: u64,
        mut visit: impl FnMut(&[u8], u64) -> Result<()>,
    ) -> Result<()> {
        let mut buffer = Vec::new();
        let end = end.min(self.header.lines);
        let mut from = first;
        while from < end {
            let count = LINES_AT_ONCE.min(end - from);
            let block = self.bytes_at(Header::line_offset(from), index(count * LINE_BYTES), &mut buffer)?;
            visit(block, from)?;
            from += count;
        }
        Ok(())
    }
}

/// The facts of a generation, one after the other.
#[derive(Debug)]
pub(crate) struct Facts<'g> {
    file: &'g SealedFile,
    line_next: u64,
    facts: std::vec::IntoIter<SealedFact>,
}

impl Iterator for Facts<'_> {
    type Item = Result<SealedFact>;

    fn next(&mut self) -> Option<Result<SealedFact>> {
        loop {
            if let Some(fact) = self.facts.next() {
                return Some(Ok(fact));
            }
            if self.line_next >= self.file.header.lines {
                return None;
            }
            let mut facts = std::mem::take(&mut self.facts).collect::<Vec<_>>();
            let first = self.line_next;
            self.line_next = first + LINES_AT_ONCE;
            if let Err(error) = self.file.facts_in(first, LINES_AT_ONCE, &mut facts) {
                self.line_next = u64::MAX;
                return Some(Err(error));
            }
            self.facts = facts.into_iter();
        }
    }
}
