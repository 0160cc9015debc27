//! Checks what many threads were told about one ID, in about linear time, without searching for an order.
//!
//! Each call is known by when it was invoked and when it had returned, and by what the store's clock said
//! before and after. Whatever the true order was, these must hold (G1, G3, G5):
//!
//! - H1 Two firsts (a `FirstSeen`, or a commit) are a window apart: the clock could have reached the end.
//! - H2 A duplicate has a first that was invoked before the duplicate had returned, and whose window could
//!   still be open.
//! - H3 An ID whose window was surely open is not called new, absent, free or in flight.
//! - H4 While a lease is surely held nobody is told anything but `InFlight`, and nobody else gets a lease.
//! - H5 `InFlight` is told only when somebody may have held a lease.
//! - H6 A lease is lost only when it could have been over, and a later lease has a larger attempt number.
//!
//! "Surely" and "could" leave out what overlaps, so a right store is never blamed.

/// When a call took place, from outside: by a steady clock, and by the store's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) invoked_ns: u64,
    pub(crate) returned_ns: u64,
    pub(crate) before_ms: u64,
    pub(crate) after_ms: u64,
}

/// What a call was told about one ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    First,
    /// By a check or a claim, which in a sliding window begins the window anew.
    Duplicate,
    /// By a look, which changes nothing.
    Known,
    InFlight,
    Absent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) id: u16,
    pub(crate) answer: Answer,
    pub(crate) span: Span,
}

/// How a lease ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Committed,
    Aborted,
    Lost,
}

/// One lease from its claim to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tenure {
    pub(crate) id: u16,
    pub(crate) attempt: u64,
    pub(crate) length_ms: u64,
    pub(crate) granted: Span,
    pub(crate) ended: Span,
    pub(crate) end: End,
}

/// How long an ID stays seen, in milliseconds of the store's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Windows {
    pub(crate) length_ms: u64,
    pub(crate) slides: bool,
}

/// Everything that is known about one ID.
#[derive(Debug, Default)]
pub(crate) struct History {
    pub(crate) events: Vec<Event>,
    pub(crate) tenures: Vec<Tenure>,
}

type Verdict = Result<(), String>;

/// Spans in some order of time, with the largest clock reading among all up to each.
struct Prefix {
    times_ns: Vec<u64>,
    /// The largest reading and whose it is, and the largest of anybody else.
    largest: Vec<(u64, usize, u64)>,
}

impl Prefix {
    fn new(spans: &[Span], time_ns: fn(&Span) -> u64, reading_ms: fn(&Span) -> u64) -> Prefix {
        let mut order: Vec<usize> = (0..spans.len()).collect();
        order.sort_by_key(|index| time_ns(&spans[*index]));
        let times_ns = order.iter().map(|index| time_ns(&spans[*index])).collect();
        let mut best = (0, usize::MAX, 0);
        let largest = order.iter().map(|index| {
            let reading = reading_ms(&spans[*index]);
            if best.1 == usize::MAX || reading > best.0 {
                best = (reading, *index, if best.1 == usize::MAX { 0 } else { best.0 });
            } else {
                best.2 = best.2.max(reading);
            }
            best
        });
        Prefix { largest: largest.collect(), times_ns }
    }

    /// The largest reading among spans whose time passes `is_before`, that of span `but` left out.
    fn largest_before(&self, is_before: impl Fn(u64) -> bool, but: usize) -> Option<u64> {
        let count = self.times_ns.partition_point(|time| is_before(*time));
        let (largest, whose, second) = *self.largest.get(count.checked_sub(1)?)?;
        if whose != but {
            return Some(largest);
        }
        (count > 1).then_some(second)
    }
}

impl History {
    /// Checks H1 to H6.
    pub(crate) fn check(&mut self, windows: Windows) -> Verdict {
        self.tenures.sort_by_key(|tenure| tenure.granted.returned_ns);
        self.check_firsts(windows)?;
        self.check_answers(windows)?;
        self.check_tenures()
    }

    /// The spans of all calls that may have begun a window; the first `.1` of them are firsts.
    fn touches(&self, slides: bool) -> (Vec<Span>, usize) {
        let spans = |wanted: Answer| self.events.iter().filter(move |event| event.answer == wanted);
        let committed = self.tenures.iter().filter(|tenure| tenure.end == End::Committed);
        let mut touches: Vec<Span> = spans(Answer::First).map(|event| event.span).collect();
        touches.extend(committed.map(|tenure| tenure.ended));
        let firsts = touches.len();
        if slides {
            touches.extend(spans(Answer::Duplicate).map(|event| event.span));
        }
        (touches, firsts)
    }

    /// H1.
    fn check_firsts(&self, windows: Windows) -> Verdict {
        let (mut firsts, count) = self.touches(false);
        debug_assert_eq!(firsts.len(), count);
        firsts.sort_by_key(|first| (first.after_ms, first.invoked_ns));
        for pair in firsts.windows(2) {
            let can_follow = |later: &Span, earlier: &Span| {
                later.after_ms >= earlier.before_ms.saturating_add(windows.length_ms)
            };
            if !can_follow(&pair[1], &pair[0]) && !can_follow(&pair[0], &pair[1]) {
                return Err(format!("H1: two firsts in one window: {pair:?}"));
            }
        }
        Ok(())
    }

    /// H2, H3, H4 and H5, for each answer.
    fn check_answers(&self, windows: Windows) -> Verdict {
        let (touches, firsts) = self.touches(windows.slides);
        let begun = Prefix::new(&touches, |span| span.invoked_ns, |span| span.after_ms);
        let first_begun = Prefix::new(&touches[..firsts], |span| span.invoked_ns, |span| span.after_ms);
        let over = Prefix::new(&touches, |span| span.returned_ns, |span| span.before_ms);
        let claims: Vec<Span> = self.tenures.iter().map(tenancy).collect();
        let held = Prefix::new(&claims, |span| span.invoked_ns, |span| span.after_ms);
        let mut slid = firsts;
        for event in &self.events {
            let span = event.span;
            // Calls that slide stand among the touches in the order of the events.
            let own = if windows.slides && event.answer == Answer::Duplicate { slid } else { usize::MAX };
            slid += usize::from(own != usize::MAX);
            if matches!(event.answer, Answer::Duplicate | Answer::Known) {
                if first_begun.largest_before(|time| time <= span.returned_ns, usize::MAX).is_none() {
                    return Err(format!("H2: a duplicate of nothing: {event:?}"));
                }
                let begun = begun.largest_before(|time| time <= span.returned_ns, own);
                if begun.is_none_or(|begun| begun.saturating_add(windows.length_ms) <= span.before_ms) {
                    return Err(format!("H2: a duplicate of a window that is over: {event:?}, {begun:?}"));
                }
            } else {
                check_not_live(&over, span, windows, &format_args!("{event:?}"))?;
            }
            if event.answer == Answer::InFlight {
                let held = held.largest_before(|time| time <= span.returned_ns, usize::MAX);
                if held.is_none_or(|held| held < span.invoked_ns) {
                    return Err(format!("H5: in flight, but nobody had a lease: {event:?}"));
                }
            } else if event.answer != Answer::Absent {
                self.check_not_held(span, &format_args!("{event:?}"))?;
            }
        }
        for tenure in &self.tenures {
            check_not_live(&over, tenure.granted, windows, &format_args!("{tenure:?}"))?;
        }
        Ok(())
    }

    /// H4 for a call that was told something else than `InFlight`.
    fn check_not_held(&self, span: Span, what: &dyn std::fmt::Debug) -> Verdict {
        let count = self.tenures.partition_point(|tenure| tenure.granted.returned_ns < span.invoked_ns);
        let Some(tenure) = count.checked_sub(1).map(|index| &self.tenures[index]) else { return Ok(()) };
        if span.returned_ns < tenure.ended.invoked_ns && is_surely_unexpired(tenure, span.after_ms) {
            return Err(format!("H4: {what:?} while a lease was held: {tenure:?}"));
        }
        Ok(())
    }

    /// H4 among leases, and H6.
    fn check_tenures(&self) -> Verdict {
        for tenure in &self.tenures {
            if tenure.end == End::Lost && is_surely_unexpired(tenure, tenure.ended.after_ms) {
                return Err(format!("H6: a lease was lost before it was over: {tenure:?}"));
            }
        }
        for pair in self.tenures.windows(2) {
            let (earlier, later) = (&pair[0], &pair[1]);
            let is_held = earlier.ended.invoked_ns > later.granted.returned_ns;
            if is_held && is_surely_unexpired(earlier, later.granted.after_ms) {
                return Err(format!("H4: two leases at the same time: {pair:?}"));
            }
            let follows = earlier.granted.returned_ns < later.granted.invoked_ns;
            if follows && earlier.attempt >= later.attempt {
                return Err(format!("H6: the later lease has the smaller attempt number: {pair:?}"));
            }
        }
        Ok(())
    }
}

/// A lease as a span whose reading is when its end had returned.
fn tenancy(tenure: &Tenure) -> Span {
    Span { after_ms: tenure.ended.returned_ns, ..tenure.granted }
}

/// Whether the lease could not be over at a reading of the clock.
fn is_surely_unexpired(tenure: &Tenure, reading_ms: u64) -> bool {
    reading_ms < tenure.granted.before_ms.saturating_add(tenure.length_ms)
}

/// H3: `over` has the windows that had been begun before.
fn check_not_live(over: &Prefix, span: Span, windows: Windows, what: &dyn std::fmt::Debug) -> Verdict {
    match over.largest_before(|time| time < span.invoked_ns, usize::MAX) {
        Some(begun) if span.after_ms < begun.saturating_add(windows.length_ms) => {
            Err(format!("H3: forgotten within its window, which began at {begun} ms or later: {what:?}"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIXED: Windows = Windows { length_ms: 100, slides: false };

    fn span(invoked_ns: u64, returned_ns: u64, before_ms: u64, after_ms: u64) -> Span {
        Span { invoked_ns, returned_ns, before_ms, after_ms }
    }

    fn event(answer: Answer, span: Span) -> Event {
        Event { id: 0, answer, span }
    }

    fn tenure(attempt: u64, granted: Span, ended: Span, end: End) -> Tenure {
        Tenure { id: 0, attempt, length_ms: 50, granted, ended, end }
    }

    fn told(windows: Windows, events: &[(Answer, Span)], tenures: &[Tenure]) -> String {
        let events = events.iter().map(|(answer, span)| event(*answer, *span)).collect();
        let outcome = History { events, tenures: tenures.to_vec() }.check(windows);
        outcome.err().map_or("right".to_owned(), |text| text[..2].to_owned())
    }

    #[test]
    fn right_history_passes_every_rule() {
        use Answer::{Absent, Duplicate, First, InFlight, Known};
        let events = [
            (Absent, span(0, 1, 0, 0)),
            (First, span(2, 5, 0, 1)),
            (Duplicate, span(3, 4, 0, 1)),
            (Known, span(6, 7, 99, 99)),
            (First, span(8, 9, 100, 101)),
            (InFlight, span(13, 14, 210, 210)),
            (Duplicate, span(21, 22, 240, 300)),
        ];
        let tenures = [
            tenure(1, span(10, 11, 205, 206), span(15, 16, 211, 211), End::Aborted),
            tenure(2, span(17, 18, 212, 212), span(19, 20, 230, 231), End::Committed),
        ];
        assert_eq!(told(FIXED, &events, &tenures), "right");
    }

    #[test]
    fn two_firsts_in_one_window_are_reported() {
        let events = [(Answer::First, span(0, 5, 0, 0)), (Answer::First, span(1, 4, 0, 99))];
        assert_eq!(told(FIXED, &events, &[]), "H1");
        let events = [(Answer::First, span(0, 5, 0, 0)), (Answer::First, span(1, 4, 0, 100))];
        assert_eq!(told(FIXED, &events, &[]), "right");
    }

    #[test]
    fn duplicate_before_its_first_is_reported() {
        let events = [(Answer::Duplicate, span(0, 1, 0, 0)), (Answer::First, span(2, 3, 0, 0))];
        assert_eq!(told(FIXED, &events, &[]), "H2");
    }

    #[test]
    fn duplicate_of_a_window_that_is_over_is_reported() {
        let events = [(Answer::First, span(0, 1, 0, 5)), (Answer::Duplicate, span(2, 3, 105, 106))];
        assert_eq!(told(FIXED, &events, &[]), "H2");
        let sliding = Windows { length_ms: 100, slides: true };
        let lone = [(Answer::First, span(0, 1, 0, 5)), (Answer::Duplicate, span(2, 3, 105, 106))];
        assert_eq!(told(sliding, &lone, &[]), "H2", "a duplicate is no reason for itself");
        let slid = [
            (Answer::First, span(0, 1, 0, 5)),
            (Answer::Duplicate, span(2, 3, 90, 91)),
            (Answer::Duplicate, span(4, 5, 180, 181)),
        ];
        assert_eq!(told(sliding, &slid, &[]), "right");
    }

    #[test]
    fn key_lost_within_its_window_is_reported() {
        for answer in [Answer::Absent, Answer::InFlight] {
            let events = [(Answer::First, span(0, 1, 7, 9)), (answer, span(2, 3, 100, 106))];
            assert_eq!(told(FIXED, &events, &[]), "H3");
        }
        let granted = tenure(1, span(2, 3, 100, 106), span(4, 5, 107, 107), End::Aborted);
        assert_eq!(told(FIXED, &[(Answer::First, span(0, 1, 7, 9))], &[granted]), "H3");
    }

    #[test]
    fn answers_during_a_lease_are_reported() {
        let held = tenure(1, span(0, 1, 0, 0), span(9, 10, 20, 20), End::Aborted);
        assert_eq!(told(FIXED, &[(Answer::First, span(3, 4, 5, 5))], &[held]), "H4");
        let second = tenure(2, span(3, 4, 5, 5), span(5, 6, 5, 5), End::Aborted);
        assert_eq!(told(FIXED, &[], &[held, second]), "H4");
        let after_end = tenure(2, span(3, 4, 50, 50), span(5, 6, 50, 50), End::Aborted);
        assert_eq!(told(FIXED, &[], &[held, after_end]), "right");
    }

    #[test]
    fn in_flight_without_a_lease_is_reported() {
        let ended = tenure(1, span(0, 1, 0, 0), span(2, 3, 0, 0), End::Aborted);
        assert_eq!(told(FIXED, &[(Answer::InFlight, span(4, 5, 0, 0))], &[ended]), "H5");
        assert_eq!(told(FIXED, &[(Answer::InFlight, span(3, 5, 0, 0))], &[ended]), "right");
    }

    #[test]
    fn lease_lost_too_early_or_numbered_backwards_is_reported() {
        let lost = |after| tenure(1, span(0, 1, 0, 0), span(2, 3, 0, after), End::Lost);
        assert_eq!(told(FIXED, &[], &[lost(49)]), "H6");
        assert_eq!(told(FIXED, &[], &[lost(50)]), "right");
        let smaller = tenure(1, span(4, 5, 60, 60), span(6, 7, 60, 60), End::Aborted);
        assert_eq!(told(FIXED, &[], &[lost(50), smaller]), "H6");
    }
}
