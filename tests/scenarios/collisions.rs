//! IDs that were chosen to collide: under the published hash, and as fingerprints for one place in the table.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use firstseen::{Fingerprint, Hash, Maintenance, Options, Store, Verdict};
use xxhash_rust::xxh3::xxh3_128;

use crate::random::Random;

use super::{batch, check, in_time, store};

/// The first 128 bytes of the secret that XXH3 uses when it is given none.
const PUBLIC_SECRET: &str = "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671f\
     cb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c\
     3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8\
     a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364";

/// In an ID of 128 bytes: where each block of 16 bytes begins, and its part of the secret.
const BLOCKS: [(usize, usize); 8] =
    [(0, 0), (112, 16), (16, 32), (96, 48), (32, 64), (80, 80), (48, 96), (64, 112)];

fn bytes_of(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// 256 IDs that are all one to the unkeyed hash.
///
/// A block's two words are multiplied, each masked with a word of the secret, and their sum is added.
/// Swapping the masked words keeps the product; where the words differ in every bit in which the masks do,
/// it keeps the sum as well. Eight blocks, swapped or not, make 256 IDs.
fn colliding_ids(random: &mut Random) -> Vec<[u8; 128]> {
    let secret = bytes_of(PUBLIC_SECRET);
    let mut ids = vec![[0; 128]];
    for (at, secret_at) in BLOCKS {
        let mask = word(&secret, secret_at) ^ word(&secret, secret_at + 8);
        let low = random.next();
        // Opposite in the bits of the mask, anything elsewhere.
        let high = (!low & mask) | (random.next() & !mask);
        let mut swapped = ids.clone();
        for (id, other) in ids.iter_mut().zip(&mut swapped) {
            id[at..at + 8].copy_from_slice(&low.to_le_bytes());
            id[at + 8..at + 16].copy_from_slice(&high.to_le_bytes());
            other[at..at + 8].copy_from_slice(&(high ^ mask).to_le_bytes());
            other[at + 8..at + 16].copy_from_slice(&(low ^ mask).to_le_bytes());
        }
        ids.append(&mut swapped);
    }
    ids
}

#[test]
fn hostile_pair_is_kept_apart_by_every_hash() {
    let one = bytes_of("efcdab89674523013832565eb8a8dcaf66697273747365656e2d7461696c2d30");
    let other = bytes_of("fccdbb4b6c2d3a0d2b32469cb3c0c5a366697273747365656e2d7461696c2d30");
    assert_eq!(xxh3_128(&one), 0x294a_b575_10c6_75e6_1938_1ff7_1d2f_1de8);
    assert_eq!(xxh3_128(&one), xxh3_128(&other), "the pair is hostile to the hash without a secret");
    for hash in [Hash::Xxh3, Hash::Keyed] {
        let store = store(Options::new().hash(hash));
        assert_eq!(check(&store, &one), Verdict::FirstSeen);
        assert_eq!(check(&store, &other), Verdict::FirstSeen, "{hash:?}");
        assert_eq!(batch(&store, &[&one, &other]), [Verdict::Duplicate; 2]);
    }
}

#[test]
fn colliding_sets_are_all_new() {
    let mut random = Random::new(1);
    for _ in 0..64 {
        let ids = colliding_ids(&mut random);
        assert_eq!(ids.iter().collect::<HashSet<_>>().len(), 256);
        assert_eq!(ids.iter().map(|id| xxh3_128(id)).collect::<HashSet<_>>().len(), 1);
        for hash in [Hash::Xxh3, Hash::Keyed] {
            let store = store(Options::new().hash(hash));
            assert_eq!(batch(&store, &ids), [Verdict::FirstSeen; 256], "{hash:?}");
        }
    }
}

/// How long a new store takes to insert all IDs.
fn insert_time(ids: &[[u8; 128]]) -> Duration {
    let store = store(Options::new().maintenance(Maintenance::Manual));
    let begun = Instant::now();
    let verdicts = batch(&store, ids);
    let took = begun.elapsed();
    assert!(verdicts.iter().all(|verdict| verdict.is_first_seen()));
    took
}

/// The shortest times count, and they are looked for until they fit: another program that runs at the same
/// time only makes them longer.
#[test]
fn colliding_ids_are_inserted_half_as_fast_as_others_at_least() {
    const ROUNDS: usize = 300;
    let mut random = Random::new(2);
    let colliding: Vec<[u8; 128]> = (0..64).flat_map(|_| colliding_ids(&mut random)).collect();
    let others: Vec<[u8; 128]> =
        (0..colliding.len()).map(|_| std::array::from_fn(|_| random.next() as u8)).collect();
    let (mut slow, mut fast) = (Duration::MAX, Duration::MAX);
    for round in 0..ROUNDS {
        slow = slow.min(insert_time(&colliding));
        fast = fast.min(insert_time(&others));
        if round >= 8 && slow <= fast * 2 {
            return;
        }
    }
    panic!("{slow:?} for colliding IDs, {fast:?} for others");
}

/// A store was given fingerprints that all belong to one line of the table. A table holds 195 of them and is
/// then replaced; after 32 tables, which no merge could join, the next caller waited for ever.
#[test]
fn fingerprints_for_one_line_are_answered_or_refused_but_not_kept_waiting() {
    for maintenance in [Maintenance::Manual, Maintenance::Thread] {
        let done = in_time(move || {
            let store = store(Options::new().maintenance(maintenance));
            let keys = (0..10_000).map(|lo: u64| Fingerprint::from_halves(1 << 60, lo + 1));
            keys.take_while(|key| insert(&store, *key)).count()
        });
        assert!(done.is_some_and(|count| count > 195), "{maintenance:?}: {done:?} within a minute");
    }
}

/// Whether the store took the key; an error is an answer too.
fn insert(store: &Store, key: Fingerprint) -> bool {
    let mut verdicts = [Verdict::default()];
    match store.check_fingerprints(&[key], &mut verdicts) {
        Ok(()) => verdicts[0].is_first_seen(),
        Err(_) => false,
    }
}
