//! Any bytes as the manifest, beside the golden generation: an error, or answers that stay the same.
//!
//! With an even first byte what follows is taken for all lines but the last, which is put right.
#![no_main]

use firstseen::Fingerprint;
use firstseen::testing::SimDisk;
use libfuzzer_sys::fuzz_target;

use firstseen_fuzz::{GENERATION, GENERATION_NAME, SECRET, access, ask, options, with_checksum, word};

const LINE_BYTES: usize = 64;

fuzz_target!(|bytes: &[u8]| {
    let Some((&flags, text)) = bytes.split_first() else { return };
    let disk = SimDisk::new(1);
    disk.overwrite("SECRET", SECRET);
    disk.overwrite(GENERATION_NAME, GENERATION);
    let text = if flags & 1 == 0 { with_checksum(text) } else { text.to_vec() };
    disk.overwrite("MANIFEST", &text);
    let lines = (4096..GENERATION.len() - LINE_BYTES).step_by(LINE_BYTES);
    let keys = lines.map(|at| Fingerprint::from_halves(word(GENERATION, at), word(GENERATION, at + 8)));
    ask(&disk, &options().file_access(access(flags)), &keys.collect::<Vec<_>>());
});
