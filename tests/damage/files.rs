//! The files of a store, to be damaged by hand.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A directory of one test, removed at the end; not made before a store is.
pub(crate) struct Dir {
    name: String,
    path: PathBuf,
}

impl Dir {
    pub(crate) fn new(name: &str) -> Dir {
        let path = std::env::temp_dir().join(format!("firstseen-damage-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Dir { name: name.to_owned(), path }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// All files and their bytes, but the lock, in which its holder's number stands.
    pub(crate) fn contents(&self) -> BTreeMap<String, Vec<u8>> {
        let names = fs::read_dir(&self.path).unwrap().map(|entry| entry.unwrap().file_name());
        let names = names.map(|name| name.into_string().unwrap()).filter(|name| name != "LOCK");
        names.map(|name| (name.clone(), self.read(&name))).collect()
    }

    pub(crate) fn read(&self, file: &str) -> Vec<u8> {
        fs::read(self.path.join(file)).unwrap()
    }

    pub(crate) fn write(&self, file: &str, bytes: &[u8]) {
        fs::write(self.path.join(file), bytes).unwrap();
    }

    pub(crate) fn remove(&self, file: &str) {
        fs::remove_file(self.path.join(file)).unwrap();
    }

    pub(crate) fn flip(&self, file: &str, offset: u64) {
        let mut bytes = self.read(file);
        bytes[usize::try_from(offset).unwrap()] ^= 0x10;
        self.write(file, &bytes);
    }

    pub(crate) fn cut(&self, file: &str, bytes: u64) {
        fs::OpenOptions::new().write(true).open(self.path.join(file)).unwrap().set_len(bytes).unwrap();
    }

    pub(crate) fn copy(&self, name: &str) -> Dir {
        let copy = Dir::new(name);
        fs::create_dir(&copy.path).unwrap();
        for (file, bytes) in self.contents() {
            copy.write(&file, &bytes);
        }
        copy
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

fn named(dir: &Dir, prefix: &str) -> Vec<String> {
    dir.contents().into_keys().filter(|name| name.starts_with(prefix)).collect()
}

/// The sealed files, oldest first.
pub(crate) fn generations(dir: &Dir) -> Vec<String> {
    named(dir, "generation-")
}

/// The segments of the log, oldest first.
pub(crate) fn logs(dir: &Dir) -> Vec<String> {
    named(dir, "log-")
}

/// Where frames of a log begin.
pub(crate) fn frames(bytes: &[u8]) -> Vec<u64> {
    let words = bytes.chunks(8).enumerate();
    words.filter(|(_, word)| *word == b"fs-frame").map(|(index, _)| index as u64 * 8).collect()
}

/// Numbers without a pattern.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((u128::from(self.0 >> 16) * u128::from(bound)) >> 48) as u64
    }
}
