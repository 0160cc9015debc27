//! The report: results summed up, as a table and as plots.

mod markdown;
mod plots;
mod summary;

use std::fs;
use std::path::Path;

use crate::compare;
use crate::peer::Outcome;

use summary::Summary;

/// Writes `results.md` and the plots beside the results in a folder.
///
/// # Errors
///
/// Results that cannot be read, or a folder that cannot be written to.
pub(crate) fn write(out: &Path) -> Outcome<()> {
    let lines = compare::read(out)?;
    let summaries = Summary::of(&lines);
    let plots = plots::draw(&summaries, out)?;
    fs::write(out.join("results.md"), markdown::text(&lines, &summaries, &plots))?;
    Ok(())
}
