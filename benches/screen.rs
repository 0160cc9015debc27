//! Benches of the filter that screens tables.
//!
//! Building it, and asking it for keys that are there and that are not.
//!
//! The baseline, `growable-bloom-filter`, runs beside it at the same rate of wrong answers, on the same
//! keys. Fixed seeds and sizes; rates are in keys a second. Before anything is timed, every answer is
//! checked: no key is missed, and the rate of wrong ones stays within a tenth of what the bits for a key
//! allow.
//!
//! - `build`: keys in the order of `hi`, as a table yields them; for the baseline in the same order.
//! - `probe_absent`, `probe_present`: one after the other, in random order; the processor overlaps what it
//!   can.
//! - `probe_prefetched`: absent ones, each line asked for some probes ahead, as a batch does it.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use firstseen::Fingerprint;
use firstseen::bench::{Bloom, BloomBuilder};
use growable_bloom_filter::{GrowableBloom, GrowableBloomBuilder};
use std::hint::black_box;
use std::time::Duration;

/// Keys in the filter: one that fits the second-level cache, one that fits the third, one that fits neither
/// well.
const SIZES: [(&str, u64); 3] = [("1e5", 100_000), ("1e6", 1_000_000), ("1e7", 10_000_000)];

/// Probes in one timed pass, however large the filter is.
const PROBES: u64 = 100_000;

/// Bits for a key, as stores use them.
const BITS_PER_KEY: u32 = 12;

/// Of 10^4 answers about absent keys this many are wrong at 12 bits a key, by the theory of split blocks.
const WRONG_OF_1E4: u64 = 54;

/// How many probes ahead a batch asks for a line.
const PREFETCH_AHEAD: usize = 16;

/// Fingerprints as a hash makes them: evenly spread, and no two alike for different seeds or places.
fn fingerprints(seed: u64, count: u64) -> Vec<Fingerprint> {
    let mut state = seed;
    (0..count).map(|_| Fingerprint::from_halves(next_random(&mut state), next_random(&mut state))).collect()
}

/// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
fn next_random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// The keys of one filter, and the probes to put to it.
struct Case {
    keys: Vec<Fingerprint>,
    present: Vec<Fingerprint>,
    absent: Vec<Fingerprint>,
}

impl Case {
    fn new(count: u64) -> Self {
        let mut keys = fingerprints(1, count);
        // As hashed, and so in random order; the keys themselves as a table yields them.
        let present = keys.iter().copied().take(usize::try_from(PROBES).expect("small")).collect();
        keys.sort_unstable();
        Self { keys, present, absent: fingerprints(2 << 40, PROBES) }
    }
}

fn split_block(keys: &[Fingerprint]) -> Bloom {
    let mut builder = BloomBuilder::new(keys.len() as u64, BITS_PER_KEY).expect("memory");
    keys.iter().for_each(|&key| builder.insert(key));
    builder.build()
}

fn growable(keys: &[Fingerprint]) -> GrowableBloom {
    let mut filter = GrowableBloomBuilder::new()
        .estimated_insertions(keys.len())
        .desired_error_ratio(WRONG_OF_1E4 as f64 / 1e4)
        .build();
    keys.iter().for_each(|key| _ = filter.insert(key));
    filter
}

/// Counts the probes that a filter says "perhaps" to.
fn count(probes: &[Fingerprint], may_contain: impl Fn(Fingerprint) -> bool) -> usize {
    probes.iter().filter(|&&probe| may_contain(probe)).count()
}

/// The same, each line asked for some probes ahead.
fn count_prefetched(probes: &[Fingerprint], filter: &Bloom) -> usize {
    let answers = probes.iter().enumerate().filter(|&(index, &probe)| {
        if let Some(&next) = probes.get(index + PREFETCH_AHEAD) {
            filter.prefetch(next);
        }
        filter.may_contain(probe)
    });
    answers.count()
}

/// Panics unless every key is found and wrong answers are no more frequent than they may be.
fn check(name: &str, case: &Case, may_contain: impl Fn(Fingerprint) -> bool) {
    assert_eq!(count(&case.keys, &may_contain), case.keys.len(), "{name} misses a key");
    let wrong = count(&case.absent, &may_contain) as u64;
    let allowed = PROBES * WRONG_OF_1E4 * 11 / 100_000;
    assert!(wrong <= allowed, "{name}: {wrong} wrong answers of {PROBES}, {allowed} allowed");
}

fn screen(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("screen");
    group.sample_size(10).warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2));
    for (size, keys) in SIZES {
        let case = Case::new(keys);
        let (ours, theirs) = (split_block(&case.keys), growable(&case.keys));
        let we_answer = |probe| ours.may_contain(probe);
        let they_answer = |probe: Fingerprint| theirs.contains(probe);
        check("split_block", &case, we_answer);
        check("growable_bloom", &case, they_answer);
        let wrong = [count(&case.absent, we_answer), count(&case.absent, they_answer)];
        let present = case.present.len();

        group.throughput(Throughput::Elements(PROBES));
        let mut probe = |name: &str, expected: usize, pass: &dyn Fn() -> usize| {
            group.bench_function(BenchmarkId::new(name, size), |bencher| {
                bencher.iter(|| assert_eq!(pass(), expected));
            });
        };
        probe("split_block/probe_absent", wrong[0], &|| count(black_box(&case.absent), we_answer));
        probe("split_block/probe_present", present, &|| count(black_box(&case.present), we_answer));
        probe("split_block/probe_prefetched", wrong[0], &|| count_prefetched(black_box(&case.absent), &ours));
        probe("growable_bloom/probe_absent", wrong[1], &|| count(black_box(&case.absent), they_answer));
        probe("growable_bloom/probe_present", present, &|| count(black_box(&case.present), they_answer));

        group.throughput(Throughput::Elements(keys));
        group.bench_function(BenchmarkId::new("split_block/build", size), |bencher| {
            bencher.iter_with_large_drop(|| split_block(black_box(&case.keys)));
        });
        group.bench_function(BenchmarkId::new("growable_bloom/build", size), |bencher| {
            bencher.iter_with_large_drop(|| growable(black_box(&case.keys)));
        });
    }
    group.finish();
}

criterion_group!(benches, screen);
criterion_main!(benches);
