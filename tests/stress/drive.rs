//! One thread of the stress test: random calls on hot IDs, with a record of what each was told.

use std::time::{Duration, Instant};

use firstseen::{Claim, Error, Lease, ManualClock, Store, Verdict};

use crate::history::{Answer, End, Event, Span, Tenure, Windows};
use crate::random::Random;

/// IDs that all threads of a round fight for.
pub(crate) const HOT_IDS: usize = 64;

/// IDs in a batch at most.
const BATCH_MAX: usize = 48;

/// Leases that a thread keeps while it goes on.
const HELD_MAX: usize = 4;

/// IDs of its own that a thread remembers, to ask for them again.
const OWN_MAX: usize = 256;

/// Steps between two moves of the clock by one thread.
const STEPS_PER_TICK: u64 = 16;

/// Steps between two times that a thread lets others run, so that they meet also on few processors.
const STEPS_PER_YIELD: u64 = 32;

/// What is the same for all threads of a round.
#[derive(Clone, Debug)]
pub(crate) struct Round {
    pub(crate) store: Store,
    pub(crate) clock: ManualClock,
    pub(crate) windows: Windows,
    /// The furthest that the clock is moved at once.
    pub(crate) advance_ms_max: u64,
    pub(crate) started: Instant,
    pub(crate) number: u64,
    pub(crate) operations: u64,
}

/// A thread's part of a round.
#[derive(Debug)]
pub(crate) struct Worker {
    round: Round,
    random: Random,
    pub(crate) events: Vec<Event>,
    pub(crate) tenures: Vec<Tenure>,
    pub(crate) operations: u64,
    held: Vec<(Lease, Tenure)>,
    own_next: u64,
    own: Vec<(u64, Span)>,
}

impl Worker {
    pub(crate) fn new(round: &Round, thread: u64, seed: u64) -> Worker {
        Worker {
            round: round.clone(),
            random: Random::new(seed ^ (thread << 56) ^ round.number),
            events: Vec::with_capacity(round.operations as usize + BATCH_MAX),
            tenures: Vec::new(),
            operations: 0,
            held: Vec::new(),
            own_next: (1 << 63) | (thread << 56) | (round.number << 24),
            own: Vec::with_capacity(OWN_MAX),
        }
    }

    /// Makes calls until this thread's share is done, then ends the leases that it still has.
    pub(crate) fn run(mut self) -> Worker {
        let mut steps = 0;
        while self.operations < self.round.operations {
            steps += 1;
            if steps % STEPS_PER_TICK == 0 {
                let millis = self.random.below(self.round.advance_ms_max) + 1;
                self.round.clock.advance(Duration::from_millis(millis));
            }
            if self.random.below(STEPS_PER_YIELD) == 0 {
                std::thread::yield_now();
            }
            match self.random.below(32) {
                0..12 => self.check(),
                12..14 => self.batch(),
                14..18 => self.contains(),
                18..24 => self.claim(),
                24..28 => self.end_oldest(),
                28..31 => self.check_own(),
                _ => self.ask_own(),
            }
        }
        while !self.held.is_empty() {
            self.end_oldest();
        }
        self
    }

    /// One of the hot IDs; low numbers are the hottest.
    fn hot(&mut self) -> u16 {
        let spread = self.random.below(3);
        self.random.below((HOT_IDS >> (spread * 2)) as u64) as u16
    }

    fn name(&self, id: u16) -> [u8; 8] {
        hot_name(self.round.number, id)
    }

    fn observe<T>(&self, call: impl FnOnce(&Store) -> T) -> (T, Span) {
        let invoked_ns = nanos(self.round.started);
        let before_ms = self.round.clock.now().as_millis();
        let told = call(&self.round.store);
        let after_ms = self.round.clock.now().as_millis();
        let returned_ns = nanos(self.round.started);
        (told, Span { invoked_ns, returned_ns, before_ms, after_ms })
    }

    fn record(&mut self, id: u16, answer: Answer, span: Span) {
        self.operations += 1;
        self.events.push(Event { id, answer, span });
    }

    fn check(&mut self) {
        let id = self.hot();
        let name = self.name(id);
        let (verdict, span) = self.observe(|store| store.check(name).unwrap());
        self.record(id, answer(verdict), span);
    }

    /// Hot IDs, and in the middle one that nobody else has.
    fn batch(&mut self) {
        let count = 2 + self.random.below(BATCH_MAX as u64 - 2) as usize;
        let ids: Vec<u16> = (0..count).map(|_| self.hot()).collect();
        let mut names: Vec<[u8; 8]> = ids.iter().map(|id| self.name(*id)).collect();
        self.own_next += 1;
        names[count / 2] = self.own_next.to_le_bytes();
        let mut verdicts = [Verdict::default(); BATCH_MAX];
        let verdicts = &mut verdicts[..count];
        let ((), span) = self.observe(|store| store.check_batch(&names, verdicts).unwrap());
        for (index, (id, verdict)) in ids.into_iter().zip(verdicts).enumerate() {
            if index == count / 2 {
                assert_eq!(*verdict, Verdict::FirstSeen, "an ID of this thread's own in a batch");
            } else {
                self.record(id, answer(*verdict), span);
            }
        }
    }

    fn contains(&mut self) {
        let id = self.hot();
        let name = self.name(id);
        let (is_seen, span) = self.observe(|store| store.contains(name).unwrap());
        self.record(id, if is_seen { Answer::Known } else { Answer::Absent }, span);
    }

    fn claim(&mut self) {
        if self.held.len() == HELD_MAX {
            return self.end_oldest();
        }
        let id = self.hot();
        let name = self.name(id);
        let length_ms = if self.random.below(3) == 0 { self.round.advance_ms_max } else { 1 << 40 };
        let length = Duration::from_millis(length_ms);
        let (claim, span) = self.observe(|store| store.claim(name, length).unwrap());
        match claim {
            Claim::Duplicate => self.record(id, Answer::Duplicate, span),
            Claim::InFlight { .. } => self.record(id, Answer::InFlight, span),
            Claim::Leased(lease) => {
                self.operations += 1;
                let attempt = lease.token().attempt();
                let tenure =
                    Tenure { id, attempt, length_ms, granted: span, ended: Span::default(), end: End::Lost };
                self.held.push((lease, tenure));
            }
        }
    }

    /// Commits or aborts the lease that was held for longest.
    fn end_oldest(&mut self) {
        if self.held.is_empty() {
            return;
        }
        let (lease, mut tenure) = self.held.remove(0);
        let commits = self.random.below(2) == 0;
        let (ended, span) = self.observe(|_| if commits { lease.commit() } else { lease.abort() });
        tenure.ended = span;
        tenure.end = match ended {
            Ok(()) if commits => End::Committed,
            Ok(()) => End::Aborted,
            Err(Error::LeaseLost { .. }) => End::Lost,
            Err(error) => panic!("the end of a lease is refused: {error}"),
        };
        self.operations += 1;
        self.tenures.push(tenure);
    }

    /// An ID that nobody else has is new.
    fn check_own(&mut self) {
        self.own_next += 1;
        let id = self.own_next;
        let (verdict, span) = self.observe(|store| store.check(id.to_le_bytes()).unwrap());
        assert_eq!(verdict, Verdict::FirstSeen, "ID {id:x} is this thread's own");
        self.operations += 1;
        let place = (id % OWN_MAX as u64) as usize;
        if place < self.own.len() {
            self.own[place] = (id, span);
        } else {
            self.own.push((id, span));
        }
    }

    /// An ID of one's own is there as long as its window cannot be over.
    fn ask_own(&mut self) {
        if self.own.is_empty() {
            return;
        }
        let (id, first) = self.own[self.random.below(self.own.len() as u64) as usize];
        let (is_seen, span) = self.observe(|store| store.contains(id.to_le_bytes()).unwrap());
        self.operations += 1;
        let length_ms = self.round.windows.length_ms;
        let is_over = span.after_ms >= first.before_ms.saturating_add(length_ms);
        assert!(is_seen || is_over, "ID {id:x} was lost: first {first:?}, asked for {span:?}");
        let is_open = span.before_ms < first.after_ms.saturating_add(length_ms);
        assert!(!is_seen || is_open, "ID {id:x} outlived its window: first {first:?}, asked for {span:?}");
    }
}

/// The name of a hot ID in a round.
pub(crate) fn hot_name(round: u64, id: u16) -> [u8; 8] {
    ((round << 16) | u64::from(id)).to_le_bytes()
}

fn answer(verdict: Verdict) -> Answer {
    match verdict {
        Verdict::FirstSeen => Answer::First,
        Verdict::Duplicate => Answer::Duplicate,
        Verdict::InFlight => Answer::InFlight,
    }
}

pub(crate) fn nanos(started: Instant) -> u64 {
    u64::try_from(started.elapsed().as_nanos()).unwrap()
}
