//! A log of seven days, replayed by the times that stand in it.

use std::collections::HashMap;

use firstseen::{Maintenance, ManualClock, Options, Timestamp, Verdict, Window};

use crate::random::Random;

use super::{hours, ms, name, rests_within, store};

const START_MS: u64 = 1_600_000_000_000;
const DAYS: u64 = 7;
const EVENTS: u64 = 400_000;
const WINDOW_MS: u64 = 3_600_000;

/// An event: which ID, and when.
type Event = (u64, u64);

/// Half of the IDs come back after a while, some soon and some days later; some events are late.
fn log(random: &mut Random) -> Vec<Event> {
    let step_ms = DAYS * 24 * WINDOW_MS / EVENTS;
    let mut ids: Vec<u64> = Vec::new();
    (0..EVENTS)
        .map(|number| {
            let late_ms = if random.below(20) == 0 { random.below(120_000) } else { 0 };
            let at_ms = (START_MS + number * step_ms).saturating_sub(late_ms);
            let back = 1 << random.below(18);
            let id = match ids.len().checked_sub(1 + random.below(back) as usize) {
                Some(index) if random.below(2) == 0 => ids[index],
                _ => number,
            };
            ids.push(id);
            (id, at_ms)
        })
        .collect()
}

/// What a map from ID to the end of its window says, with time that does not go back.
fn expected(log: &[Event], slides: bool) -> Vec<Verdict> {
    let mut ends: HashMap<u64, u64> = HashMap::new();
    let mut now_ms = 0;
    let mut verdict = |(id, at_ms): &Event| {
        now_ms = now_ms.max(*at_ms);
        let end = ends.entry(*id).or_default();
        let is_over = *end <= now_ms;
        if is_over || slides {
            *end = now_ms + WINDOW_MS;
        }
        if is_over { Verdict::FirstSeen } else { Verdict::Duplicate }
    };
    log.iter().map(&mut verdict).collect()
}

/// The days are over in a moment and the clock stands still: only the events tell the time.
#[test]
fn seven_days_replayed_by_event_time_equal_the_model() {
    let log = log(&mut Random::new(15));
    for window in [Window::Fixed(ms(WINDOW_MS)), Window::Sliding(ms(WINDOW_MS))] {
        let expected = expected(&log, matches!(window, Window::Sliding(_)));
        let firsts = expected.iter().filter(|verdict| verdict.is_first_seen()).count();
        assert!(firsts > log.len() / 4 && firsts < log.len(), "a log that shows something: {firsts} firsts");
        for maintenance in [Maintenance::Thread, Maintenance::Manual] {
            let clock = ManualClock::new(Timestamp::from_millis(START_MS - 3_600_000));
            let options = Options::new().window(window).clock(clock.clock()).maintenance(maintenance);
            let store = store(options.first_table_lines(16));
            for (index, ((id, at_ms), expected)) in log.iter().zip(&expected).enumerate() {
                let given = store.check_at(name(*id), Timestamp::from_millis(*at_ms)).unwrap();
                assert_eq!(given, *expected, "{window:?}, {maintenance:?}: event {index} at {at_ms} ms");
                if index % 16 == 0 && maintenance == Maintenance::Manual {
                    store.maintain().unwrap();
                }
            }
            let stats = store.stats();
            let is_quarter_hourly = stats.rotations > DAYS * 24 * 4 / 2;
            assert!(maintenance == Maintenance::Thread || is_quarter_hourly, "{stats:?}");
            clock.set(Timestamp::from_millis(START_MS).saturating_add(hours(24 * DAYS + 2)));
            assert!(maintenance == Maintenance::Thread || rests_within(&store, 1_000) && store.is_empty());
        }
    }
}
