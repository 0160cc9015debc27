//! The end of a store, and moments on the way at which all of it is on disk.

use std::collections::BTreeMap;

use crate::error::{Error, Result};
use crate::options::Durability;
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
                let named_them = self.seal_all(durable, &self.unsealed()).and_then(|()| {
                    durable.replace_manifest(self.now(), &self.cursors, |manifest| {
                        manifest.cursors = named(cursors);
                    })
                });
                durable.deliver_events();
                named_them
            }
            Some(durable) => {
                let synced = durable.sync_log();
                durable.deliver_events();
                synced
            }
        }
    }

    /// Seals everything and says in the manifest that the store was closed; then gives up the directory.
    pub(crate) fn close(&self) -> Result<()> {
        let Some(durable) = &self.durable else { return Ok(()) };
        if durable.is_forked() {
            return Err(Error::Forked);
        }
        let tables = {
            let structure = self.lock_structure();
            if !durable.refuse_facts(&structure) {
                return Err(Error::Closed);
            }
            // No fact is stated in a later one (P15).
            self.unsealed()
        };
        // Taken before their facts are sealed: a cursor is never ahead of its batch.
        let cursors = self.cursors.all();
        let sealed = self.seal_all(durable, &tables);
        let outcome = {
            // What is under way in the background ends first; later steps find nothing to do.
            let _structure = self.lock_structure();
            let _synced = durable.synced.lock();
            let outcome = sealed.and_then(|()| self.end_log(durable, cursors));
            durable.give_up_lock();
            outcome
        };
        durable.deliver_events();
        outcome
    }

    /// The tables that are in no file.
    fn unsealed(&self) -> Vec<Arc<Table>> {
        self.views.load().unsealed().cloned().collect()
    }

    /// Says in the manifest that the log is not needed any more, and removes it.
    fn end_log(&self, durable: &Durable, cursors: BTreeMap<String, u64>) -> Result<()> {
        let log_end = durable.log_end()?;
        // Whoever was granted a lease has stated it in a table that is sealed by now.
        let attempt_floor = self.leases.attempts().saturating_add(1);
        durable.replace_manifest(self.now(), &self.cursors, |manifest| {
            manifest.cursors = named(cursors);
            manifest.log_floor = log_end;
            manifest.attempt_floor = attempt_floor;
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
        self.seal_all(durable, &self.unsealed())?;
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
            let _ = durable.sync_and_mark_log();
            durable.deliver_events();
        }
    }

    /// Waits until all of some tables are in files; if the active one is among them it is rotated away.
    ///
    /// Each of them counts: one in which everything is over goes at once, while an older one still waits.
    fn seal_all(&self, durable: &Durable, tables: &[Arc<Table>]) -> Result<()> {
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
            match self.other_worker() {
                Some(worker) => {
                    worker.wake();
                    pause(round);
                }
                None => {
                    if self.maintain()? != super::maintain::Progress::Worked {
                        pause(round);
                    }
                }
            }
        }
        Ok(())
    }
}
