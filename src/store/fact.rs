//! What the tables of a store know of an ID, and why a call may have to ask again.

use crate::fingerprint::Fingerprint;
use crate::stamp::{Stamp, State};
use crate::table::{Probe, Table};

/// What is known of an ID, in ticks that all tables of a store share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fact {
    /// Nothing.
    None,
    /// Seen until a tick, which may be over.
    Seen(u64),
    /// Was seen until a tick, and forgotten.
    Forgotten(u64),
    /// Somebody holds, or held, a lease.
    Pending(Stamp, u64),
}

/// Why a call must go on under another view.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Retry {
    /// A stamp was closed, or another call was faster: look again in the present view.
    Moved,
    /// No room in the active or the closing table: wait for the next view.
    Crowded,
    /// The active table was born too long ago to state this version: wait for the next one.
    Outdated,
    /// The ID is pending: ask the lease table.
    Pending,
    /// The log's queue is full: let the view go and write it out.
    Unlogged,
    /// A file could not be read, or is damaged: the view says which.
    Unreadable,
    /// The store is being closed.
    Closed,
}

impl Fact {
    /// The fact that a stamp of `table` states.
    #[inline]
    pub(crate) fn of(table: &Table, stamp: Stamp) -> Fact {
        match stamp.state() {
            State::Undecided => Fact::None,
            State::Seen => Fact::Seen(table.until(stamp)),
            State::Forgotten => Fact::Forgotten(table.until(stamp)),
            State::Pending => Fact::Pending(stamp, table.until(stamp)),
        }
    }

    /// What a table that is not written any more knows of a key.
    #[inline]
    pub(crate) fn in_table(table: &Table, key: Fingerprint) -> Fact {
        match table.find(key) {
            Probe::Hit(cell) => Fact::of(table, cell.load().fact()),
            Probe::Miss(_) | Probe::Exhausted => Fact::None,
        }
    }

    /// The version that a new fact of the ID must exceed; zero if any will do.
    ///
    /// A pending stamp is read as what it was before the claim: nothing, or forgotten one version earlier.
    #[inline]
    pub(crate) fn floor(self) -> u64 {
        match self {
            Fact::None => 0,
            Fact::Seen(until) | Fact::Forgotten(until) => until,
            Fact::Pending(stamp, until) if stamp.version() > 0 => until - 1,
            Fact::Pending(..) => 0,
        }
    }
}
