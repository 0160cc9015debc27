//! How much a store of a given size takes: memory, disk, false alarms of filters, time to open, collisions.
//!
//! Pure arithmetic from the constants that the store works with; a test compares it with stores that were
//! filled. Memory is what [`Stats::memory_bytes`](crate::Stats::memory_bytes) counts: the process has a few
//! MiB beside it. The same from the command line:
//!
//! ```sh
//! firstseen capacity --keys 1e9 --window 30d --rate 300/s
//! ```
//!
//! # A store that never forgets
//!
//! | keys | in memory | in memory, expected | memory with a directory | of it filters | files | collision |
//! | --: | --: | --: | --: | --: | --: | --: |
//! | 10^6 | 67 MB | 36 MB | 51 MB | 1.5 MB | 26 MB | 1e-27 |
//! | 10^7 | 617 MB | 356 MB | 508 MB | 15 MB | 263 MB | 1e-25 |
//! | 10^8 | 5.8 GB | 3.6 GB | 938 MB | 150 MB | 2.6 GB | 1e-23 |
//! | 10^9 | 53 GB | 36 GB | 2.3 GB | 1.5 GB | 26 GB | 1e-21 |
//! | 10^10 | 501 GB | 356 GB | 16 GB | 15 GB | 263 GB | 1e-19 |
//! | 10^11 | 4.7 TB | 3.6 TB | 151 GB | 150 GB | 2.6 TB | 1e-17 |
//!
//! - *In memory*: [`Store::in_memory`](crate::Store::in_memory) that has grown by itself, with what
//!   maintenance had to do done. It goes up in steps, 30 to 67 bytes an ID, as tables are made ahead of
//!   need, and counts tables in full: what was not touched yet the system has not given yet.
//! - *In memory, expected*: the same with [`Options::expect`](crate::Options::expect).
//! - *Memory with a directory*: the least [`Options::memory_budget`](crate::Options::memory_budget) with
//!   which a store with a directory works well; the files are read through the page cache. Of a larger
//!   budget it makes use: the newest files are kept in memory as well.
//! - *Files*: sealed files with their filters. The log comes on top (2.2 GB at most, less than 100 bytes for
//!   each ID in smaller stores), and for a while the result of a fusion.
//! - *Collision*: probability that any two of the IDs share a fingerprint, so that one was called a
//!   duplicate.
//!
//! A key takes 26.7 to 32.8 bytes in a table in memory, 1.5 in a filter, 26.3 in a file. At all these sizes a
//! check of a new ID asks at most 4 filters of files (more where they come faster than these are fused, and
//! up to 2 of tables that wait to be sealed), each of
//! which is wrong for one new ID in 184; and opening a store after a kill reads back 24 million
//! records at most, in 2.4 s at ten million a second.
//!
//! # A store with a window
//!
//! has tables and files for a quarter of the window each, and drops them as a whole: for as many keys as
//! are seen in one window it holds a quarter more. It asks up to 16 filters. Without a directory it takes
//! about 60 bytes for each of these keys where they come at an even pace: four tables that wait for their
//! end, the active one, and the next one, each made for a quarter of the keys and an eighth more.
//!
//! # What is not counted
//!
//! Leases (about 100 bytes each while they are held); records in the log for IDs that are renewed in a
//! sliding window, or forgotten; what [`Options::expect`](crate::Options::expect) makes larger; the page
//! cache, which reads of files go through.

use std::time::Duration;

use crate::limits::{
    FILTER_BITS_PER_KEY, FIRST_LINES, FROZEN_MAX, GENERATION_HEADER_BYTES, GENERATIONS_MAX,
    GENERATIONS_MAX_WINDOWED, IDS_GROW_SLOWER, LINES_MIN, LOAD_EXPECTED_PERCENT, LOAD_MERGED_PERCENT,
    LOAD_ROTATE_PERCENT, LOAD_SEALED_PERCENT, LOGGED_IDS_MAX, MEMORY_BUDGET_MIN, RECORD_BYTES, SEAL_LAG_MAX,
    SEGMENT_BYTES_DEFAULT, SEGMENT_BYTES_FIRST, SLOTS_PER_LINE,
};
use crate::options::Window;
use crate::stats::collision_probability;
use crate::table::{bytes_for, lines_for};
use crate::window::Span;

/// Bytes of the log for an ID that is checked alone: a frame of its own.
const RECORD_ALONE_BYTES: u64 = RECORD_BYTES + 64;

/// Records that are read back in a second at least.
const REPLAYED_PER_SECOND: u64 = 10_000_000;

/// Quarters of a window after which a store with a steady stream repeats itself, and as many again.
const QUARTERS: u32 = 64;

/// Bits in a block of a filter, and in each of its words.
const BLOCK_BITS: f64 = 256.0;
const WORD_BITS: f64 = 32.0;
const WORDS: i32 = 8;

/// What a store takes; made by [`capacity`].
#[non_exhaustive]
#[derive(Clone, PartialEq, Debug)]
pub struct Capacity {
    /// IDs that are seen at one time.
    pub keys: u64,
    /// How long they stay seen.
    pub window: Window,
    /// IDs that are held at most: with a window also those that are over and whose table is not.
    pub keys_held: u64,
    /// By how many milliseconds windows may end late; zero in a store that never forgets.
    pub tick_ms: u64,
    /// Memory of a store without a directory that has grown by itself, in bytes.
    pub memory_bytes: u64,
    /// Memory of a store without a directory that expects so many IDs (those that are held), in bytes.
    pub memory_bytes_expected: u64,
    /// The smallest memory budget with which a store with a directory works well, in bytes.
    pub memory_bytes_least: u64,
    /// The part of it in filters of files.
    pub filter_bytes: u64,
    /// Sealed files, in bytes.
    pub file_bytes: u64,
    /// Sealed files while the largest of them are being fused, in bytes.
    pub file_bytes_peak: u64,
    /// The log at most, where every ID is checked alone, in bytes. Batches take a third of it.
    pub log_bytes_max: u64,
    /// Records in the log at most, that is, to be read back after a kill.
    pub records_replayed_max: u64,
    /// How long that takes at ten million records a second.
    pub recovery_max: Duration,
    /// Sealed files at most: a new ID asks the filter of each.
    pub generations: usize,
    /// Share of new IDs for which one filter says "perhaps", and its file is read in vain.
    pub false_positive_rate: f64,
    /// How often an ID is written into files, at most: when it is sealed, and when files are fused.
    pub writes_per_key: f64,
    /// Probability that any two of the IDs have one fingerprint.
    pub collision_probability: f64,
}

/// What a number of new IDs a second comes to; made by [`Capacity::at_rate`].
#[non_exhaustive]
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Flow {
    /// Bytes a second that are written to the log, where IDs come in batches.
    pub log_bytes: u64,
    /// The same where every ID is checked alone.
    pub log_bytes_alone: u64,
    /// Bytes a second that are written to files on average, at most.
    pub file_bytes: u64,
    /// Tables that are sealed in a day.
    pub seals_per_day: f64,
    /// How long it takes until there are so many keys.
    pub filled_after: Duration,
}

/// What a store takes in which `keys` IDs are seen at one time: all that ever come, or with a window all that
/// come during one.
///
/// ```
/// use firstseen::Window;
/// use firstseen::capacity::capacity;
///
/// let capacity = capacity(1_000_000_000, Window::Forever);
/// assert_eq!(capacity.file_bytes / 1_000_000_000, 26); // bytes for an ID
/// assert!(capacity.memory_bytes_least < 3_000_000_000);
/// assert!(capacity.collision_probability < 1e-20);
/// ```
///
/// With a window the IDs are taken to come at an even pace.
#[must_use]
pub fn capacity(keys: u64, window: Window) -> Capacity {
    let is_forever = window == Window::Forever;
    let keys_held = if is_forever { keys } else { keys.saturating_add(keys / 4) };
    let generations = if is_forever { GENERATIONS_MAX } else { GENERATIONS_MAX_WINDOWED };
    let filter_bytes = filter_bytes(keys_held);
    let file_bytes = file_bytes(keys_held);
    let table_keys = keys_per_table(keys, is_forever);
    let tables = SEAL_LAG_MAX as u64 + 1;
    let records_replayed_max = keys_held.min(tables * table_keys.max(first_table_keys()));
    let segments = if records_replayed_max * RECORD_ALONE_BYTES < 2 * SEGMENT_BYTES_FIRST {
        2 * SEGMENT_BYTES_FIRST
    } else {
        2 * SEGMENT_BYTES_DEFAULT
    };
    Capacity {
        keys,
        window,
        keys_held,
        tick_ms: if is_forever { 0 } else { Span::new(window, None).tick_ms() },
        memory_bytes: if is_forever { grown_bytes(keys) } else { windowed_bytes(keys) },
        memory_bytes_expected: expected_bytes(keys_held, is_forever),
        memory_bytes_least: least_bytes(filter_bytes, table_keys),
        filter_bytes,
        file_bytes,
        file_bytes_peak: file_bytes.saturating_mul(2),
        log_bytes_max: records_replayed_max * RECORD_ALONE_BYTES + segments,
        records_replayed_max,
        recovery_max: Duration::from_millis(records_replayed_max * 1_000 / REPLAYED_PER_SECOND),
        generations,
        false_positive_rate: false_positive_rate(f64::from(FILTER_BITS_PER_KEY)),
        writes_per_key: writes_per_key(keys_held / table_keys, generations),
        collision_probability: collision_probability(keys_held),
    }
}

impl Capacity {
    /// What `ids_per_second` new IDs a second come to.
    #[must_use]
    pub fn at_rate(&self, ids_per_second: u64) -> Flow {
        let sealed = to_f64(keys_per_table(self.keys, self.window == Window::Forever));
        let written = to_f64(ids_per_second) * self.writes_per_key * self.file_bytes_per_key();
        Flow {
            log_bytes: ids_per_second.saturating_mul(RECORD_BYTES),
            log_bytes_alone: ids_per_second.saturating_mul(RECORD_ALONE_BYTES),
            file_bytes: to_u64(written),
            seals_per_day: to_f64(ids_per_second) * 86_400.0 / sealed,
            filled_after: Duration::from_secs(self.keys / ids_per_second.max(1)),
        }
    }

    /// Bytes of files for each ID that is held.
    #[must_use]
    pub fn file_bytes_per_key(&self) -> f64 {
        to_f64(self.file_bytes) / to_f64(self.keys_held.max(1))
    }
}

/// Filters, the active table, the next one, and one that is being sealed.
fn least_bytes(filter_bytes: u64, keys_per_table: u64) -> u64 {
    let table = bytes_for(lines_for(keys_per_table, LOAD_ROTATE_PERCENT));
    filter_bytes.saturating_add(3 * table).max(MEMORY_BUDGET_MIN)
}

/// Keys in a table when it is sealed.
fn keys_per_table(keys: u64, is_forever: bool) -> u64 {
    let keys = if is_forever { keys / 2 } else { keys / 4 };
    keys.clamp(1, LOGGED_IDS_MAX)
}

/// Keys in the first table of a store that expects nothing.
fn first_table_keys() -> u64 {
    rotate_keys(FIRST_LINES)
}

/// Keys in a table with so many lines when it is rotated.
fn rotate_keys(lines: u64) -> u64 {
    lines.saturating_mul(SLOTS_PER_LINE * LOAD_ROTATE_PERCENT) / 100
}

/// Bytes of a filter.
fn filter_bytes(keys: u64) -> u64 {
    keys.saturating_mul(u64::from(FILTER_BITS_PER_KEY)).div_ceil(8)
}

/// Bytes of sealed files: lines, filters and headers.
fn file_bytes(keys: u64) -> u64 {
    let lines = bytes_for(lines_for(keys, LOAD_SEALED_PERCENT)) - bytes_for(0);
    lines.saturating_add(filter_bytes(keys)).saturating_add(GENERATION_HEADER_BYTES)
}

/// A table that a store in memory has: keys, and lines.
#[derive(Clone, Copy, Debug)]
struct Held {
    keys: u64,
    lines: u64,
}

impl Held {
    fn bytes(self) -> u64 {
        bytes_for(self.lines).saturating_add(filter_bytes(self.keys))
    }
}

/// Memory of a store that never forgets and has no directory, by going through the tables that it makes.
fn grown_bytes(keys: u64) -> u64 {
    let mut frozen: Vec<Held> = Vec::new();
    let (mut lines, mut held) = (FIRST_LINES, 0);
    while keys - held > rotate_keys(lines) {
        frozen.insert(0, Held { keys: rotate_keys(lines), lines });
        held += rotate_keys(lines);
        while frozen.len() > FROZEN_MAX {
            merge_cheapest(&mut frozen);
        }
        lines = next_lines(held);
    }
    let is_next_ready = (keys - held) >= rotate_keys(lines) / 4 * 3;
    let all = held.saturating_add(rotate_keys(lines));
    let spare = if is_next_ready { bytes_for(next_lines(all)) } else { 0 };
    frozen.into_iter().map(Held::bytes).fold(bytes_for(lines).saturating_add(spare), u64::saturating_add)
}

/// Lines of the table that follows when `held` keys are held.
fn next_lines(held: u64) -> u64 {
    lines_for(grown_keys(held), LOAD_ROTATE_PERCENT).max(FIRST_LINES)
}

/// Keys that the next table is made for when `held` keys are held, at most.
fn grown_keys(held: u64) -> u64 {
    if held < IDS_GROW_SLOWER { held } else { held / 4 * 3 }
}

fn merge_cheapest(frozen: &mut Vec<Held>) {
    let cost = |index: &usize| frozen[*index].keys + frozen[*index + 1].keys;
    let Some(index) = (0..frozen.len() - 1).min_by_key(cost) else { return };
    let keys = cost(&index);
    frozen[index] = Held { keys, lines: lines_for(keys, LOAD_MERGED_PERCENT) + 1 };
    frozen.remove(index + 1);
}

/// Memory of a store without a directory whose first table was made for all its keys. With a window that
/// table goes when all in it is over; until then there are those of the next four quarters as well, and the
/// next one.
fn expected_bytes(keys_held: u64, is_forever: bool) -> u64 {
    let first = Held { keys: 0, lines: lines_for(keys_held, LOAD_EXPECTED_PERCENT).max(LINES_MIN) };
    if is_forever {
        return bytes_for(first.lines);
    }
    let keys = keys_held / 5;
    let next = Held { keys, lines: lines_for(keys + keys / 8, LOAD_ROTATE_PERCENT).max(LINES_MIN) };
    let first = Held { keys, ..first };
    first.bytes().saturating_add(next.bytes().saturating_mul(4)).saturating_add(bytes_for(next.lines))
}

/// A frozen table of a store with a window: what it has, and how many keys have come when it is over.
#[derive(Clone, Copy, Debug)]
struct Expiring {
    table: Held,
    over_at: u64,
}

/// Memory of a store with a window and without a directory at its largest, by going through the tables that
/// it makes. Time is counted in the keys that have come, as these come at an even pace.
fn windowed_bytes(keys: u64) -> u64 {
    let quarter = (keys / 4).clamp(1, u64::MAX / u64::from(2 * QUARTERS));
    let (mut lines, mut now, mut bytes_max) = (FIRST_LINES, 0, 0);
    let mut frozen: Vec<Expiring> = Vec::new();
    while now < u64::from(QUARTERS) * quarter {
        let active = Held { keys: quarter.min(rotate_keys(lines)), lines };
        now += active.keys;
        frozen.retain(|expiring| expiring.over_at >= now);
        let held = frozen.iter().map(|expiring| expiring.table.keys).sum::<u64>();
        let next = next_lines_windowed(held + rotate_keys(lines), quarter, lines);
        let tables = frozen.iter().map(|expiring| expiring.table.bytes());
        let bytes = tables.fold(bytes_for(lines).saturating_add(bytes_for(next)), u64::saturating_add);
        if now > u64::from(QUARTERS) / 2 * quarter {
            bytes_max = bytes_max.max(bytes);
        }
        // Over when the last key that came in is.
        frozen.push(Expiring { table: active, over_at: now + 4 * quarter });
        lines = next;
    }
    bytes_max
}

/// Lines of the table that follows when `held` keys are held and so many come in a quarter of the window.
fn next_lines_windowed(held: u64, quarter: u64, lines: u64) -> u64 {
    let floor = if rotate_keys(lines) <= quarter { FIRST_LINES } else { LINES_MIN };
    lines_for(grown_keys(held).min(quarter + quarter / 8), LOAD_ROTATE_PERCENT).max(floor.min(lines))
}

/// How often a key is written when so many tables are sealed, and files are fused as their number demands.
fn writes_per_key(tables: u64, generations: usize) -> f64 {
    let (tables, generations) = (to_f64(tables), to_f64(generations as u64));
    if tables <= generations { 1.0 } else { 1.0 + generations * tables.powf(1.0 / generations) * 2.0 / 3.0 }
}

/// Share of absent keys for which a filter with so many bits a key says "perhaps": the sum over all numbers
/// of keys that a block may have, which are Poisson distributed.
fn false_positive_rate(bits_per_key: f64) -> f64 {
    let mean = BLOCK_BITS / bits_per_key;
    let mut probability = (-mean).exp();
    let mut rate = 0.0;
    for keys in 1..1_000_u32 {
        let keys = f64::from(keys);
        probability *= mean / keys;
        rate += probability * (1.0 - (1.0 - 1.0 / WORD_BITS).powf(keys)).powi(WORDS);
    }
    rate
}

#[expect(clippy::cast_precision_loss, reason = "an estimate needs no more than the leading digits")]
fn to_f64(number: u64) -> f64 {
    number as f64
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "casts of floats saturate")]
fn to_u64(number: f64) -> u64 {
    number as u64
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
