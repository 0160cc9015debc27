//! A store at work: the loop that every call runs in, and the thread that maintains the tables.
//!
//! A call takes the present view, tries, and is told to retry when the view has moved on under it. Waiting
//! (for room, or for a grace period) happens in [`Engine::make_room`] only, after the view and every lock
//! were let go: whoever waits while it holds a view would hold up the very grace period that it waits for.

use std::ops::Deref;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::limits::FROZEN_ROTATE_MAX;
use crate::options::{Maintenance, Options};
use crate::storage::Storage;
use crate::sync::{Arc, Counter, Mutex, MutexGuard, OnceLock, Worker, pause};
use crate::window::Moment;

use super::core::{Core, Recorded};
use super::durable::Durable;
use super::fact::Retry;
use super::maintain::{Progress, Structure};
use super::view::View;

/// What all handles of one store share.
#[derive(Debug)]
pub(crate) struct Engine {
    core: Core,
    structure: Mutex<Structure>,
    maintenance: Maintenance,
    /// The threads that write and sync the log.
    pub(super) pacers: OnceLock<Vec<Worker>>,
    /// Raised when nobody holds the store any more.
    ending: Counter,
}

/// What keeps a call from going on under the view that it had.
#[derive(Debug)]
pub(crate) enum Obstacle {
    /// It can't go on at all.
    Failure(Error),
    /// The log's queue is full.
    FullLog,
    /// The view with this number must give way to another.
    View(u64, Retry),
}

impl Obstacle {
    #[cold]
    pub(crate) fn new(view: &View, retry: Retry) -> Obstacle {
        match retry {
            Retry::Unreadable => Obstacle::Failure(view.damage()),
            Retry::Closed => Obstacle::Failure(Error::Closed),
            Retry::Unlogged => Obstacle::FullLog,
            retry => Obstacle::View(view.number, retry),
        }
    }
}

impl Deref for Engine {
    type Target = Core;

    #[inline]
    fn deref(&self) -> &Core {
        &self.core
    }
}

impl Engine {
    /// Creates a store in memory, and its maintenance thread if it is to have one.
    pub(crate) fn new(options: &Options) -> Result<Arc<Engine>> {
        Engine::start(Core::new(options)?, options)
    }

    /// Opens a store in a directory.
    pub(crate) fn open(storage: Arc<dyn Storage>, options: &Options) -> Result<Arc<Engine>> {
        Engine::start(Core::open(storage, options)?, options)
    }

    fn start(core: Core, options: &Options) -> Result<Arc<Engine>> {
        let engine = Arc::new(Engine {
            core,
            structure: Mutex::new(Structure::default()),
            maintenance: options.maintenance,
            pacers: OnceLock::new(),
            ending: Counter::default(),
        });
        if options.maintenance == Maintenance::Thread {
            engine.spawn_worker()?;
            let _ = engine.pacers.set(engine.spawn_pacers(options)?);
        }
        Ok(engine)
    }

    /// One step of maintenance.
    pub(crate) fn maintain(&self) -> Result<Progress> {
        if self.durable.as_ref().is_some_and(Durable::is_forked) {
            return Err(Error::Forked);
        }
        let outcome = self.change_structure(|structure| structure.step(&self.core));
        self.deliver_events();
        outcome
    }

    /// Runs a step that changes the structure; one that ends by a panic, half done, poisons the store (G6).
    fn change_structure<T>(&self, step: impl FnOnce(&mut Structure) -> T) -> T {
        let mut structure = self.structure.lock();
        // Dropped before the lock: whoever gets it next finds the store poisoned.
        let _watch = self.durable.as_ref().map(|durable| durable.watch("maintenance"));
        step(&mut structure)
    }

    /// Tells the observer of what has happened; no lock may be held.
    pub(crate) fn deliver_events(&self) {
        if let Some(durable) = &self.durable {
            durable.deliver_events();
        }
    }

    /// Whether nobody holds the store any more.
    pub(crate) fn is_ending(&self) -> bool {
        self.ending.get() != 0
    }

    /// The maintenance thread, unless whoever waits for it would wait for himself or for ever: then he does
    /// its work.
    pub(crate) fn other_worker(&self) -> Option<&Worker> {
        self.worker.get().filter(|worker| !worker.is_current() && !worker.is_finished())
    }

    /// Keeps the structure of the store as it is.
    pub(crate) fn lock_structure(&self) -> MutexGuard<'_, Structure> {
        self.structure.lock()
    }

    /// Runs `attempt` under the present view until it need not be tried again.
    ///
    /// `Retry::Pending` goes to `pending`, which runs without a view held.
    #[inline]
    pub(crate) fn run<T>(
        &self,
        moment: Moment,
        mut attempt: impl FnMut(&View, &mut Recorded<'_>) -> Result<T, Retry>,
        mut pending: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        loop {
            let view = self.views.load();
            let mut recorded = self.recorded();
            let outcome = attempt(&view, &mut recorded);
            self.settle(&view, moment, &recorded);
            drop(recorded);
            match outcome {
                Ok(answer) => return Ok(answer),
                Err(Retry::Moved) => {}
                Err(Retry::Pending) => {
                    drop(view);
                    return pending();
                }
                Err(retry) => {
                    let obstacle = Obstacle::new(&view, retry);
                    drop(view);
                    self.overcome(obstacle)?;
                }
            }
        }
    }

    /// Sees to it that a call can go on, or says why it can't. No view or lock may be held.
    #[cold]
    pub(crate) fn overcome(&self, obstacle: Obstacle) -> Result<()> {
        match obstacle {
            Obstacle::Failure(error) => Err(error),
            Obstacle::FullLog => self.durable.as_ref().map_or(Ok(()), Durable::drain_log),
            Obstacle::View(number, retry) => self.make_room(number, retry),
        }
    }

    /// Waits until the view with this number is no longer the present one. No view or lock may be held.
    ///
    /// # Errors
    ///
    /// [`Error::Full`] when the memory budget allows no other table, [`Error::Uneven`] when there are too
    /// many, [`Error::Poisoned`] when the maintenance thread is gone, [`Error::RevisionsUsedUp`] when no
    /// later table could state the version either.
    fn make_room(&self, view_number: u64, retry: Retry) -> Result<()> {
        if retry == Retry::Outdated && self.span.is_forever() {
            return Err(Error::RevisionsUsedUp);
        }
        for round in 0.. {
            let view = self.views.load();
            if view.number != view_number {
                return Ok(());
            }
            if self.full_at.get() == view_number + 1 {
                if view.older.len() >= FROZEN_ROTATE_MAX {
                    return Err(Error::Uneven { tables: view.tables().count() });
                }
                let memory_bytes = self.memory_bytes(&view);
                return Err(Error::Full { budget_bytes: self.memory_budget, memory_bytes });
            }
            drop(view);
            self.admit()?;
            if round == 0 {
                self.counters.stalls.add(1);
            }
            self.want_rotation(view_number);
            self.wait_for_room()?;
            pause(round);
        }
        Ok(())
    }

    /// What somebody who waits for room does meanwhile.
    fn wait_for_room(&self) -> Result<()> {
        if self.maintenance == Maintenance::Thread {
            match self.worker.get() {
                Some(worker) if worker.is_finished() => {
                    return Err(Error::Poisoned { operation: "maintenance" });
                }
                // An observer that uses the store.
                Some(worker) if worker.is_current() => {}
                _ => return Ok(()),
            }
        }
        let outcome = self.change_structure(|structure| structure.rotate_if_due(&self.core));
        self.deliver_events();
        outcome
    }

    /// Starts the maintenance thread. It ends when the store is gone.
    fn spawn_worker(self: &Arc<Self>) -> Result<()> {
        let weak = Arc::downgrade(self);
        let longest =
            if self.span.is_forever() { Duration::from_secs(1) } else { Duration::from_millis(100) };
        let idle = if self.durable.is_some() { longest.min(self.pace_interval) } else { longest };
        let worker = Worker::spawn("firstseen-maintenance", move || {
            let engine = weak.upgrade()?;
            if engine.is_ending() {
                return None;
            }
            let _watch = engine.durable.as_ref().map(|durable| durable.watch("maintenance"));
            match engine.maintain() {
                Ok(Progress::Worked) => Some(Duration::ZERO),
                Ok(Progress::Waiting) => Some(Duration::from_micros(100)),
                Ok(Progress::Idle) => Some(idle),
                // Memory was refused: it is tried again, and callers who need it are told.
                Err(_) => Some(Duration::from_millis(1)),
            }
        });
        let failed = |error: std::io::Error| Error::System {
            operation: "starting the maintenance thread",
            message: error.to_string(),
        };
        let _ = self.worker.set(worker.map_err(failed)?);
        Ok(())
    }
}

/// The end, once nobody holds the store any more.
impl Engine {
    /// Ends the threads of the store; where files are at stake also waits for them, at most `wait_max`.
    pub(crate) fn finish(&self, wait_max: Duration, pause: impl Fn(u32)) {
        self.ending.set(1);
        let workers = || self.worker.get().into_iter().chain(self.pacers.get().into_iter().flatten());
        workers().for_each(Worker::wake);
        // In a forked child there is no such thread.
        if self.durable.as_ref().is_none_or(Durable::is_forked) {
            return;
        }
        let begun = self.pace.now();
        for round in 0.. {
            let is_left = workers().any(|worker| !worker.is_current() && !worker.is_finished());
            if !is_left || self.pace.now().saturating_since(begun) > wait_max {
                return;
            }
            pause(round);
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.end();
    }
}
