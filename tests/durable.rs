//! A store with a directory: what it remembers from one run to the next.

use std::time::Duration;

use firstseen::{Durability, Maintenance, ManualClock, Options, Store, Timestamp, Verdict, Window};

struct Scratch(std::path::PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("firstseen-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn ids_are_duplicates_after_close_and_after_drop() {
    for is_closed in [true, false] {
        for durability in [Durability::Buffered, Durability::Sync] {
            let dir = Scratch::new("reopen");
            let options = Options::new().durability(durability);
            let store = Store::open_with(&dir.0, options.clone()).unwrap();
            for id in 0..1000_u32 {
                assert_eq!(store.check(id.to_le_bytes()).unwrap(), Verdict::FirstSeen);
            }
            if is_closed {
                store.close().unwrap();
            } else {
                drop(store);
            }
            for round in 0..3 {
                let store = Store::open_with(&dir.0, options.clone()).unwrap();
                for id in 0..1000_u32 {
                    assert_eq!(store.check(id.to_le_bytes()).unwrap(), Verdict::Duplicate, "{round}");
                }
                assert_eq!(store.check([round]).unwrap(), Verdict::FirstSeen);
                if is_closed {
                    store.close().unwrap();
                }
            }
        }
    }
}

/// The maintenance thread held the store for another half second (it was making a log segment ready), and
/// who opened the directory again at once was told that somebody else had it open.
#[test]
fn store_that_was_dropped_can_be_opened_at_once() {
    let dir = Scratch::new("at-once");
    for _ in 0..10 {
        let store = Store::open_with(&dir.0, Options::new().expect(3_000_000)).unwrap();
        let _ = store.check("a").unwrap();
    }
}

/// IDs whose window slid filled the log and not the table, so nothing was ever sealed and the log grew for a
/// quarter of the window.
#[test]
fn log_of_windows_that_slide_is_bounded() {
    let dir = Scratch::new("sliding");
    let clock = ManualClock::new(Timestamp::from_millis(1_700_000_000_000));
    let day = Duration::from_secs(86_400);
    let options = Options::new()
        .window(Window::Sliding(day))
        .clock(clock.clock())
        .maintenance(Maintenance::Manual)
        .log_segment_bytes(8 << 10);
    let store = Store::open_with(&dir.0, options).unwrap();
    let mut most = 0;
    for round in 0..400 {
        clock.advance(Duration::from_millis(1));
        for id in 0..50_u32 {
            assert_eq!(store.check(id.to_le_bytes()).unwrap().is_first_seen(), round == 0);
        }
        for _ in 0..20 {
            let _ = store.maintain().unwrap();
        }
        let files = std::fs::read_dir(&dir.0).unwrap().map(|file| file.unwrap().file_name());
        most = most.max(files.filter(|file| file.to_string_lossy().starts_with("log-")).count());
    }
    assert!(store.stats().log_bytes > 40 * (8 << 10), "{:?}", store.stats());
    assert!(most < 25, "{most} segments");
    assert_eq!(store.check(7_u32.to_le_bytes()).unwrap(), Verdict::Duplicate);
}

#[test]
fn many_ids_through_rotations() {
    let dir = Scratch::new("many");
    let mut ids = vec![];
    for id in 0..1_000_000_u64 {
        ids.push(id.to_le_bytes());
    }
    let mut verdicts = vec![Verdict::default(); ids.len()];
    let store = Store::open(&dir.0).unwrap();
    store.check_batch(&ids, &mut verdicts).unwrap();
    assert!(verdicts.iter().all(|v| v.is_first_seen()));
    println!("{:?}", store.stats());
    drop(store);
    for _ in 0..3 {
        let begun = std::time::Instant::now();
        let store = Store::open(&dir.0).unwrap();
        println!("opened in {:?}", begun.elapsed());
        store.check_batch(&ids, &mut verdicts).unwrap();
        assert!(verdicts.iter().all(|v| !v.is_first_seen()));
        println!("{:?}", store.stats());
        store.close().unwrap();
        println!("closed at {:?}", begun.elapsed());
    }
}
