//! How long single calls take while a store grows: tables double, are merged, sealed and fused behind them.
//!
//! `cargo bench --bench latency`; `FIRSTSEEN_BENCH_KEYS` sets the number of keys (10^7),
//! `FIRSTSEEN_BENCH_ROUNDS` the rounds (3), `FIRSTSEEN_BENCH_DIR` where stores lie (the system's temporary
//! directory), `FIRSTSEEN_BENCH_ONLY` one of `memory`, `window`, `buffered`. Every answer is checked.
//!
//! Callers go at full speed, each call is timed by itself (which takes some 25 ns), and one call in four asks
//! for an earlier ID. Nothing is told ahead of the number of IDs, so the store grows from its smallest table.
//!
//! The row `machine` is what a loop that does nothing but read the clock meets in the same time beside a
//! second such loop: interruptions, which no store can do anything about. A call can be as long.

#![expect(clippy::cast_possible_truncation, reason = "times and numbers of buckets are small")]

use std::time::{Duration, Instant};

use firstseen::{Durability, Options, Stats, Store, Window};

use scratch::Scratch;

#[path = "support/scratch.rs"]
mod scratch;

/// No call should take longer.
const BOUND: Duration = Duration::from_millis(20);

/// Buckets for each power of two.
const PARTS: u64 = 32;

/// How often each time was met, in buckets of a 32nd of their power of two.
struct Histogram {
    counts: Vec<u64>,
    longest_ns: u64,
    over_bound: u64,
}

impl Histogram {
    fn new() -> Histogram {
        Histogram { counts: vec![0; 64 * PARTS as usize], longest_ns: 0, over_bound: 0 }
    }

    fn add(&mut self, taken: Duration) {
        let ns = taken.as_nanos() as u64;
        self.counts[bucket(ns)] += 1;
        self.longest_ns = self.longest_ns.max(ns);
        self.over_bound += u64::from(taken > BOUND);
    }

    fn join(mut self, other: &Histogram) -> Histogram {
        self.counts.iter_mut().zip(&other.counts).for_each(|(count, other)| *count += other);
        self.longest_ns = self.longest_ns.max(other.longest_ns);
        self.over_bound += other.over_bound;
        self
    }

    /// The time that this share of all calls did not exceed.
    fn at(&self, share: f64) -> u64 {
        let wanted = (self.counts.iter().sum::<u64>() as f64 * share).ceil() as u64;
        let mut below = 0;
        let reaches = |count: &u64| {
            below += count;
            below >= wanted
        };
        self.counts.iter().position(reaches).map_or(self.longest_ns, upper_end)
    }
}

fn bucket(ns: u64) -> usize {
    if ns < PARTS {
        return ns as usize;
    }
    let power = u64::from(ns.ilog2() - PARTS.ilog2());
    ((power + 1) * PARTS + (ns >> power) - PARTS) as usize
}

fn upper_end(bucket: usize) -> u64 {
    let (power, part) = (bucket as u64 / PARTS, bucket as u64 % PARTS);
    if power == 0 { part } else { (PARTS + part + 1) << (power - 1) }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// One caller's share: new IDs, and after each third of them one that it has seen, among the last `reach`.
fn call(store: &Store, first: u64, keys: u64, reach: u64) -> Histogram {
    let mut histogram = Histogram::new();
    let mut timed = |id: u64, is_new: bool| {
        let name = id.to_le_bytes();
        let begun = Instant::now();
        let verdict = store.check(name).expect("there is room");
        histogram.add(begun.elapsed());
        assert_eq!(verdict.is_first_seen(), is_new, "ID {id}");
    };
    for id in first..first + keys {
        timed(id, true);
        if id % 3 == 0 {
            let back = (id - first).wrapping_mul(0x9e37_79b9) % (id - first + 1).min(reach);
            timed(id - back, false);
        }
    }
    histogram
}

fn callers(threads: u64, work: impl Fn(u64) -> Histogram + Sync) -> Histogram {
    std::thread::scope(|scope| {
        let work = &work;
        let running: Vec<_> = (0..threads).map(|thread| scope.spawn(move || work(thread))).collect();
        let finished = running.into_iter().map(|thread| thread.join().expect("right answers"));
        finished.fold(Histogram::new(), |all, one| all.join(&one))
    })
}

/// What the machine does to a loop that only reads the clock.
fn machine(threads: u64, length: Duration) -> Histogram {
    callers(threads, |_| {
        let mut histogram = Histogram::new();
        let begun = Instant::now();
        let mut last = begun;
        while last - begun < length {
            let now = Instant::now();
            histogram.add(now - last);
            last = now;
        }
        histogram
    })
}

fn report(name: &str, histogram: &Histogram, stats: &Stats) {
    let us = |ns: u64| ns as f64 / 1e3;
    println!(
        "{name:<12} {:>8.2} {:>8.2} {:>8.2} {:>9.0} {:>6} | {:>6} {:>5} {:>5} {:>5} {:>5} {:>5}",
        us(histogram.at(0.5)),
        us(histogram.at(0.99)),
        us(histogram.at(0.999)),
        us(histogram.longest_ns),
        histogram.over_bound,
        stats.stalls,
        stats.rotations,
        stats.merges,
        stats.tables_expired,
        stats.seals,
        stats.compactions,
    );
}

fn case(name: &str, threads: u64, (keys, reach): (u64, u64), make: impl Fn(&Scratch) -> Store) {
    let dir = Scratch::new("latency");
    let store = make(&dir);
    let begun = Instant::now();
    let histogram = callers(threads, |thread| call(&store, thread << 40, keys / threads, reach));
    let length = begun.elapsed();
    let title = format!("{name}, {threads}");
    report(&title, &histogram, &store.stats());
    report("machine", &machine(threads, length.min(Duration::from_secs(5))), &Stats::default());
}

fn main() {
    let is_test = std::env::args().any(|argument| argument == "--test");
    let keys = number("FIRSTSEEN_BENCH_KEYS", if is_test { 20_000 } else { 10_000_000 });
    let rounds = number("FIRSTSEEN_BENCH_ROUNDS", if is_test { 1 } else { 3 });
    let only = std::env::var("FIRSTSEEN_BENCH_ONLY").ok();
    let is_wanted = |name: &str| only.as_deref().is_none_or(|only| only == name);
    println!(
        "{:<12} {:>8} {:>8} {:>8} {:>9} {:>6} | {:>6} {:>5} {:>5} {:>5} {:>5} {:>5}",
        "us", "p50", "p99", "p99.9", "max", ">20ms", "stalls", "rotat", "merge", "expir", "seals", "fused"
    );
    for threads in (0..rounds).flat_map(|_| [1, 2]) {
        if is_wanted("memory") {
            case("memory", threads, (keys, keys), |_| Store::in_memory(Options::new()).expect("memory"));
        }
        if is_wanted("window") {
            let window = Window::Fixed(Duration::from_secs(4));
            case("window", threads, (keys, 1_000), |_| {
                Store::in_memory(Options::new().window(window)).expect("memory")
            });
        }
        if is_wanted("buffered") {
            let options = Options::new().durability(Durability::Buffered);
            case("buffered", threads, (keys, keys), |dir| {
                Store::open_with(&dir.0, options.clone()).expect("a store")
            });
        }
    }
}
