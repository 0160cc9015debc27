//! Stands in until the real map is merged.

use std::ops::{Deref, Range};

use crate::sync::Arc;

/// A read-only view of a file.
#[derive(Clone, Debug)]
pub struct Map(Arc<[u8]>);

impl Map {
    pub(crate) fn of_bytes(bytes: impl Into<Arc<[u8]>>) -> Map {
        Map(bytes.into())
    }

    pub(crate) fn advise_random(&self) {}

    pub(crate) fn will_need(&self, _range: Range<usize>) {}
}

impl Deref for Map {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}
