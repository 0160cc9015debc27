//! What durability costs, as ratios in one run.
//!
//! The log against the engine in memory, syncs against the disk alone, and how long opening takes.
//!
//! `cargo bench --bench durable`; `FIRSTSEEN_BENCH_KEYS` sets the number of keys (10^7),
//! `FIRSTSEEN_BENCH_ROUNDS` the rounds (3), `FIRSTSEEN_BENCH_DIR` where the stores lie (the system's
//! temporary directory), `FIRSTSEEN_BENCH_ONLY` one of `buffered`, `sync`, `shared`, `replay`, `open`. Every
//! answer is checked.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use firstseen::{Durability, Options, Store, Verdict};

use scratch::Scratch;

#[path = "support/scratch.rs"]
mod scratch;

const BLOCK: usize = 1 << 16;
const BATCH: usize = 1024;

type Id = [u8; 36];

/// IDs of 36 bytes, the same in every run.
fn ids(count: usize) -> Vec<Id> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let id = |words: [u64; 2]| {
        let mut id = [b'-'; 36];
        for (byte, digit) in id.iter_mut().zip(format!("{:016x}{:016x}", words[0], words[1]).into_bytes()) {
            *byte = digit;
        }
        id
    };
    (0..count).map(|_| id([next(), next()])).collect()
}

fn number(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

fn options(count: usize) -> Options {
    Options::new().expect(count as u64).memory_budget(32 << 30)
}

/// Checks a block in batches; how many were new.
fn pass(store: &Store, block: &[Id], verdicts: &mut [Verdict]) -> usize {
    let mut firsts = 0;
    for batch in block.chunks(BATCH) {
        let verdicts = &mut verdicts[..batch.len()];
        store.check_batch(batch, verdicts).expect("there is room");
        firsts += verdicts.iter().filter(|verdict| verdict.is_first_seen()).count();
    }
    firsts
}

fn median(mut values: Vec<f64>) -> (f64, f64, f64) {
    values.sort_by(f64::total_cmp);
    (values[values.len() / 2], values[0], values[values.len() - 1])
}

fn report(name: &str, bar: &str, values: Vec<f64>) {
    let (middle, low, high) = median(values);
    println!("{name:<64} {bar:>9} {middle:>9.2} {low:>8.2} .. {high:<8.2}");
}

/// `Buffered` against the engine in memory, turn by turn on the same blocks.
fn buffered(ids: &[Id], rounds: usize) {
    let (mut new, mut dup) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let dir = Scratch::new("buffered");
        let durable = Store::open_with(&dir.0, options(ids.len())).expect("a store");
        let memory = Store::in_memory(options(ids.len())).expect("memory");
        let stores = [&memory, &durable];
        let mut verdicts = vec![Verdict::default(); BATCH];
        for (ratios, is_new) in [(&mut new, true), (&mut dup, false)] {
            let mut times = [Duration::ZERO; 2];
            let mut firsts = [0; 2];
            for (turn, block) in ids.chunks(BLOCK).enumerate() {
                for index in [turn % 2, 1 - turn % 2] {
                    let begun = Instant::now();
                    firsts[index] += pass(stores[index], block, &mut verdicts);
                    times[index] += begun.elapsed();
                }
            }
            assert_eq!(firsts, [if is_new { ids.len() } else { 0 }; 2]);
            let nanos = times.map(|time| time.as_nanos() as f64 / ids.len() as f64);
            println!(
                "{} ns memory {:.1} buffered {:.1}",
                if is_new { "new" } else { "dup" },
                nanos[0],
                nanos[1]
            );
            ratios.push(nanos[1] / nanos[0]);
        }
    }
    report("buffered / memory, all new, batch 1024", "<= 1.25", new);
    report("buffered / memory, all duplicate, batch 1024", "", dup);
}

/// A batch with `Sync` against the same append and sync alone.
fn sync(ids: &[Id], rounds: usize) {
    let dir = Scratch::new("sync");
    let store = Store::open_with(&dir.0, options(ids.len()).durability(Durability::Sync)).expect("a store");
    let alone = File::create(dir.0.join("alone")).expect("a file");
    let bytes = vec![0x5a; BATCH * 24 + 64];
    let area = 64 << 20;
    // In pieces as small as those of a log segment: what one write has brought in is synced as a whole.
    for offset in (0..area).step_by(1 << 16) {
        alone.write_all_at(&vec![0; 1 << 16], offset).expect("room");
    }
    alone.sync_all().expect("a sync");
    let mut verdicts = vec![Verdict::default(); BATCH];
    let mut ratios = Vec::new();
    let mut offset = 0;
    for chunk in ids.chunks(BATCH * 200).take(rounds) {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for batch in chunk.chunks_exact(BATCH) {
            let begun = Instant::now();
            assert_eq!(pass(&store, batch, &mut verdicts), BATCH);
            ours.push(begun.elapsed().as_nanos() as f64);
            let begun = Instant::now();
            alone.write_all_at(&bytes, offset % area).expect("room");
            alone.sync_data().expect("a sync");
            theirs.push(begun.elapsed().as_nanos() as f64);
            offset += bytes.len() as u64;
        }
        let (ours, theirs) = (median(ours).0, median(theirs).0);
        println!("sync: {:.0} us a batch, {:.0} us alone", ours / 1e3, theirs / 1e3);
        ratios.push(ours / theirs);
    }
    report("sync, batch 1024 / append and sync alone", "<= 1.3", ratios);
}

/// Eight threads of single checks share syncs.
fn shared(rounds: usize) {
    let mut shares = Vec::new();
    for round in 0..rounds {
        let dir = Scratch::new("shared");
        let store = Store::open_with(&dir.0, Options::new().durability(Durability::Sync)).expect("a store");
        let before = store.stats().log_syncs;
        std::thread::scope(|scope| {
            for thread in 0..8_u64 {
                let store = store.clone();
                scope.spawn(move || {
                    for id in 0..500_u64 {
                        let id = [id.to_le_bytes(), (thread << 32 | round as u64).to_le_bytes()].concat();
                        assert_eq!(store.check(id).expect("room"), Verdict::FirstSeen);
                    }
                });
            }
        });
        shares.push(4000.0 / (store.stats().log_syncs - before) as f64);
    }
    report("sync, 8 threads of single checks: checks a sync", ">= 4", shares);
}

/// Reading a log back that has everything, as after a kill of a process that has sealed nothing yet.
fn replay(ids: &[Id], rounds: usize) {
    let dir = Scratch::new("replay");
    let mut verdicts = vec![Verdict::default(); BATCH];
    let store = Store::open_with(&dir.0, options(ids.len())).expect("a store");
    assert_eq!(pass(&store, ids, &mut verdicts), ids.len());
    store.persist().expect("synced");
    drop(store);
    let mut rates = Vec::new();
    for _ in 0..rounds {
        let begun = Instant::now();
        let store = Store::open_with(&dir.0, options(ids.len())).expect("a store");
        let seconds = begun.elapsed().as_secs_f64();
        let replayed = store.stats().records_replayed;
        assert_eq!(replayed, ids.len() as u64);
        println!("replay: {replayed} records, {:.0} ms", seconds * 1e3);
        rates.push(replayed as f64 / seconds / 1e6);
        assert_eq!(pass(&store, &ids[..100_000.min(ids.len())], &mut verdicts), 0);
    }
    report("replay, M records/s (all of opening)", ">= 10", rates);
}

fn bytes_in(dir: &Path) -> u64 {
    let files = std::fs::read_dir(dir).expect("a directory").filter_map(Result::ok);
    files.filter_map(|file| file.metadata().ok()).map(|file| file.len()).sum()
}

/// Opening after a kill (which a dropped store is like) and after a close; disk use.
fn open(ids: &[Id], rounds: usize) {
    let (mut killed, mut closed, mut disk) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        let dir = Scratch::new("open");
        let mut verdicts = vec![Verdict::default(); BATCH];
        let store = Store::open(&dir.0).expect("a store");
        assert_eq!(pass(&store, ids, &mut verdicts), ids.len());
        store.persist().expect("synced");
        drop(store);
        let begun = Instant::now();
        let store = Store::open(&dir.0).expect("a store");
        killed.push(begun.elapsed().as_secs_f64() * 1e3);
        println!("open: {} records replayed, {:?}", store.stats().records_replayed, begun.elapsed());
        store.close().expect("closed");
        disk.push(bytes_in(&dir.0) as f64 / ids.len() as f64);
        let begun = Instant::now();
        let store = Store::open(&dir.0).expect("a store");
        closed.push(begun.elapsed().as_secs_f64() * 1e3);
        assert_eq!(pass(&store, &ids[..100_000.min(ids.len())], &mut verdicts), 0);
    }
    report("open after a kill, ms", "<= 2000", killed);
    report("open after a close, ms", "<= 200", closed);
    report("disk, bytes a key after sealing", "<= 28", disk);
}

fn main() {
    let is_test = std::env::args().any(|argument| argument == "--test");
    let keys = number("FIRSTSEEN_BENCH_KEYS", if is_test { 20_000 } else { 10_000_000 });
    let rounds = number("FIRSTSEEN_BENCH_ROUNDS", if is_test { 1 } else { 3 });
    let only = std::env::var("FIRSTSEEN_BENCH_ONLY").ok();
    let is_wanted = |name: &str| only.as_deref().is_none_or(|only| only == name);
    let ids = ids(keys);
    println!("{:<64} {:>9} {:>9} {:>20}", "ratio", "bar", "median", "min .. max");
    if is_wanted("buffered") {
        buffered(&ids, rounds);
    }
    if is_wanted("sync") {
        sync(&ids, rounds);
    }
    if is_wanted("shared") {
        shared(rounds);
    }
    if is_wanted("replay") {
        replay(&ids[..ids.len().min(8_000_000)], rounds);
    }
    if is_wanted("open") {
        open(&ids, rounds);
    }
}
