//! Has this ID been seen before? Exact, lock-free deduplication of IDs inside one process, which a kill and a
//! power cut do not make forget.
//!
//! A queue delivers a message twice, a client sends its request again, a crawler meets an address it knows:
//! the question is always the same. A [`Store`] answers it for all threads of a process, for any bytes as an
//! ID, keeps what it has answered in a directory, and forgets IDs again when their window is over.
//!
//! ```
//! use firstseen::{Store, Verdict};
//!
//! # let dir = std::env::temp_dir().join(format!("firstseen-doc-first-{}", std::process::id()));
//! let store = Store::open(&dir)?; // made if it is not there
//! assert_eq!(store.check("order-17")?, Verdict::FirstSeen);
//! assert_eq!(store.check("order-17")?, Verdict::Duplicate);
//! store.close()?;
//!
//! // Another day, another process:
//! let store = Store::open(&dir)?;
//! assert_eq!(store.check("order-17")?, Verdict::Duplicate);
//! # drop(store);
//! # std::fs::remove_dir_all(&dir)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Store::in_memory`] makes one without a directory: the same calls, and nothing is left of it when the
//! process ends. Some of the examples below use it.
//!
//! # First decide when an ID counts as seen
//!
//! This is the one choice that loses or doubles work, so it comes first.
//!
//! | form | the ID is recorded | a caller that dies on the way |
//! | --- | --- | --- |
//! | claim, work, commit | **after** the work | frees the ID, the next does the work (at least once) |
//! | check | **before** the work | leaves a duplicate: the work is never done (at most once) |
//!
//! # Claim, work, commit: at least once, without doubles while the lease is kept
//!
//! [`Store::claim`] gives exactly one caller a [`Lease`] on an ID. Whoever else asks meanwhile is told that
//! it is in flight. [`Lease::commit`] records the ID; dropping the lease, by an error or a panic on the way,
//! frees it, and so does the end of the process, however it comes.
//!
//! ```
//! use std::time::Duration;
//! use firstseen::{Claim, Store};
//!
//! fn handle(store: &Store, id: &str) -> firstseen::Result<&'static str> {
//!     match store.claim(id, Duration::from_secs(30))? {
//!         Claim::Leased(lease) => {
//!             // ... the work; should it fail, return: the lease is dropped and the ID is free again ...
//!             lease.commit()?;
//!             Ok("done")
//!         }
//!         Claim::Duplicate => Ok("done before"),
//!         Claim::InFlight { until: _ } => Ok("somebody is at it: come back later"),
//!     }
//! }
//!
//! # let dir = std::env::temp_dir().join(format!("firstseen-doc-claim-{}", std::process::id()));
//! let store = Store::open(&dir)?;
//! assert_eq!(handle(&store, "payment-17")?, "done");
//! assert_eq!(handle(&store, "payment-17")?, "done before");
//! # drop(store);
//! # std::fs::remove_dir_all(&dir)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A lease is a time limit, not a lock: once it is over, anybody may take the ID over. The late holder is
//! then refused with [`Error::LeaseLost`] and changes nothing (G3), but what it did outside of the store
//! stays done. So make a lease longer than the work takes, or [`extend`](Lease::extend) it on the way; and
//! hand [`Token::attempt`], a number that only grows, to what the work writes to, so that it can refuse a
//! late writer.
//!
//! A process that is killed between the work and its commit leaves the ID free with the work done: it is done
//! again. No store beside the place that the work writes to can close that gap; the attempt number, or work
//! that may be done twice, can.
//!
//! # Consume a broker: batches and cursors
//!
//! [`Store::claim_batch`] claims many IDs, and [`ClaimBatch::commit_with`] records those that are done
//! together with named numbers, say how far a partition was read. After a crash both are there or neither, so
//! a consumer starts from [`Store::cursor`] and never asks the broker how far it was.
//!
//! ```
//! use std::time::Duration;
//! use firstseen::Store;
//!
//! # let dir = std::env::temp_dir().join(format!("firstseen-doc-cursor-{}", std::process::id()));
//! # let partition = ["order-1", "order-2", "order-1", "order-3"];
//! let store = Store::open(&dir)?;
//! let from = store.cursor("orders/3").unwrap_or(0);
//! let messages = &partition[from as usize..]; // what the broker has from there on
//!
//! let claims = store.claim_batch(messages, Duration::from_secs(30))?;
//! for index in claims.leased() {
//!     let _order = messages[index]; // ... the work ...
//! }
//! let done = claims.commit_with(&[("orders/3", from + messages.len() as u64)])?;
//! assert_eq!(done, 3); // the second "order-1" was in flight with this very batch
//! assert_eq!(store.cursor("orders/3"), Some(4));
//! # drop(store);
//! # std::fs::remove_dir_all(&dir)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Where several consumers share one store, a cursor must not move past a message that another one has in
//! flight: `examples/consumer.rs` shows the whole loop.
//!
//! # Check many at once: at most once
//!
//! Where there is no work that could fail, say when lines are filtered or events are counted, one call is
//! enough: [`Store::check`]. For many IDs [`Store::check_batch`] is several times as fast, because the waits
//! for memory overlap, and because a batch waits once for the log and not once for each ID. Verdicts come in
//! the order of the IDs, and the second of two equal ones is a duplicate.
//!
//! ```
//! use firstseen::{Options, Store, Verdict};
//!
//! let store = Store::in_memory(Options::new())?;
//! let ids = ["a", "b", "a"];
//! let mut verdicts = [Verdict::default(); 3];
//! store.check_batch(&ids, &mut verdicts)?;
//! assert_eq!(verdicts, [Verdict::FirstSeen, Verdict::FirstSeen, Verdict::Duplicate]);
//! # Ok::<(), firstseen::Error>(())
//! ```
//!
//! Among all concurrent calls on one ID in one window exactly one is told [`Verdict::FirstSeen`], or gets the
//! lease (G1).
//!
//! # What survives what
//!
//! [`Options::durability`] says what an answer is worth (G2). It may be another one each time a store is
//! opened.
//!
//! | [`Durability`] | a kill loses | a power cut loses | a call waits for |
//! | --- | --- | --- | --- |
//! | [`Buffered`](Durability::Buffered) | nothing | the last second at most | one write |
//! | [`Sync`](Durability::Sync) | nothing | nothing | one sync of the disk |
//! | [`Deferred(d)`](Durability::Deferred) | the last `d` at most | the same | nothing |
//! | [`None`](Durability::None) | what is in no sealed file yet | the same | nothing: there is no log |
//!
//! `Buffered` is the default, and its second is [`Options::sync_every`]. Calls at the same time share writes
//! and syncs, and a batch waits for one.
//!
//! "Lost" means that an ID which was seen counts as new again; what was committed with a cursor is lost with
//! it or not at all. Claims are volatile in all four: a crash releases them.
//!
//! ```
//! use firstseen::{Durability, Options, Store};
//!
//! # let dir = std::env::temp_dir().join(format!("firstseen-doc-sync-{}", std::process::id()));
//! let store = Store::open_with(&dir, Options::new().durability(Durability::Sync))?;
//! let _ = store.check("transfer-4711")?; // on the disk, and not only on its way there
//! # drop(store);
//! # std::fs::remove_dir_all(&dir)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - [`Store::persist`] syncs in between, whatever the durability.
//! - [`Store::close`] writes everything to sealed files: the next opening has no log to read. Dropping the
//!   last handle only syncs the log, which the next opening reads back. Nothing answered is lost either way
//!   (without a log, only `close` and `persist` keep what is in memory).
//! - [`Store::snapshot`] copies the store, while it is in use, into a directory that is a store too.
//! - [`Store::verify`] reads everything of a store that nobody has open and lists what is damaged;
//!   [`Store::salvage`] makes a new store of what still reads of a damaged one.
//!
//! - [`partition`] says which of several stores an ID belongs to; [`Store::export`], [`Store::import`] and
//!   [`Store::merge`] take what one store knows into another that was created with the same secret.
//! - [`capacity`] tells beforehand what a store takes, in memory and on disk.
//!
//! # One owner
//!
//! One process has a store open at a time: for another one, or for a second opening in the same process,
//! there is [`Error::Locked`] (G9). However the process ends, the system lets go of the lock. A child that
//! was forked after the opening is told [`Error::Forked`]; it may open stores of its own.
//!
//! When a write or a sync fails, because the disk is full or broken, the call gets that error and the store
//! is poisoned (G6): checks, claims, commits and look-ups from then on are told [`Error::Poisoned`], and
//! nothing is tried again, since what a disk has kept after a failed sync nobody can tell. Drop it and open
//! it anew: opening reads what is really there. [`Options::observer`] is told of this, and of recovery and
//! damage.
//!
//! # Windows: how long an ID stays seen
//!
//! For ever, unless [`Options::window`] says otherwise. A fixed window begins with the first sighting, a
//! sliding one anew with each sighting. Windows end late by at most one tick ([`Stats::tick_ms`]), never
//! early (G5).
//!
//! ```
//! use std::time::Duration;
//! use firstseen::{ManualClock, Options, Store, Timestamp, Verdict, Window};
//!
//! // A clock that is moved by hand; without this option the system's.
//! let clock = ManualClock::new(Timestamp::from_millis(0));
//! let hour = Duration::from_secs(3600);
//! let options = Options::new().window(Window::Fixed(hour)).clock(clock.clock());
//! let store = Store::in_memory(options)?;
//!
//! assert_eq!(store.check("login-mail")?, Verdict::FirstSeen);
//! clock.advance(hour / 2);
//! assert_eq!(store.check("login-mail")?, Verdict::Duplicate);
//! clock.advance(hour / 2);
//! assert_eq!(store.check("login-mail")?, Verdict::FirstSeen);
//! # Ok::<(), firstseen::Error>(())
//! ```
//!
//! # Event time
//!
//! Replays and stream processors bring the time of each event along: [`Store::check_at`]. Time in a store
//! only goes forward, to the latest that any call has brought; an event that comes late counts as of that
//! time. So one event with a time in the far future ends every window before it: check times that strangers
//! send.
//!
//! ```
//! use std::time::Duration;
//! use firstseen::{ManualClock, Options, Store, Timestamp, Verdict, Window};
//!
//! let start = Timestamp::from_millis(1_700_000_000_000);
//! let minute = Duration::from_secs(60);
//! // The clock stands still: time is what the events say.
//! let clock = ManualClock::new(start).clock();
//! let store = Store::in_memory(Options::new().window(Window::Fixed(minute)).clock(clock))?;
//!
//! assert_eq!(store.check_at("reading-1", start)?, Verdict::FirstSeen);
//! assert_eq!(store.check_at("reading-1", start.saturating_add(minute / 2))?, Verdict::Duplicate);
//! assert_eq!(store.check_at("reading-1", start.saturating_add(minute))?, Verdict::FirstSeen);
//! # Ok::<(), firstseen::Error>(())
//! ```
//!
//! # Errors
//!
//! An [`Error`] is plain data; match on its kind. It never comes with a verdict: the ID that failed was not
//! recorded (but after [`Error::Io`] from a store with a directory it may have been: open it anew and ask). A
//! batch that stopped on the way says how far it came, and what it answered holds.
//!
//! ```
//! use firstseen::{Error, Hash, Options, Store, Verdict};
//!
//! // An exact store takes IDs of sixteen bytes, say UUIDs, and two of them never collide.
//! let store = Store::in_memory(Options::new().hash(Hash::Exact))?;
//! let ids: [&[u8]; 2] = [&[7; 16], b"no UUID"];
//! let mut verdicts = [Verdict::default(); 2];
//! match store.check_batch(&ids, &mut verdicts) {
//!     Err(Error::Partial { answered, cause }) => {
//!         assert_eq!(verdicts[..answered], [Verdict::FirstSeen]);
//!         assert_eq!(*cause, Error::IdLength { length: 7 });
//!     }
//!     outcome => unreachable!("{outcome:?}"),
//! }
//! # Ok::<(), firstseen::Error>(())
//! ```
//!
//! # What else to know
//!
//! - The store keeps fingerprints of 128 bits, not IDs. Two IDs with one fingerprint are taken for one; how
//!   likely that is at the present size says [`Stats::collision_probability`].
//! - The default hash is XXH3 under a random secret: fast, but not cryptographic. For IDs that strangers
//!   choose there is [`Hash::Keyed`], for UUIDs and other IDs of sixteen bytes [`Hash::Exact`].
//! - Memory is bounded by [`Options::memory_budget`] (G7). A store with a directory keeps in memory what is
//!   not sealed yet and as much else as there is room for; it grows with the disk. In a store in memory new
//!   IDs are refused when the budget is used up, or the oldest are forgotten: [`Options::when_full`].
//! - A [`Store`] is a handle: clone it for each thread. One thread of its own does the background work
//!   ([`Options::maintenance`]).
//! - Tests and simulations bring a [`ManualClock`], a fixed [`Secret`] and [`Maintenance::Manual`], and are
//!   then the same on every run.
//!
//! How it works inside, and why, is told in `README.md`, section ARCHITECTURE.

mod bloom;
pub mod capacity;
mod clock;
mod codec;
mod error;
mod event;
mod fingerprint;
mod floor;
mod generation;
mod lease;
mod limits;
mod manifest;
mod options;
mod partition;
mod stamp;
mod stats;
mod storage;
mod store;
mod sync;
mod table;
mod verdict;
mod wal;
mod window;

pub use clock::{Clock, ManualClock, Timestamp};
pub use error::{Error, Result};
pub use event::Event;
pub use fingerprint::{Fingerprint, Hash, Secret};
pub use lease::Token;
pub use options::{Durability, FileAccess, Maintenance, Options, WhenFull, Window};
pub use partition::partition;
pub use stats::Stats;
pub use store::{
    Claim, ClaimBatch, Explanation, Imported, Known, Lease, Progress, Salvage, Store, Verification,
};
pub use verdict::Verdict;

/// Parts of the engine for the benches of this repository; no part of the public interface.
#[doc(hidden)]
pub mod bench {
    pub use crate::bloom::{Bloom, BloomBuilder};
    pub use crate::floor::Floor;
}

/// For tests of what is left after a power cut: a simulated disk, and the trait that it has in common with
/// real ones.
#[cfg(feature = "testing")]
pub mod testing {
    pub use crate::storage::sim::{Crash, Fault, Op, SimDisk};
    pub use crate::storage::{Map, Storage, StorageFile};
}

/// The examples of the README, which are run with those of this crate.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
