//! The keyed bijection behind [`Hash::Exact`](super::Hash::Exact).
//!
//! Sixteen bytes in, sixteen evenly spread bytes out.
//!
//! A Feistel network of four rounds over the two 64-bit halves (Luby and Rackoff, "How to construct
//! pseudorandom permutations from pseudorandom functions", SIAM J. Comput. 17(2), 1988; four rounds for an
//! adversary who may ask in both directions):
//!
//! ```text
//! (left, right) = bytes 0..8, bytes 8..16 of the ID, little-endian
//! four times, with round keys 0 to 3:  (left, right) = (right, left ^ F(key, right))
//! hi = right, lo = left
//! ```
//!
//! Whatever `F` is, each round can be undone, so the whole is a bijection: two IDs never meet. `F` is
//! XXH3-64 of the eight bytes under 136 bytes of the secret, the window of each round starting sixteen
//! bytes after the last one's. For eight bytes XXH3 reads only words 1 and 2 of its window, so the rounds
//! share no key material.
//!
//! `F` is no proven pseudorandom function, so the theorem gives the shape, not the strength: what is
//! promised is an even spread for any structure of IDs, and the tests measure it.
//!
//! # What was measured
//!
//! Round keys as seeds (`xxh3_64_with_seed`) take the same time within the spread, in a loop and in a chain;
//! the secret needs no key schedule beside it, so it was taken. XXH3-128 of the same sixteen bytes takes half
//! the time.

use super::halves_of;
use super::secret::SECRET_BYTES;
use xxhash_rust::xxh3::xxh3_64_with_secret;

/// Rounds of the network.
const ROUNDS: usize = 4;

/// From one round's window of the secret to the next one's, in bytes: the two words that a round reads.
const WINDOW_STRIDE_BYTES: usize = 16;

/// The shortest secret that XXH3 takes.
const WINDOW_BYTES: usize = 136;

const _: () = assert!((ROUNDS - 1) * WINDOW_STRIDE_BYTES + WINDOW_BYTES <= SECRET_BYTES);

/// The image of an ID: `hi` and `lo`, either of which may still be zero.
#[inline]
pub(super) fn scramble(id: [u8; 16], secret: &[u8; SECRET_BYTES]) -> (u64, u64) {
    let (mut left, mut right) = halves_of(id);
    for round in 0..ROUNDS {
        (left, right) = (right, left ^ round_function(right, round, secret));
    }
    (right, left)
}

#[inline]
fn round_function(half: u64, round: usize, secret: &[u8; SECRET_BYTES]) -> u64 {
    let start = round * WINDOW_STRIDE_BYTES;
    xxh3_64_with_secret(&half.to_le_bytes(), &secret[start..start + WINDOW_BYTES])
}

#[cfg(test)]
#[cfg(not(loom))]
pub(super) mod tests {
    use super::super::tests::{random_word, secret_bytes_of};
    use super::*;
    use proptest::prelude::*;

    /// The way back: the rounds undone from the last to the first.
    pub(in super::super) fn unscramble((hi, lo): (u64, u64), secret: &[u8; SECRET_BYTES]) -> [u8; 16] {
        let (mut left, mut right) = (lo, hi);
        for round in (0..ROUNDS).rev() {
            (left, right) = (right ^ round_function(left, round, secret), left);
        }
        ((u128::from(right) << 64) | u128::from(left)).to_le_bytes()
    }

    proptest! {
        #[test]
        fn scrambled_id_unscrambles_to_itself(id: [u8; 16], seed: u64) {
            let secret = secret_bytes_of(seed);
            prop_assert_eq!(unscramble(scramble(id, &secret), &secret), id);
        }

        #[test]
        fn any_image_has_an_id(hi: u64, lo: u64, seed: u64) {
            let secret = secret_bytes_of(seed);
            prop_assert_eq!(scramble(unscramble((hi, lo), &secret), &secret), (hi, lo));
        }
    }

    /// What it is called, and its `n`-th ID.
    type Family = (&'static str, fn(u64) -> [u8; 16]);

    /// IDs as they are met in practice: hardly a random bit in them, or all of them in one place.
    fn families() -> [Family; 8] {
        [
            ("counter, big-endian", |n| u128::from(n).to_be_bytes()),
            ("counter, little-endian", |n| u128::from(n).to_le_bytes()),
            ("counter in the upper half", |n| (u128::from(n) << 64).to_be_bytes()),
            ("counter in both halves", |n| ((u128::from(n) << 64) | u128::from(n)).to_le_bytes()),
            ("steps of 2^32", |n| (u128::from(n) << 32).to_le_bytes()),
            ("one prefix of twelve bytes, then a counter", |n| {
                let mut id = *b"tenant-0042-\0\0\0\0";
                id[12..].copy_from_slice(&n.to_be_bytes()[4..]);
                id
            }),
            ("version 7 UUIDs and ULIDs of one second: time, then a counter", |n| {
                let millis = 0x0198_1234_5678 + n / 66;
                ((u128::from(millis) << 80) | 0x7000_8000_0000_0000_0000 | u128::from(n % 66)).to_be_bytes()
            }),
            ("version 1 UUIDs of one host: ticks in front, clock sequence and node behind", |n| {
                let mut id = *b"\0\0\0\0\x5e\x11\x11\xf0\x80\x01\x02\x42\xac\x11\x00\x02";
                id[..4].copy_from_slice(&n.to_be_bytes()[4..]);
                id
            }),
        ]
    }

    const BUCKETS: usize = 4096;

    /// How far the bucket counts are from even, in standard deviations of a random spread.
    fn unevenness(counts: &[u64], total: u64) -> f64 {
        let expected = total as f64 / BUCKETS as f64;
        let chi_square: f64 = counts.iter().map(|&count| (count as f64 - expected).powi(2) / expected).sum();
        let freedom = (BUCKETS - 1) as f64;
        (chi_square - freedom) / (2.0 * freedom).sqrt()
    }

    #[test]
    fn structured_ids_spread_evenly_over_the_top_and_the_bottom_bits() {
        const IDS: u64 = 1 << 17;
        for (name, id_of) in families() {
            for seed in 1..=3 {
                let secret = secret_bytes_of(seed);
                let mut counts = vec![vec![0; BUCKETS]; 4];
                for n in 0..IDS {
                    let (hi, lo) = scramble(id_of(n), &secret);
                    let places = [hi >> 52, hi & 0xfff, lo >> 52, lo & 0xfff];
                    for (counts, bucket) in counts.iter_mut().zip(places) {
                        counts[usize::try_from(bucket).unwrap()] += 1;
                    }
                }
                for (place, counts) in
                    ["top of hi", "bottom of hi", "top of lo", "bottom of lo"].iter().zip(&counts)
                {
                    let deviations = unevenness(counts, IDS);
                    assert!(
                        deviations.abs() < 6.0,
                        "{name}, secret {seed}, {place}: {deviations:.1} deviations"
                    );
                }
            }
        }
    }

    /// Flips each bit of many IDs and counts how often each bit of the image follows.
    #[test]
    fn each_input_bit_flips_each_output_bit_half_the_time() {
        const IDS: u32 = 4096;
        let secret = secret_bytes_of(7);
        let mut flips = vec![[0u32; 128]; 128];
        for n in 0..u64::from(IDS) {
            let id = (u128::from(random_word(2 * n)) << 64) | u128::from(random_word(2 * n + 1));
            let image = image_of(id, &secret);
            for (bit, flips) in flips.iter_mut().enumerate() {
                let changed = image ^ image_of(id ^ (1 << bit), &secret);
                for (place, count) in flips.iter_mut().enumerate() {
                    *count += u32::from((changed >> place) & 1 == 1);
                }
            }
        }
        let deviation = f64::from(IDS).sqrt() / 2.0;
        for (bit, flips) in flips.iter().enumerate() {
            for (place, &count) in flips.iter().enumerate() {
                let off = (f64::from(count) - f64::from(IDS) / 2.0) / deviation;
                assert!(off.abs() < 6.0, "input bit {bit}, output bit {place}: {off:.1} deviations");
            }
        }
    }

    fn image_of(id: u128, secret: &[u8; SECRET_BYTES]) -> u128 {
        let (hi, lo) = scramble(id.to_le_bytes(), secret);
        (u128::from(hi) << 64) | u128::from(lo)
    }
}
