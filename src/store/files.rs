//! The part of a [`Store`]'s interface that concerns its directory.

use std::path::Path;

#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::options::Options;
use crate::storage::Disk;
#[cfg(any(test, feature = "testing"))]
use crate::storage::Storage;
use crate::sync::Arc;

use super::engine::Engine;
use super::handle::Handle;
use super::{Store, open};

impl Store {
    /// Opens the store in a directory with default options; it is created if it is not there.
    ///
    /// # Errors
    ///
    /// As [`Store::open_with`].
    pub fn open(dir: impl AsRef<Path>) -> Result<Store> {
        Store::open_with(dir, Options::new())
    }

    /// Opens the store in a directory, or creates it there with these options.
    ///
    /// Hash and window are fixed when the store is created: those that are not given are the store's own.
    /// One process has a store open at a time (G9); inside it all threads share clones of one handle.
    ///
    /// After a kill the log is read back first, at ten million records a second or more; the observer
    /// ([`Options::observer`]) is told of it.
    ///
    /// # Errors
    ///
    /// [`Error::Locked`] when the store is open elsewhere; [`Error::Mismatch`] when it was created with
    /// another hash, secret or kind of window; [`Error::Format`] when a later version has written it;
    /// [`Error::Corrupt`] when a file is damaged (nothing was changed: see [`Store::salvage`]);
    /// [`Error::Option`], [`Error::Io`], [`Error::System`].
    #[expect(clippy::needless_pass_by_value, reason = "a builder is given away when it is done")]
    pub fn open_with(dir: impl AsRef<Path>, options: Options) -> Result<Store> {
        let disk = Disk::open(dir.as_ref(), true)?;
        Ok(Store { engine: Handle::new(Engine::open(Arc::new(disk), &options)?) })
    }

    /// Opens a store on another storage than the disk: a simulated one.
    ///
    /// # Errors
    ///
    /// As [`Store::open_with`].
    #[cfg(any(test, feature = "testing"))]
    #[expect(clippy::needless_pass_by_value, reason = "a builder is given away when it is done")]
    pub fn open_on(storage: Arc<dyn Storage>, options: Options) -> Result<Store> {
        Ok(Store { engine: Handle::new(Engine::open(storage, &options)?) })
    }

    /// Whether the last process that had a store open has not closed it, so that opening it reads its log.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when there is no such directory; [`Error::Corrupt`], [`Error::Format`].
    pub fn needs_recovery(dir: impl AsRef<Path>) -> Result<bool> {
        open::needs_recovery(&Disk::open(dir.as_ref(), false)?)
    }

    /// The value of a named cursor, as the last
    /// [`ClaimBatch::commit_with`](crate::ClaimBatch::commit_with) has set it.
    #[must_use]
    pub fn cursor(&self, name: &str) -> Option<u64> {
        self.engine.cursors.get(name)
    }

    /// Makes everything that was answered so far last through a power cut. Nothing to do in memory.
    ///
    /// # Errors
    ///
    /// [`Error::Io`], after which the store is poisoned.
    ///
    /// # Complexity
    ///
    /// One sync of the log; with [`Durability::None`](crate::Durability::None) everything in memory is
    /// written to a file.
    pub fn persist(&self) -> Result<()> {
        self.engine.persist()
    }

    /// Writes everything to files and closes the store for all its handles: opening it again takes
    /// milliseconds.
    ///
    /// A store that is dropped without this syncs its log only, and reads it back when it is opened again.
    /// Waits until calls that are under way have ended.
    ///
    /// # Errors
    ///
    /// [`Error::Io`]: what was answered is still in the log, as far as the store's durability promises.
    /// [`Error::Closed`] when another handle has closed it.
    pub fn close(self) -> Result<()> {
        self.engine.close()
    }

    /// Writes a copy of the store, as it is when this is called or later, into an empty or new directory.
    /// The store stays in use meanwhile.
    ///
    /// # Errors
    ///
    /// [`Error::Option`] for a store in memory, or a directory that is not empty; [`Error::Io`].
    pub fn snapshot(&self, dir: impl AsRef<Path>) -> Result<()> {
        self.engine.snapshot(&Disk::open(dir.as_ref(), true)?)
    }
}
