//! The table: an open-addressing array of lines that many threads fill without locks.
//!
//! A key's home line is `(hi * home_lines) >> 64`, a 128-bit product, so lines are sorted by `hi` up to
//! small shifts and passes over a table are sequential. Probing is linear: line by line, slots in order,
//! never wrapping; a table has spare lines at its end. A line with an empty slot ends the search.
//!
//! # Invariants
//!
//! - A slot is never emptied and never changes its key, so all threads that bring one key meet in one slot.
//! - A key's slot comes before the first empty slot on its way from home.
//! - The walk is at most [`SPARE_LINES`] long (G7); a key that finds no slot there is `Exhausted`.
//!
//! Linear probing with one bucket a cache line is the classical scheme (Knuth, The Art of Computer
//! Programming, volume 3, section 6.4); completing another's half-written slot instead of waiting for it
//! is what makes it lock-free.

mod line;
mod memory;
#[cfg(all(test, loom))]
mod models;
#[cfg(test)]
pub(crate) mod refusal;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;

pub(crate) use memory::{Region, prefetch};

use self::line::{Look, SLOTS, SlotClaim};
use self::memory::prefetch_at;
use crate::error::Result;
use crate::fingerprint::Fingerprint;
use crate::limits::{
    LINE_BYTES, LOAD_LIMIT_PERCENT, LOAD_ROTATE_PERCENT, SLOTS_PER_LINE, SPARE_LINES, STRIPES,
};
use crate::stamp::{Stamp, StampCell, State, VERSION_MAX};
use crate::sync::{Counter, Striped};

pub(crate) use self::line::Line;

/// Keys and their stamps.
#[derive(Debug)]
pub(crate) struct Table {
    lines: Region<Line>,
    home_lines: u64,
    /// The tick from which versions in this table count.
    birth: u64,
    tally: Striped<Stripe>,
    /// Slots that were created only to be closed.
    slots_undecided: Counter,
    slots_rotate: u64,
    slots_limit: u64,
    count_step_shift: u32,
    crowded: Counter,
    lines_released: Counter,
}

/// Where the lines of a table are, for callers that do not hold the table (yet).
///
/// Only good for asking the processor for a line: the table may be gone, and the two numbers may be those of
/// two tables.
#[derive(Debug, Default)]
pub(crate) struct LinesHint {
    first_address: Counter,
    home_lines: Counter,
}

/// What one group of threads has put into a table.
#[derive(Debug, Default)]
struct Stripe {
    slots: Counter,
    until_max: Counter,
}

/// Where a search ended.
#[derive(Debug)]
pub(crate) enum Probe<'t> {
    /// The key's slot.
    Hit(&'t StampCell),
    /// The key has no slot; [`Table::locate`] goes on from here.
    Miss(Vacancy),
    /// No slot, and no room for one within the bound.
    Exhausted,
}

/// The place where a search for a key ended without finding it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Vacancy {
    line_index: usize,
    slot: usize,
}

/// The slot of a key.
#[derive(Debug)]
pub(crate) struct Located<'t> {
    pub(crate) cell: &'t StampCell,
    /// Whether this call created the slot.
    pub(crate) is_created: bool,
}

/// Lines for `ids` keys at a load of `percent`.
pub(crate) fn lines_for(ids: u64, percent: u64) -> u64 {
    let lines = u128::from(ids) * 100 / u128::from(percent * SLOTS_PER_LINE) + 1;
    u64::try_from(lines).unwrap_or(u64::MAX).min(u64::MAX / 2)
}

/// Bytes of a table with so many home lines.
pub(crate) fn bytes_for(home_lines: u64) -> u64 {
    home_lines.saturating_add(SPARE_LINES).saturating_mul(LINE_BYTES)
}

/// Memory for a table with so many home lines, not touched yet.
///
/// # Errors
///
/// [`Error::System`](crate::Error::System) when there is none.
pub(crate) fn reserve(home_lines: u64) -> Result<Region<Line>> {
    #[cfg(test)]
    refusal::ask(home_lines)?;
    let lines = home_lines.saturating_add(SPARE_LINES);
    Region::zeroed(to_index(lines))
}

/// Touches the lines `from..until` of memory that is not in use yet, so that nobody waits for the system
/// later.
pub(crate) fn touch(lines: &Region<Line>, from: u64, until: u64) {
    let step = 4096 / LINE_BYTES;
    let (from, until) = (to_index(from), to_index(until).min(lines.len()));
    for line in lines[from.min(until)..until].iter().step_by(to_index(step)) {
        line.stamp(0).put(Stamp::UNDECIDED);
    }
}

impl LinesHint {
    /// Points to the lines of `table` from now on.
    pub(crate) fn set(&self, table: &Table) {
        self.first_address.set(table.lines.as_ptr().addr() as u64);
        self.home_lines.set(table.home_lines);
    }

    /// Asks the processor for the line where a search for `key` would begin.
    #[inline]
    pub(crate) fn prefetch(&self, key: Fingerprint) {
        let bytes = home(key.hi(), self.home_lines.get()).wrapping_mul(size_of::<Line>());
        prefetch_at(to_index(self.first_address.get()).wrapping_add(bytes));
    }
}

impl Table {
    /// An empty table over zeroed memory.
    pub(crate) fn new(lines: Region<Line>, birth: u64) -> Table {
        let home_lines = (lines.len() as u64).saturating_sub(SPARE_LINES).max(1);
        let slots = home_lines * SLOTS_PER_LINE;
        let slots_rotate = (slots * LOAD_ROTATE_PERCENT / 100).max(1);
        // Often enough that all stripes together overshoot by at most an eighth.
        let count_step_shift = (slots_rotate / (STRIPES as u64 * 8)).max(1).ilog2();
        Table {
            lines,
            home_lines,
            birth,
            tally: Striped::default(),
            slots_undecided: Counter::default(),
            slots_rotate,
            slots_limit: (slots * LOAD_LIMIT_PERCENT / 100).max(1),
            count_step_shift,
            crowded: Counter::default(),
            lines_released: Counter::default(),
        }
    }

    /// Home line of every key with this `hi`.
    #[inline]
    fn home(&self, hi: u64) -> usize {
        home(hi, self.home_lines)
    }

    /// Asks the processor for the line where a search for `key` begins.
    #[inline]
    pub(crate) fn prefetch(&self, key: Fingerprint) {
        prefetch(&self.lines[self.home(key.hi())]);
    }

    /// Looks for a key without writing. One cache line as a rule.
    #[inline]
    pub(crate) fn find(&self, key: Fingerprint) -> Probe<'_> {
        let home = self.home(key.hi());
        for (line, line_index) in self.lines[home..].iter().zip(home..).take(WALK_LINES) {
            match line.look(key) {
                Look::Hit(slot) => return Probe::Hit(line.stamp(slot)),
                Look::Vacant(slot) => return Probe::Miss(Vacancy { line_index, slot }),
                Look::Full => {}
            }
        }
        Probe::Exhausted
    }

    /// The slot of a key, created if need be; the search goes on where [`Table::find`] has ended.
    ///
    /// `None` when there is no room within the bound of a walk. Lock-free: a slot that another thread has
    /// begun to take is completed, not waited for.
    #[inline]
    pub(crate) fn locate(&self, key: Fingerprint, vacancy: Vacancy) -> Option<Located<'_>> {
        let line = &self.lines[vacancy.line_index];
        match line.claim_slot(vacancy.slot, key) {
            SlotClaim::Foreign => self.locate_beyond(key, vacancy),
            claim => {
                Some(Located { cell: line.stamp(vacancy.slot), is_created: claim == SlotClaim::Created })
            }
        }
    }

    /// The same where another key was faster to take the slot.
    #[cold]
    fn locate_beyond(&self, key: Fingerprint, vacancy: Vacancy) -> Option<Located<'_>> {
        let Vacancy { line_index, mut slot } = vacancy;
        let end = (self.home(key.hi()) + WALK_LINES).min(self.lines.len());
        for line in &self.lines[line_index..end] {
            while slot < SLOTS {
                match line.claim_slot(slot, key) {
                    SlotClaim::Foreign => slot += 1,
                    claim => {
                        let is_created = claim == SlotClaim::Created;
                        return Some(Located { cell: line.stamp(slot), is_created });
                    }
                }
            }
            slot = 0;
        }
        None
    }

    /// Finds or creates the slot of a key in a table that takes no more inserts, to close it (P2).
    ///
    /// `None` when there is no room for it.
    pub(crate) fn locate_to_close(&self, key: Fingerprint) -> Option<&StampCell> {
        match self.find(key) {
            Probe::Hit(cell) => Some(cell),
            Probe::Exhausted => None,
            Probe::Miss(vacancy) => {
                let located = self.locate(key, vacancy)?;
                if located.is_created {
                    self.slots_undecided.add(1);
                    self.tally.mine().slots.add(1);
                }
                Some(located.cell)
            }
        }
    }

    /// Counts what a caller has recorded: slots created, and the last tick until which any of it is seen.
    ///
    /// Returns whether the table should be rotated. Exact to an eighth of the rotation load.
    #[inline]
    pub(crate) fn count(&self, slots_created: u64, until: u64) -> bool {
        let stripe = self.tally.mine();
        stripe.until_max.raise(until);
        if slots_created == 0 {
            return false;
        }
        let after = stripe.slots.add(slots_created);
        let before = after - slots_created;
        after >> self.count_step_shift != before >> self.count_step_shift && self.weigh()
    }

    /// Sums up the stripes; whether the table should be rotated.
    #[cold]
    fn weigh(&self) -> bool {
        let slots = self.slots();
        if slots >= self.slots_limit {
            self.crowded.set(1);
        }
        slots >= self.slots_rotate
    }

    /// Whether the table takes no new key until it is rotated.
    #[inline]
    pub(crate) fn is_crowded(&self) -> bool {
        self.crowded.get() != 0
    }

    /// Slots in use.
    pub(crate) fn slots(&self) -> u64 {
        self.tally.iter().map(|stripe| stripe.slots.get()).sum()
    }

    /// Slots in use at which the table is rotated.
    pub(crate) fn slots_rotate(&self) -> u64 {
        self.slots_rotate
    }

    /// Slots in use above which the table takes no new key.
    pub(crate) fn slots_limit(&self) -> u64 {
        self.slots_limit
    }

    /// Slots in use that hold a fact, or have held a claim.
    pub(crate) fn facts(&self) -> u64 {
        self.slots().saturating_sub(self.slots_undecided.get())
    }

    /// The last tick until which anything in the table is seen.
    pub(crate) fn until_max(&self) -> u64 {
        self.tally.iter().map(|stripe| stripe.until_max.get()).max().unwrap_or(0)
    }

    /// Tick from which versions count.
    pub(crate) fn birth(&self) -> u64 {
        self.birth
    }

    /// The tick that the version of a stamp in this table stands for.
    #[inline]
    pub(crate) fn until(&self, stamp: Stamp) -> u64 {
        self.birth.saturating_add(u64::from(stamp.version()))
    }

    /// A stamp of this table that says `state` until tick `until`; `None` when the table is too old to say
    /// so.
    #[inline]
    pub(crate) fn stamp(&self, state: State, until: u64) -> Option<Stamp> {
        let version = u32::try_from(until.saturating_sub(self.birth).max(1)).ok()?;
        if version > VERSION_MAX { None } else { Some(Stamp::new(state, version)) }
    }

    /// Bytes of memory that are charged for the table.
    pub(crate) fn bytes(&self) -> u64 {
        (self.lines.len() as u64).saturating_sub(self.lines_released.get()) * LINE_BYTES
    }
}

/// Passes over a frozen table and into one that is being merged: nobody, or only the caller, writes.
impl Table {
    /// Lines that are anybody's home.
    pub(crate) fn home_lines(&self) -> u64 {
        self.home_lines
    }

    /// All lines, the spare ones included.
    pub(crate) fn lines(&self) -> u64 {
        self.lines.len() as u64
    }

    /// All keys whose slot is in lines `from..until`, with their facts.
    pub(crate) fn slots_in(&self, from: u64, until: u64) -> impl Iterator<Item = (Fingerprint, Stamp)> {
        let end = to_index(until).min(self.lines.len());
        let lines = &self.lines[to_index(from).min(end)..end];
        lines.iter().enumerate().flat_map(|(index, line)| {
            // What the caller does with a key keeps the processor from running ahead by itself.
            if let Some(ahead) = lines.get(index + 16) {
                prefetch(ahead);
            }
            line.slots()
        })
    }

    /// All keys with a `hi` in `first..=last`, with their facts, roughly in the order of `hi`.
    ///
    /// Reads their home lines and the run of full lines behind the last one. Of a table that others write to,
    /// all keys that were there before.
    pub(crate) fn keys_between(&self, first: u64, last: u64) -> impl Iterator<Item = (Fingerprint, Stamp)> {
        let (home_first, home_last) = (self.home(first), self.home(last));
        let run = self.lines[home_last..].iter().position(|line| !line.is_full());
        let end = run.map_or(self.lines.len(), |run| home_last + run + 1);
        let slots = self.lines[home_first..end].iter().flat_map(Line::slots);
        slots.filter(move |(key, _)| (first..=last).contains(&key.hi()))
    }

    /// The smallest `hi` whose home is `line_index`; `None` when no `hi` has it.
    pub(crate) fn hi_at(&self, line_index: u64) -> Option<u64> {
        if line_index >= self.home_lines {
            return None;
        }
        let hi = (u128::from(line_index) << 64).div_ceil(u128::from(self.home_lines));
        u64::try_from(hi).ok()
    }

    /// Writes a key that is not in the table yet; false when there is no room for it.
    pub(crate) fn put(&self, key: Fingerprint, stamp: Stamp, until: u64) -> bool {
        let Probe::Miss(vacancy) = self.find(key) else { return false };
        self.lines[vacancy.line_index].put(vacancy.slot, key, stamp);
        let stripe = self.tally.mine();
        stripe.slots.add(1);
        stripe.until_max.raise(until);
        true
    }

    /// Writes a key where it is in another table with as many home lines, of which this one becomes a copy.
    ///
    /// # Panics
    ///
    /// When there is no such line or slot.
    pub(crate) fn put_at(&self, line_index: u64, slot: usize, key: Fingerprint, stamp: Stamp) {
        self.lines[to_index(line_index)].put(slot, key, stamp);
    }

    /// Raises a key's fact to at least `stamp`, while nobody else writes; `None` when there is no room.
    ///
    /// Returns whether the key is new to the table.
    pub(crate) fn raise(&self, key: Fingerprint, stamp: Stamp, until: u64) -> Option<bool> {
        let vacancy = match self.find(key) {
            Probe::Hit(cell) => {
                let found = cell.load();
                if found < stamp {
                    cell.put(stamp);
                    self.tally.mine().until_max.raise(until);
                }
                return Some(false);
            }
            Probe::Miss(vacancy) => vacancy,
            Probe::Exhausted => return None,
        };
        self.lines[vacancy.line_index].put(vacancy.slot, key, stamp);
        self.count(1, until);
        Some(true)
    }

    /// Gives back the memory of all lines before the home of `hi`, which nobody may look at any more.
    pub(crate) fn release_below(&self, hi: u64) {
        let (from, until) = (self.lines_released.get(), self.home(hi));
        let released = self.lines.release(to_index(from), until);
        self.lines_released.add(released as u64 / LINE_BYTES);
    }

    /// A planted fault for the models: what an abort must never do.
    #[cfg(mutants)]
    pub(crate) fn reset(&self, key: Fingerprint) {
        let home = self.home(key.hi());
        for line in &self.lines[home..(home + WALK_LINES).min(self.lines.len())] {
            if let Look::Hit(slot) = line.look(key) {
                line.reset(slot);
            }
        }
    }
}

/// Home line of every key with this `hi`, in a table with so many home lines.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "less than the number of lines, which is a usize")]
fn home(hi: u64, home_lines: u64) -> usize {
    ((u128::from(hi) * u128::from(home_lines)) >> 64) as usize
}

/// Longest walk of a probe, in lines.
#[expect(clippy::cast_possible_truncation, reason = "a small constant")]
const WALK_LINES: usize = SPARE_LINES as usize + 1;

/// A number of lines as an index; what does not fit is beyond any table.
fn to_index(lines: u64) -> usize {
    usize::try_from(lines).unwrap_or(usize::MAX)
}
