//! What tests of files share: directories that are removed at the end, seeds, and numbers.

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

/// The seeds of a random test: the first `count`, or the one that `FIRSTSEEN_SEED` names.
pub(crate) fn seeds(count: u64) -> std::ops::Range<u64> {
    match std::env::var("FIRSTSEEN_SEED").map(|text| text.parse::<u64>()) {
        Ok(seed) => {
            let seed = seed.expect("FIRSTSEEN_SEED is a number");
            seed..seed + 1
        }
        Err(_) => 0..count,
    }
}
