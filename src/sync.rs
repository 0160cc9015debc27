//! The one place that names atomics, locks and threads, so that `cfg(loom)` can replace them.
//!
//! Under `cfg(loom)` every type here is the model checker's, but for statistics, which decide nothing.

#[cfg(loom)]
pub(crate) use loom_side::*;
#[cfg(not(loom))]
pub(crate) use std_side::*;

use crossbeam_utils::CachePadded;
use std::sync::atomic::{AtomicU64 as StdAtomicU64, AtomicUsize as StdAtomicUsize, Ordering as StdOrdering};

use crate::limits::STRIPES;

/// A count for statistics and sizing: nothing is published through it.
#[derive(Debug, Default)]
pub(crate) struct Counter(StdAtomicU64);

impl Counter {
    /// A count that begins with `value`.
    pub(crate) fn starting_at(value: u64) -> Counter {
        Counter(StdAtomicU64::new(value))
    }

    /// Adds and returns the new value.
    #[inline]
    pub(crate) fn add(&self, amount: u64) -> u64 {
        // Relaxed: a count is read for sizing and statistics only, no other memory hangs on it.
        self.0.fetch_add(amount, StdOrdering::Relaxed).wrapping_add(amount)
    }

    /// Takes away.
    pub(crate) fn sub(&self, amount: u64) {
        // Relaxed: see `add`.
        self.0.fetch_sub(amount, StdOrdering::Relaxed);
    }

    /// Raises to at least `value`; writes nothing when it is that high already.
    #[inline]
    pub(crate) fn raise(&self, value: u64) {
        // Relaxed: see `add`; a stale low value costs one more fetch_max.
        if self.0.load(StdOrdering::Relaxed) < value {
            // Relaxed: see `add`.
            self.0.fetch_max(value, StdOrdering::Relaxed);
        }
    }

    /// Lowers to at most `value`.
    pub(crate) fn lower(&self, value: u64) {
        // Relaxed: see `add`.
        self.0.fetch_min(value, StdOrdering::Relaxed);
    }

    /// Overwrites.
    pub(crate) fn set(&self, value: u64) {
        // Relaxed: see `add`.
        self.0.store(value, StdOrdering::Relaxed);
    }

    /// The present value.
    #[inline]
    pub(crate) fn get(&self) -> u64 {
        // Relaxed: see `add`.
        self.0.load(StdOrdering::Relaxed)
    }
}

/// One [`Counter`] for every group of threads, each on cache lines of its own.
#[derive(Debug, Default)]
pub(crate) struct Striped<T>([CachePadded<T>; STRIPES]);

impl<T> Striped<T> {
    /// The calling thread's stripe.
    #[inline]
    pub(crate) fn mine(&self) -> &T {
        &self.0[thread_number() % STRIPES]
    }

    /// All stripes.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|padded| &**padded)
    }
}

/// A small number for the calling thread, handed out in the order of first use.
#[inline]
fn thread_number() -> usize {
    static NEXT: StdAtomicUsize = StdAtomicUsize::new(0);
    thread_local! {
        static NUMBER: usize = {
            // Relaxed: only the uniqueness of the number matters.
            NEXT.fetch_add(1, StdOrdering::Relaxed)
        };
    }
    NUMBER.try_with(|number| *number).unwrap_or(0)
}

/// Whether a planted fault is to be shown: the models must fail with each of them.
///
/// Only under `cfg(mutants)`, where the environment variable `FIRSTSEEN_MUTANT` names one; elsewhere it is
/// always false and costs nothing.
#[inline(always)]
pub(crate) fn is_mutant(name: &str) -> bool {
    #[cfg(mutants)]
    {
        static CHOSEN: OnceLock<Option<String>> = OnceLock::new();
        CHOSEN.get_or_init(|| std::env::var("FIRSTSEEN_MUTANT").ok()).as_deref() == Some(name)
    }
    #[cfg(not(mutants))]
    {
        let _ = name;
        false
    }
}

/// std, parking_lot and arc-swap.
#[cfg(not(loom))]
mod std_side {
    use std::time::Duration;

    pub(crate) use parking_lot::{Mutex, MutexGuard};
    pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
    pub(crate) use std::sync::{Arc, OnceLock, Weak};

    /// Whether the calling thread is unwinding.
    pub(crate) fn is_panicking() -> bool {
        std::thread::panicking()
    }

    /// A place to sleep until others say that something has changed.
    #[derive(Debug)]
    pub(crate) struct Condvar(parking_lot::Condvar);

    impl Condvar {
        pub(crate) fn new() -> Condvar {
            Condvar(parking_lot::Condvar::new())
        }

        /// Lets go of the lock, sleeps, and takes it again; may return for no reason.
        pub(crate) fn wait<'m, T>(&self, mut guard: MutexGuard<'m, T>) -> MutexGuard<'m, T> {
            self.0.wait(&mut guard);
            guard
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
    }

    /// A pointer to an immutable value that is replaced as a whole.
    #[derive(Debug)]
    pub(crate) struct Published<T>(arc_swap::ArcSwap<T>);

    /// What a caller holds while it works on a published value.
    pub(crate) type Held<T> = arc_swap::Guard<Arc<T>>;

    impl<T> Published<T> {
        pub(crate) fn new(value: T) -> Self {
            Published(arc_swap::ArcSwap::from_pointee(value))
        }

        /// The present value; about 10 ns, no counter is shared between cores.
        #[inline]
        pub(crate) fn load(&self) -> Held<T> {
            self.0.load()
        }

        /// Publishes `value`; callers that begin after this returns see it or a later one.
        pub(crate) fn replace(&self, value: T) -> Retired<T> {
            Retired(self.0.swap(Arc::new(value)))
        }
    }

    /// A value that was replaced and may still be held by calls that began before.
    #[derive(Debug)]
    pub(crate) struct Retired<T>(Arc<T>);

    impl<T> Retired<T> {
        pub(crate) fn get(&self) -> &T {
            &self.0
        }

        /// Whether no call holds it any more; what those calls wrote is visible then.
        pub(crate) fn is_released(&mut self) -> bool {
            // The swap has turned every reader's claim into a counted one, so the count is exact, and
            // `get_mut` reads it with Acquire against the Release of the last drop. A guard that was given
            // back before the swap is covered as well: arc-swap pays debts with at least Acquire when it
            // finds them paid (its versions 1.9).
            Arc::get_mut(&mut self.0).is_some()
        }
    }

    /// The thread that keeps a store in shape: it runs a function again and again until told to stop.
    #[derive(Debug)]
    pub(crate) struct Worker {
        thread: std::thread::Thread,
        handle: std::thread::JoinHandle<()>,
    }

    impl Worker {
        /// Starts a thread that calls `step` until it answers `None`, sleeping as long as it says in between.
        pub(crate) fn spawn(
            name: &str,
            mut step: impl FnMut() -> Option<Duration> + Send + 'static,
        ) -> std::io::Result<Worker> {
            let handle = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
                while let Some(pause) = step() {
                    if !pause.is_zero() {
                        std::thread::park_timeout(pause);
                    }
                }
            })?;
            Ok(Worker { thread: handle.thread().clone(), handle })
        }

        /// Ends a pause.
        pub(crate) fn wake(&self) {
            self.thread.unpark();
        }

        /// Whether the thread is gone.
        pub(crate) fn is_finished(&self) -> bool {
            self.handle.is_finished()
        }

        /// Whether the caller is that thread.
        pub(crate) fn is_current(&self) -> bool {
            self.thread.id() == std::thread::current().id()
        }
    }

    /// Does `work` of number 0 and of number 1, at the same time if there is a thread to be had.
    pub(crate) fn both(work: impl Fn(u64) + Sync) {
        std::thread::scope(|scope| {
            let other = std::thread::Builder::new().spawn_scoped(scope, || work(1));
            work(0);
            if other.is_err() {
                work(1);
            }
        });
    }

    /// Lets other threads run: a yield for the first rounds of a wait, then short sleeps.
    pub(crate) fn pause(round: u32) {
        if round < 64 {
            std::thread::yield_now();
        } else {
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    /// Stops the calling thread for a time.
    pub(crate) fn sleep(time: Duration) {
        std::thread::sleep(time);
    }
}

/// The model checker's types with the same faces.
#[cfg(loom)]
mod loom_side {
    use std::time::Duration;

    pub(crate) use loom::sync::MutexGuard;
    pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
    pub(crate) use std::sync::{Arc, OnceLock, Weak};

    /// loom's mutex without poisoning.
    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Mutex(loom::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().expect("a model that panics ends there")
        }
    }

    pub(crate) fn is_panicking() -> bool {
        std::thread::panicking()
    }

    #[derive(Debug)]
    pub(crate) struct Condvar(loom::sync::Condvar);

    impl Condvar {
        pub(crate) fn new() -> Condvar {
            Condvar(loom::sync::Condvar::new())
        }

        pub(crate) fn wait<'m, T>(&self, guard: MutexGuard<'m, T>) -> MutexGuard<'m, T> {
            self.0.wait(guard).expect("a model that panics ends there")
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
    }

    /// A counted pointer behind a lock: what arc-swap promises, in the plainest form.
    #[derive(Debug)]
    pub(crate) struct Published<T>(Mutex<loom::sync::Arc<T>>);

    pub(crate) type Held<T> = loom::sync::Arc<T>;

    impl<T> Published<T> {
        pub(crate) fn new(value: T) -> Self {
            Published(Mutex::new(loom::sync::Arc::new(value)))
        }

        pub(crate) fn load(&self) -> Held<T> {
            self.0.lock().clone()
        }

        pub(crate) fn replace(&self, value: T) -> Retired<T> {
            Retired(std::mem::replace(&mut *self.0.lock(), loom::sync::Arc::new(value)))
        }
    }

    #[derive(Debug)]
    pub(crate) struct Retired<T>(loom::sync::Arc<T>);

    impl<T> Retired<T> {
        pub(crate) fn get(&self) -> &T {
            &self.0
        }

        pub(crate) fn is_released(&mut self) -> bool {
            loom::sync::Arc::get_mut(&mut self.0).is_some()
        }
    }

    /// Models step maintenance by hand.
    #[derive(Debug)]
    pub(crate) struct Worker;

    impl Worker {
        pub(crate) fn spawn(
            _name: &str,
            _step: impl FnMut() -> Option<Duration> + Send + 'static,
        ) -> std::io::Result<Worker> {
            Err(std::io::Error::other("models step maintenance by hand"))
        }

        pub(crate) fn wake(&self) {}

        pub(crate) fn is_finished(&self) -> bool {
            true
        }

        pub(crate) fn is_current(&self) -> bool {
            false
        }
    }

    pub(crate) fn both(work: impl Fn(u64)) {
        (0..2).for_each(work);
    }

    pub(crate) fn pause(_round: u32) {
        loom::thread::yield_now();
    }

    pub(crate) fn sleep(_time: Duration) {
        loom::thread::yield_now();
    }
}
