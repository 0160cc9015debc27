//! Calls on the hot path allocate nothing: the allocator itself counts, for the calling thread alone.
//!
//! What the maintenance thread allocates meanwhile does not count, and neither does a thread's first call,
//! which registers the thread.

#![expect(unsafe_code, reason = "an allocator that counts has to be one, and its methods are unsafe")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;
use std::time::Duration;

use firstseen::{Claim, Fingerprint, Maintenance, ManualClock, Options, Store, Timestamp, Verdict, Window};

thread_local! {
    /// Allocations of this thread while it counts. Without a destructor, so that using it allocates nothing.
    static COUNT: Cell<Option<u64>> = const { Cell::new(None) };
}

fn count_one() {
    // A thread that is ending has no counter any more, and does not count.
    let _ = COUNT.try_with(|count| count.set(count.get().map(|allocations| allocations + 1)));
}

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: every method hands its arguments to the system's allocator and returns what that returns; counting
// touches a thread-local integer only.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count_one();
        // SAFETY: the caller keeps the contract of this method, which is that of the system's allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: as above; the memory came from the system's allocator.
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count_one();
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count_one();
        // SAFETY: as above; the memory came from the system's allocator.
        unsafe { System.realloc(place, layout, bytes) }
    }
}

/// How often `calls` allocate on this thread.
fn allocations(calls: impl FnOnce()) -> u64 {
    COUNT.set(Some(0));
    calls();
    COUNT.take().unwrap_or_default()
}

const BATCH: usize = 256;

fn store(options: Options) -> Store {
    Store::in_memory(options).expect("the options are good")
}

fn manual() -> Options {
    Options::new().maintenance(Maintenance::Manual).first_table_lines(256)
}

/// All kinds of checks and looks on IDs from `first` on: new ones, then the same once more.
fn calls(store: &Store, first: u64) {
    for id in (first..first + 100).chain(first..first + 100) {
        let _ = black_box(store.check(id.to_le_bytes()).expect("there is room"));
        black_box(store.contains(id.to_le_bytes()).expect("any ID may be asked for"));
    }
    let ids: [[u8; 8]; BATCH] = std::array::from_fn(|index| (first + 50 + index as u64).to_le_bytes());
    let mut verdicts = [Verdict::default(); BATCH];
    for _ in 0..2 {
        store.check_batch(&ids, &mut verdicts).expect("there is room");
    }
    let keys: [Fingerprint; BATCH] =
        ids.map(|id| store.fingerprint([id, [1; 8]].as_flattened()).expect("any ID has one"));
    for _ in 0..2 {
        store.check_fingerprints(&keys, &mut verdicts).expect("there is room");
    }
    assert!(verdicts.iter().all(|verdict| *verdict == Verdict::Duplicate));
}

#[test]
fn counter_counts_what_this_thread_allocates() {
    assert_eq!(allocations(|| drop(black_box(Box::new(5)))), 1);
    assert_eq!(allocations(|| drop(black_box(vec![0_u8; 100]))), 1);
    assert_eq!(allocations(|| _ = black_box(5)), 0);
    let elsewhere = || std::thread::scope(|scope| scope.spawn(|| drop(black_box(Box::new(5)))).join());
    let with_thread = allocations(|| elsewhere().expect("it does not panic"));
    let bare = allocations(|| std::thread::scope(|scope| scope.spawn(|| ()).join()).expect("nor does this"));
    assert_eq!(with_thread, bare);
}

#[test]
fn calls_on_a_single_table_allocate_nothing() {
    let store = store(Options::new());
    calls(&store, 0);
    assert_eq!(allocations(|| calls(&store, 10_000)), 0);
    assert_eq!(store.stats().tables, 1);
}

/// The view has an active table, a closing one, frozen ones with a filter and one without.
#[test]
fn calls_through_every_kind_of_table_allocate_nothing() {
    let store = store(manual());
    calls(&store, 0);
    while store.stats().tables < 3 || store.stats().tables_unfiltered > 0 {
        calls(&store, store.len() * 1_000);
        store.maintain().expect("there is memory");
    }
    let rotations = store.stats().rotations;
    let mut next = 1 << 40;
    while store.stats().rotations == rotations {
        calls(&store, next);
        next += 1_000;
        store.maintain().expect("there is memory");
    }
    let explained = store.explain("any").expect("any ID may be asked for");
    assert!(explained.tables.iter().any(|(role, _)| *role == "closing"), "{explained}");
    assert_eq!(allocations(|| calls(&store, 1 << 50)), 0);
    assert_eq!(allocations(|| calls(&store, 0)), 0);
}

#[test]
fn calls_in_windows_that_end_and_slide_allocate_nothing() {
    for window in [Window::Fixed(Duration::from_secs(1)), Window::Sliding(Duration::from_secs(1))] {
        let clock = ManualClock::new(Timestamp::from_millis(0));
        let options = manual().first_table_lines(1 << 12).window(window).clock(clock.clock());
        let store = store(options);
        calls(&store, 0);
        for _ in 0..3 {
            clock.advance(Duration::from_millis(500));
            assert_eq!(allocations(|| calls(&store, 0)), 0, "{window:?}");
            clock.advance(Duration::from_millis(1_000));
            assert_eq!(allocations(|| calls(&store, 0)), 0, "{window:?}");
        }
    }
}

#[test]
fn calls_on_leased_ids_allocate_nothing() {
    let clock = ManualClock::new(Timestamp::from_millis(0));
    let store = store(Options::new().clock(clock.clock()));
    let lease = store.claim("a", Duration::from_secs(1)).map(Claim::into_lease);
    let ask = |expected: Verdict| {
        let count = allocations(|| {
            let mut verdicts = [Verdict::default(); 2];
            store.check_batch(&["a", "b"], &mut verdicts).expect("there is room");
            assert_eq!(verdicts[0], expected);
        });
        assert_eq!(count, 0);
    };
    calls(&store, 0);
    ask(Verdict::InFlight);
    clock.advance(Duration::from_secs(1));
    ask(Verdict::FirstSeen);
    drop(lease);
}

/// Tables grow, filters are built and tables are merged, all on the maintenance thread.
#[test]
fn inserts_through_growth_allocate_nothing_on_their_thread() {
    const IDS: u64 = 600_000;
    let store = store(Options::new().first_table_lines(1 << 10));
    calls(&store, 1 << 50);
    let count = allocations(|| (0..IDS / 300).for_each(|round| calls(&store, round * 1_000)));
    assert_eq!(count, 0);
    let stats = store.stats();
    assert!(stats.rotations > 5 && stats.filter_bytes > 0, "{stats:?}");
}
