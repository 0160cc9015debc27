//! A check: the one step that decides whether an ID is seen for the first time.
//!
//! 1. Look in the active table. Seen and live: duplicate. Forgotten or over: the answer is here.
//! 2. Otherwise close the ID in the closing table, if there is one, then ask the frozen tables, newest first.
//! 3. Nothing live: state `Seen` in the active table by a compare-and-swap from what step 1 found. Whoever
//!    succeeds is told `FirstSeen`; whoever fails looks again.
//!
//! # Why there is exactly one first (G1)
//!
//! All calls that work under views with the same active table meet in one slot of it, and a stamp goes from
//! undecided to seen once. Calls under two successive views differ in the active table: the one under the
//! later view closes the ID in the earlier active table before it decides in its own. Either the earlier
//! table's decision came before that (P2), then closing returns it and the later call answers `Duplicate`;
//! or it fails on the closed stamp and its caller goes on under the later view. Three active tables cannot
//! be in use at once: a closing table is frozen only when no call holds a view in which it was active (P4).

use crate::error::Result;
use crate::fingerprint::Fingerprint;
use crate::stamp::State;
use crate::verdict::Verdict;
use crate::window::Moment;

use super::core::Recorded;
use super::engine::Engine;
use super::fact::{Fact, Retry};
use super::view::{Place, View};

impl Engine {
    /// Checks one fingerprint.
    #[inline]
    pub(crate) fn check(&self, key: Fingerprint, moment: Moment) -> Result<Verdict> {
        let verdict = self.decide(key, moment)?;
        self.acknowledge()?;
        Ok(verdict)
    }

    /// The same for a caller that acknowledges many at once.
    #[inline]
    pub(crate) fn decide(&self, key: Fingerprint, moment: Moment) -> Result<Verdict> {
        self.views.prefetch(key);
        self.run(
            moment,
            |view, recorded| view.check(key, moment, None, recorded),
            || self.check_pending(key, moment),
        )
    }

    /// Whether an ID is seen and live; records nothing.
    pub(crate) fn contains(&self, key: Fingerprint, moment: Moment) -> Result<bool> {
        self.views.prefetch(key);
        let is_seen = self.is_seen(key, moment)?;
        self.acknowledge()?;
        Ok(is_seen)
    }

    /// The same for a caller that acknowledges many at once.
    pub(super) fn is_seen(&self, key: Fingerprint, moment: Moment) -> Result<bool> {
        self.run(moment, |view, _| view.is_seen(key, moment, None), || Ok(false))
    }
}

impl View {
    /// Whether an ID is seen and live, without closing or stating anything; `candidates` as in a check.
    #[inline]
    pub(super) fn is_seen(
        &self,
        key: Fingerprint,
        moment: Moment,
        candidates: Option<u64>,
    ) -> Result<bool, Retry> {
        let fact = match self.place(key)? {
            Place::Slot(_, stamp) => Fact::of(&self.active, stamp),
            Place::Vacant(_) | Place::Exhausted => Fact::None,
        };
        let fact = match fact {
            Fact::None => self.older_fact_read(key, candidates.unwrap_or_else(|| self.screen(key)))?,
            known => known,
        };
        Ok(matches!(fact, Fact::Seen(until) if moment.is_live(until)))
    }

    /// One attempt at a check. `candidates` are the older tables that may have the key, if already known.
    #[inline]
    pub(crate) fn check(
        &self,
        key: Fingerprint,
        moment: Moment,
        candidates: Option<u64>,
        recorded: &mut Recorded<'_>,
    ) -> Result<Verdict, Retry> {
        let place = self.place(key)?;
        let active = match &place {
            Place::Slot(_, stamp) => Fact::of(&self.active, *stamp),
            _ => Fact::None,
        };
        let fact = match active {
            Fact::None if self.is_single() => Fact::None,
            Fact::None => self.older_fact(key, candidates)?,
            known => known,
        };
        match fact {
            Fact::Pending(..) => Err(Retry::Pending),
            Fact::Seen(until) if moment.is_live(until) => {
                self.slide(key, &place, until, moment, recorded)?;
                Ok(Verdict::Duplicate)
            }
            fact => {
                let until = moment.deadline.max(fact.floor().saturating_add(1));
                self.record(key, &place, State::Seen, until, recorded)?;
                Ok(Verdict::FirstSeen)
            }
        }
    }

    /// Moves the end of a window that slides, for an ID that was seen again.
    #[inline]
    pub(crate) fn slide(
        &self,
        key: Fingerprint,
        place: &Place<'_>,
        until: u64,
        moment: Moment,
        recorded: &mut Recorded<'_>,
    ) -> Result<(), Retry> {
        if moment.slides && moment.deadline > until {
            self.record(key, place, State::Seen, moment.deadline, recorded)?;
        }
        Ok(())
    }
}
