//! Passes over a whole generation: for merging, exporting and verifying.

use crate::bloom::Mask;
use crate::codec::Checksum;
use crate::error::{Error, Result};
use crate::limits::{GENERATION_BLOCK_BYTES, LINE_BYTES, SPARE_LINES};
use crate::storage::failed;

use super::header::{FOOTER_BYTES, HEADER_BYTES, Header, UnverifiedHeader, footer};
use super::line;
use super::reader::{Content, Generation, index};
use super::{SealedFact, home};

/// Lines that are read at once.
const LINES_AT_ONCE: u64 = GENERATION_BLOCK_BYTES as u64 / LINE_BYTES;

impl Generation {
    /// All facts in the order of `hi`, each line checked; ends with the first error.
    pub(crate) fn facts(&self) -> Facts<'_> {
        Facts { generation: self, line_next: 0, facts: Vec::new().into_iter() }
    }

    /// Appends the facts in `count` lines from `first` on, in the order of `hi`; lines behind the last are
    /// none.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] at the first damaged line; [`Error::Io`].
    pub(crate) fn facts_in(&self, first: u64, count: u64, facts: &mut Vec<SealedFact>) -> Result<()> {
        self.each_block(first, first.saturating_add(count), |block, block_first| {
            for (line, line_index) in block.as_chunks().0.iter().zip(block_first..) {
                self.facts_of(line, line_index, facts)?;
            }
            Ok(())
        })
    }

    /// Appends the facts of one line.
    fn facts_of(&self, line: &line::Line, line_index: u64, facts: &mut Vec<SealedFact>) -> Result<()> {
        if !line::is_intact(line, self.seeds.of_line(line_index)) {
            return Err(self.damaged(line_index));
        }
        for slot in line::slots(line) {
            let (key, state, version) = slot.ok_or_else(|| self.damaged(line_index))?;
            let until = self.header.birth.saturating_add(version.into());
            facts.push(SealedFact { key, state, until });
        }
        Ok(())
    }

    /// Reads everything and checks it; answers the number of keys.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] with the first place that is damaged; [`Error::Io`].
    pub(crate) fn verify(&self) -> Result<u64> {
        self.verify_ends()?;
        let mut sum = Checksum::new(self.seeds.lines);
        let (mut ids, mut hi_last) = (0, 0);
        let mut facts = Vec::new();
        self.each_block(0, self.header.lines, |block, block_first| {
            sum.add(block);
            for (line, line_index) in block.as_chunks().0.iter().zip(block_first..) {
                facts.clear();
                self.facts_of(line, line_index, &mut facts)?;
                ids += facts.len() as u64;
                if !facts.iter().all(|fact| self.is_in_place(fact, line_index, &mut hi_last)) {
                    return Err(self.damaged(line_index));
                }
            }
            Ok(())
        })?;
        if sum.finish() != self.header.lines_checksum || ids != self.header.ids {
            let expected = format!("lines with {} keys and their checksum", self.header.ids);
            return Err(Error::corrupt(self.name(), HEADER_BYTES as u64, expected, format!("{ids} keys")));
        }
        self.verify_filter()?;
        Ok(ids)
    }

    /// Whether a look-up finds the fact where it is, and the header covers it.
    fn is_in_place(&self, fact: &SealedFact, line_index: u64, hi_last: &mut u64) -> bool {
        let hi = fact.key.hi();
        let walk = line_index.checked_sub(home(hi, self.header.home_lines));
        let is_ordered = std::mem::replace(hi_last, hi) <= hi;
        is_ordered
            && walk.is_some_and(|walk| walk <= SPARE_LINES)
            && (self.header.until_min..=self.header.until_max).contains(&fact.until)
            && self.may_contain_masked(fact.key, Mask::of(fact.key))
    }

    /// Header and footer, read anew.
    fn verify_ends(&self) -> Result<()> {
        let mut buffer = Vec::new();
        let bytes = self.bytes_at(0, HEADER_BYTES, &mut buffer)?;
        let bytes = bytes.first_chunk().expect("as long as asked for");
        if UnverifiedHeader(bytes).verify(self.name())? != (self.header, self.header_checksum) {
            return Err(Error::corrupt(self.name(), 16, "the header as it was opened", "another"));
        }
        let offset = self.header.footer_offset();
        if *self.bytes_at(offset, FOOTER_BYTES, &mut buffer)? != footer(self.header_checksum, self.seeds) {
            return Err(Error::corrupt(self.name(), offset, "the footer", "something else"));
        }
        Ok(())
    }

    /// The filter in the file.
    fn verify_filter(&self) -> Result<()> {
        let mut sum = Checksum::new(self.seeds.filter);
        let mut buffer = Vec::new();
        let (start, end) = (self.header.filter_offset(), self.header.footer_offset());
        let mut offset = start;
        while offset < end {
            let count = GENERATION_BLOCK_BYTES.min(index(end - offset));
            sum.add(self.bytes_at(offset, count, &mut buffer)?);
            offset += count as u64;
        }
        if sum.finish() == self.header.filter_checksum {
            return Ok(());
        }
        Err(Error::corrupt(self.name(), start, "the filter with its checksum", "something else"))
    }

    /// Calls `visit` with the lines `first..end` block by block, and the number of the first of each.
    fn each_block(
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

    /// Bytes of the file: in the map, or read into the buffer.
    pub(super) fn bytes_at<'b>(
        &'b self,
        offset: u64,
        count: usize,
        buffer: &'b mut Vec<u8>,
    ) -> Result<&'b [u8]> {
        match &self.content {
            Content::Map(map) => Ok(&map[index(offset)..index(offset) + count]),
            Content::File(file) => {
                buffer.resize(count, 0);
                file.read_exact_at(offset, buffer).map_err(failed("reading", &self.name))?;
                Ok(buffer)
            }
        }
    }
}

/// The facts of a generation, one after the other.
#[derive(Debug)]
pub(crate) struct Facts<'g> {
    generation: &'g Generation,
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
            if self.line_next >= self.generation.header.lines {
                return None;
            }
            let mut facts = std::mem::take(&mut self.facts).collect::<Vec<_>>();
            let first = self.line_next;
            self.line_next = first + LINES_AT_ONCE;
            if let Err(error) = self.generation.facts_in(first, LINES_AT_ONCE, &mut facts) {
                self.line_next = u64::MAX;
                return Some(Err(error));
            }
            self.facts = facts.into_iter();
        }
    }
}
