//! Group commit: skeleton.

use std::marker::PhantomData;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::storage::Storage;

/// How a log begins, when a store is created and each time it is opened.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    /// Goes into every segment: those of another store are refused.
    pub(crate) store_id: u64,
    /// Number of the first segment to make.
    pub(crate) segment: u64,
    /// Sequence number of the first frame.
    pub(crate) seq: u64,
    /// Length of a segment's file.
    pub(crate) segment_bytes: u64,
    /// How many segments to have ready beside the one that is being written.
    pub(crate) segments_ready: u64,
}

/// What the log did since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogStats {
    pub(crate) bytes_written: u64,
    pub(crate) frames: u64,
    pub(crate) syncs: u64,
    pub(crate) segments: u64,
}

#[derive(Debug)]
pub(crate) struct Log;

/// A place in the log that was reserved before its facts were decided.
#[derive(Debug)]
pub(crate) struct Session<'log>(PhantomData<&'log Log>);

impl Log {
    pub(crate) fn create(_storage: Arc<dyn Storage>, _setup: Setup) -> Result<Log> {
        Ok(Log)
    }

    /// Reserves a place. `None`: the queue is full; call `write_until(position())` with no view held, then
    /// try again. An error: the log is poisoned (so a retry loop ends).
    pub(crate) fn session(&self) -> Result<Option<Session<'_>>> {
        Ok(None)
    }

    pub(crate) fn position(&self) -> u64 {
        0
    }

    pub(crate) fn write_until(&self, _position: u64) -> Result<()> {
        Ok(())
    }

    pub(crate) fn sync_until(&self, _position: u64) -> Result<()> {
        Ok(())
    }

    pub(crate) fn segment(&self) -> u64 {
        0
    }

    pub(crate) fn append_cursors(
        &self,
        _records: &[(Fingerprint, u64)],
        _cursors: &[(&str, u64)],
    ) -> Result<u64> {
        Ok(0)
    }

    pub(crate) fn prepare(&self) -> Result<bool> {
        Ok(false)
    }

    pub(crate) fn remove_below(&self, _segment: u64) -> Result<u64> {
        Ok(0)
    }

    pub(crate) fn fault(&self) -> Option<Error> {
        None
    }

    pub(crate) fn stats(&self) -> LogStats {
        LogStats::default()
    }
}

impl Session<'_> {
    pub(crate) fn push(&mut self, _key: Fingerprint, _fact: u64) {}

    pub(crate) fn is_full(&self) -> bool {
        false
    }

    pub(crate) fn finish(self) -> u64 {
        0
    }
}
