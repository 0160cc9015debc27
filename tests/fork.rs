//! A child that was forked while a store was open must leave its files alone.
//!
//! A binary with one thread: a child has only the thread that forked it, and whatever another one held stays
//! held in it.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on stops, with the place")]

fn main() {
    if std::env::args().any(|argument| argument == "--list") {
        return;
    }
    #[cfg(all(unix, not(miri)))]
    unix::child_is_refused_and_the_parent_goes_on();
    println!("test child_of_an_open_store_is_refused_and_the_parent_goes_on ... ok");
}

#[cfg(all(unix, not(miri)))]
mod unix {
    use std::time::Duration;

    use firstseen::{Claim, Error, Maintenance, Options, Result, Store, Verdict};

    const LEASE: Duration = Duration::from_secs(60);

    pub(crate) fn child_is_refused_and_the_parent_goes_on() {
        let dir = std::env::temp_dir().join(format!("firstseen-fork-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        let store = Store::open_with(&dir, Options::new().maintenance(Maintenance::Manual)).unwrap();
        assert_eq!(store.check("a").unwrap(), Verdict::FirstSeen);
        let lease = match store.claim("b", LEASE).unwrap() {
            Claim::Leased(lease) => lease,
            claim => panic!("{claim:?}"),
        };
        let before = contents(&dir);
        match fork::fork().unwrap() {
            fork::Fork::Child => {
                let refused = refusals(store, lease, &dir);
                std::process::exit(i32::from(refused != expected()));
            }
            fork::Fork::Parent(child) => {
                let status = fork::waitpid(child).unwrap();
                assert_eq!(status, 0, "the child was not refused");
                assert!(contents(&dir) == before, "the child has written");
                lease.commit().unwrap();
                assert_eq!(store.check("b").unwrap(), Verdict::Duplicate);
                assert_eq!(store.check("c").unwrap(), Verdict::FirstSeen);
                store.close().unwrap();
                let store = Store::open(&dir).unwrap();
                assert_eq!(store.check("c").unwrap(), Verdict::Duplicate);
            }
        }
        std::fs::remove_dir_all(&dir).unwrap();
        // Made before the call was refused.
        let _ = std::fs::remove_dir_all(dir.with_extension("copy"));
    }

    /// What every call that a child may make says.
    fn refusals(store: Store, lease: firstseen::Lease, dir: &std::path::Path) -> Vec<(&'static str, bool)> {
        let is_forked = |outcome: Result<()>| matches!(outcome, Err(Error::Forked));
        let mut verdicts = [Verdict::default()];
        vec![
            ("check", is_forked(store.check("z").map(drop))),
            ("check_batch", is_forked(store.check_batch(&["z"], &mut verdicts).map(drop))),
            ("contains", is_forked(store.contains("a").map(drop))),
            ("claim", is_forked(store.claim("z", LEASE).map(drop))),
            ("forget", is_forked(store.forget("a").map(drop))),
            ("commit", is_forked(lease.commit())),
            ("maintain", is_forked(store.maintain().map(drop))),
            ("persist", is_forked(store.persist())),
            ("snapshot", is_forked(store.snapshot(dir.with_extension("copy")))),
            ("close", is_forked(store.close())),
        ]
    }

    fn expected() -> Vec<(&'static str, bool)> {
        let calls = [
            "check",
            "check_batch",
            "contains",
            "claim",
            "forget",
            "commit",
            "maintain",
            "persist",
            "snapshot",
            "close",
        ];
        calls.map(|call| (call, true)).to_vec()
    }

    fn contents(dir: &std::path::Path) -> std::collections::BTreeMap<std::path::PathBuf, Vec<u8>> {
        let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
        entries.map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
    }
}
