//! The succession of views: publishing the next one, and knowing who still holds an earlier one.
//!
//! A grace period is over when no call holds a view from before the change (P4): the closing table may be
//! frozen when no view is held in which it was active, and a frozen one may be read plainly when no view is
//! held in which it was closing.

use crate::fingerprint::Fingerprint;
use crate::limits::FROZEN_LIMIT;
use crate::sync::{Held, Published, Retired, is_mutant};
use crate::table::LinesHint;

use super::view::View;

/// The present view.
#[derive(Debug)]
pub(crate) struct Views {
    published: Published<View>,
    active_lines: LinesHint,
}

impl Views {
    pub(crate) fn new(view: View) -> Views {
        let active_lines = LinesHint::default();
        active_lines.set(&view.active);
        Views { published: Published::new(view), active_lines }
    }

    /// The present view, which stays whole while it is held.
    #[inline]
    pub(crate) fn load(&self) -> Held<View> {
        self.published.load()
    }

    /// Asks the processor for the line of a key in the active table, before any view is held.
    ///
    /// Taking a view needs instructions that the loads behind them wait for, in this call and, as the
    /// processor runs ahead, in the next one; a prefetch waits for nothing.
    #[inline]
    pub(crate) fn prefetch(&self, key: Fingerprint) {
        self.active_lines.prefetch(key);
    }

    fn replace(&self, view: View) -> Retired<View> {
        self.active_lines.set(&view.active);
        self.published.replace(view)
    }
}

/// Views that were replaced and may still be held, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Succession {
    retired: Vec<Retired<View>>,
}

impl Succession {
    /// Publishes a view made from the present one; returns its number.
    pub(crate) fn publish(&mut self, views: &Views, change: impl FnOnce(&mut View)) -> u64 {
        let mut view = View::clone(&views.load());
        view.number += 1;
        let number = view.number;
        change(&mut view);
        view.count_kept();
        // A candidate bit beyond the last would skip a table, and call what it knows new.
        let depth = view.depth();
        assert!(depth <= FROZEN_LIMIT, "a view of {depth} frozen tables and generations");
        self.retired.push(views.replace(view));
        number
    }

    /// Lets go of views that nobody holds any more.
    pub(crate) fn reap(&mut self) {
        self.retired.retain_mut(|view| !view.is_released());
    }

    /// Whether no call holds a view with a number below `view_number` (P4).
    pub(crate) fn is_drained_before(&mut self, view_number: u64) -> bool {
        if is_mutant("grace_skipped") {
            return true;
        }
        self.reap();
        self.retired.iter().all(|view| view.get().number >= view_number)
    }

    /// Whether no call holds any view but the present one.
    pub(crate) fn is_drained(&self) -> bool {
        self.retired.is_empty()
    }
}
