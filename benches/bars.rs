//! The promised ratios, measured in pairs: each case and its baseline take turns on the same blocks of IDs.
//!
//! `cargo bench --bench bars`; `FIRSTSEEN_BENCH_KEYS` sets the number of keys (10^7),
//! `FIRSTSEEN_BENCH_ROUNDS` the rounds (5). Taking turns every 2^16 IDs lets both sides see the same noise
//! of a shared machine. Every answer is checked.

#![expect(clippy::cast_possible_truncation, reason = "random numbers are cut to size on purpose")]

use std::collections::HashMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

use firstseen::bench::Floor;
use firstseen::{Fingerprint, Options, Store, Verdict};

const BLOCK: usize = 1 << 16;
const BATCH: usize = 1024;
const AHEAD: usize = 16;

type Id = [u8; 36];

/// IDs in the shape of UUIDs, the same in every run.
fn ids(count: usize) -> Vec<Id> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let hex = |nibble: u64| b"0123456789abcdef"[(nibble & 15) as usize];
    let id = |words: [u64; 2]| {
        let mut id = [b'-'; 36];
        let places = (0..36).filter(|place| ![8, 13, 18, 23].contains(place));
        for (digit, place) in places.enumerate() {
            id[place] = hex(words[digit / 16] >> (digit % 16 * 4));
        }
        id
    };
    (0..count).map(|_| id([next(), next()])).collect()
}

/// One contestant: takes a block of IDs and says how many were new.
type Contestant<'a> = Box<dyn FnMut(&[Id]) -> u64 + 'a>;

fn with_floor(floor: &Floor) -> Contestant<'_> {
    Box::new(move |ids| {
        let mut ring = [Fingerprint::from_halves(1, 1); AHEAD];
        let mut touched = 0;
        for (index, id) in ids.iter().enumerate() {
            let key = floor.hash(id).expect("any length is taken");
            touched += u64::from(index >= AHEAD && floor.touch(ring[index % AHEAD]));
            ring[index % AHEAD] = key;
            floor.prefetch(key);
        }
        black_box(touched)
    })
}

fn with_batches(store: &Store) -> Contestant<'_> {
    let mut verdicts = vec![Verdict::default(); BATCH];
    Box::new(move |ids| {
        let mut firsts = 0;
        for batch in ids.chunks(BATCH) {
            let verdicts = &mut verdicts[..batch.len()];
            store.check_batch(batch, verdicts).expect("there is room");
            firsts += verdicts.iter().filter(|verdict| verdict.is_first_seen()).count() as u64;
        }
        firsts
    })
}

fn with_single_checks(store: &Store) -> Contestant<'_> {
    Box::new(move |ids| {
        ids.iter().filter(|id| store.check(id).expect("there is room").is_first_seen()).count() as u64
    })
}

/// `hashbrown` with the same hash, one thread; the set keeps 128-bit hashes, as the store does.
fn with_hashbrown(count: usize) -> Contestant<'static> {
    let secret: [u8; 192] = std::array::from_fn(|index| index as u8 ^ 0xa5);
    let mut set = hashbrown::HashSet::<u128, LowHalf>::with_capacity_and_hasher(count, LowHalf);
    Box::new(move |ids| {
        let hash = |id: &Id| xxhash_rust::xxh3::xxh3_128_with_secret(id, &secret);
        ids.iter().filter(|id| set.insert(hash(id))).count() as u64
    })
}

/// Takes the low half of a hash as its hash.
#[derive(Clone, Copy, Default)]
struct LowHalf;

impl std::hash::BuildHasher for LowHalf {
    type Hasher = Low;
    fn build_hasher(&self) -> Low {
        Low(0)
    }
}

struct Low(u64);

impl std::hash::Hasher for Low {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _bytes: &[u8]) {}
    fn write_u128(&mut self, hash: u128) {
        self.0 = (hash & u128::from(u64::MAX)) as u64;
    }
}

/// Lets contestants take turns on the blocks of a stream; nanoseconds an ID and new IDs of each.
fn take_turns(ids: &[Id], contestants: &mut [Contestant<'_>]) -> Vec<(f64, u64)> {
    let mut totals = vec![(Duration::ZERO, 0); contestants.len()];
    for (turn, block) in ids.chunks(BLOCK).enumerate() {
        for offset in 0..contestants.len() {
            let index = (turn + offset) % contestants.len();
            let begun = Instant::now();
            totals[index].1 += contestants[index](block);
            totals[index].0 += begun.elapsed();
        }
    }
    totals.into_iter().map(|(time, new)| (time.as_nanos() as f64 / ids.len() as f64, new)).collect()
}

/// All ratios of all rounds, by name.
#[derive(Default)]
struct Ratios(Vec<(&'static str, f64, Vec<f64>)>);

impl Ratios {
    fn add(&mut self, name: &'static str, bar: f64, ratio: f64) {
        match self.0.iter_mut().find(|(known, _, _)| *known == name) {
            Some((_, _, ratios)) => ratios.push(ratio),
            None => self.0.push((name, bar, vec![ratio])),
        }
    }

    fn print(&mut self) {
        println!("\n{:<58} {:>7} {:>7} {:>15}", "ratio", "bar", "median", "min .. max");
        for (name, bar, ratios) in &mut self.0 {
            ratios.sort_by(f64::total_cmp);
            let (min, max) = (ratios[0], ratios[ratios.len() - 1]);
            let median = ratios[ratios.len() / 2];
            println!("{name:<58} {bar:>7.2} {median:>7.2} {min:>6.2} .. {max:<6.2}");
        }
    }
}

fn hinted(count: usize) -> Store {
    Store::in_memory(Options::new().expect(count as u64).memory_budget(32 << 30)).expect("memory")
}

fn unhinted() -> Store {
    Store::in_memory(Options::new().memory_budget(32 << 30)).expect("memory")
}

/// One thread with a capacity hint: against the floor, and against hashbrown.
fn one_thread(ids: &[Id], ratios: &mut Ratios) {
    let count = ids.len() as u64;
    let floor = Floor::new(count).expect("memory");
    let store = hinted(ids.len());
    let mut contestants = [with_floor(&floor), with_batches(&store), with_hashbrown(ids.len())];
    let new = take_turns(ids, &mut contestants);
    assert_eq!((new[1].1, new[2].1), (count, count));
    let dup = take_turns(ids, &mut contestants);
    assert_eq!((dup[1].1, dup[2].1), (0, 0));
    println!("new: floor {:.1} ns, batch {:.1}, hashbrown {:.1}", new[0].0, new[1].0, new[2].0);
    println!("dup: floor {:.1} ns, batch {:.1}, hashbrown {:.1}", dup[0].0, dup[1].0, dup[2].0);
    ratios.add("batch, all new / (hash + line touch)", 2.0, new[1].0 / new[0].0);
    ratios.add("batch, all duplicate / (hash + line touch)", 1.6, dup[1].0 / dup[0].0);
    ratios.add("hashbrown / batch, all new (rate; at least)", 1.8, new[2].0 / new[1].0);
    ratios.add("hashbrown / batch, all duplicate (rate; at least)", 1.8, dup[2].0 / dup[1].0);
}

/// 30 % of the stream repeats earlier IDs, half of them among the last 100,000.
fn mixed(ids: &[Id], ratios: &mut Ratios) {
    let stream = with_repeats(ids, 30);
    let floor = Floor::new(ids.len() as u64).expect("memory");
    let store = hinted(ids.len());
    let mut contestants = [with_floor(&floor), with_batches(&store), with_hashbrown(ids.len())];
    let outcome = take_turns(&stream, &mut contestants);
    let expected = exact_count(&stream);
    assert_eq!((outcome[1].1, outcome[2].1), (expected, expected));
    ratios.add("batch, 30 % duplicate / (hash + line touch)", 1.9, outcome[1].0 / outcome[0].0);
    ratios.add("hashbrown / batch, 30 % duplicate (rate; at least)", 1.8, outcome[2].0 / outcome[1].0);
}

fn with_repeats(ids: &[Id], percent: u64) -> Vec<Id> {
    let mut state = 88_172_645_463_325_252_u64;
    let mut fresh = 0;
    let mut stream = Vec::with_capacity(ids.len());
    for index in 0..ids.len() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let is_repeat = state % 100 < percent && index > 0;
        let recent = if state >> 32 & 1 == 0 { index.min(100_000) } else { index };
        if is_repeat {
            stream.push(stream[index - 1 - (state >> 40) as usize % recent]);
        } else {
            stream.push(ids[fresh]);
            fresh += 1;
        }
    }
    stream
}

fn exact_count(stream: &[Id]) -> u64 {
    let mut seen: HashMap<&Id, ()> = HashMap::with_capacity(stream.len());
    stream.iter().filter(|id| seen.insert(id, ()).is_none()).count() as u64
}

/// Without a hint against with one: the whole time of an all-new stream, on the wall, from making the store
/// on. With a hint all memory is taken and touched then, without one on the way; the system needs as long for
/// it in both.
fn growth(ids: &[Id], ratios: &mut Ratios) {
    let timed = |make: &dyn Fn() -> Store| {
        let begun = Instant::now();
        let store = make();
        (store, begun.elapsed().as_nanos() as f64 / ids.len() as f64)
    };
    let (hinted, made_hinted) = timed(&|| hinted(ids.len()));
    let (unhinted, made_unhinted) = timed(&unhinted);
    let mut contestants = [with_batches(&hinted), with_batches(&unhinted)];
    let outcome = take_turns(ids, &mut contestants);
    assert_eq!((outcome[0].1, outcome[1].1), (ids.len() as u64, ids.len() as u64));
    let (with, without) = (outcome[0].0, outcome[1].0);
    println!(
        "growth: with a hint {with:.1} ns and {made_hinted:.1} to make the store, without {without:.1} and \
         {made_unhinted:.1}; the stream alone: {:.2}",
        without / with
    );
    let total = (without + made_unhinted) / (with + made_hinted);
    ratios.add("batch, all new, without a hint / with one", 1.5, total);
}

/// Single checks against hashbrown, all duplicate.
fn single(ids: &[Id], ratios: &mut Ratios) {
    let store = hinted(ids.len());
    let mut contestants = [with_single_checks(&store), with_hashbrown(ids.len())];
    let new = take_turns(ids, &mut contestants);
    let dup = take_turns(ids, &mut contestants);
    assert_eq!((new[0].1, dup[0].1), (ids.len() as u64, 0));
    println!(
        "single: new {:.1} ns, dup {:.1}; hashbrown {:.1}, {:.1}",
        new[0].0, dup[0].0, new[1].0, dup[1].0
    );
    ratios.add("single check / hashbrown, all new", 1.0, new[0].0 / new[1].0);
    ratios.add("single check / hashbrown, all duplicate", 1.0, dup[0].0 / dup[1].0);
}

/// Two threads on disjoint halves against one thread on all of it.
fn two_threads(ids: &[Id], ratios: &mut Ratios) {
    let timed = |threads: usize, store: &Store| {
        let begun = Instant::now();
        let firsts: u64 = std::thread::scope(|scope| {
            let parts = ids.chunks(ids.len().div_ceil(threads));
            let running: Vec<_> = parts.map(|part| scope.spawn(|| with_batches(store)(part))).collect();
            running.into_iter().map(|thread| thread.join().expect("no panic")).sum()
        });
        (begun.elapsed().as_secs_f64(), firsts)
    };
    let (one, two) = (hinted(ids.len()), hinted(ids.len()));
    let (new_one, new_two) = (timed(1, &one), timed(2, &two));
    let (dup_one, dup_two) = (timed(1, &one), timed(2, &two));
    assert_eq!((new_one.1, new_two.1, dup_two.1), (ids.len() as u64, ids.len() as u64, 0));
    ratios.add("two threads / one, all new (rate; at least)", 1.8, new_one.0 / new_two.0);
    ratios.add("two threads / one, all duplicate (rate; at least)", 1.8, dup_one.0 / dup_two.0);
}

/// Measures one or more ratios over a stream of IDs.
type Case = fn(&[Id], &mut Ratios);

fn main() {
    let is_test = std::env::args().any(|argument| argument == "--test");
    let number = |name: &str, default| {
        std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
    };
    let keys = number("FIRSTSEEN_BENCH_KEYS", if is_test { 100_000 } else { 10_000_000 });
    let rounds = number("FIRSTSEEN_BENCH_ROUNDS", if is_test { 1 } else { 5 });
    let only = std::env::var("FIRSTSEEN_BENCH_ONLY").unwrap_or_default();
    let cases: [(&str, Case); 5] = [
        ("one_thread", one_thread),
        ("mixed", mixed),
        ("growth", growth),
        ("single", single),
        ("two_threads", two_threads),
    ];
    let ids = ids(keys);
    let mut ratios = Ratios::default();
    for _ in 0..rounds {
        for (_, case) in cases.iter().filter(|(name, _)| name.contains(&only)) {
            case(&ids, &mut ratios);
        }
    }
    ratios.print();
}
