//! When the log is written and synced where callers do not wait for it (G2).
//!
//! The maintenance thread may be at long work, such as finishing a generation on a slow disk, for longer
//! than a store may wait with its log. So this has threads of its own: one that syncs, and where answers
//! leave before their facts are written another one that writes, which never waits for a sync. Half of the
//! time that may be lost passes between two rounds; the other half is there for the round itself.
//!
//! A store that is stepped by hand has no threads: a step syncs when it is time, and a call writes.

use std::time::Duration;

use crate::error::{Error, Result};
use crate::options::{Durability, Options};
use crate::sync::{Arc, Worker};
use crate::wal::Log;

use super::core::Core;
use super::durable::Durable;
use super::engine::Engine;
use super::replay::TIME_CURSOR;

impl Core {
    /// Syncs the log if anything was reserved in it since that was last done, and, where steps are counted
    /// by hand, only after as long as was asked for; whether it did.
    pub(crate) fn sync_log_if_due(&self, is_time: impl FnOnce(Duration) -> bool) -> Result<bool> {
        let Some(durable) = &self.durable else { return Ok(false) };
        let Some(log) = durable.log() else { return Ok(false) };
        let mut synced = durable.synced.lock();
        let now = self.pace.now();
        let is_due = is_time(now.saturating_since(synced.at)) && log.position() != synced.position;
        if !is_due || durable.fault().is_some() {
            return Ok(false);
        }
        synced.at = now;
        self.note_time(durable, log)?;
        synced.position = log.position();
        durable.sync_and_mark_log()?;
        Ok(true)
    }

    /// So that time goes on from here should the wall clock be set back before the next opening.
    fn note_time(&self, durable: &Durable, log: &Log) -> Result<()> {
        if self.span.is_forever() {
            return Ok(());
        }
        let time_ms = self.now().as_millis();
        log.append_cursors(&[], &[(TIME_CURSOR, time_ms)]).map(drop).map_err(|error| durable.poison(error))
    }
}

impl Engine {
    /// Starts the threads that sync and write the log; they end when the store is gone or closed.
    pub(crate) fn spawn_pacers(self: &Arc<Self>, options: &Options) -> Result<Vec<Worker>> {
        if self.durable.as_ref().is_none_or(|durable| durable.log().is_none()) {
            return Ok(Vec::new());
        }
        let mut pacers = vec![self.spawn_pacer("firstseen-sync", |engine, _| {
            // What fails is kept and told.
            let _ = engine.sync_log_if_due(|_| true);
        })?];
        if matches!(options.durability, Durability::Deferred(_)) {
            pacers.push(self.spawn_pacer("firstseen-write", |_, durable| {
                // As above.
                let _ = durable.drain_log();
            })?);
        }
        Ok(pacers)
    }

    fn spawn_pacer(
        self: &Arc<Self>,
        name: &str,
        round: impl Fn(&Engine, &Durable) + Send + 'static,
    ) -> Result<Worker> {
        let (weak, interval) = (Arc::downgrade(self), self.pace_interval);
        let worker = Worker::spawn(name, move || {
            let engine = weak.upgrade()?;
            let durable = engine.durable.as_ref().filter(|durable| !durable.is_given_up())?;
            if engine.is_ending() {
                return None;
            }
            let _watch = durable.watch("syncing in the background");
            round(&engine, durable);
            durable.deliver_events();
            Some(interval)
        });
        worker.map_err(|error| Error::System {
            operation: "starting a thread for the log",
            message: error.to_string(),
        })
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::clock::{ManualClock, Timestamp};
    use crate::event::Event;
    use crate::options::Maintenance;
    use crate::storage::sim::{Crash, SimDisk};
    use crate::store::Store;

    /// Far longer than any interval here.
    const PATIENCE: Duration = Duration::from_secs(60);

    fn open(disk: &SimDisk, options: &Options) -> Store {
        Store::open_on(Arc::new(disk.clone()), options.clone()).unwrap()
    }

    /// Whether an ID is there after `end` soon enough, while the maintenance is at something long.
    fn is_kept(options: &Options, end: impl Fn(&SimDisk) -> SimDisk) -> bool {
        let disk = SimDisk::new(0);
        let store = open(&disk, options);
        let _long_step = store.engine.lock_structure();
        assert!(store.check("a").unwrap().is_first_seen());
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            let later = open(&end(&disk), &options.clone().maintenance(Maintenance::Manual));
            if later.contains("a").unwrap() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        false
    }

    /// Only the maintenance thread wrote the log. While it made a segment or synced a generation, which may
    /// take seconds, a kill took more than what the store was allowed to lose.
    #[test]
    fn deferred_fact_is_written_while_maintenance_is_at_long_work() {
        let options = Options::new().durability(Durability::Deferred(Duration::from_millis(20)));
        assert!(is_kept(&options, SimDisk::kill));
    }

    /// The same for what a power cut may take.
    #[test]
    fn buffered_and_deferred_facts_are_synced_while_maintenance_is_at_long_work() {
        let time = Duration::from_millis(20);
        let buffered = Options::new().sync_every(time);
        let deferred = Options::new().durability(Durability::Deferred(time));
        for options in [buffered, deferred] {
            assert!(is_kept(&options, |disk| disk.crash(Crash::LoseAll)));
        }
    }

    /// Callers were told only when they needed room, after an observer had panicked in the thread that makes
    /// it.
    #[test]
    fn store_whose_observer_panics_in_the_maintenance_refuses() {
        let options = Options::new().observer(|_| {
            let thread = std::thread::current();
            assert!(
                thread.name() != Some("firstseen-maintenance"),
                "an observer that fails, as this test wants"
            );
        });
        let store = open(&SimDisk::new(0), &options);
        let (durable, begun) = (store.engine.durable.as_ref().unwrap(), Instant::now());
        while !store.engine.worker.get().unwrap().is_finished() {
            assert!(begun.elapsed() < PATIENCE);
            // Again and again: others may be the ones to tell it.
            durable.events.note(Event::ClockBehind { behind_ms: 1 });
            store.engine.worker.get().unwrap().wake();
            std::thread::sleep(Duration::from_millis(1));
        }
        let refused = store.check("a");
        assert!(matches!(refused, Err(Error::Poisoned { operation: "maintenance" })), "{refused:?}");
    }

    /// Nobody synced any more after an observer had panicked in the thread that does so, and nobody was told.
    #[test]
    fn store_whose_observer_panics_syncs_or_refuses() {
        let disk = SimDisk::new(0);
        let time = Duration::from_millis(20);
        for durability in [Durability::Buffered, Durability::Deferred(time)] {
            let options = Options::new().durability(durability).sync_every(time);
            let options = options.observer(|_| {
                let thread = std::thread::current();
                let is_ours = thread.name().is_some_and(|name| name.starts_with("firstseen-"));
                assert!(!is_ours, "an observer that fails, as this test wants");
            });
            let store = open(&disk, &options);
            // The maintenance thread tells nothing meanwhile.
            let long_step = store.engine.lock_structure();
            let durable = store.engine.durable.as_ref().unwrap();
            let begun = Instant::now();
            while store.engine.pacers.get().unwrap().iter().all(|pacer| !pacer.is_finished()) {
                assert!(begun.elapsed() < PATIENCE);
                // Again and again: the first may be told by the maintenance thread, on its way to the lock.
                durable.events.note(Event::ClockBehind { behind_ms: 1 });
                std::thread::sleep(Duration::from_millis(1));
            }
            let refused = store.check("a");
            assert!(matches!(refused, Err(Error::Poisoned { .. })), "{durability:?}: {refused:?}");
            drop(long_step);
        }
    }

    /// Without threads calls write, as soon as half of what may be lost has passed.
    #[test]
    fn deferred_fact_in_a_store_without_threads_is_written_by_a_later_call() {
        let clock = ManualClock::new(Timestamp::from_millis(1_000_000));
        let options = Options::new()
            .durability(Durability::Deferred(Duration::from_secs(1)))
            .clock(clock.clock())
            .maintenance(Maintenance::Manual);
        let disk = SimDisk::new(0);
        let store = open(&disk, &options);
        let is_there = |id| open(&disk.kill(), &options).contains(id).unwrap();
        assert!(store.check("a").unwrap().is_first_seen());
        clock.advance(Duration::from_millis(499));
        assert!(store.check("b").unwrap().is_first_seen());
        assert!(!is_there("b"), "every call writes");
        clock.advance(Duration::from_millis(1));
        assert!(store.check("a").unwrap().is_duplicate());
        assert!(is_there("a") && is_there("b"));
    }
}
