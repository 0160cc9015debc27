//! A place on disk for the stores of a bench.

use std::path::PathBuf;

/// A directory that goes with it: below `FIRSTSEEN_BENCH_DIR`, or the system's temporary directory.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    /// The directory is not there yet.
    pub(crate) fn new(name: &str) -> Scratch {
        let base = std::env::var_os("FIRSTSEEN_BENCH_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
        let path = base.join(format!("firstseen-bench-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
