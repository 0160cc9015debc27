//! Group commit: one caller writes and syncs for all that wait.
//!
//! A caller reserves a place in the queue before it decides anything ([`Log::session`]), leaves the facts it
//! decided there, and waits at the end for all that had been reserved by then ([`Log::position`]): its own
//! facts, and those of others whose decisions it has seen. Waiting means doing:
//!
//! - Writing ([`Log::write_until`]): whoever gets the writer's lock puts everything that is complete into one
//!   frame and writes it with one call. The others find themselves covered when they get the lock.
//! - Syncing ([`Log::sync_until`]): whoever finds nobody at it writes what is there, notes how far that
//!   goes, lets go of the writer's lock and syncs. Meanwhile others reserve, write and line up; when the
//!   sync is over all of them are woken, those it covered return, and one of the rest goes on. An
//!   acknowledgement is bound to the sync that covered its frame: `durable` moves only after it, and only
//!   to where the file had been written before it began.
//!
//! The first failure poisons the log (G6): nothing is written or synced after it, nobody who was not covered
//! before is told that he is.
//!
//! # Segments
//!
//! A frame that does not fit in what is left of its segment begins the next one, which [`Log::prepare`] has
//! made ready slice by slice, or what is left to make of it is made on the spot. A full segment is synced
//! before or together with the next one, never after: `durable` speaks for all of them. At most a few wait
//! for that.
//!
//! # Marks
//!
//! Each frame says how far the log was synced when it was built, so that recovery can tell damage from a
//! torn tail. The frames of the last sync have none behind them that could say so; [`Log::mark`] writes one
//! without records.

use super::frame::{OVERHEAD_BYTES, bytes_of};
use super::queue::{CELL_BYTES, Slot};
use super::segment::{self, HEADER_BYTES};
use super::writer::{Common, Setup, Writer};
use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::limits::SEGMENT_BYTES_MAX;
use crate::storage::Storage;
use crate::sync::{Arc, Condvar, Mutex, is_mutant};

/// What the log did since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogStats {
    /// Bytes of frames.
    pub(crate) bytes_written: u64,
    pub(crate) frames: u64,
    pub(crate) syncs: u64,
    /// Segments made.
    pub(crate) segments: u64,
}

/// The log of an open store.
#[derive(Debug)]
pub(crate) struct Log {
    common: Common,
    writer: Mutex<Writer>,
    /// Who syncs.
    turn: Mutex<Turn>,
    turned: Condvar,
}

/// Whether somebody syncs.
#[derive(Debug, Default)]
struct Turn {
    is_taken: bool,
}

/// A place in the log, reserved before the facts that go there are decided.
///
/// Dropping it is [`finish`](Session::finish). It must be short and call nothing that waits: the writer waits
/// for it.
#[derive(Debug)]
pub(crate) struct Session<'log>(Slot<'log>);

impl Session<'_> {
    /// Adds a fact.
    ///
    /// # Panics
    ///
    /// When it [is full](Session::is_full).
    #[inline]
    pub(crate) fn push(&mut self, key: Fingerprint, fact: u64) {
        self.0.push(key, fact);
    }

    /// Whether it takes no more: finish it and open another.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.0.is_full()
    }

    /// Ends it; the position behind it, for [`Log::write_until`] and [`Log::sync_until`].
    #[inline]
    pub(crate) fn finish(self) -> u64 {
        self.0.ticket() + 1
    }
}

impl Log {
    /// Begins a log with its first segments; they last through a power cut when this returns.
    ///
    /// # Errors
    ///
    /// [`Error::Io`]; [`Error::System`] without random numbers; [`Error::Option`] when segments of that
    /// length hold too little or too much.
    pub(crate) fn create(storage: Arc<dyn Storage>, setup: Setup) -> Result<Log> {
        let bytes_min = HEADER_BYTES + (CELL_BYTES + OVERHEAD_BYTES) as u64;
        if setup.segment_bytes < bytes_min || setup.segment_bytes_max > SEGMENT_BYTES_MAX {
            let reason = format!("a log segment takes {bytes_min} to {SEGMENT_BYTES_MAX} bytes");
            return Err(Error::Option { name: "segment_bytes", reason });
        }
        segment::remove_unfinished(&*storage)?;
        let (common, writer) = Common::create(storage, setup)?;
        let (turn, turned) = (Mutex::new(Turn::default()), Condvar::new());
        let log = Log { common, writer: Mutex::new(writer), turn, turned };
        while log.common.ready() < log.common.setup.segments_at_once && log.prepare()? {}
        Ok(log)
    }

    /// Reserves a place. `None`: the queue is full; call [`write_until`](Log::write_until) with the
    /// [`position`](Log::position), holding nothing that others wait for, and try again.
    ///
    /// # Errors
    ///
    /// [`Error::Poisoned`]: so a caller that tries again comes to an end.
    #[inline]
    pub(crate) fn session(&self) -> Result<Option<Session<'_>>> {
        self.common.fault.check()?;
        Ok(self.common.queue.reserve().map(Session))
    }

    /// Everything that was reserved so far is below it: also what others reserved before they decided
    /// something that the caller has seen.
    #[inline]
    pub(crate) fn position(&self) -> u64 {
        self.common.queue.tail()
    }

    /// Waits until everything below `position` was handed to the system.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] for the caller whose write failed, [`Error::Poisoned`] after that.
    pub(crate) fn write_until(&self, position: u64) -> Result<()> {
        if self.common.queue.written() >= position {
            return Ok(());
        }
        let mut writer = self.writer.lock();
        if self.common.queue.written() >= position {
            return Ok(());
        }
        self.common.fault.attempt("writing the log", || writer.write_until(&self.common, position))
    }

    /// Waits until everything below `position` lasts through a power cut.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] for the caller whose write or sync failed, [`Error::Poisoned`] after that.
    pub(crate) fn sync_until(&self, position: u64) -> Result<()> {
        if self.common.durable() >= position {
            return Ok(());
        }
        let mut turn = self.turn.lock();
        while self.common.durable() < position {
            self.common.fault.check()?;
            if turn.is_taken {
                turn = self.turned.wait(turn);
                continue;
            }
            turn.is_taken = true;
            drop(turn);
            let taken = TakenTurn(self);
            self.common.fault.attempt("syncing the log", || self.sync_now(position))?;
            drop(taken);
            turn = self.turn.lock();
        }
        Ok(())
    }

    /// Number of the segment that is being written: what is reserved after this lands there or later.
    pub(crate) fn segment(&self) -> u64 {
        self.common.current()
    }

    /// Appends facts and cursors that last together or not at all, behind everything that is reserved
    /// before; the position behind them.
    ///
    /// # Errors
    ///
    /// [`Error::CommitSize`] when they are too long for one frame: nothing was written then. Otherwise as
    /// [`write_until`](Log::write_until).
    pub(crate) fn append_cursors(
        &self,
        records: &[(Fingerprint, u64)],
        cursors: &[(&str, u64)],
    ) -> Result<u64> {
        let bytes = bytes_of(records.len(), cursors);
        let bytes_max = segment::frame_bytes_max(self.common.setup.segment_bytes);
        if bytes > bytes_max {
            return Err(Error::CommitSize { bytes, bytes_max });
        }
        let mut writer = self.writer.lock();
        self.common.fault.attempt("writing the log", || writer.write_cursors(&self.common, records, cursors))
    }

    /// Makes a slice of a segment ahead of need; whether there was one to make. For the maintenance thread,
    /// which has other things to do between two slices.
    ///
    /// # Errors
    ///
    /// [`Error::Io`], and the log is poisoned; [`Error::Poisoned`].
    pub(crate) fn prepare(&self) -> Result<bool> {
        self.common.prepare()
    }

    /// Says in the log how far it is synced, unless its last frame does: damage below is never taken for a
    /// torn tail then. Whether it wrote anything.
    ///
    /// # Errors
    ///
    /// As [`write_until`](Log::write_until).
    pub(crate) fn mark(&self) -> Result<bool> {
        let mut writer = self.writer.lock();
        self.common.fault.attempt("writing the log", || writer.mark(&self.common))
    }

    /// Removes the files of segments with smaller numbers, except that of the one being written; how many.
    ///
    /// # Errors
    ///
    /// [`Error::Io`]. The log is not poisoned by it: what is there too long harms nobody.
    pub(crate) fn remove_below(&self, segment: u64) -> Result<u64> {
        segment::remove_below(&*self.common.storage, segment.min(self.segment()))
    }

    /// Writes nothing from here on, as the directory is about to be somebody else's: neither frames nor
    /// segments, whoever is at it.
    pub(crate) fn give_up(&self) {
        let _writer = self.writer.lock();
        self.common.give_up();
    }

    /// The first failure.
    pub(crate) fn fault(&self) -> Option<Error> {
        self.common.fault.get()
    }

    /// Memory of the queue and of the frame that is being written.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.common.queue.memory_bytes() + self.common.counts.frame_bytes_max.get()
    }

    pub(crate) fn stats(&self) -> LogStats {
        LogStats {
            bytes_written: self.common.counts.bytes_written.get(),
            frames: self.common.counts.frames.get(),
            syncs: self.common.counts.syncs.get(),
            segments: self.common.counts.segments.get(),
        }
    }

    /// Writes and syncs, for the one whose turn it is.
    fn sync_now(&self, position: u64) -> Result<()> {
        let reach = {
            let mut writer = self.writer.lock();
            // Noted before the lock is let go: nobody appends behind a failed write.
            self.common.fault.attempt("writing the log", || writer.write_until(&self.common, position))?;
            writer.reach(&self.common.queue)
        };
        if is_mutant("ack_before_sync") {
            self.common.reached(&reach);
        }
        for segment in &reach.segments {
            segment.sync()?;
            self.common.counts.syncs.add(1);
        }
        self.common.reached(&reach);
        Ok(())
    }
}

/// Gives the turn back and wakes those who wait, whatever happened.
struct TakenTurn<'log>(&'log Log);

impl Drop for TakenTurn<'_> {
    fn drop(&mut self) {
        self.0.turn.lock().is_taken = false;
        self.0.turned.notify_all();
    }
}
