//! Durable stores on a simulated disk: power cuts, kills, failing operations and damaged files.
//!
//! Each test prints its seed and its counts (crash states, faults, opens), so that a run that has become
//! small is seen. `FIRSTSEEN_SEED` repeats a run; `FIRSTSEEN_CRASH_STATES`, `FIRSTSEEN_FAULT_STRIDE`,
//! `FIRSTSEEN_CYCLES` and `FIRSTSEEN_DAMAGE_STRIDE` make it longer.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on stops, with the place")]

/// Tells a count past the test harness, which keeps to itself what tests print that pass.
macro_rules! report {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($text)*);
    }};
}

#[path = "crash/check.rs"]
mod check;
#[path = "crash/damage.rs"]
mod damage;
#[path = "crash/faults.rs"]
mod faults;
#[path = "crash/groups.rs"]
mod groups;
#[path = "crash/hooked.rs"]
mod hooked;
#[path = "crash/life.rs"]
mod life;
#[path = "crash/model.rs"]
mod model;
#[path = "crash/panics.rs"]
mod panics;
#[path = "crash/power.rs"]
mod power;
#[path = "crash/random.rs"]
mod random;
#[path = "crash/regressions.rs"]
mod regressions;
#[path = "crash/script.rs"]
mod script;
#[path = "crash/setup.rs"]
mod setup;
#[path = "crash/tail.rs"]
mod tail;
#[path = "crash/workload.rs"]
mod workload;
