//! A store's directory with the golden files, on a simulated disk, and the questions that are put to it.

use std::sync::Arc;
use std::time::Duration;

use firstseen::testing::SimDisk;
use firstseen::{
    Durability, FileAccess, Fingerprint, Maintenance, ManualClock, Options, Result, Store, Timestamp, Window,
};
use xxhash_rust::xxh3::xxh3_64_with_seed;

pub const SECRET: &[u8] = include_bytes!("../../tests/golden/SECRET");
pub const GENERATION: &[u8] = include_bytes!("../../tests/golden/generation-0000000007");
pub const GENERATION_NAME: &str = "generation-0000000007";

/// The store that the golden generation belongs to.
pub const STORE_ID: u64 = 0x00c0_ffee_0000_0001;

/// Before the first of the golden windows is over.
const NOW_MS: u64 = 2_000;

const SEGMENT_BYTES: u64 = 1 << 14;

/// Steps of maintenance after which there must be nothing left to do.
const STEPS_MAX: usize = 1_000;

pub fn checksum(seed: u64, bytes: &[u8]) -> u64 {
    xxh3_64_with_seed(bytes, seed)
}

pub fn word(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).map_or(0, |word| u64::from_le_bytes(word.try_into().expect("eight bytes")))
}

pub fn put(bytes: &mut [u8], at: usize, value: u64) {
    if let Some(place) = bytes.get_mut(at..at + 8) {
        place.copy_from_slice(&value.to_le_bytes());
    }
}

/// A store without a thread of its own, whose clock stands still.
pub fn options() -> Options {
    Options::new()
        .clock(ManualClock::new(Timestamp::from_millis(NOW_MS)).clock())
        .maintenance(Maintenance::Manual)
        .durability(Durability::Buffered)
        .first_table_lines(4)
        .log_segment_bytes(SEGMENT_BYTES)
}

/// The manifest of a new store with the golden secret, without its checksum; it names nothing.
pub fn manifest_text() -> String {
    let disk = SimDisk::new(0);
    disk.overwrite("SECRET", SECRET);
    let secret = firstseen::Secret::from_bytes(SECRET[16..208].try_into().expect("192 bytes"));
    let options = options().window(Window::Fixed(Duration::from_secs(86_400))).secret(secret);
    drop(open(&disk, options).expect("a new store"));
    let text = String::from_utf8(disk.files()["MANIFEST"].clone()).expect("a text");
    let lines = text.lines().map(|line| match line.split(' ').next() {
        Some("store") => format!("store {STORE_ID:016x}\n"),
        Some("closed") => "closed yes\n".to_owned(),
        Some("checksum") => String::new(),
        _ => format!("{line}\n"),
    });
    lines.collect()
}

/// A manifest with its last line put right.
pub fn with_checksum(text: &[u8]) -> Vec<u8> {
    let mut text = text.to_vec();
    let last = format!("checksum {:016x}\n", checksum(0, &text));
    text.extend(last.into_bytes());
    text
}

pub fn open(disk: &SimDisk, options: Options) -> Result<Store> {
    Store::open_on(Arc::new(disk.clone()), options)
}

pub fn access(flags: u8) -> FileAccess {
    if flags & 0x80 == 0 { FileAccess::Map } else { FileAccess::Read }
}

/// Opens the store that is on a disk; if that succeeds, what it says must stay the same after a kill, after
/// maintenance and after it was closed.
///
/// Answers that come as errors may become worse or better, but an answer is not taken back.
pub fn ask(disk: &SimDisk, options: &Options, keys: &[Fingerprint]) {
    let Ok(store) = open(disk, options.clone()) else { return };
    let first = answers(&store, keys);
    let disk = disk.kill();
    drop(store);
    let Ok(store) = open(&disk, options.clone()) else { panic!("a store that was opened opens no more") };
    compare(&first, &answers(&store, keys), "a kill");
    let is_idle = settle(&store);
    compare(&first, &answers(&store, keys), "maintenance");
    if is_idle && store.close().is_ok() {
        let store = open(&disk, options.clone()).expect("a store that was closed");
        compare(&first, &answers(&store, keys), "closing");
    }
}

pub fn answers(store: &Store, keys: &[Fingerprint]) -> Vec<Option<bool>> {
    let mut seen = [false];
    keys.iter().map(|key| store.contains_fingerprints(&[*key], &mut seen).ok().map(|()| seen[0])).collect()
}

fn compare(before: &[Option<bool>], after: &[Option<bool>], what: &str) {
    for (index, pair) in before.iter().zip(after).enumerate() {
        if let (Some(before), Some(after)) = pair {
            assert_eq!(before, after, "key {index} after {what}");
        }
    }
}

/// Maintains until there is nothing to do; false when that fails, as it may with damaged files.
fn settle(store: &Store) -> bool {
    for _ in 0..STEPS_MAX {
        match store.maintain() {
            Ok(firstseen::Progress::Idle) => return true,
            Ok(_) => {}
            Err(_) => return false,
        }
    }
    panic!("maintenance does not end");
}
