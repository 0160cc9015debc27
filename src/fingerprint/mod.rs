//! The fingerprint: sixteen bytes that stand for one ID in every table, file and lease.
//!
//! An ID of any length is hashed once, under the store's [`Secret`], and only the result is kept. Two
//! halves of 64 bits serve two purposes: `hi` chooses the home line (and orders tables, files and filters),
//! `lo` confirms the match and chooses the bits in a Bloom filter. Both must therefore be evenly spread.
//!
//! # The zero halves
//!
//! A zero half marks an empty place in a table, so no fingerprint has one: a hash whose half is zero (one in
//! 2^63) has that half replaced by [`ZERO_HALF_STANDIN`]. Two hashes become equal by this only if one of them
//! has the stand-in where the other has zero, and their other halves are the same: a chance of 2^-190 for a
//! pair, beside the 2^-128 that any hash of this size has.
//!
//! # Which hash
//!
//! [`Hash`](enum@Hash) names the three ways from an ID to a fingerprint, [`Hasher`] walks them. The parts:
//!
//! - `secret`: 192 random bytes and where they come from.
//! - `hasher`: the choice, and the one call on the hot path.
//! - `exact`: the keyed bijection for IDs of sixteen bytes.

mod exact;
mod hasher;
mod secret;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;

use std::fmt;
use std::num::NonZeroU64;

pub use hasher::Hash;
pub(crate) use hasher::Hasher;
pub(crate) use secret::SECRET_BYTES;
pub use secret::Secret;

/// What a zero half becomes: 2^64 divided by the golden ratio, a value with no meaning of its own.
const ZERO_HALF_STANDIN: NonZeroU64 =
    NonZeroU64::new(0x9e37_79b9_7f4a_7c15).expect("the constant is not zero");

/// Sixteen bytes that stand for one ID: two 64-bit halves, neither of them zero.
///
/// Fingerprints are ordered by `hi`, then by `lo`: the order of tables, files and filters. `Debug` prints
/// 32 hexadecimal digits, `hi` first. A fingerprint means something only to stores that share one
/// [`Secret`] and one [`Hash`](enum@Hash).
///
/// It is `Copy`, two registers wide, and as small inside an `Option`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint {
    hi: NonZeroU64,
    lo: NonZeroU64,
}

const _: () = assert!(size_of::<Fingerprint>() == 16);
const _: () = assert!(align_of::<Fingerprint>() == 8);
const _: () = assert!(size_of::<Option<Fingerprint>>() == 16);

impl Fingerprint {
    /// Joins two halves; a zero half is replaced by a fixed non-zero constant.
    ///
    /// Both halves must be evenly spread and independent of each other, as those of a good hash are: `hi`
    /// places the fingerprint in a table, and clustered values make long searches.
    #[inline]
    #[must_use]
    pub const fn from_halves(hi: u64, lo: u64) -> Self {
        Self { hi: non_zero(hi), lo: non_zero(lo) }
    }

    /// Takes the first sixteen bytes of a digest that the caller has computed already (BLAKE3, SHA-256, ...).
    ///
    /// Bytes 0 to 7 become `hi`, bytes 8 to 15 `lo`, both little-endian. It saves a hash, and it gives up
    /// what the store's secret protects from: whoever can choose digests can choose the places in the
    /// table. Never pass UUIDs, ULIDs or counters here, they are not evenly spread; [`Hash::Exact`] takes
    /// those.
    ///
    /// ```
    /// use firstseen::Fingerprint;
    ///
    /// let digest = *b"\x01\0\0\0\0\0\0\x80\x02\0\0\0\0\0\0\x40";
    /// let fingerprint = Fingerprint::from_digest(digest);
    /// assert_eq!(fingerprint.hi(), 0x8000_0000_0000_0001);
    /// assert_eq!(fingerprint.lo(), 0x4000_0000_0000_0002);
    /// assert_eq!(fingerprint.to_bytes(), digest);
    /// ```
    #[inline]
    #[must_use]
    pub const fn from_digest(bytes: [u8; 16]) -> Self {
        let (hi, lo) = halves_of(bytes);
        Self::from_halves(hi, lo)
    }

    /// The half that places the fingerprint: home line, block of a filter, order in a file.
    #[inline]
    #[must_use]
    pub const fn hi(self) -> u64 {
        self.hi.get()
    }

    /// The half that confirms a match and chooses the bits in a filter.
    #[inline]
    #[must_use]
    pub const fn lo(self) -> u64 {
        self.lo.get()
    }

    /// The sixteen bytes as they are written everywhere: `hi`, then `lo`, both little-endian.
    ///
    /// [`Fingerprint::from_digest`] is the way back.
    #[inline]
    #[must_use]
    pub const fn to_bytes(self) -> [u8; 16] {
        ((self.hi() as u128) | ((self.lo() as u128) << 64)).to_le_bytes()
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:016x}{:016x}", self.hi, self.lo)
    }
}

/// The value itself, or the stand-in for zero; compiles to a conditional move.
#[inline]
const fn non_zero(half: u64) -> NonZeroU64 {
    match NonZeroU64::new(half) {
        Some(half) => half,
        None => ZERO_HALF_STANDIN,
    }
}

/// Bytes 0 to 7 and bytes 8 to 15 as little-endian numbers.
#[inline]
const fn halves_of(bytes: [u8; 16]) -> (u64, u64) {
    split(u128::from_le_bytes(bytes))
}

/// The low and the high 64 bits of a number, in this order.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the low half is what the first cast is there to keep")]
const fn split(value: u128) -> (u64, u64) {
    (value as u64, (value >> 64) as u64)
}
