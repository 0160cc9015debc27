//! Stores that earlier versions have written open, and answer as they did then.
//!
//! `tests/golden/store-1` was made by the first version that writes files, and its owner was killed: it has a
//! sealed generation, a log that is to be read, a cursor and a forgotten ID. To make the files of a later
//! format, run this with `FIRSTSEEN_GOLDEN` set to a directory that does not exist.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use firstseen::{Durability, Maintenance, Options, Progress, Store};

/// IDs in the generation, and IDs in the log alone.
const SEALED: std::ops::Range<u32> = 0..60;
const LOGGED: std::ops::Range<u32> = 60..90;
const FORGOTTEN: u32 = 7;

fn options() -> Options {
    Options::new()
        .maintenance(Maintenance::Manual)
        .durability(Durability::Sync)
        .first_table_lines(64)
        .log_segment_bytes(8 << 10)
}

fn check(store: &Store, ids: std::ops::Range<u32>) -> usize {
    ids.filter(|id| store.check(id.to_le_bytes()).expect("it answers").is_first_seen()).count()
}

fn settle(store: &Store) {
    while store.maintain().expect("maintenance goes on") == Progress::Worked {}
}

/// Writes the files of this version.
fn write(dir: &Path) {
    let store = Store::open_with(dir, options()).expect("a new store");
    assert_eq!(check(&store, SEALED), SEALED.len());
    store.close().expect("it can be closed");
    let store = Store::open_with(dir, options()).expect("it opens");
    assert_eq!(check(&store, LOGGED), LOGGED.len());
    assert!(store.forget(FORGOTTEN.to_le_bytes()).expect("it answers"));
    let batch = store.claim_batch(&["orders"], Duration::from_secs(60)).expect("it answers");
    assert_eq!(batch.commit_with(&[("orders/3", 4_711)]).expect("it is held"), 1);
    settle(&store);
}

fn copy(from: &Path) -> PathBuf {
    let to = std::env::temp_dir().join(format!("firstseen-golden-{}", std::process::id()));
    let _ = fs::remove_dir_all(&to);
    fs::create_dir(&to).expect("a directory");
    fs::set_permissions(&to, fs::Permissions::from_mode(0o700)).expect("its mode");
    for file in fs::read_dir(from).expect("the golden files").map(|file| file.expect("a file").path()) {
        let name = file.file_name().expect("it has a name");
        fs::copy(&file, to.join(name)).expect("it can be copied");
        fs::set_permissions(to.join(name), fs::Permissions::from_mode(0o600)).expect("its mode");
    }
    to
}

#[test]
fn store_of_the_first_format_answers_as_it_did() {
    if let Some(dir) = std::env::var_os("FIRSTSEEN_GOLDEN") {
        write(Path::new(&dir));
    }
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/store-1");
    let dir = copy(&golden);
    assert!(Store::needs_recovery(&dir).expect("a store"));
    assert!(Store::verify(&dir).expect("a store").damages.is_empty());
    for _ in 0..2 {
        let store = Store::open_with(&dir, options()).expect("it opens");
        assert!(store.stats().generations > 0);
        for id in (SEALED.start..LOGGED.end).filter(|id| *id != FORGOTTEN) {
            assert!(store.contains(id.to_le_bytes()).expect("it answers"), "{id}");
        }
        assert!(!store.contains(FORGOTTEN.to_le_bytes()).expect("it answers"));
        assert!(store.contains("orders").expect("it answers"));
        assert!(!store.contains("never").expect("it answers"));
        assert_eq!(store.cursor("orders/3"), Some(4_711));
        store.close().expect("it can be closed");
    }
    fs::remove_dir_all(&dir).expect("it is ours");
}
