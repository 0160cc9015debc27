//! The filter that keeps a look-up from asking a table in vain.
//!
//! It says "not here" or "perhaps", never a wrong "not here".
//!
//! A split-block Bloom filter, as Parquet has it (Putze, Sanders and Singler, "Cache-, hash-, and
//! space-efficient Bloom filters", J. Exp. Algorithmics 14, 2009): every key belongs to one block of 256
//! bits, which is eight words of 32 bits, and sets one bit in each word. One probe touches one cache line.
//!
//! ```text
//! block     = (hi * blocks) >> 64                       the high half of a 128-bit product
//! bit of word i, i = 0..8  = byte i of lo, modulo 32    eight independent choices
//!
//!          word 0    word 1          word 7
//! block | ..1..... | .....1.. | ... | 1....... |        32 bytes, never across a cache line
//! ```
//!
//! The block follows `hi` as the home line in a table does, so a filter is filled from a table in one
//! sequential pass. A fingerprint is evenly spread already, so its bits are used as they are; Parquet
//! multiplies 32 bits of hash by eight constants.
//!
//! # The rate of wrong "perhaps"
//!
//! With `n` keys in `blocks` blocks the keys of a block are Poisson distributed around `m = n / blocks`, so
//! the rate is the sum over `i` of `e^-m m^i / i!` times `(1 - (31/32)^i)^8`: 0.54% for 12 bits a key, 1.3%
//! for 10, 0.13% for 16. A classic filter of 12 bits a key has 0.31%, for eight cache lines a probe. A
//! filter that is given more keys than it was made for stays right and becomes less useful: 3.3% at one and
//! a half times the keys.
//!
//! # What was measured
//!
//! - Bits from the bytes of `lo`, from adjacent 5-bit slices of it, and from products with Parquet's
//!   constants: the same rate within the noise, and within 10% the same time to probe; the products take
//!   2.5 times as long to insert when the filter fits a cache. Bytes were taken, since vector instructions
//!   widen bytes in one step.
//! - Shifting each word by its bit's number instead of making masks: 5% slower as soon as a filter leaves
//!   the first-level cache.
//! - Keeping the block that is being filled in the builder until the next one is due: no gain, as the
//!   compiler does not keep it in registers.
//! - The masks made by SSE2 (a shift by `n` as the conversion of a float with exponent `n`) halve the time
//!   of a probe and of an insert in a cache. The intrinsics need `unsafe`, and the compiler does not find
//!   this form by itself, nor in saturating casts (which more than doubled the time), so it was left out.

use crate::error::Result;
use crate::fingerprint::Fingerprint;
use crate::sync::{AtomicU64, Ordering};
use crate::table::{Region, prefetch};

/// Words in a block: one bit of each belongs to a key.
const WORDS: usize = 8;

/// Bits in a block.
const BLOCK_BITS: u64 = 256;

/// Bytes in a block.
pub(crate) const BLOCK_BYTES: usize = 32;

/// The eight words of a block, or the bits of one key in them.
type Words = [u32; WORDS];

/// The bits of one key as they lie in a block: the same in every filter, so made once and asked often.
#[derive(Clone, Copy, Debug)]
pub struct Mask([u64; WORDS / 2]);

impl Mask {
    /// Which bit of each word belongs to a fingerprint.
    #[inline]
    #[must_use]
    pub fn of(fingerprint: Fingerprint) -> Self {
        let bits: Words = fingerprint.lo().to_le_bytes().map(|byte| 1 << (byte % 32));
        Self(std::array::from_fn(|pair| u64::from(bits[2 * pair]) | u64::from(bits[2 * pair + 1]) << 32))
    }
}

/// Which of `blocks` blocks belongs to a fingerprint; always less than `blocks`.
#[inline]
#[expect(
    clippy::cast_possible_truncation,
    reason = "the high half of the product is less than `blocks`, a usize"
)]
fn block_index(fingerprint: Fingerprint, blocks: usize) -> usize {
    ((u128::from(fingerprint.hi()) * blocks as u128) >> 64) as usize
}

/// Half a cache line, never part of two: two words in each element.
///
/// Written by one thread; atomics because others may ask for keys of which they know that they are there
/// while more are added.
type Block = [AtomicU64; WORDS / 2];

#[cfg(not(loom))]
const _: () = assert!(size_of::<Block>() as u64 * 8 == BLOCK_BITS && size_of::<Block>() == BLOCK_BYTES);

/// Sets the bits of a key.
#[inline]
fn add(block: &Block, mask: Mask) {
    for (word, bits) in block.iter().zip(mask.0) {
        // Relaxed: one thread writes, and what it has added is published by the view that says so (P3).
        let merged = word.load(Ordering::Relaxed) | bits;
        // Relaxed: as above.
        word.store(merged, Ordering::Relaxed);
    }
}

/// Whether all bits of a key are set; looks at every word, without a branch.
#[inline]
fn has(block: &Block, mask: Mask) -> bool {
    let words = block.iter().zip(mask.0);
    // Relaxed: the keys that must be found were added before the view was published that says so (P3), and
    // bits are only ever added.
    words.fold(0, |missing, (word, bits)| missing | (!word.load(Ordering::Relaxed) & bits)) == 0
}

/// The memory of a filter: this and [`Block`] are all that knows what it is made of.
#[derive(Debug)]
struct Blocks(Region<Block>);

impl Blocks {
    /// `count` blocks without a bit set.
    fn zeroed(count: u64) -> Result<Self> {
        Ok(Self(Region::zeroed(usize::try_from(count).unwrap_or(usize::MAX))?))
    }

    #[inline]
    fn of(&self, fingerprint: Fingerprint) -> &Block {
        &self.0[block_index(fingerprint, self.0.len())]
    }

    fn bytes(&self) -> u64 {
        size_of_val(&*self.0) as u64
    }
}

/// Asks a filter that lies in bytes, as [`Bloom::write_into`] writes it: whole blocks, and at least one.
///
/// The same answers as [`Bloom::may_contain_masked`].
#[inline]
pub(crate) fn bytes_may_contain(bytes: &[u8], fingerprint: Fingerprint, mask: Mask) -> bool {
    let words = bytes_of_block(bytes, fingerprint).as_chunks::<8>().0.iter().zip(mask.0);
    words.fold(0, |missing, (word, bits)| missing | (!u64::from_le_bytes(*word) & bits)) == 0
}

/// The block of a fingerprint in a filter that lies in bytes.
#[inline]
pub(crate) fn bytes_of_block(bytes: &[u8], fingerprint: Fingerprint) -> &[u8; BLOCK_BYTES] {
    let blocks = bytes.as_chunks::<BLOCK_BYTES>().0;
    &blocks[block_index(fingerprint, blocks.len())]
}

/// Collects the keys of a filter.
///
/// Not shared between threads; [`BloomBuilder::build`] makes the filter that is.
#[derive(Debug)]
pub struct BloomBuilder {
    blocks: Blocks,
}

impl BloomBuilder {
    /// Room for `keys` keys at `bits_per_key` bits each, rounded up to whole blocks, and at least one block.
    ///
    /// More keys may be inserted; the filter then says "perhaps" more often.
    ///
    /// # Errors
    ///
    /// [`Error::System`](crate::Error::System) when there is not that much memory.
    ///
    /// Complexity: one allocation of `keys * bits_per_key / 8` bytes, which are written once.
    pub fn new(keys: u64, bits_per_key: u32) -> Result<Self> {
        let count = keys.saturating_mul(u64::from(bits_per_key)).div_ceil(BLOCK_BITS).max(1);
        Ok(Self { blocks: Blocks::zeroed(count)? })
    }

    /// Adds a key; again is no change.
    ///
    /// Complexity: one cache line. Keys in the order of `hi` fill the memory in sequence. Keys that stream
    /// from memory should be prefetched by the caller: the words of one block are a chain of dependent
    /// updates, which keeps the processor from running ahead to the next keys (2.4 times as long without).
    #[inline]
    pub fn insert(&mut self, fingerprint: Fingerprint) {
        add(self.blocks.of(fingerprint), Mask::of(fingerprint));
    }

    /// Room for a filter of so many blocks, none of them filled.
    ///
    /// # Errors
    ///
    /// [`Error::System`](crate::Error::System) when there is not that much memory.
    pub(crate) fn with_blocks(blocks: u64) -> Result<Self> {
        Ok(Self { blocks: Blocks::zeroed(blocks.max(1))? })
    }

    /// Puts blocks in place as [`Bloom::write_into`] wrote them, from block `first` on.
    ///
    /// # Panics
    ///
    /// When they are more than there is room for.
    pub(crate) fn load(&mut self, first: usize, bytes: &[u8]) {
        let from = bytes.as_chunks::<BLOCK_BYTES>().0;
        for (block, bytes) in self.blocks.0[first..first + from.len()].iter().zip(from) {
            for (word, bytes) in block.iter().zip(bytes.as_chunks().0) {
                // Relaxed: one builder writes, see `add`.
                word.store(u64::from_le_bytes(*bytes), Ordering::Relaxed);
            }
        }
    }

    /// How much memory the filter takes, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.blocks.bytes()
    }

    /// The finished filter; nothing is copied.
    #[must_use]
    pub fn build(self) -> Bloom {
        Bloom { blocks: self.blocks }
    }
}

/// A finished filter over a fixed set of keys.
///
/// Immutable for its users, so any number of threads may ask at once.
#[derive(Debug)]
pub struct Bloom {
    blocks: Blocks,
}

impl Bloom {
    /// Whether the key may be in the set: `false` is certain, `true` is wrong at the rate that the bits for
    /// a key give.
    ///
    /// Complexity: one cache line, no branch on what is found.
    #[inline]
    #[must_use]
    pub fn may_contain(&self, fingerprint: Fingerprint) -> bool {
        self.may_contain_masked(fingerprint, Mask::of(fingerprint))
    }

    /// The same with the bits of the key ready, for callers that ask several filters.
    #[inline]
    #[must_use]
    pub fn may_contain_masked(&self, fingerprint: Fingerprint, mask: Mask) -> bool {
        has(self.blocks.of(fingerprint), mask)
    }

    /// Brings the line of a key near, so that [`Bloom::may_contain`] some ten calls later does not wait for
    /// it.
    #[inline]
    pub fn prefetch(&self, fingerprint: Fingerprint) {
        prefetch(self.blocks.of(fingerprint));
    }

    /// Adds a key to a filter that is in use already: others find it, like all before it, under views that
    /// are published later (P3). One thread may add at a time.
    #[inline]
    pub(crate) fn extend(&self, fingerprint: Fingerprint) {
        add(self.blocks.of(fingerprint), Mask::of(fingerprint));
    }

    /// Blocks of the filter, at least one.
    pub(crate) fn blocks(&self) -> usize {
        self.blocks.0.len()
    }

    /// Appends `count` blocks from `first` on as a file keeps them: words in order, little-endian.
    ///
    /// # Panics
    ///
    /// When the filter has not that many.
    pub(crate) fn write_into(&self, first: usize, count: usize, bytes: &mut Vec<u8>) {
        for word in self.blocks.0[first..first + count].iter().flatten() {
            // Relaxed: all keys were added before the view was published that named the filter (P3).
            bytes.extend_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
        }
    }

    /// How much memory the filter takes, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.blocks.bytes()
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;
    use crate::fingerprint::{Hash, Hasher, Secret};
    use crate::limits::FILTER_BITS_PER_KEY;
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// The slow twin: 256 booleans a block, and the arithmetic written out.
    struct Twin {
        is_set: Vec<bool>,
    }

    impl Twin {
        fn new(keys: u64, bits_per_key: u64) -> Self {
            let bits = (keys * bits_per_key).next_multiple_of(256).max(256);
            Self { is_set: vec![false; usize::try_from(bits).unwrap()] }
        }

        fn places(&self, fingerprint: Fingerprint) -> [usize; 8] {
            let blocks = self.is_set.len() as u128 / 256;
            let block = u128::from(fingerprint.hi()) * blocks / (1 << 64);
            std::array::from_fn(|word| {
                let bit = fingerprint.lo() / 256_u64.pow(u32::try_from(word).unwrap()) % 32;
                usize::try_from(block).unwrap() * 256 + word * 32 + usize::try_from(bit).unwrap()
            })
        }

        fn insert(&mut self, fingerprint: Fingerprint) {
            self.places(fingerprint).into_iter().for_each(|place| self.is_set[place] = true);
        }

        fn may_contain(&self, fingerprint: Fingerprint) -> bool {
            self.places(fingerprint).into_iter().all(|place| self.is_set[place])
        }
    }

    /// Fingerprints as a hash makes them, and such as crowd into few blocks or few bits.
    fn fingerprints() -> impl Strategy<Value = Fingerprint> {
        let half =
            || prop_oneof![any::<u64>(), 0..4_u64, Just(u64::MAX), (0..64_u32).prop_map(|bit| 1 << bit)];
        (half(), half()).prop_map(|(hi, lo)| Fingerprint::from_halves(hi, lo))
    }

    proptest! {
        #[test]
        fn filter_answers_as_its_twin_and_never_no_for_a_key(
            keys in vec(fingerprints(), 0..200),
            others in vec(fingerprints(), 0..200),
            planned in 0..300_u64,
            bits_per_key in 0..20_u32,
        ) {
            let mut builder = BloomBuilder::new(planned, bits_per_key).unwrap();
            let mut twin = Twin::new(planned, bits_per_key.into());
            for &key in &keys {
                builder.insert(key);
                twin.insert(key);
            }
            let filter = builder.build();
            prop_assert_eq!(filter.memory_bytes() * 8, twin.is_set.len() as u64);
            for &key in &keys {
                filter.prefetch(key);
                prop_assert!(filter.may_contain(key));
            }
            for &other in &others {
                prop_assert_eq!(filter.may_contain(other), twin.may_contain(other));
            }
        }

        #[test]
        fn every_fingerprint_has_a_block(fingerprint in fingerprints(), blocks in 1..usize::MAX) {
            prop_assert!(block_index(fingerprint, blocks) < blocks);
        }
    }

    #[test]
    fn empty_filter_has_one_block_and_contains_nothing() {
        let filter = BloomBuilder::new(0, FILTER_BITS_PER_KEY).unwrap().build();
        assert_eq!(filter.memory_bytes(), 32);
        assert!(!filter.may_contain(Fingerprint::from_halves(1, 1)));
    }

    #[test]
    fn absurd_size_is_an_error() {
        for (keys, bits_per_key) in [(u64::MAX, u32::MAX), (u64::MAX / 12, 12), (1 << 60, 256)] {
            let answer = BloomBuilder::new(keys, bits_per_key);
            assert!(
                matches!(answer, Err(crate::error::Error::System { .. })),
                "{keys} keys of {bits_per_key} bits"
            );
        }
    }

    #[test]
    fn blocks_follow_the_order_of_hi() {
        let blocks = [0, 1 << 62, 1 << 63, 3 << 62, u64::MAX]
            .map(|hi| block_index(Fingerprint::from_halves(hi, 1), 4));
        // A zero half is replaced, so the first of them is where the stand-in is.
        assert_eq!(blocks[1..], [1, 2, 3, 3]);
    }

    /// The sum in the module's documentation.
    fn rate_in_theory(keys: f64, blocks: f64) -> f64 {
        let mean = keys / blocks;
        let mut poisson = (-mean).exp();
        let mut rate = 0.0;
        for crowd in 1..400 {
            poisson *= mean / f64::from(crowd);
            rate += poisson * (1.0 - (31.0_f64 / 32.0).powi(crowd)).powi(8);
        }
        rate
    }

    #[test]
    fn theory_gives_the_documented_rates() {
        for (bits_per_key, rate) in [(8.0, 0.0332), (10.0, 0.0126), (12.0, 0.0054), (16.0, 0.0013)] {
            assert!((rate_in_theory(256.0 / bits_per_key, 1.0) - rate).abs() < 0.00006, "{bits_per_key}");
        }
    }

    /// A million keys as planned, and twice as many: the measured rate keeps to theory.
    #[test]
    fn measured_rate_is_within_a_tenth_of_theory() {
        const PLANNED: u64 = 1_000_000;
        let secret = Secret::from_bytes(std::array::from_fn(|index| u8::try_from(index).unwrap() ^ 0x5a));
        let hasher = Hasher::new(Hash::Xxh3, secret);
        let fingerprint_of = |n: u64| hasher.fingerprint(&n.to_le_bytes()).unwrap();
        for (keys, others) in [(PLANNED, 4 * PLANNED), (2 * PLANNED, PLANNED)] {
            let mut builder = BloomBuilder::new(PLANNED, FILTER_BITS_PER_KEY).unwrap();
            (0..keys).for_each(|n| builder.insert(fingerprint_of(n)));
            let filter = builder.build();
            assert!((0..keys).all(|n| filter.may_contain(fingerprint_of(n))));
            let wrong = (keys..keys + others).filter(|&n| filter.may_contain(fingerprint_of(n))).count();
            let measured = wrong as f64 / others as f64;
            let theory = rate_in_theory(keys as f64, filter.memory_bytes() as f64 / 32.0);
            assert!(
                measured < 1.1 * theory && measured > 0.9 * theory,
                "{measured} against {theory}, {keys} keys"
            );
        }
    }
}
