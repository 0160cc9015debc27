//! Kills a process that uses a store, again and again: nothing that it acknowledged is lost.
//!
//! The parent starts this program as a child, which works on a store with four threads and writes what was
//! answered to a pipe; kills it (`SIGKILL`) after a random time; opens the store itself, which recovers it;
//! and compares. `FIRSTSEEN_KILLS` sets how often (200), `FIRSTSEEN_SEED` the course of chance.

#[path = "kill/child.rs"]
mod child;
#[path = "kill/notes.rs"]
mod notes;
#[path = "kill/random.rs"]
mod random;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use firstseen::{Error, Store};

use crate::notes::{Expected, Ledger};
use crate::random::Random;

/// Kills of one store before the next one is made.
const KILLS_PER_STORE: u64 = 20;

fn main() {
    if std::env::args().any(|argument| argument == "--list") {
        return;
    }
    if let Some(order) = child::Order::from_environment() {
        order.work();
    }
    let kills = number("FIRSTSEEN_KILLS").unwrap_or(200);
    let seed = number("FIRSTSEEN_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    println!("kill: {kills} kills, FIRSTSEEN_SEED={seed}");
    let begun = Instant::now();
    let mut totals = Totals::default();
    for first in (0..kills).step_by(usize::try_from(KILLS_PER_STORE).expect("small")) {
        let dir = std::env::temp_dir().join(format!("firstseen-kill-{}-{first}", std::process::id()));
        kill_one_store(&dir, first..kills.min(first + KILLS_PER_STORE), seed, &mut totals);
        std::fs::remove_dir_all(&dir).expect("the store's directory is ours");
    }
    println!(
        "counted: {} kills, {} answers compared, {} recoveries, 0 lost, 0 phantom, {:?}",
        totals.kills,
        totals.compared,
        totals.recoveries,
        begun.elapsed()
    );
    assert!(
        totals.recoveries > 0 && totals.compared > totals.kills,
        "children were killed before they began"
    );
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[derive(Default)]
struct Totals {
    kills: u64,
    compared: u64,
    recoveries: u64,
}

/// Works on one store and kills its owner, several times over.
fn kill_one_store(dir: &Path, rounds: std::ops::Range<u64>, seed: u64, totals: &mut Totals) {
    let mut ledger = Ledger::default();
    for round in rounds {
        let mut random = Random::new(seed ^ round.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let notes = run_and_kill(dir, round, &mut random);
        ledger.take(&notes);
        totals.kills += 1;
        totals.recoveries += u64::from(Store::needs_recovery(dir).unwrap_or(false));
        // A child that was killed before it had made its store leaves nothing to compare.
        let store = open_after_kill(dir, round);
        totals.compared += compare(&store, &mut ledger, round, seed);
        if random.below(4) == 0 {
            store.close().expect("the store can be closed");
        }
    }
}

/// The kernel may need a moment to let go of a killed process's lock.
fn open_after_kill(dir: &Path, round: u64) -> Store {
    for _ in 0..100 {
        match Store::open_with(dir, child::options(round)) {
            Err(Error::Locked { .. }) => std::thread::sleep(Duration::from_millis(20)),
            outcome => return outcome.expect("the store opens after a kill"),
        }
    }
    unreachable!("the killed child still holds the lock after two seconds");
}

fn run_and_kill(dir: &Path, round: u64, random: &mut Random) -> Vec<u8> {
    let program: PathBuf = std::env::current_exe().expect("this program has a path");
    let order = child::Order { dir: dir.to_owned(), round, seed: random.next() };
    let mut child = Command::new(program)
        .envs(order.to_environment())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the child starts");
    let mut output = child.stdout.take().expect("it is piped");
    let reader = std::thread::spawn(move || {
        let mut notes = Vec::new();
        output.read_to_end(&mut notes).expect("the pipe is read");
        notes
    });
    std::thread::sleep(Duration::from_micros(random.below(120_000)));
    child.kill().expect("the child can be killed");
    child.wait().expect("the child is gone");
    reader.join().expect("the reader has read")
}

/// Compares everything that is known with what the store says; returns how many answers.
fn compare(store: &Store, ledger: &mut Ledger, round: u64, seed: u64) -> u64 {
    let mut compared = 0;
    for (id, expected) in ledger.expected() {
        let is_seen = store.contains(id).expect("the store answers");
        let fits = match expected {
            Expected::Seen => is_seen,
            Expected::Unseen => !is_seen,
            Expected::Either => true,
        };
        assert!(fits, "round {round}, FIRSTSEEN_SEED={seed}: {id:?} seen {is_seen}, expected {expected:?}");
        compared += 1;
    }
    for absent in 0..200_u64 {
        let id = notes::id(child::THREADS + 1, absent);
        assert!(
            !store.contains(id).expect("the store answers"),
            "phantom {id:?} in round {round}, seed {seed}"
        );
        compared += 1;
    }
    compared
}
