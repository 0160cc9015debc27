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
//! made ready, or which is made on the spot. A full segment is synced before or together with the next one, never
//! after: `durable` speaks for all of them. At most a few wait for that.
//!
//! # Marks
//!
//! Each frame says how far the log was synced when it was built, so that recovery can tell damage from a
//! torn tail. The frames of the last sync have none behind them that could say so; [`Log::mark`] writes one
//! without records.
//!
//! # Synchronising pairs
//!
//! - P12 Durability: the sync was done before `durable` or `durable_below` was moved (Release); whoever finds
//!   it moved (Acquire) may acknowledge, or say so in a frame. Without it an answer could leave before the
//!   sync that it is bound to.
//! - P13 Fault: the error is noted before the flag is set (Release); whoever finds the flag (Acquire) finds
//!   the error. The writer looks at it under the lock it writes under, so nothing is appended behind a
//!   failed write.
//! - P14 Segment: a new segment takes the frames before its number is published (Release); what is reserved
//!   after the number was read (Acquire) is written there or later. Without it a place's holder could count
//!   on a later segment than its facts are in.

use std::collections::VecDeque;

use super::frame::{FrameBuilder, OVERHEAD_BYTES, Place, bytes_of, encode};
use super::queue::{CELL_BYTES, Queue, Slot};
use super::segment::{self, HEADER_BYTES, Header, Segment};
use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::limits::{SEGMENT_BYTES_MAX, SEGMENTS_UNSYNCED_MAX};
use crate::storage::Storage;
use crate::sync::{Arc, AtomicU32, AtomicU64, Condvar, Counter, Mutex, Ordering, is_mutant, is_panicking};

/// How a log begins, when a store is created and each time it is opened.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    /// Goes into every segment: those of another store are refused.
    pub(crate) store_id: u64,
    /// Number of the first segment to make.
    pub(crate) segment: u64,
    /// Sequence number of the first frame. All smaller ones are synced.
    pub(crate) seq: u64,
    /// Length of a segment's file.
    pub(crate) segment_bytes: u64,
    /// How many segments to have ready beside the one that is being written.
    pub(crate) segments_ready: u64,
}

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
    storage: Arc<dyn Storage>,
    setup: Setup,
    queue: Queue,
    writer: Mutex<Writer>,
    /// Who syncs.
    turn: Mutex<Turn>,
    turned: Condvar,
    /// Everything reserved below is synced.
    durable: AtomicU64,
    /// Every frame with a smaller seq is synced.
    durable_below: AtomicU64,
    /// Number of the segment that takes the frames.
    current: AtomicU64,
    /// Number of the next segment; held while one is made.
    maker: Mutex<u64>,
    ready: Mutex<VecDeque<Segment>>,
    is_poisoned: AtomicU32,
    fault: Mutex<Option<Error>>,
    counts: Counts,
}

#[derive(Debug, Default)]
struct Counts {
    bytes_written: Counter,
    frames: Counter,
    syncs: Counter,
    segments: Counter,
}

/// Whether somebody syncs.
#[derive(Debug, Default)]
struct Turn {
    is_taken: bool,
}

/// What only the writer touches.
#[derive(Debug)]
struct Writer {
    frame: FrameBuilder,
    segment: Arc<Segment>,
    /// Whether the segment has bytes that no sync was begun for.
    is_dirty: bool,
    /// Full segments that no sync was begun for.
    full: Vec<Arc<Segment>>,
    /// Where the next frame goes.
    offset: u64,
    /// Of the next frame.
    seq: u64,
    /// Of the first frame of the segment.
    first: u64,
    /// What the last frame said is durable.
    marked: u64,
}

/// What one sync makes durable.
struct Reach {
    position: u64,
    below: u64,
    segments: Vec<Arc<Segment>>,
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
        if setup.segment_bytes < bytes_min || setup.segment_bytes > SEGMENT_BYTES_MAX {
            let reason = format!("a log segment takes {bytes_min} to {SEGMENT_BYTES_MAX} bytes");
            return Err(Error::Option { name: "segment_bytes", reason });
        }
        segment::remove_unfinished(&*storage)?;
        let segment = Arc::new(make(&*storage, &setup, (setup.segment, setup.seq), Some(setup.seq))?);
        let log = Log {
            queue: Queue::new(),
            writer: Mutex::new(Writer::new(segment, setup.seq)),
            turn: Mutex::new(Turn::default()),
            turned: Condvar::new(),
            durable: AtomicU64::new(0),
            durable_below: AtomicU64::new(setup.seq),
            current: AtomicU64::new(setup.segment),
            maker: Mutex::new(setup.segment + 1),
            ready: Mutex::new(VecDeque::new()),
            is_poisoned: AtomicU32::new(0),
            fault: Mutex::new(None),
            counts: Counts::default(),
            storage,
            setup,
        };
        log.counts.segments.add(1);
        while log.prepare()? {}
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
        self.check()?;
        Ok(self.queue.reserve().map(Session))
    }

    /// Everything that was reserved so far is below it: also what others reserved before they decided
    /// something that the caller has seen.
    #[inline]
    pub(crate) fn position(&self) -> u64 {
        self.queue.tail()
    }

    /// Waits until everything below `position` was handed to the system.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] for the caller whose write failed, [`Error::Poisoned`] after that.
    pub(crate) fn write_until(&self, position: u64) -> Result<()> {
        if self.queue.written() >= position {
            return Ok(());
        }
        let mut writer = self.writer.lock();
        if self.queue.written() >= position {
            return Ok(());
        }
        self.attempt("writing the log", || writer.write_until(self, position))
    }

    /// Waits until everything below `position` lasts through a power cut.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] for the caller whose write or sync failed, [`Error::Poisoned`] after that.
    pub(crate) fn sync_until(&self, position: u64) -> Result<()> {
        if self.durable() >= position {
            return Ok(());
        }
        let mut turn = self.turn.lock();
        while self.durable() < position {
            self.check()?;
            if turn.is_taken {
                turn = self.turned.wait(turn);
                continue;
            }
            turn.is_taken = true;
            drop(turn);
            let taken = TakenTurn(self);
            self.attempt("syncing the log", || self.sync_now(position))?;
            drop(taken);
            turn = self.turn.lock();
        }
        Ok(())
    }

    /// Number of the segment that is being written: what is reserved after this lands there or later.
    pub(crate) fn segment(&self) -> u64 {
        // Acquire of P14, against `Writer::roll`.
        self.current.load(Ordering::Acquire)
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
        let bytes_max = segment::frame_bytes_max(self.setup.segment_bytes);
        if bytes > bytes_max {
            return Err(Error::CommitSize { bytes, bytes_max });
        }
        let mut writer = self.writer.lock();
        self.attempt("writing the log", || writer.write_cursors(self, records, cursors))
    }

    /// Makes a segment ready ahead of need; whether there was one to make. For the maintenance thread: it
    /// takes as long as writing a segment does.
    ///
    /// # Errors
    ///
    /// [`Error::Io`], and the log is poisoned; [`Error::Poisoned`].
    pub(crate) fn prepare(&self) -> Result<bool> {
        let mut next = self.maker.lock();
        self.check()?;
        if self.ready.lock().len() as u64 >= self.setup.segments_ready {
            return Ok(false);
        }
        let segment = self.attempt("making a log segment", || self.make(*next))?;
        *next += 1;
        self.ready.lock().push_back(segment);
        Ok(true)
    }

    /// Says in the log how far it is synced, unless its last frame does: damage below is never taken for a torn tail
    /// then. Whether it wrote anything.
    ///
    /// # Errors
    ///
    /// As [`write_until`](Log::write_until).
    pub(crate) fn mark(&self) -> Result<bool> {
        let mut writer = self.writer.lock();
        if writer.marked >= self.durable_below() {
            return Ok(false);
        }
        self.attempt("writing the log", || {
            writer.frame.clear();
            writer.append(self)
        })?;
        Ok(true)
    }

    /// Removes the files of segments with smaller numbers, except that of the one being written; how many.
    ///
    /// # Errors
    ///
    /// [`Error::Io`]. The log is not poisoned by it: what is there too long harms nobody.
    pub(crate) fn remove_below(&self, segment: u64) -> Result<u64> {
        segment::remove_below(&*self.storage, segment.min(self.segment()))
    }

    /// The first failure.
    pub(crate) fn fault(&self) -> Option<Error> {
        self.check().err()?;
        self.fault.lock().clone()
    }

    pub(crate) fn stats(&self) -> LogStats {
        LogStats {
            bytes_written: self.counts.bytes_written.get(),
            frames: self.counts.frames.get(),
            syncs: self.counts.syncs.get(),
            segments: self.counts.segments.get(),
        }
    }

    #[inline]
    fn durable(&self) -> u64 {
        // Acquire of P12, against `reached`.
        self.durable.load(Ordering::Acquire)
    }

    fn durable_below(&self) -> u64 {
        // Acquire of P12, against `reached`.
        self.durable_below.load(Ordering::Acquire)
    }

    /// Writes and syncs, for the one whose turn it is.
    fn sync_now(&self, position: u64) -> Result<()> {
        let reach = {
            let mut writer = self.writer.lock();
            self.check()?;
            writer.write_until(self, position)?;
            writer.reach(&self.queue)
        };
        if is_mutant("ack_before_sync") {
            self.reached(&reach);
        }
        for segment in &reach.segments {
            segment.sync()?;
            self.counts.syncs.add(1);
        }
        self.reached(&reach);
        Ok(())
    }

    fn reached(&self, reach: &Reach) {
        // Release of P12: everything below was written before the sync that has ended.
        self.durable_below.store(reach.below, Ordering::Release);
        // Release of P12: as above.
        self.durable.store(reach.position, Ordering::Release);
    }

    /// The next segment, ready or made on the spot.
    fn next_segment(&self) -> Result<Segment> {
        if let Some(segment) = self.ready.lock().pop_front() {
            return Ok(segment);
        }
        let mut next = self.maker.lock();
        // Somebody may have made one while this waited for the lock.
        if let Some(segment) = self.ready.lock().pop_front() {
            return Ok(segment);
        }
        self.check()?;
        let segment = self.make(*next)?;
        *next += 1;
        Ok(segment)
    }

    fn make(&self, number: u64) -> Result<Segment> {
        let segment = make(&*self.storage, &self.setup, (number, self.durable_below()), None)?;
        self.counts.segments.add(1);
        Ok(segment)
    }

    /// `Ok` unless the log is poisoned.
    #[inline]
    fn check(&self) -> Result<()> {
        // Acquire of P13, against `poison`.
        if self.is_poisoned.load(Ordering::Acquire) == 0 { Ok(()) } else { Err(poisoned(&self.fault.lock())) }
    }

    /// Does what must not be done twice: when it fails, or panics, the log is poisoned.
    fn attempt<T>(&self, operation: &'static str, act: impl FnOnce() -> Result<T>) -> Result<T> {
        self.check()?;
        let alarm = Alarm { log: self, operation };
        let outcome = act();
        drop(alarm);
        if let Err(error) = &outcome {
            self.poison(error);
        }
        outcome
    }

    #[cold]
    fn poison(&self, error: &Error) {
        self.fault.lock().get_or_insert_with(|| error.clone());
        // Release of P13: the fault is noted.
        self.is_poisoned.store(1, Ordering::Release);
    }
}

/// What all but the first are told.
#[cold]
fn poisoned(fault: &Option<Error>) -> Error {
    let operation = match fault {
        Some(
            Error::Io { operation, .. } | Error::System { operation, .. } | Error::Poisoned { operation },
        ) => operation,
        _ => "writing the log",
    };
    Error::Poisoned { operation }
}

fn make(
    storage: &dyn Storage,
    setup: &Setup,
    (number, seq_min): (u64, u64),
    first: Option<u64>,
) -> Result<Segment> {
    let seed = getrandom::u64()
        .map_err(|cause| Error::System { operation: "drawing a random seed", message: cause.to_string() })?;
    let (store_id, bytes) = (setup.store_id, setup.segment_bytes);
    Segment::create(storage, Header { store_id, number, seed, bytes, seq_min }, first)
}

/// Gives the turn back and wakes those who wait, whatever happened.
struct TakenTurn<'log>(&'log Log);

impl Drop for TakenTurn<'_> {
    fn drop(&mut self) {
        self.0.turn.lock().is_taken = false;
        self.0.turned.notify_all();
    }
}

/// Poisons the log when it is dropped by a panic.
struct Alarm<'log> {
    log: &'log Log,
    operation: &'static str,
}

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if is_panicking() {
            self.log.poison(&Error::Poisoned { operation: self.operation });
        }
    }
}

impl Writer {
    fn new(segment: Arc<Segment>, seq: u64) -> Writer {
        let frame = FrameBuilder::new();
        let full = Vec::new();
        Writer { frame, segment, is_dirty: false, full, offset: HEADER_BYTES, seq, first: seq, marked: seq }
    }

    /// Writes everything reserved below `position`, and what else is complete.
    fn write_until(&mut self, log: &Log, position: u64) -> Result<()> {
        let position = position.min(log.queue.tail());
        while log.queue.written() < position {
            let end = self.gather(log, position);
            if !self.frame.is_empty() {
                self.append(log)?;
            }
            log.queue.set_written(end);
        }
        Ok(())
    }

    /// Fills a frame from the queue: waits for what is below `position`, takes what else is complete. Returns
    /// the position behind it.
    fn gather(&mut self, log: &Log, position: u64) -> u64 {
        self.frame.clear();
        let bytes_max = segment::frame_bytes_max(log.setup.segment_bytes);
        let mut ticket = log.queue.written();
        while ticket < position || log.queue.is_published(ticket) {
            if self.frame.bytes() + CELL_BYTES as u64 > bytes_max {
                break;
            }
            if !is_mutant("unpublished_read") {
                log.queue.wait_published(ticket);
            }
            log.queue.read(ticket, |facts| self.frame.add(facts));
            ticket += 1;
        }
        ticket
    }

    /// Appends the frame that was put together.
    fn append(&mut self, log: &Log) -> Result<()> {
        let bytes = self.frame.bytes();
        if self.offset + bytes > log.setup.segment_bytes {
            self.roll(log)?;
        }
        let durable_below = log.durable_below();
        let Header { number, seed, .. } = self.segment.header;
        let place = Place { segment: number, seq: self.seq, first: self.first, durable_below };
        self.segment.write(self.offset, self.frame.finish(place, seed))?;
        self.is_dirty = true;
        self.offset += bytes;
        self.seq += 1;
        self.marked = durable_below;
        log.counts.frames.add(1);
        log.counts.bytes_written.add(bytes);
        Ok(())
    }

    /// Goes on in the next segment.
    fn roll(&mut self, log: &Log) -> Result<()> {
        let next = Arc::new(log.next_segment()?);
        let number = next.header.number;
        next.begin(self.seq)?;
        let full = std::mem::replace(&mut self.segment, next);
        if std::mem::take(&mut self.is_dirty) {
            self.full.push(full);
        }
        while self.full.len() > SEGMENTS_UNSYNCED_MAX {
            self.full.remove(0).sync()?;
            log.counts.syncs.add(1);
        }
        self.offset = HEADER_BYTES;
        self.first = self.seq;
        // Release of P14: from here on frames go to this segment.
        log.current.store(number, Ordering::Release);
        Ok(())
    }

    /// Takes the segments that are to be synced, for somebody who has the turn.
    fn reach(&mut self, queue: &Queue) -> Reach {
        let mut segments = std::mem::take(&mut self.full);
        if std::mem::take(&mut self.is_dirty) {
            segments.push(Arc::clone(&self.segment));
        }
        Reach { position: queue.written(), below: self.seq, segments }
    }

    /// Writes facts and cursors as one frame behind all that is reserved; the position behind it.
    fn write_cursors(
        &mut self,
        log: &Log,
        records: &[(Fingerprint, u64)],
        cursors: &[(&str, u64)],
    ) -> Result<u64> {
        let ticket = loop {
            match log.queue.take_ticket() {
                Some(ticket) => break ticket,
                None => self.write_until(log, log.queue.tail())?,
            }
        };
        // Stops before the ticket: its place is never published, and freed with it.
        self.write_until(log, ticket)?;
        self.frame.clear();
        for (key, fact) in records {
            self.frame.add(&encode(*key, *fact));
        }
        if !cursors.is_empty() {
            self.frame.add_cursors(cursors);
        }
        self.append(log)?;
        log.queue.set_written(ticket + 1);
        Ok(ticket + 1)
    }
}
