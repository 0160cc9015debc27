//! Commits: from a lease to `Seen`, as durable as promised before anybody can see it (G3).
//!
//! Without a log a commit is one transition under the shard's lock. With a log no lock may be held during
//! I/O, so it takes three steps:
//!
//! 1. under the lock: the token is checked and its lease marked *committing*: from then on it can't be taken
//!    over, extended or aborted;
//! 2. without a lock: the fact is logged, and waited for;
//! 3. under the lock: `Pending` becomes `Seen` in the active table, and the lease ends.
//!
//! Between 2 and 3 the log may have moved on so far that the fact's segment goes with an older table than the
//! one that step 3 states it in. A view knows the segment from which on its active table is logged; when the
//! fact was logged before that, it is logged again.

use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::lease::Token;
use crate::stamp::State;
use crate::window::Moment;

use super::durable::Durable;
use super::engine::Engine;
use super::fact::Fact;
use super::ledger::logged;

/// Commits that one frame of the log has room for, in the smallest segment.
const COMMITS_PER_FRAME: usize = 1 << 8;

/// A commit that is under way.
#[derive(Clone, Copy, Debug)]
struct Committing {
    token: Token,
    until: u64,
}

impl Engine {
    /// Makes a leased ID seen and ends the lease.
    pub(crate) fn commit(&self, token: Token, moment: Moment) -> Result<()> {
        match &self.durable {
            None => self.commit_at_once(token, moment),
            Some(durable) => match self.commit_logged(durable, &[token], &[], moment) {
                Ok(_) => Ok(()),
                Err(Error::Partial { cause, .. }) => Err(*cause),
                Err(error) => Err(error),
            },
        }
    }

    /// Makes all leased IDs of a batch seen, with named cursors in the same frame of the log.
    ///
    /// # Errors
    ///
    /// [`Error::Partial`] with the index of the first token that was refused. Those before it are committed,
    /// but with a log and cursors nothing is: a cursor stands for all of its batch.
    pub(crate) fn commit_batch(
        &self,
        tokens: &[Token],
        cursors: &[(&str, u64)],
        moment: Moment,
    ) -> Result<usize> {
        match &self.durable {
            Some(durable) => self.commit_logged(durable, tokens, cursors, moment),
            None => {
                for (index, token) in tokens.iter().enumerate() {
                    self.commit_at_once(*token, moment)
                        .map_err(|cause| Error::Partial { answered: index, cause: Box::new(cause) })?;
                }
                self.cursors.set(cursors, 0);
                Ok(tokens.len())
            }
        }
    }

    fn commit_at_once(&self, token: Token, moment: Moment) -> Result<()> {
        let key = token.fingerprint();
        let outcome = self.run_locked(key, moment, |core, shard, view, recorded| {
            if let Err(lost) = shard.of_token(token) {
                return Ok(Err(lost));
            }
            let (place, fact) = view.place_and_fact(key)?;
            if matches!(fact, Fact::Seen(until) if moment.is_live(until)) {
                // Only a planted fault or a merge with another store gets here: somebody else decided.
                core.leases.end(shard, key);
                return Ok(Err(Error::LeaseLost { attempt: token.attempt() }));
            }
            let until = moment.deadline.max(fact.floor().saturating_add(1));
            view.record(key, &place, State::Seen, until, recorded)?;
            core.leases.end(shard, key);
            Ok(Ok(()))
        });
        self.count_lost(outcome)
    }

    fn commit_logged(
        &self,
        durable: &Durable,
        tokens: &[Token],
        cursors: &[(&str, u64)],
        moment: Moment,
    ) -> Result<usize> {
        let mut begun = Vec::with_capacity(tokens.len());
        let mut refused = None;
        for token in tokens {
            match self.begin_commit(*token, moment) {
                Ok(committing) => begun.push(committing),
                Err(cause) => {
                    refused = Some(Error::Partial { answered: begun.len(), cause: Box::new(cause) });
                    break;
                }
            }
        }
        match refused {
            None => self.carry_through(durable, begun, cursors, moment).map(|()| tokens.len()),
            Some(error) if cursors.is_empty() => {
                self.carry_through(durable, begun, &[], moment)?;
                Err(error)
            }
            Some(error) => {
                self.give_up(&begun);
                Err(error)
            }
        }
    }

    /// Steps 2 and 3, again for those whose segment of the log has become too old meanwhile.
    ///
    /// Cursors are set last, so that no manifest names one before its facts are stated, in the order of the
    /// log; should their frame be too old by then, those that nobody has set meanwhile are logged again.
    fn carry_through(
        &self,
        durable: &Durable,
        mut begun: Vec<Committing>,
        cursors: &[(&str, u64)],
        moment: Moment,
    ) -> Result<()> {
        let mut cursors = cursors.to_vec();
        while !begun.is_empty() || !cursors.is_empty() {
            let segment = self.log_segment();
            let position = match log_facts(durable, &begun, &cursors) {
                Ok(position) => position,
                Err(error) => {
                    self.give_up(&begun);
                    return Err(error);
                }
            };
            begun = self.end_commits(&begun, segment, moment)?;
            if !begun.is_empty() {
                continue;
            }
            self.cursors.set(&cursors, position);
            if !cursors.is_empty() && durable.is_closed() {
                // The last manifest may have been written before.
                return Err(Error::Closed);
            }
            // A later rotation publishes its view before any manifest goes without that segment, and that
            // manifest names the cursors.
            if self.views.load().log_from <= segment {
                return Ok(());
            }
            cursors = self.cursors.logged_last(&cursors, position);
        }
        Ok(())
    }

    /// Step 1.
    fn begin_commit(&self, token: Token, moment: Moment) -> Result<Committing> {
        let key = token.fingerprint();
        let outcome = self.run_locked(key, moment, |core, shard, view, _| {
            if let Err(lost) = shard.of_token(token) {
                return Ok(Err(lost));
            }
            let (_, fact) = view.place_and_fact(key)?;
            if matches!(fact, Fact::Seen(until) if moment.is_live(until)) {
                core.leases.end(shard, key);
                return Ok(Err(Error::LeaseLost { attempt: token.attempt() }));
            }
            let until = moment.deadline.max(fact.floor().saturating_add(1));
            shard.mark_committing(token);
            Ok(Ok(Committing { token, until }))
        });
        self.count_lost(outcome)
    }

    /// Step 3 for each; returns those whose fact must be logged again.
    fn end_commits(&self, begun: &[Committing], segment: u64, moment: Moment) -> Result<Vec<Committing>> {
        let mut left = Vec::new();
        for (index, committing) in begun.iter().enumerate() {
            match self.end_commit(*committing, segment, moment) {
                Ok(true) => {}
                Ok(false) => left.push(*committing),
                Err(error) => {
                    self.give_up(&begun[index..]);
                    self.give_up(&left);
                    return Err(error);
                }
            }
        }
        Ok(left)
    }

    /// Step 3; false when the active table's part of the log begins behind `segment`.
    fn end_commit(&self, committing: Committing, segment: u64, moment: Moment) -> Result<bool> {
        let key = committing.token.fingerprint();
        self.run_locked(key, moment, |core, shard, view, recorded| {
            let (place, _) = view.place_and_fact(key)?;
            if view.log_from > segment {
                return Ok(Ok(false));
            }
            recorded.is_logged_already();
            view.record(key, &place, State::Seen, committing.until, recorded)?;
            core.leases.end(shard, key);
            Ok(Ok(true))
        })
    }

    /// Lets go of leases whose commit has failed: they are as they were before.
    fn give_up(&self, begun: &[Committing]) {
        for committing in begun {
            self.leases.lock(committing.token.fingerprint()).unmark_committing(committing.token);
        }
    }
}

/// Step 2: one frame, or several where no cursor ties a very large batch together; where in the log they end.
fn log_facts(durable: &Durable, begun: &[Committing], cursors: &[(&str, u64)]) -> Result<u64> {
    let Some(log) = durable.log() else { return Ok(0) };
    let records: Vec<(Fingerprint, u64)> = begun
        .iter()
        .map(|committing| (committing.token.fingerprint(), logged(State::Seen, committing.until)))
        .collect();
    let append = |records: &[_]| match log.append_cursors(records, cursors) {
        Ok(position) => Ok(position),
        // Refused before anything was written.
        Err(error @ Error::CommitSize { .. }) => Err(error),
        Err(error) => Err(durable.poison_unlocked(error)),
    };
    let position = match append(&records) {
        Err(Error::CommitSize { .. }) if cursors.is_empty() => {
            records.chunks(COMMITS_PER_FRAME).try_fold(0, |_, records| append(records))?
        }
        outcome => outcome?,
    };
    durable.acknowledge()?;
    Ok(position)
}
