//! Callers that wait for one sync together: what they are told when it fails, or never ends well.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use firstseen::testing::{Crash, Fault, Op, SimDisk};
use firstseen::{Clock, Durability, Error, FileAccess, Store, Verdict};

use crate::hooked;
use crate::setup::Setup;

const NOW_MS: u64 = 1_700_000_000_000;

/// Far longer than any call takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long callers are given to get where they wait.
const PAUSE: Duration = Duration::from_millis(30);

const SETUP: Setup = Setup {
    durability: Durability::Sync,
    window: firstseen::Window::Forever,
    first_table_lines: 64,
    segment_bytes: 1 << 16,
};

/// Where a sync stops until the test lets it go on.
#[derive(Debug, Default)]
struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    is_closed: bool,
    is_reached: bool,
    is_panicking: bool,
}

impl Gate {
    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().unwrap());
        self.changed.notify_all();
    }

    fn wait(&self, until: impl Fn(&State) -> bool) -> bool {
        let state = self.state.lock().unwrap();
        let (state, wait) = self.changed.wait_timeout_while(state, PATIENCE, |state| !until(state)).unwrap();
        assert!(!wait.timed_out(), "{state:?}");
        state.is_panicking
    }

    /// Called before each operation.
    fn pass(&self, op: Op) {
        if op == Op::Sync {
            self.change(|state| state.is_reached |= state.is_closed);
            if self.wait(|state| !state.is_closed) {
                self.change(|state| state.is_panicking = false);
                resume_unwind(Box::new("planted"));
            }
        }
    }
}

/// What a caller was told; `None` when it panicked.
type Told = Option<Result<Verdict, Error>>;

/// Checks an ID in a thread of its own.
fn check(store: &Store, id: u32, told: &Sender<(u32, Told)>) {
    let (store, told) = (store.clone(), told.clone());
    std::thread::spawn(move || {
        let answer = catch_unwind(AssertUnwindSafe(|| store.check(id.to_le_bytes()))).ok();
        told.send((id, answer)).unwrap();
    });
}

fn answers(told: &Receiver<(u32, Told)>, count: usize) -> Vec<(u32, Told)> {
    (0..count)
        .map(|_| match told.recv_timeout(PATIENCE) {
            Ok(answer) => answer,
            Err(RecvTimeoutError::Timeout) => panic!("somebody waits for ever"),
            Err(RecvTimeoutError::Disconnected) => unreachable!("the test has a sender"),
        })
        .collect()
}

/// Opens a store, has IDs 0 to 4 answered, then ID 5 stopped in its sync and IDs 6 to 10 behind it; `end`
/// says how the sync ends. What all were told, and the disk.
fn stopped(end: impl FnOnce(&SimDisk, &Gate)) -> (SimDisk, Store, Vec<(u32, Told)>) {
    let (disk, gate) = (SimDisk::new(0), Arc::new(Gate::default()));
    let passed = Arc::clone(&gate);
    let options = SETUP.options(Clock::system());
    let store = hooked::open(&disk, options, move |op| passed.pass(op)).unwrap();
    for id in 0..5_u32 {
        assert_eq!(store.check(id.to_le_bytes()).unwrap(), Verdict::FirstSeen);
    }
    gate.change(|state| state.is_closed = true);
    let (sender, told) = channel();
    check(&store, 5, &sender);
    gate.wait(|state| state.is_reached);
    // One that asks about an ID which is not durable yet, before anything else is reserved.
    check(&store, 5, &sender);
    std::thread::sleep(PAUSE);
    (6..11).for_each(|id| check(&store, id, &sender));
    std::thread::sleep(PAUSE);
    end(&disk, &gate);
    gate.change(|state| state.is_closed = false);
    let answers = answers(&told, 7);
    (disk, store, answers)
}

/// After all of it: what was answered before is there, the store goes on and is opened again and again.
fn check_after(disk: &SimDisk, lost_at_most: std::ops::Range<u32>) {
    let mut disk = disk.clone();
    for round in 0..3_u32 {
        let store = SETUP.open_at(&disk, NOW_MS, FileAccess::Map).unwrap();
        for id in 0..11 + round {
            let is_kept = store.contains(id.to_le_bytes()).unwrap();
            assert!(is_kept || round == 0 && lost_at_most.contains(&id), "round {round}, ID {id}");
        }
        // Frames behind those of the failed log: recovery refuses numbers that do not grow.
        for id in 0..12 + round {
            let _ = store.check(id.to_le_bytes()).unwrap();
        }
        disk = disk.crash(Crash::LoseAll);
    }
}

#[test]
fn sync_that_fails_acknowledges_neither_its_group_nor_the_next() {
    for kind in [std::io::ErrorKind::Other, std::io::ErrorKind::StorageFull] {
        let (disk, store, answers) = stopped(|disk, _| {
            // The sync that is under way fails, all later ones would go well.
            disk.fail(Fault { at: 0, kind, is_sticky: false, only: Some(Op::Sync) });
        });
        let told = |error: &Error| matches!(error, Error::Io { .. } | Error::Poisoned { .. });
        for (id, answer) in &answers {
            assert!(matches!(answer, Some(Err(error)) if told(error)), "ID {id}: {answer:?}");
        }
        let syncs = disk.ops_of(Op::Sync);
        assert!(matches!(store.check("later"), Err(Error::Poisoned { .. })));
        assert_eq!(disk.ops_of(Op::Sync), syncs, "a failed sync is not tried again");
        drop(store);
        check_after(&disk.kill(), 5..11);
        check_after(&disk.crash(Crash::LoseAll), 5..11);
    }
}

#[test]
fn panic_of_the_one_who_syncs_is_an_error_for_all_who_wait() {
    let (disk, store, answers) = stopped(|_, gate| gate.change(|state| state.is_panicking = true));
    let panicked = answers.iter().filter(|(_, answer)| answer.is_none()).count();
    assert_eq!(panicked, 1, "{answers:?}");
    for (id, answer) in &answers {
        assert!(matches!(answer, None | Some(Err(Error::Poisoned { .. }))), "ID {id}: {answer:?}");
    }
    assert!(matches!(store.check("later"), Err(Error::Poisoned { .. })));
    drop(store);
    check_after(&disk.kill(), 5..11);
    check_after(&disk.crash(Crash::LoseAll), 5..11);
}

#[test]
fn sync_that_ends_well_acknowledges_its_group_and_the_next() {
    let (disk, store, answers) = stopped(|_, _| {});
    let firsts = answers.iter().filter(|(_, answer)| matches!(answer, Some(Ok(Verdict::FirstSeen)))).count();
    let seen = answers.iter().filter(|(_, answer)| matches!(answer, Some(Ok(Verdict::Duplicate)))).count();
    assert_eq!((firsts, seen), (6, 1), "{answers:?}");
    drop(store);
    check_after(&disk.crash(Crash::LoseAll), 0..0);
}
