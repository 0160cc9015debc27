//! SQLite: `INSERT OR IGNORE` into a table without row IDs, prepared, one transaction a batch, keys in order.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use firstseen::Verdict;
use rusqlite::Connection;

use crate::key::{Id, SortedKeys};
use crate::peer::{Outcome, Peer, Place, Session};

const TABLE: &str = "CREATE TABLE IF NOT EXISTS seen (id BLOB PRIMARY KEY NOT NULL) WITHOUT ROWID";
const INSERT: &str = "INSERT OR IGNORE INTO seen (id) VALUES (?1)";

/// Pages of the log before it is copied back, 64 MiB: with the default of 4 MiB nearly every batch would be.
const CHECKPOINT_PAGES: u32 = 16_384;

/// `synchronous=NORMAL`: synced when the log is copied back; a power cut may lose what came after.
pub(super) fn open(place: &Place) -> Outcome<Box<dyn Peer>> {
    open_with(place, "NORMAL")
}

/// `synchronous=OFF`: never synced. A power cut may corrupt the file.
pub(super) fn open_without_sync(place: &Place) -> Outcome<Box<dyn Peer>> {
    open_with(place, "OFF")
}

fn open_with(place: &Place, synchronous: &'static str) -> Outcome<Box<dyn Peer>> {
    let peer = Sqlite {
        path: place.dir.join("db"),
        synchronous,
        cache_kib: place.cache_bytes / 1024 / place.threads as u64,
        writer: Mutex::new(()),
    };
    peer.connect()?.execute(TABLE, [])?;
    Ok(Box::new(peer))
}

struct Sqlite {
    path: PathBuf,
    synchronous: &'static str,
    cache_kib: u64,
    /// Held while a transaction is open: waiting here is cheaper than SQLite's sleeping and asking again.
    writer: Mutex<()>,
}

impl Sqlite {
    fn connect(&self) -> Outcome<Connection> {
        let connection = Connection::open(&self.path)?;
        connection.execute_batch(&format!(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = {}; PRAGMA cache_size = -{}; \
             PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}; PRAGMA temp_store = MEMORY; \
             PRAGMA mmap_size = 68719476736;",
            self.synchronous, self.cache_kib
        ))?;
        Ok(connection)
    }
}

impl Peer for Sqlite {
    fn session(&self) -> Outcome<Box<dyn Session + '_>> {
        let connection = self.connect()?;
        Ok(Box::new(Writing { connection, writer: &self.writer, sorted: SortedKeys::default() }))
    }
}

struct Writing<'a> {
    connection: Connection,
    writer: &'a Mutex<()>,
    sorted: SortedKeys,
}

impl Session for Writing<'_> {
    fn check_batch(&mut self, ids: &[Id], verdicts: &mut [Verdict]) -> Outcome<()> {
        self.sorted.fill(ids);
        let _turn = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        // A single insert is a transaction of its own.
        let is_batch = ids.len() > 1;
        if is_batch {
            self.connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        }
        let mut insert = self.connection.prepare_cached(INSERT)?;
        for (key, place) in &self.sorted.0 {
            let inserted = insert.execute([&key.to_be_bytes()[..]])?;
            verdicts[*place as usize] = if inserted == 1 { Verdict::FirstSeen } else { Verdict::Duplicate };
        }
        if is_batch {
            self.connection.prepare_cached("COMMIT")?.execute([])?;
        }
        Ok(())
    }
}
