//! Named numbers that are committed together with IDs: how far a consumer has come.

use std::collections::BTreeMap;

use crate::error::{Error, Result};
use crate::limits::{CURSOR_NAME_BYTES_MAX, CURSORS_MAX};
use crate::sync::Mutex;

/// The latest value of each name, in the order of the log: that is the order in which they are read back.
#[derive(Debug, Default)]
pub(crate) struct Cursors(Mutex<BTreeMap<String, Cursor>>);

#[derive(Clone, Copy, Debug)]
struct Cursor {
    value: u64,
    /// Where this run has logged it; zero when it did not.
    position: u64,
}

impl Cursors {
    pub(crate) fn new(cursors: BTreeMap<String, u64>) -> Cursors {
        let named = cursors.into_iter().map(|(name, value)| (name, Cursor { value, position: 0 }));
        Cursors(Mutex::new(named.collect()))
    }

    pub(crate) fn get(&self, name: &str) -> Option<u64> {
        self.0.lock().get(name).map(|cursor| cursor.value)
    }

    /// Sets several at once that were logged at `position`, but those that somebody has logged further on;
    /// without a log all of them.
    pub(crate) fn set(&self, cursors: &[(&str, u64)], position: u64) {
        if cursors.is_empty() {
            return;
        }
        let mut held = self.0.lock();
        for (name, value) in cursors {
            let is_later = held.get(*name).is_none_or(|cursor| cursor.position <= position);
            if is_later {
                held.insert((*name).to_owned(), Cursor { value: *value, position });
            }
        }
    }

    /// Those that nobody has logged further on than at `position`.
    pub(crate) fn logged_last<'c>(&self, cursors: &[(&'c str, u64)], position: u64) -> Vec<(&'c str, u64)> {
        let held = self.0.lock();
        let is_last = |name: &str| held.get(name).is_some_and(|cursor| cursor.position == position);
        cursors.iter().copied().filter(|(name, _)| is_last(name)).collect()
    }

    /// All of them, for the manifest.
    pub(crate) fn all(&self) -> BTreeMap<String, u64> {
        self.0.lock().iter().map(|(name, cursor)| (name.clone(), cursor.value)).collect()
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

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn cursor_logged_later_stays_whoever_sets_last() {
        let cursors = Cursors::new(BTreeMap::from([("a".to_owned(), 1)]));
        cursors.set(&[("a", 5), ("b", 5)], 5);
        cursors.set(&[("a", 4), ("c", 4)], 4);
        assert_eq!(["a", "b", "c"].map(|name| cursors.get(name)), [Some(5), Some(5), Some(4)]);
        assert_eq!(cursors.logged_last(&[("a", 4), ("c", 4)], 4), [("c", 4)]);
        cursors.set(&[("a", 7)], 6);
        assert_eq!(cursors.all()["a"], 7);
    }

    #[test]
    fn cursors_without_a_log_are_those_set_last() {
        let cursors = Cursors::default();
        cursors.set(&[("a", 5)], 0);
        cursors.set(&[("a", 4)], 0);
        assert_eq!(cursors.get("a"), Some(4));
    }
}
