//! Floors: parts of the work that no store can leave out, done alone. They give no answers.

use std::fs::File;
use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};

use firstseen::bench::Floor;
use firstseen::{Fingerprint, Verdict};

use crate::key::{Id, key_of};
use crate::peer::{Outcome, Peer, Place, Session};

/// How many IDs a line is asked for ahead of its use, as in the store.
const AHEAD: usize = 16;

/// A record of a log: sixteen bytes of key, eight of anything else.
const RECORD_BYTES: usize = 24;

/// The hash of each ID, and nothing else.
pub(super) fn hash(_place: &Place) -> Outcome<Box<dyn Peer>> {
    Ok(Box::new(HashOnly))
}

/// The hash, and one line of a table of the right size, asked for ahead and read.
pub(super) fn line(place: &Place) -> Outcome<Box<dyn Peer>> {
    Ok(Box::new(HashAndLine(Floor::new(place.keys_expected)?)))
}

/// The same, and one positioned write for each batch: 24 bytes for each ID that would be new.
pub(super) fn log(place: &Place) -> Outcome<Box<dyn Peer>> {
    Ok(Box::new(LineAndLog {
        floor: Floor::new(place.keys_expected)?,
        file: File::create(place.dir.join("log"))?,
        length: AtomicU64::new(0),
        new_share: place.new_share,
    }))
}

struct HashOnly;

impl Peer for HashOnly {
    fn session(&self) -> Outcome<Box<dyn Session + '_>> {
        Ok(Box::new(HashOnly))
    }
}

impl Session for HashOnly {
    fn check_batch(&mut self, ids: &[Id], _verdicts: &mut [Verdict]) -> Outcome<()> {
        black_box(ids.iter().fold(0, |mixed, id| mixed ^ key_of(id)));
        Ok(())
    }
}

struct HashAndLine(Floor);

impl Peer for HashAndLine {
    fn session(&self) -> Outcome<Box<dyn Session + '_>> {
        Ok(Box::new(Touching(&self.0)))
    }
}

struct Touching<'a>(&'a Floor);

impl Session for Touching<'_> {
    fn check_batch(&mut self, ids: &[Id], _verdicts: &mut [Verdict]) -> Outcome<()> {
        touch_lines(self.0, ids)
    }
}

/// Touches the line of each ID, [`AHEAD`] IDs after it was asked for.
fn touch_lines(floor: &Floor, ids: &[Id]) -> Outcome<()> {
    let mut ring = [Fingerprint::from_halves(1, 1); AHEAD];
    let mut touched = 0_u64;
    for (index, id) in ids.iter().enumerate() {
        let key = floor.hash(id).ok_or("the floor takes IDs of any length")?;
        touched += u64::from(index >= AHEAD && floor.touch(ring[index % AHEAD]));
        ring[index % AHEAD] = key;
        floor.prefetch(key);
    }
    for key in ring.iter().take(ids.len()) {
        touched += u64::from(floor.touch(*key));
    }
    black_box(touched);
    Ok(())
}

struct LineAndLog {
    floor: Floor,
    file: File,
    length: AtomicU64,
    new_share: f64,
}

impl Peer for LineAndLog {
    fn session(&self) -> Outcome<Box<dyn Session + '_>> {
        Ok(Box::new(Logging { peer: self, buffer: Vec::new(), due: 0.0 }))
    }
}

struct Logging<'a> {
    peer: &'a LineAndLog,
    buffer: Vec<u8>,
    /// Records that are due but not yet written, less than one after each batch.
    due: f64,
}

impl Session for Logging<'_> {
    fn check_batch(&mut self, ids: &[Id], _verdicts: &mut [Verdict]) -> Outcome<()> {
        touch_lines(&self.peer.floor, ids)?;
        self.due += ids.len() as f64 * self.peer.new_share;
        let records = self.due as usize;
        self.due -= records as f64;
        self.buffer.clear();
        for id in ids.iter().take(records) {
            self.buffer.extend_from_slice(&id[..RECORD_BYTES]);
        }
        // Relaxed: the place in the file is all that threads share.
        let at = self.peer.length.fetch_add(self.buffer.len() as u64, Ordering::Relaxed);
        Ok(self.peer.file.write_all_at(&self.buffer, at)?)
    }
}
