//! What a store remembers from one opening to the next, with windows and clocks.

use std::path::PathBuf;
use std::time::Duration;

use firstseen::{ManualClock, Options, Store, Timestamp, Verdict, Window};

const HOUR: Duration = Duration::from_secs(3_600);
const START: Timestamp = Timestamp::from_millis(1_700_000_000_000);

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("firstseen-reopen-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Ends a run of a store: closed, or dropped as a kill would leave it but for the last sync.
fn end(store: Store, is_closed: bool) {
    if is_closed {
        store.close().expect("the store can be closed");
    }
}

#[test]
fn secret_is_kept_in_the_store_and_differs_between_stores() {
    let (one, other) = (Scratch::new("secret-1"), Scratch::new("secret-2"));
    let store = Store::open(&one.0).unwrap();
    let fingerprint = store.fingerprint("an ID").unwrap();
    store.close().unwrap();
    assert_eq!(Store::open(&one.0).unwrap().fingerprint("an ID").unwrap(), fingerprint);
    assert_ne!(Store::open(&other.0).unwrap().fingerprint("an ID").unwrap(), fingerprint);
}

#[test]
fn copy_of_a_closed_store_gives_the_same_answers() {
    let (one, copy) = (Scratch::new("copied"), Scratch::new("copy"));
    let store = Store::open(&one.0).unwrap();
    for id in 0..1000_u32 {
        assert_eq!(store.check(id.to_le_bytes()).unwrap(), Verdict::FirstSeen);
    }
    store.snapshot(&copy.0).unwrap();
    let copy = Store::open(&copy.0).unwrap();
    for id in 0..1000_u32 {
        assert_eq!(copy.check(id.to_le_bytes()).unwrap(), Verdict::Duplicate);
    }
    assert_eq!(copy.check("another").unwrap(), Verdict::FirstSeen);
}

#[test]
fn window_that_ends_while_the_store_is_closed_is_over() {
    for is_closed in [true, false] {
        for (later, expected) in [(HOUR / 2, Verdict::Duplicate), (2 * HOUR, Verdict::FirstSeen)] {
            let dir = Scratch::new("expiry");
            let clock = ManualClock::new(START);
            let options = Options::new().window(Window::Fixed(HOUR)).clock(clock.clock());
            let store = Store::open_with(&dir.0, options.clone()).unwrap();
            assert_eq!(store.check("a").unwrap(), Verdict::FirstSeen);
            end(store, is_closed);
            clock.advance(later);
            let store = Store::open_with(&dir.0, options).unwrap();
            assert_eq!(store.check("a").unwrap(), expected, "closed {is_closed}, {later:?} later");
        }
    }
}

#[test]
fn window_ends_at_the_same_moment_after_reopening() {
    for is_closed in [true, false] {
        let dir = Scratch::new("edge");
        let clock = ManualClock::new(START);
        let length = Duration::from_secs(10);
        let options = Options::new().window(Window::Fixed(length)).clock(clock.clock());
        let store = Store::open_with(&dir.0, options.clone()).unwrap();
        assert_eq!(store.check("a").unwrap(), Verdict::FirstSeen);
        end(store, is_closed);
        clock.advance(length - Duration::from_millis(1));
        let store = Store::open_with(&dir.0, options).unwrap();
        assert!(store.contains("a").unwrap());
        assert_eq!(store.check("a").unwrap(), Verdict::Duplicate);
        clock.advance(Duration::from_millis(1));
        assert!(!store.contains("a").unwrap());
        assert_eq!(store.check("a").unwrap(), Verdict::FirstSeen);
    }
}

#[test]
fn sliding_window_slides_across_openings() {
    let dir = Scratch::new("sliding");
    let clock = ManualClock::new(START);
    let options = Options::new().window(Window::Sliding(HOUR)).clock(clock.clock());
    for round in 0..4 {
        let store = Store::open_with(&dir.0, options.clone()).unwrap();
        assert_eq!(store.window(), Window::Sliding(HOUR));
        let expected = if round == 0 { Verdict::FirstSeen } else { Verdict::Duplicate };
        assert_eq!(store.check("a").unwrap(), expected, "{round}");
        end(store, round % 2 == 0);
        clock.advance(HOUR / 4 * 3);
    }
    clock.advance(HOUR);
    let store = Store::open_with(&dir.0, options).unwrap();
    assert_eq!(store.check("a").unwrap(), Verdict::FirstSeen);
}

/// A wall clock that was set back between two runs must not make windows longer than they are, nor shorter.
#[test]
fn clock_set_back_between_runs_ends_no_window_early() {
    let dir = Scratch::new("set-back");
    let options =
        |now: Timestamp| Options::new().window(Window::Fixed(HOUR)).clock(ManualClock::new(now).clock());
    let store = Store::open_with(&dir.0, options(START.saturating_add(HOUR))).unwrap();
    assert_eq!(store.check("a").unwrap(), Verdict::FirstSeen);
    store.close().unwrap();
    let store = Store::open_with(&dir.0, options(START)).unwrap();
    assert_eq!(store.check("a").unwrap(), Verdict::Duplicate);
}

#[test]
fn store_is_there_only_where_one_was_made() {
    let dir = Scratch::new("exists");
    assert!(!Store::exists(&dir.0).unwrap());
    std::fs::create_dir(&dir.0).unwrap();
    assert!(!Store::exists(&dir.0).unwrap());
    drop(Store::open(&dir.0).unwrap());
    assert!(Store::exists(&dir.0).unwrap());
}
