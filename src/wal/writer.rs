//! The one who writes: frames from the queue, one after the other, from segment to segment.
//!
//! # Synchronising pairs
//!
//! - P12 Durability: the sync was done before `durable` or `durable_below` was moved (Release); whoever finds
//!   it moved (Acquire) may acknowledge, or say so in a frame. Without it an answer could leave before the
//!   sync that it is bound to.
//! - P14 Segment: a new segment takes the frames before its number is published (Release); what is reserved
//!   after the number was read (Acquire) is written there or later. Without it a place's holder could count
//!   on a later segment than its facts are in.

use std::collections::VecDeque;

use super::fault::Fault;
use super::frame::{FrameBuilder, Place, encode};
use super::queue::{CELL_BYTES, Queue};
use super::segment::{self, HEADER_BYTES, Header, Making, Segment};
use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::limits::SEGMENTS_UNSYNCED_MAX;
use crate::storage::Storage;
use crate::sync::{Arc, AtomicU64, Counter, Mutex, Ordering, is_mutant};

/// How a log begins, when a store is created and each time it is opened.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    /// Goes into every segment: those of another store are refused.
    pub(crate) store_id: u64,
    /// Number of the first segment to make.
    pub(crate) segment: u64,
    /// Sequence number of the first frame. All smaller ones are synced.
    pub(crate) seq: u64,
    /// Length of the first segment's file; each next one is twice as long.
    pub(crate) segment_bytes: u64,
    /// Length of the longest segment's file.
    pub(crate) segment_bytes_max: u64,
    /// How much of a segment one step of making it writes.
    pub(crate) slice_bytes: u64,
    /// How many segments to have ready beside the one that is being written.
    pub(crate) segments_ready: u64,
    /// How many of these to make at once, when the log begins.
    pub(crate) segments_at_once: u64,
}

impl Setup {
    /// Length of the file of a segment: small stores need little, large ones do not change files often.
    fn bytes_of(&self, number: u64) -> u64 {
        let doublings = number.saturating_sub(self.segment).min(16);
        (self.segment_bytes << doublings).min(self.segment_bytes_max)
    }
}

/// What callers, the writer and whoever syncs have in common.
#[derive(Debug)]
pub(super) struct Common {
    pub(super) storage: Arc<dyn Storage>,
    pub(super) setup: Setup,
    pub(super) queue: Queue,
    pub(super) fault: Fault,
    /// Everything reserved below is synced.
    durable: AtomicU64,
    /// Every frame with a smaller seq is synced.
    durable_below: AtomicU64,
    /// Number of the segment that takes the frames.
    current: AtomicU64,
    /// Held while a slice of a segment is made.
    maker: Mutex<Maker>,
    ready: Mutex<VecDeque<Segment>>,
    pub(super) counts: Counts,
}

/// What is made ahead of need, or on the spot.
#[derive(Debug)]
struct Maker {
    /// Number of the segment in the making, or of the next one.
    next: u64,
    making: Option<Making>,
}

#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) bytes_written: Counter,
    pub(super) frames: Counter,
    pub(super) syncs: Counter,
    pub(super) segments: Counter,
    /// The largest frame so far, for which there is memory.
    pub(super) frame_bytes_max: Counter,
}

/// What only the writer touches.
#[derive(Debug)]
pub(super) struct Writer {
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
pub(super) struct Reach {
    position: u64,
    below: u64,
    pub(super) segments: Vec<Arc<Segment>>,
}

impl Common {
    /// Makes the first segment, and all there is beside the writer.
    pub(super) fn create(storage: Arc<dyn Storage>, setup: Setup) -> Result<(Common, Writer)> {
        let segment = make_first(&*storage, &setup)?;
        let writer = Writer::new(Arc::new(segment), setup.seq);
        let common = Common {
            queue: Queue::new(),
            fault: Fault::new(),
            durable: AtomicU64::new(0),
            durable_below: AtomicU64::new(setup.seq),
            current: AtomicU64::new(setup.segment),
            maker: Mutex::new(Maker { next: setup.segment + 1, making: None }),
            ready: Mutex::new(VecDeque::new()),
            counts: Counts::default(),
            storage,
            setup,
        };
        common.counts.segments.add(1);
        Ok((common, writer))
    }

    /// Number of the segment that takes the frames.
    pub(super) fn current(&self) -> u64 {
        // Acquire of P14, against `Writer::roll`.
        self.current.load(Ordering::Acquire)
    }

    #[inline]
    pub(super) fn durable(&self) -> u64 {
        // Acquire of P12, against `reached`.
        self.durable.load(Ordering::Acquire)
    }

    pub(super) fn durable_below(&self) -> u64 {
        // Acquire of P12, against `reached`.
        self.durable_below.load(Ordering::Acquire)
    }

    /// Notes what a sync that has ended reached.
    pub(super) fn reached(&self, reach: &Reach) {
        // Release of P12: everything below was written before the sync that has ended.
        self.durable_below.store(reach.below, Ordering::Release);
        // Release of P12: as above.
        self.durable.store(reach.position, Ordering::Release);
    }

    /// Segments that are ready.
    pub(super) fn ready(&self) -> u64 {
        self.ready.lock().len() as u64
    }

    /// Makes a slice of a segment ahead of need; whether there was one to make.
    pub(super) fn prepare(&self) -> Result<bool> {
        let mut maker = self.maker.lock();
        self.fault.check()?;
        if self.ready() >= self.setup.segments_ready {
            return Ok(false);
        }
        if let Some(segment) = self.fault.attempt("making a log segment", || self.make_slice(&mut maker))? {
            self.ready.lock().push_back(segment);
        }
        Ok(true)
    }

    /// The next segment, ready or made on the spot, or what is left to make of it.
    fn next_segment(&self) -> Result<Segment> {
        if let Some(segment) = self.ready.lock().pop_front() {
            return Ok(segment);
        }
        let mut maker = self.maker.lock();
        // Somebody may have made one while this waited for the lock.
        if let Some(segment) = self.ready.lock().pop_front() {
            return Ok(segment);
        }
        self.fault.check()?;
        loop {
            if let Some(segment) = self.make_slice(&mut maker)? {
                return Ok(segment);
            }
        }
    }

    /// Refuses every later write and every later segment.
    pub(super) fn give_up(&self) {
        let mut maker = self.maker.lock();
        maker.making = None;
        self.fault.poison(&Error::Closed);
    }

    /// Makes a slice of the next segment, which is there with the last one.
    fn make_slice(&self, maker: &mut Maker) -> Result<Option<Segment>> {
        let number = maker.next;
        // Taken out: when something fails nobody goes on with it, nor begins it again, as its file is there.
        let mut making = match maker.making.take() {
            Some(making) => making,
            None => Making::begin(&*self.storage, number, self.setup.bytes_of(number))?,
        };
        if !making.fill(self.setup.slice_bytes)? {
            maker.making = Some(making);
            return Ok(None);
        }
        let header = header(&self.setup, number, self.durable_below())?;
        let segment = making.finish(&*self.storage, header, None)?;
        maker.next += 1;
        self.counts.segments.add(1);
        Ok(Some(segment))
    }
}

fn header(setup: &Setup, number: u64, seq_min: u64) -> Result<Header> {
    let seed = getrandom::u64()
        .map_err(|cause| Error::System { operation: "drawing a random seed", message: cause.to_string() })?;
    Ok(Header { store_id: setup.store_id, number, seed, bytes: setup.bytes_of(number), seq_min })
}

/// The segment that a log begins with.
fn make_first(storage: &dyn Storage, setup: &Setup) -> Result<Segment> {
    let mut making = Making::begin(storage, setup.segment, setup.bytes_of(setup.segment))?;
    while !making.fill(setup.slice_bytes)? {}
    making.finish(storage, header(setup, setup.segment, setup.seq)?, Some(setup.seq))
}

impl Writer {
    pub(super) fn new(segment: Arc<Segment>, seq: u64) -> Writer {
        let frame = FrameBuilder::new();
        let full = Vec::new();
        Writer { frame, segment, is_dirty: false, full, offset: HEADER_BYTES, seq, first: seq, marked: seq }
    }

    /// Writes everything reserved below `position`, and what else is complete.
    pub(super) fn write_until(&mut self, common: &Common, position: u64) -> Result<()> {
        let position = position.min(common.queue.tail());
        while common.queue.written() < position {
            let end = self.gather(common, position);
            if !self.frame.is_empty() {
                self.append(common)?;
            }
            common.queue.set_written(end);
        }
        Ok(())
    }

    /// Fills a frame from the queue: waits for what is below `position`, takes what else is complete. Returns
    /// the position behind it.
    fn gather(&mut self, common: &Common, position: u64) -> u64 {
        self.frame.clear();
        let bytes_max = segment::frame_bytes_max(common.setup.segment_bytes);
        let mut ticket = common.queue.written();
        while ticket < position || common.queue.is_published(ticket) {
            if self.frame.bytes() + CELL_BYTES as u64 > bytes_max {
                break;
            }
            if !is_mutant("unpublished_read") {
                common.queue.wait_published(ticket);
            }
            common.queue.read(ticket, |facts| self.frame.add(facts));
            ticket += 1;
        }
        ticket
    }

    /// Appends the frame that was put together.
    pub(super) fn append(&mut self, common: &Common) -> Result<()> {
        let bytes = self.frame.bytes();
        if self.offset + bytes > self.segment.header.bytes {
            self.roll(common)?;
        }
        let durable_below = common.durable_below();
        let Header { number, seed, .. } = self.segment.header;
        let place = Place { segment: number, seq: self.seq, first: self.first, durable_below };
        self.segment.write(self.offset, self.frame.finish(place, seed))?;
        self.is_dirty = true;
        self.offset += bytes;
        self.seq += 1;
        self.marked = durable_below;
        common.counts.frames.add(1);
        common.counts.bytes_written.add(bytes);
        common.counts.frame_bytes_max.raise(bytes);
        Ok(())
    }

    /// Goes on in the next segment.
    fn roll(&mut self, common: &Common) -> Result<()> {
        let next = Arc::new(common.next_segment()?);
        let number = next.header.number;
        next.begin(self.seq)?;
        let full = std::mem::replace(&mut self.segment, next);
        if std::mem::take(&mut self.is_dirty) {
            self.full.push(full);
        }
        while self.full.len() > SEGMENTS_UNSYNCED_MAX {
            self.full.remove(0).sync()?;
            common.counts.syncs.add(1);
        }
        self.offset = HEADER_BYTES;
        self.first = self.seq;
        // Release of P14: from here on frames go to this segment.
        common.current.store(number, Ordering::Release);
        Ok(())
    }

    /// Takes the segments that are to be synced, for somebody who has the turn.
    pub(super) fn reach(&mut self, queue: &Queue) -> Reach {
        let mut segments = std::mem::take(&mut self.full);
        if std::mem::take(&mut self.is_dirty) {
            segments.push(Arc::clone(&self.segment));
        }
        Reach { position: queue.written(), below: self.seq, segments }
    }

    /// Writes facts and cursors as one frame behind all that is reserved; the position behind it.
    pub(super) fn write_cursors(
        &mut self,
        common: &Common,
        records: &[(Fingerprint, u64)],
        cursors: &[(&str, u64)],
    ) -> Result<u64> {
        let ticket = loop {
            match common.queue.take_ticket() {
                Some(ticket) => break ticket,
                None => self.write_until(common, common.queue.tail())?,
            }
        };
        // Stops before the ticket: its place is never published, and freed with it.
        self.write_until(common, ticket)?;
        self.frame.clear();
        for (key, fact) in records {
            self.frame.add(&encode(*key, *fact));
        }
        if !cursors.is_empty() {
            self.frame.add_cursors(cursors);
        }
        self.append(common)?;
        common.queue.set_written(ticket + 1);
        Ok(ticket + 1)
    }

    /// Says how far the log is synced, unless the last frame does; whether it did.
    pub(super) fn mark(&mut self, common: &Common) -> Result<bool> {
        if self.marked >= common.durable_below() {
            return Ok(false);
        }
        self.frame.clear();
        self.append(common)?;
        Ok(true)
    }
}
