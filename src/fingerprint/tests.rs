//! Fingerprints against published vectors, hostile IDs and structured IDs.

use super::exact::tests::unscramble;
use super::secret::SECRET_BYTES;
use super::*;
use crate::error::Error;
use proptest::prelude::*;
use std::collections::HashSet;
use xxhash_rust::xxh3::{xxh3_64_with_seed, xxh3_128};

/// The `n`-th of an endless row of words that no test could tell from random ones.
pub(super) fn random_word(n: u64) -> u64 {
    xxh3_64_with_seed(&n.to_le_bytes(), 0x5eed)
}

/// The bytes of a secret that is the same in every run.
pub(super) fn secret_bytes_of(seed: u64) -> [u8; SECRET_BYTES] {
    let mut bytes = [0; SECRET_BYTES];
    for (index, word) in (0u64..).zip(bytes.as_chunks_mut::<8>().0) {
        *word = random_word(seed.rotate_left(32) ^ index).to_le_bytes();
    }
    bytes
}

/// Bytes from `start` on, each larger than the last by `step`, modulo 256.
fn steps<const N: usize>(start: u8, step: u8) -> [u8; N] {
    let mut bytes = [start; N];
    for index in 1..N {
        bytes[index] = bytes[index - 1].wrapping_add(step);
    }
    bytes
}

/// The secret of all golden values.
fn golden_secret() -> Secret {
    Secret::from_bytes(steps(17, 151))
}

fn hex(digits: &str) -> Vec<u8> {
    let digits: Vec<u8> = digits.bytes().filter(|digit| !digit.is_ascii_whitespace()).collect();
    let pairs = digits.as_chunks::<2>().0.iter();
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn shown(hasher: &Hasher, id: &[u8]) -> String {
    format!("{:?}", hasher.fingerprint(id).unwrap())
}

fn random_hasher(hash: Hash) -> Hasher {
    Hasher::new(hash, Secret::random().unwrap())
}

// The type.

#[test]
fn zero_half_becomes_the_standin_and_others_stay() {
    let standin = ZERO_HALF_STANDIN.get();
    for (hi, lo) in [(0, 0), (0, 5), (5, 0), (1, u64::MAX), (standin, 1)] {
        let fingerprint = Fingerprint::from_halves(hi, lo);
        assert_eq!(fingerprint.hi(), if hi == 0 { standin } else { hi });
        assert_eq!(fingerprint.lo(), if lo == 0 { standin } else { lo });
    }
}

#[test]
fn debug_prints_hi_then_lo_as_32_digits() {
    let fingerprint = Fingerprint::from_halves(0xab, 0x0123_4567_89ab_cdef);
    assert_eq!(format!("{fingerprint:?}"), "00000000000000ab0123456789abcdef");
}

#[test]
fn order_is_by_hi_then_lo() {
    let of = Fingerprint::from_halves;
    assert!(of(1, u64::MAX) < of(2, 1));
    assert!(of(2, 1) < of(2, 2));
    assert!(of(1 << 63, 1) > of((1 << 63) - 1, 1));
}

proptest! {
    #[test]
    fn bytes_of_fingerprint_are_the_digest_it_came_from(hi in 1u64.., lo in 1u64..) {
        let fingerprint = Fingerprint::from_halves(hi, lo);
        prop_assert_eq!(Fingerprint::from_digest(fingerprint.to_bytes()), fingerprint);
        prop_assert_eq!(&fingerprint.to_bytes()[..8], hi.to_le_bytes());
        prop_assert_eq!(&fingerprint.to_bytes()[8..], lo.to_le_bytes());
    }

    #[test]
    fn any_digest_becomes_two_halves_that_are_not_zero(digest: [u8; 16]) {
        let fingerprint = Fingerprint::from_digest(digest);
        prop_assert!(fingerprint.hi() != 0 && fingerprint.lo() != 0);
    }
}

// Golden values: a change of any of them makes every stored fingerprint worthless.

/// From the C library, `XXH3_128bits_withSecret`, high half first.
#[test]
fn xxh3_golden_values_hold_in_every_length_class() {
    let hasher = Hasher::new(Hash::Xxh3, golden_secret());
    assert_eq!(shown(&hasher, b""), "6c5defafe5f0bfd2256347ada1f9540d");
    assert_eq!(shown(&hasher, b"a"), "6edafb8b707b638b2c95fb7163cb04f6");
    assert_eq!(shown(&hasher, b"order-4711"), "59a8d7184f70f8af659201dbc3e0f8fc");
    assert_eq!(shown(&hasher, b"0123456789abcdef"), "8b3e16fda969cef23ca299a4add01a8b");
    let uuid = b"2b6f0cc9-04d3-4c0e-9d0a-7d3b6a1e5f10";
    assert_eq!(shown(&hasher, uuid), "62ac664648980402c10b0d02afb550f6");
    let long: [u8; 1000] = steps(0, 7);
    assert_eq!(shown(&hasher, &long[..129]), "bab9ac2997c9fd9de46d0747b40457e6");
    assert_eq!(shown(&hasher, &long[..240]), "8d6a491deb700fdc6878f5bd2beaa6ea");
    assert_eq!(shown(&hasher, &long[..241]), "59d387271874f8258ba8e77b896a14d3");
    assert_eq!(shown(&hasher, &long), "bfedacc3251ebd08340ac07848bd3013");
}

/// The SipHash authors' own vectors (`vectors_sip128`, key 00 01 .. 0f, input 00 01 ..); each half is
/// a little-endian number of eight bytes.
#[test]
fn keyed_golden_values_are_the_published_ones() {
    let mut secret = secret_bytes_of(1);
    secret[..16].copy_from_slice(&steps::<16>(0, 1));
    let hasher = Hasher::new(Hash::Keyed, Secret::from_bytes(secret));
    let input: [u8; 8] = steps(0, 1);
    for (length, digest) in [
        (0, "a3817f04ba25a8e6 6df67214c7550293"),
        (1, "da87c1d86b99af44 347659119b22fc45"),
        (8, "3b62a9ba6258f561 0f83e264f31497b4"),
    ] {
        let digest: [u8; 16] = hex(digest).try_into().unwrap();
        assert_eq!(
            hasher.fingerprint(&input[..length]).unwrap(),
            Fingerprint::from_digest(digest),
            "{length}"
        );
    }
}

/// From the C library: four rounds of `XXH3_64bits_withSecret`.
#[test]
fn exact_golden_value_holds() {
    let hasher = Hasher::new(Hash::Exact, golden_secret());
    assert_eq!(shown(&hasher, b"0123456789abcdef"), "123bd540645a740bce63288eee2b7a55");
}

// The hasher.

#[test]
fn default_kind_is_xxh3() {
    assert_eq!(Hash::default(), Hash::Xxh3);
}

#[test]
fn hasher_shows_its_kind_and_not_its_secret() {
    let hasher = Hasher::new(Hash::Exact, golden_secret());
    assert_eq!(format!("{hasher:?}"), "Hasher { secret: Secret(redacted), hash: Exact }");
}

#[test]
fn exact_refuses_every_length_but_sixteen() {
    let hasher = random_hasher(Hash::Exact);
    for length in (0..64).chain([1 << 20]) {
        let answer = hasher.fingerprint(&vec![7; length]);
        match length {
            16 => assert!(answer.is_ok()),
            _ => assert_eq!(answer, Err(Error::IdLength { length })),
        }
    }
}

#[test]
fn other_kinds_take_every_length_and_tell_lengths_apart() {
    for hash in [Hash::Xxh3, Hash::Keyed] {
        let hasher = random_hasher(hash);
        let zeros = [0; 600];
        let fingerprints: HashSet<_> = (0..=600).map(|n| hasher.fingerprint(&zeros[..n]).unwrap()).collect();
        assert_eq!(fingerprints.len(), 601, "{hash:?}");
    }
}

/// Two stores made one after the other do not share a fingerprint of one ID.
#[test]
fn fresh_secrets_give_one_id_different_fingerprints() {
    let id = b"0123456789abcdef";
    for hash in [Hash::Xxh3, Hash::Keyed, Hash::Exact] {
        let hashers = [random_hasher(hash), random_hasher(hash)];
        let [one, other] = hashers.map(|hasher| hasher.fingerprint(id).unwrap());
        assert!(one.hi() != other.hi() && one.lo() != other.lo(), "{hash:?}");
    }
}

#[test]
fn clone_of_hasher_gives_the_same_fingerprint() {
    let hasher = random_hasher(Hash::Xxh3);
    assert_eq!(hasher.clone().fingerprint(b"x"), hasher.fingerprint(b"x"));
}

#[test]
fn kinds_under_one_secret_give_different_fingerprints() {
    let kinds = [Hash::Xxh3, Hash::Keyed, Hash::Exact];
    let fingerprints = kinds.map(|hash| Hasher::new(hash, golden_secret()).fingerprint(&[1; 16]).unwrap());
    assert_eq!(HashSet::from(fingerprints).len(), 3);
}

/// The one exception that the documentation makes: the images with a zero half.
#[test]
fn exact_ids_meet_only_over_a_zero_half() {
    let secret = golden_secret();
    let hasher = Hasher::new(Hash::Exact, secret.clone());
    let zero = unscramble((0, 5), secret.bytes());
    let standin = unscramble((ZERO_HALF_STANDIN.get(), 5), secret.bytes());
    assert_ne!(zero, standin);
    assert_eq!(hasher.fingerprint(&zero).unwrap(), hasher.fingerprint(&standin).unwrap());
}

// Hostile IDs: collisions of the unseeded function that anybody can look up.

/// Two IDs of 32 bytes, the factors of the first block swapped so that the words' sum stays the same.
const PAIR: [&str; 2] = [
    "efcdab89674523013832565eb8a8dcaf66697273747365656e2d7461696c2d30",
    "fccdbb4b6c2d3a0d2b32469cb3c0c5a366697273747365656e2d7461696c2d30",
];

/// Where in an ID of 128 bytes a word next to its complement may be swapped with it unnoticed by unseeded
/// XXH3, found by search for the part of the default secret that meets this place.
const SWAPS: [(usize, u64); 4] = [
    (16, 0xcc39_9f81_bb7c_9fd8),
    (32, 0x7c63_3a9c_0c27_ab96),
    (64, 0x302f_ddf4_a9bf_e24e),
    (112, 0x4695_6664_c533_eaf2),
];

/// Four bits choose which swaps are made, four more a harmless difference.
fn hostile_id(choice: u8) -> [u8; 128] {
    let mut id = [0; 128];
    id[0] = choice >> 4;
    for (bit, (offset, word)) in SWAPS.into_iter().enumerate() {
        let is_swapped = (choice >> bit) & 1 == 1;
        let (first, second) = if is_swapped { (!word, word) } else { (word, !word) };
        id[offset..offset + 8].copy_from_slice(&first.to_le_bytes());
        id[offset + 8..offset + 16].copy_from_slice(&second.to_le_bytes());
    }
    id
}

#[test]
fn hostile_pair_meets_unseeded_and_under_no_secret() {
    let [one, other] = PAIR.map(hex);
    let meeting = u128::from_str_radix("294ab57510c675e619381ff71d2f1de8", 16).unwrap();
    assert_eq!([xxh3_128(&one), xxh3_128(&other)], [meeting; 2], "the attack is real");
    for hash in [Hash::Xxh3, Hash::Keyed] {
        for hasher in [random_hasher(hash), random_hasher(hash)] {
            assert_ne!(hasher.fingerprint(&one).unwrap(), hasher.fingerprint(&other).unwrap(), "{hash:?}");
        }
    }
}

#[test]
fn hostile_set_has_16_unseeded_hashes_and_256_fingerprints() {
    let ids: Vec<_> = (0..=u8::MAX).map(hostile_id).collect();
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), 256);
    let unseeded: HashSet<_> = ids.iter().map(|id| xxh3_128(id)).collect();
    assert_eq!(unseeded.len(), 16, "the attack is real");
    for hash in [Hash::Xxh3, Hash::Keyed] {
        for hasher in [random_hasher(hash), random_hasher(hash)] {
            let fingerprints: Vec<_> = ids.iter().map(|id| hasher.fingerprint(id).unwrap()).collect();
            let his: HashSet<_> = fingerprints.iter().map(|fingerprint| fingerprint.hi()).collect();
            let los: HashSet<_> = fingerprints.iter().map(|fingerprint| fingerprint.lo()).collect();
            assert_eq!((his.len(), los.len()), (256, 256), "{hash:?}");
        }
    }
}
