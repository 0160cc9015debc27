//! What one store knows, taken into another: by export and import, and by merge.
//!
//! `FIRSTSEEN_SEED` repeats a run of random calls.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on stops, with the place")]

#[path = "transfer/damage.rs"]
mod damage;
#[path = "transfer/durable.rs"]
mod durable;
#[path = "transfer/leases.rs"]
mod leases;
#[path = "transfer/races.rs"]
mod races;
#[path = "transfer/random.rs"]
mod random;
#[path = "transfer/refusals.rs"]
mod refusals;
#[path = "transfer/union.rs"]
mod union;

use firstseen::{Imported, Maintenance, Options, Progress, Result, Secret, Store};

/// Options of stores that understand each other, with tables so small that a handful of IDs rotates them.
fn options() -> Options {
    let secret = Secret::from_bytes(std::array::from_fn(|index| u8::try_from(index % 251).unwrap()));
    Options::new().secret(secret).maintenance(Maintenance::Manual).first_table_lines(2)
}

fn exported(store: &Store) -> Vec<u8> {
    let mut bytes = Vec::new();
    store.export(&mut bytes).unwrap();
    bytes
}

fn import(store: &Store, bytes: &[u8]) -> Result<Imported> {
    store.import(&mut &bytes[..])
}

/// Background work until there is none.
fn settle(store: &Store) {
    for _ in 0..100_000 {
        if store.maintain().unwrap() == Progress::Idle {
            return;
        }
    }
    panic!("maintenance goes on for ever");
}

fn check_all(store: &Store, ids: std::ops::Range<u32>) {
    for id in ids {
        let _ = store.check(id.to_le_bytes()).unwrap();
    }
}

fn seen_of(store: &Store, ids: std::ops::Range<u32>) -> Vec<u32> {
    ids.filter(|id| store.contains(id.to_le_bytes()).unwrap()).collect()
}
