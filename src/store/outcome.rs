//! What a salvage has come to.

use std::fmt;

use crate::error::Error;
use crate::limits::DAMAGES_MAX;

/// Outcome of [`Store::salvage`](crate::Store::salvage). `Display` is a few lines for people.
#[non_exhaustive]
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Salvage {
    /// IDs in the new store.
    pub ids: u64,
    /// Facts that were read from the log.
    pub log_records: u64,
    /// Lines of sealed files that did not read, of up to three IDs each.
    pub lines_lost: u64,
    /// Frames of the log that are missing between others, each of at least one ID; what the end of the log
    /// has lost can't be counted.
    pub frames_lost: u64,
    /// Files of which nothing could be read.
    pub files_unreadable: u64,
    /// What was found to be damaged, with file and offset; of very many places in one file the first hundred.
    pub damages: Vec<Error>,
}

impl Salvage {
    /// Whether nothing is known to be lost.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.lines_lost == 0 && self.frames_lost == 0 && self.files_unreadable == 0
    }

    /// Notes a file that is of no use.
    pub(super) fn unreadable(&mut self, error: Error) {
        self.files_unreadable += 1;
        if self.damages.len() < DAMAGES_MAX {
            self.damages.push(error);
        }
    }
}

impl fmt::Display for Salvage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for damage in &self.damages {
            writeln!(f, "{damage}")?;
        }
        write!(f, "saved {} IDs", self.ids)?;
        if self.is_complete() {
            return write!(f, "; nothing is known to be lost");
        }
        let Salvage { lines_lost, frames_lost, files_unreadable, .. } = self;
        write!(f, "; lost: {lines_lost} lines of up to 3 IDs, {frames_lost} frames of the log, ")?;
        write!(f, "{files_unreadable} whole files")
    }
}
