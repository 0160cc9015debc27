//! Has this ID been seen before?

mod bloom;
mod clock;
mod error;
mod fingerprint;
mod floor;
mod lease;
mod limits;
mod options;
mod stamp;
mod stats;
mod store;
mod sync;
mod table;
mod verdict;
mod window;

pub use clock::{Clock, ManualClock, Timestamp};
pub use error::{Error, Result};
pub use fingerprint::{Fingerprint, Hash, Secret};
pub use lease::Token;
pub use options::{Maintenance, Options, WhenFull, Window};
pub use stats::Stats;
pub use store::{Claim, ClaimBatch, Explanation, Known, Lease, Progress, Store};
pub use verdict::Verdict;

/// Parts of the engine for the benches of this repository; no part of the public interface.
#[doc(hidden)]
pub mod bench {
    pub use crate::bloom::{Bloom, BloomBuilder};
    pub use crate::floor::Floor;
}
