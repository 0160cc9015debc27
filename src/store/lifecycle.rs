//! The end of a store, and moments on the way at which all of it is on disk.

use std::collections::BTreeMap;

use crate::error::{Error, Result};
use crate::options::{Durability, Maintenance};
use crate::storage::Storage;
use crate::sync::{Arc, pause};
use crate::table::Table;
use crate::wal::remove_segments_below;

use super::durable::{Durable, named};
use super::engine::Engine;

impl Engine {
    /// Makes everything that was answered so far last through a power cut.
    pub(crate) fn persist(&self) -> Result<()> {
        self.admit()?;
        match &self.durable {
            None => Ok(()),
            Some(durable) if durable.durability == Durability::None => {
                let cursors = self.cursors.all();
                self.seal_all(durable)?;
                durable.replace_manifest(self.now(), &self.cursors, |manifest| {
                    manifest.cursors = named(cursors);
                })
            }
            Some(durable) => durable.sync_log(),
        }
    }

    /// Seals everything and says in the manifest that the store was closed; then gives up the directory.
    pub(crate) fn close(&self) -> Result<()> {
        let Some(durable) = &self.durable else { return Ok(()) };
        if durable.is_forked() {
            return Err(Error::Forked);
        }
        if !durable.refuse_facts() {
            return Err(Error::Closed);
        }
        // Taken before their facts are sealed: a cursor is never ahead of its batch.
        let cursors = self.cursors.all();
        let outcome = self.seal_all(durable).and_then(|()| self.end_log(durable, cursors));
        // A step of maintenance that is under way ends first; later ones find nothing to do.
        let _structure = self.lock_structure();
        durable.give_up_lock();
        outcome
    }

    /// Says in the manifest that the log is not needed any more, and removes it.
    fn end_log(&self, durable: &Durable, cursors: BTreeMap<String, u64>) -> Result<()> {
        let log_end = durable.log_end()?;
        durable.replace_manifest(self.now(), &self.cursors, |manifest| {
            manifest.cursors = named(cursors);
            manifest.log_floor = log_end;
            manifest.was_closed = true;
        })?;
        // What can't be removed is removed by the next opening.
        let _ = remove_segments_below(&*durable.storage, log_end);
        Ok(())
    }

    /// Writes a copy of the store, as it is now or later, into an empty directory.
    pub(crate) fn snapshot(&self, target: &dyn Storage) -> Result<()> {
        self.admit()?;
        let Some(durable) = &self.durable else {
            let reason = "a store in memory has no files to copy".to_owned();
            return Err(Error::Option { name: "snapshot", reason });
        };
        let cursors = self.cursors.all();
        self.seal_all(durable)?;
        // While the structure is locked no file is sealed or removed.
        let _structure = self.lock_structure();
        durable.copy_sealed(target, cursors)
    }

    /// What is left to do when nobody holds the store any more: the log is synced; bounded, and whatever
    /// fails is told to the observer.
    pub(crate) fn end(&self) {
        if let Some(durable) = &self.durable
            && !durable.is_closed()
            && !durable.is_forked()
        {
            // The failure is kept and told by `poison`; there is nobody left to return it to.
            let _ = durable.sync_log();
        }
    }

    /// Rotates the active table away and waits until it, and all older ones, are in files.
    ///
    /// Each of them counts: one in which everything is over goes at once, while an older one still waits.
    fn seal_all(&self, durable: &Durable) -> Result<()> {
        let view = self.views.load();
        let tables: Vec<Arc<Table>> = view.unsealed().cloned().collect();
        drop(view);
        for round in 0.. {
            if let Some(fault) = durable.fault() {
                return Err(fault.clone());
            }
            let view = self.views.load();
            let is_left = |table: &Arc<Table>| tables.iter().any(|other| Arc::ptr_eq(other, table));
            if !view.unsealed().any(is_left) {
                return Ok(());
            }
            if self.full_at.get() == view.number + 1 {
                let memory_bytes = self.memory_bytes(&view);
                return Err(Error::Full { budget_bytes: self.memory_budget, memory_bytes });
            }
            if is_left(&view.active) {
                self.want_rotation(view.number);
            }
            drop(view);
            match (self.maintenance(), self.worker.get()) {
                (Maintenance::Thread, Some(worker)) if !worker.is_finished() => {
                    worker.wake();
                    pause(round);
                }
                _ => {
                    if self.maintain()? != super::maintain::Progress::Worked {
                        pause(round);
                    }
                }
            }
        }
        Ok(())
    }
}
