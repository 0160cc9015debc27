//! Time in ticks: until when an ID stays seen, and whether that is over.
//!
//! A tick is a power of two of milliseconds, the smallest one for which the longest window of the store
//! fits in half the range of a stamp's version. A deadline is rounded up to the next tick and the present is
//! rounded down, so a window ends late by less than one tick and never early (G5).
//!
//! A store that never forgets is the same thing at a standstill: the present is tick 0, every first sighting
//! has version 1, and nothing is ever over.

use std::time::Duration;

use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::limits::{ROTATE_MS_MIN, WINDOW_MS_MAX};
use crate::options::Window;
use crate::stamp::VERSION_MAX;

/// The longest window in ticks: half of what a version holds.
const WINDOW_TICKS_MAX: u64 = (VERSION_MAX as u64).div_ceil(2);

/// The latest present: later times count as this one, at which time stands still and no window ends.
///
/// It leaves room for a deadline behind it, and for two bits beside that in a record of the log.
pub(crate) const TIME_MS_MAX: u64 = (u64::MAX >> 2) - 4 * WINDOW_MS_MAX;

/// The present of one call, and the end of the window that it would begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Moment {
    /// The present, in whole ticks since the Unix epoch; zero in a store that never forgets.
    pub(crate) now: u64,
    /// The first tick at which an ID seen now is no longer seen.
    pub(crate) deadline: u64,
    /// Whether being seen again moves the deadline.
    pub(crate) slides: bool,
}

impl Moment {
    /// Whether an ID that is seen until tick `until` still is.
    #[inline]
    pub(crate) fn is_live(self, until: u64) -> bool {
        until > self.now
    }
}

/// How long IDs stay seen in one store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    window: Window,
    window_ms: u64,
    ttl_ms_max: u64,
    tick_shift: u32,
}

impl Span {
    /// For a window and the longest time to live that a call may ask for.
    pub(crate) fn new(window: Window, ttl_max: Option<Duration>) -> Span {
        let window_ms = match window {
            Window::Forever => 0,
            Window::Fixed(length) | Window::Sliding(length) => millis_up(length),
        };
        let ttl_ms_max = ttl_max.map_or(0, millis_up).max(window_ms);
        let mut tick_shift = 0;
        while ttl_ms_max >> tick_shift >= WINDOW_TICKS_MAX - 1 {
            tick_shift += 1;
        }
        Span { window, window_ms, ttl_ms_max, tick_shift }
    }

    /// The same in ticks that were chosen before; `None` when they are too short for these times.
    pub(crate) fn with_tick(window: Window, ttl_max: Option<Duration>, tick_ms: u64) -> Option<Span> {
        let span = Span::new(window, ttl_max);
        let is_tick = tick_ms.is_power_of_two() && tick_ms >= span.tick_ms();
        is_tick.then(|| Span { tick_shift: tick_ms.trailing_zeros(), ..span })
    }

    /// The longest time to live, in milliseconds; zero in a store that never forgets.
    pub(crate) fn ttl_ms_max(&self) -> u64 {
        self.ttl_ms_max
    }

    /// The window as it was asked for.
    pub(crate) fn window(&self) -> Window {
        self.window
    }

    #[inline]
    pub(crate) fn is_forever(&self) -> bool {
        self.window == Window::Forever
    }

    /// Milliseconds in a tick.
    pub(crate) fn tick_ms(&self) -> u64 {
        1 << self.tick_shift
    }

    /// What a call at `now` compares with; `ttl` replaces the store's window.
    ///
    /// `lag_ms` is by how much `now` may be behind the true time: the window ends that much later.
    ///
    /// # Errors
    ///
    /// [`Error::TimeToLive`] when the store never forgets, or was created for shorter times to live.
    #[inline]
    pub(crate) fn moment(&self, now: Timestamp, lag_ms: u64, ttl: Option<Duration>) -> Result<Moment> {
        let length_ms = match ttl {
            None if self.is_forever() => return Ok(Moment { now: 0, deadline: 1, slides: false }),
            None => self.window_ms,
            Some(ttl) => {
                let asked_ms = millis_up(ttl);
                if self.is_forever() || asked_ms > self.ttl_ms_max {
                    let longest_ms = if self.is_forever() { 0 } else { self.ttl_ms_max };
                    return Err(Error::TimeToLive { asked_ms, longest_ms });
                }
                asked_ms
            }
        };
        Ok(Moment {
            now: self.tick_at(now),
            deadline: self.tick_after(now.as_millis().min(TIME_MS_MAX) + length_ms + lag_ms),
            slides: matches!(self.window, Window::Sliding(_)),
        })
    }

    /// The tick that `now` lies in.
    #[inline]
    pub(crate) fn tick_at(&self, now: Timestamp) -> u64 {
        now.as_millis().min(TIME_MS_MAX) >> self.tick_shift
    }

    /// The first tick that begins at or after `ms`.
    #[inline]
    fn tick_after(&self, ms: u64) -> u64 {
        (ms >> self.tick_shift) + u64::from(ms & (self.tick_ms() - 1) != 0)
    }

    /// The time at which `tick` begins.
    pub(crate) fn time_of(&self, tick: u64) -> Timestamp {
        Timestamp::from_millis(tick.saturating_mul(self.tick_ms()))
    }

    /// Ticks after which the active table is rotated though it is not full; `None` if never.
    ///
    /// A quarter of the longest time to live, but at least [`ROTATE_MS_MIN`], so that what is over can be
    /// dropped by whole tables.
    pub(crate) fn rotate_ticks(&self) -> Option<u64> {
        if self.is_forever() {
            return None;
        }
        Some(((self.ttl_ms_max / 4).max(ROTATE_MS_MIN) >> self.tick_shift).max(1))
    }
}

/// Whole milliseconds, rounded up: a window may end late, never early.
fn millis_up(length: Duration) -> u64 {
    let whole = u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
    let rest = !length.subsec_nanos().is_multiple_of(1_000_000);
    whole.saturating_add(u64::from(rest))
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    #[test]
    fn tick_is_a_millisecond_up_to_three_days() {
        assert_eq!(Span::new(Window::Fixed(Duration::from_secs(3 * 86_400)), None).tick_ms(), 1);
        assert_eq!(Span::new(Window::Fixed(Duration::from_secs(30 * 86_400)), None).tick_ms(), 16);
    }

    #[test]
    fn window_ends_late_by_less_than_one_tick_and_never_early() {
        for (window_ms, start) in [(10_000, 0), (10_000, 7), (86_400_000 * 30, 123_456_789), (1, 5)] {
            let span = Span::new(Window::Fixed(Duration::from_millis(window_ms)), None);
            let until = span.moment(at(start), 0, None).unwrap().deadline;
            let end = start + window_ms;
            for now in [start, end - 1] {
                assert!(span.moment(at(now), 0, None).unwrap().is_live(until), "early at {now}");
            }
            let late = end + span.tick_ms() - 1;
            assert!(!span.moment(at(late), 0, None).unwrap().is_live(until), "late at {late}");
        }
    }

    /// A clock that rounds down says 0 at 0.9 ms; a window of 5 ms from there ended at 5.0 ms, 0.9 ms early.
    #[test]
    fn clock_that_lags_lengthens_the_window() {
        let span = Span::new(Window::Fixed(Duration::from_millis(5)), None);
        let until = span.moment(at(0), 1, None).unwrap().deadline;
        assert!(span.moment(at(5), 1, None).unwrap().is_live(until));
        assert!(!span.moment(at(6), 1, None).unwrap().is_live(until));
    }

    #[test]
    fn stored_tick_is_kept_unless_it_is_too_short() {
        let month = Window::Fixed(Duration::from_secs(30 * 86_400));
        let hour = Window::Fixed(Duration::from_secs(3_600));
        assert_eq!(Span::with_tick(hour, None, 16).unwrap().tick_ms(), 16);
        assert_eq!(Span::with_tick(month, None, 16).unwrap().tick_ms(), 16);
        assert!(Span::with_tick(month, None, 1).is_none());
        assert!(Span::with_tick(hour, None, 3).is_none());
    }

    #[test]
    fn part_of_a_millisecond_lengthens_the_window() {
        assert_eq!(millis_up(Duration::from_nanos(1)), 1);
        assert_eq!(millis_up(Duration::from_millis(3)), 3);
        assert_eq!(millis_up(Duration::MAX), u64::MAX);
    }

    #[test]
    fn own_ttl_is_refused_when_forever_or_too_long() {
        let forever = Span::new(Window::Forever, None);
        let asked = Some(Duration::from_millis(7));
        assert_eq!(forever.moment(at(0), 0, asked), Err(Error::TimeToLive { asked_ms: 7, longest_ms: 0 }));
        let short = Span::new(Window::Fixed(Duration::from_millis(5)), None);
        assert_eq!(short.moment(at(0), 0, asked), Err(Error::TimeToLive { asked_ms: 7, longest_ms: 5 }));
        let longer = Span::new(Window::Fixed(Duration::from_millis(5)), Some(Duration::from_millis(9)));
        assert_eq!(longer.moment(at(1), 0, asked).unwrap().deadline, 8);
    }

    #[test]
    fn forever_moment_never_moves() {
        let span = Span::new(Window::Forever, None);
        for now in [0, 5, u64::MAX] {
            let moment = span.moment(at(now), 0, None).unwrap();
            assert_eq!((moment.now, moment.deadline), (0, 1));
            assert!(moment.is_live(1));
        }
    }

    #[test]
    fn time_stands_still_at_its_end() {
        let span = Span::new(Window::Fixed(Duration::from_secs(86_400)), None);
        let moment = span.moment(at(u64::MAX), 0, None).unwrap();
        assert!(moment.deadline > moment.now);
    }
}
