//! What a store with a directory has beside its tables: the log, the manifest, and the right to write.
//!
//! The first write, sync, rename or removal that fails poisons the store (G6): it is told to the observer,
//! kept, and answered to every later call that would write. Only opening the store anew, which reads what
//! is really on the disk, gets it going again.
//!
//! # Synchronising pairs
//!
//! - P15 Closing: `closed` is set under the lock of the structure, under which every view is published; so
//!   whoever loads a view that was published after that (P3) finds it set. Without the lock a fact could be
//!   stated in a table that closing does not wait for, and be gone.

use std::collections::BTreeMap;
use std::fmt;

use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::event::{Event, Observer, Outbox};
use crate::generation::Access;
use crate::manifest::{Manifest, read_secret, write_secret};
use crate::options::Durability;
use crate::storage::names::{LOCK, Name, generation_name};
use crate::storage::{ForkGuard, Storage, copy_file, failed};
use crate::sync::{Arc, AtomicU32, Counter, Mutex, MutexGuard, OnceLock, Ordering, is_panicking};
use crate::wal::{self, Log};

use super::cursors::Cursors;
use super::pace::{Synced, WritingCallers};

/// The state on disk of an open store.
#[derive(Debug)]
pub(crate) struct Durable {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) durability: Durability,
    pub(crate) access: Access,
    /// Who is told of what happens, when no lock is held any more.
    pub(crate) events: Outbox,
    /// What was synced in the background, and when.
    pub(crate) synced: Mutex<Synced>,
    writing_callers: Option<WritingCallers>,
    log: Option<Log>,
    manifest: Mutex<Manifest>,
    generation_next: Counter,
    guard: ForkGuard,
    fault: OnceLock<Error>,
    closed: AtomicU32,
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
    pub(crate) writing_callers: Option<WritingCallers>,
}

impl Durable {
    pub(crate) fn new(opened: Opened) -> Result<Durable> {
        Ok(Durable {
            storage: opened.storage,
            durability: opened.durability,
            access: opened.access,
            events: Outbox::new(opened.observer),
            synced: Mutex::new(Synced::default()),
            writing_callers: opened.writing_callers,
            log: opened.log,
            generation_next: Counter::starting_at(opened.manifest.generation_next),
            manifest: Mutex::new(opened.manifest),
            guard: ForkGuard::new(),
            fault: OnceLock::new(),
            closed: AtomicU32::new(0),
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
    /// Whoever asks under a view that was published after [`Durable::refuse_facts`] is told so.
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        // Relaxed: the view that the caller has loaded brings it (P15), or the lock of the cursors that were
        // set before; who asks without either is only told early.
        self.closed.load(Ordering::Relaxed) != 0
    }

    /// Refuses new facts from now on; true for the first who does so.
    pub(crate) fn refuse_facts<S>(&self, _structure: &MutexGuard<'_, S>) -> bool {
        // Relaxed: published with the next view, under the lock that is held here (P15).
        self.closed.swap(1, Ordering::Relaxed) == 0
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
            Durability::Deferred(_) if self.writing_callers.as_ref().is_some_and(WritingCallers::is_due) => {
                log.write_until(position)
            }
            Durability::Deferred(_) => log.fault().map_or(Ok(()), Err),
            Durability::Buffered => log.write_until(position),
            Durability::Sync => log.sync_until(position),
        };
        outcome.map_err(|error| self.poison_unlocked(error))
    }

    /// Writes out what waits in the log's queue; no lock may be held.
    pub(crate) fn drain_log(&self) -> Result<()> {
        let Some(log) = &self.log else { return Ok(()) };
        if let Some(fault) = log.fault() {
            return Err(self.poison_unlocked(poisoned_by(&fault)));
        }
        log.write_until(log.position()).map_err(|error| self.poison_unlocked(error))
    }

    /// Syncs what was reserved in the log so far.
    pub(crate) fn sync_log(&self) -> Result<()> {
        let Some(log) = &self.log else { return Ok(()) };
        log.sync_until(log.position()).map_err(|error| self.poison(error))
    }

    /// The same, and says so in the log: damage to what was synced is not taken for a torn tail then.
    pub(crate) fn sync_and_mark_log(&self) -> Result<()> {
        self.sync_log()?;
        let Some(log) = &self.log else { return Ok(()) };
        log.mark().map(drop).map_err(|error| self.poison(error))
    }

    /// Keeps the first failure, notes it for the observer, and returns what the caller is to be told.
    #[cold]
    pub(crate) fn poison(&self, cause: Error) -> Error {
        if self.is_given_up() {
            // The log refuses what comes after a close; nothing has failed.
            return Error::Closed;
        }
        if self.fault.set(cause.clone()).is_ok() && !matches!(cause, Error::Poisoned { .. }) {
            self.events.note(Event::Poisoned { cause: cause.clone() });
        }
        cause
    }

    /// The same for a caller that holds no lock: the observer is told at once.
    #[cold]
    pub(crate) fn poison_unlocked(&self, cause: Error) -> Error {
        let told = self.poison(cause);
        self.deliver_events();
        told
    }

    /// Poisons the store when the calling thread, which it needs, ends by a panic before this is dropped.
    pub(crate) fn watch(&self, operation: &'static str) -> Watch<'_> {
        Watch { durable: self, operation }
    }

    /// Tells the observer of what has happened. No lock may be held: it may use the store.
    pub(crate) fn deliver_events(&self) {
        self.events.deliver();
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

    /// Runs something that writes to the directory; its failure, or a panic in it, poisons the store.
    pub(crate) fn write<T>(&self, write: impl FnOnce(&dyn Storage) -> Result<T>) -> Result<T> {
        if self.is_forked() {
            return Err(Error::Forked);
        }
        if let Some(fault) = self.fault.get() {
            return Err(poisoned_by(fault));
        }
        let _watch = self.watch("writing the directory");
        write(&*self.storage).map_err(|error| self.poison(error))
    }
}

/// Cursors as the manifest names them.
pub(crate) fn named(cursors: BTreeMap<String, u64>) -> BTreeMap<Vec<u8>, u64> {
    cursors.into_iter().map(|(name, value)| (name.into_bytes(), value)).collect()
}

/// Poisons the store when a thread that it needs ends by a panic: an observer's, as a rule.
#[derive(Debug)]
pub(crate) struct Watch<'d> {
    durable: &'d Durable,
    operation: &'static str,
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if is_panicking() {
            self.durable.poison(Error::Poisoned { operation: self.operation });
        }
    }
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
