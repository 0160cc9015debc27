//! Memory of stores with a window through which IDs come at an even pace, or in bursts.

use std::io::Write;

use firstseen::{Maintenance, ManualClock, Options, Stats, Store, Verdict, Window};

use super::{batch, name, rests_within, secs, store_with_clock};

/// IDs that come in one window.
const LIVE: u64 = 400_000;

/// Steps of the clock in one window.
const STEPS: u64 = 40;

const WINDOWS: u64 = 8;

/// What the memory of a store came to.
struct Measured {
    /// Bytes for each live ID at most, once every table was made at the present pace.
    bytes_per_id_max: u64,
    stats: Stats,
}

/// Lets `LIVE` IDs a window come, in each step as many as `share` says (of as many as there are steps).
fn stream(window: Window, options: Options, share: impl Fn(u64) -> u64) -> Measured {
    let (store, clock) = store_with_clock(window, options.maintenance(Maintenance::Manual));
    let (mut next, mut bytes_max) = (0, 0);
    for step in 0..WINDOWS * STEPS {
        let count = LIVE / STEPS * share(step % STEPS);
        insert(&store, next..next + count);
        next += count;
        if step >= WINDOWS / 2 * STEPS {
            bytes_max = bytes_max.max(store.stats().memory_bytes);
        }
        go_on(&store, &clock);
    }
    Measured { bytes_per_id_max: bytes_max / LIVE, stats: store.stats() }
}

/// Inserts IDs a thousand at a time, with the maintenance that a thread would have done meanwhile.
fn insert(store: &Store, ids: std::ops::Range<u64>) {
    for first in ids.clone().step_by(1_000) {
        let names: Vec<[u8; 8]> = (first..ids.end.min(first + 1_000)).map(name).collect();
        assert!(batch(store, &names).iter().all(|verdict| *verdict == Verdict::FirstSeen), "from {first}");
        assert!(rests_within(store, 1_000));
    }
}

fn go_on(store: &Store, clock: &ManualClock) {
    clock.advance(secs(10));
    assert!(rests_within(store, 1_000));
}

fn windows() -> [Window; 2] {
    let length = secs(10 * STEPS);
    [Window::Fixed(length), Window::Sliding(length)]
}

/// The table that is made ahead of need had room for all IDs of a window: 165 bytes for each of them.
#[test]
fn steady_stream_takes_about_sixty_bytes_a_live_id() {
    for window in windows() {
        for options in [Options::new(), Options::new().expect(LIVE / 4 * 5)] {
            let measured = stream(window, options, |_| 1);
            report(window, &measured);
            assert!(measured.bytes_per_id_max <= 65, "{window:?}: {}", measured.bytes_per_id_max);
            assert_eq!(measured.stats.stalls, 0);
            assert!(measured.stats.ids >= LIVE, "{:?}", measured.stats);
        }
    }
}

/// All IDs of a quarter at once look like a rate that would fill the store many times over.
#[test]
fn stream_in_bursts_takes_little_more() {
    for window in windows() {
        let burst = |step: u64| if step.is_multiple_of(STEPS / 4) { STEPS / 4 } else { 0 };
        let measured = stream(window, Options::new(), burst);
        report(window, &measured);
        assert!(measured.bytes_per_id_max <= 120, "{window:?}: {}", measured.bytes_per_id_max);
        assert!(measured.stats.ids >= LIVE / 4 * 3, "{:?}", measured.stats);
    }
}

fn report(window: Window, measured: &Measured) {
    let line = format!("{window:?}: {} bytes a live ID at most", measured.bytes_per_id_max);
    let mut out = std::io::stderr();
    writeln!(out, "{line}").unwrap();
}
