//! Brings sealed generations that are asked a lot back into memory, as far as the budget has room for them.
//!
//! A generation that was sealed by this process answers from the table that it was made from. One that was
//! fused, or was there when the store was opened, has only its file: through a map of small pages a look-up
//! costs a page fault the first time and a walk of the page tables ever after. With 10^8 IDs and half of all
//! checks spread over them that is 600 instead of 80 ns a check.
//!
//! Nothing is read for a store that is opened for a few look-ups: a file is worth copying when one look-up
//! went to it for every fourth of its pages.
//!
//! A file's lines lie as those of a table do: a key is in its home line or behind a run of full ones. So the
//! copy is a table whose lines are put where they were, each checked on its way (G4), and calls go on
//! meanwhile. There is always room left for the next active table, or else each rotation would drop what was
//! brought back just before.

use crate::error::Result;
use crate::generation::Generation;
use crate::limits::{LINES_PER_STEP, SPARE_LINES};
use crate::sync::Arc;
use crate::table::{Table, bytes_for, reserve};

use super::core::Core;
use super::growth;
use super::sealed::Sealed;
use super::succession::Succession;
use super::view::View;

/// A generation that is being brought back.
#[derive(Debug)]
pub(super) struct Recall {
    generation: Arc<Generation>,
    table: Arc<Table>,
    line_next: u64,
    ids: u64,
}

impl Recall {
    /// Begins with the newest generation whose file is asked a lot, and has room in memory, and is `wanted`.
    pub(super) fn begin(core: &Core, view: &View, wanted: impl Fn(u64) -> bool) -> Option<Recall> {
        let next = growth::bytes_with_filter(core.next_lines(view, true));
        let room = core.memory_budget.saturating_sub(core.memory_promised(view)).saturating_sub(next);
        let is_next = |sealed: &&Sealed| {
            let generation = sealed.generation();
            let home_lines = generation.home_lines();
            sealed.is_worth_recalling()
                && bytes_for(home_lines) <= room
                && generation.lines() <= home_lines.saturating_add(SPARE_LINES)
                && wanted(generation.id())
        };
        let generation = Arc::clone(view.sealed.iter().find(is_next)?.generation());
        // Memory that the system refuses is as good as a used-up budget.
        let lines = reserve(generation.home_lines()).ok()?;
        let table = Arc::new(Table::new(lines, generation.birth()));
        Some(Recall { generation, table, line_next: 0, ids: 0 })
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
        let Recall { generation, table, line_next, ids } = self;
        generation.each_slot_in(*line_next, LINES_PER_STEP, |line, slot, key, stamp| {
            table.put_at(line, slot, key, stamp);
            *ids += 1;
        })?;
        *line_next += LINES_PER_STEP;
        Ok(*line_next >= generation.lines())
    }

    /// Lets the copy answer from now on, unless the generation is gone by now.
    pub(super) fn finish(self, core: &Core, succession: &mut Succession) {
        self.table.count(self.ids, self.generation.until_max());
        succession.publish(&core.views, |view| {
            let copied = |sealed: &&mut Sealed| Arc::ptr_eq(sealed.generation(), &self.generation);
            view.sealed.iter_mut().filter(copied).for_each(|sealed| sealed.recall(Arc::clone(&self.table)));
        });
    }
}
