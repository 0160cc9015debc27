//! Every option taken to an extreme: something changes that can be seen, or the value is refused by its name.

use std::time::Duration;

use firstseen::{
    Error, Hash, Maintenance, ManualClock, Options, Secret, Store, Timestamp, Verdict, WhenFull, Window,
};

use crate::random::Random;

use super::{check, hours, ms, name, rests_within, secs, store, store_with_clock};

/// The option that is named in the refusal.
fn refused(options: Options) -> &'static str {
    match Store::in_memory(options) {
        Err(Error::Option { name, reason }) => {
            assert!(!reason.is_empty());
            name
        }
        other => panic!("not refused: {other:?}"),
    }
}

const LONGEST: Duration = ms(1 << 40);

#[test]
fn window_out_of_range_is_refused_and_its_ends_are_taken() {
    for length in [Duration::ZERO, Duration::from_micros(999), LONGEST + ms(1), Duration::MAX] {
        assert_eq!(refused(Options::new().window(Window::Fixed(length))), "window");
        assert_eq!(refused(Options::new().window(Window::Sliding(length))), "window");
    }
    let (shortest, clock) = store_with_clock(Window::Fixed(ms(1)), Options::new());
    assert_eq!(check(&shortest, "a"), Verdict::FirstSeen);
    assert_eq!(check(&shortest, "a"), Verdict::Duplicate);
    clock.advance(ms(1));
    assert_eq!(check(&shortest, "a"), Verdict::FirstSeen);
    let (longest, clock) = store_with_clock(Window::Fixed(LONGEST), Options::new());
    assert_eq!(check(&longest, "a"), Verdict::FirstSeen);
    clock.advance(LONGEST - ms(1));
    assert_eq!(check(&longest, "a"), Verdict::Duplicate);
    assert!(longest.stats().tick_ms > 1_000);
    clock.advance(ms(longest.stats().tick_ms));
    assert_eq!(check(&longest, "a"), Verdict::FirstSeen);
}

#[test]
fn window_forever_never_ends_and_takes_no_time_to_live() {
    let (store, clock) = store_with_clock(Window::Forever, Options::new());
    assert_eq!(check(&store, "a"), Verdict::FirstSeen);
    clock.advance(hours(24 * 365 * 1_000));
    assert_eq!(check(&store, "a"), Verdict::Duplicate);
    assert_eq!(store.stats().tick_ms, 0);
    let refused = store.check_with("b", secs(1));
    assert_eq!(refused, Err(Error::TimeToLive { asked_ms: 1_000, longest_ms: 0 }));
    assert!(!store.contains("b").unwrap());
}

#[test]
fn ttl_max_without_a_window_or_below_it_is_refused() {
    assert_eq!(refused(Options::new().ttl_max(secs(1))), "ttl_max");
    let window = Options::new().window(Window::Fixed(secs(10)));
    for ttl in [Duration::ZERO, ms(9_999), LONGEST + ms(1), Duration::MAX] {
        assert_eq!(refused(window.clone().ttl_max(ttl)), "ttl_max");
    }
    let without = store(window.clone());
    let longest = Err(Error::TimeToLive { asked_ms: 10_001, longest_ms: 10_000 });
    assert_eq!(without.check_with("a", ms(10_001)), longest);
    let with = store(window.ttl_max(LONGEST));
    assert_eq!(with.check_with("a", LONGEST), Ok(Verdict::FirstSeen));
    assert!(with.stats().tick_ms > without.stats().tick_ms, "long windows are counted in long ticks");
}

#[test]
fn expected_ids_fit_into_the_first_table() {
    const IDS: u64 = 1_000_000;
    let expecting = store(Options::new().expect(IDS));
    let usual = store(Options::new());
    assert!(expecting.stats().table_bytes > 8 * usual.stats().table_bytes);
    for store in [&expecting, &usual] {
        assert!((0..IDS).all(|id| check(store, name(id)).is_first_seen()));
    }
    assert_eq!(expecting.stats().rotations, 0);
    assert!(usual.stats().rotations > 0);
    assert_eq!(refused(Options::new().expect(u64::MAX)), "expect");
    assert_eq!(refused(Options::new().expect(IDS).memory_budget(1 << 20)), "expect");
}

#[test]
fn memory_budget_below_the_least_is_refused_and_the_largest_taken() {
    for bytes in [0, 1, (1 << 20) - 1] {
        assert_eq!(refused(Options::new().memory_budget(bytes)), "memory_budget");
    }
    for bytes in [1 << 20, u64::MAX] {
        let store = store(Options::new().memory_budget(bytes));
        assert_eq!(store.stats().memory_budget, bytes);
        let is_full = (0..100_000).any(|id| store.check(name(id)).is_err());
        assert_eq!(is_full, bytes == 1 << 20);
    }
}

#[test]
fn when_full_decides_between_an_error_and_forgetting() {
    for (policy, forgets) in [(WhenFull::Error, false), (WhenFull::ForgetOldest, true)] {
        let store = store(Options::new().memory_budget(1 << 20).when_full(policy));
        let is_refused = (0..100_000).any(|id| store.check(name(id)).is_err());
        assert_eq!((is_refused, store.stats().ids_dropped > 0), (!forgets, forgets), "{policy:?}");
    }
}

#[test]
fn hash_and_secret_decide_the_fingerprint() {
    let key = |hash, seed| {
        let mut random = Random::new(seed);
        let secret = Secret::from_bytes(std::array::from_fn(|_| random.next() as u8));
        store(Options::new().hash(hash).secret(secret)).fingerprint("sixteen bytes...").unwrap()
    };
    let hashes = [Hash::Xxh3, Hash::Keyed, Hash::Exact];
    for hash in hashes {
        assert_eq!(key(hash, 1), key(hash, 1));
        assert_ne!(key(hash, 1), key(hash, 2), "{hash:?} uses the secret");
    }
    assert_ne!(key(hashes[0], 1), key(hashes[1], 1));
    assert_ne!(key(hashes[0], 1), key(hashes[2], 1));
    assert_ne!(key(hashes[1], 1), key(hashes[2], 1));
}

#[test]
fn clock_of_the_options_tells_the_time() {
    let clock = ManualClock::new(Timestamp::from_millis(0));
    let options = Options::new().window(Window::Fixed(secs(1)));
    let by_hand = store(options.clone().clock(clock.clock()));
    let by_system = store(options.window(Window::Fixed(hours(1))));
    assert!([&by_hand, &by_system].into_iter().all(|store| check(store, "a").is_first_seen()));
    clock.advance(secs(1));
    assert_eq!((check(&by_hand, "a"), check(&by_system, "a")), (Verdict::FirstSeen, Verdict::Duplicate));
}

#[test]
fn maintenance_by_hand_does_nothing_by_itself() {
    let window = Window::Fixed(secs(1));
    let (by_hand, clock) = store_with_clock(window, Options::new().maintenance(Maintenance::Manual));
    assert_eq!(check(&by_hand, "a"), Verdict::FirstSeen);
    clock.advance(secs(10));
    std::thread::sleep(ms(300));
    assert_eq!((by_hand.len(), by_hand.stats().rotations), (1, 0));
    assert!(rests_within(&by_hand, 20));
    assert_eq!((by_hand.len(), by_hand.stats().rotations), (0, 1));
    let (by_thread, clock) = store_with_clock(window, Options::new().maintenance(Maintenance::Thread));
    assert_eq!(check(&by_thread, "a"), Verdict::FirstSeen);
    clock.advance(secs(10));
    super::wait_for(&by_thread, |stats| stats.ids == 0);
}

/// What callers need is done by themselves: the table grows without a step of maintenance.
#[test]
fn maintenance_by_hand_that_never_comes_loses_nothing() {
    const IDS: u64 = 400_000;
    let store = store(Options::new().maintenance(Maintenance::Manual).first_table_lines(1));
    assert!((0..IDS).all(|id| check(&store, name(id)).is_first_seen()));
    assert!((0..IDS).all(|id| check(&store, name(id)).is_duplicate()));
    let stats = store.stats();
    assert!(stats.rotations > 10 && stats.tables < 15, "{stats:?}");
}

#[test]
fn leases_max_limits_the_leases() {
    assert_eq!(refused(Options::new().leases_max(0)), "leases_max");
    for (leases_max, granted) in [(1, 1), (7, 7), (usize::MAX, 100)] {
        let store = store(Options::new().leases_max(leases_max));
        let claims: Vec<_> = (0..100).filter_map(|id| store.claim(name(id), secs(9)).ok()).collect();
        assert_eq!((claims.len(), store.stats().leases), (granted, granted as u64));
    }
}
