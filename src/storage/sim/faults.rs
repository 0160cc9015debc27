//! What goes wrong on the simulated disk, and when: operations are counted, and some of them fail.

use std::collections::BTreeMap;
use std::io;

/// A kind of operation on a [`SimDisk`](super::SimDisk) or a file of it.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Op {
    /// [`Storage::list`](crate::storage::Storage::list).
    List,
    /// Opening a file that exists.
    Open,
    /// Creating a file.
    Create,
    /// Renaming a file.
    Rename,
    /// Removing a file.
    Remove,
    /// Syncing the directory.
    SyncDir,
    /// Locking a file.
    Lock,
    /// Asking for the length of a file.
    Size,
    /// Reading once.
    Read,
    /// Writing once.
    Write,
    /// Reserving blocks.
    Allocate,
    /// Syncing a file.
    Sync,
    /// Mapping a file.
    Map,
}

/// An operation that is to fail.
///
/// A write that fails may leave a first part of its bytes. After a sync that failed what it did not write is
/// taken for written: later syncs pass it by. All else that fails changes nothing.
#[derive(Clone, Debug)]
pub struct Fault {
    /// Which operation from now on: 0 is the next one. Only those that `only` names count.
    pub at: u64,
    /// What the operation fails with.
    pub kind: io::ErrorKind,
    /// Whether all operations after that one fail too.
    pub is_sticky: bool,
    /// The only kind of operation that fails; `None` for all kinds.
    pub only: Option<Op>,
}

/// Counts operations and lets them fail.
#[derive(Clone, Debug, Default)]
pub(super) struct Faults {
    counts: BTreeMap<Op, u64>,
    open: Vec<Fault>,
}

impl Faults {
    pub(super) fn add(&mut self, fault: Fault) {
        self.open.push(fault);
    }

    pub(super) fn clear(&mut self) {
        self.open.clear();
    }

    pub(super) fn count(&self) -> u64 {
        self.counts.values().sum()
    }

    pub(super) fn count_of(&self, op: Op) -> u64 {
        self.counts.get(&op).copied().unwrap_or(0)
    }

    /// Counts an operation; an error if it is to fail.
    pub(super) fn begin(&mut self, op: Op) -> io::Result<()> {
        *self.counts.entry(op).or_default() += 1;
        let mut failure = None;
        self.open.retain_mut(|fault| {
            if fault.only.is_some_and(|only| only != op) {
                return true;
            }
            if fault.at > 0 {
                fault.at -= 1;
                return true;
            }
            failure = Some(fault.kind);
            fault.is_sticky
        });
        failure.map_or(Ok(()), |kind| Err(io::Error::new(kind, "a fault that a test asked for")))
    }
}
