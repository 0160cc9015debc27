//! Checks of IDs: new, duplicate, mixed and Zipf, beside what one would use otherwise.
//!
//! `cargo bench --bench check`; `FIRSTSEEN_BENCH_SIZES` lists the numbers of keys
//! (`100000,1000000,10000000`; add `100000000` on a machine with 16 GiB to spare). Every answer is checked:
//! a contestant that miscounts panics. One iteration is the whole stream, so the time of an element is that
//! of a stream divided by its length.

#![expect(clippy::cast_possible_truncation, reason = "random numbers are cut to size on purpose")]

mod contestants;
mod streams;

use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput};

use contestants::{Contestant, Maker, makers};
use streams::Stream;

/// Numbers of keys.
fn sizes(is_test: bool) -> Vec<usize> {
    let default = if is_test { "2000" } else { "100000,1000000,10000000" };
    let listed = std::env::var("FIRSTSEEN_BENCH_SIZES").unwrap_or_else(|_| default.to_owned());
    listed.split(',').map(|size| size.trim().parse().expect("a number of keys")).collect()
}

/// Runs a stream through a contestant; checks how many IDs it called new.
fn run<const N: usize>(contestant: &mut dyn Contestant<N>, stream: &Stream<N>) -> Duration {
    let begun = Instant::now();
    let firsts = contestant.take(&stream.ids);
    let taken = begun.elapsed();
    assert_eq!(firsts, stream.firsts, "wrong answers");
    taken
}

/// One group: every contestant on one stream, each time from an empty state or a preloaded one.
fn group<const N: usize>(criterion: &mut Criterion, name: &str, stream: &Stream<N>) {
    let mut group = criterion.benchmark_group(name);
    group.throughput(Throughput::Elements(stream.ids.len() as u64)).sample_size(10);
    group.warm_up_time(Duration::from_millis(1)).measurement_time(Duration::from_secs(2));
    for Maker { name, make, is_approximate } in makers::<N>() {
        if is_approximate && stream.firsts != stream.ids.len() as u64 {
            continue;
        }
        let id = BenchmarkId::new(name, format!("{N}B/{}", stream.keys));
        group.bench_with_input(id, stream, |bencher, stream| {
            bencher.iter_custom(|iterations| {
                let mut total = Duration::ZERO;
                for _ in 0..iterations {
                    let mut contestant = make(stream.keys);
                    if let Some(preload) = &stream.preload {
                        let firsts = contestant.take(preload);
                        assert_eq!(firsts, preload.len() as u64);
                    }
                    total += run(&mut *contestant, stream);
                }
                total
            });
        });
    }
    group.finish();
}

fn groups<const N: usize>(criterion: &mut Criterion, keys: usize) {
    group(criterion, "check/new", &Stream::<N>::all_new(keys));
    group(criterion, "check/dup", &Stream::<N>::all_duplicate(keys));
    if N == 36 {
        group(criterion, "check/dup30", &Stream::<N>::with_repeats(keys, 30));
        group(criterion, "check/dup50", &Stream::<N>::with_repeats(keys, 50));
        group(criterion, "check/zipf", &Stream::<N>::zipf(keys));
    }
}

fn main() {
    let is_test = std::env::args().any(|argument| argument == "--test");
    let mut criterion = Criterion::default().configure_from_args();
    for keys in sizes(is_test) {
        groups::<16>(&mut criterion, keys);
        groups::<36>(&mut criterion, keys);
    }
    criterion.final_summary();
}
