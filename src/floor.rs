//! The floor that the benches measure against: a hash and one prefetched line touch for each ID.

use crate::error::Result;
use crate::fingerprint::{Fingerprint, Hash, Hasher, Secret};
use crate::limits::LOAD_EXPECTED_PERCENT;
use crate::table::{Probe, Table, lines_for, reserve, touch};

/// A table of the size that a store would have, and nothing done with it but reading one line for each ID.
///
/// No part of the public interface.
#[derive(Debug)]
pub struct Floor {
    hasher: Hasher,
    table: Table,
}

impl Floor {
    /// For `ids` IDs, touched.
    ///
    /// # Errors
    ///
    /// [`Error::System`](crate::Error::System) when there is no memory or randomness.
    pub fn new(ids: u64) -> Result<Floor> {
        let memory = reserve(lines_for(ids, LOAD_EXPECTED_PERCENT))?;
        touch(&memory, 0, memory.len() as u64);
        Ok(Floor { hasher: Hasher::new(Hash::Xxh3, Secret::random()?), table: Table::new(memory, 0) })
    }

    /// The hash of an ID.
    #[inline]
    pub fn hash(&self, id: &[u8]) -> Option<Fingerprint> {
        self.hasher.fingerprint_if_taken(id)
    }

    /// Asks for the line of a key.
    #[inline]
    pub fn prefetch(&self, key: Fingerprint) {
        self.table.prefetch(key);
    }

    /// Reads the line of a key; nothing is in the table.
    #[inline]
    #[must_use]
    pub fn touch(&self, key: Fingerprint) -> bool {
        matches!(self.table.find(key), Probe::Miss(_))
    }
}
