//! Durable stores on a simulated disk: power cuts, kills, failing operations and damaged files.
//!
//! Each test prints its seed and its counts (crash states, faults, opens), so that a run that has become
//! small is seen. `FIRSTSEEN_SEED` repeats a run; `FIRSTSEEN_CRASH_STATES`, `FIRSTSEEN_FAULT_STRIDE`,
//! `FIRSTSEEN_CYCLES` and `FIRSTSEEN_DAMAGE_STRIDE` make it longer.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on stops, with the place")]

#[path = "crash/check.rs"]
mod check;
#[path = "crash/damage.rs"]
mod damage;
#[path = "crash/faults.rs"]
mod faults;
#[path = "crash/life.rs"]
mod life;
#[path = "crash/model.rs"]
mod model;
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
