//! A smoke test: every peer of this process answers 10^4 IDs rightly, in every way that cases ask.

use std::collections::BTreeSet;

use crate::child::{self, Setting};
use crate::peer::{Entry, Keeps};
use crate::peers;
use crate::record::{Case, Run};

const SETTING: Setting = Setting { segments: 1, cache_bytes: 8 << 20, limit: None };

fn run(entry: &Entry, case: Case) -> Run {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let outcome = child::run(entry, case, &SETTING, dir.path());
    outcome.unwrap_or_else(|cause| panic!("{}, {}: {cause}", entry.name, case.title()))
}

/// Peers that can be tested here; the others are named.
fn present() -> Vec<Entry> {
    let (present, missing): (Vec<_>, Vec<_>) =
        peers::entries().into_iter().partition(|entry| entry.needs.missing().is_none());
    for entry in missing {
        eprintln!("NOT TESTED: {}, {}", entry.name, entry.needs.missing().unwrap_or_default());
    }
    present
}

#[test]
fn peers_asked_in_batches_answer_rightly() {
    for entry in present() {
        let run = run(&entry, Case { keys: 10_000, repeats: 0.3, batch: 64, threads: 1, preload: 500 });
        assert_eq!(run.timed[0].checks, 10_000, "{}", entry.name);
        assert!((7_200..7_800).contains(&run.distinct), "{}: {}", entry.name, run.distinct);
        assert_eq!(run.reopen_seconds.is_some(), entry.keeps.is_on_disk(), "{}", entry.name);
    }
}

#[test]
fn peers_asked_singly_have_latencies() {
    for entry in present() {
        let run = run(&entry, Case { keys: 2_000, repeats: 0.5, batch: 1, threads: 1, preload: 0 });
        let [p50, p99, p999] = run.timed[0].latency_ns.expect("they were taken");
        assert!(p50 <= p99 && p99 <= p999, "{}", entry.name);
    }
}

#[test]
fn peers_asked_by_two_threads_answer_each_id_once() {
    for entry in present() {
        let run = run(&entry, Case { keys: 20_000, repeats: 0.5, batch: 64, threads: 2, preload: 0 });
        assert!((9_500..10_500).contains(&run.distinct), "{}: {}", entry.name, run.distinct);
    }
}

#[test]
fn peers_given_only_repeats_call_nothing_new() {
    for entry in present() {
        let run = run(&entry, Case { keys: 10_000, repeats: 1.0, batch: 1024, threads: 1, preload: 0 });
        assert_eq!(run.distinct, 10_000, "{}", entry.name);
    }
}

#[test]
fn names_of_peers_are_unique() {
    let entries = peers::entries();
    let names: BTreeSet<&str> = entries.iter().map(|entry| entry.name).collect();
    assert_eq!(names.len(), entries.len());
    assert!(entries.iter().any(|entry| entry.name == peers::REFERENCE && entry.keeps == Keeps::Memory));
}
