//! The stages of an ID's life behind the check: claimed and committed, sealed, read back, compacted.
//!
//! `cargo bench --bench stages`; `FIRSTSEEN_BENCH_SIZES` lists the numbers of IDs (`100000,1000000`),
//! `FIRSTSEEN_BENCH_DIR` says where stores lie (the system's temporary directory). Fixed IDs and secret;
//! rates are in IDs a second, and what each stage has done is checked.
//!
//! - `claim/single`, `claim/batch`: claim and commit, one by one and 256 at a time, in memory and with a log
//!   that is written before the answer (`Buffered`).
//! - `seal`: a frozen table becomes a synced file that the manifest names.
//! - `replay`: a killed store is opened; all its IDs are in the log.
//! - `compact/merge`: two frozen tables in memory become one.
//! - `compact/fuse`: the two cheapest of five files become one, which is synced.

use std::path::Path;
use std::time::{Duration, Instant};

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, Throughput};
use firstseen::{
    Claim, Durability, Maintenance, ManualClock, Options, Progress, Secret, Stats, Store, Timestamp, Verdict,
    Window,
};

use scratch::Scratch;

#[path = "support/scratch.rs"]
mod scratch;

type Id = [u8; 16];

const LEASE: Duration = Duration::from_secs(60);

/// IDs that one batch claims or checks.
const BATCH: usize = 256;

/// Files from which on two are fused.
const FILES: u64 = 5;

/// Distinct IDs, the same in every run.
fn ids(range: std::ops::Range<u64>) -> Vec<Id> {
    let id = |number: u64| {
        std::array::from_fn(|place| (u128::from(number) * 0x9e37_79b9_7f4a_7c15).to_le_bytes()[place])
    };
    range.map(id).collect()
}

fn options() -> Options {
    Options::new().secret(Secret::from_bytes(std::array::from_fn(|_| 7))).maintenance(Maintenance::Manual)
}

fn open(dir: &Path, options: Options) -> Store {
    Store::open_with(dir, options.durability(Durability::Buffered)).expect("a store")
}

/// Checks IDs in batches; how many were new.
fn check(store: &Store, ids: &[Id]) -> usize {
    let mut verdicts = [Verdict::default(); BATCH];
    let mut firsts = 0;
    for batch in ids.chunks(BATCH) {
        let verdicts = &mut verdicts[..batch.len()];
        store.check_batch(batch, verdicts).expect("there is room");
        firsts += verdicts.iter().filter(|verdict| verdict.is_first_seen()).count();
    }
    firsts
}

/// Steps the maintenance until the store is as wanted.
fn maintain_until(store: &Store, is_done: impl Fn(&Stats) -> bool) {
    while !is_done(&store.stats()) {
        assert_ne!(store.maintain().expect("maintained"), Progress::Idle, "{:?}", store.stats());
    }
}

/// Times one call for each iteration, which gets a store of its own.
fn bench<T>(
    group: &mut BenchmarkGroup<'_, WallTime>,
    id: BenchmarkId,
    count: u64,
    mut prepare: impl FnMut() -> T,
    mut stage: impl FnMut(&mut T),
) {
    group.throughput(Throughput::Elements(count));
    group.bench_function(id, |bencher| {
        bencher.iter_custom(|iterations| {
            let mut total = Duration::ZERO;
            for _ in 0..iterations {
                let mut prepared = prepare();
                let begun = Instant::now();
                stage(&mut prepared);
                total += begun.elapsed();
            }
            total
        });
    });
}

fn group<'c>(criterion: &'c mut Criterion, name: &str) -> BenchmarkGroup<'c, WallTime> {
    let mut group = criterion.benchmark_group(name);
    group.sample_size(10).warm_up_time(Duration::from_millis(1)).measurement_time(Duration::from_secs(2));
    group
}

fn claim_each(store: &Store, ids: &[Id]) {
    for id in ids {
        let Claim::Leased(lease) = store.claim(id, LEASE).expect("there is room") else {
            unreachable!("nobody else claims")
        };
        lease.commit().expect("committed");
    }
}

fn claim_batches(store: &Store, ids: &[Id]) {
    for batch in ids.chunks(BATCH) {
        let claims = store.claim_batch(batch, LEASE).expect("there is room");
        assert_eq!(claims.commit().expect("committed"), batch.len());
    }
}

/// How IDs are claimed and committed.
type Way = fn(&Store, &[Id]);

fn claim(criterion: &mut Criterion, size: u64) {
    let mut group = group(criterion, "claim");
    let ids = ids(0..size);
    let ways: [(&str, Way); 2] = [("single", claim_each), ("batch", claim_batches)];
    for (name, way) in ways {
        let check_all = |store: &Store| assert_eq!(check(store, &ids), 0, "a commit was lost");
        let memory = || Store::in_memory(options().expect(size)).expect("memory");
        bench(&mut group, BenchmarkId::new(format!("{name}/memory"), size), size, memory, |store| {
            way(store, &ids);
        });
        let dir = Scratch::new("claim");
        let buffered = || {
            let _ = std::fs::remove_dir_all(&dir.0);
            open(&dir.0, options().expect(size))
        };
        bench(&mut group, BenchmarkId::new(format!("{name}/buffered"), size), size, buffered, |store| {
            way(store, &ids);
        });
        let store = memory();
        way(&store, &ids);
        check_all(&store);
    }
    group.finish();
}

fn seal(criterion: &mut Criterion, size: u64) {
    let (ids, dir) = (ids(0..size), Scratch::new("seal"));
    let prepare = || {
        let _ = std::fs::remove_dir_all(&dir.0);
        let clock = ManualClock::new(Timestamp::from_millis(1_700_000_000_000));
        let window = Window::Fixed(Duration::from_secs(86_400));
        let store = open(&dir.0, options().window(window).clock(clock.clock()).expect(size));
        assert_eq!(check(&store, &ids), ids.len());
        // A quarter of the window later the table is old.
        clock.advance(Duration::from_secs(86_400 / 4));
        store
    };
    let stage = |store: &mut Store| maintain_until(store, |stats| stats.seals == 1);
    let mut group = group(criterion, "seal");
    bench(&mut group, BenchmarkId::new("table", size), size, prepare, stage);
    let mut store = prepare();
    stage(&mut store);
    assert_eq!((store.len(), check(&store, &ids)), (size, 0), "an ID was lost");
    group.finish();
}

fn replay(criterion: &mut Criterion, size: u64) {
    let (ids, dir) = (ids(0..size), Scratch::new("replay"));
    let store = open(&dir.0, options().expect(size));
    assert_eq!(check(&store, &ids), ids.len());
    // A store that is dropped and not closed is like one that was killed.
    drop(store);
    let mut group = group(criterion, "replay");
    group.throughput(Throughput::Elements(size));
    group.bench_function(BenchmarkId::new("open", size), |bencher| {
        bencher.iter_custom(|iterations| {
            let mut total = Duration::ZERO;
            for _ in 0..iterations {
                let begun = Instant::now();
                let store = open(&dir.0, options().expect(size));
                total += begun.elapsed();
                assert_eq!(store.stats().records_replayed, size);
                assert_eq!(check(&store, &ids[..BATCH]), 0, "an ID was lost");
            }
            total
        });
    });
    group.finish();
}

/// A store in memory with three frozen tables, screened, that is about to merge two of them; and how many IDs
/// these have, give or take a batch.
fn about_to_merge(size: u64) -> (Store, u64) {
    let store = Store::in_memory(options().first_table_lines(size / 6)).expect("memory");
    let mut next = 0;
    // The first table has been followed by another when this many IDs had come, the second, the third.
    let frozen = [2, 3, 4].map(|tables| {
        while store.stats().tables < tables {
            let batch = ids(next..next + BATCH as u64);
            assert_eq!(check(&store, &batch), BATCH);
            next += BATCH as u64;
        }
        next
    });
    maintain_until(&store, |stats| stats.tables == 4 && stats.tables_unfiltered == 0);
    (store, frozen[1])
}

fn merge(criterion: &mut Criterion, size: u64) {
    let stage = |(store, _): &mut (Store, u64)| maintain_until(store, |stats| stats.merges == 1);
    let mut group = group(criterion, "compact");
    let mut first = about_to_merge(size);
    let (ids_held, merged) = (first.0.len(), first.1);
    stage(&mut first);
    assert_eq!((first.0.len(), first.0.stats().tables), (ids_held, 3), "an ID was lost");
    assert_eq!(check(&first.0, &ids(0..ids_held)), 0, "an ID was lost");
    bench(&mut group, BenchmarkId::new("merge", size), merged, || about_to_merge(size), stage);
    group.finish();
}

fn copy_files(from: &Path, to: &Path) {
    let _ = std::fs::remove_dir_all(to);
    std::fs::create_dir_all(to).expect("a directory");
    for file in std::fs::read_dir(from).expect("a directory") {
        let file = file.expect("an entry");
        std::fs::copy(file.path(), to.join(file.file_name())).expect("a copy");
    }
}

fn fuse(criterion: &mut Criterion, size: u64) {
    let (dir, work) = (Scratch::new("fuse"), Scratch::new("fuse-work"));
    let part = size / 2;
    for file in 0..FILES {
        let store = open(&dir.0, options().expect(part));
        assert_eq!(check(&store, &ids(file * part..(file + 1) * part)) as u64, part);
        store.close().expect("closed");
    }
    let prepare = || {
        copy_files(&dir.0, &work.0);
        let store = open(&work.0, options());
        assert_eq!(store.stats().generations as u64, FILES);
        store
    };
    let stage = |store: &mut Store| maintain_until(store, |stats| stats.compactions == 1);
    let mut group = group(criterion, "compact");
    bench(&mut group, BenchmarkId::new("fuse", 2 * part), 2 * part, prepare, stage);
    let mut store = prepare();
    stage(&mut store);
    assert_eq!((store.len(), check(&store, &ids(0..FILES * part))), (FILES * part, 0), "an ID was lost");
    group.finish();
}

fn main() {
    let is_test = std::env::args().any(|argument| argument == "--test");
    let default = if is_test { "3000" } else { "100000,1000000" };
    let listed = std::env::var("FIRSTSEEN_BENCH_SIZES").unwrap_or_else(|_| default.to_owned());
    let mut criterion = Criterion::default().configure_from_args();
    for size in listed.split(',').map(|size| size.trim().parse().expect("a number of IDs")) {
        claim(&mut criterion, size);
        seal(&mut criterion, size);
        replay(&mut criterion, size);
        merge(&mut criterion, size);
        fuse(&mut criterion, size);
    }
    criterion.final_summary();
}
