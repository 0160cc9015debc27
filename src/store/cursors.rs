//! Named numbers that are committed together with IDs: how far a consumer has come.

use std::collections::BTreeMap;

use crate::error::{Error, Result};
use crate::limits::{CURSOR_NAME_BYTES_MAX, CURSORS_MAX};
use crate::sync::Mutex;

/// The latest value of each name.
#[derive(Debug, Default)]
pub(crate) struct Cursors(Mutex<BTreeMap<String, u64>>);

impl Cursors {
    pub(crate) fn new(cursors: BTreeMap<String, u64>) -> Cursors {
        Cursors(Mutex::new(cursors))
    }

    pub(crate) fn get(&self, name: &str) -> Option<u64> {
        self.0.lock().get(name).copied()
    }

    /// Sets several at once.
    pub(crate) fn set(&self, cursors: &[(&str, u64)]) {
        if !cursors.is_empty() {
            self.0.lock().extend(cursors.iter().map(|(name, value)| ((*name).to_owned(), *value)));
        }
    }

    /// All of them, for the manifest.
    pub(crate) fn all(&self) -> BTreeMap<String, u64> {
        self.0.lock().clone()
    }

    /// Refuses names and numbers of names that no store keeps.
    ///
    /// # Errors
    ///
    /// [`Error::Cursor`].
    pub(crate) fn validate(&self, cursors: &[(&str, u64)]) -> Result<()> {
        let refused = |name: &str, reason| Err(Error::Cursor { name: name.to_owned(), reason });
        for (name, _) in cursors {
            if name.is_empty() || name.len() > CURSOR_NAME_BYTES_MAX {
                return refused(name, format!("a name has 1 to {CURSOR_NAME_BYTES_MAX} bytes"));
            }
        }
        let held = self.0.lock();
        let new = cursors.iter().filter(|(name, _)| !held.contains_key(*name)).count();
        match cursors.last() {
            Some((name, _)) if held.len() + new > CURSORS_MAX => {
                refused(name, format!("a store keeps at most {CURSORS_MAX} cursors"))
            }
            _ => Ok(()),
        }
    }
}
