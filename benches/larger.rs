//! A store whose data is larger than its memory: new IDs beside it, and duplicates that only its files know.
//!
//! `cargo bench --bench larger`; `FIRSTSEEN_BENCH_KEYS` sets the number of keys (3 * 10^7),
//! `FIRSTSEEN_BENCH_PARTS` which part of what they take the memory budget is (8),
//! `FIRSTSEEN_BENCH_ROUNDS` the rounds (5), `FIRSTSEEN_BENCH_DIR` where the stores lie (the system's
//! temporary directory), `FIRSTSEEN_BENCH_ONLY` one of `new`, `cold`, `warm`. Every answer is checked.
//!
//! The keys are sealed and the store is closed, its files are dropped from the page cache, and it is opened
//! anew for each measurement:
//!
//! - `new`: a third as many new IDs, in batches of 1024, against the same on a store that has all in memory.
//! - `cold`: duplicates spread over all files, few enough that nearly each needs a page from the disk; in
//!   batches of 1024, one by one, and for comparison one-by-one reads of as many pages of the same files. How
//!   many reads are in flight on average is the ratio of the rates.
//! - `warm`: the same with all files in the page cache, to see that looking ahead costs nothing there.

#![expect(clippy::cast_possible_truncation, reason = "numbers of items are small")]

use std::fs::File;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use firstseen::{Options, Stats, Store, Verdict};

use scratch::Scratch;

#[path = "support/scratch.rs"]
mod scratch;

const BLOCK: u64 = 1 << 16;
const BATCH: usize = 1024;
const PAGE: u64 = 4096;

/// Bytes that an ID takes in tables that are filled to two thirds, with its filter.
const BYTES_PER_KEY: u64 = 34;

/// IDs of 16 bytes, the same in every run.
fn id(number: u64) -> [u8; 16] {
    u128::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835).to_le_bytes()
}

/// Numbers below `end`, the same in every run.
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((u128::from(self.0) * u128::from(end)) >> 64) as u64
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// Checks IDs in batches of `batch`, or one by one; how long that took. All are new, or none is.
fn pass(store: &Store, ids: &[[u8; 16]], batch: usize, is_new: bool) -> Duration {
    let mut verdicts = [Verdict::default(); BATCH];
    let mut firsts = 0;
    let begun = Instant::now();
    for ids in ids.chunks(batch) {
        if batch == 1 {
            firsts += usize::from(store.check(ids[0]).expect("there is room").is_first_seen());
            continue;
        }
        let verdicts = &mut verdicts[..ids.len()];
        store.check_batch(ids, verdicts).expect("there is room");
        firsts += verdicts.iter().filter(|verdict| verdict.is_first_seen()).count();
    }
    let taken = begun.elapsed();
    assert_eq!(firsts, if is_new { ids.len() } else { 0 });
    taken
}

/// New IDs block by block, made outside of the time; a rate.
fn stream(store: &Store, numbers: std::ops::Range<u64>) -> f64 {
    let count = numbers.end - numbers.start;
    let mut taken = Duration::ZERO;
    for first in numbers.clone().step_by(BLOCK as usize) {
        let ids: Vec<_> = (first..(first + BLOCK).min(numbers.end)).map(id).collect();
        taken += pass(store, &ids, BATCH, true);
    }
    count as f64 / taken.as_secs_f64()
}

/// Numbers of so many seen IDs anywhere in the store.
fn seen(draw: &mut Draw, keys: u64, count: u64) -> Vec<[u8; 16]> {
    (0..count).map(|_| id(draw.below(keys))).collect()
}

fn sealed_files(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).expect("a directory").filter_map(Result::ok);
    let is_sealed = |path: &PathBuf| path.to_string_lossy().contains("generation-");
    entries.map(|entry| entry.path()).filter(is_sealed).collect()
}

/// Drops the files of a closed store from the page cache. What is written is synced: only such pages go.
fn drop_cached(dir: &Path) {
    for file in sealed_files(dir) {
        let of = format!("of={}", file.display());
        let arguments = [of.as_str(), "oflag=nocache", "conv=notrunc,fdatasync", "count=0", "status=none"];
        let is_done = Command::new("dd").args(arguments).status().is_ok_and(|status| status.success());
        assert!(is_done, "dd drops no file from the page cache here");
    }
}

/// Reads the files of a store into the page cache.
fn cache(dir: &Path) {
    for file in sealed_files(dir) {
        std::io::copy(&mut File::open(file).expect("a file"), &mut std::io::sink()).expect("read");
    }
}

/// Waits until nothing is left to do: filters are in memory then.
fn settle(store: &Store) {
    let of = |stats: Stats| (stats.filter_bytes, stats.compactions, stats.seals, stats.making_bytes);
    let mut before = of(store.stats());
    loop {
        std::thread::sleep(Duration::from_millis(200));
        let now = of(store.stats());
        if now == before && now.3 == 0 {
            return;
        }
        before = now;
    }
}

/// Opens a store and waits for its filters.
fn open(dir: &Path, budget: u64) -> Store {
    let store = Store::open_with(dir, Options::new().memory_budget(budget)).expect("a store");
    settle(&store);
    store
}

/// Another directory with the files of a closed store; those that never change are linked.
fn copy_store(from: &Path, to: &Path) {
    std::fs::create_dir(to).expect("a directory");
    std::fs::set_permissions(to, std::fs::Permissions::from_mode(0o700)).expect("a mode");
    for entry in std::fs::read_dir(from).expect("a directory") {
        let (path, name) = entry.map(|entry| (entry.path(), entry.file_name())).expect("an entry");
        let is_sealed = name.to_string_lossy().starts_with("generation-");
        let target = to.join(name);
        if is_sealed {
            std::fs::hard_link(path, target).expect("a link");
        } else {
            std::fs::copy(path, target).expect("a copy");
        }
    }
}

/// Reads of a page each, anywhere in the files, one after the other; a rate.
fn read_one_by_one(dir: &Path, draw: &mut Draw, count: u64) -> f64 {
    let open = |path: PathBuf| {
        let file = File::open(path).expect("a file");
        let pages = file.metadata().expect("a length").len() / PAGE;
        (file, pages)
    };
    let files: Vec<_> = sealed_files(dir).into_iter().map(open).collect();
    let total: u64 = files.iter().map(|(_, pages)| pages).sum();
    let mut buffer = [0; PAGE as usize];
    let begun = Instant::now();
    for _ in 0..count {
        let mut page = draw.below(total);
        for (file, pages) in &files {
            if page < *pages {
                file.read_exact_at(&mut buffer, page * PAGE).expect("a page");
                break;
            }
            page -= pages;
        }
    }
    count as f64 / begun.elapsed().as_secs_f64()
}

fn report(name: &str, bar: &str, mut values: Vec<f64>) {
    values.sort_by(f64::total_cmp);
    let (low, middle, high) = (values[0], values[values.len() / 2], values[values.len() - 1]);
    println!("{name:<56} {bar:>9} {middle:>9.2} {low:>9.2} .. {high:<9.2}");
}

struct Case {
    keys: u64,
    budget: u64,
    rounds: u64,
    dir: PathBuf,
}

impl Case {
    fn open(&self) -> Store {
        open(&self.dir, self.budget)
    }

    fn preload(&self) {
        let store = Store::open_with(&self.dir, Options::new().memory_budget(self.budget)).expect("a store");
        let rate = stream(&store, 0..self.keys);
        let stalls = store.stats().stalls;
        println!("preload: {:.2} M/s, {stalls} stalls", rate / 1e6);
        settle(&store);
        store.close().expect("closed");
        let store = self.open();
        let stats = store.stats();
        println!(
            "{} keys in {} files of {:.0} MB, budget {:.0} MB, filters {:.0} MB, tables {:.0} MB",
            stats.ids,
            stats.generations,
            stats.generation_bytes as f64 / 1e6,
            self.budget as f64 / 1e6,
            stats.filter_bytes as f64 / 1e6,
            stats.table_bytes as f64 / 1e6,
        );
        assert_eq!(stats.ids, self.keys);
    }

    /// Each round begins with the same files, and with new IDs of its own for the store in memory, which was
    /// made for all of them: it does not grow meanwhile.
    fn all_new(&self) {
        let all = self.keys + self.rounds * (self.keys / 3);
        let options = Options::new().memory_budget(4 * all * BYTES_PER_KEY).expect(all);
        let memory = Store::in_memory(options).expect("memory");
        println!("preload in memory: {:.2} M/s", stream(&memory, 0..self.keys) / 1e6);
        let part = self.keys / 3;
        let mut ratios = Vec::new();
        for round in 0..self.rounds {
            let numbers = self.keys + round * part..self.keys + (round + 1) * part;
            let work = Scratch::new("larger-new");
            copy_store(&self.dir, &work.0);
            drop_cached(&work.0);
            let store = open(&work.0, self.budget);
            let before = store.stats();
            let sealed = stream(&store, numbers.clone());
            let after = store.stats();
            let all = stream(&memory, numbers);
            println!(
                "new: {:.2} M/s, in memory {:.2} M/s; {} seals, {} fused, {} files, {} stalls, peak {:.0} MB",
                sealed / 1e6,
                all / 1e6,
                after.seals - before.seals,
                after.compactions - before.compactions,
                after.generations,
                after.stalls - before.stalls,
                after.memory_bytes_peak as f64 / 1e6,
            );
            ratios.push(all / sealed);
        }
        report("in memory / larger than memory, all new, batch 1024", "<= 2", ratios);
    }

    fn cold(&self) {
        let mut draw = Draw(0x2545_f491_4f6c_dd1d);
        let files = sealed_files(&self.dir);
        let pages: u64 = files.iter().map(|file| file.metadata().expect("a file").len() / PAGE).sum();
        // So that most of them meet a page that none before has met.
        let count = (pages / 6).clamp(BATCH as u64, 40 * BATCH as u64);
        let (mut batches, mut singles, mut in_flight, mut above) = (vec![], vec![], vec![], vec![]);
        for _ in 0..self.rounds {
            let mut rates = [0.0; 2];
            for (rate, batch) in rates.iter_mut().zip([BATCH, 1]) {
                drop_cached(&self.dir);
                let store = self.open();
                let ids = seen(&mut draw, self.keys, count / if batch == 1 { 4 } else { 1 });
                *rate = ids.len() as f64 / pass(&store, &ids, batch, false).as_secs_f64();
                store.close().expect("closed");
            }
            drop_cached(&self.dir);
            let reads = read_one_by_one(&self.dir, &mut draw, count / 4);
            println!("cold: {:.0} /s in batches, {:.0} /s single, {reads:.0} reads/s", rates[0], rates[1]);
            batches.push(rates[0] / 1e3);
            singles.push(rates[1] / 1e3);
            in_flight.push(rates[0] / reads);
            above.push(rates[0] / rates[1]);
        }
        report("cold duplicates, batch 1024, thousands a second", "", batches);
        report("cold duplicates, one by one, thousands a second", "", singles);
        report("cold duplicates, batch 1024 / one by one", ">= 4", above);
        report("cold duplicates, batch 1024 / reads one by one", ">= 4", in_flight);
    }

    fn warm(&self) {
        let mut draw = Draw(0x9e37_79b9_7f4a_7c15);
        let (mut batches, mut singles) = (vec![], vec![]);
        for _ in 0..self.rounds {
            cache(&self.dir);
            let store = self.open();
            for (rates, batch) in [(&mut batches, BATCH), (&mut singles, 1)] {
                let ids = seen(&mut draw, self.keys, self.keys / 20);
                // The first time each page is found in the page cache, later on in the map.
                pass(&store, &ids, batch, false);
                let ids = seen(&mut draw, self.keys, self.keys / 20);
                rates.push(ids.len() as f64 / pass(&store, &ids, batch, false).as_secs_f64() / 1e6);
            }
            store.close().expect("closed");
        }
        report("warm duplicates, batch 1024, millions a second", "", batches);
        report("warm duplicates, one by one, millions a second", "", singles);
    }
}

fn main() {
    let is_test = std::env::args().any(|argument| argument == "--test");
    let keys = number("FIRSTSEEN_BENCH_KEYS", if is_test { 300_000 } else { 30_000_000 });
    let parts = number("FIRSTSEEN_BENCH_PARTS", 8);
    let rounds = number("FIRSTSEEN_BENCH_ROUNDS", if is_test { 1 } else { 5 });
    let only = std::env::var("FIRSTSEEN_BENCH_ONLY").ok();
    let is_wanted = |name: &str| only.as_deref().is_none_or(|only| only == name);
    let scratch = Scratch::new("larger");
    let budget = (keys * BYTES_PER_KEY / parts).max(1 << 20);
    let case = Case { keys, budget, rounds, dir: scratch.0.clone() };
    case.preload();
    println!("{:<56} {:>9} {:>9} {:>20}", "", "bar", "median", "min .. max");
    if is_wanted("cold") {
        case.cold();
    }
    if is_wanted("warm") {
        case.warm();
    }
    if is_wanted("new") {
        case.all_new();
    }
}
