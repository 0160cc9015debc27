//! What a store must know: every answer, step by step, and which steps a crash may take back.

use std::collections::HashMap;
use std::time::Duration;

use firstseen::{Verdict, Window};

/// Number of an ID.
pub(crate) type Id = u8;

/// IDs that workloads use; those from [`IDS_USED`] on are never recorded.
pub(crate) const IDS: u8 = 48;

/// IDs below this one may be recorded.
pub(crate) const IDS_USED: u8 = 40;

/// What is known of an ID; times are milliseconds, which are ticks in these stores.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Fact {
    #[default]
    Never,
    Seen(u64),
    Forgotten(u64),
}

/// What is recorded at once: all of it outlasts a crash, or nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Step {
    pub(crate) changes: Vec<(Id, Fact)>,
    pub(crate) cursor: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Held {
    pub(crate) attempt: u64,
    pub(crate) until_ms: u64,
}

/// What a claim must answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Claimed {
    Leased,
    Duplicate,
    InFlight,
}

/// What a store says of everything.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Observed {
    pub(crate) seen: Vec<bool>,
    pub(crate) cursor: Option<u64>,
}

#[derive(Clone, Debug)]
pub(crate) struct Model {
    window: Window,
    pub(crate) facts: [Fact; IDS as usize],
    pub(crate) cursor: Option<u64>,
    pub(crate) steps: Vec<Step>,
    pub(crate) leases: HashMap<Id, Held>,
    pub(crate) attempt_max: u64,
}

impl Fact {
    pub(crate) fn is_live(self, now_ms: u64) -> bool {
        matches!(self, Fact::Seen(until) if now_ms < until)
    }

    /// What a new fact must exceed.
    fn floor(self) -> u64 {
        match self {
            Fact::Never => 0,
            Fact::Seen(until) | Fact::Forgotten(until) => until,
        }
    }
}

impl Model {
    pub(crate) fn window_is_forever(&self) -> bool {
        self.window == Window::Forever
    }

    pub(crate) fn new(window: Window) -> Model {
        let facts = [Fact::Never; IDS as usize];
        let (steps, leases) = (Vec::new(), HashMap::new());
        Model { window, facts, cursor: None, steps, leases, attempt_max: 0 }
    }

    fn apply(&mut self, step: Step) {
        for (id, fact) in &step.changes {
            self.facts[usize::from(*id)] = *fact;
        }
        self.cursor = step.cursor.or(self.cursor);
        self.steps.push(step);
    }

    /// The end of a sighting now, of the window's length or another.
    fn deadline(&self, now_ms: u64, ttl: Option<Duration>) -> u64 {
        let length = match self.window {
            Window::Forever => return u64::MAX,
            Window::Fixed(length) | Window::Sliding(length) => ttl.unwrap_or(length),
        };
        now_ms + u64::try_from(length.as_millis()).unwrap()
    }

    /// The fact of an ID that is seen now and was not.
    fn seen_anew(&self, id: Id, now_ms: u64, ttl: Option<Duration>) -> Fact {
        match self.window {
            Window::Forever => Fact::Seen(u64::MAX),
            _ => {
                let floor = self.facts[usize::from(id)].floor();
                Fact::Seen(self.deadline(now_ms, ttl).max(floor.saturating_add(1)))
            }
        }
    }

    fn live_lease(&self, id: Id, now_ms: u64) -> bool {
        self.leases.get(&id).is_some_and(|held| now_ms < held.until_ms)
    }

    pub(crate) fn check(&mut self, id: Id, now_ms: u64, ttl: Option<Duration>) -> Verdict {
        let fact = self.facts[usize::from(id)];
        if fact.is_live(now_ms) {
            self.slide(id, now_ms, ttl);
            return Verdict::Duplicate;
        }
        if self.live_lease(id, now_ms) {
            return Verdict::InFlight;
        }
        self.leases.remove(&id);
        let fact = self.seen_anew(id, now_ms, ttl);
        self.apply(Step { changes: vec![(id, fact)], cursor: None });
        Verdict::FirstSeen
    }

    /// An ID whose window may slide was seen again.
    fn slide(&mut self, id: Id, now_ms: u64, ttl: Option<Duration>) {
        let (deadline, floor) = (self.deadline(now_ms, ttl), self.facts[usize::from(id)].floor());
        if let (Window::Sliding(_), true) = (self.window, deadline > floor) {
            self.apply(Step { changes: vec![(id, Fact::Seen(deadline))], cursor: None });
        }
    }

    pub(crate) fn claim(&mut self, id: Id, now_ms: u64) -> Claimed {
        match (self.facts[usize::from(id)].is_live(now_ms), self.live_lease(id, now_ms)) {
            (true, _) => {
                self.slide(id, now_ms, None);
                Claimed::Duplicate
            }
            (false, true) => Claimed::InFlight,
            (false, false) => Claimed::Leased,
        }
    }

    /// Enters a lease that was granted; false if its number is not new.
    pub(crate) fn lease(&mut self, id: Id, held: Held) -> bool {
        let is_new = held.attempt > self.attempt_max;
        self.attempt_max = self.attempt_max.max(held.attempt);
        self.leases.insert(id, held);
        is_new
    }

    /// Ends a lease; false when it was lost.
    pub(crate) fn end(&mut self, id: Id, attempt: u64) -> bool {
        let is_held = self.leases.get(&id).is_some_and(|held| held.attempt == attempt);
        if is_held {
            self.leases.remove(&id);
        }
        is_held
    }

    /// Makes IDs seen whose leases were held, with a cursor, all at once.
    pub(crate) fn commit(&mut self, ids: &[Id], cursor: Option<u64>, now_ms: u64) {
        let changes = ids.iter().map(|id| (*id, self.seen_anew(*id, now_ms, None))).collect();
        self.leases.retain(|id, _| !ids.contains(id));
        self.apply(Step { changes, cursor });
    }

    pub(crate) fn forget(&mut self, id: Id, now_ms: u64) -> bool {
        let fact = self.facts[usize::from(id)];
        if fact.is_live(now_ms) {
            self.apply(Step { changes: vec![(id, Fact::Forgotten(fact.floor()))], cursor: None });
        }
        fact.is_live(now_ms)
    }

    /// A store was opened anew: nobody holds a lease.
    pub(crate) fn reopen(&mut self) {
        self.leases.clear();
    }

    /// After how many steps, of `low` to `high`, a store says what this one has said.
    pub(crate) fn prefix(&self, low: usize, high: usize, now_ms: u64, said: &Observed) -> Option<usize> {
        let (mut facts, mut cursor) = ([Fact::Never; IDS as usize], None);
        for length in 0..=high {
            let is_same = |(fact, seen): (&Fact, &bool)| fact.is_live(now_ms) == *seen;
            if length >= low && cursor == said.cursor && facts.iter().zip(&said.seen).all(is_same) {
                return Some(length);
            }
            if let Some(step) = self.steps.get(length) {
                step.changes.iter().for_each(|(id, fact)| facts[usize::from(*id)] = *fact);
                cursor = step.cursor.or(cursor);
            }
        }
        None
    }
}
