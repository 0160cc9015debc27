//! A consumer of a partitioned log, as brokers keep them, that does each order once across two crashes.
//!
//! ```text
//! start ---> store.cursor("orders/3") ---> read from there ---> claim_batch ---> work
//!                                               ^                                  |
//!                                               +------- commit_with cursor <------+
//! ```
//!
//! Producers that got no answer write an order again, so the log itself has duplicates. The consumer commits
//! the IDs of a batch and the place up to which it has read *together*: after a crash both are there or
//! neither. The broker's own idea of how far it was read is not needed, and may lag behind or be lost.
//!
//! The first run dies between a commit and telling the broker, the second one with a batch claimed and not
//! committed, the third one ends in peace. What no consumer can promise is the time between the work and its
//! commit: who dies there does that batch again, so work that must not happen twice brings
//! `lease.token().attempt()`, or the order's ID, along to whatever it writes to.
//!
//! ```text
//! cargo run --example consumer
//! ```

use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use firstseen::{Claim, ClaimBatch, Store};

const PARTITIONS: usize = 4;
const ORDERS: usize = 2_000;
const BATCH: usize = 64;

/// Every so manieth order is written twice, the second time much later.
const WRITTEN_TWICE: usize = 5;

/// Longer than the work on a batch takes.
const LEASE: Duration = Duration::from_secs(30);

/// Batches that a run commits before it dies.
const BATCHES_UNTIL_CRASH: usize = 7;

/// Stands for a broker: messages that stay where they are, in order, and what it was told.
struct Log {
    partitions: Vec<Vec<String>>,
    told: Vec<usize>,
}

impl Log {
    /// Every order is in the partition that its number says, some of them twice.
    fn new() -> Log {
        let mut partitions = vec![Vec::new(); PARTITIONS];
        for number in 0..ORDERS {
            partitions[number % PARTITIONS].push(format!("order-{number}"));
        }
        for number in (0..ORDERS).step_by(WRITTEN_TWICE) {
            partitions[number % PARTITIONS].push(format!("order-{number}"));
        }
        Log { partitions, told: vec![0; PARTITIONS] }
    }

    /// The next messages of a partition; none at its end.
    fn read(&self, partition: usize, from: usize) -> &[String] {
        let rest = &self.partitions[partition][from..];
        &rest[..rest.len().min(BATCH)]
    }
}

/// How a run ends.
#[derive(Clone, Copy, PartialEq)]
enum Ending {
    AfterCommit,
    BeforeWork,
    Peace,
}

/// What must happen once for each order: here it is counted.
type Shipped = BTreeMap<String, usize>;

/// One life of the consumer, from opening the store to its end.
fn run(dir: &Path, log: &mut Log, shipped: &mut Shipped, ending: Ending) -> Result<(), Box<dyn Error>> {
    let store = Store::open(dir)?;
    let mut batches = 0;
    for partition in 0..PARTITIONS {
        let cursor = format!("orders/{partition}");
        // Not what the broker was told: that may be older.
        let mut offset = usize::try_from(store.cursor(&cursor).unwrap_or(0))?;
        let told = log.told[partition];
        println!("  partition {partition}: goes on at {offset}, the broker was told {told}");
        loop {
            let messages = log.read(partition, offset);
            if messages.is_empty() {
                break;
            }
            let claims = store.claim_batch(messages, LEASE)?;
            if ending == Ending::BeforeWork && batches == BATCHES_UNTIL_CRASH {
                println!("  dies with {} orders claimed", claims.leased().count());
                return Ok(()); // everything is dropped: the claims are gone, as after a kill
            }
            if is_elsewhere(&claims, messages) {
                return Err("another consumer is at this partition".into());
            }
            for index in claims.leased() {
                *shipped.entry(messages[index].clone()).or_default() += 1;
            }
            offset += messages.len();
            claims.commit_with(&[(&cursor, u64::try_from(offset)?)])?;
            batches += 1;
            if ending == Ending::AfterCommit && batches == BATCHES_UNTIL_CRASH {
                println!("  dies before it tells the broker");
                return Ok(());
            }
            log.told[partition] = offset;
        }
    }
    store.close()?;
    Ok(())
}

/// Whether somebody else has claimed one of these: then the cursor must not move past it.
///
/// A message that comes twice in one batch is in flight the second time, and is committed with the first.
fn is_elsewhere(claims: &ClaimBatch, messages: &[String]) -> bool {
    let is_ours = |message: &String| claims.leased().any(|index| messages[index] == *message);
    let in_flight = claims.claims().iter().zip(messages);
    in_flight
        .filter(|(claim, _)| matches!(claim, Claim::InFlight { .. }))
        .any(|(_, message)| !is_ours(message))
}

/// A directory of this run, removed at the end.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        // What is left over is in the system's folder for such files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let dir = Scratch(std::env::temp_dir().join(format!("firstseen-consumer-{}", std::process::id())));
    let mut log = Log::new();
    let mut shipped = Shipped::new();
    for ending in [Ending::AfterCommit, Ending::BeforeWork, Ending::Peace] {
        println!("the consumer starts");
        run(&dir.0, &mut log, &mut shipped, ending)?;
    }
    let messages: usize = log.partitions.iter().map(Vec::len).sum();
    let is_once = shipped.len() == ORDERS && shipped.values().all(|times| *times == 1);
    println!("{messages} messages, {} orders shipped, each once: {is_once}", shipped.len());
    Ok(if is_once { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
