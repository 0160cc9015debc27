//! An observer may use the store that tells it something.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on stops, with the place")]

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use firstseen::{Durability, Error, Event, Maintenance, Options, Store, Verdict};

const PATIENCE: Duration = Duration::from_secs(60);

/// What an observer does with the store.
type Deed = fn(Store, &Path) -> Result<(), Error>;

const DEEDS: [(&str, Deed); 5] = [
    ("maintain", |store, _| store.maintain().map(drop)),
    ("persist", |store, _| store.persist()),
    ("snapshot", |store, dir| store.snapshot(dir.join("copy"))),
    ("check", |store, _| check(&store, 1_000_000..1_000_500)),
    ("close", |store, _| store.close()),
];

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("firstseen-observer-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn check(store: &Store, ids: std::ops::Range<u32>) -> Result<(), Error> {
    ids.into_iter().try_for_each(|id| store.check(id.to_le_bytes()).map(drop))
}

/// Fills tables until one was sealed and its observer has done its deed; what that came to.
fn run(maintenance: Maintenance, durability: Durability, deed: Deed, dir: &Path) -> Result<(), Error> {
    let (done, outcome) = mpsc::channel();
    let for_observer = Arc::new(Mutex::new(None::<Store>));
    let (observed, place) = (Arc::clone(&for_observer), dir.to_owned());
    let options = Options::new()
        .maintenance(maintenance)
        .durability(durability)
        .first_table_lines(8)
        .log_segment_bytes(1 << 16)
        .observer(move |event| {
            if let (Event::GenerationSealed { .. }, Some(store)) = (event, observed.lock().unwrap().take()) {
                done.send(deed(store, &place)).unwrap();
            }
        });
    let store = Store::open_with(dir.join("store"), options).unwrap();
    *for_observer.lock().unwrap() = Some(store.clone());
    for first in (0_u32..).step_by(10) {
        match check(&store, first..first + 10).and_then(|()| store.maintain().map(drop)) {
            Ok(()) | Err(Error::Closed) => {}
            Err(error) => panic!("{error}"),
        }
        match outcome.try_recv() {
            Ok(outcome) => return outcome,
            Err(_) => std::thread::sleep(Duration::from_micros(100)),
        }
    }
    Ok(())
}

/// Events were told under the lock of the structure: an observer that closed the store, copied it, or only
/// filled its table waited for itself, for ever.
#[test]
fn observer_that_uses_the_store_comes_to_an_end() {
    for (name, deed) in DEEDS {
        for maintenance in [Maintenance::Thread, Maintenance::Manual] {
            for durability in [Durability::Buffered, Durability::None] {
                let (ended, end) = mpsc::channel();
                std::thread::spawn(move || {
                    let dir = Scratch::new(&format!("{name}-{maintenance:?}-{durability:?}"));
                    ended.send(run(maintenance, durability, deed, &dir.0)).unwrap();
                });
                let outcome = end.recv_timeout(PATIENCE);
                let outcome = outcome.unwrap_or_else(|_| panic!("{name} under {maintenance:?} has no end"));
                assert_eq!(outcome, Ok(()), "{name} under {maintenance:?}, {durability:?}");
            }
        }
    }
}

/// What an observer does makes other things happen: they are told it after it returns, in their order.
#[test]
fn event_that_an_observer_causes_is_told_when_it_is_done() {
    let dir = Scratch::new("order");
    let for_observer = Arc::new(Mutex::new(None::<Store>));
    let told = Arc::new(Mutex::new((0, Vec::new())));
    let (observed, telling) = (Arc::clone(&for_observer), Arc::clone(&told));
    let options =
        Options::new().maintenance(Maintenance::Manual).first_table_lines(2).observer(move |event| {
            let Event::GenerationSealed { file, .. } = event else { return };
            {
                let mut telling = telling.lock().unwrap();
                assert_eq!(telling.0, 0, "told while it is being told");
                telling.0 = 1;
                telling.1.push(file.clone());
            }
            if let Some(store) = observed.lock().unwrap().take() {
                check(&store, 100..160).unwrap();
                while store.maintain().unwrap() != firstseen::Progress::Idle {}
            }
            telling.lock().unwrap().0 = 0;
        });
    let store = Store::open_with(&dir.0, options).unwrap();
    *for_observer.lock().unwrap() = Some(store.clone());
    check(&store, 0..5).unwrap();
    while store.maintain().unwrap() != firstseen::Progress::Idle {}
    let files = told.lock().unwrap().1.clone();
    assert!(files.len() > 2 && files.is_sorted(), "{files:?}");
    assert_eq!(store.check(100_u32.to_le_bytes()).unwrap(), Verdict::Duplicate);
}
