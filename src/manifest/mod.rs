//! The manifest: a small text file that says what the store is and which files belong to it.
//!
//! ```text
//! firstseen manifest 1
//! store 00c0ffee00c0ffee
//! hash xxh3
//! key-check 0123456789abcdef
//! window fixed 86400000
//! ttl-ms-max 86400000
//! tick-ms 1
//! run 3
//! time-ms 1700000000000
//! attempt-floor 77
//! log-floor 12
//! generation-next 5
//! closed no
//! cut 11 4096 12
//! generation 4 bytes 11232 lines 97 ids 250 birth 0 until-min 1 until-max 9 header 0123456789abcdef
//! cursor 42 orders%20of%20today
//! checksum 0123456789abcdef
//! ```
//!
//! Every line is a word and its values, one space between them, and ends with a line feed. Numbers are
//! decimal; ids, checksums and the check value have sixteen hexadecimal digits. The first line is the version
//! and the last the XXH3-64, under seed 0, of all bytes before it; both stay where they are in all versions.
//!
//! | line | how often | meaning |
//! | --- | --- | --- |
//! | `store` | once | random number of the store, in the seeds of its files |
//! | `hash` | once | `xxh3`, `keyed` or `exact` |
//! | `key-check` | once | what hash and secret are told from others by |
//! | `window` | once | `forever`, `fixed` and milliseconds, or `sliding` and milliseconds |
//! | `ttl-ms-max` | once | the longest time to live, in milliseconds |
//! | `tick-ms` | once | milliseconds in a tick |
//! | `run` | once | how often the store was opened to write |
//! | `time-ms` | once | the latest time that was seen, in milliseconds since the Unix epoch |
//! | `attempt-floor` | once | every attempt of a lease so far has a smaller number |
//! | `log-floor` | once | segments of the log below this number are in generations |
//! | `generation-next` | once | number of the next generation |
//! | `closed` | once | `yes` when the store was closed in order and not opened since, or `no` |
//! | `cut` | any | in segment, at offset: the log ends there and goes on in another segment |
//! | `generation` | any | a generation, newest first |
//! | `cursor` | any | value and name; see below |
//! | `?...` | any | anything that can be done without; kept when the manifest is written anew |
//!
//! Bytes of a cursor's name that are no visible ASCII, and the percent sign itself, are written as a percent
//! sign and two hexadecimal digits; a percent sign alone is the name without a byte.
//!
//! Any other line is an error: who can't understand it must not write to the store.
//!
//! # What a crash can leave
//!
//! The file is written as `MANIFEST.new`, synced, renamed, and the directory synced. A crash leaves the old
//! manifest or the new one, and perhaps a part of `MANIFEST.new`, which is not read. A store's first manifest
//! comes before its first segment and generation, so that a directory with one of those and without a
//! manifest has lost it, and is not taken for a new store (G4).
//!
//! # Versions
//!
//! 1: this one.

mod keys;
mod remains;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;
mod text;

use std::collections::BTreeMap;

use crate::error::{Error, Result};
use crate::fingerprint::Hash;
use crate::generation::Sealed;
use crate::limits::MANIFEST_BYTES_MAX;
use crate::options::Window;
use crate::storage::names::{MANIFEST, Name};
use crate::storage::replace::replace_file;
use crate::storage::{Storage, failed, read_file};
use crate::wal::Cut;

pub(crate) use self::keys::{read_secret, write_secret};
pub(crate) use self::remains::Remains;
pub(crate) use self::text::NUMBER_MAX;

/// What a store is and which files belong to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Manifest {
    pub(crate) store_id: u64,
    pub(crate) hash: Hash,
    /// [`Hasher::check_value`](crate::fingerprint::Hasher::check_value) of hash and secret.
    pub(crate) check_value: u64,
    /// In whole milliseconds.
    pub(crate) window: Window,
    pub(crate) ttl_ms_max: u64,
    pub(crate) tick_ms: u64,
    pub(crate) run: u64,
    pub(crate) time_ms: u64,
    pub(crate) attempt_floor: u64,
    pub(crate) log_floor: u64,
    pub(crate) generation_next: u64,
    pub(crate) was_closed: bool,
    pub(crate) cuts: Vec<Cut>,
    /// Newest first.
    pub(crate) generations: Vec<Sealed>,
    pub(crate) cursors: BTreeMap<Vec<u8>, u64>,
    /// Lines that this version can do without, as they were read.
    pub(crate) optional: Vec<String>,
}

impl Manifest {
    /// Reads the manifest of a store; `None` when there is no store.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] when it is damaged, or missing where files of a store are; [`Error::Format`] for a
    /// later version; [`Error::Io`].
    pub(crate) fn read(storage: &dyn Storage) -> Result<Option<Manifest>> {
        let names = storage.list().map_err(failed("listing", &storage.place()))?;
        if names.iter().any(|name| name == MANIFEST) {
            return Manifest::decode(&read_file(storage, MANIFEST, MANIFEST_BYTES_MAX)?).map(Some);
        }
        match names.iter().find(|name| belongs_to_manifest(name)) {
            Some(name) => Err(Error::corrupt(MANIFEST, 0, format!("a manifest beside {name}"), "none")),
            None => Ok(None),
        }
    }

    /// Says that all facts are in generations, so that the log begins at this segment, as in a store that was
    /// closed.
    pub(crate) fn begin_log_at(&mut self, segment: u64, cursors: &BTreeMap<String, u64>) {
        self.log_floor = segment;
        self.was_closed = true;
        self.cuts.clear();
        self.cursors = cursors.iter().map(|(name, value)| (name.clone().into_bytes(), *value)).collect();
    }

    /// Puts this in the place of the manifest, and makes it last.
    ///
    /// # Errors
    ///
    /// [`Error::Io`], after which the old manifest or this one is there; [`Error::System`] when it is too
    /// long, and nothing was changed.
    pub(crate) fn write(&self, storage: &dyn Storage) -> Result<()> {
        let content = self.encode();
        if content.len() as u64 > MANIFEST_BYTES_MAX {
            let message = format!("{} bytes are more than {MANIFEST_BYTES_MAX}", content.len());
            return Err(Error::System { operation: "writing the manifest", message });
        }
        replace_file(storage, MANIFEST, &content)
    }
}

/// Whether a file of that name is never there before the first manifest.
fn belongs_to_manifest(name: &str) -> bool {
    match Name::parse(name) {
        Some(Name::Segment(_) | Name::Generation(_) | Name::GenerationTemporary(_)) => true,
        Some(Name::Manifest | Name::Secret | Name::Lock | Name::Temporary) | None => false,
    }
}
