//! Merging two neighbouring frozen tables into one, in the order of `hi`, while calls go on.
//!
//! ```text
//!  hi:      0 ............ frontier ............ 2^64 - 1
//!  merged   | answers      |                            |   filled up to the frontier
//!  newer    | given back   | answers                    |
//!  older    | given back   | answers                    |
//! ```
//!
//! Each slice copies the keys between the old and the new frontier and publishes a view in which the
//! merged table answers up to there. When no call holds an earlier view, the memory of the sources below the
//! frontier is given back, so a merge needs little more memory than its result. Keys are copied as facts: the
//! newer table's fact hides the older one's, since a new fact always exceeds those found before it.

use crate::bloom::{Bloom, BloomBuilder};
use crate::error::Result;
use crate::fingerprint::Fingerprint;
use crate::limits::{
    BUDGET_PARTS_FORGOTTEN, FILTER_BITS_PER_KEY, FROZEN_MAX, FROZEN_MAX_WINDOWED, LINES_PER_STEP,
    LOAD_MERGED_PERCENT,
};
use crate::options::WhenFull;
use crate::stamp::{Stamp, State, VERSION_MAX};
use crate::sync::Arc;
use crate::table::{Probe, Table, bytes_for, lines_for, reserve};

use super::core::Core;
use super::fact::Fact;
use super::growth;
use super::succession::Succession;
use super::view::{Older, View};

/// A merge in progress.
#[derive(Debug)]
pub(crate) struct Merge {
    newer: Arc<Table>,
    older: Arc<Table>,
    merged: Arc<Table>,
    /// Taken when the merge is over.
    filter: Option<BloomBuilder>,
    /// The first `hi` that is not copied yet.
    frontier: u64,
    next_line: u64,
    /// The present, in ticks, when the merge began: what is over by then is left out.
    now: u64,
    /// Whether no table older than these two is left to be hidden by a forgotten fact.
    is_oldest: bool,
    /// Where IDs have windows a forgotten fact still says how long its ID stays seen when it comes again.
    is_forever: bool,
    /// Number of the view since which the sources below a frontier are not asked.
    releases: Vec<(u64, u64)>,
}

/// What one slice of a merge came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// There is more to copy.
    More,
    /// The merged table has taken the place of its sources.
    Done,
    /// IDs chosen to collide: what is merged stays merged, the rest stays where it is.
    NoRoom,
}

impl Merge {
    /// The merge that is most worth having, if any: of the two neighbours that are cheapest together.
    pub(crate) fn begin(core: &Core, view: &View) -> Result<Option<Merge>> {
        let is_full = core.full_at.get() == view.number + 1;
        // Tables with a window go as a whole when they are over; merging them would only keep them longer.
        let count_max = if core.span.is_forever() { FROZEN_MAX } else { FROZEN_MAX_WINDOWED };
        if view.older.len() <= count_max && !(is_full && core.span.is_forever()) {
            return Ok(None);
        }
        let cost = |pair: &[Older]| pair.iter().map(|older| older.table.facts()).sum::<u64>();
        let pairs = view.older.windows(2).enumerate().filter(|(_, pair)| can_merge(pair));
        let Some((index, pair)) = pairs.min_by_key(|(_, pair)| cost(pair)) else { return Ok(None) };
        let birth = pair[0].table.birth().min(pair[1].table.birth());
        let facts = cost(pair).max(1);
        let lines = lines_for(facts, LOAD_MERGED_PERCENT) + 1;
        let is_too_large = core.when_full == WhenFull::ForgetOldest
            && bytes_for(lines) > core.memory_budget / BUDGET_PARTS_FORGOTTEN;
        if is_too_large || core.memory_promised(view) + growth::bytes_with_filter(lines) > core.memory_budget
        {
            return Ok(None);
        }
        let merged = Table::new(reserve(lines)?, birth);
        core.counters.memory_merge.set(growth::bytes_with_filter(lines));
        Ok(Some(Merge {
            newer: Arc::clone(&pair[0].table),
            older: Arc::clone(&pair[1].table),
            merged: Arc::new(merged),
            filter: Some(BloomBuilder::new(facts, FILTER_BITS_PER_KEY)?),
            frontier: 0,
            next_line: 0,
            now: if core.span.is_forever() { 0 } else { core.span.tick_at(core.now()) },
            is_oldest: index + 2 == view.older.len(),
            is_forever: core.span.is_forever(),
            releases: Vec::new(),
        }))
    }

    /// Whether this is the table that is being filled.
    pub(crate) fn is_into(&self, table: &Arc<Table>) -> bool {
        Arc::ptr_eq(&self.merged, table)
    }

    /// Copies one slice.
    pub(crate) fn step(&mut self, core: &Core, succession: &mut Succession) -> Step {
        self.release(succession);
        self.next_line += LINES_PER_STEP;
        let next = self.merged.hi_at(self.next_line);
        let last = next.map_or(u64::MAX, |next| next - 1);
        if !self.copy(self.frontier, last) {
            core.counters.memory_merge.set(0);
            return Step::NoRoom;
        }
        let filter =
            if last == u64::MAX { self.filter.take().map(|filter| Arc::new(filter.build())) } else { None };
        let number =
            succession.publish(&core.views, |view| self.advance_frontier(view, last, filter.as_ref()));
        core.counters.memory_merge.set(self.filter.as_ref().map_or(0, BloomBuilder::memory_bytes));
        if last == u64::MAX {
            core.counters.merges.add(1);
            return Step::Done;
        }
        self.frontier = last + 1;
        self.releases.push((number, self.frontier));
        Step::More
    }

    /// Copies the keys with a `hi` in `first..=last`; false when there was no room for one.
    fn copy(&mut self, first: u64, last: u64) -> bool {
        let newer = Arc::clone(&self.newer);
        for (key, stamp) in newer.keys_between(first, last) {
            if !self.copy_key(key, Fact::of(&newer, stamp)) {
                return false;
            }
        }
        let older = Arc::clone(&self.older);
        for (key, stamp) in older.keys_between(first, last) {
            let is_hidden = matches!(newer.find(key), Probe::Hit(cell)
                if Fact::of(&newer, cell.load().fact()) != Fact::None);
            if !is_hidden && !self.copy_key(key, Fact::of(&older, stamp)) {
                return false;
            }
        }
        true
    }

    /// Copies one key unless nothing is known of it any more; false when there was no room.
    fn copy_key(&mut self, key: Fingerprint, fact: Fact) -> bool {
        let (state, until) = match fact {
            Fact::Seen(until) => (State::Seen, until),
            // Its lease, if it is still held, was carried to a newer table: read back as before the claim.
            Fact::Forgotten(_) | Fact::Pending(..) => (State::Forgotten, fact.floor()),
            Fact::None => return true,
        };
        let is_hiding_nothing = state == State::Forgotten && self.is_oldest && self.is_forever;
        if until <= self.now || is_hiding_nothing {
            return true;
        }
        let stamp = self.merged.stamp(state, until).unwrap_or(Stamp::new(state, VERSION_MAX));
        if let Some(filter) = &mut self.filter {
            filter.insert(key);
        }
        self.merged.put(key, stamp, until)
    }

    /// Lets the merged table answer up to `last` and its sources from there on.
    fn advance_frontier(&self, view: &mut View, last: u64, filter: Option<&Arc<Bloom>>) {
        let is_source =
            |table: &Arc<Table>| Arc::ptr_eq(table, &self.newer) || Arc::ptr_eq(table, &self.older);
        if self.frontier == 0 {
            let index = view.older.iter().position(|older| Arc::ptr_eq(&older.table, &self.newer));
            let mut merged = Older::frozen(Arc::clone(&self.merged), view.number, 0);
            merged.is_carried = true;
            view.older.insert(index.unwrap_or(0), merged);
        }
        for older in &mut view.older {
            if Arc::ptr_eq(&older.table, &self.merged) {
                older.hi_last = last;
                older.filter = filter.cloned();
            } else if is_source(&older.table) {
                older.hi_first = last.saturating_add(1);
            }
        }
        if last == u64::MAX {
            view.older.retain(|older| !is_source(&older.table));
        }
    }

    /// Gives back what no call can look at any more.
    fn release(&mut self, succession: &mut Succession) {
        while let Some((number, frontier)) = self.releases.first().copied() {
            if !succession.is_drained_before(number) {
                return;
            }
            self.newer.release_below(frontier);
            self.older.release_below(frontier);
            self.releases.remove(0);
        }
    }
}

/// Whether two neighbours are whole, ready, and close enough in time for one table to state both.
fn can_merge(pair: &[Older]) -> bool {
    let is_ready = |older: &Older| {
        older.is_carried && older.filter.is_some() && older.hi_first == 0 && older.hi_last == u64::MAX
    };
    let birth = pair.iter().map(|older| older.table.birth()).min().unwrap_or(0);
    let until = pair.iter().map(|older| older.table.until_max()).max().unwrap_or(0);
    pair.iter().all(is_ready) && until.saturating_sub(birth) <= u64::from(VERSION_MAX)
}
