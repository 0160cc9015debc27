//! The filter of an open generation: in memory, or asked where it lies in the map.

use crate::bloom::{BLOCK_BYTES, Bloom, BloomBuilder, Mask, bytes_may_contain, bytes_of_block};
use crate::codec::{Checksum, checksum};
use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::limits::GENERATION_BLOCK_BYTES;
use crate::table::prefetch;

use super::file::{Content, SealedFile, index};

/// Says "not here" or "perhaps", never a wrong "not here".
#[derive(Debug)]
pub(super) struct Filter {
    /// In memory, where it can't be asked in the map.
    memory: Option<Bloom>,
    /// Where the filter is in the map; empty without one, and then every key passes.
    mapped: std::ops::Range<usize>,
    is_rebuilt: bool,
}

impl Filter {
    /// Lets every key pass.
    pub(super) fn none() -> Filter {
        Filter { memory: None, mapped: 0..0, is_rebuilt: false }
    }

    fn in_memory(bloom: Bloom) -> Filter {
        Filter { memory: Some(bloom), ..Filter::none() }
    }

    /// The filter of a generation, checked: where it lies in the map, in memory without one, and in memory
    /// and made anew when it is damaged.
    pub(super) fn open(file: &SealedFile) -> Result<Filter> {
        let header = &file.header;
        let range = index(header.filter_offset())..index(header.footer_offset());
        match &file.content {
            Content::Map(map)
                if checksum(file.seeds.filter, &map[range.clone()]) == header.filter_checksum =>
            {
                Ok(Filter { mapped: range, ..Filter::none() })
            }
            Content::Map(_) => Filter::rebuilt(file),
            Content::File => match load(file)? {
                Some(bloom) => Ok(Filter::in_memory(bloom)),
                None => Filter::rebuilt(file),
            },
        }
    }

    fn rebuilt(file: &SealedFile) -> Result<Filter> {
        Ok(Filter { is_rebuilt: true, ..Filter::in_memory(rebuild(file)?) })
    }

    #[inline]
    pub(super) fn may_contain_masked(&self, file: &SealedFile, key: Fingerprint, mask: Mask) -> bool {
        match (&self.memory, &file.content) {
            (Some(bloom), _) => bloom.may_contain_masked(key, mask),
            (None, Content::Map(map)) if !self.mapped.is_empty() => {
                bytes_may_contain(&map[self.mapped.clone()], key, mask)
            }
            _ => true,
        }
    }

    #[inline]
    pub(super) fn prefetch(&self, file: &SealedFile, key: Fingerprint) {
        match (&self.memory, &file.content) {
            (Some(bloom), _) => bloom.prefetch(key),
            (None, Content::Map(map)) if !self.mapped.is_empty() => {
                prefetch(bytes_of_block(&map[self.mapped.clone()], key));
            }
            _ => {}
        }
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        self.memory.as_ref().map_or(0, Bloom::memory_bytes)
    }

    /// Whether it is in memory.
    pub(super) fn is_loaded(&self) -> bool {
        self.memory.is_some()
    }

    /// A copy in memory; made anew when that in the map was damaged since it was checked.
    pub(super) fn read(file: &SealedFile) -> Result<Bloom> {
        load(file)?.map_or_else(|| rebuild(file), Ok)
    }

    pub(super) fn is_rebuilt(&self) -> bool {
        self.is_rebuilt
    }
}

/// Reads the filter; `None` when it is damaged.
fn load(file: &SealedFile) -> Result<Option<Bloom>> {
    let header = &file.header;
    let mut builder = BloomBuilder::with_blocks(header.filter_blocks)?;
    let mut sum = Checksum::new(file.seeds.filter);
    let mut buffer = Vec::new();
    let (mut offset, end) = (header.filter_offset(), header.footer_offset());
    let mut first = 0;
    while offset < end {
        let count = GENERATION_BLOCK_BYTES.min(index(end - offset));
        let bytes = file.bytes_at(offset, count, &mut buffer)?;
        sum.add(bytes);
        builder.load(first, bytes);
        first += count / BLOCK_BYTES;
        offset += count as u64;
    }
    Ok((sum.finish() == header.filter_checksum).then(|| builder.build()))
}

/// Makes the filter anew from the lines.
#[cold]
fn rebuild(file: &SealedFile) -> Result<Bloom> {
    let mut builder = BloomBuilder::with_blocks(file.header.filter_blocks)?;
    let mut ids = 0;
    for fact in file.facts() {
        builder.insert(fact?.key);
        ids += 1;
    }
    if ids != file.header.ids {
        let expected = format!("{} keys", file.header.ids);
        return Err(Error::corrupt(file.name.as_str(), 64, expected, format!("{ids} keys")));
    }
    Ok(builder.build())
}
