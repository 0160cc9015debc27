//! The store in its forms, the floors below it, and the alternatives beside it.

use std::hash::{BuildHasher, Hasher};
use std::hint::black_box;
use std::time::Duration;

use firstseen::bench::Floor;
use firstseen::{Fingerprint, Options, Store, Verdict, Window};

const AHEAD: usize = 16;

/// Takes a stream and says how many IDs were new.
pub(crate) trait Contestant<const N: usize> {
    fn take(&mut self, ids: &[[u8; N]]) -> u64;
}

/// How to make a contestant for a number of keys.
pub(crate) struct Maker<const N: usize> {
    pub(crate) name: &'static str,
    pub(crate) make: fn(usize) -> Box<dyn Contestant<N>>,
    /// It may call a new ID a duplicate.
    pub(crate) is_approximate: bool,
}

pub(crate) fn makers<const N: usize>() -> Vec<Maker<N>> {
    let exact = |name, make| Maker { name, make, is_approximate: false };
    vec![
        exact("store/batch1024", |keys| Box::new(Batches { store: hinted(keys), batch: 1024, threads: 1 })),
        exact("store/batch1024/2threads", |keys| {
            Box::new(Batches { store: hinted(keys), batch: 1024, threads: 2 })
        }),
        exact("store/batch1024/nohint", |_| Box::new(Batches { store: unhinted(), batch: 1024, threads: 1 })),
        exact("store/batch1024/windowed", |keys| {
            Box::new(Batches { store: windowed(keys), batch: 1024, threads: 1 })
        }),
        exact("store/single", |keys| Box::new(Singles { store: hinted(keys), threads: 1 })),
        exact("store/single/2threads", |keys| Box::new(Singles { store: hinted(keys), threads: 2 })),
        exact("hashbrown", |keys| {
            Box::new(Hashbrown(hashbrown::HashSet::with_capacity_and_hasher(keys, LowHalf)))
        }),
        exact("dashmap", |keys| Box::new(Dash(dashmap::DashSet::with_capacity_and_hasher(keys, LowHalf)))),
        exact("papaya", |keys| {
            Box::new(Papaya(papaya::HashSet::builder().capacity(keys).hasher(LowHalf).build()))
        }),
        Maker { name: "floor/hash", make: |_| Box::new(HashOnly), is_approximate: true },
        Maker {
            name: "floor/hash+line",
            make: |keys| Box::new(HashAndLine::new(keys)),
            is_approximate: true,
        },
        Maker {
            name: "growable-bloom-filter",
            make: |keys| Box::new(Growable(growable_bloom_filter::GrowableBloom::new(0.005, keys))),
            is_approximate: true,
        },
    ]
}

fn options(keys: usize) -> Options {
    Options::new().expect(keys as u64).memory_budget(32 << 30)
}

fn hinted(keys: usize) -> Store {
    Store::in_memory(options(keys)).expect("memory")
}

fn unhinted() -> Store {
    Store::in_memory(Options::new().memory_budget(32 << 30)).expect("memory")
}

fn windowed(keys: usize) -> Store {
    Store::in_memory(options(keys).window(Window::Fixed(Duration::from_secs(3600)))).expect("memory")
}

/// Sums up what threads count on disjoint parts; two equal IDs may meet in two threads.
fn in_parts<const N: usize>(ids: &[[u8; N]], threads: usize, part: impl Fn(&[[u8; N]]) -> u64 + Sync) -> u64 {
    if threads == 1 {
        return part(ids);
    }
    std::thread::scope(|scope| {
        let parts = ids.chunks(ids.len().div_ceil(threads));
        let running: Vec<_> = parts.map(|ids| scope.spawn(|| part(ids))).collect();
        running.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    })
}

struct Batches {
    store: Store,
    batch: usize,
    threads: usize,
}

impl<const N: usize> Contestant<N> for Batches {
    fn take(&mut self, ids: &[[u8; N]]) -> u64 {
        in_parts(ids, self.threads, |ids| {
            let mut verdicts = vec![Verdict::default(); self.batch];
            let mut firsts = 0;
            for batch in ids.chunks(self.batch) {
                let verdicts = &mut verdicts[..batch.len()];
                self.store.check_batch(batch, verdicts).expect("there is room");
                firsts += verdicts.iter().filter(|verdict| verdict.is_first_seen()).count() as u64;
            }
            firsts
        })
    }
}

struct Singles {
    store: Store,
    threads: usize,
}

impl<const N: usize> Contestant<N> for Singles {
    fn take(&mut self, ids: &[[u8; N]]) -> u64 {
        in_parts(ids, self.threads, |ids| {
            let is_first = |id: &&[u8; N]| self.store.check(id).expect("there is room").is_first_seen();
            ids.iter().filter(is_first).count() as u64
        })
    }
}

/// The hash that the alternatives use: the same as the store's, under a fixed secret.
fn hash(id: &[u8]) -> u128 {
    const SECRET: [u8; 192] = {
        let mut secret = [0; 192];
        let mut index = 0;
        while index < 192 {
            secret[index] = (index * 167 % 251) as u8;
            index += 1;
        }
        secret
    };
    xxhash_rust::xxh3::xxh3_128_with_secret(id, &SECRET)
}

/// Takes the low half of a hash as its hash.
#[derive(Clone, Copy, Default)]
struct LowHalf;

impl BuildHasher for LowHalf {
    type Hasher = Low;
    fn build_hasher(&self) -> Low {
        Low(0)
    }
}

struct Low(u64);

impl Hasher for Low {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _bytes: &[u8]) {}
    fn write_u128(&mut self, hash: u128) {
        self.0 = (hash & u128::from(u64::MAX)) as u64;
    }
}

struct Hashbrown(hashbrown::HashSet<u128, LowHalf>);

impl<const N: usize> Contestant<N> for Hashbrown {
    fn take(&mut self, ids: &[[u8; N]]) -> u64 {
        ids.iter().filter(|id| self.0.insert(hash(*id))).count() as u64
    }
}

struct Dash(dashmap::DashSet<u128, LowHalf>);

impl<const N: usize> Contestant<N> for Dash {
    fn take(&mut self, ids: &[[u8; N]]) -> u64 {
        ids.iter().filter(|id| self.0.insert(hash(*id))).count() as u64
    }
}

struct Papaya(papaya::HashSet<u128, LowHalf>);

impl<const N: usize> Contestant<N> for Papaya {
    fn take(&mut self, ids: &[[u8; N]]) -> u64 {
        let set = self.0.pin();
        ids.iter().filter(|id| set.insert(hash(*id))).count() as u64
    }
}

/// Calls every ID new.
struct HashOnly;

impl<const N: usize> Contestant<N> for HashOnly {
    fn take(&mut self, ids: &[[u8; N]]) -> u64 {
        let mixed = ids.iter().fold(0, |mixed, id| mixed ^ hash(id));
        black_box(mixed);
        ids.len() as u64
    }
}

/// Calls every ID new after looking at a line of an empty table of the same size.
struct HashAndLine(Floor);

impl HashAndLine {
    fn new(keys: usize) -> Self {
        HashAndLine(Floor::new(keys as u64).expect("memory"))
    }
}

impl<const N: usize> Contestant<N> for HashAndLine {
    fn take(&mut self, ids: &[[u8; N]]) -> u64 {
        let mut ring = [Fingerprint::from_halves(1, 1); AHEAD];
        let mut touched = 0;
        for (index, id) in ids.iter().enumerate() {
            let key = self.0.hash(id).expect("any length is taken");
            touched += u64::from(index >= AHEAD && self.0.touch(ring[index % AHEAD]));
            ring[index % AHEAD] = key;
            self.0.prefetch(key);
        }
        black_box(touched);
        ids.len() as u64
    }
}

/// Answers from a filter alone, and wrongly for some: the count is not checked beyond that.
struct Growable(growable_bloom_filter::GrowableBloom);

impl<const N: usize> Contestant<N> for Growable {
    fn take(&mut self, ids: &[[u8; N]]) -> u64 {
        let firsts = ids.iter().filter(|id| self.0.insert(**id)).count();
        assert!(firsts * 100 >= ids.len() * 98, "far more wrong answers than it was made for");
        ids.len() as u64
    }
}
