//! Facts of stores that mean something else are refused before any is taken in.

use std::time::Duration;

use firstseen::{Error, Hash, ManualClock, Options, Secret, Store, Timestamp, Window};

use crate::{check_all, exported, import, options};

fn days(count: u64) -> Duration {
    Duration::from_secs(count * 86_400)
}

#[test]
fn store_with_another_secret_hash_window_or_tick_is_refused() {
    let windowed = |window| options().window(window);
    let cases: [(Options, Options, &str); 6] = [
        (options(), options().secret(Secret::from_bytes([9; 192])), "secret"),
        (options(), options().hash(Hash::Keyed), "hash"),
        (options(), windowed(Window::Fixed(days(1))), "window"),
        (windowed(Window::Fixed(days(1))), windowed(Window::Sliding(days(1))), "window"),
        (windowed(Window::Fixed(days(1))), windowed(Window::Fixed(days(30))), "window"),
        (windowed(Window::Fixed(days(1))), windowed(Window::Fixed(days(1))).ttl_max(days(30)), "window"),
    ];
    for (one, other, expected) in cases {
        let (one, other) = (Store::in_memory(one).unwrap(), Store::in_memory(other).unwrap());
        check_all(&one, 0..5);
        check_all(&other, 5..10);
        for (from, into) in [(&one, &other), (&other, &one)] {
            for error in [import(into, &exported(from)).unwrap_err(), into.merge(from).unwrap_err()] {
                assert!(matches!(error, Error::Mismatch { name, .. } if name == expected), "{error}");
            }
            assert_eq!(into.len(), 5);
        }
    }
}

#[test]
fn windows_that_end_too_far_in_the_future_are_refused() {
    let at = |ms| {
        let clock = ManualClock::new(Timestamp::from_millis(ms)).clock();
        Store::in_memory(options().window(Window::Fixed(days(1))).clock(clock)).unwrap()
    };
    let (from, into) = (at(1_700_000_000_000), at(0));
    check_all(&from, 0..5);
    let error = into.merge(&from).unwrap_err();
    assert!(matches!(error, Error::Option { name: "clock", .. }), "{error}");
    // The other way round all of it was over long ago.
    check_all(&into, 0..5);
    let imported = from.merge(&into).unwrap();
    assert_eq!((imported.facts, imported.changed), (5, 0));
}

#[test]
fn closed_store_neither_gives_nor_takes() {
    let store = Store::open_on(std::sync::Arc::new(firstseen::testing::SimDisk::new(1)), options()).unwrap();
    let other = Store::in_memory(options()).unwrap();
    let bytes = exported(&other);
    store.clone().close().unwrap();
    assert_eq!(store.export(&mut Vec::new()), Err(Error::Closed));
    assert_eq!(import(&store, &bytes).unwrap_err(), Error::Closed);
    assert_eq!(store.merge(&other).unwrap_err(), Error::Closed);
    assert_eq!(other.merge(&store).unwrap_err(), Error::Closed);
}
