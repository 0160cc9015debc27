//! Fixed sequences of calls, stopped by the first that fails.

use std::time::Duration;

use firstseen::testing::SimDisk;
use firstseen::{Durability, Error, FileAccess, ManualClock, Result, Store, Timestamp, Verdict, Window};

use crate::model::{IDS, Id, Model, Observed};
use crate::setup::{SEGMENT_BYTES, Setup, open, settle};
use crate::workload::{Outcome, name, told};

#[derive(Clone, Copy, Debug)]
pub(crate) enum Call {
    Check(Id),
    /// So many IDs from the first on, in one batch.
    Batch(Id, Id),
    /// The same, claimed and committed with a cursor.
    CommitWith(Id, Id),
    Forget(Id),
    Maintain,
    Settle,
    Persist,
    Reopen,
    Advance(u64),
}

use Call::{Advance, Batch, Check, CommitWith, Forget, Maintain, Persist, Reopen, Settle};

/// A store and what is done with it.
pub(crate) struct Script {
    pub(crate) setup: Setup,
    pub(crate) calls: Vec<Call>,
}

/// How far a script came.
pub(crate) struct Run {
    pub(crate) model: Model,
    pub(crate) now_ms: u64,
    /// Steps that were answered, and those that a sync had covered by then.
    pub(crate) acked: usize,
    pub(crate) durable: usize,
    /// Steps that the failed call may have taken.
    pub(crate) high: usize,
    pub(crate) failure: Option<(Option<Call>, Error)>,
    /// The store, unless it could not be opened or was closed.
    pub(crate) store: Option<Store>,
}

pub(crate) fn scripts() -> Vec<Script> {
    let setup = Setup { segment_bytes: SEGMENT_BYTES - 2496, ..Setup::default() };
    let sync = Setup { durability: Durability::Sync, ..setup };
    let windows = Setup { window: Window::Fixed(Duration::from_secs(4)), ..setup };
    let none = Setup { durability: Durability::None, ..setup };
    let deferred = Setup { durability: Durability::Deferred(Duration::from_secs(1)), ..setup };
    let script = |setup, calls: Vec<Call>| Script { setup, calls };
    vec![
        script(sync, (0..30).map(Check).chain([Settle, Check(31), Maintain, Check(0)]).collect()),
        script(
            setup,
            vec![Batch(0, 9), Settle, Batch(5, 9), Forget(2), Persist, Settle, Reopen, Batch(0, 20)],
        ),
        script(
            windows,
            vec![
                Batch(0, 5),
                Settle,
                Advance(2_000),
                Batch(3, 9),
                Settle,
                Advance(2_100),
                Settle,
                Batch(0, 9),
            ]
            .into_iter()
            .chain([Forget(1), Advance(1_000), Settle, Check(1), Reopen, Advance(4_000), Settle, Check(30)])
            .collect(),
        ),
        script(
            sync,
            vec![
                CommitWith(0, 6),
                Maintain,
                CommitWith(4, 6),
                Settle,
                CommitWith(9, 2),
                Reopen,
                CommitWith(9, 9),
            ],
        ),
        script(
            none,
            vec![Batch(0, 5), Persist, Batch(3, 9), Settle, Forget(1), Reopen, Batch(0, 20), Persist],
        ),
        script(deferred, vec![Batch(0, 9), Advance(1_000), Maintain, Batch(9, 9), Settle, Reopen, Check(1)]),
    ]
}

impl Script {
    /// Runs on a disk until a call fails.
    pub(crate) fn run(&self, disk: &SimDisk) -> Run {
        let model = Model::new(self.setup.window);
        let now_ms = 1_700_000_000_000;
        let clock = ManualClock::new(Timestamp::from_millis(now_ms));
        let mut run = Run { model, now_ms, acked: 0, durable: 0, high: 0, failure: None, store: None };
        match open(disk, self.setup.options(clock.clock())) {
            Ok(store) => run.store = Some(store),
            Err(error) => run.failure = Some((None, error)),
        }
        for call in &self.calls {
            if run.failure.is_some() {
                break;
            }
            let outcome = self.call(*call, &mut run, disk, &clock);
            run.high = run.model.steps.len();
            run.now_ms = clock.now().as_millis();
            match outcome {
                Ok(is_synced) => {
                    run.acked = run.high;
                    if is_synced || self.setup.durability == Durability::Sync {
                        run.durable = run.high;
                    }
                }
                Err(error) => run.failure = Some((Some(*call), error)),
            }
        }
        run
    }

    /// One call; whether it has synced everything.
    fn call(&self, call: Call, run: &mut Run, disk: &SimDisk, clock: &ManualClock) -> Result<bool> {
        let store = run.store.clone().unwrap();
        let now_ms = run.now_ms;
        match call {
            Check(id) => {
                let expected = run.model.check(id, now_ms, None);
                assert_eq!(store.check(name(id))?, expected, "{call:?}");
            }
            Batch(first, count) => batch(&store, run, first..first + count)?,
            CommitWith(first, count) => commit_with(&store, run, first..first + count)?,
            Forget(id) => {
                let expected = run.model.forget(id, now_ms);
                assert_eq!(store.forget(name(id))?, expected, "{call:?}");
            }
            Maintain => {
                let _ = store.maintain()?;
            }
            Settle => settle(&store)?,
            Persist => store.persist()?,
            Advance(by_ms) => drop(clock.advance(Duration::from_millis(by_ms))),
            Reopen => {
                drop(run.store.take());
                store.close()?;
                run.store = Some(open(disk, self.setup.options(clock.clock()))?);
            }
        }
        Ok(matches!(call, Persist | Reopen))
    }
}

fn batch(store: &Store, run: &mut Run, ids: std::ops::Range<Id>) -> Result<()> {
    let expected: Vec<Verdict> = ids.clone().map(|id| run.model.check(id, run.now_ms, None)).collect();
    let names: Vec<String> = ids.map(name).collect();
    let mut given = vec![Verdict::default(); names.len()];
    store.check_batch(&names, &mut given)?;
    assert_eq!(given, expected);
    Ok(())
}

fn commit_with(store: &Store, run: &mut Run, ids: std::ops::Range<Id>) -> Result<()> {
    let names: Vec<String> = ids.clone().map(name).collect();
    let batch = store.claim_batch(&names, Duration::from_secs(5))?;
    let leased: Vec<Id> = batch.leased().map(|index| ids.clone().nth(index).unwrap()).collect();
    let cursor = run.model.cursor.unwrap_or(0) + 1;
    run.model.commit(&leased, Some(cursor), run.now_ms);
    assert_eq!(batch.commit_with(&[("cursor", cursor)])?, leased.len());
    Ok(())
}

/// Opens what a run has left, and compares it with all that was answered.
pub(crate) fn compare(script: &Script, run: &Run, image: &SimDisk, low: usize) -> Outcome {
    let store = told(script.setup.open_at(image, run.now_ms, FileAccess::Map))?;
    let mut seen = Vec::new();
    for id in 0..IDS {
        seen.push(told(store.contains(name(id)))?);
    }
    let said = Observed { seen, cursor: store.cursor("cursor") };
    if run.model.prefix(low, run.high, run.now_ms, &said).is_none() {
        let steps = &run.model.steps;
        return Err(format!("no prefix of {low}..={} steps: {said:?}; {steps:?}", run.high));
    }
    for (id, is_seen) in (0..).zip(&said.seen) {
        let expected = if *is_seen { Verdict::Duplicate } else { Verdict::FirstSeen };
        if told(store.check(name(id)))? != expected {
            return Err(format!("ID {id} is not what it was said to be"));
        }
    }
    told(store.close())
}
