//! How often everything is written when tables are sealed and files are fused: a real run with small tables.

use std::sync::Arc;

use firstseen::testing::SimDisk;
use firstseen::{Maintenance, Options, Progress, Store, Verdict};

/// Files that are kept at most, as `firstseen::Capacity::generations` says.
const FILES: f64 = 4.0;

const TABLES: u64 = 240;

/// The bound that `src/store/fuse.rs` states.
fn writes_max(tables: u64) -> f64 {
    let tables = tables as f64;
    if tables <= FILES { 1.0 } else { 1.0 + FILES * tables.powf(1.0 / FILES) * 2.0 / 3.0 }
}

/// The two newest files were fused again and again, so that what was written grew with the
/// number of tables, and not with its root.
#[test]
fn everything_is_written_no_more_often_than_stated() {
    let disk = SimDisk::new(1);
    // Tables of 2000 IDs: the smallest budget makes them no larger.
    let options = Options::new().maintenance(Maintenance::Manual).memory_budget(1 << 20);
    let store = Store::open_on(Arc::new(disk), options).unwrap();
    let mut verdicts = vec![Verdict::default(); 250];
    let (mut next, mut worst, mut written) = (0_u64, 0.0_f64, 0.0);
    while store.stats().seals < TABLES {
        let batch: Vec<[u8; 8]> = (next..next + 250).map(u64::to_le_bytes).collect();
        store.check_batch(&batch, &mut verdicts).unwrap();
        next += 250;
        while store.maintain().unwrap() == Progress::Worked {}
        let stats = store.stats();
        if stats.seals > 0 {
            written = (stats.sealed_bytes + stats.compacted_bytes) as f64 / stats.sealed_bytes as f64;
            let bound = writes_max(stats.seals);
            assert!(written <= bound, "{written:.2} times, at most {bound:.2}: {stats:?}");
            worst = worst.max(written / bound);
        }
    }
    let stats = store.stats();
    println!("{next} IDs, {TABLES} tables: written {written:.2} times, at most {:.2}", writes_max(TABLES));
    println!("at worst {worst:.2} of the bound: {stats:?}");
    assert!(stats.generations <= 5 && stats.compactions > TABLES / 4, "{stats:?}");
    assert!(written > 2.0, "nothing was fused: {stats:?}");
}
