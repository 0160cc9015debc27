//! Where all time comes from: milliseconds since the Unix epoch, from the system or set by hand.
//!
//! # The system clock
//!
//! The wall clock is read once, when a [`Clock`] is made. From then on time is that anchor plus what a
//! steady clock has counted since, so a wall clock that is set forward, set back or frozen while the
//! program runs changes nothing, and readings never go back. On Linux the steady clock is `CLOCK_BOOTTIME`,
//! which goes on while the machine is suspended; elsewhere it is [`std::time::Instant`], which on some
//! systems stands still then.
//!
//! Across restarts the wall clock is all there is. Whoever keeps the latest time that a store has seen
//! passes it to [`Clock::system_from`]: the new clock starts no earlier, so a wall clock that was set back
//! between two runs makes windows end late and never early (G5).
//!
//! # What was measured
//!
//! On the reference machine one reading takes two thirds of the time of one look-up in a batch, though it is
//! served without entering the kernel; so a batch reads the clock once. `CLOCK_MONOTONIC_COARSE` takes a
//! seventh of that, and was not taken: it advances in steps of up to 4 ms, and it stands still while the
//! machine is suspended, so a window would end late by all of that time. The kernel has no coarse clock that
//! goes on.
//!
//! # Atomics
//!
//! One, in [`ManualClock`]; it synchronises nothing. Time is a number of its own: no other memory is
//! published by moving it, and whoever learned by other means that it was moved sees the moved value.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::sync::{Arc, AtomicU64, Ordering};

/// A point in time: whole milliseconds since the Unix epoch, from 1970 on for half a billion years.
///
/// Arithmetic saturates: what would be before 1970 is 1970, what would be past the last value is the last
/// value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// Takes milliseconds since the Unix epoch.
    #[inline]
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// Milliseconds since the Unix epoch.
    #[inline]
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// This time plus `length`, which is rounded up to whole milliseconds: what is to end then ends late,
    /// not early.
    #[inline]
    #[must_use]
    pub fn saturating_add(self, length: Duration) -> Self {
        Self(self.0.saturating_add(millis_up(length)))
    }

    /// How long after `earlier` this time is; zero if it is not after it.
    #[inline]
    #[must_use]
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

impl From<SystemTime> for Timestamp {
    /// Rounds down to the millisecond; a time before 1970 becomes 1970.
    fn from(time: SystemTime) -> Self {
        Self(millis_down(time.duration_since(UNIX_EPOCH).unwrap_or_default()))
    }
}

/// Whole milliseconds in `length`, a part of one counted as none.
fn millis_down(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}

/// Whole milliseconds in `length`, a part of one counted as one.
#[inline]
fn millis_up(length: Duration) -> u64 {
    let has_part = !length.subsec_nanos().is_multiple_of(1_000_000);
    millis_down(length).saturating_add(u64::from(has_part))
}

/// Tells the time: the system's, or one that is moved by hand.
///
/// Clones are cheap and tell the same time. It may be read from any number of threads; a reading by the
/// system clock is never before an earlier one, also not across threads.
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    System { anchor: Timestamp, anchored: Steady },
    Manual(Arc<AtomicU64>),
}

impl Clock {
    /// The system's time, anchored to the wall clock now.
    #[must_use]
    pub fn system() -> Self {
        Self::system_from(Timestamp::default())
    }

    /// The system's time, anchored to the wall clock now, but starting no earlier than `high_water`.
    ///
    /// `high_water` is the latest time that is known to have been told in an earlier run.
    #[must_use]
    pub fn system_from(high_water: Timestamp) -> Self {
        let anchored = Steady::now();
        let anchor = Timestamp::from(SystemTime::now()).max(high_water);
        Self(Source::System { anchor, anchored })
    }

    /// The time, rounded down to the millisecond.
    ///
    /// Complexity: no allocation, no lock; one reading of the steady clock, which Linux serves without
    /// entering the kernel on most machines. Read it once for a batch.
    #[inline]
    #[must_use]
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Source::System { anchor, anchored } => anchor_plus(*anchor, anchored.elapsed()),
            // Relaxed: the time is a number of its own, see the module's "Atomics".
            Source::Manual(millis) => Timestamp(millis.load(Ordering::Relaxed)),
        }
    }

    /// How far a reading may lie behind the time it stands for: one millisecond, by rounding; nothing when
    /// the time is set by hand.
    ///
    /// A window that must not end early ends at the reading of its beginning plus its length plus this.
    #[inline]
    #[must_use]
    pub const fn lag_max(&self) -> Duration {
        match self.0 {
            Source::System { .. } => Duration::from_millis(1),
            Source::Manual(_) => Duration::ZERO,
        }
    }
}

impl Default for Clock {
    /// [`Clock::system`].
    fn default() -> Self {
        Self::system()
    }
}

/// The anchor moved on by what has passed since, rounded down.
#[inline]
fn anchor_plus(anchor: Timestamp, elapsed: Duration) -> Timestamp {
    Timestamp(anchor.0.saturating_add(millis_down(elapsed)))
}

/// A point on a clock that only goes forward and knows no date.
#[derive(Clone, Copy, Debug)]
#[cfg(all(any(target_os = "linux", target_os = "android"), not(miri)))]
struct Steady {
    since_boot: Duration,
}

#[cfg(all(any(target_os = "linux", target_os = "android"), not(miri)))]
impl Steady {
    #[inline]
    fn now() -> Self {
        let read = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        // Both parts are positive by the kernel's contract: the time since boot, and nanoseconds below a
        // second.
        let seconds = u64::try_from(read.tv_sec).unwrap_or_default();
        let nanos = u32::try_from(read.tv_nsec).unwrap_or_default();
        Self { since_boot: Duration::new(seconds, nanos) }
    }

    #[inline]
    fn elapsed(self) -> Duration {
        Self::now().since_boot.saturating_sub(self.since_boot)
    }
}

/// A point on a clock that only goes forward and knows no date.
#[derive(Clone, Copy, Debug)]
#[cfg(not(all(any(target_os = "linux", target_os = "android"), not(miri))))]
struct Steady(std::time::Instant);

#[cfg(not(all(any(target_os = "linux", target_os = "android"), not(miri))))]
impl Steady {
    fn now() -> Self {
        Self(std::time::Instant::now())
    }

    fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}

/// A clock that stands still until it is moved: for tests, simulations and replays by event time.
///
/// Clones move the same time. Moves from several threads at once all count.
///
/// ```
/// use firstseen::{ManualClock, Timestamp};
/// use std::time::Duration;
///
/// let manual = ManualClock::new(Timestamp::from_millis(1_000));
/// let clock = manual.clock();
/// manual.advance(Duration::from_secs(5));
/// assert_eq!(clock.now(), Timestamp::from_millis(6_000));
/// ```
#[derive(Clone, Debug)]
pub struct ManualClock(Arc<AtomicU64>);

impl ManualClock {
    /// Stands at `start`.
    #[must_use]
    pub fn new(start: Timestamp) -> Self {
        Self(Arc::new(AtomicU64::new(start.0)))
    }

    /// The [`Clock`] that tells this time; any number of them may be made.
    #[must_use]
    pub fn clock(&self) -> Clock {
        Clock(Source::Manual(Arc::clone(&self.0)))
    }

    /// The time it stands at.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.clock().now()
    }

    /// Moves forward by `length`, rounded up to whole milliseconds and ending at the last value, and
    /// returns the time it then stands at.
    pub fn advance(&self, length: Duration) -> Timestamp {
        let step = |before| Some(Timestamp(before).saturating_add(length).0);
        // Relaxed: the time is a number of its own, see the module's "Atomics"; the update is atomic all
        // the same.
        let before = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, step);
        Timestamp(before.expect("a step is always possible")).saturating_add(length)
    }

    /// Moves to `time`, which may lie before the present one: so a clock that was set back can be tried.
    pub fn set(&self, time: Timestamp) {
        // Relaxed: the time is a number of its own, see the module's "Atomics".
        self.0.store(time.0, Ordering::Relaxed);
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    /// Times around which 31-bit and 32-bit seconds, and the calendar of some libraries, run over.
    fn edges() -> [Timestamp; 6] {
        let year_9999_ms = 253_402_300_799_999;
        [
            at(0),
            at(i32::MAX as u64 * 1000),
            at(u64::from(u32::MAX) * 1000),
            at(year_9999_ms),
            at(u64::MAX - 1),
            at(u64::MAX),
        ]
    }

    #[test]
    fn sums_around_every_edge_are_exact_or_saturate() {
        for edge in edges() {
            for length in
                [Duration::ZERO, Duration::from_millis(1), DAY, Duration::from_secs(1 << 31), DAY * 36_500]
            {
                let sum = edge.saturating_add(length);
                let exact = u128::from(edge.as_millis()) + length.as_millis();
                assert_eq!(
                    u128::from(sum.as_millis()),
                    exact.min(u128::from(u64::MAX)),
                    "{edge:?} + {length:?}"
                );
                assert!(sum >= edge, "a window that is over at once: {edge:?} + {length:?}");
            }
        }
    }

    #[test]
    fn longest_lengths_saturate() {
        for length in [Duration::MAX, Duration::from_millis(u64::MAX), Duration::from_secs(u64::MAX)] {
            assert_eq!(at(5).saturating_add(length), at(u64::MAX));
            assert_eq!(at(u64::MAX).saturating_add(length), at(u64::MAX));
        }
    }

    #[test]
    fn part_of_a_millisecond_counts_as_a_whole_one() {
        assert_eq!(at(7).saturating_add(Duration::from_nanos(1)), at(8));
        assert_eq!(at(7).saturating_add(Duration::from_micros(1_001)), at(9));
        assert_eq!(at(7).saturating_add(Duration::from_millis(1)), at(8));
        assert_eq!(at(7).saturating_add(Duration::ZERO), at(7));
    }

    #[test]
    fn difference_is_zero_when_it_would_be_negative() {
        assert_eq!(at(9).saturating_since(at(4)), Duration::from_millis(5));
        assert_eq!(at(4).saturating_since(at(9)), Duration::ZERO);
        assert_eq!(at(u64::MAX).saturating_since(at(0)), Duration::from_millis(u64::MAX));
    }

    #[test]
    fn system_time_before_the_epoch_becomes_the_epoch() {
        assert_eq!(Timestamp::from(UNIX_EPOCH - DAY), at(0));
        assert_eq!(Timestamp::from(UNIX_EPOCH + Duration::from_micros(1_999)), at(1));
    }

    #[test]
    fn system_clock_starts_at_the_wall_clock() {
        let before = Timestamp::from(SystemTime::now());
        let now = Clock::system().now();
        let after = Timestamp::from(SystemTime::now());
        // The wall clock may be slewed while the test runs; it is not off by a minute.
        let minute = Duration::from_secs(60);
        assert!(
            before <= now.saturating_add(minute) && now <= after.saturating_add(minute),
            "{before:?} {now:?}"
        );
    }

    /// The wall clock was set back by years between two runs: the second one goes on where the first one was.
    #[test]
    fn system_clock_starts_no_earlier_than_the_high_water_mark() {
        let high_water = Clock::system().now().saturating_add(DAY * 3650);
        let clock = Clock::system_from(high_water);
        assert!(clock.now() >= high_water);
        assert!(clock.now().saturating_since(high_water) < DAY);
        assert_eq!(Clock::system_from(at(u64::MAX)).now(), at(u64::MAX));
    }

    /// The wall clock was set forward: an older mark changes nothing.
    #[test]
    fn system_clock_ignores_a_mark_in_the_past() {
        assert!(Clock::system_from(at(1)).now() > at(1_600_000_000_000));
    }

    #[test]
    fn system_clock_advances_with_time_and_never_back() {
        let clock = Clock::system();
        // What passes between two readings is more than `inner` and less than `outer`, however busy the
        // machine.
        let outer = std::time::Instant::now();
        let start = clock.now();
        let inner = std::time::Instant::now();
        let mut last = start;
        while inner.elapsed() < Duration::from_millis(30) {
            let now = clock.now();
            assert!(now >= last);
            last = now;
        }
        let least = inner.elapsed();
        let passed = clock.now().saturating_since(start);
        assert!(passed + clock.lag_max() >= least, "{passed:?} of {least:?}");
        assert!(passed <= outer.elapsed() + clock.lag_max(), "{passed:?}");
    }

    #[test]
    fn clone_of_system_clock_has_the_same_anchor() {
        let clock = Clock::system_from(at(u64::MAX / 2));
        let clone = clock.clone();
        assert!(clone.now() >= at(u64::MAX / 2));
        assert!(clone.now().saturating_since(clock.now()) < DAY);
    }

    #[test]
    fn manual_clock_stands_still_until_it_is_moved() {
        let manual = ManualClock::new(at(1_000));
        let clock = manual.clock();
        assert_eq!(clock.now(), at(1_000));
        assert_eq!(manual.advance(Duration::from_millis(500)), at(1_500));
        assert_eq!(clock.now(), at(1_500));
        let other_hand = manual.clone();
        other_hand.set(at(7));
        assert_eq!((clock.now(), manual.now()), (at(7), at(7)));
        assert_eq!(clock.lag_max(), Duration::ZERO);
    }

    #[test]
    fn manual_clock_stops_at_the_last_value() {
        for edge in edges() {
            let manual = ManualClock::new(edge);
            assert_eq!(manual.advance(Duration::MAX), at(u64::MAX));
            assert_eq!(manual.now(), at(u64::MAX));
        }
    }

    #[test]
    fn manual_clock_counts_every_move_of_several_threads() {
        let manual = ManualClock::new(at(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1_000).for_each(|_| _ = manual.advance(Duration::from_millis(1))));
            }
        });
        assert_eq!(manual.now(), at(4_000));
    }
}
