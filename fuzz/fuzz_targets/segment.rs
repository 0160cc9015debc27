//! Any bytes as the log: an error, or answers that stay the same from then on.
//!
//! The first byte says what is put right before the store is opened, `fuzz/README.md` has its bits; the rest
//! is what follows the headers of one or two segments.
#![no_main]

use std::sync::LazyLock;

use firstseen::Fingerprint;
use firstseen::testing::SimDisk;
use libfuzzer_sys::fuzz_target;

use firstseen_fuzz::{SECRET, STORE_ID, ask, checksum, manifest_text, options, put, with_checksum, word};

const HEADER_BYTES: usize = 4096;
const FRAME_MAGIC: &[u8] = b"fs-frame";
const FRAME_HEAD_BYTES: usize = 56;
const SEED: u64 = 0x0123_4567_89ab_cdef;

/// Records that the store is asked for, of each segment.
const KEYS_MAX: usize = 64;

/// The manifest of a store that was not closed.
static MANIFEST: LazyLock<Vec<u8>> =
    LazyLock::new(|| with_checksum(manifest_text().replace("closed yes", "closed no").as_bytes()));

fuzz_target!(|bytes: &[u8]| {
    let Some((&flags, rest)) = bytes.split_first() else { return };
    let is_two = flags & 8 != 0;
    let middle = if is_two { rest.len() / 2 / 8 * 8 } else { rest.len() };
    let (first, second) = rest.split_at(middle);
    let disk = SimDisk::new(1);
    disk.overwrite("SECRET", SECRET);
    disk.overwrite("MANIFEST", &MANIFEST);
    let mut keys = vec![Fingerprint::from_halves(1, 2)];
    let parts = [first, second];
    for (number, part) in (1..).zip(&parts[..1 + usize::from(is_two)]) {
        let file = segment(flags, number, part);
        keys.extend(records(&file).take(KEYS_MAX));
        disk.overwrite(&format!("log-{number:010}"), &file);
    }
    ask(&disk, &options(), &keys);
});

/// The file of a segment whose frames, or with bit 4 all of it, are `bytes`.
fn segment(flags: u8, number: u64, bytes: &[u8]) -> Vec<u8> {
    let mut file = if flags & 16 == 0 { vec![0; HEADER_BYTES] } else { Vec::new() };
    file.extend_from_slice(bytes);
    if flags & 16 == 0 {
        let frames = HEADER_BYTES..file.len();
        let first = word(&file, frames.start + 24);
        let words = [word(b"fs-log-s", 0), 1, STORE_ID, number, SEED, file.len() as u64, first.min(1)];
        (0..).step_by(8).zip(words).for_each(|(at, word)| put(&mut file, at, word));
        put(&mut file, 512, first);
    }
    if flags & 1 == 0 && file.len() >= HEADER_BYTES {
        let length = file.len() as u64;
        put(&mut file, 40, length);
        let sum = checksum(0, &file[..56]);
        put(&mut file, 56, sum);
        if word(&file, 512) != 0 {
            let sum = checksum(word(&file, 32), &file[512..520]);
            put(&mut file, 520, sum);
        }
    }
    if flags & 2 == 0 {
        seal_frames(&mut file, number, flags & 4 == 0);
    }
    file
}

/// Gives every frame its checksum, and those that are to be numbered the number that comes next.
fn seal_frames(file: &mut [u8], number: u64, is_numbered: bool) {
    let seed = word(file, 32);
    let mut next = word(file, 512);
    for (at, sum_at) in frames(file) {
        if is_numbered {
            let first = word(file, 512);
            put(file, at + 8, number);
            put(file, at + 16, next);
            put(file, at + 24, first);
            next = next.wrapping_add(1);
        }
        let seq = word(file, at + 16);
        let sum = checksum(seed ^ seq.wrapping_mul(0x9e37_79b9_7f4a_7c15), &file[at..sum_at]);
        put(file, sum_at, sum);
    }
}

/// Where frames begin, and where their checksums are.
fn frames(file: &[u8]) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut at = HEADER_BYTES;
    while at + FRAME_HEAD_BYTES + 8 <= file.len() {
        let payload = (word(file, at + 40) >> 32) as usize;
        let sum_at = at + FRAME_HEAD_BYTES + payload;
        if file[at..].starts_with(FRAME_MAGIC) && sum_at.is_multiple_of(8) && sum_at + 8 <= file.len() {
            found.push((at, sum_at));
            at = sum_at + 8;
        } else {
            at += 8;
        }
    }
    found
}

/// The keys of what looks like records.
fn records(file: &[u8]) -> impl Iterator<Item = Fingerprint> {
    let places = frames(file).into_iter().flat_map(|(at, sum_at)| {
        (at + FRAME_HEAD_BYTES..sum_at).step_by(24).filter(move |place| place + 24 <= sum_at)
    });
    places.map(|at| Fingerprint::from_halves(word(file, at), word(file, at + 8)))
}
