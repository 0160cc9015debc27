//! Many threads on few IDs, through rotations and expiries: every answer is recorded and checked.
//!
//! In a release build this runs 10^8 operations, else 2 * 10^6; `FIRSTSEEN_STRESS_OPS` sets another number
//! and `FIRSTSEEN_SEED` the choice of calls (the threads' timing is not repeatable).

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on stops, with the place")]
#![expect(clippy::cast_possible_truncation, reason = "numbers of IDs are small here")]

#[path = "stress/drive.rs"]
mod drive;
#[path = "stress/history.rs"]
mod history;
#[path = "stress/random.rs"]
mod random;

use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use firstseen::{ManualClock, Options, Stats, Store, Timestamp, Verdict, Window};

use drive::{HOT_IDS, Round, Worker};
use history::{Answer, End, Event, History, Span, Windows};
use random::Random;

const THREADS: u64 = 8;

/// Operations of one thread in one round; what a round records is checked and let go before the next.
const ROUND_OPERATIONS: u64 = 1 << 15;

/// Rounds on one store; the next store begins with the smallest table again.
const ROUNDS_PER_STORE: u64 = 4;

/// Rounds of the races for equal IDs.
const RACES: u64 = if cfg!(debug_assertions) { 5 } else { 100 };

/// What happened on all stores together.
#[derive(Debug, Default)]
struct Total {
    operations: u64,
    firsts: u64,
    commits: u64,
    lost: u64,
    rotations: u64,
    expiries: u64,
    merges: u64,
    stalls: u64,
}

impl Total {
    fn add_stats(&mut self, stats: &Stats) {
        self.rotations += stats.rotations;
        self.expiries += stats.tables_expired;
        self.merges += stats.merges;
        self.stalls += stats.stalls;
    }
}

#[test]
fn hot_ids_under_eight_threads_have_one_first_in_each_window() {
    let default = if cfg!(debug_assertions) { 2_000_000 } else { 100_000_000 };
    let operations = number("FIRSTSEEN_STRESS_OPS").unwrap_or(default);
    let seed = number("FIRSTSEEN_SEED").unwrap_or_else(|| RandomState::new().hash_one(0));
    let mut total = Total::default();
    let mut rounds = 0;
    while total.operations < operations {
        let settings = settings(rounds / ROUNDS_PER_STORE);
        let clock = ManualClock::new(Timestamp::from_millis(1_700_000_000_000));
        let store = Store::in_memory(settings.0.clock(clock.clock())).unwrap();
        for number in rounds..rounds + ROUNDS_PER_STORE {
            if total.operations < operations {
                let round = Round {
                    store: store.clone(),
                    clock: clock.clone(),
                    windows: settings.1,
                    advance_ms_max: settings.2,
                    started: Instant::now(),
                    number,
                    operations: ROUND_OPERATIONS,
                };
                let outcome = play(&round, seed, &mut total);
                outcome.unwrap_or_else(|text| panic!("FIRSTSEEN_SEED={seed}, round {number}: {text}"));
            }
        }
        rounds += ROUNDS_PER_STORE;
        total.add_stats(&store.stats());
    }
    report(&total, seed);
    assert!(total.rotations > rounds / 2 && total.expiries > 0, "{total:?}");
    assert!(total.firsts > 0 && total.commits > 0 && total.lost > 0, "{total:?}");
}

/// Options, the windows that follow from them, and how far the clock is moved at once.
fn settings(store_number: u64) -> (Options, Windows, u64) {
    let (window, length_ms, advance_ms_max) = match store_number % 5 {
        0 => (Window::Fixed(Duration::from_millis(4_000)), 4_000, 200),
        1 => (Window::Forever, u64::MAX, 1),
        2 => (Window::Sliding(Duration::from_millis(50)), 50, 8),
        3 => (Window::Fixed(Duration::from_millis(1_000)), 1_000, 100),
        _ => (Window::Fixed(Duration::from_millis(50)), 50, 8),
    };
    let options = Options::new().window(window).first_table_lines(1 + store_number % 4);
    (options, Windows { length_ms, slides: matches!(window, Window::Sliding(_)) }, advance_ms_max)
}

/// Lets all threads loose for one round, then checks what they were told.
fn play(round: &Round, seed: u64, total: &mut Total) -> Result<(), String> {
    let workers: Vec<Worker> = std::thread::scope(|scope| {
        let workers: Vec<_> =
            (0..THREADS).map(|thread| scope.spawn(move || Worker::new(round, thread, seed).run())).collect();
        workers.into_iter().map(|worker| worker.join().expect("what went wrong is told above")).collect()
    });
    let mut histories: Vec<History> = (0..HOT_IDS).map(|_| History::default()).collect();
    for worker in workers {
        total.operations += worker.operations;
        for event in worker.events {
            total.firsts += u64::from(event.answer == Answer::First);
            histories[usize::from(event.id)].events.push(event);
        }
        for tenure in worker.tenures {
            total.commits += u64::from(tenure.end == End::Committed);
            total.lost += u64::from(tenure.end == End::Lost);
            histories[usize::from(tenure.id)].tenures.push(tenure);
        }
    }
    for (id, mut history) in histories.into_iter().enumerate() {
        history.events.push(last_look(round, u16::try_from(id).unwrap()));
        history.check(round.windows).map_err(|text| format!("ID {id}: {text}"))?;
    }
    Ok(())
}

/// What is known of an ID after all threads are done: it must not have been lost.
fn last_look(round: &Round, id: u16) -> Event {
    let now_ns = drive::nanos(round.started);
    let now_ms = round.clock.now().as_millis();
    let is_seen = round.store.contains(drive::hot_name(round.number, id)).unwrap();
    let answer = if is_seen { Answer::Known } else { Answer::Absent };
    let span = Span { invoked_ns: now_ns, returned_ns: now_ns, before_ms: now_ms, after_ms: now_ms };
    Event { id, answer, span }
}

fn report(total: &Total, seed: u64) {
    let Total { operations, firsts, commits, lost, rotations, expiries, merges, stalls } = total;
    let line = format!(
        "stress: {operations} operations, {rotations} rotations, {expiries} expiries, {merges} merges, \
         {firsts} firsts, {commits} commits, {lost} leases lost, {stalls} stalls, seed {seed}"
    );
    let mut out = std::io::stderr();
    writeln!(out, "{line}").unwrap();
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is a number, not {text:?}")))
}

/// Sixteen threads insert `inserts` times IDs below `ids`; returns how often each was new.
fn race(store: &Store, ids: u64, inserts: u64, seed: u64) -> Vec<u64> {
    const RACERS: u64 = 16;
    let firsts: Vec<AtomicU64> = (0..ids).map(|_| AtomicU64::new(0)).collect();
    std::thread::scope(|scope| {
        for racer in 0..RACERS {
            let firsts = &firsts;
            scope.spawn(move || {
                let mut random = Random::new(seed ^ (racer << 48));
                for _ in 0..inserts / RACERS {
                    let id = random.below(ids);
                    if store.check(id.to_le_bytes()).unwrap() == Verdict::FirstSeen {
                        firsts[id as usize].fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    firsts.into_iter().map(AtomicU64::into_inner).collect()
}

/// Asserts how often each ID was new.
fn assert_counts(firsts: &[u64], expected: u64) {
    let wrong: Vec<(usize, &u64)> =
        firsts.iter().enumerate().filter(|(_, count)| **count != expected).collect();
    assert!(
        wrong.is_empty(),
        "{} IDs, first {:?}: new so often, not {expected} times",
        wrong.len(),
        wrong[0]
    );
}

/// Brings items into a random order.
fn shuffle<T>(items: &mut [T], random: &mut Random) {
    for count in (2..=items.len()).rev() {
        items.swap(count - 1, random.below(count as u64) as usize);
    }
}

const RACE_IDS: u64 = 10_000;
const RACE_INSERTS: u64 = 1_000_000;

#[test]
fn race_of_sixteen_threads_has_one_first_for_each_id() {
    for seed in 0..RACES {
        let store = Store::in_memory(Options::new()).unwrap();
        assert_counts(&race(&store, RACE_IDS, RACE_INSERTS, seed), 1);
        assert_eq!(store.len(), RACE_IDS);
    }
}

#[test]
fn race_across_growth_has_one_first_for_each_id() {
    let mut rotations = 0;
    for seed in 0..RACES {
        let store = Store::in_memory(Options::new().first_table_lines(1 + seed % 4)).unwrap();
        assert_counts(&race(&store, RACE_IDS, RACE_INSERTS, seed), 1);
        rotations += store.stats().rotations;
    }
    assert!(rotations > 5 * RACES, "only {rotations} rotations");
}

#[test]
fn race_across_expiry_has_one_first_for_each_id_and_window() {
    let clock = ManualClock::new(Timestamp::from_millis(1_000_000));
    let window = Duration::from_millis(4_000);
    let options = Options::new().window(Window::Fixed(window)).clock(clock.clock()).first_table_lines(1);
    let store = Store::in_memory(options).unwrap();
    for seed in 0..RACES {
        assert_counts(&race(&store, RACE_IDS, RACE_INSERTS / 2, seed), 1);
        // Inside the window nothing is new, though tables are rotated by their age meanwhile.
        clock.advance(window - Duration::from_millis(1));
        assert_counts(&race(&store, RACE_IDS, RACE_INSERTS / 4, seed), 0);
        clock.advance(Duration::from_millis(1));
    }
    let stats = store.stats();
    assert!(stats.rotations > RACES && stats.tables_expired > 0, "{stats:?}");
}

/// Batches that overlap, each in an order of its own: all threads together see each ID new once.
#[test]
fn shuffled_batches_of_sixteen_threads_have_one_first_for_each_id() {
    const IDS: u64 = 20_000;
    for seed in 0..RACES {
        let store = Store::in_memory(Options::new().first_table_lines(2)).unwrap();
        let firsts: Vec<AtomicU64> = (0..IDS).map(|_| AtomicU64::new(0)).collect();
        std::thread::scope(|scope| {
            for thread in 0..16 {
                let (store, firsts) = (&store, &firsts);
                scope.spawn(move || {
                    let mut random = Random::new((seed << 8) | thread);
                    let mut ids: Vec<u64> = (0..IDS).collect();
                    shuffle(&mut ids, &mut random);
                    for chunk in ids.chunks(1 + random.below(3_000) as usize) {
                        let names: Vec<[u8; 8]> = chunk.iter().map(|id| id.to_le_bytes()).collect();
                        let mut verdicts = vec![Verdict::default(); chunk.len()];
                        store.check_batch(&names, &mut verdicts).unwrap();
                        let new = chunk.iter().zip(verdicts).filter(|(_, verdict)| verdict.is_first_seen());
                        new.for_each(|(id, _)| _ = firsts[*id as usize].fetch_add(1, Ordering::Relaxed));
                    }
                });
            }
        });
        let firsts: Vec<u64> = firsts.into_iter().map(AtomicU64::into_inner).collect();
        assert_counts(&firsts, 1);
    }
}
