//! What a claim gives the caller: a lease that ends when it is dropped.

use std::time::Duration;

use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::lease::Token;

use super::claim::Claimed;
use super::handle::Handle;

/// Outcome of [`Store::claim`](crate::Store::claim).
#[must_use = "a lease that is dropped at once frees the ID again"]
#[derive(Debug)]
pub enum Claim {
    /// The ID is the caller's: do the work, then commit.
    Leased(Lease),
    /// The ID was seen before: the work is done.
    Duplicate,
    /// Somebody else holds a lease.
    InFlight {
        /// The first moment at which that lease is over, unless it is extended.
        until: Timestamp,
    },
}

/// The right to do the work for one ID.
///
/// Dropping it frees the ID for others, as [`Lease::abort`] does. [`Lease::into_token`] turns it into a
/// plain value that outlives the handle.
#[must_use = "a lease that is dropped at once frees the ID again"]
#[derive(Debug)]
pub struct Lease {
    engine: Handle,
    token: Token,
    is_held: bool,
}

impl Claim {
    pub(crate) fn new(engine: &Handle, claimed: &Claimed) -> Claim {
        match *claimed {
            Claimed::Leased(token) => Claim::Leased(Lease { engine: engine.clone(), token, is_held: true }),
            Claimed::Duplicate => Claim::Duplicate,
            Claimed::InFlight(until) => Claim::InFlight { until },
        }
    }

    /// The lease, if that is what was given.
    #[must_use]
    pub fn into_lease(self) -> Option<Lease> {
        match self {
            Claim::Leased(lease) => Some(lease),
            Claim::Duplicate | Claim::InFlight { .. } => None,
        }
    }
}

impl Lease {
    /// Records the ID as seen and ends the lease. What the caller did before is visible to whoever is told
    /// that the ID is a duplicate.
    ///
    /// # Errors
    ///
    /// [`Error::LeaseLost`] when somebody else has taken the ID over after the lease was over: nothing is
    /// changed. After any other error (as of [`Store::check`](crate::Store::check)) the ID is free again.
    pub fn commit(mut self) -> Result<()> {
        let outcome = self.engine.moment(None).and_then(|moment| self.engine.commit(self.token, moment));
        self.is_held = !matches!(outcome, Ok(()) | Err(Error::LeaseLost { .. }));
        outcome
    }

    /// Frees the ID for others at once.
    ///
    /// # Errors
    ///
    /// [`Error::LeaseLost`] when somebody else has taken the ID over: nothing is changed.
    pub fn abort(mut self) -> Result<()> {
        self.is_held = false;
        self.engine.abort(self.token)
    }

    /// Moves the end of the lease to `lease` from now, and returns it.
    ///
    /// # Errors
    ///
    /// [`Error::LeaseLost`] when somebody else has taken the ID over.
    pub fn extend(&mut self, lease: Duration) -> Result<Timestamp> {
        self.engine.extend(self.token, lease)
    }

    /// The token of the lease, which stays with this handle.
    #[must_use]
    pub const fn token(&self) -> Token {
        self.token
    }

    /// Lets go of a lease that was committed.
    fn release(mut self) {
        self.is_held = false;
    }

    /// Gives up the handle and keeps the lease: it ends by token, or when it is over.
    #[must_use = "without the token nobody can commit"]
    pub fn into_token(mut self) -> Token {
        self.is_held = false;
        self.token
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.is_held {
            // Somebody else may have taken over; then there is nothing to free.
            let _ = self.engine.abort(self.token);
        }
    }
}

/// Outcomes of [`Store::claim_batch`](crate::Store::claim_batch), in the order of the batch.
#[must_use = "leases that are dropped at once free their IDs again"]
#[derive(Debug)]
pub struct ClaimBatch {
    engine: Handle,
    claims: Vec<Claim>,
}

impl ClaimBatch {
    pub(crate) fn new(engine: &Handle, claims: Vec<Claim>) -> ClaimBatch {
        ClaimBatch { engine: engine.clone(), claims }
    }

    /// All outcomes, one for each ID.
    pub fn claims(&self) -> &[Claim] {
        &self.claims
    }

    /// Indices of the IDs that are the caller's to work on.
    pub fn leased(&self) -> impl Iterator<Item = usize> {
        self.claims
            .iter()
            .enumerate()
            .filter(|(_, claim)| matches!(claim, Claim::Leased(_)))
            .map(|(index, _)| index)
    }

    /// Commits all leases as one frame of the log; returns how many.
    ///
    /// # Errors
    ///
    /// [`Error::Partial`] with the index of the first ID whose commit failed and the cause; leases before it
    /// are committed, its own and those behind it are freed. After an [`Error::Io`] all are freed, and which
    /// are committed is known once the store was opened anew.
    pub fn commit(self) -> Result<usize> {
        self.commit_with(&[])
    }

    /// The same, and sets named cursors together with it, say how far a partition was consumed: after a
    /// crash either all of the batch and its cursors are there or nothing of it.
    ///
    /// [`Store::cursor`](crate::Store::cursor) reads them. The batch may be without leases.
    ///
    /// # Errors
    ///
    /// As [`ClaimBatch::commit`], but in a store with a log nothing is committed when a lease was lost; and
    /// [`Error::Cursor`].
    pub fn commit_with(self, cursors: &[(&str, u64)]) -> Result<usize> {
        self.engine.cursors.validate(cursors)?;
        let (mut leases, mut indices) = (Vec::new(), Vec::new());
        for (index, claim) in self.claims.into_iter().enumerate() {
            if let Claim::Leased(lease) = claim {
                leases.push(lease);
                indices.push(index);
            }
        }
        let tokens: Vec<Token> = leases.iter().map(Lease::token).collect();
        let moment = self.engine.moment(None)?;
        match self.engine.commit_batch(&tokens, cursors, moment) {
            Ok(committed) => {
                leases.into_iter().for_each(Lease::release);
                Ok(committed)
            }
            Err(Error::Partial { answered, cause }) => {
                if matches!(*cause, Error::LeaseLost { .. }) {
                    // Nothing to free, and counted as lost already.
                    leases.remove(answered).release();
                }
                if cursors.is_empty() || self.engine.durable.is_none() {
                    leases.drain(..answered).for_each(Lease::release);
                }
                let answered = indices.get(answered).copied().unwrap_or(answered);
                Err(Error::Partial { answered, cause })
            }
            Err(error) => Err(error),
        }
    }

    /// Frees all leases; returns how many were still held.
    pub fn abort(self) -> usize {
        self.claims.into_iter().filter_map(Claim::into_lease).filter_map(|lease| lease.abort().ok()).count()
    }

    /// The outcomes one by one, for callers that commit each on its own.
    #[must_use]
    pub fn into_claims(self) -> Vec<Claim> {
        self.claims
    }
}
