//! Everything that is known of one ID, for people.

use std::fmt;

use crate::bloom::Mask;
use crate::clock::Timestamp;
use crate::error::Result;
use crate::fingerprint::Fingerprint;
use crate::stamp::{Stamp, State};
use crate::table::{Probe, Table};

use super::engine::Engine;
use super::fact::{Fact, Retry};
use super::sealed::Sealed;
use super::view::Older;

/// What one table says about an ID.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Known {
    /// The filter says that the ID is not there; the table was not asked.
    Screened,
    /// The ID is not in the table.
    Absent,
    /// The ID has a slot but nothing is known.
    Undecided,
    /// A lease is, or was, held.
    Pending,
    /// Seen; `until` is the end of the window, `None` in a store that never forgets.
    Seen {
        /// End of the window.
        until: Option<Timestamp>,
    },
    /// Was seen and is forgotten.
    Forgotten,
}

/// Outcome of [`Store::explain`](super::Store::explain).
#[non_exhaustive]
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Explanation {
    /// Fingerprint of the ID in this store.
    pub fingerprint: Fingerprint,
    /// Whether the ID is seen and its window is not over.
    pub is_seen: bool,
    /// The holder's attempt number and the end of the lease, if one is held.
    pub lease: Option<(u64, Timestamp)>,
    /// What each table says, newest first, with the table's role: the first that knows something answers.
    pub tables: Vec<(&'static str, Known)>,
}

impl Engine {
    pub(crate) fn explain(&self, key: Fingerprint) -> Result<Explanation> {
        let moment = self.moment(None)?;
        let lease = self.leases.lock(key).live(key, self.clock.now());
        let view = self.views.load();
        let mut tables = vec![("active", self.known(&view.active, key))];
        tables.extend(view.closing.iter().map(|closing| ("closing", self.known(&closing.table, key))));
        tables.extend(view.older.iter().map(|older| ("frozen", self.known_older(older, key))));
        tables.extend(view.kept.iter().map(|kept| ("kept", self.known_older(kept, key))));
        for sealed in &view.sealed {
            let known = self.known_sealed(sealed, key).map_err(|_| view.damage())?;
            tables.push(("generation", known));
        }
        drop(view);
        Ok(Explanation {
            fingerprint: key,
            is_seen: self.contains(key, moment)?,
            lease: lease.map(|holder| (holder.attempt, holder.until)),
            tables,
        })
    }

    fn known_older(&self, older: &Older, key: Fingerprint) -> Known {
        if older.may_contain(key, Mask::of(key)) { self.known(&older.table, key) } else { Known::Screened }
    }

    fn known_sealed(&self, sealed: &Sealed, key: Fingerprint) -> Result<Known, Retry> {
        if !sealed.may_contain(key, Mask::of(key)) {
            return Ok(Known::Screened);
        }
        Ok(match sealed.fact(key)? {
            Fact::None | Fact::Pending(..) => Known::Absent,
            Fact::Forgotten(_) => Known::Forgotten,
            Fact::Seen(until) => self.known_seen(until),
        })
    }

    fn known(&self, table: &Table, key: Fingerprint) -> Known {
        match table.find(key) {
            Probe::Hit(cell) => self.known_stamp(table, cell.load().fact()),
            Probe::Miss(_) | Probe::Exhausted => Known::Absent,
        }
    }

    fn known_stamp(&self, table: &Table, stamp: Stamp) -> Known {
        match stamp.state() {
            State::Undecided => Known::Undecided,
            State::Pending => Known::Pending,
            State::Forgotten => Known::Forgotten,
            State::Seen => self.known_seen(table.until(stamp)),
        }
    }

    fn known_seen(&self, until: u64) -> Known {
        Known::Seen { until: (!self.span.is_forever()).then(|| self.span.time_of(until)) }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seen = if self.is_seen { "seen" } else { "not seen" };
        write!(f, "{:?}: {seen}", self.fingerprint)?;
        if let Some((attempt, until)) = self.lease {
            write!(f, "; leased by attempt {attempt} until {} ms", until.as_millis())?;
        }
        for (role, known) in &self.tables {
            write!(f, "\n  {role}: {known:?}")?;
        }
        Ok(())
    }
}
