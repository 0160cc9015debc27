//! Every bound of the crate in one place (G7): sizes, queues, loops.

/// Slots in a line of a table: three fingerprints with their stamps fill one cache line.
pub(crate) const SLOTS_PER_LINE: u64 = 3;

/// Bytes in a line.
pub(crate) const LINE_BYTES: u64 = 64;

/// Lines at the end of a table that are nobody's home, and the longest walk of a probe.
///
/// Runs of full lines longer than `n` become rare as `exp(-n (3 ln(1/a) - 3 (1 - a)))` at load `a`: one in
/// 10^46 of this length at the load of merged tables (0.80), while one of 64 lines, tried first, failed one
/// merge in ten. A longer walk means that the IDs were chosen to collide, and the table is rotated away
/// instead.
pub(crate) const SPARE_LINES: u64 = if cfg!(loom) {
    1
} else if cfg!(miri) {
    16
} else {
    1024
};

/// Share of its slots, in per cent, to which the active table is filled before it is rotated.
pub(crate) const LOAD_ROTATE_PERCENT: u64 = 65;

/// Share of its slots, in per cent, above which the active table takes no new ID and callers wait.
pub(crate) const LOAD_LIMIT_PERCENT: u64 = 80;

/// Share of its slots, in per cent, to which a merged table is filled.
pub(crate) const LOAD_MERGED_PERCENT: u64 = 80;

/// Share of its slots, in per cent, to which the lines of a generation are filled.
pub(crate) const LOAD_SEALED_PERCENT: u64 = 86;

/// Share of its slots, in per cent, that a table sized by `Options::expect` has in use when all came.
pub(crate) const LOAD_EXPECTED_PERCENT: u64 = 60;

/// Lines of the first active table without a hint: 4 MiB.
pub(crate) const FIRST_LINES: u64 = 1 << 16;

/// Lines of the smallest table that is worth rotating into: 64 KiB.
pub(crate) const LINES_MIN: u64 = 1 << 10;

/// IDs held above which a new table is three quarters as large as what is held, instead of as large.
pub(crate) const IDS_GROW_SLOWER: u64 = 2_000_000;

/// Part of the memory budget that a table made by growth takes at most.
pub(crate) const BUDGET_PARTS_PER_TABLE: u64 = 4;

/// Part of the memory budget that is forgotten at once at most, where the oldest IDs make room: merging
/// makes no larger table there.
pub(crate) const BUDGET_PARTS_FORGOTTEN: u64 = 8;

/// Memory budget without an option: 4 GiB, about 10^8 IDs.
pub(crate) const MEMORY_BUDGET_DEFAULT: u64 = 4 << 30;

/// Smallest memory budget: room for two of the smallest tables and their filters.
pub(crate) const MEMORY_BUDGET_MIN: u64 = 1 << 20;

/// Frozen tables above which the two cheapest neighbours are merged.
///
/// A new ID asks the filter of each. With 10^7 IDs and no hint, 4 took 1.81 times as long as with a hint, 2
/// took 1.44 and 1 took 1.57 times: filters that fit no cache cost more than merging, which the maintenance
/// thread does.
pub(crate) const FROZEN_MAX: usize = 2;

/// The same where IDs have windows: tables go as a whole when they are over, and merging only keeps them
/// longer.
pub(crate) const FROZEN_MAX_WINDOWED: usize = 16;

/// Tables kept for sealed generations above which merging them takes turns with sealing.
pub(crate) const KEPT_MAX: usize = 2;

/// Tables kept for sealed generations at most, where there is no room to merge them.
pub(crate) const KEPT_LIMIT: usize = 24;

/// Tables kept for sealed generations from which on no file is copied back into memory: the next that is
/// sealed would take its place.
pub(crate) const KEPT_RECALL_MAX: usize = KEPT_LIMIT - 4;

/// Frozen tables and generations that a view may list: a batch keeps one candidate bit for each.
pub(crate) const FROZEN_LIMIT: usize = 64;

/// Frozen tables from which on no other table is made active: the closing one and one that is being merged
/// may still join them.
pub(crate) const FROZEN_ROTATE_MAX: usize = 30;
const _: () = assert!(FROZEN_ROTATE_MAX + KEPT_LIMIT + 4 <= FROZEN_LIMIT);

/// Bits a key in a Bloom filter.
pub(crate) const FILTER_BITS_PER_KEY: u32 = 12;

/// Lines that one step of background work reads or touches: about a millisecond.
pub(crate) const LINES_PER_STEP: u64 = 1 << 14;

/// Leases held at the same time without an option.
pub(crate) const LEASES_MAX_DEFAULT: usize = 1 << 20;

/// Attempt numbers of leases that are put aside for a run each time that it seals a table: more than are
/// used until it seals the next. A store that is closed gives back what it has not used, so it is opened any
/// number of times, and after a kill 2^23 times.
pub(crate) const ATTEMPTS_AHEAD: u64 = 1 << 40;

/// Locks over the lease table.
pub(crate) const LEASE_SHARDS: usize = if cfg!(loom) { 1 } else { 64 };

/// Counters that a table spreads its count over, so that threads do not share a cache line.
pub(crate) const STRIPES: usize = if cfg!(loom) { 1 } else { 16 };

/// Lines from which on a first table is touched by two threads: 16 MiB.
pub(crate) const LINES_TOUCHED_BY_TWO: u64 = 1 << 18;

/// IDs of a batch that are answered under one view.
pub(crate) const BATCH_CHUNK: usize = 1024;

/// Longest window or time to live: about 34 years in ticks of 4 s.
pub(crate) const WINDOW_MS_MAX: u64 = 1 << 40;

/// Shortest time between two rotations by age, in milliseconds.
pub(crate) const ROTATE_MS_MIN: u64 = 1_000;

/// Milliseconds between two syncs of the log without an option.
pub(crate) const SYNC_MS_DEFAULT: u64 = 1_000;

/// IDs that a table made by growth holds at most in a store with a log, and half of those that its first
/// table is made for: bounds what is read back after a kill.
pub(crate) const LOGGED_IDS_MAX: u64 = 8_000_000;

/// Frozen tables that wait to be sealed at most: then writers wait too.
pub(crate) const SEAL_LAG_MAX: usize = 2;

/// Named cursors that a store keeps at most.
pub(crate) const CURSORS_MAX: usize = 4_096;

/// Bytes in the name of a cursor at most.
pub(crate) const CURSOR_NAME_BYTES_MAX: usize = 200;

/// Bytes of a record in the log.
pub(crate) const RECORD_BYTES: u64 = 24;

/// Milliseconds by which the wall clock may have gone on since a store was last open before that is told: a
/// month.
pub(crate) const CLOCK_JUMP_MS: u64 = 30 * 86_400_000;

/// Places in the log's queue: as many callers and chunks of batches may wait for one write.
pub(crate) const LOG_CELLS: u64 = if cfg!(loom) { 2 } else { 256 };

/// Facts in one place of the log's queue.
pub(crate) const LOG_CELL_RECORDS: usize = if cfg!(loom) { 2 } else { 64 };

/// Longest frame of the log: room for all of the queue, or for 43,000 commits at once.
pub(crate) const FRAME_BYTES_MAX: u64 = 1 << 20;

/// Length of the first log segment that a process makes where few IDs are expected: 175,000 records. It has
/// room for the longest frame.
pub(crate) const SEGMENT_BYTES_FIRST: u64 = 4 << 20;
const _: () = assert!(SEGMENT_BYTES_FIRST > 2 * FRAME_BYTES_MAX);

/// Length of the longest log segment without an option: 2.8 million records.
pub(crate) const SEGMENT_BYTES_DEFAULT: u64 = 64 << 20;

/// Longest segment of the log; a longer one is not read.
pub(crate) const SEGMENT_BYTES_MAX: u64 = 1 << 30;

/// Bytes of a segment that one step of making it fills: less than a millisecond.
pub(crate) const SEGMENT_SLICE_BYTES: u64 = 1 << 20;

/// Bytes of a segment in the making that are filled by one write.
///
/// Linux keeps what was written at once as one piece of its cache, up to megabytes, and goes through all
/// pages of a piece whenever any of them is written or synced. A frame of 24 KiB and its sync took 172 us in
/// pieces of 1 MiB, 160 us in pieces of 64 KiB and 168 us in single pages (ext4, Linux 6.18), and the write
/// alone 4.9, 3.1 and 8.2 us.
pub(crate) const SEGMENT_PIECE_BYTES: usize = 64 << 10;

/// Slices of a segment in the making that are filled between two syncs, so that each sync is short.
pub(crate) const SEGMENT_SLICES_PER_SYNC: u64 = 4;

/// Full segments that may wait for their sync; the writer syncs the oldest itself when there are more.
pub(crate) const SEGMENTS_UNSYNCED_MAX: usize = 2;

/// Bytes of a segment that recovery holds in memory.
pub(crate) const RECOVERY_WINDOW_BYTES: u64 = 4 << 20;

/// Bytes before the first line of a generation.
pub(crate) const GENERATION_HEADER_BYTES: u64 = 4096;

/// Bytes of a generation that are written or read at once.
pub(crate) const GENERATION_BLOCK_BYTES: usize = if cfg!(miri) { 1 << 12 } else { 1 << 20 };

/// Bytes of a generation that are written between two syncs, so that little is left for the last one.
pub(crate) const GENERATION_SYNC_BYTES: u64 = if cfg!(miri) { 1 << 14 } else { 4 << 20 };

/// Largest manifest in bytes.
pub(crate) const MANIFEST_BYTES_MAX: u64 = 4 << 20;
const _: () =
    assert!(MANIFEST_BYTES_MAX > (CURSORS_MAX * (3 * CURSOR_NAME_BYTES_MAX + 32)) as u64 + (1 << 20));

/// Damaged places that are named one by one, in one file or one log; more are counted.
pub(crate) const DAMAGES_MAX: usize = 100;

/// Sealed generations above which neighbours are fused.
pub(crate) const GENERATIONS_MAX: usize = 4;

/// The same where IDs have windows: files go as a whole when they are over, and fusing only keeps them
/// longer.
pub(crate) const GENERATIONS_MAX_WINDOWED: usize = 16;

/// Sealed generations from which on fusing takes turns with sealing, and is done even where the memory budget
/// has no room for the filter of the result: when there are too many, callers wait.
pub(crate) const GENERATIONS_BEHIND: usize = 12;
const _: () = assert!(GENERATIONS_BEHIND < FROZEN_ROTATE_MAX);

/// Full active tables that are fused at once at most, while so many wait: a fusion of all took so long at
/// full speed that callers waited for seconds.
pub(crate) const FUSED_TABLES_BEHIND: u64 = 16;

/// IDs that one step of a fusion copies: about a millisecond.
pub(crate) const IDS_PER_STEP: u64 = 1 << 14;

/// Log segments that an opening reads back before it has the table sealed that they are needed for.
pub(crate) const SEGMENTS_UNSEALED_MAX: u64 = 4;

/// Log segments that one active table is logged in at most, about 300 MiB: bounds what is read back after a
/// kill where IDs are seen again and again in windows that slide.
pub(crate) const SEGMENTS_PER_TABLE_MAX: u64 = 8;

/// Events that wait for a slow observer at most; the oldest of more are lost.
pub(crate) const EVENTS_WAITING_MAX: usize = 256;

/// IDs that the first table which a log is read back into is made for at most; larger ones are made when it
/// is known how many there are.
pub(crate) const REFILL_IDS_FIRST: u64 = 1 << 19;

/// Tables for keys that crowd, from which on a log is read back into larger ones.
pub(crate) const REFILL_TABLES_CROWDED: usize = 6;

/// Tables that a log is read back into at most, for keys that crowd.
pub(crate) const REFILL_TABLES_MAX: usize = 24;
const _: () = assert!(FROZEN_ROTATE_MAX + REFILL_TABLES_MAX + 2 <= FROZEN_LIMIT);
