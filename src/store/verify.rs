//! Verifying a store that nobody has open: everything is read, nothing is changed.

use std::fmt;
use std::io;

use crate::error::{Error, Result};
use crate::fingerprint::Hasher;
use crate::generation::{Access, Generation, Sealed, Survivors, read_label};
use crate::manifest::{Manifest, read_secret};
use crate::storage::names::{LOCK, MANIFEST, Name, generation_name};
use crate::storage::{Storage, failed};
use crate::wal::{self, Extent};

/// Outcome of [`Store::verify`](crate::Store::verify). `Display` is a few lines for people.
#[non_exhaustive]
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Verification {
    /// Files that belong to the store.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// File and IDs of each sealed generation that is sound, newest first.
    pub generations: Vec<(String, u64)>,
    /// Facts in the log.
    pub log_records: u64,
    /// Whole frames in the log behind one that is missing and was never synced: as after a power cut, they
    /// count as never written, and the next opening leaves them out.
    pub frames_discarded: u64,
    /// Whether the last process that had the store open has not closed it: the next opening reads the log.
    /// Not known when the manifest is damaged.
    pub needs_recovery: bool,
    /// Everything that is damaged, with file and offset; of very many places in one file the first hundred.
    pub damages: Vec<Error>,
}

impl Verification {
    /// Whether nothing is damaged.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.damages.is_empty()
    }
}

impl fmt::Display for Verification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (file, ids) in &self.generations {
            writeln!(f, "{file}: sound, {ids} IDs")?;
        }
        if self.log_records > 0 {
            writeln!(f, "log: {} records", self.log_records)?;
        }
        if self.frames_discarded > 0 {
            writeln!(f, "log: {} frames behind a gap, to be left out", self.frames_discarded)?;
        }
        for damage in &self.damages {
            writeln!(f, "{damage}")?;
        }
        if self.needs_recovery {
            writeln!(f, "not closed: the next opening reads the log")?;
        }
        let Verification { files, bytes, damages, .. } = self;
        match damages.len() {
            0 => write!(f, "sound: {files} files, {bytes} bytes"),
            1 => write!(f, "DAMAGED in 1 place: {files} files, {bytes} bytes"),
            many => write!(f, "DAMAGED in {many} places: {files} files, {bytes} bytes"),
        }
    }
}

/// Reads everything of a store.
pub(crate) fn verify(storage: &dyn Storage) -> Result<Verification> {
    let _lock = lock_to_read(storage)?;
    let mut verification = Verification::default();
    let names = verification.count_files(storage)?;
    match Manifest::read(storage) {
        Ok(Some(manifest)) => verification.verify_named(storage, &manifest)?,
        Ok(None) => return Err(no_store(storage)),
        Err(error @ Error::Corrupt { .. }) => {
            verification.damages.push(error);
            verification.verify_unnamed(storage, &names);
        }
        Err(error) => return Err(error),
    }
    Ok(verification)
}

/// Keeps others from opening the store; nobody can open one to write on a medium that takes no writes.
pub(super) fn lock_to_read(storage: &dyn Storage) -> Result<Option<Box<dyn fmt::Debug + Send + Sync>>> {
    match storage.lock(LOCK) {
        Err(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => Ok(None),
        outcome => outcome.map(Some).map_err(|error| super::open::refused_lock(storage, error)),
    }
}

#[cold]
pub(super) fn no_store(storage: &dyn Storage) -> Error {
    Error::Io {
        operation: "looking for a store in",
        file: storage.place(),
        kind: io::ErrorKind::NotFound,
        message: "there is none".to_owned(),
    }
}

impl Verification {
    fn count_files(&mut self, storage: &dyn Storage) -> Result<Vec<Name>> {
        let mut names = Vec::new();
        for file in storage.list().map_err(failed("listing", &storage.place()))? {
            let Some(name) = Name::parse(&file).filter(|name| *name != Name::Lock) else { continue };
            match storage.open_read(&file).and_then(|open| open.size()) {
                Ok(bytes) => self.bytes += bytes,
                Err(error) => self.damages.push(failed("opening", &file)(error)),
            }
            self.files += 1;
            names.push(name);
        }
        Ok(names)
    }

    /// Everything that an intact manifest names.
    fn verify_named(&mut self, storage: &dyn Storage, manifest: &Manifest) -> Result<()> {
        self.needs_recovery = !manifest.was_closed;
        match read_secret(storage) {
            Ok(Some(secret))
                if Hasher::new(manifest.hash, secret.clone()).check_value() != manifest.check_value =>
            {
                let (stored, given) = ("another one".to_owned(), "the one in its file".to_owned());
                self.damages.push(Error::Mismatch { name: "secret", stored, given });
            }
            // Without a file its owner keeps the secret.
            Ok(_) => {}
            Err(error) => self.damages.push(error),
        }
        for named in &manifest.generations {
            self.verify_generation(storage, named, manifest.store_id);
        }
        let extent = Extent { store_id: manifest.store_id, from: manifest.log_floor, cuts: &manifest.cuts };
        if manifest.was_closed && wal::segments(storage)?.into_iter().all(|number| number < extent.from) {
            return Ok(());
        }
        match wal::recover(storage, extent, &mut |_| {}, &mut |_, _| {}, &mut |_, _| {}) {
            Ok(recovered) => {
                self.log_records = recovered.records;
                self.frames_discarded = recovered.discarded_frames;
            }
            Err(error) => {
                self.damages.push(error);
                self.search_log(storage, extent)?;
            }
        }
        Ok(())
    }

    /// Everything that looks like a part of a store whose manifest is lost.
    fn verify_unnamed(&mut self, storage: &dyn Storage, names: &[Name]) {
        if let Err(error) = read_secret(storage) {
            self.damages.push(error);
        }
        for name in names {
            match *name {
                Name::Generation(id) => match read_label(storage, id) {
                    Ok(label) => self.verify_generation(storage, &label.sealed, label.store_id),
                    Err(error) => self.damages.push(error),
                },
                Name::Segment(number) => {
                    let outcome = wal::read_store_id(storage, number).and_then(|store_id| {
                        // A cut behind its end leaves out all later segments.
                        let only = [wal::Cut { segment: number, offset: u64::MAX, resumes_at: u64::MAX }];
                        self.search_log(storage, Extent { store_id, from: number, cuts: &only })
                    });
                    if let Err(error) = outcome {
                        self.damages.push(error);
                    }
                }
                _ => {}
            }
        }
    }

    fn verify_generation(&mut self, storage: &dyn Storage, named: &Sealed, store_id: u64) {
        let generation = Generation::open(storage, named, store_id, Access::Pread);
        match generation.and_then(|generation| generation.verify()) {
            Ok(ids) => self.generations.push((generation_name(named.id), ids)),
            Err(error) => {
                let mut found = lost_lines(storage, named, store_id);
                // Else it is not in the lines.
                if found.is_empty()
                    || !matches!(&error, Error::Corrupt { offset, .. } if is_in_lines(*offset, named))
                {
                    found.insert(0, error);
                }
                self.damages.append(&mut found);
            }
        }
    }

    /// All damaged places of a log, in which recovery stops at the first.
    fn search_log(&mut self, storage: &dyn Storage, extent: Extent<'_>) -> Result<()> {
        let salvaged = wal::salvage(storage, extent, &mut |_| {}, &mut |_, _| {})?;
        self.log_records += salvaged.records;
        for damage in salvaged.damages {
            if !self.damages.contains(&damage) {
                self.damages.push(damage);
            }
        }
        Ok(())
    }
}

/// All damaged lines of a generation, whose verification stops at the first.
fn lost_lines(storage: &dyn Storage, named: &Sealed, store_id: u64) -> Vec<Error> {
    let Ok(mut survivors) = Survivors::open(storage, named, store_id) else { return Vec::new() };
    survivors.by_ref().for_each(drop);
    survivors.damages().to_vec()
}

/// Whether an offset is one of a line.
fn is_in_lines(offset: u64, named: &Sealed) -> bool {
    let before = crate::limits::GENERATION_HEADER_BYTES;
    (before..before.saturating_add(named.lines.saturating_mul(crate::limits::LINE_BYTES))).contains(&offset)
}

/// Whether there is a store: a manifest, intact or not, or files that only a store has.
pub(crate) fn exists(storage: &dyn Storage) -> Result<bool> {
    let files = storage.list().map_err(failed("listing", &storage.place()))?;
    let belongs = |file: &String| {
        file == MANIFEST || matches!(Name::parse(file), Some(Name::Segment(_) | Name::Generation(_)))
    };
    Ok(files.iter().any(belongs))
}
