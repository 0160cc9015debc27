//! The arithmetic against stores that were filled, and against its own page.

use std::time::Duration;

use super::*;
use crate::storage::sim::SimDisk;
use crate::sync::Arc;
use crate::{ManualClock, Options, Progress, Stats, Store, Timestamp, Verdict};

fn fill(store: &Store, ids: std::ops::Range<u64>) {
    for first in ids.clone().step_by(1_000) {
        let batch: Vec<[u8; 8]> = (first..ids.end.min(first + 1_000)).map(u64::to_le_bytes).collect();
        store.check_batch(&batch, &mut vec![Verdict::default(); batch.len()]).unwrap();
        while store.maintain().unwrap() == Progress::Worked {}
    }
}

fn manual() -> Options {
    Options::new().maintenance(crate::Maintenance::Manual)
}

/// Asserts that two figures are within `percent` of each other.
#[track_caller]
fn assert_near(what: &str, computed: u64, measured: u64, percent: u64) {
    println!("{what}: computed {computed}, measured {measured}");
    assert!(
        computed.abs_diff(measured) * 100 <= measured * percent,
        "{what}: computed {computed}, measured {measured}"
    );
}

#[test]
fn memory_of_stores_that_grow_is_as_computed() {
    let store = Store::in_memory(manual()).unwrap();
    let mut filled = 0;
    for keys in [50_000, 100_000, 120_000, 200_000, 300_000, 500_000, 700_000, 1_000_000, 1_500_000] {
        fill(&store, filled..keys);
        filled = keys;
        let computed = capacity(keys, Window::Forever).memory_bytes;
        assert_near(&format!("{keys} keys"), computed, store.stats().memory_bytes, 10);
    }
}

#[test]
fn memory_of_stores_that_expect_their_ids_is_as_computed() {
    for keys in [100_000, 300_000, 1_000_000] {
        let store = Store::in_memory(manual().expect(keys)).unwrap();
        fill(&store, 0..keys);
        let computed = capacity(keys, Window::Forever).memory_bytes_expected;
        assert_near(&format!("{keys} keys"), computed, store.stats().memory_bytes, 2);
    }
}

#[test]
fn memory_of_stores_with_a_window_is_as_computed() {
    let clock = ManualClock::new(Timestamp::from_millis(1_000_000));
    let window = Window::Fixed(Duration::from_secs(400));
    for keys in [100_000, 400_000_u64] {
        let store = Store::in_memory(manual().window(window).clock(clock.clock())).unwrap();
        let (mut measured, steps) = (0, 320);
        // Eight windows, in steps of a fortieth.
        for step in 0..steps {
            fill(&store, step * keys / 40..(step + 1) * keys / 40);
            if step > steps / 2 {
                measured = measured.max(store.stats().memory_bytes);
            }
            clock.advance(Duration::from_secs(10));
        }
        let stats = store.stats();
        println!("{stats:?}");
        let computed = capacity(keys, window);
        assert!(stats.ids <= computed.keys_held && stats.ids >= keys, "{} IDs", stats.ids);
        assert_near(&format!("{keys} keys"), computed.memory_bytes, measured, 10);
    }
}

#[test]
fn memory_of_stores_with_a_window_that_expect_their_ids_is_as_computed() {
    let clock = ManualClock::new(Timestamp::from_millis(1_000_000));
    let window = Window::Fixed(Duration::from_secs(400));
    let computed = capacity(400_000, window);
    let options = manual().window(window).clock(clock.clock()).expect(computed.keys_held);
    let store = Store::in_memory(options).unwrap();
    for step in 0..120 {
        fill(&store, step * 10_000..(step + 1) * 10_000);
        clock.advance(Duration::from_secs(10));
    }
    assert_near("peak", computed.memory_bytes_expected, store.stats().memory_bytes_peak, 10);
}

/// A store in a directory that has the least budget, filled.
fn filled(keys: u64, disk: &SimDisk) -> (Store, Capacity) {
    let computed = capacity(keys, Window::Forever);
    let options = manual().memory_budget(computed.memory_bytes_least);
    let store = Store::open_on(Arc::new(disk.clone()), options).unwrap();
    fill(&store, 0..keys);
    (store, computed)
}

#[test]
fn files_filters_and_log_of_stores_with_a_directory_are_as_computed() {
    for keys in [100_000, 1_000_000] {
        let disk = SimDisk::new(keys);
        let (store, computed) = filled(keys, &disk);
        let stats: Stats = store.stats();
        println!("{stats:?}");
        // The filters of a file that is being sealed and of one that is being fused come on top for a while.
        let filters = computed.filter_bytes / 2 + computed.filter_bytes;
        assert!(stats.memory_bytes_peak <= computed.memory_bytes_least + filters);
        assert!(stats.generations <= computed.generations);
        let log = |(name, bytes): (&String, &Vec<u8>)| {
            if name.starts_with("log-") { bytes.len() as u64 } else { 0 }
        };
        let log_bytes = disk.files().iter().map(log).sum::<u64>();
        assert!(
            log_bytes <= computed.log_bytes_max,
            "log of {log_bytes}, at most {}",
            computed.log_bytes_max
        );
        let killed = Store::open_on(Arc::new(disk.kill()), manual()).unwrap();
        assert!(killed.stats().records_replayed <= computed.records_replayed_max);
        store.close().unwrap();
        let reopened = Store::open_on(Arc::new(disk), manual()).unwrap();
        let stats = reopened.stats();
        assert_near("files", computed.file_bytes, stats.generation_bytes, 2);
        let files = reopened.stats().generation_bytes;
        assert!(files < computed.file_bytes_peak);
    }
}

#[test]
fn false_positive_rate_is_the_documented_one() {
    for (bits, expected) in [(12.0, 0.0054), (10.0, 0.013), (16.0, 0.0013), (8.0, 0.033)] {
        let rate = false_positive_rate(bits);
        assert!((rate - expected).abs() < expected * 0.04, "{bits} bits: {rate}");
    }
    assert_eq!(to_u64(1.0 / false_positive_rate(12.0)), 184);
}

#[test]
fn sizes_of_any_number_of_keys_do_not_overflow() {
    for keys in [0, 1, 1_000, u64::MAX / 64, u64::MAX] {
        for window in [Window::Forever, Window::Fixed(Duration::from_secs(86_400))] {
            let computed = capacity(keys, window);
            assert!(computed.keys_held >= keys);
            let _ = computed.at_rate(u64::MAX);
        }
    }
}

fn row(keys: u64, power: u32) -> String {
    let computed = capacity(keys, Window::Forever);
    let bytes = |bytes: u64| {
        let (unit, name) = [(1_000_000_000_000, "TB"), (1_000_000_000, "GB"), (1_000_000, "MB")]
            .into_iter()
            .find(|(unit, _)| bytes >= *unit)
            .unwrap_or((1_000, "kB"));
        let tenths = (bytes * 10 + unit / 2) / unit;
        if tenths < 100 {
            format!("{}.{} {name}", tenths / 10, tenths % 10)
        } else {
            format!("{} {name}", (tenths + 5) / 10)
        }
    };
    format!(
        "//! | 10^{power} | {} | {} | {} | {} | {} | {:.0e} |",
        bytes(computed.memory_bytes),
        bytes(computed.memory_bytes_expected),
        bytes(computed.memory_bytes_least),
        bytes(computed.filter_bytes),
        bytes(computed.file_bytes),
        computed.collision_probability,
    )
}

#[test]
fn page_has_the_computed_rows() {
    let page = include_str!("../capacity.rs");
    let missing: Vec<String> = (6..=11)
        .map(|power| row(10_u64.pow(power), power))
        .filter(|row| !page.lines().any(|line| line == row))
        .collect();
    assert!(missing.is_empty(), "rows that the page lacks:\n{}", missing.join("\n"));
    let largest = capacity(100_000_000_000, Window::Forever);
    assert_eq!((largest.generations, largest.records_replayed_max), (4, 24_000_000));
    assert!((2_200_000_000..2_300_000_000).contains(&largest.log_bytes_max), "{}", largest.log_bytes_max);
}
