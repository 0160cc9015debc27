//! Stands in until the real map is merged.

use std::ops::Deref;

/// A read-only view of a file.
#[derive(Debug)]
pub struct Map(Vec<u8>);

impl Map {
    pub(crate) fn of(bytes: Vec<u8>) -> Map {
        Map(bytes)
    }
}

impl Deref for Map {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}
