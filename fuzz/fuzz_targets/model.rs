//! What a store is to answer, said in the plainest way: a map of IDs, a map of leases and a clock.

use std::collections::HashMap;
use std::time::Duration;

use firstseen::{Verdict, Window};

/// Where time ends: the store takes every later one for this.
const TIME_MS_MAX: u64 = (u64::MAX >> 2) - (1 << 42);

/// What is known of one ID.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// End of its latest window; zero when there was none.
    until_ms: u64,
    /// Whether it was forgotten or claimed since: then it is not seen, whatever its window says.
    is_hidden: bool,
}

/// One lease.
#[derive(Clone, Copy, Debug)]
struct Lease {
    number: usize,
    until_ms: u64,
}

/// The answer to a claim.
#[derive(Debug)]
pub enum Claimed {
    Leased(usize),
    Duplicate,
    InFlight(u64),
}

/// The twin of a store.
#[derive(Debug)]
pub struct Model {
    window: Window,
    ttl_ms_max: Option<u64>,
    clock_ms: u64,
    /// The latest time that any call has brought.
    latest_ms: u64,
    known: HashMap<u8, Known>,
    leases: HashMap<u8, Lease>,
    /// The ID of each lease there has ever been.
    leased: Vec<u8>,
}

impl Model {
    pub fn new(window: Window, ttl_max: Option<Duration>, clock_ms: u64) -> Model {
        Model {
            window,
            ttl_ms_max: ttl_max.map(millis),
            clock_ms,
            latest_ms: clock_ms,
            known: HashMap::new(),
            leases: HashMap::new(),
            leased: Vec::new(),
        }
    }

    pub fn advance(&mut self, length_ms: u64) {
        self.clock_ms += length_ms;
    }

    pub fn check(&mut self, id: u8) -> Verdict {
        self.check_at(id, self.clock_ms)
    }

    pub fn check_at(&mut self, id: u8, at_ms: u64) -> Verdict {
        let now_ms = self.now(at_ms);
        self.decide(id, now_ms, self.window_ms())
    }

    /// `None` when the store is to refuse so long a time to live.
    pub fn check_with(&mut self, id: u8, ttl_ms: u64) -> Option<Verdict> {
        let now_ms = self.now(self.clock_ms);
        let is_taken = self.ttl_ms_max.is_some_and(|longest_ms| ttl_ms <= longest_ms);
        is_taken.then(|| self.decide(id, now_ms, ttl_ms))
    }

    pub fn claim(&mut self, id: u8, length_ms: u64) -> Claimed {
        if self.contains(id) {
            let now_ms = self.now(self.clock_ms);
            self.slide(id, now_ms, self.window_ms());
            return Claimed::Duplicate;
        }
        if let Some(lease) = self.live_lease(id) {
            return Claimed::InFlight(lease.until_ms);
        }
        let number = self.leased.len();
        self.leased.push(id);
        self.leases.insert(id, Lease { number, until_ms: self.clock_ms + length_ms });
        self.known.entry(id).or_default().is_hidden = true;
        Claimed::Leased(number)
    }

    /// Whether the lease was still held; one that is over is, until somebody takes the ID over.
    pub fn commit(&mut self, number: usize) -> bool {
        let is_held = self.abort(number);
        if is_held {
            let now_ms = self.now(self.clock_ms);
            self.see(self.leased[number], now_ms, self.window_ms());
        }
        is_held
    }

    pub fn abort(&mut self, number: usize) -> bool {
        let id = self.leased[number];
        let is_held = self.holder(number).is_some();
        if is_held {
            self.leases.remove(&id);
        }
        is_held
    }

    pub fn extend(&mut self, number: usize, length_ms: u64) -> bool {
        let until_ms = self.clock_ms + length_ms;
        self.holder(number).map(|lease| lease.until_ms = until_ms).is_some()
    }

    pub fn forget(&mut self, id: u8) -> bool {
        let is_seen = self.contains(id);
        if is_seen {
            self.known.entry(id).or_default().is_hidden = true;
        }
        is_seen
    }

    pub fn contains(&mut self, id: u8) -> bool {
        let now_ms = self.now(self.clock_ms);
        self.is_seen(id, now_ms)
    }

    /// The end of the lease on an ID, while it is not over.
    pub fn lease_end(&self, id: u8) -> Option<u64> {
        self.live_lease(id).map(|lease| lease.until_ms)
    }

    /// How many leases are held, those that are over but not taken over included.
    pub fn leases(&self) -> u64 {
        self.leases.len() as u64
    }

    /// Time does not go back, and stands still at its end; in a store that never forgets there is none.
    fn now(&mut self, at_ms: u64) -> u64 {
        if self.window == Window::Forever {
            return 0;
        }
        self.latest_ms = self.latest_ms.max(at_ms).min(TIME_MS_MAX);
        self.latest_ms
    }

    /// How long an ID stays seen.
    fn window_ms(&self) -> u64 {
        match self.window {
            Window::Forever => 1,
            Window::Fixed(length) | Window::Sliding(length) => millis(length),
        }
    }

    fn is_seen(&self, id: u8, now_ms: u64) -> bool {
        self.known.get(&id).is_some_and(|known| !known.is_hidden && known.until_ms > now_ms)
    }

    fn decide(&mut self, id: u8, now_ms: u64, length_ms: u64) -> Verdict {
        if self.is_seen(id, now_ms) {
            self.slide(id, now_ms, length_ms);
            return Verdict::Duplicate;
        }
        if self.live_lease(id).is_some() {
            return Verdict::InFlight;
        }
        self.leases.remove(&id);
        self.see(id, now_ms, length_ms);
        Verdict::FirstSeen
    }

    /// An ID that is seen again moves the end of its window, where windows slide.
    fn slide(&mut self, id: u8, now_ms: u64, length_ms: u64) {
        if matches!(self.window, Window::Sliding(_)) {
            let known = self.known.entry(id).or_default();
            known.until_ms = known.until_ms.max(now_ms + length_ms);
        }
    }

    /// A new window ends after every earlier one.
    fn see(&mut self, id: u8, now_ms: u64, length_ms: u64) {
        let known = self.known.entry(id).or_default();
        let after_earlier_ms = if known.until_ms > now_ms { known.until_ms + 1 } else { 0 };
        *known = Known { until_ms: after_earlier_ms.max(now_ms + length_ms), is_hidden: false };
    }

    fn live_lease(&self, id: u8) -> Option<Lease> {
        self.leases.get(&id).copied().filter(|lease| lease.until_ms > self.clock_ms)
    }

    /// The lease with a number, if nobody has taken its ID over.
    fn holder(&mut self, number: usize) -> Option<&mut Lease> {
        self.leases.get_mut(&self.leased[number]).filter(|lease| lease.number == number)
    }
}

fn millis(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}
