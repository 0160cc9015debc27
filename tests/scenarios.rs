//! Small situations that users of such stores met, each with its right outcome.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on stops, with the place")]
#![expect(clippy::cast_possible_truncation, reason = "numbers of IDs are small here")]

#[path = "scenarios/budget.rs"]
mod budget;
#[path = "scenarios/collisions.rs"]
mod collisions;
#[path = "scenarios/growth.rs"]
mod growth;
#[path = "scenarios/leases.rs"]
mod leases;
#[path = "scenarios/options.rs"]
mod options;
#[path = "stress/random.rs"]
mod random;
#[path = "scenarios/replay.rs"]
mod replay;
#[path = "scenarios/steady.rs"]
mod steady;
#[path = "scenarios/verdicts.rs"]
mod verdicts;
#[path = "scenarios/windows.rs"]
mod windows;

use std::time::{Duration, Instant};

use firstseen::{ManualClock, Options, Progress, Stats, Store, Timestamp, Verdict, Window};

/// Long enough for a machine that is busy with something else.
const PATIENCE: Duration = Duration::from_secs(60);

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn hours(hours: u64) -> Duration {
    secs(hours * 3_600)
}

fn store(options: Options) -> Store {
    Store::in_memory(options).unwrap()
}

/// A store with a window and the clock that moves it.
fn store_with_clock(window: Window, options: Options) -> (Store, ManualClock) {
    let clock = ManualClock::new(Timestamp::from_millis(1_700_000_000_000));
    (store(options.window(window).clock(clock.clock())), clock)
}

fn check(store: &Store, id: impl AsRef<[u8]>) -> Verdict {
    store.check(id).unwrap()
}

fn batch(store: &Store, ids: &[impl AsRef<[u8]>]) -> Vec<Verdict> {
    let mut verdicts = vec![Verdict::default(); ids.len()];
    store.check_batch(ids, &mut verdicts).unwrap();
    verdicts
}

/// Eight bytes that stand for a number.
fn name(number: u64) -> [u8; 8] {
    number.to_le_bytes()
}

/// Steps maintenance until it has nothing to do, or `false` after so many steps.
fn rests_within(store: &Store, steps: u64) -> bool {
    (0..steps).any(|_| store.maintain().unwrap() == Progress::Idle)
}

/// Waits until the maintenance thread has brought something about.
fn wait_for(store: &Store, what: impl Fn(&Stats) -> bool) -> Stats {
    let begun = Instant::now();
    loop {
        let stats = store.stats();
        if what(&stats) {
            return stats;
        }
        assert!(begun.elapsed() < PATIENCE, "still {stats:?}");
        std::thread::sleep(ms(1));
    }
}

/// Runs `work` on a thread of its own; `None` when it does not come back.
fn in_time<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(work()));
    receiver.recv_timeout(PATIENCE).ok()
}
