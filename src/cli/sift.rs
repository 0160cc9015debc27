//! The part of `filter` that there are two of: with a store on disk, and without.

use std::time::Duration;

use firstseen::Store;

use super::block::Block;
use super::exit::Failure;
use super::settings::Format;
use super::summary::Counts;

/// What decides about whole blocks and writes what is new in them.
pub(super) trait Sift {
    fn store(&self) -> &Store;
    fn format(&self) -> Format;
    fn counts(&self) -> Counts;

    /// Writes what is new in a block.
    fn pass(&mut self, block: &mut Block) -> Result<(), Failure>;

    /// Does what can be done without another block; when to ask again, if there is anything left.
    fn settle(&mut self) -> Result<Option<Duration>, Failure> {
        Ok(None)
    }

    /// Does what is left when there is no more input.
    fn finish(&mut self) -> Result<(), Failure> {
        Ok(())
    }
}
