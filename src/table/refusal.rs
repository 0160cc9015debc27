//! For tests: a system that has no memory for some tables.

use std::cell::Cell;
use std::ops::Range;

use crate::error::{Error, Result};

thread_local! {
    static REFUSED: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

/// Refuses this thread the memory for tables with so many home lines.
pub(crate) fn refuse(home_lines: &Range<u64>) {
    REFUSED.set((home_lines.start, home_lines.end));
}

pub(super) fn ask(home_lines: u64) -> Result<()> {
    let (start, end) = REFUSED.get();
    if !(start..end).contains(&home_lines) {
        return Ok(());
    }
    Err(Error::System { operation: "reserving memory", message: "refused by a test".to_owned() })
}
