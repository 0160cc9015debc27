//! Fixed-width little-endian numbers in byte slices, and the checksum of everything on disk.
//!
//! Reading takes a checked slice and says `None` where it ends too early, so no length from a file is used
//! before it is checked (G8).

use xxhash_rust::xxh3::{Xxh3, xxh3_64_with_seed};

/// Checksum of bytes under a seed: XXH3-64. It finds accidents, not forgery.
#[inline]
pub(crate) fn checksum(seed: u64, bytes: &[u8]) -> u64 {
    xxh3_64_with_seed(bytes, seed)
}

/// The same over parts that do not lie together.
#[derive(Clone)]
pub(crate) struct Checksum(Xxh3);

impl Checksum {
    pub(crate) fn new(seed: u64) -> Checksum {
        Checksum(Xxh3::with_seed(seed))
    }

    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(crate) fn finish(&self) -> u64 {
        self.0.digest()
    }
}

/// Reads numbers from the front of a slice.
#[derive(Clone, Debug)]
pub(crate) struct Reader<'b> {
    bytes: &'b [u8],
}

impl<'b> Reader<'b> {
    pub(crate) fn new(bytes: &'b [u8]) -> Reader<'b> {
        Reader { bytes }
    }

    /// The next `count` bytes.
    pub(crate) fn take(&mut self, count: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(count)?;
        self.bytes = rest;
        Some(taken)
    }

    /// The next `N` bytes as an array.
    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.bytes.split_first_chunk()?;
        self.bytes = rest;
        Some(*taken)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// What is left.
    pub(crate) fn rest(&self) -> &'b [u8] {
        self.bytes
    }
}

/// The eight bytes at `offset` as a number; `None` when the slice ends before.
#[inline]
pub(crate) fn u64_at(bytes: &[u8], offset: usize) -> Option<u64> {
    let chunk = bytes.get(offset..)?.first_chunk()?;
    Some(u64::from_le_bytes(*chunk))
}

/// The four bytes at `offset` as a number; `None` when the slice ends before.
#[inline]
pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    let chunk = bytes.get(offset..)?.first_chunk()?;
    Some(u32::from_le_bytes(*chunk))
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn reader_past_its_end_answers_none_and_keeps_what_is_left() {
        let mut reader = Reader::new(&[1, 0, 0, 0, 9]);
        assert_eq!(reader.u32(), Some(1));
        assert_eq!(reader.u64(), None);
        assert_eq!(reader.rest(), [9]);
        assert_eq!(reader.take(1), Some(&[9][..]));
        assert_eq!(reader.take(1), None);
    }

    #[test]
    fn number_at_offset_beyond_the_slice_is_none() {
        assert_eq!(u32_at(&[0, 1, 0, 0, 0], 1), Some(1));
        for offset in [2, 5, 6, usize::MAX] {
            assert_eq!(u32_at(&[0, 1, 0, 0, 0], offset), None);
            assert_eq!(u64_at(&[0, 1, 0, 0, 0], offset), None);
        }
    }

    #[test]
    fn checksum_of_parts_is_that_of_the_whole() {
        let bytes: Vec<u8> = (0..=255).cycle().take(10_000).collect();
        let mut parts = Checksum::new(7);
        bytes.chunks(333).for_each(|part| parts.add(part));
        assert_eq!(parts.finish(), checksum(7, &bytes));
        assert_ne!(parts.finish(), checksum(8, &bytes));
    }
}
