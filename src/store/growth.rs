//! How large the next table is.
//!
//! The first table is small, or made for the number of IDs that is expected. While little is held each next
//! table is as large as all before it together, later three quarters as large, so that memory follows the
//! IDs and nothing is ever rehashed. Where IDs have a window, a table is replaced when it is a quarter of a
//! window old: there the next one is made for as many IDs as come in that time at the present rate, and an
//! eighth more, if that is less. All within the memory budget.
//!
//! Before the rate was looked at, a table that was made ahead of need had room for all IDs of a window: a
//! store with a steady stream took 165 bytes for each of them, now 60.

use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::limits::{
    BUDGET_PARTS_PER_TABLE, FILTER_BITS_PER_KEY, FIRST_LINES, IDS_GROW_SLOWER, LINES_MIN,
    LINES_TOUCHED_BY_TWO, LOAD_EXPECTED_PERCENT, LOAD_LIMIT_PERCENT, LOAD_ROTATE_PERCENT, LOGGED_IDS_MAX,
    SLOTS_PER_LINE,
};
use crate::options::Options;
use crate::sync::both;
use crate::table::{Line, Region, Table, bytes_for, lines_for, reserve, touch};
use crate::window::Span;

use super::view::View;

/// The first table of a store, touched already when it was made for an expected number of IDs.
pub(crate) fn first_table(options: &Options, birth: u64) -> Result<Table> {
    if options.first_lines.is_some() || options.ids_expected == 0 {
        return Ok(Table::new(reserve(first_lines(options))?, birth));
    }
    let lines = lines_for(options.ids_expected, LOAD_EXPECTED_PERCENT).max(LINES_MIN);
    if bytes_with_filter(lines) > options.memory_budget {
        let (needed, budget) = (bytes_with_filter(lines), options.memory_budget);
        let ids = options.ids_expected;
        let reason = format!("{ids} IDs need {needed} bytes, memory_budget allows {budget}");
        return Err(Error::Option { name: "expect", reason });
    }
    let memory = reserve(lines)?;
    touch_whole(&memory);
    Ok(Table::new(memory, birth))
}

/// Home lines of the first table where nothing is expected.
pub(crate) fn first_lines(options: &Options) -> u64 {
    options.first_lines.unwrap_or(FIRST_LINES.min(budget_lines(options.memory_budget)))
}

/// Touches a whole table, a large one from two threads: where the system has to find the memory first, that
/// takes milliseconds for each MiB.
pub(crate) fn touch_whole(memory: &Region<Line>) {
    let lines = memory.len() as u64;
    if lines < LINES_TOUCHED_BY_TWO {
        touch(memory, 0, lines);
    } else {
        let half = lines / 2;
        both(|part| touch(memory, part * half, if part == 0 { half } else { lines }));
    }
}

/// What the next table is made for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Need {
    /// Whether the active table is, or soon will be, full; or else rotated because of its age.
    pub(crate) is_full: bool,
    /// The present, in ticks.
    pub(crate) now: u64,
    /// Leases that are held: they are all stated again, and there is room for twice as many.
    pub(crate) leases: u64,
}

/// Home lines that the table after `view`'s active one should have.
pub(crate) fn next_lines(view: &View, span: &Span, need: Need, memory_budget: u64) -> u64 {
    let slots = view.active.slots();
    let held = view.ids() + view.active.slots_rotate().saturating_sub(slots);
    let grown = if held < IDS_GROW_SLOWER { held } else { held / 4 * 3 };
    let ids = match ids_until_old(view, span, need.now) {
        Some(ids) => grown.min(ids + ids / 8),
        None if need.is_full => grown,
        None => slots + slots / 4,
    };
    let floor = if need.is_full { FIRST_LINES } else { LINES_MIN }.min(view.active.home_lines());
    lines_for(ids, LOAD_ROTATE_PERCENT)
        .max(floor)
        .max(lease_lines(need.leases))
        .min(budget_lines(memory_budget))
}

/// IDs that will have come into the active table when it is rotated because of its age, if they go on coming
/// as they did; `None` where tables have no age.
fn ids_until_old(view: &View, span: &Span, now: u64) -> Option<u64> {
    let ticks = span.rotate_ticks()?;
    let passed = now.saturating_sub(view.rotate_at.saturating_sub(ticks)).clamp(1, ticks);
    let ids = u128::from(view.active.slots()) * u128::from(ticks) / u128::from(passed);
    Some(u64::try_from(ids).unwrap_or(u64::MAX / 2).min(u64::MAX / 2))
}

/// Lines of the largest table that a store with a log fills: so much is read back after a kill.
pub(crate) fn logged_lines() -> u64 {
    lines_for(LOGGED_IDS_MAX, LOAD_ROTATE_PERCENT)
}

/// Lines in which so many leases can be stated without filling the table.
pub(crate) fn lease_lines(leases: u64) -> u64 {
    if leases == 0 { 0 } else { lines_for(leases.saturating_mul(2), LOAD_ROTATE_PERCENT) }
}

/// How many leases a store with this budget can hold: what [`lease_lines`] finds room for.
pub(crate) fn leases_max(memory_budget: u64) -> u64 {
    budget_lines(memory_budget) * SLOTS_PER_LINE * LOAD_ROTATE_PERCENT / 100 / 2
}

/// Bytes of a table with so many home lines, and of the filter that it gets when it is full.
pub(crate) fn bytes_with_filter(lines: u64) -> u64 {
    bytes_for(lines)
        .saturating_add(filter_bytes(lines.saturating_mul(SLOTS_PER_LINE * LOAD_LIMIT_PERCENT) / 100))
}

/// Bytes of a filter for so many IDs.
pub(crate) fn filter_bytes(ids: u64) -> u64 {
    ids.saturating_mul(u64::from(FILTER_BITS_PER_KEY)).div_ceil(8).saturating_add(32)
}

/// Lines of the largest table that growth makes under a budget.
pub(crate) fn budget_lines(memory_budget: u64) -> u64 {
    memory_budget / BUDGET_PARTS_PER_TABLE / bytes_with_filter(LINES_MIN) * LINES_MIN
}

/// Whether more IDs will come than the active table has room for: more than were expected have come, or not
/// all of them fit, since the log bounds the tables of a store with a directory.
///
/// That was looked at for what had come alone: the tables of a store that expected many were made when they
/// were needed and touched by callers, who waited up to 570 ms for the system to find the memory.
pub(crate) fn is_outgrown(view: &View, ids_expected: u64) -> bool {
    let room = view.active.slots_rotate().saturating_sub(view.active.slots());
    ids_expected.checked_sub(view.ids()).is_none_or(|left| left > room)
}

/// Whether the active table will be rotated because of its age within an eighth of its time.
pub(crate) fn is_nearly_old(view: &View, span: &Span, now: Timestamp) -> bool {
    let Some(ticks) = span.rotate_ticks() else { return false };
    view.active.slots() > 0 && span.tick_at(now) >= view.rotate_at.saturating_sub(ticks / 8)
}

/// The tick at which a table that becomes active at tick `now` is rotated because of its age.
pub(crate) fn rotate_at(span: &Span, now: u64) -> u64 {
    span.rotate_ticks().map_or(u64::MAX, |ticks| now.saturating_add(ticks))
}
