//! From an ID to its fingerprint: the choice of a hash, and the one call on the hot path.
//!
//! | kind | hash | `hi` | `lo` |
//! | --- | --- | --- | --- |
//! | `Xxh3` | XXH3-128 under the whole secret | high 64 bits | low 64 bits |
//! | `Keyed` | SipHash-2-4-128, key = secret bytes 0 to 15 | digest bytes 0 to 7 | digest bytes 8 to 15 |
//! | `Exact` | four keyed Feistel rounds over the sixteen bytes | last word written | the one before |
//!
//! Digest bytes are read as little-endian numbers.
//!
//! Relative cost for one ID of sixteen bytes in a loop, on the reference machine: `Xxh3` 1, `Exact` 2,
//! `Keyed` 6. Choosing the kind anew for each ID and making a `Result` of it cost a fifth of the cheapest;
//! a call that answers an `Option` instead was no faster, once either is inlined.
//!
//! # What XXH3 does not promise
//!
//! XXH3 mixes an ID of 17 to 240 bytes in blocks of sixteen, each through one multiplication of its two
//! words, and adds the words' sum. Swapping the two factors changes neither, so whoever knows the secret
//! writes collisions down by hand, and those for the unseeded function are published: the tests have five.
//! A random secret makes such prepared IDs worthless, but nobody has shown that XXH3 withstands an attacker
//! who watches answers or timing and adapts. IDs that strangers choose belong under `Keyed`.

use super::exact;
use super::secret::Secret;
use super::{Fingerprint, split};
use crate::codec::checksum;
use crate::error::{Error, Result};
use siphasher::sip128::SipHasher24;
use xxhash_rust::xxh3::xxh3_128_with_secret;

/// Which hash turns an ID into its fingerprint; fixed when a store is created.
///
/// Each kind is keyed by the store's [`Secret`]; none gives the same fingerprint as another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Hash {
    /// XXH3-128 under a 192-byte secret: the fastest, for IDs that come from your own systems.
    ///
    /// Takes any bytes. It is no cryptographic hash: somebody who chooses IDs *and* learns fingerprints, or
    /// the secret, can make two IDs meet.
    #[default]
    Xxh3,
    /// SipHash-2-4 with 128 bits of output under a 128-bit key: for IDs that strangers choose.
    ///
    /// Takes any bytes; a keyed pseudorandom function, about six times the cost of `Xxh3`.
    Keyed,
    /// A keyed bijection of sixteen bytes: for UUIDs, ULIDs and digests, which then never collide at all.
    ///
    /// Two different IDs have different fingerprints (but for the about 2^-63 of values that have a zero
    /// half). An ID of any other length is refused. The spread is even whatever the IDs' structure; as with
    /// `Xxh3`, it is not proof against somebody who learns fingerprints.
    Exact,
}

/// Length of the ID that the check value is made of.
const CHECK_ID_BYTES: usize = 2048;

/// Turns IDs into fingerprints under one hash kind and one secret.
///
/// It is immutable, and every call is independent: share it or clone it (256 bytes) as suits.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(crate) struct Hasher {
    // Inline, and on line borders of its own: a look-up of one ID touches two or three lines of it.
    secret: Secret,
    hash: Hash,
}

const _: () = assert!(size_of::<Hasher>() == 256, "the secret's three lines and one for the kind");

impl Hasher {
    /// Joins a hash kind with a secret.
    #[must_use]
    pub(crate) const fn new(hash: Hash, secret: Secret) -> Self {
        Self { secret, hash }
    }

    /// The fingerprint of an ID.
    ///
    /// # Errors
    ///
    /// [`Error::IdLength`] when the kind is [`Hash::Exact`] and the ID has not exactly sixteen bytes. The
    /// other kinds never fail.
    ///
    /// Complexity: one pass over the ID's bytes; no allocation, no system call.
    #[inline]
    pub(crate) fn fingerprint(&self, id: &[u8]) -> Result<Fingerprint> {
        self.fingerprint_if_taken(id).ok_or_else(|| length_refused(id.len()))
    }

    /// The fingerprint, or `None` for an ID that this kind refuses.
    ///
    /// For loops: the answer fits registers, where the `Result` takes a trip through memory.
    #[inline(always)]
    pub(crate) fn fingerprint_if_taken(&self, id: &[u8]) -> Option<Fingerprint> {
        match self.hash {
            Hash::Xxh3 => Some(self.xxh3(id)),
            Hash::Keyed => Some(self.keyed(id)),
            Hash::Exact => Some(self.exact(id.try_into().ok()?)),
        }
    }

    /// Which hash it is.
    pub(crate) const fn hash(&self) -> Hash {
        self.hash
    }

    /// A number that tells this hash and secret from others: kept beside a store's files, so that they are
    /// not opened with another secret.
    ///
    /// It depends on every byte of the secret that this kind of hash ever uses: XXH3 uses all of them only
    /// for IDs of more than a kilobyte.
    pub(crate) fn check_value(&self) -> u64 {
        let long = [0x5c; CHECK_ID_BYTES];
        let id = if self.hash == Hash::Exact { &long[..16] } else { &long[..] };
        let fingerprint = self.fingerprint_if_taken(id).expect("16 bytes are taken by every kind");
        checksum(CHECK_ID_BYTES as u64, &fingerprint.to_bytes())
    }

    #[inline]
    fn xxh3(&self, id: &[u8]) -> Fingerprint {
        let (lo, hi) = split(xxh3_128_with_secret(id, self.secret.bytes()));
        Fingerprint::from_halves(hi, lo)
    }

    #[inline]
    fn keyed(&self, id: &[u8]) -> Fingerprint {
        let (key, _) = self.secret.bytes().split_first_chunk::<16>().expect("192 bytes have a first 16");
        let digest = SipHasher24::new_with_key(key).hash(id);
        Fingerprint::from_halves(digest.h1, digest.h2)
    }

    #[inline]
    fn exact(&self, id: [u8; 16]) -> Fingerprint {
        let (hi, lo) = exact::scramble(id, self.secret.bytes());
        Fingerprint::from_halves(hi, lo)
    }
}

#[cold]
fn length_refused(length: usize) -> Error {
    Error::IdLength { length }
}
