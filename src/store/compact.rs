//! Merging neighbouring tables into one, in the order of `hi`, while calls go on.
//!
//! Frozen tables are merged in a store in memory, elsewhere those that are kept for sealed generations.
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
//!
//! Frozen tables grow with what is held, so the pair that is cheapest is merged, and so where IDs have
//! windows. In a store that never forgets kept tables come in one size, which the log bounds: there a table
//! is copied again once as much newer has come as that is worth (as in [`fuse`](super::fuse)), and then with
//! all that is newer, in one go. To 10^8 IDs in tables of 8 * 10^6 each is copied three times.

use std::ops::Range;

use crate::bloom::{Bloom, BloomBuilder};
use crate::fingerprint::Fingerprint;
use crate::limits::{
    BUDGET_PARTS_FORGOTTEN, FILTER_BITS_PER_KEY, FROZEN_MAX, FROZEN_MAX_WINDOWED, LINES_PER_STEP,
    LOAD_MERGED_PERCENT,
};
use crate::options::WhenFull;
use crate::stamp::{Stamp, State, VERSION_MAX};
use crate::sync::Arc;
use crate::table::{Table, bytes_for, lines_for, reserve};

use super::core::Core;
use super::fact::Fact;
use super::fuse::least_beside_newer;
use super::growth;
use super::succession::Succession;
use super::view::{Older, View};

/// A merge in progress.
#[derive(Debug)]
pub(crate) struct Merge {
    /// Whether kept tables are merged, and not frozen ones.
    is_of_kept: bool,
    /// Newest first.
    sources: Vec<Arc<Table>>,
    merged: Arc<Table>,
    /// Asked from the first slice on: without it each new ID below the frontier had to look into the table,
    /// and took half as long again as before the merge.
    filter: Arc<Bloom>,
    /// The first `hi` that is not copied yet.
    frontier: u64,
    next_line: u64,
    /// The present, in ticks, when the merge began: what is over by then is left out.
    now: u64,
    /// Whether a forgotten fact may go: no older table is left to be hidden by it, nor a file, and it need
    /// not say how long its ID stays seen when it comes again, as where IDs have windows.
    is_hiding_nothing: bool,
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
    /// The merge that is most worth having, if any has room. Memory that the system refuses is as good as a
    /// used-up budget: nothing else may wait for a merge.
    pub(crate) fn begin(core: &Core, view: &View) -> Option<Merge> {
        let is_of_kept = core.durable.is_some();
        let is_full = !is_of_kept && core.full_at.get() == view.number + 1;
        let tables = if is_of_kept { &view.kept } else { &view.older };
        // Tables with a window go as a whole when they are over; merging them would only keep them longer.
        let count_max = if core.span.is_forever() { FROZEN_MAX } else { FROZEN_MAX_WINDOWED };
        if tables.len() <= count_max && !(is_full && core.span.is_forever()) {
            return None;
        }
        let room = if is_of_kept {
            core.memory_room(view)
        } else {
            core.memory_budget.saturating_sub(core.memory_promised(view))
        };
        let has_room = |range: &Range<usize>| {
            let lines = merged_lines(&tables[range.clone()]);
            let is_too_large = core.when_full == WhenFull::ForgetOldest
                && bytes_for(lines) > core.memory_budget / BUDGET_PARTS_FORGOTTEN;
            !is_too_large && growth::bytes_with_filter(lines) <= room
        };
        let is_possible = |range: &Range<usize>| can_merge(&tables[range.clone()]) && has_room(range);
        let range = if is_of_kept && core.span.is_forever() {
            let sizes: Vec<u64> = tables.iter().map(|kept| kept.table.facts()).collect();
            least_beside_newer(&sizes, (1..tables.len()).map(|older| 0..older + 1).filter(is_possible))
        } else {
            let pairs = (1..tables.len()).map(|older| older - 1..older + 1);
            pairs.filter(is_possible).min_by_key(|pair| facts_of(&tables[pair.clone()]))
        }?;
        let sources = &tables[range.clone()];
        let lines = merged_lines(sources);
        let merged = Table::new(reserve(lines).ok()?, birth_of(sources));
        let filter = BloomBuilder::new(facts_of(sources), FILTER_BITS_PER_KEY).ok()?.build();
        core.counters.memory_merge.set(growth::bytes_with_filter(lines));
        Some(Merge {
            is_of_kept,
            sources: sources.iter().map(|source| Arc::clone(&source.table)).collect(),
            merged: Arc::new(merged),
            filter: Arc::new(filter),
            frontier: 0,
            next_line: 0,
            now: if core.span.is_forever() { 0 } else { core.span.tick_at(core.now()) },
            is_hiding_nothing: !is_of_kept && range.end == tables.len() && core.span.is_forever(),
            releases: Vec::new(),
        })
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
        let number = succession.publish(&core.views, |view| self.advance_frontier(view, last));
        // Both are in the view now.
        core.counters.memory_merge.set(0);
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
        let sources = std::mem::take(&mut self.sources);
        let is_hidden =
            |newer: &[Arc<Table>], key| newer.iter().any(|table| Fact::in_table(table, key) != Fact::None);
        let has_room = sources.iter().enumerate().all(|(index, source)| {
            source.keys_between(first, last).all(|(key, stamp)| {
                is_hidden(&sources[..index], key) || self.copy_key(key, Fact::of(source, stamp))
            })
        });
        self.sources = sources;
        has_room
    }

    /// Copies one key unless nothing is known of it any more; false when there was no room.
    fn copy_key(&mut self, key: Fingerprint, fact: Fact) -> bool {
        let (state, until) = match fact {
            Fact::Seen(until) => (State::Seen, until),
            // Its lease, if it is still held, was carried to a newer table: read back as before the claim.
            Fact::Forgotten(_) | Fact::Pending(..) => (State::Forgotten, fact.floor()),
            Fact::None => return true,
        };
        if until <= self.now || state == State::Forgotten && self.is_hiding_nothing {
            return true;
        }
        let stamp = self.merged.stamp(state, until).unwrap_or(Stamp::new(state, VERSION_MAX));
        self.filter.extend(key);
        self.merged.put(key, stamp, until)
    }

    /// Leaves out sources that have gone from the view, for which files answer now; whether there still is
    /// something to merge. What was copied of them stays: it is no newer than what is asked after it.
    pub(crate) fn keep_listed(&mut self, view: &View) -> bool {
        let tables = if self.is_of_kept { &view.kept } else { &view.older };
        let is_listed = |table: &Arc<Table>| tables.iter().any(|older| Arc::ptr_eq(&older.table, table));
        self.sources.retain(is_listed);
        if self.frontier == 0 { self.sources.len() > 1 } else { is_listed(&self.merged) }
    }

    fn is_source(&self, table: &Arc<Table>) -> bool {
        self.sources.iter().any(|source| Arc::ptr_eq(source, table))
    }

    /// Lets the merged table answer up to `last` and its sources from there on.
    fn advance_frontier(&self, view: &mut View, last: u64) {
        let number = view.number;
        let tables = if self.is_of_kept { &mut view.kept } else { &mut view.older };
        if self.frontier == 0 {
            let newest = tables.iter().position(|older| self.is_source(&older.table)).unwrap_or(0);
            let sources = tables.iter().filter(|older| self.is_source(&older.table));
            let mut covers: Vec<u64> = sources.flat_map(|source| source.covers.iter().copied()).collect();
            covers.sort_unstable();
            covers.dedup();
            let frozen = Older::frozen(Arc::clone(&self.merged), number, 0);
            let filter = Some(Arc::clone(&self.filter));
            tables.insert(newest, Older { is_carried: true, filter, covers, ..frozen });
        }
        for older in tables.iter_mut() {
            if Arc::ptr_eq(&older.table, &self.merged) {
                older.hi_last = last;
            } else if self.is_source(&older.table) {
                older.hi_first = last.saturating_add(1);
            }
        }
        if last == u64::MAX {
            tables.retain(|older| !self.is_source(&older.table));
        }
    }

    /// Gives back what no call can look at any more.
    fn release(&mut self, succession: &mut Succession) {
        while let Some((number, frontier)) = self.releases.first().copied() {
            if !succession.is_drained_before(number) {
                return;
            }
            self.sources.iter().for_each(|source| source.release_below(frontier));
            self.releases.remove(0);
        }
    }
}

/// IDs in tables, those in several as often.
fn facts_of(tables: &[Older]) -> u64 {
    tables.iter().map(|older| older.table.facts()).sum()
}

fn birth_of(tables: &[Older]) -> u64 {
    tables.iter().map(|older| older.table.birth()).min().unwrap_or(0)
}

/// Lines of the table that tables are merged into.
fn merged_lines(tables: &[Older]) -> u64 {
    lines_for(facts_of(tables).max(1), LOAD_MERGED_PERCENT) + 1
}

/// Whether neighbours are whole, ready, and close enough in time for one table to state all.
fn can_merge(tables: &[Older]) -> bool {
    let is_ready = |older: &Older| {
        older.is_carried && older.filter.is_some() && older.hi_first == 0 && older.hi_last == u64::MAX
    };
    let until = tables.iter().map(|older| older.table.until_max()).max().unwrap_or(0);
    tables.iter().all(is_ready) && until.saturating_sub(birth_of(tables)) <= u64::from(VERSION_MAX)
}
