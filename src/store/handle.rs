//! A caller's hold on a store, and what happens when the last one lets go.
//!
//! The maintenance thread holds the engine too while it works, so the engine may outlive the last handle by
//! one step of maintenance. Whoever drops that handle waits for it: then the directory is free to be opened
//! again.

use std::ops::Deref;
use std::time::Duration;

use crate::sync::{Arc, Weak, pause};

use super::engine::Engine;

/// How long the last handle waits for a step of maintenance: it never waits for ever for a disk that hangs.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// A counted hold on an engine.
#[derive(Clone, Debug)]
pub(crate) struct Handle {
    // Dropped before the engine: see `Ending`.
    _ending: Arc<Ending>,
    engine: Arc<Engine>,
}

/// Dropped with the last handle.
#[derive(Debug)]
struct Ending(Weak<Engine>);

impl Handle {
    pub(crate) fn new(engine: Arc<Engine>) -> Handle {
        Handle { _ending: Arc::new(Ending(Arc::downgrade(&engine))), engine }
    }
}

impl Deref for Handle {
    type Target = Engine;

    #[inline]
    fn deref(&self) -> &Engine {
        &self.engine
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        if let Some(engine) = self.0.upgrade() {
            engine.finish(WAIT_MAX, pause);
        }
    }
}
