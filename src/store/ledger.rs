//! The log's side of a fact.
//!
//! A place in the log is reserved before the fact is decided, and the fact is stated in it once it was.
//!
//! - J1 Whatever anybody has seen stated in a table has its place below [`Log::position`] as read after that:
//!   the place was reserved before the stamp was written. So a call that waits at its end until the log is
//!   written up to there answers nothing that a kill could undo (G2), be it `FirstSeen` or `Duplicate`.
//! - J2 A session ends before its call lets go of its view. So when nobody holds a view in which a table was
//!   active, all that was decided in that table is in the log, below the position read then.

use crate::fingerprint::Fingerprint;
use crate::stamp::State;
use crate::wal::{Log, Session};

use super::durable::Durable;
use super::fact::Retry;

/// What one call, or one chunk of a batch, has to log. Nothing in a store without a log.
#[derive(Debug, Default)]
pub(crate) struct Ledger<'l> {
    durable: Option<&'l Durable>,
    session: Option<Session<'l>>,
    /// Whether what is stated is in the log already.
    is_logged: bool,
}

impl<'l> Ledger<'l> {
    pub(crate) fn new(durable: Option<&'l Durable>) -> Ledger<'l> {
        Ledger { durable, session: None, is_logged: false }
    }

    /// What is stated from now on is in the log already. In a store that is being closed it is refused all
    /// the same: the log goes, and a table that is stated in now is not sealed any more.
    pub(crate) fn is_logged_already(&mut self) {
        self.is_logged = true;
    }

    /// Sees to a place for one more fact (J1); refuses it in a store that is being closed.
    #[inline]
    pub(crate) fn reserve(&mut self) -> Result<(), Retry> {
        match self.durable {
            None => Ok(()),
            Some(durable) => self.reserve_in(durable),
        }
    }

    #[inline]
    fn reserve_in(&mut self, durable: &'l Durable) -> Result<(), Retry> {
        if durable.is_closed() {
            return Err(Retry::Closed);
        }
        if self.is_logged {
            return Ok(());
        }
        match (&self.session, durable.log()) {
            (_, None) => Ok(()),
            (Some(session), _) if !session.is_full() => Ok(()),
            (_, Some(log)) => self.reserve_session(log),
        }
    }

    fn reserve_session(&mut self, log: &'l Log) -> Result<(), Retry> {
        // The full one ends first: whoever waits for room must not hold any.
        if let Some(full) = self.session.take() {
            full.finish();
        }
        // After a failure there is none either: whoever then drains the log is told.
        self.session = Some(log.session().ok().flatten().ok_or(Retry::Unlogged)?);
        Ok(())
    }

    /// States a fact that was decided just now, in the place that was reserved.
    #[inline]
    pub(crate) fn state(&mut self, key: Fingerprint, state: State, until: u64) {
        if let Some(session) = &mut self.session {
            session.push(key, logged(state, until));
        }
    }
}

/// A fact as the log has it: it only grows, in the order of [`crate::stamp`].
#[inline]
pub(crate) fn logged(state: State, until: u64) -> u64 {
    until << 2 | state as u64
}
