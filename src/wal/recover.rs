//! The tail rule: skeleton.

use crate::error::Result;
use crate::fingerprint::Fingerprint;
use crate::storage::Storage;

/// One fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) key: Fingerprint,
    /// `absolute version << 2 | state`.
    pub(crate) fact: u64,
}

/// Where an earlier recovery ended the log: `segment` ends at `offset`, the log goes on in `resumes_at`.
/// Segments in between are ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    pub(crate) segment: u64,
    pub(crate) offset: u64,
    pub(crate) resumes_at: u64,
}

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Recovered {
    /// For [`Setup`](super::Setup): the first number that no file has.
    pub(crate) next_segment: u64,
    /// For [`Setup`](super::Setup).
    pub(crate) next_seq: u64,
    pub(crate) records: u64,
    pub(crate) frames: u64,
    /// To be kept with the earlier cuts before anything that is written after this is acknowledged.
    pub(crate) cut: Option<Cut>,
    /// Whole frames behind the cut, none of which was acknowledged as synced.
    pub(crate) discarded_frames: u64,
}

pub(crate) fn recover(
    _storage: &dyn Storage,
    _store_id: u64,
    _from: u64,
    _cuts: &[Cut],
    _apply: &mut dyn FnMut(&[Record]),
    _cursor: &mut dyn FnMut(&str, u64),
    _progress: &mut dyn FnMut(u64, u64),
) -> Result<Recovered> {
    Ok(Recovered { next_segment: 0, next_seq: 0, records: 0, frames: 0, cut: None, discarded_frames: 0 })
}
