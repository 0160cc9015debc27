//! Reads all of a generation and checks it.

use crate::bloom::Mask;
use crate::codec::Checksum;
use crate::error::{Error, Result};
use crate::limits::{GENERATION_BLOCK_BYTES, SPARE_LINES};

use super::file::index;
use super::header::{FOOTER_BYTES, HEADER_BYTES, UnverifiedHeader, footer};
use super::reader::Generation;
use super::{SealedFact, home};

impl Generation {
    /// Reads everything and checks it; answers the number of keys.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] with the first place that is damaged; [`Error::Io`].
    pub(crate) fn verify(&self) -> Result<u64> {
        self.verify_ends()?;
        let mut sum = Checksum::new(self.file.seeds.lines);
        let (mut ids, mut hi_last) = (0, 0);
        let mut facts = Vec::new();
        self.file.each_block(0, self.file.header.lines, |block, block_first| {
            sum.add(block);
            for (line, line_index) in block.as_chunks().0.iter().zip(block_first..) {
                facts.clear();
                self.file.facts_of(line, line_index, &mut facts)?;
                ids += facts.len() as u64;
                if !facts.iter().all(|fact| self.is_in_place(fact, line_index, &mut hi_last)) {
                    return Err(self.file.damaged(line_index));
                }
            }
            Ok(())
        })?;
        if sum.finish() != self.file.header.lines_checksum || ids != self.file.header.ids {
            let expected = format!("lines with {} keys and their checksum", self.file.header.ids);
            return Err(Error::corrupt(self.name(), HEADER_BYTES as u64, expected, format!("{ids} keys")));
        }
        self.verify_filter()?;
        Ok(ids)
    }

    /// Whether a look-up finds the fact where it is, and the header covers it.
    fn is_in_place(&self, fact: &SealedFact, line_index: u64, hi_last: &mut u64) -> bool {
        let hi = fact.key.hi();
        let walk = line_index.checked_sub(home(hi, self.file.header.home_lines));
        let is_ordered = std::mem::replace(hi_last, hi) <= hi;
        is_ordered
            && walk.is_some_and(|walk| walk <= SPARE_LINES)
            && (self.file.header.until_min..=self.file.header.until_max).contains(&fact.until)
            && self.may_contain_masked(fact.key, Mask::of(fact.key))
    }

    /// Header and footer, read anew.
    fn verify_ends(&self) -> Result<()> {
        let mut buffer = Vec::new();
        let bytes = self.file.bytes_at(0, HEADER_BYTES, &mut buffer)?;
        let bytes = bytes.first_chunk().expect("as long as asked for");
        if UnverifiedHeader(bytes).verify(self.name())? != (self.file.header, self.file.header_checksum) {
            return Err(Error::corrupt(self.name(), 16, "the header as it was opened", "another"));
        }
        let offset = self.file.header.footer_offset();
        if *self.file.bytes_at(offset, FOOTER_BYTES, &mut buffer)?
            != footer(self.file.header_checksum, self.file.seeds)
        {
            return Err(Error::corrupt(self.name(), offset, "the footer", "something else"));
        }
        Ok(())
    }

    /// The filter in the file.
    fn verify_filter(&self) -> Result<()> {
        let mut sum = Checksum::new(self.file.seeds.filter);
        let mut buffer = Vec::new();
        let (start, end) = (self.file.header.filter_offset(), self.file.header.footer_offset());
        let mut offset = start;
        while offset < end {
            let count = GENERATION_BLOCK_BYTES.min(index(end - offset));
            sum.add(self.file.bytes_at(offset, count, &mut buffer)?);
            offset += count as u64;
        }
        if sum.finish() == self.file.header.filter_checksum {
            return Ok(());
        }
        Err(Error::corrupt(self.name(), start, "the filter with its checksum", "something else"))
    }
}
