//! Any bytes as a generation: an error or the right answer for each key; `verify` finds what look-ups find.
//!
//! The first byte says how the bytes are meant and what is put right, `fuzz/README.md` has its bits.
#![no_main]

use std::path::PathBuf;
use std::sync::LazyLock;

use firstseen::testing::SimDisk;
use firstseen::{Fingerprint, Store};
use libfuzzer_sys::fuzz_target;

use firstseen_fuzz::{
    GENERATION, GENERATION_NAME, SECRET, STORE_ID, access, answers, ask, checksum, manifest_text, open,
    options, put, with_checksum, word,
};

const HEADER_BYTES: usize = 4096;
const LINE_BYTES: usize = 64;
const FOOTER_BYTES: usize = 64;
const ID: u64 = 7;

/// Lines at most whose keys are asked for.
const LINES_ASKED: usize = 64;

static TEXT: LazyLock<String> = LazyLock::new(manifest_text);

/// What the golden generation says of its keys, and of one that it has not.
static GOLDEN: LazyLock<(Vec<Fingerprint>, Vec<Option<bool>>)> = LazyLock::new(|| {
    let mut keys = keys(GENERATION);
    keys.push(Fingerprint::from_halves(3, 4));
    let store = open(&disk(GENERATION), options()).expect("the golden generation");
    let answers = answers(&store, &keys);
    assert!(answers.contains(&Some(true)) && answers.contains(&Some(false)));
    (keys, answers)
});

/// Where the files are put for [`Store::verify`].
static DIR: LazyLock<PathBuf> = LazyLock::new(|| {
    let dir = std::env::temp_dir().join(format!("firstseen-fuzz-{}", std::process::id()));
    let store = Store::open(&dir).expect("a directory of the system's for such files");
    store.close().expect("an empty store");
    dir
});

fuzz_target!(|bytes: &[u8]| {
    let Some((&flags, rest)) = bytes.split_first() else { return };
    let mut file = if flags & 1 == 0 { edited(rest) } else { rest.to_vec() };
    if flags & 2 != 0 {
        seal_lines(&mut file);
    }
    if flags & 4 != 0 {
        seal_ends(&mut file);
    }
    let is_forged = flags & 6 != 0;
    let disk = disk(if is_forged { &file } else { GENERATION });
    disk.overwrite(GENERATION_NAME, &file);
    disk.maps(flags & 0x40 == 0);
    let options = options().file_access(access(flags));
    let (mut keys, expected) = GOLDEN.clone();
    if is_forged {
        keys.extend(self::keys(&file));
    }
    let mut found = Vec::new();
    if let Ok(store) = open(&disk, options.clone()) {
        found = answers(&store, &keys);
        if !is_forged {
            for (index, (found, expected)) in found.iter().zip(&expected).enumerate() {
                assert!(found.is_none() || found == expected, "key {index}: {found:?}, not {expected:?}");
            }
        }
    }
    let is_readable = !found.is_empty() && found.iter().all(Option::is_some);
    assert!(!is_sound(&disk) || is_readable, "verify finds nothing, look-ups do");
    ask(&disk.kill(), &options, &keys);
});

/// The golden file with bytes changed, three bytes for each place; one behind the end cuts the file short.
fn edited(edits: &[u8]) -> Vec<u8> {
    let mut file = GENERATION.to_vec();
    for edit in edits.chunks_exact(3) {
        let at = usize::from(u16::from_le_bytes([edit[0], edit[1]]));
        match file.get_mut(at) {
            Some(byte) => *byte ^= edit[2],
            None => file.truncate(at % GENERATION.len()),
        }
    }
    file
}

/// A disk with that generation, and with a manifest that names it as its header describes it.
fn disk(file: &[u8]) -> SimDisk {
    let at = |at| word(file, at);
    let named = format!(
        "generation {ID} bytes {} lines {} ids {} birth {} until-min {} until-max {} header {:016x}\n",
        at(32),
        at(40),
        at(64),
        at(72),
        at(88),
        at(96),
        at(4088)
    );
    let text = TEXT.replace("generation-next 1\n", "generation-next 8\n") + &named;
    let disk = SimDisk::new(1);
    disk.overwrite("SECRET", SECRET);
    disk.overwrite("MANIFEST", &with_checksum(text.as_bytes()));
    disk.overwrite(GENERATION_NAME, file);
    disk
}

fn is_sound(disk: &SimDisk) -> bool {
    for (name, content) in disk.files() {
        if ["MANIFEST", "SECRET", GENERATION_NAME].contains(&name.as_str()) {
            std::fs::write(DIR.join(name), content).expect("a file for verify");
        }
    }
    Store::verify(&*DIR).is_ok_and(|verification| verification.is_sound())
}

/// A seed of the file's checksums: lines 1, all lines 2, filter 3, footer 4.
fn seed(part: u64) -> u64 {
    let mut names = [0; 16];
    put(&mut names, 0, STORE_ID);
    put(&mut names, 8, ID);
    checksum(part, &names)
}

/// Where the lines end and where the filter does, as the header says and the file allows.
fn ends(file: &[u8]) -> (usize, usize) {
    let room = file.len().saturating_sub(HEADER_BYTES + FOOTER_BYTES);
    let part = |at, bytes: usize| usize::try_from(word(file, at)).unwrap_or(usize::MAX).saturating_mul(bytes);
    let lines = part(40, LINE_BYTES).min(room / LINE_BYTES * LINE_BYTES);
    (HEADER_BYTES + lines, HEADER_BYTES + lines.saturating_add(part(56, 32)).min(room))
}

fn seal_lines(file: &mut [u8]) {
    if file.len() < HEADER_BYTES + FOOTER_BYTES {
        return;
    }
    let (end, _) = ends(file);
    for (index, line) in (0_u64..).zip(file[HEADER_BYTES..end].chunks_exact_mut(LINE_BYTES)) {
        let sum = checksum(seed(1).wrapping_add(index.wrapping_mul(0x9e37_79b9_7f4a_7c15)), &line[..60]);
        line[60..].copy_from_slice(&(sum as u32).to_le_bytes());
    }
}

/// Header and footer, with the checksums of lines and filter.
fn seal_ends(file: &mut [u8]) {
    if file.len() < HEADER_BYTES + FOOTER_BYTES {
        return;
    }
    let (lines_end, filter_end) = ends(file);
    let lines = checksum(seed(2), &file[HEADER_BYTES..lines_end]);
    let filter = checksum(seed(3), &file[lines_end..filter_end]);
    put(file, 104, lines);
    put(file, 112, filter);
    let header = checksum(0, &file[..4088]);
    put(file, 4088, header);
    let footer = file.len() - FOOTER_BYTES;
    put(file, footer + 8, header);
    let sum = checksum(seed(4), &file[footer..footer + 56]);
    put(file, footer + 56, sum);
}

/// The keys in the first lines of a file.
fn keys(file: &[u8]) -> Vec<Fingerprint> {
    let lines = file.get(HEADER_BYTES..).unwrap_or_default().chunks_exact(LINE_BYTES).take(LINES_ASKED);
    let slots = lines.flat_map(|line| [0, 16, 32].map(|at| (word(line, at), word(line, at + 8))));
    slots.filter(|(hi, lo)| *hi != 0 && *lo != 0).map(|(hi, lo)| Fingerprint::from_halves(hi, lo)).collect()
}
