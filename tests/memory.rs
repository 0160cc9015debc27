//! What `Store::stats` says of memory, against what the system says.
//!
//! Each case fills a store and compares, at several times, the growth of the process's anonymous memory with
//! [`Stats::held_bytes`]. Maps of sealed files do not count: their pages belong to the page cache.
//!
//! # What is tolerated
//!
//! A difference of 5%, and of one MiB on top:
//!
//! - The system hands memory out in pages, where it can in huge ones of 2 MiB. Tables and filters begin on
//!   such a boundary and are asked for in huge pages up to their last one: what is behind it comes in small
//!   pages. Before, a huge page was given for the last few lines: 2 MiB too many for each of some tables.
//! - What was never touched was never given. Every page of a table is touched when a few per cent of it are
//!   used, and a table that is made ahead of need is touched before it is used, so this shows only in a store
//!   that has just begun.
//! - Allocations of this test, and the allocator's own: the MiB. Each case is a process of its own, and its
//!   allocator is told to give back at once what is freed: by itself it keeps some MiB of the buffers through
//!   which files were written.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops, with the place")]

use std::io::Write;
use std::process::Command;
use std::time::Duration;

use firstseen::{Claim, Durability, Maintenance, ManualClock, Options, Progress, Stats, Store};
use firstseen::{Timestamp, Verdict, Window};

/// What the two figures may differ by: a twentieth, and what does not grow with the store.
const TOLERANCE_PARTS: u64 = 20;
const TOLERANCE_BYTES: u64 = 1 << 20;

/// Says to a process that it is to run one case itself.
const CHILD: &str = "FIRSTSEEN_MEMORY_CHILD";

/// Runs a case in a process of its own, whose allocator gives back at once what is freed.
fn alone(name: &str, case: impl FnOnce()) {
    if std::env::var_os(CHILD).is_some() {
        return case();
    }
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .envs([(CHILD, "1"), ("MALLOC_TRIM_THRESHOLD_", "65536"), ("MALLOC_MMAP_THRESHOLD_", "65536")])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stderr);
    assert!(child.status.success(), "{said}");
    let mut out = std::io::stderr();
    write!(out, "{said}").unwrap();
}

/// Anonymous memory of the process that is resident, in bytes.
fn anonymous_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("Anonymous:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// A case: what the process had before, and the largest difference that was met.
struct Case {
    name: &'static str,
    bytes_before: u64,
    worst: Option<(f64, Stats)>,
}

impl Case {
    fn new(name: &'static str) -> Case {
        // Whatever the first such call needs is not charged to the store.
        let _ = anonymous_bytes();
        Case { name, bytes_before: anonymous_bytes(), worst: None }
    }

    /// Compares the two figures.
    #[track_caller]
    fn compare(&mut self, store: &Store) {
        let stats = store.stats();
        let (said, given) = (stats.held_bytes, anonymous_bytes().saturating_sub(self.bytes_before));
        let parts = stats.table_bytes + stats.filter_bytes + stats.spare_bytes + stats.making_bytes;
        assert_eq!(stats.memory_bytes, parts, "{stats:?}");
        assert_eq!(said, parts + stats.lease_bytes + stats.buffer_bytes, "{stats:?}");
        assert!(
            said.abs_diff(given) <= given / TOLERANCE_PARTS + TOLERANCE_BYTES,
            "{}: stats say {said}, the system has given {given}: {stats:?}",
            self.name
        );
        #[expect(clippy::cast_precision_loss, reason = "for people")]
        let ratio = said as f64 / given as f64;
        if given > 32 << 20
            && self.worst.is_none_or(|(worst, _)| (ratio - 1.0).abs() > (worst - 1.0_f64).abs())
        {
            self.worst = Some((ratio, stats));
        }
    }

    fn report(&self) {
        let Some((ratio, stats)) = &self.worst else { return };
        let line = format!(
            "{}: at worst stats say {ratio:.4} of what the system has given, at {} bytes",
            self.name, stats.held_bytes
        );
        eprintln!("{line}");
    }
}

fn rest(store: &Store) {
    while store.maintain().unwrap() == Progress::Worked {}
}

/// Checks IDs for the first time, a thousand at a time, and does the maintenance in between.
fn fill(store: &Store, ids: std::ops::Range<u64>) {
    let mut verdicts = vec![Verdict::default(); 1_000];
    for first in ids.step_by(1_000) {
        let names: Vec<[u8; 8]> = (first..first + 1_000).map(u64::to_le_bytes).collect();
        store.check_batch(&names, &mut verdicts).unwrap();
        assert!(verdicts.iter().all(|verdict| verdict.is_first_seen()), "from {first}");
        rest(store);
    }
}

fn manual() -> Options {
    Options::new().maintenance(Maintenance::Manual)
}

#[test]
fn store_in_memory_says_what_the_system_has_given() {
    alone("store_in_memory_says_what_the_system_has_given", || {
        let mut case = Case::new("in memory");
        let store = Store::in_memory(manual()).unwrap();
        for part in 0..40 {
            fill(&store, part * 100_000..(part + 1) * 100_000);
            case.compare(&store);
        }
        case.report();
        assert!(store.stats().merges > 2, "{:?}", store.stats());
    });
}

#[test]
fn store_that_expects_its_ids_says_what_the_system_has_given() {
    alone("store_that_expects_its_ids_says_what_the_system_has_given", || {
        let mut case = Case::new("expected");
        let store = Store::in_memory(manual().expect(2_000_000)).unwrap();
        case.compare(&store);
        fill(&store, 0..2_000_000);
        case.compare(&store);
        case.report();
    });
}

#[test]
fn store_with_a_window_says_what_the_system_has_given() {
    alone("store_with_a_window_says_what_the_system_has_given", || {
        let mut case = Case::new("window");
        let clock = ManualClock::new(Timestamp::from_millis(1_700_000_000_000));
        let window = Window::Sliding(Duration::from_secs(400));
        let store = Store::in_memory(manual().window(window).clock(clock.clock())).unwrap();
        for step in 0..120 {
            fill(&store, step * 25_000..(step + 1) * 25_000);
            case.compare(&store);
            clock.advance(Duration::from_secs(10));
            rest(&store);
        }
        case.report();
        assert!(store.stats().tables_expired > 4, "{:?}", store.stats());
    });
}

struct Scratch(std::path::PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn scratch(name: &str) -> Scratch {
    let path = std::env::temp_dir().join(format!("firstseen-memory-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    Scratch(path)
}

/// With room for all tables, and with so little that most answer from their files.
#[test]
fn store_with_a_directory_says_what_the_system_has_given() {
    alone("store_with_a_directory_says_what_the_system_has_given", || {
        for (name, budget) in [("directory", 4 << 30), ("directory with little memory", 16 << 20)] {
            let dir = scratch("directory");
            let mut case = Case::new(name);
            let options = manual().durability(Durability::Buffered).memory_budget(budget);
            let store = Store::open_with(&dir.0, options).unwrap();
            for part in 0..20 {
                fill(&store, part * 100_000..(part + 1) * 100_000);
                case.compare(&store);
            }
            case.report();
            let stats = store.stats();
            assert!(stats.seals > 2 && stats.memory_bytes <= budget, "{stats:?}");
        }
    });
}

/// A store that was opened again has its filters in the maps of its files first, then in memory.
#[test]
fn store_that_was_opened_again_says_what_the_system_has_given() {
    alone("store_that_was_opened_again_says_what_the_system_has_given", || {
        let dir = scratch("again");
        let options = manual().durability(Durability::Buffered).memory_budget(64 << 20);
        let store = Store::open_with(&dir.0, options.clone()).unwrap();
        fill(&store, 0..2_000_000);
        store.close().unwrap();
        let mut case = Case::new("opened again");
        let store = Store::open_with(&dir.0, options).unwrap();
        rest(&store);
        fill(&store, 2_000_000..2_400_000);
        case.compare(&store);
        case.report();
    });
}

#[test]
fn leases_that_are_held_are_counted() {
    alone("leases_that_are_held_are_counted", || {
        let mut case = Case::new("leases");
        let store = Store::in_memory(manual()).unwrap();
        let mut tokens = Vec::with_capacity(300_000);
        case.bytes_before = anonymous_bytes();
        for id in 0..300_000_u64 {
            let Claim::Leased(lease) = store.claim(id.to_le_bytes(), Duration::from_secs(60)).unwrap() else {
                unreachable!("nobody else claims")
            };
            tokens.push(lease.into_token());
            if id % 1_000 == 0 {
                rest(&store);
            }
        }
        rest(&store);
        case.bytes_before += (tokens.len() * size_of_val(&tokens[0])) as u64;
        case.compare(&store);
        case.report();
        assert!(store.stats().lease_bytes > 300_000 * 40, "{:?}", store.stats());
    });
}
