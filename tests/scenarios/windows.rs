//! How long an ID stays seen, to the millisecond.

use std::time::{Duration, Instant};

use firstseen::Verdict::{Duplicate, FirstSeen};
use firstseen::{Error, Maintenance, ManualClock, Options, Timestamp, Verdict, Window};

use super::{check, hours, ms, name, rests_within, secs, store, store_with_clock, wait_for};

fn manual() -> Options {
    Options::new().maintenance(Maintenance::Manual)
}

#[test]
fn fixed_window_ends_and_sliding_window_goes_on() {
    let cases = [
        (Window::Fixed(secs(120)), [FirstSeen, Duplicate, FirstSeen, Duplicate]),
        (Window::Sliding(secs(120)), [FirstSeen, Duplicate, Duplicate, Duplicate]),
    ];
    for (window, expected) in cases {
        let (store, clock) = store_with_clock(window, Options::new());
        let verdicts = [0, 60, 60, 60].map(|seconds| {
            clock.advance(secs(seconds));
            check(&store, "a")
        });
        assert_eq!(verdicts, expected, "{window:?}");
    }
}

#[test]
fn window_is_open_before_its_last_millisecond_and_over_after_it() {
    for window in [Window::Fixed(secs(10)), Window::Sliding(secs(10))] {
        let (store, clock) = store_with_clock(window, Options::new());
        let begun = clock.now();
        assert_eq!(check(&store, "looked at"), FirstSeen);
        assert_eq!(check(&store, "checked"), FirstSeen);
        clock.set(begun.saturating_add(ms(9_999)));
        assert!(store.contains("looked at").unwrap(), "a look does not slide the window");
        clock.set(begun.saturating_add(ms(10_000)));
        assert!(!store.contains("looked at").unwrap());
        assert_eq!(check(&store, "looked at"), FirstSeen);
    }
}

/// A claim that was told `Duplicate` left the window as it was, so a delivery that came again every minute
/// was done again after two.
#[test]
fn claim_told_duplicate_slides_a_sliding_window_too() {
    for (window, expected) in [(Window::Fixed(secs(10)), FirstSeen), (Window::Sliding(secs(10)), Duplicate)] {
        let (store, clock) = store_with_clock(window, Options::new());
        assert_eq!(check(&store, "a"), FirstSeen);
        clock.advance(secs(9));
        assert!(matches!(store.claim("a", secs(1)).unwrap(), firstseen::Claim::Duplicate));
        clock.advance(secs(9));
        assert_eq!(check(&store, "a"), expected, "{window:?}");
    }
}

#[test]
fn duplicate_in_the_last_millisecond_slides_a_sliding_window_only() {
    for (window, expected) in [(Window::Fixed(secs(10)), FirstSeen), (Window::Sliding(secs(10)), Duplicate)] {
        let (store, clock) = store_with_clock(window, Options::new());
        assert_eq!(check(&store, "a"), FirstSeen);
        clock.advance(ms(9_999));
        assert_eq!(check(&store, "a"), Duplicate);
        clock.advance(ms(1));
        assert_eq!(check(&store, "a"), expected, "{window:?}");
    }
}

/// The thread does it all: no call, no read.
#[test]
fn expiry_without_traffic_empties_the_store() {
    let store = store(Options::new().window(Window::Fixed(secs(1))));
    assert_eq!(check(&store, "a"), FirstSeen);
    assert_eq!(store.len(), 1);
    let stats = wait_for(&store, |stats| stats.ids == 0);
    assert_eq!((stats.tables, stats.tables_expired), (1, 1), "{stats:?}");
    assert!(store.is_empty());
    assert_eq!(check(&store, "a"), FirstSeen);
}

#[test]
fn expiry_by_hand_empties_the_store() {
    let (store, clock) = store_with_clock(Window::Fixed(secs(1)), manual());
    assert_eq!(check(&store, "a"), FirstSeen);
    clock.advance(secs(2));
    assert_eq!(store.len(), 1, "nobody did anything yet");
    assert!(rests_within(&store, 20));
    let stats = store.stats();
    assert_eq!((stats.ids, stats.tables, stats.tables_expired), (0, 1, 1), "{stats:?}");
    assert_eq!(check(&store, "a"), FirstSeen);
}

/// A call that records nothing asked for a rotation of the empty table, and the frozen table counted as one
/// ID.
#[test]
fn store_that_holds_nothing_has_length_zero_at_every_step() {
    let (store, clock) = store_with_clock(Window::Fixed(ms(1)), manual());
    clock.advance(secs(1));
    assert!(!store.forget("a").unwrap());
    for step in 0..10 {
        assert_eq!(store.len(), 0, "step {step}");
        store.maintain().unwrap();
    }
}

/// What a restart would do to the clock, done to a store that stays.
#[test]
fn clock_that_has_moved_on_by_hours_ends_windows_of_one_hour() {
    for (moved, expected) in [(secs(1_800), Duplicate), (hours(2), FirstSeen), (hours(24 * 365), FirstSeen)] {
        let (store, clock) = store_with_clock(Window::Fixed(hours(1)), Options::new());
        assert_eq!(check(&store, "a"), FirstSeen);
        clock.advance(moved);
        assert_eq!(check(&store, "a"), expected, "{moved:?}");
        assert_eq!(check(&store, "a"), Duplicate);
    }
}

#[test]
fn clock_set_back_lengthens_windows_and_never_shortens_them() {
    let (store, clock) = store_with_clock(Window::Fixed(secs(10)), Options::new());
    let begun = clock.now();
    assert_eq!(check(&store, "a"), FirstSeen);
    clock.set(Timestamp::from_millis(5));
    assert_eq!(check(&store, "b"), FirstSeen, "counts as seen at the latest time known");
    clock.set(begun.saturating_add(ms(9_999)));
    assert_eq!((check(&store, "a"), check(&store, "b")), (Duplicate, Duplicate));
    clock.set(begun.saturating_add(ms(10_000)));
    assert_eq!((check(&store, "a"), check(&store, "b")), (FirstSeen, FirstSeen));
}

#[test]
fn time_to_live_of_one_id_replaces_the_window() {
    let options = Options::new().ttl_max(secs(100));
    let (store, clock) = store_with_clock(Window::Fixed(secs(10)), options);
    for (id, ttl) in [("short", 1), ("long", 100)] {
        assert_eq!(store.check_with(id, secs(ttl)), Ok(FirstSeen));
    }
    assert_eq!(check(&store, "usual"), FirstSeen);
    for (seconds, seen) in [(1, [false, true, true]), (9, [false, false, true]), (90, [false; 3])] {
        clock.advance(secs(seconds));
        let given = ["short", "usual", "long"].map(|id| store.contains(id).unwrap());
        assert_eq!(given, seen, "after {seconds} more seconds");
    }
    let refused = store.check_with("too long", ms(100_001));
    assert_eq!(refused, Err(Error::TimeToLive { asked_ms: 100_001, longest_ms: 100_000 }));
}

#[test]
fn forgotten_id_that_comes_back_is_seen_until_its_old_end_at_least() {
    let options = Options::new().ttl_max(secs(100));
    let (store, clock) = store_with_clock(Window::Fixed(secs(10)), options);
    assert_eq!(store.check_with("a", secs(100)), Ok(FirstSeen));
    assert!(store.forget("a").unwrap());
    assert_eq!(check(&store, "a"), FirstSeen);
    clock.advance(ms(100_000));
    assert_eq!(check(&store, "a"), Duplicate, "one tick longer than before");
    clock.advance(ms(1));
    assert_eq!(check(&store, "a"), FirstSeen);
}

/// On the system's clock an ID was seen at 5.9 ms, which reads 5 ms, and its window of 2 ms was over at 7.0
/// ms already: a reading is rounded down, and nothing made up for it.
#[test]
fn window_on_the_system_clock_never_ends_early() {
    const WINDOW: Duration = ms(2);
    let store = store(Options::new().window(Window::Fixed(WINDOW)));
    for id in 0..200 {
        let begun = Instant::now();
        assert_eq!(check(&store, name(id)), FirstSeen);
        while check(&store, name(id)) == Duplicate {}
        let passed = begun.elapsed();
        assert!(passed >= WINDOW, "ID {id} was new again after {passed:?}");
    }
}

/// A caller brought a time from a damaged record, and the sum with the window ran over.
#[test]
fn times_up_to_the_last_one_are_answered_and_never_end_early() {
    let year_9999_ms = 253_402_300_799_999;
    for now_ms in
        [0, i32::MAX as u64 * 1000, u64::from(u32::MAX) * 1000, year_9999_ms, u64::MAX - 1, u64::MAX]
    {
        let now = Timestamp::from_millis(now_ms);
        let clock = ManualClock::new(Timestamp::from_millis(0));
        let options = manual().window(Window::Fixed(hours(1))).clock(clock.clock());
        let store = store(options);
        assert_eq!(store.check_at("before", Timestamp::from_millis(0)), Ok(FirstSeen));
        assert_eq!(store.check_at("a", now), Ok(FirstSeen), "{now:?}");
        assert_eq!(store.check_at("a", now), Ok(Duplicate), "{now:?}");
        assert_eq!(store.contains("a"), Ok(true), "{now:?}");
        assert!(rests_within(&store, 100));
        assert_eq!(store.check_at("a", now), Ok(Duplicate), "{now:?}");
    }
}

/// Windows of months are counted in longer ticks; a year later everything is over.
#[test]
fn long_windows_end_late_by_less_than_a_tick() {
    for days in [1, 3, 30, 400, 12_000] {
        let length = hours(24 * days);
        let (store, clock) = store_with_clock(Window::Fixed(length), manual());
        let tick = ms(store.stats().tick_ms);
        assert_eq!(check(&store, "a"), FirstSeen);
        clock.advance(length - ms(1));
        assert_eq!(check(&store, "a"), Duplicate, "{days} days, tick {tick:?}");
        clock.advance(tick);
        assert_eq!(check(&store, "a"), FirstSeen, "{days} days, tick {tick:?}");
    }
}

/// Seventeen frozen tables and more, each twice the size of the one before, are merged although each has a
/// window.
#[test]
fn tables_merged_within_a_window_keep_every_deadline() {
    const COUNT: u64 = 300_000;
    let options = manual().ttl_max(hours(10)).first_table_lines(1);
    let (store, clock) = store_with_clock(Window::Fixed(hours(1)), options);
    let ttl = |id: u64| hours(1 + id % 10);
    for id in 0..COUNT {
        assert_eq!(store.check_with(name(id), ttl(id)), Ok(FirstSeen));
        if id % 7 == 0 {
            assert_eq!(store.forget(name(id)), Ok(true));
        }
        if id % 64 == 0 {
            store.maintain().unwrap();
        }
    }
    assert!(rests_within(&store, 10_000));
    let stats = store.stats();
    assert!(stats.merges > 0 && stats.tables <= 18, "{stats:?}");
    for hour in 0..=10 {
        let wrong = (0..COUNT).find(|id| {
            let is_seen = id % 7 != 0 && ttl(*id) > hours(hour);
            store.contains(name(*id)) != Ok(is_seen)
        });
        assert_eq!(wrong, None, "after {hour} hours");
        clock.advance(hours(1));
        assert!(rests_within(&store, 10_000));
    }
    assert_eq!(store.len(), 0);
    assert_eq!(store.check(name(1)), Ok(Verdict::FirstSeen));
}

/// Forgotten IDs lie in two new tables of one fact each, which are merged with each other and not with the
/// old table in which the IDs are seen: what was forgotten has to go on hiding it.
#[test]
fn forgotten_ids_stay_forgotten_when_new_tables_are_merged() {
    const COUNT: u64 = 100_000;
    let (store, clock) = store_with_clock(Window::Fixed(hours(4)), manual().first_table_lines(1));
    for id in 0..COUNT {
        assert_eq!(check(&store, name(id)), FirstSeen);
        if id % 64 == 0 {
            assert!(rests_within(&store, 1_000));
        }
    }
    let mut merges_of_two = 0;
    for round in 0..3 {
        clock.advance(hours(1));
        let merges = store.stats().merges;
        assert_eq!(store.forget(name(round)), Ok(true));
        assert!(rests_within(&store, 1_000));
        merges_of_two += u64::from(store.stats().merges > merges);
        let wrong = (0..COUNT).find(|id| store.contains(name(*id)) != Ok(*id > round));
        assert_eq!(wrong, None, "round {round}: {:?}", store.stats());
    }
    assert!(merges_of_two > 1, "{:?}", store.stats());
}

/// With many tables behind it a batch peeks into the active one before it asks their filters. What is there
/// and what is not, what was forgotten, and what comes twice in one batch is answered as one by one.
#[test]
fn batch_over_many_tables_answers_as_single_checks_do() {
    let window = Window::Fixed(secs(1000));
    let pair = [store_with_clock(window, manual()), store_with_clock(window, manual())];
    let in_batches = |ids: &[String]| ids.chunks(100).flat_map(|ids| super::batch(&pair[0].0, ids)).collect();
    let (mut next, mut tables_max) = (0, 0);
    for round in 0..40_u64 {
        // A third new, a third from this round or the one before, a third from any time.
        let ids: Vec<String> = (0..600_u64)
            .map(|index| match index % 3 {
                0 => {
                    next += 1;
                    next
                }
                1 => next - next.min(index * 7 % 300),
                _ => index.wrapping_mul(0x9e37_79b9) % (next + 1),
            })
            .map(|id| format!("id {id}"))
            .collect();
        let batched: Vec<Verdict> = in_batches(&ids);
        for (id, verdict) in ids.iter().zip(batched) {
            assert_eq!(check(&pair[1].0, id), verdict, "{id} in round {round}");
        }
        for (store, clock) in &pair {
            assert!(store.forget(format!("id {}", next - 1)).unwrap());
            clock.advance(secs(130));
            assert!(rests_within(store, 100_000));
            tables_max = tables_max.max(store.stats().tables);
        }
    }
    assert!(tables_max >= 5, "{tables_max} tables");
}
