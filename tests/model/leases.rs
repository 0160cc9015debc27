//! The part of a sequence that has to do with leases: by handle, by batch, by token.

use std::time::Duration;

use firstseen::{Claim, ClaimBatch, Error, Result, Timestamp, Token};

use crate::coverage::Event;
use crate::ops::{After, Id, Length, Use};
use crate::run::{Outcome, Run, name, same, told};
use crate::twin::{Entry, Expected, Held, Moment};

impl Run<'_> {
    pub(crate) fn compare_claim(&mut self, id: Id, at: Moment, lease: Duration, claim: &Claim) -> Outcome {
        let expected = self.twin.claim(id, at, matches!(claim, Claim::Duplicate));
        let given = match claim {
            Claim::Leased(_) => Expected::Leased,
            Claim::Duplicate => Expected::Duplicate,
            Claim::InFlight { until } => Expected::InFlight(until.as_millis()),
        };
        same("claim", &given, &expected)?;
        let Claim::Leased(handle) = claim else { return Ok(()) };
        if self.twin.entries[&id].lease.is_some() {
            self.coverage.hit(Event::ClaimTakeover);
        }
        let token = handle.token();
        if token.attempt() <= self.twin.attempt_last {
            return Err(format!("attempt {} is not new", token.attempt()));
        }
        same("fingerprint", &token.fingerprint(), &told(self.store.fingerprint(name(id)))?)?;
        let until_ms = at.clock_ms + u64::try_from(lease.as_millis()).unwrap();
        self.twin.lease(id, Held { attempt: token.attempt(), until_ms });
        self.tokens.push((id, token));
        Ok(())
    }

    pub(crate) fn claim_batch(&mut self, ids: &[Id], length: Length, after: After) -> Outcome {
        let (at, lease) = (self.moment(), self.lease_length(length));
        let names: Vec<String> = ids.iter().map(|id| name(*id)).collect();
        let batch = told(self.store.claim_batch(&names, lease))?;
        same("claims", &batch.claims().len(), &ids.len())?;
        for (id, claim) in ids.iter().zip(batch.claims()) {
            self.compare_claim(*id, at, lease, claim)?;
        }
        let leased: Vec<Id> = batch.leased().map(|index| ids[index]).collect();
        let attempts = attempts(&batch);
        match after {
            After::Keep => self.batches.push((ids.to_vec(), batch)),
            After::Commit => self.commit_batch(ids, batch)?,
            After::Split => {
                let leases = batch.into_claims().into_iter().filter_map(Claim::into_lease);
                self.handles.extend(leased.into_iter().zip(leases));
            }
            After::Abort | After::Drop => {
                let held: Vec<_> = leased.iter().zip(attempts.into_iter().flatten()).collect();
                let ended = held.into_iter().filter(|(id, attempt)| self.twin.end(**id, *attempt)).count();
                if let After::Abort = after {
                    same("aborted", &batch.abort(), &ended)?;
                }
            }
        }
        Ok(())
    }

    /// Commits in order; the first lease that was lost ends it, and what is behind is freed.
    pub(crate) fn commit_batch(&mut self, ids: &[Id], batch: ClaimBatch) -> Outcome {
        let at = self.moment();
        let attempts = attempts(&batch);
        let given = batch.commit();
        let mut expected = Ok(0);
        for (index, (id, attempt)) in ids.iter().zip(attempts).enumerate() {
            let Some(attempt) = attempt else { continue };
            let entry = self.twin.held(*id, attempt);
            match (&mut expected, entry) {
                (Ok(committed), Some(entry)) => {
                    entry.see(at);
                    entry.lease = None;
                    *committed += 1;
                }
                (Ok(_), None) => {
                    let cause = Box::new(Error::LeaseLost { attempt });
                    expected = Err(Error::Partial { answered: index, cause });
                }
                (Err(_), entry) => entry.into_iter().for_each(|entry| entry.lease = None),
            }
        }
        same("commit of a batch", &given, &expected)
    }

    pub(crate) fn use_handle(&mut self, index: u8, usage: Use) -> Outcome {
        if self.handles.is_empty() {
            return Ok(());
        }
        let index = usize::from(index) % self.handles.len();
        if let Use::Extend(length) = usage {
            let lease = self.lease_length(length);
            let (id, handle) = &mut self.handles[index];
            let (id, attempt, given) = (*id, handle.token().attempt(), handle.extend(lease));
            return self.compare_extend(id, attempt, lease, &given);
        }
        let (id, handle) = self.handles.remove(index);
        let attempt = handle.token().attempt();
        match usage {
            Use::Commit => {
                let at = self.moment();
                let given = handle.commit();
                self.compare_commit(id, attempt, at, &given)
            }
            Use::Abort => {
                let given = handle.abort();
                self.compare_abort(id, attempt, &given)
            }
            Use::Drop => {
                drop(handle);
                self.twin.end(id, attempt);
                Ok(())
            }
            Use::IntoToken | Use::Extend(_) => {
                let token = handle.into_token();
                same("attempt of a token", &token.attempt(), &attempt)
            }
        }
    }

    pub(crate) fn use_token(&mut self, age: u8, usage: Use) -> Outcome {
        if self.tokens.is_empty() {
            return Ok(());
        }
        let index = self.tokens.len() - 1 - usize::from(age) % self.tokens.len();
        let (id, token) = self.tokens[index];
        let token = Token::from_parts(token.fingerprint(), token.attempt());
        match usage {
            Use::Commit => {
                let at = self.moment();
                self.compare_commit(id, token.attempt(), at, &self.store.commit(token))
            }
            Use::Abort => self.compare_abort(id, token.attempt(), &self.store.abort(token)),
            Use::Extend(length) => {
                let lease = self.lease_length(length);
                self.compare_extend(id, token.attempt(), lease, &self.store.extend(token, lease))
            }
            Use::Drop | Use::IntoToken => {
                self.tokens.remove(index);
                Ok(())
            }
        }
    }

    fn compare_commit(&mut self, id: Id, attempt: u64, at: Moment, given: &Result<()>) -> Outcome {
        let expected = match self.twin.held(id, attempt) {
            None => Err(Error::LeaseLost { attempt }),
            Some(entry) => {
                if entry.live_lease(at.clock_ms).is_none() {
                    self.coverage.hit(Event::LateCommit);
                }
                entry.see(at);
                entry.lease = None;
                Ok(())
            }
        };
        same("commit", given, &expected)
    }

    fn compare_abort(&mut self, id: Id, attempt: u64, given: &Result<()>) -> Outcome {
        let is_held = self.twin.end(id, attempt);
        let expected = if is_held { Ok(()) } else { Err(Error::LeaseLost { attempt }) };
        same("abort", given, &expected)
    }

    fn compare_extend(
        &mut self,
        id: Id,
        attempt: u64,
        lease: Duration,
        given: &Result<Timestamp>,
    ) -> Outcome {
        let until = self.clock.now().saturating_add(lease);
        let held = self.twin.held(id, attempt);
        let extend = |entry: &mut Entry| {
            entry.lease = Some(Held { attempt, until_ms: until.as_millis() });
            until
        };
        let expected = held.map(extend).ok_or(Error::LeaseLost { attempt });
        same("extend", given, &expected)
    }
}

/// The attempt numbers of a batch, one for each ID.
fn attempts(batch: &ClaimBatch) -> Vec<Option<u64>> {
    let attempt =
        |claim: &Claim| if let Claim::Leased(lease) = claim { Some(lease.token().attempt()) } else { None };
    batch.claims().iter().map(attempt).collect()
}
