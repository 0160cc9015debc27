//! Opens what a crash has left, and compares what the store says with what it may say.

use std::time::Duration;

use firstseen::testing::{Crash, SimDisk};
use firstseen::{Claim, Durability, Error, FileAccess, Store, Verdict};

use crate::model::{IDS, Model, Observed};
use crate::random::Random;
use crate::setup::settle;
use crate::workload::{Moment, Outcome, Workload, name, same, told};

/// Crashes inside crashes at most.
const DEPTH_MAX: u64 = 3;

/// What a run has looked at.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) states: u64,
    pub(crate) nested: u64,
    pub(crate) opens: u64,
}

/// What ended the process.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    Kill,
    PowerCut(Crash),
}

impl End {
    pub(crate) fn random(random: &mut Random) -> End {
        match random.below(6) {
            0 | 1 => End::Kill,
            2 => End::PowerCut(Crash::LoseAll),
            3 => End::PowerCut(Crash::KeepAll),
            _ => End::PowerCut(Crash::Random(random.next())),
        }
    }

    pub(crate) fn image(self, disk: &SimDisk) -> SimDisk {
        match self {
            End::Kill => disk.kill(),
            End::PowerCut(crash) => disk.crash(crash),
        }
    }
}

/// What a store may say that is opened on an image.
#[derive(Clone, Debug)]
pub(crate) struct Expected {
    /// The fewest steps that are there after a kill of that process, and after a power cut.
    low_killed: usize,
    low: usize,
    high: usize,
    now_ms: u64,
    attempt_max: u64,
    /// What an earlier opening has said: from then on nothing else is right.
    said: Option<Observed>,
    /// IDs beside the workload's that were answered.
    must: Vec<String>,
}

impl Expected {
    pub(crate) fn at(moment: Moment, durability: Durability) -> Expected {
        let low_killed = match durability {
            Durability::Buffered | Durability::Sync => moment.acked,
            _ => moment.durable,
        };
        Expected {
            low_killed,
            low: moment.durable,
            high: moment.high,
            now_ms: moment.now_ms,
            attempt_max: moment.attempt_max,
            said: None,
            must: Vec::new(),
        }
    }

    /// After a power cut all that is there lasts, and a kill takes nothing from it.
    fn after(&self, end: End) -> Expected {
        let mut expected = self.clone();
        if let End::PowerCut(_) = end {
            expected.low_killed = self.low;
        }
        expected
    }
}

/// Looks at crash states of one workload.
pub(crate) struct Checker<'w> {
    pub(crate) workload: &'w Workload,
    pub(crate) random: Random,
    pub(crate) counts: Counts,
}

impl Checker<'_> {
    /// Ends the process in a state of its disk, opens the store again and compares.
    pub(crate) fn crash(&mut self, disk: &SimDisk, expected: &Expected, depth: u64) -> Outcome {
        let end = End::random(&mut self.random);
        let image = end.image(disk);
        let mut expected = expected.after(end);
        if self.random.chance(1, 8) {
            expected.now_ms += self.random.pick(&[1, 1_000, 4_000, 8_000]);
        }
        self.counts.states += 1;
        self.counts.nested += u64::from(depth > 1);
        let told = |text| format!("{end:?} at depth {depth}, {expected:?}: {text}");
        if depth < DEPTH_MAX && self.random.chance(1, 12) {
            self.nested(&image, &expected, depth).map_err(told)
        } else {
            let store = self.open(&image, expected.now_ms).map_err(told)?;
            self.compare(&store, &expected).and_then(|_| self.use_store(&store, &expected)).map_err(told)
        }
    }

    fn open(&mut self, image: &SimDisk, now_ms: u64) -> Outcome<Store> {
        self.counts.opens += 1;
        let access = self.random.pick(&[FileAccess::Map, FileAccess::Read]);
        told(self.workload.setup.open_at(image, now_ms, access))
    }

    /// Opens the store, lets it work, and crashes again at some moments of that.
    fn nested(&mut self, image: &SimDisk, expected: &Expected, depth: u64) -> Outcome {
        image.record();
        let store = self.open(image, expected.now_ms)?;
        let ops_opened = image.ops();
        let mut opened = expected.clone();
        opened.said = Some(self.compare(&store, expected)?);
        let more = format!("more-{depth}");
        same("a new ID", &told(store.check(&more))?, &Verdict::FirstSeen)?;
        let ops_checked = image.ops();
        let mut checked = opened.clone();
        if self.workload.setup.durability == Durability::Sync {
            checked.must.push(more);
        }
        for _ in 0..self.random.below(30) {
            told(store.maintain())?;
        }
        drop(store);
        let states = image.recorded();
        for _ in 0..4 {
            let (ops, state) = &states[self.random.index(states.len())];
            let expected = match *ops {
                ops if ops >= ops_checked => &checked,
                ops if ops >= ops_opened => &opened,
                _ => expected,
            };
            self.crash(state, expected, depth + 1)?;
        }
        Ok(())
    }

    /// Everything that the store knows; an error unless it may know that.
    fn compare(&self, store: &Store, expected: &Expected) -> Outcome<Observed> {
        let mut seen = Vec::new();
        for id in 0..IDS {
            seen.push(told(store.contains(name(id)))?);
        }
        let said = Observed { seen, cursor: store.cursor("cursor") };
        if let Some(before) = &expected.said
            && said.cursor != before.cursor
        {
            return Err(format!("the cursor was {:?} and is {:?}", before.cursor, said.cursor));
        }
        for (id, (now, before)) in
            said.seen.iter().zip(expected.said.iter().flat_map(|said| &said.seen)).enumerate()
        {
            // Later on more may be over.
            if now != before && (*now || self.workload.model.window_is_forever()) {
                return Err(format!("ID {id} was {before} and is {now}"));
            }
        }
        for id in &expected.must {
            let is_there = told(store.contains(id))?;
            if !is_there && self.workload.model.window_is_forever() {
                return Err(format!("{id} was answered and is gone"));
            }
        }
        let Expected { low_killed, high, now_ms, .. } = *expected;
        match self.workload.model.prefix(low_killed, high, now_ms, &said) {
            Some(_) => Ok(said),
            None => Err(differences(&self.workload.model, expected, &said)),
        }
    }

    /// The store takes new work, and knows nothing of old leases.
    fn use_store(&mut self, store: &Store, expected: &Expected) -> Outcome {
        let id = u8::try_from(self.random.below(u64::from(IDS))).unwrap();
        let is_seen = told(store.contains(name(id)))?;
        if let Some((_, token)) = self.workload.tokens.last() {
            let attempt = token.attempt();
            same("commit of an old token", &store.commit(*token), &Err(Error::LeaseLost { attempt }))?;
        }
        match told(store.claim(name(id), Duration::from_secs(1)))? {
            Claim::Duplicate => same("claim of an ID", &true, &is_seen)?,
            Claim::InFlight { .. } => return Err("a lease has outlived its process".to_owned()),
            Claim::Leased(lease) => {
                same("claim of an ID", &false, &is_seen)?;
                if lease.token().attempt() <= expected.attempt_max {
                    return Err(format!("attempt {} is used again", lease.token().attempt()));
                }
                told(lease.commit())?;
            }
        }
        same("check of a claimed ID", &told(store.check(name(id)))?, &Verdict::Duplicate)?;
        if self.random.chance(1, 8) {
            told(settle(store))?;
            same("check after maintenance", &told(store.check(name(id)))?, &Verdict::Duplicate)?;
        }
        Ok(())
    }
}

/// For people: which IDs are not as they may be.
fn differences(model: &Model, expected: &Expected, said: &Observed) -> String {
    let Expected { low_killed, high, now_ms, .. } = *expected;
    let steps = &model.steps[..high];
    let last = |id: usize, length: usize| {
        let mut changes = steps[..length].iter().flat_map(|step| &step.changes);
        let fact = changes.rfind(|(other, _)| usize::from(*other) == id);
        fact.map_or_else(String::new, |(_, fact)| format!("{fact:?}"))
    };
    let mut text = format!("no prefix of {low_killed}..={high} steps: cursor {:?}", said.cursor);
    for (id, seen) in said.seen.iter().enumerate() {
        let (low, high) = (last(id, low_killed), last(id, high));
        if *seen || !low.is_empty() || !high.is_empty() {
            text += &format!("\n  ID {id}: seen {seen}, at least {low}, at most {high}");
        }
    }
    text + &format!("\n  now {now_ms}, last steps {:?}", &steps[low_killed.min(high)..])
}
