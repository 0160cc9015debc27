//! Any bytes as a sequence of operations: a store answers each as a slow, obvious model does.
//!
//! The first byte chooses the store: its window, its tables' size. Then each operation is one byte for what
//! is done, one for the ID, and one to eight more where a time or a token is needed; `fuzz/README.md` has the
//! table. The store has no thread of its own, its tables start with a few lines, and the clock is moved by
//! hand, so a few bytes take it through rotations, merges and expiry, and a sequence that fails fails again.
#![no_main]

mod model;
mod sequence;

use std::time::Duration;

use firstseen::{
    Claim, Error, Maintenance, ManualClock, Options, Progress, Secret, Store, Timestamp, Token, Verdict,
    Window,
};
use libfuzzer_sys::fuzz_target;

use model::{Claimed, Model};
use sequence::{IDS, Operation, START_MS, Sequence};

/// Steps of maintenance after which there must be nothing left to do.
const STEPS_MAX: usize = 10_000;

/// Steps of maintenance at most while leases are held.
const STEPS_WITH_LEASES: usize = 100;

/// The store, its model, and what both need to be asked.
struct Pair {
    store: Store,
    model: Model,
    clock: ManualClock,
    /// The token of each lease so far, and the number that the model knows it by.
    tokens: Vec<(Token, usize)>,
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&choice, rest)) = bytes.split_first() else { return };
    let mut pair = Pair::new(choice);
    for operation in Sequence::new(rest) {
        pair.apply(&operation);
    }
    pair.compare_all();
});

impl Pair {
    fn new(choice: u8) -> Pair {
        let length = Duration::from_millis([1, 50, 3_000, 100_000][usize::from(choice >> 2) % 4]);
        let window = match choice % 4 {
            0 | 1 => Window::Fixed(length),
            2 => Window::Sliding(length),
            _ => Window::Forever,
        };
        let lines = [1, 1, 2, 5][usize::from(choice >> 4) % 4];
        let clock = ManualClock::new(Timestamp::from_millis(START_MS));
        let mut options = Options::new()
            .window(window)
            .clock(clock.clock())
            .secret(Secret::from_bytes(std::array::from_fn(|index| index as u8 ^ 0x5a)))
            .maintenance(Maintenance::Manual)
            .first_table_lines(lines);
        let mut ttl_max = (window != Window::Forever).then_some(length);
        if choice & 0x40 != 0 {
            ttl_max = ttl_max.map(|length| length * 8);
            options = ttl_max.into_iter().fold(options, Options::ttl_max);
        }
        Pair {
            store: Store::in_memory(options).expect("a small store"),
            model: Model::new(window, ttl_max, START_MS),
            clock,
            tokens: Vec::new(),
        }
    }

    /// Does the same to both and compares the answers.
    fn apply(&mut self, operation: &Operation) {
        match *operation {
            Operation::Check(id) => {
                assert_eq!(self.store.check([id]), Ok(self.model.check(id)));
            }
            Operation::CheckAt(id, at_ms) => {
                let answer = self.store.check_at([id], Timestamp::from_millis(at_ms));
                assert_eq!(answer, Ok(self.model.check_at(id, at_ms)));
            }
            Operation::CheckWith(id, ttl_ms) => {
                let answer = self.store.check_with([id], Duration::from_millis(ttl_ms));
                match self.model.check_with(id, ttl_ms) {
                    Some(verdict) => assert_eq!(answer, Ok(verdict)),
                    None => assert!(matches!(answer, Err(Error::TimeToLive { .. })), "{answer:?}"),
                }
            }
            Operation::CheckBatch(ref ids) => self.check_batch(ids),
            Operation::Claim(id, length_ms) => self.claim(id, length_ms),
            Operation::Commit(choice) => self.end(choice, Store::commit, Model::commit),
            Operation::Abort(choice) => self.end(choice, Store::abort, Model::abort),
            Operation::Extend(choice, length_ms) => {
                let extend =
                    |store: &Store, token| store.extend(token, Duration::from_millis(length_ms)).map(drop);
                self.end(choice, extend, |model, number| model.extend(number, length_ms));
            }
            Operation::Forget(id) => assert_eq!(self.store.forget([id]), Ok(self.model.forget(id))),
            Operation::Contains(id) => self.compare(id),
            Operation::Advance(length_ms) => {
                self.clock.advance(Duration::from_millis(length_ms));
                self.model.advance(length_ms);
                // Maintenance brings the time too, but not in every step: from here on both have been
                // brought it.
                self.compare(0);
            }
            Operation::Maintain => _ = self.store.maintain().expect("memory for small tables"),
            Operation::Settle => self.settle(),
        }
    }

    fn check_batch(&mut self, ids: &[u8]) {
        let keys: Vec<[u8; 1]> = ids.iter().map(|id| [*id]).collect();
        let mut verdicts = vec![Verdict::default(); keys.len()];
        assert_eq!(self.store.check_batch(&keys, &mut verdicts), Ok(()));
        let expected: Vec<Verdict> = ids.iter().map(|id| self.model.check(*id)).collect();
        assert_eq!(verdicts, expected);
    }

    fn claim(&mut self, id: u8, length_ms: u64) {
        let answer = self.store.claim([id], Duration::from_millis(length_ms)).expect("there is room");
        match (answer, self.model.claim(id, length_ms)) {
            (Claim::Leased(lease), Claimed::Leased(number)) => {
                let token = lease.into_token();
                let is_larger = |(earlier, _): &(Token, usize)| token.attempt() > earlier.attempt();
                assert!(self.tokens.iter().all(is_larger), "attempts only grow: {token:?}");
                self.tokens.push((token, number));
            }
            (Claim::Duplicate, Claimed::Duplicate) => {}
            (Claim::InFlight { until }, Claimed::InFlight(until_ms)) => {
                assert_eq!(until.as_millis(), until_ms);
            }
            (answer, expected) => panic!("{answer:?}, but the model says {expected:?}"),
        }
    }

    /// Ends, or extends, the lease that `choice` picks among all there have ever been.
    fn end(
        &mut self,
        choice: u8,
        store_ends: impl Fn(&Store, Token) -> firstseen::Result<()>,
        model_ends: impl Fn(&mut Model, usize) -> bool,
    ) {
        if self.tokens.is_empty() {
            return;
        }
        let (token, number) = self.tokens[usize::from(choice) % self.tokens.len()];
        let is_held = model_ends(&mut self.model, number);
        let lost = Err(Error::LeaseLost { attempt: token.attempt() });
        assert_eq!(store_ends(&self.store, token), if is_held { Ok(()) } else { lost });
    }

    /// Steps maintenance until nothing is left to do; without leases, which are carried on into ever new
    /// tables while these are as small as here, it must come to an end.
    fn settle(&self) {
        let steps_max = if self.model.leases() == 0 { STEPS_MAX } else { STEPS_WITH_LEASES };
        let idle = Ok(Progress::Idle);
        let steps = (0..steps_max).take_while(|_| self.store.maintain() != idle).count();
        assert!(steps < STEPS_MAX, "maintenance never rests");
    }

    /// Compares what is known of one ID, without changing it.
    fn compare(&mut self, id: u8) {
        let is_seen = self.model.contains(id);
        assert_eq!(self.store.contains([id]), Ok(is_seen), "{:?}", self.store.explain([id]));
        let explained = self.store.explain([id]).expect("any ID can be explained");
        assert_eq!(explained.is_seen, is_seen, "{explained}");
        assert_eq!(
            explained.lease.map(|(_, until)| until.as_millis()),
            self.model.lease_end(id),
            "{explained}"
        );
    }

    fn compare_all(&mut self) {
        for id in 0..IDS {
            self.compare(id);
        }
        assert_eq!(self.store.stats().leases, self.model.leases());
    }
}
