//! The log: every fact is written here before its answer leaves, and read back when the store is opened.
//!
//! - `frame`: the bytes of one write, and when they count as whole.
//! - `segment`: files of fixed size that are made ready before use.
//! - `queue`: where callers leave their facts without waiting for each other.
//! - `writer`: frames from the queue to the segments.
//! - `fault`: the first failure, which is the last.
//! - `log`: one caller writes and syncs for all that wait.
//! - `scan`: every whole frame of a segment, and whether there is anything else.
//! - `recover`: what is read back, and which damage is no damage.
//! - `salvage`: what still reads of a log that recovery refuses.

mod fault;
mod frame;
mod log;
#[cfg(test)]
mod memory;
#[cfg(all(test, loom))]
mod models;
mod queue;
mod recover;
mod salvage;
mod scan;
mod segment;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;
mod writer;

pub(crate) use self::{
    frame::Record,
    log::{Log, Session},
    recover::{Cut, Extent, Recovered, recover},
    salvage::{read_store_id, salvage, segments},
    segment::remove_below as remove_segments_below,
    writer::Setup,
};
