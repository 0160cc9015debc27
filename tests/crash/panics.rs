//! A panic in the middle of anything that a store does with its disk: poisoned, nothing answered is lost.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use firstseen::testing::{Crash, Op, SimDisk};
use firstseen::{Claim, Durability, Error, FileAccess, ManualClock, Options, Store, Timestamp, Verdict};

use crate::hooked;
use crate::setup::Setup;

const NOW_MS: u64 = 1_700_000_000_000;

/// IDs that the calls below use; one more is never brought.
const IDS: u32 = 40;

const WRITING: [Op; 6] = [Op::Create, Op::Write, Op::Allocate, Op::Sync, Op::Rename, Op::SyncDir];

fn options(setup: Setup) -> Options {
    setup.options(ManualClock::new(Timestamp::from_millis(NOW_MS)).clock())
}

fn id(number: u32) -> [u8; 4] {
    number.to_le_bytes()
}

/// One call on the store; the IDs that it was told are seen.
fn call(store: &Store, step: u32) -> Result<Vec<u32>, Error> {
    match step {
        0..24 => store.check(id(step)).map(|_| vec![step]),
        24 | 26 | 28 | 34..60 => store.maintain().map(|_| Vec::new()),
        25 | 27 => match store.claim(id(step), Duration::from_secs(60))? {
            Claim::Leased(lease) => lease.commit().map(|()| vec![step]),
            other => unreachable!("nobody else claims it: {other:?}"),
        },
        29 => {
            let ids: Vec<_> = (29..34).map(id).collect();
            let mut verdicts = [Verdict::default(); 5];
            store.check_batch(&ids, &mut verdicts).map(|()| (29..34).collect())
        }
        30..34 => store.persist().map(|()| Vec::new()),
        60..66 => store.check(id(step - 26)).map(|_| vec![step - 26]),
        _ => store.clone().close().map(|()| Vec::new()),
    }
}

/// What came of a run in which the operation number `at` panicked.
#[derive(Default)]
struct Run {
    acked: Vec<u32>,
    /// The operation that panicked.
    panicked: Option<Op>,
    /// Whether the store answered a call after that.
    has_gone_on: bool,
}

/// Makes all calls, those after a panic too.
fn run(setup: Setup, disk: &SimDisk, at: u64) -> Run {
    let (count, found) = (AtomicU64::new(0), Arc::new(AtomicU64::new(u64::MAX)));
    let kinds = Arc::new(std::sync::Mutex::new(None));
    let (note, kind) = (Arc::clone(&found), Arc::clone(&kinds));
    let hook = move |op| {
        if count.fetch_add(1, Ordering::Relaxed) == at {
            note.store(at, Ordering::Relaxed);
            *kind.lock().unwrap() = Some(op);
            // Without the message that a test prints.
            resume_unwind(Box::new("planted"));
        }
    };
    let mut run = Run::default();
    let opened = catch_unwind(AssertUnwindSafe(|| hooked::open(disk, options(setup), hook)));
    if let Ok(store) = opened {
        let store = store.unwrap();
        for step in 0..70 {
            let was_panicked = found.load(Ordering::Relaxed) == at;
            match catch_unwind(AssertUnwindSafe(|| call(&store, step))) {
                Ok(Ok(ids)) => {
                    run.has_gone_on |= was_panicked && !ids.is_empty();
                    run.acked.extend(ids);
                }
                Ok(Err(Error::Closed)) => {}
                Ok(Err(error)) => {
                    let cause = if let Error::Partial { cause, .. } = error { *cause } else { error };
                    assert!(was_panicked && matches!(cause, Error::Poisoned { .. }), "{step}: {cause:?}");
                }
                Err(_) => assert!(!was_panicked, "a second panic, in step {step}"),
            }
        }
    }
    run.panicked = *kinds.lock().unwrap();
    run
}

/// Everything that was answered is there, what was never brought is not, and the store works again.
fn check_after(setup: Setup, disk: &SimDisk, acked: &[u32]) {
    for access in [FileAccess::Map, FileAccess::Read] {
        let disk = disk.kill();
        let store = setup.open_at(&disk, NOW_MS, access).unwrap();
        for number in acked {
            assert!(store.contains(id(*number)).unwrap(), "ID {number} is lost");
        }
        assert_eq!(store.check(id(IDS)).unwrap(), Verdict::FirstSeen);
        store.close().unwrap();
    }
}

#[test]
fn panic_at_any_operation_poisons_and_loses_nothing_answered() {
    let (mut panics, mut poisoned) = (0, 0);
    for durability in [Durability::Sync, Durability::Buffered, Durability::None] {
        let setup = Setup { durability, ..Setup::default() };
        for at in 0.. {
            let disk = SimDisk::new(at);
            let run = run(setup, &disk, at);
            let Some(op) = run.panicked else { break };
            panics += 1;
            let place = format!("{durability:?}, operation {at}, {op:?}");
            assert!(!(run.has_gone_on && WRITING.contains(&op)), "{place}: the store goes on");
            poisoned += u64::from(!run.has_gone_on);
            let acked = if durability == Durability::None { &[][..] } else { &run.acked };
            let power = if durability == Durability::Sync { acked } else { &[] };
            let checks = [
                (disk.kill(), acked),
                (disk.crash(Crash::LoseAll), power),
                (disk.crash(Crash::Random(at)), power),
            ];
            for (disk, acked) in checks {
                let outcome = catch_unwind(AssertUnwindSafe(|| check_after(setup, &disk, acked)));
                assert!(outcome.is_ok(), "{place}");
            }
        }
    }
    report!("counted: {panics} panics, {poisoned} stores poisoned");
    assert!(panics > 300, "{panics}");
}
