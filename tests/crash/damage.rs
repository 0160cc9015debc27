//! Damaged, exchanged and foreign files: an error that changes nothing, or right answers (G8).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use firstseen::testing::{SimDisk, Storage};
use firstseen::{Durability, Error, FileAccess, Result, Store};
use xxhash_rust::xxh3::xxh3_64;

use crate::random::number;
use crate::setup::{Setup, settle};

const NOW_MS: u64 = 1_700_000_000_000;

/// IDs that the store knows.
const IDS: u32 = 40;

/// IDs that it does not know.
const ABSENT: std::ops::Range<u32> = 1000..1100;

/// A store whose answers are known.
struct Known {
    disk: SimDisk,
    files: BTreeMap<String, Vec<u8>>,
    setup: Setup,
    /// Facts in the last frame of the log, which nothing vouches for: an ID that may be missing.
    unproved: Option<u32>,
}

/// What is done to one file.
#[derive(Clone, Copy, Debug)]
enum Damage {
    Flip(usize, u8),
    Set(usize, u8),
    Cut(usize),
}

#[derive(Default)]
struct Tally {
    opens: AtomicU64,
    refused: AtomicU64,
    /// Opened, but some look-ups were refused.
    partly: AtomicU64,
}

impl Known {
    /// Two generations, and either nothing else or a log that was not closed.
    fn new(is_closed: bool) -> Known {
        let setup = Setup {
            durability: Durability::Sync,
            segment_bytes: 5696,
            first_table_lines: 4,
            ..Setup::default()
        };
        let disk = SimDisk::new(0);
        let store = setup.open_at(&disk, NOW_MS, FileAccess::Map).unwrap();
        for ids in [0..17, 17..34] {
            ids.for_each(|id: u32| assert!(store.check(id.to_le_bytes()).unwrap().is_first_seen()));
            settle(&store).unwrap();
        }
        (34..IDS).for_each(|id| assert!(store.check(id.to_le_bytes()).unwrap().is_first_seen()));
        let disk = if is_closed {
            store.close().unwrap();
            disk.kill()
        } else {
            disk.kill()
        };
        let files = disk.files();
        Known { disk, files, setup, unproved: (!is_closed).then_some(IDS - 1) }
    }

    /// Opens the store with other files: no wrong answer, and nothing is changed by an opening that is
    /// refused.
    fn open(&self, image: &SimDisk, access: FileAccess, tally: &Tally) -> Result<(), String> {
        let before = image.files();
        tally.opens.fetch_add(1, Ordering::Relaxed);
        match self.setup.open_at(image, NOW_MS, access) {
            Err(_) if image.files() != before => Err("it is refused, and files have changed".to_owned()),
            Err(_) => {
                tally.refused.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
            Ok(store) => {
                if self.compare(&store)? {
                    tally.partly.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            }
        }
    }

    /// Whether some look-ups were refused.
    fn compare(&self, store: &Store) -> Result<bool, String> {
        let mut is_partly = false;
        for id in (0..IDS).chain(ABSENT) {
            match store.contains(id.to_le_bytes()) {
                Err(Error::Corrupt { .. } | Error::Io { .. } | Error::Format { .. }) => is_partly = true,
                Err(error) => return Err(format!("ID {id}: {error}")),
                Ok(is_seen) if is_seen == (id < IDS) || self.unproved == Some(id) => {}
                Ok(is_seen) => return Err(format!("ID {id} is seen: {is_seen}")),
            }
        }
        Ok(is_partly)
    }

    /// All damages of one file, every `stride`-th of them.
    fn damages(&self, file: &str, stride: usize) -> Vec<Damage> {
        let bytes = &self.files[file];
        let flips = (0..bytes.len()).flat_map(|at| (0..8).map(move |bit| Damage::Flip(at, bit)));
        let sets = (0..bytes.len()).flat_map(|at| [0, 0xFF].map(|value| Damage::Set(at, value)));
        let sets = sets.filter(|damage| !matches!(damage, Damage::Set(at, value) if bytes[*at] == *value));
        let cuts = (0..bytes.len()).map(Damage::Cut);
        flips.chain(sets).chain(cuts).step_by(stride).collect()
    }

    fn damaged(&self, file: &str, damage: Damage) -> SimDisk {
        let mut bytes = self.files[file].clone();
        match damage {
            Damage::Flip(at, bit) => bytes[at] ^= 1 << bit,
            Damage::Set(at, value) => bytes[at] = value,
            Damage::Cut(length) => bytes.truncate(length),
        }
        let image = self.disk.kill();
        image.overwrite(file, &bytes);
        image
    }

    fn matrix(&self, tally: &Tally, stride: usize) {
        for file in self.files.keys() {
            let damages = self.damages(file, stride);
            let next = AtomicUsize::new(0);
            let work = || {
                while let Some(damage) = damages.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let accesses: &[FileAccess] = match file.starts_with("generation") {
                        true => &[FileAccess::Map, FileAccess::Read],
                        false => &[FileAccess::Map],
                    };
                    for access in accesses {
                        let outcome = self.open(&self.damaged(file, *damage), *access, tally);
                        outcome.unwrap_or_else(|text| panic!("{file}, {damage:?}, {access:?}: {text}"));
                    }
                }
            };
            let threads = std::thread::available_parallelism().map_or(1, usize::from);
            std::thread::scope(|scope| {
                let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
                threads.into_iter().for_each(|thread| thread.join().unwrap());
            });
        }
    }
}

fn tell(what: &str, tally: &Tally) {
    let Tally { opens, refused, partly } = tally;
    report!(
        "counted: {what}: {opens:?} opens, {refused:?} refused, {partly:?} with look-ups refused, 0 wrong"
    );
}

#[test]
fn any_damage_of_one_file_is_an_error_or_does_not_matter() {
    // Every how many-th damage is tried.
    let stride = number("FIRSTSEEN_DAMAGE_STRIDE").map_or(1, |stride| usize::try_from(stride).unwrap());
    for is_closed in [true, false] {
        let (known, tally) = (Known::new(is_closed), Tally::default());
        known.open(&known.disk.kill(), FileAccess::Map, &tally).unwrap();
        assert_eq!(tally.refused.load(Ordering::Relaxed), 0, "the store is refused as it is");
        known.matrix(&tally, stride);
        tell(if is_closed { "damage, closed store" } else { "damage, killed store" }, &tally);
        assert!(tally.refused.load(Ordering::Relaxed) > 0 && tally.partly.load(Ordering::Relaxed) > 0);
    }
}

/// Files under another name, files of another store, and files that are missing.
#[test]
fn exchanged_and_missing_files_are_errors_or_do_not_matter() {
    let tally = Tally::default();
    for (is_closed, is_other_closed) in [(true, true), (true, false), (false, true), (false, false)] {
        let (known, other) = (Known::new(is_closed), Known::new(is_other_closed));
        for file in known.files.keys() {
            for (source, bytes) in known.files.iter().chain(&other.files) {
                for access in [FileAccess::Map, FileAccess::Read] {
                    let image = known.disk.kill();
                    image.overwrite(file, bytes);
                    let outcome = known.open(&image, access, &tally);
                    outcome.unwrap_or_else(|text| panic!("{source} in the place of {file}: {text}"));
                }
            }
            let last_segment = known.files.keys().rfind(|file| file.starts_with("log"));
            if last_segment == Some(file) {
                // Nothing vouches for the last segment: it is made before it is needed, or on the spot.
                continue;
            }
            let image = known.disk.kill();
            image.remove(file).unwrap();
            image.sync_dir().unwrap();
            known
                .open(&image, FileAccess::Map, &tally)
                .unwrap_or_else(|text| panic!("without {file}: {text}"));
        }
        for (file, bytes) in &other.files {
            if known.files.contains_key(file) {
                continue;
            }
            let image = known.disk.kill();
            image.overwrite(file, bytes);
            known.open(&image, FileAccess::Map, &tally).unwrap_or_else(|text| panic!("with {file}: {text}"));
        }
    }
    tell("exchange", &tally);
}

#[test]
fn parts_of_a_generation_that_change_places_are_errors_or_do_not_matter() {
    const PART_BYTES: usize = 64;
    let (known, tally) = (Known::new(true), Tally::default());
    for (file, bytes) in known.files.iter().filter(|(file, _)| file.starts_with("generation")) {
        let parts = bytes.len() / PART_BYTES;
        for (first, second) in (0..parts).flat_map(|first| (0..first).map(move |second| (first, second))) {
            let mut bytes = bytes.clone();
            for at in 0..PART_BYTES {
                bytes.swap(first * PART_BYTES + at, second * PART_BYTES + at);
            }
            let image = known.disk.kill();
            image.overwrite(file, &bytes);
            let outcome = known.open(&image, FileAccess::Map, &tally);
            outcome.unwrap_or_else(|text| panic!("{file}, parts {first} and {second}: {text}"));
        }
    }
    tell("changed places", &tally);
}

/// The bytes of a manifest of another version, with the checksum that belongs to them.
fn later_manifest(bytes: &[u8]) -> Vec<u8> {
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    let (body, _) = text.rsplit_once("checksum ").unwrap();
    let body = body.replacen("manifest 1", "manifest 2", 1);
    let sum = xxh3_64(body.as_bytes());
    format!("{body}checksum {sum:016x}\n").into_bytes()
}

#[test]
fn files_of_later_versions_and_of_other_kinds_are_refused_unchanged() {
    let known = Known::new(false);
    let text = b"Dear reader,\nthis is a letter and no file of a store.\n".to_vec();
    let mut formats = 0;
    for (file, bytes) in known.files.iter().filter(|(file, _)| *file != "LOCK") {
        let mut later = bytes.clone();
        match file.as_str() {
            "MANIFEST" => later = later_manifest(bytes),
            "SECRET" => {
                later[8] = 2;
                let sum = xxh3_64(&later[..208]);
                later[208..].copy_from_slice(&sum.to_le_bytes());
            }
            _ => later[8] = 2,
        }
        for (what, content) in [("later", later), ("text", text.clone()), ("empty", Vec::new())] {
            for access in [FileAccess::Map, FileAccess::Read] {
                let image = known.disk.kill();
                image.overwrite(file, &content);
                let before = image.files();
                let error = known.setup.open_at(&image, NOW_MS, access).expect_err(file);
                assert_eq!(image.files(), before, "{file}, {what}");
                match (what, &error) {
                    ("later", Error::Format { file: told, found: 2, .. }) if told == file => formats += 1,
                    ("later", Error::Corrupt { .. }) if file.starts_with("generation") => {}
                    ("text" | "empty", Error::Corrupt { file: told, .. }) if told == file => {}
                    _ => panic!("{file}, {what}: {error:?}"),
                }
            }
        }
    }
    report!("counted: {formats} later versions refused as such");
}
