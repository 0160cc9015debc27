//! Runs one sequence against a store and its twin, and compares every answer.

use std::fmt::Debug;
use std::time::Duration;

use firstseen::{
    ClaimBatch, Error, Fingerprint, Known, Lease, Maintenance, ManualClock, Options, Progress, Result,
    Secret, Store, Timestamp, Token, Verdict,
};

use crate::coverage::{Coverage, Event};
use crate::ops::{End, Id, Length, Op, Setup};
use crate::twin::{Fact, Moment, Twin};

/// Steps of maintenance after which a store of a hundred IDs has nothing to do any more.
const STEPS_MAX: usize = 1_000;

/// Tables that a store at rest has at most: it merges above 4 frozen ones, above 16 in a store with a window.
const TABLES_AT_REST: [usize; 2] = [6, 18];

/// An ID that is never recorded: asking for it tells the store what time it is.
const PIN: &str = "pin";

pub(crate) type Outcome<T = ()> = std::result::Result<T, String>;

/// Where a store keeps its state, to be opened from again.
pub(crate) trait Place {
    /// Opens the store, in ways of this place.
    fn open(&self, options: Options) -> Result<Store>;

    /// Ends a run, so that all that was answered is still there; handles of it may live on.
    fn end(&mut self, end: End, store: &Store) -> Result<()>;
}

/// A store and its twin on their way through one sequence.
pub(crate) struct Run<'c> {
    place: Option<Box<dyn Place>>,
    options: Options,
    pub(crate) store: Store,
    pub(crate) clock: ManualClock,
    pub(crate) twin: Twin,
    pub(crate) coverage: &'c Coverage,
    pub(crate) handles: Vec<(Id, Lease)>,
    pub(crate) batches: Vec<(Vec<Id>, ClaimBatch)>,
    pub(crate) tokens: Vec<(Id, Token)>,
}

/// Runs `ops` in order; the message of a failure says at which one answers differ.
pub(crate) fn sequence(
    setup: &Setup,
    place: Option<Box<dyn Place>>,
    ops: &[Op],
    coverage: &Coverage,
) -> Outcome {
    let mut run = Run::new(setup, place, coverage)?;
    for (index, op) in ops.iter().enumerate() {
        let told = |text| format!("op {index}, {op:?}: {text}");
        run.step(op).and_then(|()| run.compare_counts()).map_err(told)?;
    }
    run.finish()
}

pub(crate) fn same<T: PartialEq + Debug>(what: &str, store: &T, twin: &T) -> Outcome {
    if store == twin { Ok(()) } else { Err(format!("{what}: the store says {store:?}, the twin {twin:?}")) }
}

pub(crate) fn told<T>(answer: Result<T>) -> Outcome<T> {
    answer.map_err(|error| format!("the store refuses: {error}"))
}

pub(crate) fn name(id: Id) -> String {
    format!("id-{id}")
}

fn open(place: Option<&dyn Place>, options: Options) -> Result<Store> {
    match place {
        None => Store::in_memory(options),
        Some(place) => place.open(options),
    }
}

impl<'c> Run<'c> {
    fn new(setup: &Setup, place: Option<Box<dyn Place>>, coverage: &'c Coverage) -> Outcome<Run<'c>> {
        let twin = Twin::new(setup);
        let clock = ManualClock::new(Timestamp::from_millis(setup.start_ms));
        let mut options = Options::new()
            .window(setup.window)
            .secret(Secret::from_bytes(std::array::from_fn(|index| {
                u8::try_from(index).unwrap().wrapping_mul(37)
            })))
            .clock(clock.clock())
            .maintenance(Maintenance::Manual)
            .first_table_lines(setup.first_table_lines);
        if setup.ttl_factor.is_some() && !twin.is_forever() {
            options = options.ttl_max(Duration::from_millis(twin.ttl_ms_max));
        }
        let store = told(open(place.as_deref(), options.clone()))?;
        let tick_ms = if twin.is_forever() { 0 } else { twin.tick_ms };
        same("milliseconds in a tick", &store.stats().tick_ms, &tick_ms)?;
        let (handles, batches, tokens) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Run { place, options, store, clock, twin, coverage, handles, batches, tokens })
    }

    fn step(&mut self, op: &Op) -> Outcome {
        match op {
            Op::Check(id) => {
                let at = self.moment();
                let given = told(self.store.check(name(*id)))?;
                self.compare_check(*id, at, given)
            }
            Op::CheckAt(id, length, is_back) => self.check_at(*id, *length, *is_back),
            Op::CheckWith(id, length) => self.check_with(*id, *length),
            Op::CheckBatch(ids) => self.check_batch(ids, false),
            Op::CheckFingerprints(ids) => self.check_batch(ids, true),
            Op::Contains(id) => {
                let at = self.moment();
                let given = told(self.store.contains(name(*id)))?;
                same("contains", &given, &self.twin.contains(*id, at, given))
            }
            Op::Explain(id) => self.explain(*id),
            Op::Claim(id, length) => {
                let (at, lease) = (self.moment(), self.lease_length(*length));
                let claim = told(self.store.claim(name(*id), lease))?;
                self.compare_claim(*id, at, lease, &claim)?;
                self.handles.extend(claim.into_lease().map(|lease| (*id, lease)));
                Ok(())
            }
            Op::ClaimBatch(ids, length, after) => self.claim_batch(ids, *length, *after),
            Op::CommitBatch if self.batches.is_empty() => Ok(()),
            Op::CommitBatch => {
                let (ids, batch) = self.batches.remove(0);
                self.commit_batch(&ids, batch)
            }
            Op::Handle(index, usage) => self.use_handle(*index, *usage),
            Op::Token(age, usage) => self.use_token(*age, *usage),
            Op::Forget(id) => {
                let at = self.moment();
                let given = told(self.store.forget(name(*id)))?;
                same("forget", &given, &self.twin.forget(*id, at, given))
            }
            Op::Advance(length) => {
                self.clock.advance(Duration::from_millis(length.millis(self.twin.window_ms)));
                Ok(())
            }
            Op::SetBack(length) => self.set_back(*length),
            Op::Maintain(steps) => {
                self.pin()?;
                (0..*steps).try_for_each(|_| told(self.store.maintain().map(drop)))
            }
            Op::MaintainUntilIdle => self.maintain_until_idle(),
            Op::Reopen(end) => self.reopen(*end),
        }
    }

    /// Ends the run of the store and opens it again.
    fn reopen(&mut self, end: End) -> Outcome {
        let Some(place) = &mut self.place else { return Ok(()) };
        told(place.end(end, &self.store))?;
        self.handles.clear();
        self.batches.clear();
        self.coverage.stats(&self.store.stats());
        // Drops the old one, which may have the place locked.
        self.store = told(Store::in_memory(self.options.clone()))?;
        // How late it was a kill may have made it forget: windows end late then, and the twin cannot know.
        self.clock.set(Timestamp::from_millis(self.clock_ms().max(self.twin.time_ms)));
        self.store = told(open(self.place.as_deref(), self.options.clone()))?;
        self.twin.reopen();
        self.compare_all()
    }

    fn clock_ms(&self) -> u64 {
        self.clock.now().as_millis()
    }

    fn merges(&self) -> u64 {
        self.store.stats().merges
    }

    /// The moment of a call that reads the clock.
    pub(crate) fn moment(&mut self) -> Moment {
        self.moment_with(self.twin.window_ms)
    }

    fn moment_with(&mut self, ttl_ms: u64) -> Moment {
        let (clock_ms, merges) = (self.clock_ms(), self.merges());
        self.twin.moment(clock_ms, clock_ms, ttl_ms, merges)
    }

    /// Lets both know the time, so that it does not matter whether maintenance reads the clock.
    fn pin(&mut self) -> Outcome {
        self.moment();
        same("an ID that nobody recorded", &told(self.store.contains(PIN))?, &false)
    }

    pub(crate) fn lease_length(&self, length: Length) -> Duration {
        Duration::from_millis(length.millis(self.twin.window_ms.min(10_000)))
    }

    fn compare_check(&mut self, id: Id, at: Moment, given: Verdict) -> Outcome {
        let before = self.twin.entries.get(&id).copied().unwrap_or_default();
        same("verdict", &given, &self.twin.check(id, at, given))?;
        self.coverage.verdict(given);
        match (given, before.fact) {
            (Verdict::FirstSeen, _) if before.lease.is_some() => self.coverage.hit(Event::CheckTakeover),
            (Verdict::FirstSeen, Fact::Seen(_)) => self.coverage.hit(Event::SeenAfterWindow),
            (Verdict::FirstSeen, Fact::Forgotten(..)) => self.coverage.hit(Event::SeenAfterForget),
            (Verdict::Duplicate, fact) if fact != self.twin.entries[&id].fact => {
                self.coverage.hit(Event::Slid);
            }
            _ => {}
        }
        Ok(())
    }

    fn check_at(&mut self, id: Id, length: Length, is_back: bool) -> Outcome {
        let millis = length.millis(self.twin.window_ms);
        let mut now_ms = self.twin.time_ms;
        now_ms = if is_back { now_ms.saturating_sub(millis) } else { now_ms + millis };
        if now_ms < self.clock_ms() {
            // A rotation on the way may read the clock, or not: the twin cannot know.
            self.pin()?;
        }
        let (clock_ms, merges) = (self.clock_ms(), self.merges());
        let at = self.twin.moment(now_ms, clock_ms, self.twin.window_ms, merges);
        let given = told(self.store.check_at(name(id), Timestamp::from_millis(now_ms)))?;
        self.compare_check(id, at, given)
    }

    fn check_with(&mut self, id: Id, length: Length) -> Outcome {
        let ttl_ms = length.millis(self.twin.window_ms).max(1);
        let at = self.moment_with(ttl_ms);
        let given = self.store.check_with(name(id), Duration::from_millis(ttl_ms));
        let longest_ms = self.twin.ttl_ms_max;
        if self.twin.is_forever() || ttl_ms > longest_ms {
            return same("check_with", &given, &Err(Error::TimeToLive { asked_ms: ttl_ms, longest_ms }));
        }
        self.compare_check(id, at, told(given)?)
    }

    fn check_batch(&mut self, ids: &[Id], is_hashed: bool) -> Outcome {
        let at = self.moment();
        let names: Vec<String> = ids.iter().map(|id| name(*id)).collect();
        let mut verdicts = vec![Verdict::InFlight; ids.len()];
        if is_hashed {
            let keys: Result<Vec<Fingerprint>> =
                names.iter().map(|name| self.store.fingerprint(name)).collect();
            told(self.store.check_fingerprints(&told(keys)?, &mut verdicts))?;
        } else {
            told(self.store.check_batch(&names, &mut verdicts))?;
        }
        for (index, (id, given)) in ids.iter().zip(verdicts).enumerate() {
            self.compare_check(*id, at, given).map_err(|text| format!("item {index}, ID {id}: {text}"))?;
        }
        Ok(())
    }

    fn explain(&mut self, id: Id) -> Outcome {
        let at = self.moment();
        let given = told(self.store.explain(name(id)))?;
        same("is_seen", &given.is_seen, &self.twin.contains(id, at, given.is_seen))?;
        let entry = self.twin.entries[&id];
        let lease = entry.live_lease(at.clock_ms).map(|held| (held.attempt, held.until_ms));
        same("lease", &given.lease.map(|(attempt, until)| (attempt, until.as_millis())), &lease)?;
        let is_telling = |known: &Known| !matches!(known, Known::Screened | Known::Absent | Known::Undecided);
        let first = given.tables.iter().map(|(_, known)| known).find(|known| is_telling(known));
        // A window that is over may be told by an older table, after the newer one was dropped.
        match (first, entry.fact) {
            (_, _) if !given.is_seen => {}
            (Some(Known::Seen { until: None }), Fact::Seen(_)) if self.twin.is_forever() => {}
            (Some(Known::Seen { until: Some(until) }), Fact::Seen(expected)) => {
                let tick = until.as_millis() / self.twin.tick_ms;
                same("end of the window", &tick, &tick.clamp(expected.earliest, expected.latest))?;
            }
            _ => return Err(format!("seen, but by no table: {given}")),
        }
        let has = |wanted: &str| given.tables.iter().any(|(role, _)| *role == wanted);
        self.coverage.add(Event::Closing, u64::from(has("closing")));
        let screened = given.tables.iter().filter(|(_, known)| *known == Known::Screened).count();
        self.coverage.add(Event::Screened, screened as u64);
        Ok(())
    }

    fn set_back(&mut self, length: Length) -> Outcome {
        self.pin()?;
        let back = length.millis(self.twin.window_ms);
        self.clock.set(Timestamp::from_millis(self.clock_ms().saturating_sub(back)));
        Ok(())
    }
}

/// What must hold at any time, and at the end.
impl Run<'_> {
    fn compare_counts(&self) -> Outcome {
        let stats = self.store.stats();
        same("leases", &stats.leases, &self.twin.leases())?;
        same("leases lost", &stats.leases_lost, &self.twin.leases_lost)?;
        let (len, now) = (self.store.len(), self.now());
        let (least, most) =
            (self.twin.live(now), (self.twin.entries.len() * (stats.tables + stats.generations)) as u64);
        if len < least || len > most {
            return Err(format!("len is {len}, with {least} live IDs and at most {most} slots"));
        }
        if self.twin.is_plain && !self.twin.is_any_over(now) {
            same("len of IDs with one state each", &len, &least)?;
        }
        same("is_empty", &self.store.is_empty(), &(len == 0))
    }

    /// The store's present in ticks.
    fn now(&self) -> u64 {
        if self.twin.is_forever() { 0 } else { self.twin.time_ms / self.twin.tick_ms }
    }

    fn maintain_until_idle(&mut self) -> Outcome {
        self.pin()?;
        for _ in 0..STEPS_MAX {
            if told(self.store.maintain())? == Progress::Idle {
                let most = TABLES_AT_REST[usize::from(!self.twin.is_forever())];
                let stats = self.store.stats();
                let is_at_rest = stats.tables <= most && stats.tables_unfiltered == 0;
                return if is_at_rest { Ok(()) } else { Err(format!("idle with {stats:?}")) };
            }
        }
        Err(format!("not idle after {STEPS_MAX} steps: {:?}", self.store.stats()))
    }

    /// Asks for every ID, before and after all background work, then lets every window end.
    fn finish(mut self) -> Outcome {
        let told = |text| format!("at the end: {text}");
        self.compare_all().map_err(told)?;
        self.maintain_until_idle().map_err(told)?;
        self.compare_all().map_err(told)?;
        self.outlast().map_err(told)?;
        self.coverage.stats(&self.store.stats());
        Ok(())
    }

    fn compare_all(&mut self) -> Outcome {
        let mut ids: Vec<Id> = self.twin.entries.keys().copied().collect();
        ids.sort_unstable();
        for id in ids {
            self.explain(id).map_err(|text| format!("ID {id}: {text}"))?;
        }
        self.compare_counts()
    }

    /// Frees all leases and goes on until every window is over and every table old: nothing may be left.
    fn outlast(&mut self) -> Outcome {
        self.handles.clear();
        self.batches.clear();
        for (id, entry) in &self.twin.entries {
            // Tokens were thrown away; the handles that were dropped just now have freed theirs.
            let Some(held) = entry.lease else { continue };
            let token = Token::from_parts(told(self.store.fingerprint(name(*id)))?, held.attempt);
            let _ = self.store.abort(token);
        }
        same("leases after all were aborted", &self.store.stats().leases, &0)?;
        if self.twin.is_forever() {
            return Ok(());
        }
        self.clock.set(Timestamp::from_millis(self.twin.time_ms.max(self.clock_ms())));
        self.clock.advance(Duration::from_millis(self.twin.ttl_ms_max + 100_000));
        self.maintain_until_idle()?;
        self.coverage.hit(Event::Emptied);
        same("IDs held when all is over", &self.store.len(), &0)
    }
}
