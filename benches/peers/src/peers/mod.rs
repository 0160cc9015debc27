//! All peers: one line each here, one file for each kind.

mod firstseen;
mod fjall;
mod floors;
mod lmdb;
mod look_then_write;
mod maps;
mod memcached;
mod redb;
mod redis;
#[cfg(feature = "rocksdb")]
mod rocksdb;
mod server;
mod sqlite;

use crate::peer::{Entry, Keeps, Needs, Outcome, Peer, Place};

/// The peer that ratios refer to.
pub(crate) const REFERENCE: &str = "firstseen-memory";

/// Every peer, in the order of the tables.
pub(crate) fn entries() -> Vec<Entry> {
    use Keeps::{Files, FilesAtRisk, Memory, Nothing};
    vec![
        entry("floor-hash", Nothing, floors::hash),
        entry("floor-line", Nothing, floors::line),
        entry("floor-log", Nothing, floors::log),
        entry(REFERENCE, Memory, firstseen::memory),
        entry("firstseen-buffered", Files, firstseen::buffered),
        entry("firstseen-sync", Files, firstseen::sync),
        entry("hashbrown", Memory, maps::hashbrown),
        entry("dashset", Memory, maps::dashset),
        entry("papaya", Memory, maps::papaya),
        rocksdb(),
        entry("lmdb", Files, lmdb::open),
        entry("lmdb-writemap", FilesAtRisk, lmdb::open_write_map),
        entry("redb", FilesAtRisk, redb::open),
        entry("fjall", Files, fjall::open),
        entry("sqlite", Files, sqlite::open),
        entry("sqlite-nosync", FilesAtRisk, sqlite::open_without_sync),
        Entry { needs: Needs::Program(redis::PROGRAM), ..entry("redis", Memory, redis::open) },
        Entry { needs: Needs::Program(redis::PROGRAM), ..entry("redis-aof", Files, redis::open_with_log) },
        Entry { needs: Needs::Program(memcached::PROGRAM), ..entry("memcached", Memory, memcached::open) },
    ]
}

fn entry(name: &'static str, keeps: Keeps, open: fn(&Place) -> Outcome<Box<dyn Peer>>) -> Entry {
    Entry { name, keeps, needs: Needs::Nothing, open }
}

/// RocksDB, unless it was left out of the build.
fn rocksdb() -> Entry {
    #[cfg(feature = "rocksdb")]
    let entry = entry("rocksdb", Keeps::Files, rocksdb::open);
    #[cfg(not(feature = "rocksdb"))]
    let entry = Entry {
        needs: Needs::Feature("rocksdb"),
        ..entry("rocksdb", Keeps::Files, |_| Err("RocksDB was left out of the build".into()))
    };
    entry
}
