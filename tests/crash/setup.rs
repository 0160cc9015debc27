//! How the stores of these tests are made.
//!
//! Tables and log segments are tiny, so that a handful of IDs moves through all of them.

use std::sync::Arc;
use std::time::Duration;

use firstseen::testing::SimDisk;
use firstseen::{
    Clock, Durability, FileAccess, Maintenance, ManualClock, Options, Progress, Result, Store, Timestamp,
    Window,
};

use crate::random::Random;

/// Bytes of a log segment: its header and as much again.
pub(crate) const SEGMENT_BYTES: u64 = 8192;

/// Steps of maintenance after which a small store has nothing to do any more.
const STEPS_MAX: usize = 10_000;

/// How a store is created and opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    pub(crate) durability: Durability,
    pub(crate) window: Window,
    pub(crate) first_table_lines: u64,
    pub(crate) segment_bytes: u64,
}

impl Default for Setup {
    fn default() -> Self {
        Setup {
            durability: Durability::Buffered,
            window: Window::Forever,
            first_table_lines: 2,
            segment_bytes: SEGMENT_BYTES,
        }
    }
}

impl Setup {
    pub(crate) fn random(random: &mut Random) -> Setup {
        let second = Duration::from_secs(1);
        let windows =
            [Window::Forever, Window::Forever, Window::Fixed(4 * second), Window::Sliding(4 * second)];
        let durabilities = [
            Durability::Sync,
            Durability::Sync,
            Durability::Buffered,
            Durability::Buffered,
            Durability::Deferred(second),
            Durability::None,
        ];
        Setup {
            durability: random.pick(&durabilities),
            window: random.pick(&windows),
            first_table_lines: 1 + random.below(4),
            segment_bytes: 4096 + random.pick(&[2048, 4096, 12288]),
        }
    }

    pub(crate) fn options(&self, clock: Clock) -> Options {
        let options = Options::new()
            .window(self.window)
            .clock(clock)
            .durability(self.durability)
            .maintenance(Maintenance::Manual)
            .first_table_lines(self.first_table_lines)
            .log_segment_bytes(self.segment_bytes);
        match self.window {
            Window::Forever => options,
            Window::Fixed(length) | Window::Sliding(length) => options.ttl_max(2 * length),
        }
    }

    /// Opens the store of a disk at a time, with one of the ways to read its files.
    pub(crate) fn open_at(&self, disk: &SimDisk, now_ms: u64, access: FileAccess) -> Result<Store> {
        let clock = ManualClock::new(Timestamp::from_millis(now_ms)).clock();
        open(disk, self.options(clock).file_access(access))
    }
}

pub(crate) fn open(disk: &SimDisk, options: Options) -> Result<Store> {
    Store::open_on(Arc::new(disk.clone()), options)
}

/// Does all maintenance that is to be done.
pub(crate) fn settle(store: &Store) -> Result<()> {
    for _ in 0..STEPS_MAX {
        if store.maintain()? == Progress::Idle {
            return Ok(());
        }
    }
    panic!("maintenance has no end");
}
