//! Keys: the sixteen bytes that every peer keeps of an ID, hashed the same way for all.
//!
//! `firstseen` hashes inside its own call, with the same XXH3-128; so do all others, inside the timed part.

use std::hash::{BuildHasher, Hasher};

use xxhash_rust::xxh3::xxh3_128_with_secret;

/// An ID of the workload: a UUID as text.
pub(crate) type Id = [u8; 36];

/// A key as ordered stores take it: big-endian, so that the order of bytes is that of the numbers.
pub(crate) type KeyBytes = [u8; 16];

/// A fixed secret, as evenly spread as the hash asks for.
const SECRET: [u8; 192] = {
    let mut secret = [0; 192];
    let mut index = 0;
    while index < 192 {
        secret[index] = (index * 167 % 251) as u8;
        index += 1;
    }
    secret
};

/// The key of an ID.
#[inline]
pub(crate) fn key_of(id: &Id) -> u128 {
    xxh3_128_with_secret(id, &SECRET)
}

/// The keys of one batch in ascending order, each with its place in the batch.
///
/// Sorting costs about 30 ns a key in a batch of 1024 and is worth more than that to every ordered store:
/// neighbours share the way down the tree. Equal keys are neighbours too, the first of the batch first.
#[derive(Debug, Default)]
pub(crate) struct SortedKeys(pub(crate) Vec<(u128, u32)>);

impl SortedKeys {
    /// Hashes and sorts a batch.
    pub(crate) fn fill(&mut self, ids: &[Id]) {
        self.0.clear();
        self.0.extend((0_u32..).zip(ids).map(|(place, id)| (key_of(id), place)));
        self.0.sort_unstable();
    }
}

/// Takes the low half of a key as its hash: it is one already.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LowHalf;

impl BuildHasher for LowHalf {
    type Hasher = Low;
    fn build_hasher(&self) -> Low {
        Low(0)
    }
}

/// See [`LowHalf`].
#[derive(Debug)]
pub(crate) struct Low(u64);

impl Hasher for Low {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        // Only keys are hashed with it; anything else still gets an answer.
        self.0 = bytes.iter().fold(self.0, |hash, byte| hash.rotate_left(8) ^ u64::from(*byte));
    }

    #[expect(clippy::cast_possible_truncation, reason = "the low half is meant")]
    fn write_u128(&mut self, key: u128) {
        self.0 = key as u64;
    }
}
