//! Brings sealed generations that are asked a lot back into memory, as far as the budget has room for them.
//!
//! A generation that was sealed by this process is covered by the table that it was made from (`kept`). One
//! that was there when the store was opened, or had to make room, has only its file: through a map of small
//! pages a look-up costs a page fault the first time and a walk of the page tables ever after. With 10^8
//! IDs and half of all checks spread over them that is 600 instead of 80 ns a check.
//!
//! Nothing is read for a store that is opened for a few look-ups: a file is worth copying when a look-up went
//! to it for every fourth of its pages. One that had to make room must be asked as often once more.
//!
//! A file's lines lie as those of a table do: a key is in its home line or behind a run of full ones. So the
//! copy is a table whose lines are put where they were, each checked on its way (G4), and calls go on
//! meanwhile. There is always room left for the next active table, or else each rotation would drop what was
//! brought back just before.

use crate::error::Result;
use crate::generation::Generation;
use crate::limits::{KEPT_RECALL_MAX, LINES_PER_STEP, SPARE_LINES};
use crate::sync::Arc;
use crate::table::{Table, bytes_for, reserve};

use super::core::Core;
use super::sealed::Sealed;
use super::succession::Succession;
use super::view::View;

/// A generation that is being brought back.
#[derive(Debug)]
pub(super) struct Recall {
    generation: Arc<Generation>,
    table: Arc<Table>,
    line_next: u64,
    /// The last key's.
    hi_last: u64,
    ids: u64,
}

impl Recall {
    /// Begins with the newest generation that answers from its file, if that or one behind it is asked a lot,
    /// and all up to there have room in memory: kept tables cover the newest without a gap.
    pub(super) fn begin(core: &Core, view: &View, wanted: impl Fn(u64) -> bool) -> Option<Recall> {
        let first = view.files().first().filter(|first| wanted(first.generation().id()))?;
        if view.kept.len() >= KEPT_RECALL_MAX {
            return None;
        }
        let mut room = core.memory_room(view);
        for sealed in view.files() {
            let generation = sealed.generation();
            let home_lines = generation.home_lines();
            let bytes = bytes_for(home_lines).saturating_add(sealed.filter_bytes_unloaded().unwrap_or(0));
            if bytes > room || generation.lines() > home_lines.saturating_add(SPARE_LINES) {
                return None;
            }
            if sealed.is_worth_recalling() {
                return Recall::of(Arc::clone(first.generation()));
            }
            room -= bytes;
        }
        None
    }

    /// `None` when the system refuses the memory: that is as good as a used-up budget.
    fn of(generation: Arc<Generation>) -> Option<Recall> {
        let lines = reserve(generation.home_lines()).ok()?;
        let table = Arc::new(Table::new(lines, generation.birth()));
        Some(Recall { generation, table, line_next: 0, hi_last: 0, ids: 0 })
    }

    /// Number of the generation.
    pub(super) fn id(&self) -> u64 {
        self.generation.id()
    }

    /// Bytes of the table that is being filled.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.table.bytes()
    }

    /// One slice; whether all lines are copied.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`](crate::Error::Corrupt) at the first damaged line, and
    /// [`Error::Io`](crate::Error::Io): the generation stays in its file then.
    pub(super) fn step(&mut self) -> Result<bool> {
        let Recall { generation, table, line_next, hi_last, ids } = self;
        *hi_last =
            generation.each_slot_in(*line_next, LINES_PER_STEP, *hi_last, |line, slot, key, stamp| {
                table.put_at(line, slot, key, stamp);
                *ids += 1;
            })?;
        *line_next += LINES_PER_STEP;
        Ok(*line_next >= generation.lines())
    }

    /// Lets the copy answer from now on, if the generation still is the next to be covered.
    ///
    /// # Errors
    ///
    /// As [`Recall::step`], for its filter.
    pub(super) fn finish(self, core: &Core, succession: &mut Succession) -> Result<()> {
        self.table.count(self.ids, self.generation.until_max());
        let view = core.views.load();
        let is_this = |sealed: &&Sealed| Arc::ptr_eq(sealed.generation(), &self.generation);
        let Some(sealed) = view.files().first().filter(is_this) else { return Ok(()) };
        let filter = match sealed.filter() {
            Some(filter) => Arc::clone(filter),
            None => Arc::new(self.generation.read_filter()?),
        };
        drop(view);
        succession.publish(&core.views, |view| view.keep(&self.generation, self.table, filter));
        Ok(())
    }
}

#[cfg(test)]
#[cfg(not(any(loom, miri)))]
mod tests;
