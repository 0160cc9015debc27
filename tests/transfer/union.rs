//! Random calls on three stores and on their twins: maps of facts, of which the larger wins.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use firstseen::testing::SimDisk;
use firstseen::{Clock, ManualClock, Options, Store, Timestamp, Verdict, Window};

use crate::random::{Random, seed};
use crate::{check_all, exported, import, options, seen_of, settle};

const STORES: usize = 3;
const IDS: u64 = 40;
const CALLS: usize = 300;
const SEQUENCES: u64 = 150;
const START_MS: u64 = 1_000_000;

/// Of each ID `until << 1 | forgotten`, in milliseconds.
type Twin = BTreeMap<u8, u64>;

struct Fleet {
    clock: ManualClock,
    now_ms: u64,
    /// `None` in stores that never forget.
    window: Option<Window>,
    stores: Vec<Store>,
    twins: Vec<Twin>,
}

impl Fleet {
    fn new(random: &mut Random) -> Fleet {
        let clock = ManualClock::new(Timestamp::from_millis(START_MS));
        let seconds = |count| Duration::from_secs(count);
        let window = random.pick(&[None, Some(Window::Fixed(seconds(2))), Some(Window::Sliding(seconds(2)))]);
        let mut stores = Vec::new();
        for index in 0..STORES {
            let mut options = options().clock(clock.clock());
            // Windows may have different lengths.
            options = match window {
                None => options,
                Some(Window::Fixed(length)) => {
                    options.window(Window::Fixed(length + seconds(index as u64))).ttl_max(seconds(9))
                }
                Some(_) => options.window(Window::Sliding(seconds(2 + index as u64))).ttl_max(seconds(9)),
            };
            stores.push(store_of(index, options, random.below(1 << 30)));
        }
        Fleet { clock, now_ms: START_MS, window, stores, twins: vec![Twin::new(); STORES] }
    }

    fn call(&mut self, random: &mut Random) {
        let (one, other) = (self.index(random), self.index(random));
        let id = u8::try_from(random.below(IDS)).unwrap();
        match random.below(20) {
            0..=8 => self.check(one, id, None),
            9 | 10 if self.window.is_some() => {
                self.check(one, id, Some(Duration::from_millis(1 + random.below(9_000))));
            }
            11 | 12 if self.window.is_some() => self.forget(one, id),
            13 | 14 => settle(&self.stores[one]),
            15 => {
                let step = 1 + random.below(900);
                self.now_ms += step;
                self.clock.advance(Duration::from_millis(step));
            }
            16 | 17 => self.transfer(one, other, random.below(2) == 0),
            _ => {
                let seen = self.stores[one].contains([id]).unwrap();
                assert_eq!(seen, self.is_seen(one, id), "ID {id} in store {one}");
            }
        }
    }

    fn index(&self, random: &mut Random) -> usize {
        usize::try_from(random.below(STORES as u64)).unwrap()
    }

    fn is_live(&self, fact: u64) -> bool {
        self.window.is_none() || fact >> 1 > self.now_ms
    }

    fn is_seen(&self, store: usize, id: u8) -> bool {
        self.twins[store].get(&id).is_some_and(|fact| fact & 1 == 0 && self.is_live(*fact))
    }

    fn check(&mut self, store: usize, id: u8, ttl: Option<Duration>) {
        let verdict = match ttl {
            None => self.stores[store].check([id]).unwrap(),
            Some(ttl) => self.stores[store].check_with([id], ttl).unwrap(),
        };
        let was_seen = self.is_seen(store, id);
        let expected = if was_seen { Verdict::Duplicate } else { Verdict::FirstSeen };
        assert_eq!(verdict, expected, "ID {id} in store {store}");
        let length = ttl.unwrap_or(Duration::from_secs(2 + store as u64));
        let until = match self.window {
            None => 1,
            Some(_) => self.now_ms + u64::try_from(length.as_millis()).unwrap(),
        };
        let fact = self.twins[store].entry(id).or_default();
        match (was_seen, self.window) {
            (true, Some(Window::Sliding(_))) => *fact = (*fact).max(until << 1),
            (true, _) => {}
            (false, _) => *fact = until.max((*fact >> 1) + u64::from(self.window.is_some())) << 1,
        }
    }

    fn forget(&mut self, store: usize, id: u8) {
        let was_seen = self.is_seen(store, id);
        assert_eq!(self.stores[store].forget([id]).unwrap(), was_seen, "ID {id} in store {store}");
        if was_seen {
            *self.twins[store].get_mut(&id).unwrap() |= 1;
        }
    }

    /// Everything that `from` knows goes into `into`.
    fn transfer(&mut self, from: usize, into: usize, is_merge: bool) {
        let given: Twin =
            self.twins[from].clone().into_iter().filter(|(_, fact)| self.is_live(*fact)).collect();
        let imported = if is_merge {
            self.stores[into].merge(&self.stores[from]).unwrap()
        } else {
            import(&self.stores[into], &exported(&self.stores[from])).unwrap()
        };
        let mut changed = 0;
        for (id, fact) in &given {
            let known = self.twins[into].entry(*id).or_default();
            changed += u64::from(*known < *fact);
            *known = (*known).max(*fact);
        }
        assert_eq!((imported.facts, imported.changed), (given.len() as u64, changed));
        assert_eq!((imported.leases_lost, imported.time.as_millis() <= self.now_ms), (0, true));
    }

    /// Each takes over from each other: then all know the same, now and later.
    fn unite(&mut self) {
        for _ in 0..2 {
            for (from, into) in [(0, 1), (1, 2), (2, 0), (0, 1)] {
                self.transfer(from, into, from == 1);
            }
        }
        assert!(self.twins.windows(2).all(|pair| {
            let live =
                |twin: &Twin| twin.clone().into_iter().filter(|(_, fact)| self.is_live(*fact)).collect();
            let (one, other): (Twin, Twin) = (live(&pair[0]), live(&pair[1]));
            one == other
        }));
        for _ in 0..12 {
            for store in 0..STORES {
                for id in 0..u8::try_from(IDS).unwrap() {
                    let seen = self.stores[store].contains([id]).unwrap();
                    assert_eq!(seen, self.is_seen(store, id), "ID {id} in store {store}");
                }
            }
            self.now_ms += 900;
            self.clock.advance(Duration::from_millis(900));
        }
    }
}

fn store_of(index: usize, options: Options, seed: u64) -> Store {
    match index {
        0 => Store::in_memory(options).unwrap(),
        _ => Store::open_on(Arc::new(SimDisk::new(seed)), options).unwrap(),
    }
}

#[test]
fn stores_under_random_calls_and_transfers_equal_the_union_of_their_twins() {
    let seed = seed();
    println!("repeat with FIRSTSEEN_SEED={seed}");
    for sequence in 0..SEQUENCES {
        let mut random = Random::new(seed.wrapping_add(sequence));
        let mut fleet = Fleet::new(&mut random);
        for _ in 0..CALLS {
            fleet.call(&mut random);
        }
        fleet.unite();
    }
}

#[test]
fn export_of_a_store_with_all_kinds_of_tables_has_every_id_once() {
    for is_durable in [false, true] {
        let store = store_of(usize::from(is_durable), options(), 1);
        let mut count = 0;
        for round in 1..40_u32 {
            check_all(&store, count..count + round * 7);
            count += round * 7;
            // Some rounds end with tables that are closing, frozen, merging, sealed or being fused.
            for _ in 0..round % 11 {
                let _ = store.maintain().unwrap();
            }
            let into = store_of(0, options(), 0);
            let imported = import(&into, &exported(&store)).unwrap();
            assert_eq!((imported.facts, imported.changed), (u64::from(count), u64::from(count)));
            assert_eq!(seen_of(&into, 0..count + 10), Vec::from_iter(0..count));
        }
        println!("{:?}", store.stats());
    }
}

/// In the order of their fingerprints 200,000 IDs crowded at the beginning of one small table after the
/// other, until there were too many tables.
#[test]
fn many_ids_into_small_tables_spread_evenly() {
    let from = Store::in_memory(options().first_table_lines(1 << 17)).unwrap();
    check_all(&from, 0..200_000);
    let bytes = exported(&from);
    for index in 0..2 {
        let into = store_of(index, options().first_table_lines(128), 3);
        assert_eq!(import(&into, &bytes).unwrap().changed, 200_000);
        let stats = into.stats();
        println!("{stats:?}");
        assert!(stats.rotations < 20, "{} rotations", stats.rotations);
        assert_eq!(import(&into, &bytes).unwrap().changed, 0);
    }
}

#[test]
fn forgotten_id_in_a_store_that_never_forgets_is_forgotten_in_the_other() {
    let (one, other) = (store_of(0, options(), 0), store_of(1, options(), 0));
    check_all(&one, 0..3);
    other.merge(&one).unwrap();
    assert!(one.forget(1_u32.to_le_bytes()).unwrap());
    assert_eq!(other.merge(&one).unwrap().changed, 1);
    assert_eq!(seen_of(&other, 0..3), [0, 2]);
    // Seen once more there, and so here.
    check_all(&other, 1..2);
    assert_eq!(one.merge(&other).unwrap().changed, 1);
    assert_eq!(seen_of(&one, 0..3), [0, 1, 2]);
}

#[test]
fn store_merged_with_itself_stays_as_it_is() {
    let store = store_of(0, options(), 0);
    check_all(&store, 0..500);
    let imported = store.merge(&store).unwrap();
    assert_eq!((imported.facts, imported.changed), (500, 0));
}

#[test]
fn system_clock_of_a_store_stays_what_it_was() {
    let window = Window::Fixed(Duration::from_secs(60));
    let late = ManualClock::new(Timestamp::from_millis(100_000));
    let from = Store::in_memory(options().window(window).clock(late.clock())).unwrap();
    check_all(&from, 0..1);
    let clock: Clock = ManualClock::new(Timestamp::from_millis(0)).clock();
    let into = Store::in_memory(options().window(window).clock(clock)).unwrap();
    check_all(&into, 1..2);
    assert_eq!(into.merge(&from).unwrap().time, Timestamp::from_millis(100_000));
    assert_eq!(seen_of(&into, 0..2), [0, 1]);
}
