//! Claims: leases on IDs while their work is done (G3).
//!
//! A claim leaves `Pending` in the active table's stamp and an entry in the lease table. Everything that
//! moves a stamp into or out of `Pending` holds the lock of the ID's shard, so the two agree:
//!
//! - L1 An ID with an entry in the lease table is `Pending` in the newest table that knows it. A claim
//!   states it in the active table; before a frozen table is merged or dropped,
//!   [`Core::carry_leases`](super::core::Core::carry_leases) states it again.
//! - L2 A stamp leaves `Pending` for `Seen` together with the entry: by its commit, or by a check or claim
//!   that found the lease over and has taken the ID over.
//!
//! From L1 a lock-free check that meets a leased ID always finds `Pending` and comes to ask. From L2 a token
//! whose entry is there still has the right to commit, even after its lease was over.

use std::time::Duration;

use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::lease::{Shard, Token};
use crate::stamp::State;
#[cfg(mutants)]
use crate::sync::is_mutant;
use crate::verdict::Verdict;
use crate::window::Moment;

use super::core::Recorded;
use super::engine::{Engine, Obstacle};
use super::fact::{Fact, Retry};
use super::view::View;

/// Outcome of a claim, before the store's handle is added.
#[derive(Debug)]
pub(crate) enum Claimed {
    Leased(Token),
    Duplicate,
    InFlight(Timestamp),
}

/// What one attempt under the shard's lock came to.
enum Step<T> {
    Done(T),
    /// The lock must be let go to get over this.
    Wait(Obstacle),
}

impl Engine {
    /// Claims one fingerprint.
    pub(crate) fn claim(&self, key: Fingerprint, length: Duration, moment: Moment) -> Result<Claimed> {
        let claimed = match self.claim_within_limit(key, length, moment) {
            Err(Error::LeaseLimit { .. }) if self.leases.sweep(self.clock.now()) > 0 => {
                self.claim_within_limit(key, length, moment)
            }
            outcome => outcome,
        }?;
        // What the claim has met must not be undone by a crash, be it a sighting or that it was forgotten.
        self.acknowledge()?;
        Ok(claimed)
    }

    fn claim_within_limit(&self, key: Fingerprint, length: Duration, moment: Moment) -> Result<Claimed> {
        let now = self.clock.now();
        let until = self.lease_end(now, length);
        self.run_locked(key, moment, |core, shard, view, recorded| {
            let (place, fact) = view.place_and_fact(key)?;
            match fact {
                Fact::Seen(until) if moment.is_live(until) => {
                    view.slide(key, &place, until, moment, recorded)?;
                    return Ok(Ok(Claimed::Duplicate));
                }
                Fact::Pending(..) => {
                    if let Some(holder) = shard.live(key, now) {
                        return Ok(Ok(Claimed::InFlight(holder.until)));
                    }
                }
                _ => {}
            }
            view.state_pending(key, &place, fact, recorded)?;
            Ok(core.leases.grant(shard, key, now, until).map(Claimed::Leased))
        })
    }

    /// A check that met `Pending`: asks who holds the lease, and takes over what is free.
    #[cold]
    pub(crate) fn check_pending(&self, key: Fingerprint, moment: Moment) -> Result<Verdict> {
        let now = self.clock.now();
        self.run_locked(key, moment, |core, shard, view, recorded| {
            let (place, fact) = view.place_and_fact(key)?;
            if !matches!(fact, Fact::Pending(..)) {
                return view.check(key, moment, None, recorded).map(Ok);
            }
            if shard.live(key, now).is_some() {
                return Ok(Ok(Verdict::InFlight));
            }
            let until = moment.deadline.max(fact.floor().saturating_add(1));
            view.record(key, &place, State::Seen, until, recorded)?;
            core.leases.end(shard, key);
            Ok(Ok(Verdict::FirstSeen))
        })
    }

    /// Ends a lease; the ID is free at once. Its slot stays: `Pending` without an entry is free.
    pub(crate) fn abort(&self, token: Token) -> Result<()> {
        let mut shard = self.leases.lock(token.fingerprint());
        let outcome = shard.of_token(token).map(drop);
        if outcome.is_ok() {
            self.leases.end(&mut shard, token.fingerprint());
            #[cfg(mutants)]
            if is_mutant("abort_empties_slot") {
                self.views.load().active.reset(token.fingerprint());
            }
        }
        drop(shard);
        self.count_lost(outcome)
    }

    /// Moves the end of a lease to `length` from now.
    pub(crate) fn extend(&self, token: Token, length: Duration) -> Result<Timestamp> {
        let until = self.lease_end(self.clock.now(), length);
        let outcome = self.leases.lock(token.fingerprint()).of_token(token).map(|holder| {
            holder.until = until;
            until
        });
        self.count_lost(outcome)
    }

    /// Makes a seen ID unseen; false when it was not seen.
    pub(crate) fn forget(&self, key: Fingerprint, moment: Moment) -> Result<bool> {
        let attempt = |view: &View, recorded: &mut Recorded<'_>| {
            let (place, fact) = view.place_and_fact(key)?;
            match fact {
                Fact::Seen(until) if moment.is_live(until) => {
                    view.record(key, &place, State::Forgotten, until, recorded)?;
                    Ok(true)
                }
                // A leased ID is not seen; what its holder commits later comes after this call.
                _ => Ok(false),
            }
        };
        let was_seen = self.run(moment, attempt, || Ok(false))?;
        self.acknowledge()?;
        Ok(was_seen)
    }

    /// Runs `attempt` under the lock of the key's shard until it need not be tried again.
    ///
    /// The lock is kept while the attempt is only told to look again, and let go before any wait.
    pub(super) fn run_locked<T>(
        &self,
        key: Fingerprint,
        moment: Moment,
        mut attempt: impl FnMut(&Engine, &mut Shard, &View, &mut Recorded<'_>) -> Result<Result<T>, Retry>,
    ) -> Result<T> {
        loop {
            match self.try_locked(key, moment, &mut attempt) {
                Step::Done(outcome) => return outcome,
                Step::Wait(obstacle) => self.overcome(obstacle)?,
            }
        }
    }

    fn try_locked<T>(
        &self,
        key: Fingerprint,
        moment: Moment,
        attempt: &mut impl FnMut(&Engine, &mut Shard, &View, &mut Recorded<'_>) -> Result<Result<T>, Retry>,
    ) -> Step<Result<T>> {
        let mut shard = self.leases.lock(key);
        loop {
            let view = self.views.load();
            let mut recorded = self.recorded();
            let outcome = attempt(self, &mut shard, &view, &mut recorded);
            self.settle(&view, moment, &recorded);
            match outcome {
                Ok(outcome) => return Step::Done(outcome),
                Err(Retry::Moved | Retry::Pending) => {}
                Err(retry) => return Step::Wait(Obstacle::new(&view, retry)),
            }
        }
    }

    pub(super) fn count_lost<T>(&self, outcome: Result<T>) -> Result<T> {
        if matches!(outcome, Err(Error::LeaseLost { .. })) {
            self.counters.leases_lost.add(1);
        }
        outcome
    }
}
