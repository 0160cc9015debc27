//! The child: four threads on one store, until it is killed.

use std::path::PathBuf;
use std::time::Duration;

use firstseen::{Claim, Durability, Options, Store, Verdict};

use crate::notes::{Word, id, tell};
use crate::random::Random;

/// Threads of the child.
pub(crate) const THREADS: u64 = 4;

/// IDs that all threads check.
const HOT: u64 = 64;

const LEASE: Duration = Duration::from_secs(600);

/// What the parent wants done.
pub(crate) struct Order {
    pub(crate) dir: PathBuf,
    pub(crate) round: u64,
    pub(crate) seed: u64,
}

/// Small tables and segments, so that a kill meets rotations, seals and new segments.
pub(crate) fn options(round: u64) -> Options {
    let durability = if round % 4 == 3 { Durability::Sync } else { Durability::Buffered };
    Options::new()
        .durability(durability)
        .sync_every(Duration::from_millis(5))
        .first_table_lines(512)
        .log_segment_bytes(256 << 10)
}

impl Order {
    pub(crate) fn to_environment(&self) -> [(&'static str, String); 3] {
        [
            ("FIRSTSEEN_KILL_DIR", self.dir.to_str().expect("a plain path").to_owned()),
            ("FIRSTSEEN_KILL_ROUND", self.round.to_string()),
            ("FIRSTSEEN_KILL_SEED", self.seed.to_string()),
        ]
    }

    pub(crate) fn from_environment() -> Option<Order> {
        let number = |name| std::env::var(name).ok()?.parse().ok();
        let dir = PathBuf::from(std::env::var_os("FIRSTSEEN_KILL_DIR")?);
        Some(Order { dir, round: number("FIRSTSEEN_KILL_ROUND")?, seed: number("FIRSTSEEN_KILL_SEED")? })
    }

    /// Works until it is killed.
    pub(crate) fn work(self) -> ! {
        let store = Store::open_with(&self.dir, options(self.round)).expect("the store opens");
        std::thread::scope(|scope| {
            for thread in 1..=THREADS {
                let store = store.clone();
                let worker = Worker {
                    store,
                    thread,
                    next: self.round << 32,
                    random: Random::new(self.seed.wrapping_mul(2 * thread + 1)),
                };
                scope.spawn(move || worker.run());
            }
        });
        unreachable!("the threads work until they are killed")
    }
}

struct Worker {
    store: Store,
    thread: u64,
    next: u64,
    random: Random,
}

impl Worker {
    fn run(mut self) {
        loop {
            match self.random.below(10) {
                0..4 => self.check(),
                4 => self.check_batch(),
                5 => self.check_hot(),
                6 => self.commit(),
                7 => self.abort(),
                8 => self.commit_batch(),
                _ => self.forget(),
            }
        }
    }

    fn fresh(&mut self) -> [u8; 16] {
        self.next += 1;
        id(self.thread, self.next)
    }

    fn check(&mut self) {
        let id = self.fresh();
        assert_eq!(self.store.check(id).expect("the store answers"), Verdict::FirstSeen);
        tell(Word::Seen, id);
    }

    fn check_batch(&mut self) {
        let ids: Vec<_> = (0..1 + self.random.below(200)).map(|_| self.fresh()).collect();
        let mut verdicts = vec![Verdict::default(); ids.len()];
        self.store.check_batch(&ids, &mut verdicts).expect("the store answers");
        assert!(verdicts.iter().all(|verdict| verdict.is_first_seen()));
        ids.into_iter().for_each(|id| tell(Word::Seen, id));
    }

    /// Whichever thread was first: whoever is told either answer relies on it.
    fn check_hot(&mut self) {
        let id = id(0, (self.next >> 32 << 32) + self.random.below(HOT));
        let _ = self.store.check(id).expect("the store answers");
        tell(Word::Seen, id);
    }

    fn commit(&mut self) {
        let id = self.fresh();
        let Claim::Leased(lease) = self.store.claim(id, LEASE).expect("the store answers") else {
            unreachable!("a fresh ID is free")
        };
        tell(Word::Claimed, id);
        if self.random.below(8) == 0 {
            // Held until the kill.
            let _ = lease.into_token();
            return;
        }
        tell(Word::Doubtful, id);
        lease.commit().expect("the lease is held");
        tell(Word::Seen, id);
    }

    fn abort(&mut self) {
        let id = self.fresh();
        let Claim::Leased(lease) = self.store.claim(id, LEASE).expect("the store answers") else {
            unreachable!("a fresh ID is free")
        };
        lease.abort().expect("the lease is held");
        tell(Word::Claimed, id);
    }

    fn commit_batch(&mut self) {
        let ids: Vec<_> = (0..1 + self.random.below(50)).map(|_| self.fresh()).collect();
        let batch = self.store.claim_batch(&ids, LEASE).expect("the store answers");
        ids.iter().for_each(|id| tell(Word::Doubtful, *id));
        assert_eq!(batch.commit().expect("the leases are held"), ids.len());
        ids.into_iter().for_each(|id| tell(Word::Seen, id));
    }

    fn forget(&mut self) {
        let id = self.fresh();
        let _ = self.store.check(id).expect("the store answers");
        tell(Word::Doubtful, id);
        assert!(self.store.forget(id).expect("the store answers"));
        tell(Word::Forgotten, id);
    }
}
