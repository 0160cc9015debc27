//! Stores whose generations are kept in memory, merged there, fused on disk, and let go, in any order.

use std::time::Duration;

use crate::clock::{ManualClock, Timestamp};
use crate::limits::{
    FROZEN_MAX, FROZEN_ROTATE_MAX, GENERATIONS_MAX, GENERATIONS_MAX_WINDOWED, KEPT_LIMIT, LOAD_MERGED_PERCENT,
};
use crate::options::{FileAccess, Maintenance, Options, Window};
use crate::storage::scratch::seeds;
use crate::storage::sim::SimDisk;
use crate::store::{Claim, Lease, Progress, Stats, Store};
use crate::sync::Arc;
use crate::table::lines_for;
use crate::table::refusal::refuse;
use crate::verdict::Verdict;

/// IDs of a round: two slices of lines, so that merges and fusions of some take many steps.
const PER_ROUND: u32 = 40_000;
const WINDOW_MS: u64 = 4_000_000;
const WINDOW: Duration = Duration::from_millis(WINDOW_MS);
const START_MS: u64 = 1_000_000_000;

fn id(number: u32) -> [u8; 4] {
    number.to_le_bytes()
}

/// A store by hand on a simulated disk, and beside it what it must answer.
struct Twin {
    disk: SimDisk,
    clock: ManualClock,
    window: Window,
    budget: u64,
    store: Store,
    /// Until when each ID is seen, in milliseconds; zero if it is not.
    until: Vec<u64>,
}

impl Twin {
    fn new(window: Window, budget: u64) -> Twin {
        let (disk, clock) = (SimDisk::new(0), ManualClock::new(Timestamp::from_millis(START_MS)));
        let store = open(&disk, &clock, window, budget);
        Twin { disk, clock, window, budget, store, until: Vec::new() }
    }

    fn now(&self) -> u64 {
        self.clock.now().as_millis()
    }

    /// IDs that ever came.
    fn seen(&self) -> u32 {
        u32::try_from(self.until.len()).unwrap()
    }

    fn is_seen(&self, number: u32) -> bool {
        self.until.get(number as usize).is_some_and(|until| *until > self.now())
    }

    fn state(&mut self, numbers: &[u32]) {
        let until = self.until_from_now();
        let ids: Vec<_> = numbers.iter().copied().map(id).collect();
        let mut verdicts = vec![Verdict::default(); ids.len()];
        self.store.check_batch(&ids, &mut verdicts).unwrap();
        for (number, verdict) in numbers.iter().zip(verdicts) {
            assert_eq!(verdict.is_duplicate(), self.is_seen(*number), "ID {number}: {}", self.shape());
            if self.until.len() <= *number as usize {
                self.until.resize(*number as usize + 1, 0);
            }
            if verdict.is_first_seen() {
                self.until[*number as usize] = until;
            }
        }
    }

    /// Until when an ID is seen that is seen now.
    fn until_from_now(&self) -> u64 {
        if self.window == Window::Forever { u64::MAX } else { self.now() + WINDOW_MS }
    }

    /// Claims an ID, which is leased just when it is neither seen nor claimed already.
    fn claim(&self, number: u32, leases: &mut Vec<(u32, Lease)>) {
        let is_held = leases.iter().any(|(held, _)| *held == number);
        match self.store.claim(id(number), Duration::from_secs(1 << 30)).unwrap() {
            Claim::Leased(lease) => {
                assert!(!is_held && !self.is_seen(number), "ID {number}: {}", self.shape());
                leases.push((number, lease));
            }
            Claim::Duplicate => {
                assert!(!is_held && self.is_seen(number), "ID {number}: {}", self.shape());
            }
            Claim::InFlight { .. } => assert!(is_held, "ID {number}: {}", self.shape()),
        }
    }

    /// New IDs that fill a table, which is sealed if anybody steps.
    fn round(&mut self) {
        let first = self.seen();
        self.state(&(first..first + PER_ROUND).collect::<Vec<_>>());
        let view = self.store.engine.views.load();
        self.store.engine.want_rotation(view.number);
    }

    fn forget(&mut self, number: u32) {
        assert_eq!(self.store.forget(id(number)).unwrap(), self.is_seen(number), "ID {number}");
        self.until[number as usize] = 0;
    }

    /// Steps until nothing is left to do, or until `is_reached`.
    fn step_until(&self, is_reached: impl Fn(&Store) -> bool) {
        let is_done = |_| is_reached(&self.store) || self.store.maintain().unwrap() == Progress::Idle;
        assert!((0..100_000).any(is_done), "maintenance does not come to an end: {}", self.shape());
    }

    fn settle(&self) {
        self.step_until(|_| false);
    }

    /// Gives up tables until so much is free.
    fn release(&self, bytes: u64) {
        self.store.engine.lock_structure().release_sealed(&self.store.engine, bytes);
    }

    fn reopen(&mut self, is_closed: bool) {
        if is_closed {
            self.store.clone().close().unwrap();
        }
        let disk = if is_closed { self.disk.clone() } else { self.disk.kill() };
        self.store = open(&disk, &self.clock, self.window, self.budget);
        self.disk = disk;
    }

    /// Asks for every `stride`th ID, and for as many that never were.
    #[track_caller]
    fn assert_right(&self, stride: usize) {
        let seen = self.seen();
        for number in (0..2 * seen).step_by(stride) {
            let found = self.store.contains(id(number));
            assert_eq!(found, Ok(self.is_seen(number)), "ID {number}: {}", self.shape());
        }
    }

    /// Numbers of kept tables, of generations, and of those that kept tables cover.
    fn counts(&self) -> (usize, usize, usize) {
        let view = self.store.engine.views.load();
        (view.kept.len(), view.sealed.len(), view.sealed_kept)
    }

    fn shape(&self) -> String {
        let view = self.store.engine.views.load();
        let kept: Vec<_> = view.kept.iter().map(|kept| (kept.hi_first, kept.hi_last, &kept.covers)).collect();
        let sealed: Vec<_> = view.sealed.iter().map(|sealed| sealed.generation().id()).collect();
        format!("kept {kept:?}, sealed {sealed:?}, {:?}", self.store.stats())
    }
}

fn open(disk: &SimDisk, clock: &ManualClock, window: Window, budget: u64) -> Store {
    let options = Options::new().maintenance(Maintenance::Manual).clock(clock.clock()).window(window);
    Store::open_on(Arc::new(disk.clone()), options.memory_budget(budget)).unwrap()
}

/// Whether some but not all of a merge in memory is done.
fn is_merging(store: &Store) -> bool {
    store.engine.views.load().kept.iter().any(|kept| kept.hi_first > 0)
}

/// After each fusion all generations were read from a new file, which took 600 instead of 80 ns a check.
#[test]
fn few_tables_answer_for_all_that_was_sealed() {
    let mut twin = Twin::new(Window::Forever, 1 << 30);
    for round in 0..9 {
        twin.round();
        twin.forget(round * PER_ROUND / 2);
        twin.step_until(|store| store.stats().seals == u64::from(round) + 1);
        twin.assert_right(101);
    }
    twin.settle();
    let (kept, sealed, covered) = twin.counts();
    let stats = twin.store.stats();
    assert!(stats.merges > 0 && stats.compactions > 0, "{stats:?}");
    assert!(kept <= FROZEN_MAX && covered == sealed, "{}", twin.shape());
    assert!(stats.filter_bytes < stats.ids * 12 / 8 * 5 / 4, "no filter is there twice: {stats:?}");
    twin.assert_right(1);
    let writes = twin.store.engine.views.load().files().len();
    assert_eq!(writes, 0, "no file is asked");
}

/// In whatever moment memory is needed for something else.
#[test]
fn merge_that_loses_its_tables_leaves_the_files_to_answer() {
    let mut twin = Twin::new(Window::Forever, 1 << 30);
    for _ in 0..3 {
        twin.round();
        twin.step_until(is_merging);
    }
    assert!(is_merging(&twin.store), "{}", twin.shape());
    let mut merging = 0;
    for slices in 0..6 {
        for _ in 0..slices {
            twin.store.maintain().unwrap();
        }
        merging += u32::from(is_merging(&twin.store));
        // More than what is just being copied back.
        twin.release(4 << 20);
        twin.assert_right(11);
        twin.settle();
        assert!(!is_merging(&twin.store), "half a merge stays: {}", twin.shape());
        assert_eq!(twin.store.stats().making_bytes, 0);
        twin.assert_right(11);
        while !is_merging(&twin.store) {
            twin.round();
            twin.step_until(is_merging);
        }
    }
    assert!(merging >= 3, "{merging}");
}

/// Two tables answer for one fused file; without one of them it has to answer itself.
#[test]
fn fused_generation_is_covered_by_the_tables_of_both() {
    let mut twin = Twin::new(Window::Fixed(WINDOW), 1 << 30);
    twin.store.engine.lock_structure().fail_to_merge();
    for round in 0..GENERATIONS_MAX_WINDOWED as u64 + 1 {
        twin.round();
        twin.step_until(|store| store.stats().seals > round);
    }
    twin.step_until(|store| store.stats().compactions > 0);
    let shared = |view: &crate::store::view::View| {
        view.sealed.iter().any(|sealed| {
            view.kept.iter().filter(|kept| kept.covers.contains(&sealed.generation().id())).count() > 1
        })
    };
    assert!(shared(&twin.store.engine.views.load()), "{}", twin.shape());
    twin.assert_right(53);
    while twin.counts().0 > 0 {
        twin.release(1);
        twin.assert_right(997);
        assert!(twin.counts().2 < twin.counts().1, "{}", twin.shape());
    }
    twin.settle();
    twin.assert_right(53);
}

/// A filter that a merge does not take over was charged to nobody as soon as one began.
#[test]
fn filter_of_a_fusion_is_charged_while_tables_are_merged() {
    let mut twin = Twin::new(Window::Forever, 1 << 30);
    let is_fusing = |store: &Store| store.engine.counters.buffers_fusion.get() > 0;
    for round in 0..5 {
        twin.round();
        twin.step_until(|store| store.stats().seals > round);
    }
    twin.step_until(is_fusing);
    let making = twin.store.stats().making_bytes;
    assert!(making > 0, "{}", twin.shape());
    for round in 5..7 {
        twin.round();
        twin.step_until(|store| store.stats().seals > round);
    }
    twin.step_until(|store| is_merging(store) && is_fusing(store));
    assert!(is_merging(&twin.store) && is_fusing(&twin.store), "{}", twin.shape());
    assert!(twin.store.stats().making_bytes >= making, "{}", twin.shape());
}

/// Each was read back from its file, and stayed beside that of the table.
#[test]
fn filters_are_held_once_without_maps() {
    let disk = SimDisk::new(0);
    let options = Options::new().maintenance(Maintenance::Manual).file_access(FileAccess::Read);
    let store = Store::open_on(Arc::new(disk), options).unwrap();
    let mut verdicts = vec![Verdict::default(); PER_ROUND as usize];
    for round in 0..9 {
        let ids: Vec<_> = (round * PER_ROUND..(round + 1) * PER_ROUND).map(id).collect();
        store.check_batch(&ids, &mut verdicts).unwrap();
        let number = store.engine.views.load().number;
        store.engine.want_rotation(number);
        while store.maintain().unwrap() != Progress::Idle {}
    }
    let is_once = |stats: &Stats| stats.filter_bytes < stats.ids * 12 / 8 * 5 / 4;
    let stats = store.stats();
    assert!(stats.compactions > 0 && is_once(&stats), "{stats:?}");
    store.engine.lock_structure().release_sealed(&store.engine, u64::MAX);
    while store.maintain().unwrap() != Progress::Idle {}
    let stats = store.stats();
    assert!(is_once(&stats) && stats.filter_bytes >= stats.ids * 12 / 8, "{stats:?}");
    for number in (0..9 * PER_ROUND).step_by(31) {
        assert!(store.contains(id(number)).unwrap(), "ID {number}");
        assert!(!store.contains(id(u32::MAX - number)).unwrap());
    }
}

/// All that was being merged was let go for a single table.
#[test]
fn merge_goes_on_without_a_table_that_is_let_go() {
    let mut twin = Twin::new(Window::Forever, 1 << 30);
    for _ in 0..3 {
        twin.round();
        twin.step_until(is_merging);
    }
    let (kept, _, covered) = twin.counts();
    assert!(is_merging(&twin.store) && kept > 3, "{}", twin.shape());
    twin.release(1);
    assert_eq!(twin.counts().2, covered - 1, "{}", twin.shape());
    twin.assert_right(11);
    let merges = twin.store.stats().merges;
    twin.step_until(|store| store.stats().merges > merges);
    assert!(twin.counts().2 >= covered - 1 && !is_merging(&twin.store), "{}", twin.shape());
    twin.assert_right(11);
}

/// Where the system had no memory for a merge no file was fused any more, and callers waited for ever once
/// there were too many.
#[test]
fn merges_that_the_system_refuses_hold_up_nothing() {
    const IDS: u32 = 6_000;
    let mut twin = Twin::new(Window::Forever, 1 << 30);
    // Two tables as full as may be, which is more than the next active one has.
    refuse(&(lines_for(2 * u64::from(IDS), LOAD_MERGED_PERCENT)..u64::MAX));
    for round in 0..2 * FROZEN_ROTATE_MAX as u64 {
        let first = twin.seen();
        twin.state(&(first..first + IDS).collect::<Vec<_>>());
        let number = twin.store.engine.views.load().number;
        twin.store.engine.want_rotation(number);
        twin.step_until(|store| store.stats().seals > round);
        assert!(twin.store.stats().seals > round, "{}", twin.shape());
    }
    twin.settle();
    let stats = twin.store.stats();
    assert!(stats.compactions > 0 && stats.merges == 0 && stats.generations <= GENERATIONS_MAX, "{stats:?}");
    twin.assert_right(1);
    refuse(&(0..0));
    while twin.store.stats().merges == 0 {
        twin.round();
        twin.settle();
    }
    twin.assert_right(1);
}

/// Where there is no room to merge them.
#[test]
fn kept_tables_are_bounded() {
    let mut twin = Twin::new(Window::Forever, 1 << 30);
    twin.store.engine.lock_structure().fail_to_merge();
    for round in 0..2 * KEPT_LIMIT as u64 {
        twin.round();
        twin.step_until(|store| store.stats().seals > round);
        assert!(twin.counts().0 <= KEPT_LIMIT);
    }
    twin.settle();
    twin.assert_right(7);
}

/// Anything in any order, against the plain truth.
fn any_order(window: Window, seed: u64) {
    let mut state = (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut random = move |below: u32| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        u32::try_from((state >> 11) % u64::from(below)).unwrap()
    };
    let budget = [8 << 20, 32 << 20, 1 << 30][usize::try_from(random(3)).unwrap()];
    let mut twin = Twin::new(window, budget);
    let (mut merging, mut files) = (0, 0);
    for _ in 0..60 {
        let seen = twin.seen();
        match random(12) {
            0..=3 if seen < 600_000 => twin.round(),
            4 if seen > 0 => {
                let again: Vec<u32> = (0..200).map(|_| random(seen * 11 / 10)).collect();
                let mut once = again.clone();
                once.sort_unstable();
                once.dedup();
                twin.state(&once);
            }
            5 if seen > 0 => (0..20).for_each(|_| twin.forget(random(seen))),
            6 => twin.release(1 << random(24)),
            7 => twin.reopen(random(2) == 0),
            8 if window != Window::Forever => {
                // Never to where one ends: nobody says within which tick.
                twin.clock.advance(WINDOW / 7 + Duration::from_secs(3) * random(50));
            }
            9 => twin.assert_right(29),
            10 => twin.settle(),
            _ => {}
        }
        for _ in 0..random(40) {
            twin.store.maintain().unwrap();
        }
        merging += u32::from(is_merging(&twin.store));
        files += u32::from(twin.counts().2 < twin.counts().1);
        twin.assert_right(499);
    }
    twin.settle();
    twin.assert_right(3);
    println!("{window:?}, seed {seed}: {merging} times in a merge, {files} with files, {}", twin.shape());
}

/// Claims on what is kept, let go, or in files, held while all of that changes.
fn leases_in_any_order(window: Window, seed: u64) {
    let mut state = (seed + 77).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut random = move |below: u32| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        u32::try_from((state >> 11) % u64::from(below)).unwrap()
    };
    let mut twin = Twin::new(window, [8 << 20, 1 << 30][usize::try_from(random(2)).unwrap()]);
    let mut leases: Vec<(u32, Lease)> = Vec::new();
    twin.round();
    for _ in 0..60 {
        let seen = twin.seen();
        match random(8) {
            0 | 1 if seen < 400_000 => twin.round(),
            2 => twin.release(1 << random(24)),
            3 => {
                leases.clear();
                twin.reopen(random(2) == 0);
            }
            4 if window != Window::Forever => {
                twin.clock.advance(WINDOW / 7 + Duration::from_secs(3) * random(50));
            }
            5 => {
                let numbers = (0..40).map(|_| random(seen)).collect::<Vec<_>>();
                let is_free = |number: &&u32| leases.iter().all(|(held, _)| held != *number);
                numbers.iter().filter(is_free).for_each(|number| twin.forget(*number));
            }
            _ => {
                while leases.len() > 20 {
                    let (number, lease) = leases.swap_remove(usize::try_from(random(20)).unwrap());
                    lease.commit().unwrap();
                    twin.until[number as usize] = twin.until_from_now();
                }
                let numbers = (0..60).map(|_| random(seen)).collect::<Vec<_>>();
                numbers.into_iter().for_each(|number| twin.claim(number, &mut leases));
            }
        }
        for _ in 0..random(40) {
            twin.store.maintain().unwrap();
        }
        twin.assert_right(499);
    }
    twin.settle();
    twin.assert_right(3);
}

#[test]
fn claims_are_right_whatever_is_kept() {
    for seed in seeds(3) {
        leases_in_any_order(Window::Forever, seed);
        leases_in_any_order(Window::Fixed(WINDOW), seed);
    }
}

#[test]
fn answers_are_right_whatever_is_kept_in_a_store_that_never_forgets() {
    for seed in seeds(4) {
        any_order(Window::Forever, seed);
    }
}

#[test]
fn answers_are_right_whatever_is_kept_in_a_store_with_windows() {
    for seed in seeds(4) {
        any_order(Window::Fixed(WINDOW), seed);
    }
}

/// What was in memory was let go for a fusion that had no room even so, and brought back after it.
#[test]
fn fusion_without_room_takes_nothing_from_others() {
    let mut twin = Twin::new(Window::Forever, 1 << 30);
    for round in 0..10 {
        twin.round();
        twin.round();
        twin.step_until(|store| store.stats().seals > round);
    }
    // A newest file that has room in memory where the filter of all has none.
    let first = twin.seen();
    twin.state(&(first..first + 3_000).collect::<Vec<_>>());
    twin.reopen(true);
    let (mut is_any_left, files, closed) = (false, twin.counts().1, twin.disk.kill());
    assert!(files > GENERATIONS_MAX);
    for sixteenths in (16..44).step_by(3) {
        twin.budget = sixteenths << 16;
        twin.disk = closed.clone();
        twin.reopen(false);
        twin.assert_right(7);
        twin.settle();
        let in_memory = twin.store.stats().filter_bytes;
        is_any_left |= twin.counts().1 == files && in_memory > 0;
        assert!(twin.store.stats().memory_bytes_peak <= twin.budget, "{}", twin.shape());
        twin.assert_right(7);
    }
    assert!(is_any_left, "all was fused, or let go");
}
