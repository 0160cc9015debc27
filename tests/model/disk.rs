//! A simulated disk as the place of a store, and the ways in which its runs end there.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use firstseen::testing::{Crash, SimDisk};
use firstseen::{Durability, FileAccess, Options, Result, Store};
use proptest::prelude::{Just, Strategy, any, prop_oneof};

use crate::ops::End;
use crate::run::Place;

/// How a store on disk is opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Habits {
    durability: Durability,
    segment_bytes: u64,
    access: FileAccess,
    seed: u64,
}

pub(crate) fn habits() -> impl Strategy<Value = Habits> {
    let durability = prop_oneof![
        2 => Just(Durability::Buffered),
        2 => Just(Durability::Sync),
        1 => Just(Durability::Deferred(Duration::from_secs(1))),
        1 => Just(Durability::None),
    ];
    let segment_bytes = prop_oneof![Just(8192), Just(12_288), Just(20_000)];
    let access = prop_oneof![Just(FileAccess::Map), Just(FileAccess::Read)];
    (durability, segment_bytes, access, any::<u64>()).prop_map(|(durability, segment_bytes, access, seed)| {
        Habits { durability, segment_bytes, access, seed }
    })
}

/// How many runs ended in which way, and how many tables were sealed before.
#[derive(Debug, Default)]
pub(crate) struct Ends {
    closed: AtomicU64,
    dropped: AtomicU64,
    killed: AtomicU64,
    cut: AtomicU64,
    seals: AtomicU64,
    replayed: AtomicU64,
}

impl Ends {
    fn all(&self) -> [(u64, &'static str); 6] {
        let Ends { closed, dropped, killed, cut, seals, replayed } = self;
        [
            (closed, "closed"),
            (dropped, "dropped"),
            (killed, "killed"),
            (cut, "power cuts"),
            (seals, "tables sealed"),
            (replayed, "records replayed"),
        ]
        // Relaxed: they only count.
        .map(|(count, what)| (count.load(Ordering::Relaxed), what))
    }

    pub(crate) fn are_all_met(&self) -> bool {
        self.all().iter().all(|(count, _)| *count > 0)
    }
}

impl fmt::Display for Ends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> = self.all().iter().map(|(count, what)| format!("{count} {what}")).collect();
        f.write_str(&all.join(", "))
    }
}

pub(crate) struct OnDisk {
    disk: SimDisk,
    habits: Habits,
    ends: Arc<Ends>,
}

impl OnDisk {
    pub(crate) fn new(habits: Habits, ends: &Arc<Ends>) -> OnDisk {
        OnDisk { disk: SimDisk::new(habits.seed), habits, ends: Arc::clone(ends) }
    }
}

impl Place for OnDisk {
    fn open(&self, options: Options) -> Result<Store> {
        let Habits { durability, segment_bytes, access, .. } = self.habits;
        let options = options.durability(durability).log_segment_bytes(segment_bytes).file_access(access);
        Store::open_on(Arc::new(self.disk.clone()), options)
    }

    fn end(&mut self, end: End, store: &Store) -> Result<()> {
        // Relaxed: they only count.
        let add = |counter: &AtomicU64, count: u64| {
            counter.fetch_add(count, Ordering::Relaxed);
        };
        add(&self.ends.seals, store.stats().seals);
        add(&self.ends.replayed, store.stats().records_replayed);
        let durability = self.habits.durability;
        let is_kept = match end {
            End::Close => false,
            End::Drop => durability != Durability::None,
            End::Kill => matches!(durability, Durability::Buffered | Durability::Sync),
            End::PowerCut(_) => durability == Durability::Sync,
        };
        match end {
            End::Close => {
                add(&self.ends.closed, 1);
                return store.clone().close();
            }
            _ if !is_kept => store.persist()?,
            _ => {}
        }
        match end {
            End::Close | End::Drop => add(&self.ends.dropped, 1),
            End::Kill => {
                add(&self.ends.killed, 1);
                self.disk = self.disk.kill();
            }
            End::PowerCut(seed) => {
                add(&self.ends.cut, 1);
                self.disk = self.disk.crash(Crash::Random(seed));
            }
        }
        Ok(())
    }
}
