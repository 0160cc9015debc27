//! Directories for tests, removed at the end.

use std::path::{Path, PathBuf};

/// A new, empty directory.
#[derive(Debug)]
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// The name tells tests of one process apart.
    pub(crate) fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("firstseen-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).expect("tests have a place for files");
        Scratch(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A test that fails is told by what it asserts, not by what it leaves behind.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
