//! Random calls on a store of a simulated disk, each answer compared with the model.
//!
//! Every moment at which the machine could stop is kept.

use std::time::Duration;

use firstseen::testing::SimDisk;
use firstseen::{Claim, Durability, Error, ManualClock, Result, Store, Timestamp, Token, Verdict};

use crate::model::{Claimed, Held, IDS_USED, Id, Model};
use crate::random::Random;
use crate::setup::{Setup, open};

pub(crate) type Outcome<T = ()> = std::result::Result<T, String>;

/// Where a store stands before one call, by operations of its disk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    ops: u64,
    pub(crate) now_ms: u64,
    /// Steps that were answered, and those of them that a sync has covered.
    pub(crate) acked: usize,
    pub(crate) durable: usize,
    /// Steps that the call under way may have taken.
    pub(crate) high: usize,
    pub(crate) attempt_max: u64,
}

/// What happened on one disk, from one opening to the moment when the process was killed.
#[derive(Debug)]
pub(crate) struct Section {
    disk: SimDisk,
    states: Vec<(u64, SimDisk)>,
    moments: Vec<Moment>,
}

pub(crate) struct Workload {
    pub(crate) setup: Setup,
    pub(crate) model: Model,
    pub(crate) sections: Vec<Section>,
    pub(crate) tokens: Vec<(Id, Token)>,
    clock: ManualClock,
    random: Random,
    store: Option<Store>,
    durable: usize,
}

impl Section {
    /// Nothing that the disk does from now on belongs to it.
    fn end(&mut self) {
        self.states = self.disk.recorded();
        self.states.push((self.disk.ops(), self.disk.kill()));
    }

    /// Every state of the disk in order, with the moment that it belongs to.
    pub(crate) fn states(&self) -> impl Iterator<Item = (&SimDisk, Moment)> {
        self.states.iter().map(|(ops, disk)| {
            let behind = self.moments.partition_point(|moment| moment.ops <= *ops);
            (disk, self.moments[behind.saturating_sub(1)])
        })
    }
}

pub(crate) fn name(id: Id) -> String {
    format!("id-{id}")
}

pub(crate) fn same<T: PartialEq + std::fmt::Debug>(what: &str, store: &T, model: &T) -> Outcome {
    if store == model {
        Ok(())
    } else {
        Err(format!("{what}: the store says {store:?}, the model {model:?}"))
    }
}

pub(crate) fn told<T>(answer: Result<T>) -> Outcome<T> {
    answer.map_err(|error| format!("the store refuses: {error}"))
}

impl Workload {
    /// Runs `calls` calls that the seed decides.
    pub(crate) fn run(seed: u64, calls: usize) -> Outcome<Workload> {
        let mut random = Random::new(seed);
        let setup = Setup::random(&mut random);
        let mut workload = Workload {
            setup,
            model: Model::new(setup.window),
            sections: Vec::new(),
            tokens: Vec::new(),
            clock: ManualClock::new(Timestamp::from_millis(1_700_000_000_000)),
            random,
            store: None,
            durable: 0,
        };
        let disk = SimDisk::new(seed);
        disk.rename_torn(workload.random.chance(1, 2));
        workload.begin(disk)?;
        for call in 0..calls {
            workload.call().map_err(|text| format!("call {call}: {text}"))?;
        }
        workload.mark();
        drop(workload.store.take());
        workload.sections.last_mut().unwrap().end();
        Ok(workload)
    }

    /// Opens the store on a disk, and keeps all states of it from then on.
    fn begin(&mut self, disk: SimDisk) -> Outcome {
        disk.record();
        self.sections.push(Section { disk, states: Vec::new(), moments: Vec::new() });
        self.open()
    }

    fn open(&mut self) -> Outcome {
        self.mark();
        self.model.reopen();
        let options = self.setup.options(self.clock.clock());
        self.store = Some(told(open(&self.sections.last().unwrap().disk, options))?);
        self.answered(false);
        Ok(())
    }

    fn now_ms(&self) -> u64 {
        self.clock.now().as_millis()
    }

    /// A call begins.
    fn mark(&mut self) {
        let section = self.sections.last_mut().unwrap();
        section.moments.push(Moment {
            ops: section.disk.ops(),
            now_ms: self.clock.now().as_millis(),
            acked: self.model.steps.len(),
            durable: self.durable,
            high: self.model.steps.len(),
            attempt_max: self.model.attempt_max,
        });
    }

    /// The call was answered; whether it has synced all that was answered.
    fn answered(&mut self, is_synced: bool) {
        if is_synced || self.setup.durability == Durability::Sync {
            self.durable = self.model.steps.len();
        }
        let moment = self.sections.last_mut().unwrap().moments.last_mut().unwrap();
        moment.high = self.model.steps.len();
    }

    fn store(&self) -> Store {
        self.store.clone().unwrap()
    }

    fn id(&mut self) -> Id {
        let bound = self.random.pick(&[4, 12, IDS_USED]);
        u8::try_from(self.random.below(u64::from(bound))).unwrap()
    }

    fn ids(&mut self) -> Vec<Id> {
        (0..1 + self.random.below(12)).map(|_| self.id()).collect()
    }

    fn call(&mut self) -> Outcome {
        let kind = self.random.below(40);
        self.mark();
        match kind {
            0..=9 => self.check(),
            10..=12 => self.check_batch(),
            13..=14 => self.check_with(),
            15..=18 => self.claim(),
            19..=21 => self.end_lease(),
            22..=23 => self.commit_with(),
            24..=25 => self.forget(),
            26..=28 => self.advance(),
            29..=35 => self.maintain(),
            36 => self.persist(),
            37 => self.close(),
            38 => self.kill(),
            _ => self.contains(),
        }
    }

    fn check(&mut self) -> Outcome {
        let (id, now_ms) = (self.id(), self.now_ms());
        let given = told(self.store().check(name(id)))?;
        same("check", &given, &self.model.check(id, now_ms, None))?;
        self.answered(false);
        Ok(())
    }

    fn check_with(&mut self) -> Outcome {
        let (id, now_ms) = (self.id(), self.now_ms());
        let ttl = Duration::from_millis(self.random.pick(&[1, 700, 3_000, 4_000, 8_000]));
        match self.store().check_with(name(id), ttl) {
            Err(Error::TimeToLive { longest_ms: 0, .. }) => {}
            given => same("check_with", &told(given)?, &self.model.check(id, now_ms, Some(ttl)))?,
        }
        self.answered(false);
        Ok(())
    }

    fn check_batch(&mut self) -> Outcome {
        let (ids, now_ms) = (self.ids(), self.now_ms());
        let names: Vec<String> = ids.iter().map(|id| name(*id)).collect();
        let mut given = vec![Verdict::default(); ids.len()];
        told(self.store().check_batch(&names, &mut given))?;
        let expected: Vec<Verdict> = ids.iter().map(|id| self.model.check(*id, now_ms, None)).collect();
        self.answered(false);
        same("check_batch", &given, &expected)
    }

    fn contains(&mut self) -> Outcome {
        let (id, now_ms) = (self.id(), self.now_ms());
        let given = told(self.store().contains(name(id)))?;
        same("contains", &given, &self.model.facts[usize::from(id)].is_live(now_ms))
    }

    fn claim(&mut self) -> Outcome {
        let (id, now_ms) = (self.id(), self.now_ms());
        let length_ms = self.random.pick(&[0, 500, 5_000]);
        let claim = told(self.store().claim(name(id), Duration::from_millis(length_ms)))?;
        let expected = self.model.claim(id, now_ms);
        let given = match &claim {
            Claim::Leased(_) => Claimed::Leased,
            Claim::Duplicate => Claimed::Duplicate,
            Claim::InFlight { .. } => Claimed::InFlight,
        };
        same("claim", &given, &expected)?;
        if let Claim::Leased(lease) = claim {
            let token = lease.into_token();
            let held = Held { attempt: token.attempt(), until_ms: now_ms + length_ms };
            same("attempt numbers only grow", &self.model.lease(id, held), &true)?;
            self.tokens.push((id, token));
        }
        self.answered(false);
        Ok(())
    }

    fn end_lease(&mut self) -> Outcome {
        if self.tokens.is_empty() {
            return Ok(());
        }
        let recent = self.tokens.len() - 1 - self.random.index(self.tokens.len().min(4));
        let (id, token) = self.tokens[recent];
        let attempt = token.attempt();
        if self.random.chance(1, 4) {
            let is_held = self.model.end(id, attempt);
            let expected = if is_held { Ok(()) } else { Err(Error::LeaseLost { attempt }) };
            return same("abort", &self.store().abort(token), &expected);
        }
        let given = self.store().commit(token);
        let now_ms = self.now_ms();
        let expected = if self.model.end(id, attempt) {
            self.model.commit(&[id], None, now_ms);
            Ok(())
        } else {
            Err(Error::LeaseLost { attempt })
        };
        self.answered(false);
        same("commit", &given, &expected)
    }

    /// Claims a batch and commits it with a cursor.
    fn commit_with(&mut self) -> Outcome {
        let (ids, now_ms) = (self.ids(), self.now_ms());
        let names: Vec<String> = ids.iter().map(|id| name(*id)).collect();
        let batch = told(self.store().claim_batch(&names, Duration::from_secs(5)))?;
        let mut leased = Vec::new();
        for (id, claim) in ids.iter().zip(batch.claims()) {
            let expected = self.model.claim(*id, now_ms);
            same("claim in a batch", &matches!(claim, Claim::Leased(_)), &(expected == Claimed::Leased))?;
            if let Claim::Leased(lease) = claim {
                let attempt = lease.token().attempt();
                self.model.lease(*id, Held { attempt, until_ms: now_ms + 5_000 });
                self.tokens.push((*id, lease.token()));
                leased.push(*id);
            }
        }
        let cursor = self.model.cursor.unwrap_or(0) + 1;
        // Without a log nothing binds a cursor to its facts.
        let is_bound = self.setup.durability != Durability::None;
        let given = told(if is_bound { batch.commit_with(&[("cursor", cursor)]) } else { batch.commit() })?;
        self.model.commit(&leased, is_bound.then_some(cursor), now_ms);
        self.answered(false);
        same("commit_with", &given, &leased.len())
    }

    fn forget(&mut self) -> Outcome {
        let (id, now_ms) = (self.id(), self.now_ms());
        let given = told(self.store().forget(name(id)))?;
        same("forget", &given, &self.model.forget(id, now_ms))?;
        self.answered(false);
        Ok(())
    }

    fn advance(&mut self) -> Outcome {
        let by_ms = self.random.pick(&[1, 300, 1_000, 1_001, 3_999, 4_000]);
        self.clock.advance(Duration::from_millis(by_ms));
        Ok(())
    }

    fn maintain(&mut self) -> Outcome {
        let store = self.store();
        for _ in 0..1 + self.random.below(12) {
            let syncs = store.stats().log_syncs;
            told(store.maintain())?;
            // One thread: what a step syncs includes all that was answered.
            self.answered(store.stats().log_syncs > syncs);
            self.mark();
        }
        Ok(())
    }

    fn persist(&mut self) -> Outcome {
        told(self.store().persist())?;
        self.answered(true);
        Ok(())
    }

    fn close(&mut self) -> Outcome {
        told(self.store.take().unwrap().close())?;
        self.answered(true);
        self.open()
    }

    /// The process is killed, where that loses nothing; else the store is dropped without being closed.
    fn kill(&mut self) -> Outcome {
        match self.setup.durability {
            Durability::Buffered | Durability::Sync => {
                let section = self.sections.last_mut().unwrap();
                section.end();
                let killed = section.disk.kill();
                // What it does from here on is not on the disk that goes on.
                drop(self.store.take());
                self.begin(killed)
            }
            Durability::Deferred(_) => {
                drop(self.store.take());
                self.answered(true);
                self.open()
            }
            _ => Ok(()),
        }
    }
}
