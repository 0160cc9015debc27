//! Models of group commit, checked by loom on the real code.

use loom::thread;

use super::memory::{Failing, Memory};
use super::segment;
use super::{Log, Setup};
use crate::error::Error;
use crate::fingerprint::Fingerprint;
use crate::sync::Arc;

fn log(memory: &Memory) -> Arc<Log> {
    let setup = Setup {
        store_id: 1,
        segment: 1,
        seq: 1,
        segment_bytes: 8192,
        segment_bytes_max: 8192,
        slice_bytes: 8192,
        segments_ready: 0,
        segments_at_once: 0,
    };
    Arc::new(Log::create(Arc::new(memory.clone()), setup).expect("memory does not fail"))
}

fn key(number: u64) -> Fingerprint {
    Fingerprint::from_halves(0xaaaa_0000 + number, number)
}

/// Leaves one fact; the position behind everything that is reserved then. Makes room when there is none.
fn push(log: &Log, number: u64) -> Result<u64, Error> {
    loop {
        if let Some(mut session) = log.session()? {
            session.push(key(number), number << 2 | 2);
            session.finish();
            return Ok(log.position());
        }
        log.write_until(log.position())?;
    }
}

/// Whether the fact is in the file, synced or not.
fn is_in_file(memory: &Memory, number: u64, is_synced: bool) -> bool {
    let bytes = memory.read(&segment::name(1), is_synced);
    let needle = key(number).to_bytes();
    bytes.chunks_exact(8).zip(bytes.chunks_exact(8).skip(1)).any(|(hi, lo)| needle == [hi, lo].concat()[..])
}

/// Explores a model within three preemptions; prints what it took.
fn model(name: &str, body: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.max_branches = 20_000;
    let runs = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = std::sync::Arc::clone(&runs);
    let begun = std::time::Instant::now();
    builder.check(move || {
        counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        body();
    });
    let runs = runs.load(std::sync::atomic::Ordering::Relaxed);
    println!("loom model {name}: {runs} executions, {:?}", begun.elapsed());
}

#[test]
fn two_callers_that_sync_are_answered_after_their_facts_are_synced() {
    model("two_callers_that_sync", || {
        let memory = Memory::default();
        let log = log(&memory);
        let threads: Vec<_> = (1..=2)
            .map(|number| {
                let (log, memory) = (Arc::clone(&log), memory.clone());
                thread::spawn(move || {
                    let position = push(&log, number).expect("memory does not fail");
                    log.sync_until(position).expect("memory does not fail");
                    assert!(is_in_file(&memory, number, true), "{number} was answered before it was synced");
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
        assert!(log.stats().syncs <= 2);
    });
}

#[test]
fn writer_and_syncer_are_answered_after_their_facts_are_there() {
    model("writer_and_syncer", || {
        let memory = Memory::default();
        let log = log(&memory);
        let syncer = {
            let (log, memory) = (Arc::clone(&log), memory.clone());
            thread::spawn(move || {
                let position = push(&log, 1).expect("memory does not fail");
                log.sync_until(position).expect("memory does not fail");
                assert!(is_in_file(&memory, 1, true));
            })
        };
        let position = push(&log, 2).expect("memory does not fail");
        log.write_until(position).expect("memory does not fail");
        assert!(is_in_file(&memory, 2, false));
        syncer.join().expect("no panic");
    });
}

#[test]
fn full_queue_is_emptied_by_whoever_finds_it_full() {
    model("full_queue", || {
        let memory = Memory::default();
        let log = log(&memory);
        let other = {
            let log = Arc::clone(&log);
            thread::spawn(move || {
                push(&log, 1).expect("memory does not fail");
                push(&log, 2).expect("memory does not fail");
            })
        };
        push(&log, 3).expect("memory does not fail");
        push(&log, 4).expect("memory does not fail");
        other.join().expect("no panic");
        log.write_until(log.position()).expect("memory does not fail");
        assert!((1..=4).all(|number| is_in_file(&memory, number, false)));
    });
}

#[test]
fn failed_sync_is_answered_to_nobody_as_success() {
    model("failed_sync", || {
        let memory = Memory::default();
        let log = log(&memory);
        // One write and one sync, or two writes before a sync: the second and all later ones fail.
        memory.fail(Failing::From(memory.operations() + 2));
        let threads: Vec<_> = (1..=2)
            .map(|number| {
                let (log, memory) = (Arc::clone(&log), memory.clone());
                thread::spawn(move || {
                    let outcome = push(&log, number).and_then(|position| log.sync_until(position));
                    assert!(outcome.is_err() || is_in_file(&memory, number, true));
                    matches!(outcome, Err(Error::Io { .. }))
                })
            })
            .collect();
        let told = threads.into_iter().filter(|_| true).map(|thread| thread.join().expect("no panic"));
        assert_eq!(told.filter(|is_io| *is_io).count(), 1, "one is told what failed");
        assert!(matches!(log.fault(), Some(Error::Io { .. })));
        assert!(matches!(log.session(), Err(Error::Poisoned { .. })));
    });
}

#[test]
fn cursors_wait_for_what_was_reserved_before_them() {
    model("cursors", || {
        let memory = Memory::default();
        let log = log(&memory);
        let other = {
            let (log, memory) = (Arc::clone(&log), memory.clone());
            thread::spawn(move || {
                let position = push(&log, 1).expect("memory does not fail");
                log.write_until(position).expect("memory does not fail");
                assert!(is_in_file(&memory, 1, false));
            })
        };
        let position = log.append_cursors(&[(key(2), 2)], &[("c", 5)]).expect("memory does not fail");
        assert!(is_in_file(&memory, 2, false));
        log.sync_until(position).expect("memory does not fail");
        assert!(is_in_file(&memory, 2, true));
        other.join().expect("no panic");
    });
}
