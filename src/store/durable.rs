//! What a store with a directory has beside its tables: the log, the manifest, and the right to write.
//!
//! The first write, sync, rename or removal that fails poisons the store (G6): it is told to the observer,
//! kept, and answered to every later call that would write. Only opening the store anew, which reads what
//! is really on the disk, gets it going again.

use std::collections::BTreeMap;
use std::fmt;

use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::event::{Event, Observer};
use crate::generation::Access;
use crate::manifest::{Manifest, read_secret, write_secret};
use crate::options::Durability;
use crate::storage::names::{LOCK, Name, generation_name};
use crate::storage::{ForkGuard, Storage, copy_file, failed};
use crate::sync::{Arc, Counter, Mutex, OnceLock};
use crate::wal::{self, Log};

use super::cursors::Cursors;

/// The state on disk of an open store.
#[derive(Debug)]
pub(crate) struct Durable {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) durability: Durability,
    pub(crate) access: Access,
    pub(crate) observer: Observer,
    log: Option<Log>,
    manifest: Mutex<Manifest>,
    generation_next: Counter,
    guard: ForkGuard,
    fault: OnceLock<Error>,
    closed: Counter,
    /// Whether the directory was given up, also by a store that was poisoned before.
    given_up: Counter,
    /// Taken when the store is closed.
    lock: Mutex<Option<Box<dyn fmt::Debug + Send + Sync>>>,
    log_next: u64,
}

/// What [`Durable::new`] is made from.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) lock: Box<dyn fmt::Debug + Send + Sync>,
    pub(crate) manifest: Manifest,
    pub(crate) log: Option<Log>,
    /// The number that the next segment of the log would have when there is no log.
    pub(crate) log_next: u64,
    pub(crate) durability: Durability,
    pub(crate) access: Access,
    pub(crate) observer: Observer,
}

impl Durable {
    pub(crate) fn new(opened: Opened) -> Result<Durable> {
        Ok(Durable {
            storage: opened.storage,
            durability: opened.durability,
            access: opened.access,
            observer: opened.observer,
            log: opened.log,
            generation_next: Counter::starting_at(opened.manifest.generation_next),
            manifest: Mutex::new(opened.manifest),
            guard: ForkGuard::new(),
            fault: OnceLock::new(),
            closed: Counter::default(),
            given_up: Counter::default(),
            lock: Mutex::new(Some(opened.lock)),
            log_next: opened.log_next,
        })
    }

    /// The log; `None` where there is to be none.
    #[inline]
    pub(crate) fn log(&self) -> Option<&Log> {
        self.log.as_ref()
    }

    /// Whether new facts are refused because the store is being closed.
    ///
    /// Whoever loads a view that was published after [`Durable::refuse_facts`] is told so (P3).
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.get() != 0
    }

    /// Refuses new facts from now on; true for the first who does so.
    pub(crate) fn refuse_facts(&self) -> bool {
        self.closed.add(1) == 1
    }

    /// Whether this is a child that was forked after the store was opened: it must leave the files alone.
    pub(crate) fn is_forked(&self) -> bool {
        self.guard.is_child()
    }

    /// Refuses calls from a forked child and calls to a store that was closed or poisoned.
    #[inline]
    pub(crate) fn admit(&self) -> Result<()> {
        if self.guard.is_child() {
            return Err(Error::Forked);
        }
        if self.is_closed() {
            return Err(Error::Closed);
        }
        match self.fault.get() {
            None => Ok(()),
            Some(fault) => Err(poisoned_by(fault)),
        }
    }

    /// Waits until everything that was reserved in the log is as durable as the store promises.
    #[inline]
    pub(crate) fn acknowledge(&self) -> Result<()> {
        let Some(log) = &self.log else { return Ok(()) };
        let position = log.position();
        let outcome = match self.durability {
            Durability::None => Ok(()),
            Durability::Deferred(_) => log.fault().map_or(Ok(()), Err),
            Durability::Buffered => log.write_until(position),
            Durability::Sync => log.sync_until(position),
        };
        outcome.map_err(|error| self.poison(error))
    }

    /// Writes out what waits in the log's queue.
    pub(crate) fn drain_log(&self) -> Result<()> {
        let Some(log) = &self.log else { return Ok(()) };
        if let Some(fault) = log.fault() {
            return Err(self.poison(poisoned_by(&fault)));
        }
        log.write_until(log.position()).map_err(|error| self.poison(error))
    }

    /// Syncs what was reserved in the log so far.
    pub(crate) fn sync_log(&self) -> Result<()> {
        let Some(log) = &self.log else { return Ok(()) };
        log.sync_until(log.position()).map_err(|error| self.poison(error))
    }

    /// Keeps the first failure, tells the observer of it, and returns what the caller is to be told.
    #[cold]
    pub(crate) fn poison(&self, cause: Error) -> Error {
        if self.is_given_up() {
            // The log refuses what comes after a close; nothing has failed.
            return Error::Closed;
        }
        if self.fault.set(cause.clone()).is_ok() && !matches!(cause, Error::Poisoned { .. }) {
            self.observer.tell(&Event::Poisoned { cause: cause.clone() });
        }
        cause
    }

    /// Whether the directory is, or may be, somebody else's: the store was closed.
    pub(crate) fn is_given_up(&self) -> bool {
        self.given_up.get() != 0
    }

    /// The failure that has poisoned the store, if one has.
    pub(crate) fn fault(&self) -> Option<&Error> {
        self.fault.get()
    }

    /// Replaces the manifest by a changed one, with the cursors and the time as they are.
    ///
    /// What is in the log is synced before, so a cursor in the manifest never survives the facts that it was
    /// committed with. Without a log they are named only by who has seen to their facts first.
    pub(crate) fn replace_manifest(
        &self,
        now: Timestamp,
        cursors: &Cursors,
        change: impl FnOnce(&mut Manifest),
    ) -> Result<()> {
        let mut manifest = self.manifest.lock();
        if let Some(fault) = self.fault.get() {
            return Err(poisoned_by(fault));
        }
        let cursors = cursors.all();
        self.sync_log()?;
        let mut changed = manifest.clone();
        changed.time_ms = changed.time_ms.max(now.as_millis());
        if self.log.is_some() {
            changed.cursors = named(cursors);
        }
        changed.generation_next = self.generation_next.get();
        change(&mut changed);
        let log_floor = changed.log_floor;
        changed.cuts.retain(|cut| cut.segment >= log_floor);
        self.write(|storage| changed.write(storage))?;
        *manifest = changed;
        Ok(())
    }

    /// A number for a new generation, which no other has had or will have.
    pub(crate) fn generation_number(&self) -> u64 {
        self.generation_next.add(1) - 1
    }

    /// Whether opening the store now would read a log.
    pub(crate) fn has_log_to_read(&self) -> bool {
        !self.manifest.lock().was_closed
    }

    /// The first segment of the log that opening the store now would read.
    pub(crate) fn log_floor(&self) -> u64 {
        self.manifest.lock().log_floor
    }

    /// The store's number.
    pub(crate) fn store_id(&self) -> u64 {
        self.manifest.lock().store_id
    }

    /// The log segment that is being written; without a log, the one that a later run would begin with.
    pub(crate) fn log_segment(&self) -> u64 {
        self.log.as_ref().map_or(self.log_next, Log::segment)
    }

    /// Removes the log segments below one that the manifest names as its floor. A failure poisons nothing:
    /// what is there too long harms nobody, and the next opening removes it.
    pub(crate) fn remove_log_below(&self, segment: u64) -> Result<()> {
        match &self.log {
            Some(log) => log.remove_below(segment).map(drop),
            None => wal::remove_segments_below(&*self.storage, segment).map(drop),
        }
    }

    /// Removes a file that the manifest does not name any more; a failure as in
    /// [`Durable::remove_log_below`].
    pub(crate) fn remove(&self, file: &str) -> Result<()> {
        self.storage.remove(file).map_err(failed("removing", file))
    }

    /// A number that no segment of the log has, with all that exist below it.
    pub(crate) fn log_end(&self) -> Result<u64> {
        let files = self.storage.list().map_err(failed("listing", "the directory"))?;
        let numbers = files.iter().filter_map(|file| match Name::parse(file) {
            Some(Name::Segment(segment)) => Some(segment.saturating_add(1)),
            _ => None,
        });
        Ok(numbers.max().unwrap_or(0).max(self.log_segment()))
    }

    /// Lets another process open the store; nothing is written from here on. No maintenance may be under way.
    pub(crate) fn give_up_lock(&self) {
        let _ = self.fault.set(Error::Closed);
        self.given_up.set(1);
        if let Some(log) = &self.log {
            log.give_up();
        }
        let _manifest = self.manifest.lock();
        drop(self.lock.lock().take());
    }

    /// Writes the manifest, the secret and all generations into another, empty directory.
    pub(crate) fn copy_sealed(&self, target: &dyn Storage, cursors: BTreeMap<String, u64>) -> Result<()> {
        let mut manifest = self.manifest.lock().clone();
        let files = target.list().map_err(failed("listing", "the directory"))?;
        if let Some(file) = files.iter().find(|file| *file != LOCK) {
            let reason = format!("the directory is not empty, it has {file}");
            return Err(Error::Option { name: "snapshot", reason });
        }
        for named in &manifest.generations {
            copy_file(&*self.storage, target, &generation_name(named.id))?;
        }
        if let Some(secret) = read_secret(&*self.storage)? {
            write_secret(target, &secret)?;
        }
        manifest.cursors = named(cursors);
        manifest.log_floor = self.log_segment() + 1;
        manifest.cuts.clear();
        manifest.was_closed = true;
        manifest.write(target)
    }

    /// Runs something that writes to the directory; its failure poisons the store.
    pub(crate) fn write<T>(&self, write: impl FnOnce(&dyn Storage) -> Result<T>) -> Result<T> {
        if self.is_forked() {
            return Err(Error::Forked);
        }
        if let Some(fault) = self.fault.get() {
            return Err(poisoned_by(fault));
        }
        write(&*self.storage).map_err(|error| self.poison(error))
    }
}

/// Cursors as the manifest names them.
pub(crate) fn named(cursors: BTreeMap<String, u64>) -> BTreeMap<Vec<u8>, u64> {
    cursors.into_iter().map(|(name, value)| (name.into_bytes(), value)).collect()
}

/// What later calls are told after a failure.
#[cold]
fn poisoned_by(fault: &Error) -> Error {
    match fault {
        Error::Closed => Error::Closed,
        Error::Io { operation, .. } | Error::System { operation, .. } | Error::Poisoned { operation } => {
            Error::Poisoned { operation }
        }
        _ => Error::Poisoned { operation: "maintenance" },
    }
}
