//! The calls on a store that nobody has open: whether there is one, what is damaged, and what can be saved.

use std::path::Path;

use crate::error::{Error, Result};
use crate::options::Options;
use crate::storage::Disk;

use super::Store;
use super::outcome::Salvage;
use super::salvage::salvage;
use super::verify::{Verification, exists, verify};

impl Store {
    /// Whether there is a store in a directory, sound or not. False also when there is no such directory.
    ///
    /// # Errors
    ///
    /// [`Error::Io`].
    pub fn exists(dir: impl AsRef<Path>) -> Result<bool> {
        match Disk::open(dir.as_ref(), false) {
            Err(Error::Io { kind: std::io::ErrorKind::NotFound, .. }) => Ok(false),
            disk => exists(&disk?),
        }
    }

    /// Reads everything of a store that nobody has open, and says what is damaged. Nothing is changed.
    ///
    /// # Errors
    ///
    /// [`Error::Locked`], [`Error::Format`]; [`Error::Io`] when there is no store. Damage is no error of this
    /// call, it is what [`Verification::damages`] lists.
    ///
    /// # Complexity
    ///
    /// Reads each byte once or twice; memory for the filter of one generation.
    pub fn verify(dir: impl AsRef<Path>) -> Result<Verification> {
        verify(&Disk::open(dir.as_ref(), false)?)
    }

    /// Makes a new store in the empty or new directory `into` of everything that still reads of a damaged
    /// one: every line of a sealed file and every frame of the log whose checksum holds. The damaged store is
    /// not touched.
    ///
    /// # Errors
    ///
    /// As [`Store::salvage_with`].
    pub fn salvage(dir: impl AsRef<Path>, into: impl AsRef<Path>) -> Result<Salvage> {
        Store::salvage_with(dir, into, Options::new())
    }

    /// The same with what the damaged store can't tell: its secret, if that is kept elsewhere or its file is
    /// damaged; its hash and window, if the manifest is.
    ///
    /// When the manifest is damaged all files of the store that are there are read, be they needed or not. An
    /// ID that was forgotten may be seen again then, and so may one in a frame of the log that was lost.
    ///
    /// # Errors
    ///
    /// [`Error::Option`] names what has to be given, or says that `into` is not empty;
    /// [`Error::Mismatch`] and [`Error::Corrupt`] when there is no secret, or a wrong one: no fingerprint
    /// would be right. [`Error::Locked`], [`Error::Format`], [`Error::Io`].
    #[expect(clippy::needless_pass_by_value, reason = "options are given away, as when a store is opened")]
    pub fn salvage_with(dir: impl AsRef<Path>, into: impl AsRef<Path>, options: Options) -> Result<Salvage> {
        let source = Disk::open(dir.as_ref(), false)?;
        salvage(&source, &Disk::open(into.as_ref(), true)?, &options)
    }
}
