//! Maintenance: everything that changes the structure of a store, one short step after another.
//!
//! ```text
//! active --rotate--> closing --grace period--> frozen --filter--> screened --merge--> merged
//!                                                                           \--expire--> gone
//! ```
//!
//! In a store with a directory frozen tables are sealed first, and merged as kept ones: `seal`, `kept`.
//!
//! Steps are ordered by urgency and long work is cut into slices of about a millisecond, so that a rotation
//! never waits for a merge. All steps run under one lock which no caller that answers a check takes, but one
//! that steps maintenance by hand.
//!
//! Grace periods are those of [`Succession`].

use crate::bloom::{Bloom, BloomBuilder};
use crate::error::Result;
use crate::limits::{
    FILTER_BITS_PER_KEY, FROZEN_MAX, FROZEN_ROTATE_MAX, GENERATIONS_BEHIND, KEPT_MAX, LINES_MIN,
    LINES_PER_STEP,
};
use crate::options::WhenFull;
use crate::stamp::State;
use crate::sync::Arc;
use crate::table::{Line, Region, Table, bytes_for, reserve, touch};

use super::compact::{Merge, Step};
use super::core::Core;
use super::durable::Durable;
use super::growth;
use super::succession::Succession;
use super::upkeep::Upkeep;
use super::view::{Closing, Older, View};

/// What one step of maintenance came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Progress {
    /// Something was done; there may be more to do.
    Worked,
    /// Something is to be done, but calls that began before must end first.
    Waiting,
    /// Nothing is to be done.
    Idle,
}

/// What only the maintenance touches.
#[derive(Debug, Default)]
pub(crate) struct Structure {
    succession: Succession,
    spare: Option<Spare>,
    /// Long work in progress: a filter, which new IDs wait for, before a merge.
    filter: Option<FilterTask>,
    merge: Option<Merge>,
    /// Whether a merge has found no room: the IDs are not evenly spread, and others would fail as well.
    has_failed_to_merge: bool,
    /// What is being done on disk, in a store that has one.
    upkeep: Upkeep,
    /// Whether the last slice that others may wait for went to the log.
    was_log: bool,
    /// What of the work of a store with files has the next turn.
    turn: usize,
}

/// Memory for the next table, touched ahead of need.
#[derive(Debug)]
struct Spare {
    lines: Region<Line>,
    touched: u64,
}

/// A filter being built over a frozen table.
#[derive(Debug)]
struct FilterTask {
    table: Arc<Table>,
    builder: BloomBuilder,
    next_line: u64,
}

impl Structure {
    /// One step, the most urgent first.
    pub(crate) fn step(&mut self, core: &Core) -> Result<Progress> {
        self.succession.reap();
        if core.durable.as_ref().is_some_and(Durable::is_given_up) {
            return Ok(Progress::Idle);
        }
        let memory = core.memory_bytes(&core.views.load());
        core.counters.memory_peak.raise(memory);
        if self.freeze(core) || self.expire(core) || self.upkeep.pace_log(core)? {
            return Ok(Progress::Worked);
        }
        let rotation = self.rotate(core)?;
        if rotation == Progress::Worked || self.slice(core, rotation == Progress::Waiting)? {
            return Ok(Progress::Worked);
        }
        if rotation == Progress::Waiting {
            return Ok(Progress::Waiting);
        }
        if core.leases.is_half_full() {
            core.leases.sweep(core.clock.now());
        }
        Ok(if self.succession.is_drained() { Progress::Idle } else { Progress::Waiting })
    }

    /// What a caller without a maintenance thread needs to go on in a full table: a rotation, and now and
    /// then the filters and merges that nobody has stepped.
    pub(crate) fn rotate_if_due(&mut self, core: &Core) -> Result<()> {
        self.succession.reap();
        Upkeep::trim_log(core)?;
        if self.freeze(core) || self.expire(core) || self.carry(core) {
            return Ok(());
        }
        if core.is_sealing_behind(&core.views.load()) {
            while self.background(core)? {}
        }
        let unfiltered = core.views.load().older.iter().filter(|older| older.filter.is_none()).count();
        if unfiltered > FROZEN_MAX {
            while self.background(core)? {}
        }
        if self.rotate(core)? == Progress::Waiting {
            // For memory, it may be, which only the work in the background frees: sealing above all.
            self.background(core)?;
        }
        Ok(())
    }

    /// Turns the closing table into a frozen one once nobody can decide in it any more.
    fn freeze(&mut self, core: &Core) -> bool {
        let view = core.views.load();
        let Some(closing) = view.closing.clone() else { return false };
        drop(view);
        if !self.succession.is_drained_before(closing.since) {
            return false;
        }
        self.succession.publish(&core.views, |view| {
            view.closing = None;
            view.older.insert(0, Older::frozen(closing.table, view.number, closing.log_from));
        });
        true
    }

    /// Makes a new active table when the present one is full or old.
    fn rotate(&mut self, core: &Core) -> Result<Progress> {
        let view = core.views.load();
        let now = core.span.tick_at(core.now());
        let is_old = now >= view.rotate_at && view.active.slots() > 0;
        if !is_old
            && !core.is_rotation_wanted(view.number)
            && view.active.slots() < view.active.slots_rotate()
        {
            return Ok(Progress::Idle);
        }
        if view.closing.is_some() || core.is_sealing_behind(&view) {
            return Ok(Progress::Waiting);
        }
        if view.older.len() + view.sealed.len() >= FROZEN_ROTATE_MAX {
            if core.durable.is_some() && self.upkeep.is_fusing() {
                return Ok(Progress::Waiting);
            }
            if core.durable.is_none() && self.merge_or_begin(core) {
                return Ok(Progress::Worked);
            }
            core.full_at.set(view.number + 1);
            return Ok(Progress::Idle);
        }
        let spare = self.spare.take();
        core.counters.memory_spare.set(0);
        let lines = match spare {
            Some(spare) => spare.lines,
            None => match self.reserve_within_budget(core, &view)? {
                Some(lines) => lines,
                None if core.durable.is_some() && !view.older.is_empty() => return Ok(Progress::Waiting),
                // Sealing is what frees memory: a small table is made so that the large one can be sealed.
                None if core.durable.is_some() && view.active.slots() > 0 => {
                    reserve(LINES_MIN.max(growth::lease_lines(core.leases.held())))?
                }
                None => {
                    core.full_at.set(view.number + 1);
                    return Ok(Progress::Idle);
                }
            },
        };
        drop(view);
        let active = Arc::new(Table::new(lines, if core.span.is_forever() { 0 } else { now }));
        // Read before the new table can be seen: what is decided in it is logged in this segment or later.
        let log_from = core.log_segment();
        self.succession.publish(&core.views, |view| {
            let table = std::mem::replace(&mut view.active, active);
            let log_from = std::mem::replace(&mut view.log_from, log_from);
            view.closing = Some(Closing { table, since: view.number, log_from });
            view.rotate_at = growth::rotate_at(&core.span, now);
        });
        core.counters.rotations.add(1);
        Ok(Progress::Worked)
    }

    /// Memory for the next table, as much as the budget allows; `None` when that is nothing worth having.
    fn reserve_within_budget(&mut self, core: &Core, view: &View) -> Result<Option<Region<Line>>> {
        let is_full = view.active.slots() >= view.active.slots_rotate();
        let wanted = core.next_lines(view, is_full);
        let mut promised = core.memory_promised(view);
        let needed = growth::bytes_with_filter(wanted);
        if promised + needed > core.memory_budget {
            promised -= self.release_sealed(core, promised + needed - core.memory_budget);
        }
        if core.durable.is_none()
            && core.when_full == WhenFull::ForgetOldest
            && promised + needed > core.memory_budget
        {
            promised -= self.forget_oldest(core, promised + needed - core.memory_budget)?;
        }
        let room = core.memory_budget.saturating_sub(promised);
        let lines = wanted.min(room / growth::bytes_with_filter(LINES_MIN) * LINES_MIN);
        let least = wanted.min(LINES_MIN).max(growth::lease_lines(core.leases.held()));
        // Memory that the system refuses is as good as a used-up budget: callers are told, and it is tried
        // again.
        Ok(if lines < least { None } else { reserve(lines).ok() })
    }

    /// As [`Upkeep::release_sealed`].
    pub(crate) fn release_sealed(&mut self, core: &Core, excess: u64) -> u64 {
        let freed = self.upkeep.release_sealed(core, &mut self.succession, excess);
        // What it holds of them is not given back.
        self.prune_merge(core);
        freed
    }

    /// Drops the oldest generations until `excess` bytes are free, whatever they hold, and counts the IDs.
    ///
    /// Returns the bytes. A table whose leases are not carried yet is kept, and all newer ones (L1).
    fn forget_oldest(&mut self, core: &Core, excess: u64) -> Result<u64> {
        // A merge in progress owns entries of the view: it is brought to its end first.
        while self.step_merge(core) {}
        let view = core.views.load();
        let (mut kept, mut freed) = (view.older.len(), 0);
        while freed < excess && kept > 0 && view.older[kept - 1].is_carried {
            kept -= 1;
            freed += view.older[kept].bytes();
        }
        let ids = view.older[kept..].iter().map(|older| older.table.facts()).sum::<u64>();
        drop(view);
        core.counters.ids_dropped.add(ids);
        self.succession.publish(&core.views, |view| view.older.truncate(kept));
        Ok(freed)
    }

    /// Drops frozen tables in which everything is over.
    fn expire(&mut self, core: &Core) -> bool {
        if core.span.is_forever() || self.merge.is_some() {
            return false;
        }
        let now = core.span.tick_at(core.now());
        let is_over = |older: &Older| older.is_carried && older.table.until_max() <= now;
        let count = core.views.load().older.iter().filter(|older| is_over(older)).count();
        if count == 0 {
            return false;
        }
        if self.filter.take_if(|task| task.table.until_max() <= now).is_some() {
            core.counters.memory_filter.set(0);
        }
        self.succession.publish(&core.views, |view| view.older.retain(|older| !is_over(older)));
        core.counters.tables_expired.add(count as u64);
        true
    }

    /// One slice of the log's next segment, which callers would have to make themselves when it is needed, or
    /// else of other work; by turns while a rotation, which they may wait for as well, waits for that other
    /// work.
    fn slice(&mut self, core: &Core, is_rotation_waiting: bool) -> Result<bool> {
        self.was_log = !(is_rotation_waiting && self.was_log);
        if self.was_log {
            return Ok(Upkeep::prepare_log(core)? || self.background(core)?);
        }
        Ok(self.background(core)? || Upkeep::prepare_log(core)?)
    }

    /// One slice of long work, the most urgent first; false when there is none.
    fn background(&mut self, core: &Core) -> Result<bool> {
        if self.carry(core) || self.prepare(core) || self.step_filter(core)? {
            return Ok(true);
        }
        match &core.durable {
            None => Ok(self.merge_or_begin(core)),
            Some(durable) => self.upkeep(core, durable),
        }
    }

    /// One slice of what a store with files has to do: sealing first, which memory waits for, then merging,
    /// which new IDs wait for, then fusing. Where many tables wait to be merged, or files to be fused, these
    /// take turns with it.
    fn upkeep(&mut self, core: &Core, durable: &Durable) -> Result<bool> {
        let view = core.views.load();
        let (kept, sealed) = (view.kept.len(), view.sealed.len());
        drop(view);
        self.turn = (self.turn + 1) % 3;
        let has_worked = match self.turn {
            1 if kept > KEPT_MAX => self.merge_or_begin(core),
            2 if sealed >= GENERATIONS_BEHIND => self.step_fusion(core, durable)?,
            _ => false,
        };
        Ok(has_worked
            || self.upkeep.step(core, durable, &mut self.succession)?
            || self.merge_or_begin(core)
            || self.step_fusion(core, durable)?)
    }

    fn step_fusion(&mut self, core: &Core, durable: &Durable) -> Result<bool> {
        self.upkeep.step_fusion(core, durable, &mut self.succession)
    }

    /// Carries leases out of tables that were just frozen, so that these may go one day.
    fn carry(&mut self, core: &Core) -> bool {
        let view = core.views.load();
        let frozen =
            view.older.iter().filter(|older| !older.is_carried).map(|older| older.frozen_since).max();
        drop(view);
        let Some(frozen_since) = frozen else { return false };
        if !self.succession.is_drained_before(frozen_since) || !core.carry_leases() {
            return false;
        }
        self.succession.publish(&core.views, |view| {
            for older in view.older.iter_mut().filter(|older| older.frozen_since <= frozen_since) {
                older.is_carried = true;
            }
        });
        true
    }

    /// Reserves and touches the next table when the active one is nearly full, with more than was expected,
    /// or nearly old.
    fn prepare(&mut self, core: &Core) -> bool {
        let view = core.views.load();
        let is_old = growth::is_nearly_old(&view, &core.span, core.now());
        let is_near = view.active.slots() >= view.active.slots_rotate() / 4 * 3;
        if let Some(spare) = &mut self.spare {
            let lines = spare.lines.len() as u64;
            if is_old && lines / 2 > core.next_lines(&view, false) + LINES_MIN {
                // Made in a burst that did not last, and would be kept for a whole window.
                self.spare = None;
                core.counters.memory_spare.set(0);
                return true;
            }
            if spare.touched >= lines {
                return false;
            }
            let until = (spare.touched + LINES_PER_STEP).min(lines);
            touch(&spare.lines, spare.touched, until);
            spare.touched = until;
            return true;
        }
        let is_due = is_old || (is_near && growth::is_outgrown(&view, core.ids_expected));
        if view.closing.is_some() || !is_due {
            return false;
        }
        let wanted = core.next_lines(&view, !is_old);
        if core.memory_promised(&view) + growth::bytes_with_filter(wanted) > core.memory_budget {
            return false;
        }
        let Ok(lines) = reserve(wanted) else { return false };
        core.counters.memory_spare.set(bytes_for(wanted));
        self.spare = Some(Spare { lines, touched: 0 });
        true
    }

    /// One slice of a filter, for the newest table that has none; false when all have one.
    fn step_filter(&mut self, core: &Core) -> Result<bool> {
        let Some(mut task) =
            self.filter.take().map_or_else(|| self.begin_filter(core), |task| Ok(Some(task)))?
        else {
            return Ok(false);
        };
        let until = task.next_line + LINES_PER_STEP;
        for (key, stamp) in task.table.slots_in(task.next_line, until) {
            if stamp.state() != State::Undecided {
                task.builder.insert(key);
            }
        }
        task.next_line = until;
        if until < task.table.lines() {
            self.filter = Some(task);
            return Ok(true);
        }
        let filter: Arc<Bloom> = Arc::new(task.builder.build());
        self.succession.publish(&core.views, |view| {
            for older in view.older.iter_mut().filter(|older| Arc::ptr_eq(&older.table, &task.table)) {
                older.filter = Some(Arc::clone(&filter));
            }
        });
        core.counters.memory_filter.set(0);
        Ok(true)
    }

    fn begin_filter(&self, core: &Core) -> Result<Option<FilterTask>> {
        let view = core.views.load();
        let is_merging = |older: &Older| self.merge.as_ref().is_some_and(|merge| merge.is_into(&older.table));
        let is_lacking = |older: &&Older| older.filter.is_none() && older.is_carried && !is_merging(older);
        let Some(older) = view.older.iter().find(is_lacking) else { return Ok(None) };
        let table = Arc::clone(&older.table);
        let builder = BloomBuilder::new(table.facts().max(1), FILTER_BITS_PER_KEY)?;
        core.counters.memory_filter.set(builder.memory_bytes());
        Ok(Some(FilterTask { table, builder, next_line: 0 }))
    }

    /// One slice of the merge in progress, or the beginning of one that is worth having.
    fn merge_or_begin(&mut self, core: &Core) -> bool {
        if self.step_merge(core) {
            return true;
        }
        let view = core.views.load();
        if !self.has_failed_to_merge {
            self.merge = Merge::begin(core, &view);
        }
        self.merge.is_some()
    }

    /// Lets a merge go on without tables that were let go, or gives it up if too few are left.
    fn prune_merge(&mut self, core: &Core) {
        let view = core.views.load();
        if self.merge.take_if(|merge| !merge.keep_listed(&view)).is_some() {
            core.counters.memory_merge.set(0);
        }
    }

    /// As after a merge that found no room.
    #[cfg(test)]
    pub(crate) fn fail_to_merge(&mut self) {
        self.has_failed_to_merge = true;
    }

    /// One slice of the merge in progress; false when there is none.
    fn step_merge(&mut self, core: &Core) -> bool {
        self.prune_merge(core);
        let Some(mut merge) = self.merge.take() else { return false };
        match merge.step(core, &mut self.succession) {
            Step::More => self.merge = Some(merge),
            Step::Done => {}
            Step::NoRoom => self.has_failed_to_merge = true,
        }
        true
    }
}

#[cfg(test)]
#[cfg(not(any(loom, miri)))]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use crate::options::{Maintenance, Options};
    use crate::storage::sim::SimDisk;
    use crate::store::Store;
    use crate::sync::Arc;

    /// A caller without a maintenance thread waited for room that only sealing could make, while nobody
    /// sealed: the filters of sealed IDs had taken what the next table needed.
    #[test]
    fn caller_of_an_unstepped_store_goes_on_when_filters_fill_the_budget() {
        let (done, end) = mpsc::channel();
        std::thread::spawn(move || {
            let options = Options::new().maintenance(Maintenance::Manual).memory_budget(1 << 20);
            let store = Store::open_on(Arc::new(SimDisk::new(0)), options).unwrap();
            let answers = (0..1_000_000_u32).map(|id| store.check(id.to_le_bytes()));
            let firsts = answers.filter(|answer| answer.as_ref().is_ok_and(|seen| seen.is_first_seen()));
            done.send((firsts.count(), store.stats())).unwrap();
        });
        let (firsts, stats) = end.recv_timeout(Duration::from_secs(60)).expect("a caller waits for ever");
        assert_eq!(firsts, 1_000_000, "{stats:?}");
    }
}
