//! `fjall`, a log-structured merge tree in Rust, with its filters and caches for point look-ups.

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};

use crate::key::KeyBytes;
use crate::peer::{Outcome, Peer, Place, Session};

use super::look_then_write::{Engine, InFlight, LookThenWrite};

const WORKERS: usize = 2;

/// A database that hands each batch to the page cache before it answers.
pub(super) fn open(place: &Place) -> Outcome<Box<dyn Peer>> {
    let builder = Database::builder(place.dir.join("db"));
    let database = builder.cache_size(place.cache_bytes).worker_threads(WORKERS).open()?;
    let keys = database.keyspace("seen", KeyspaceCreateOptions::default)?;
    Ok(Box::new(Fjall { tree: Tree { database, keys }, in_flight: InFlight::for_threads(place.threads) }))
}

struct Fjall {
    tree: Tree,
    in_flight: Option<InFlight>,
}

struct Tree {
    database: Database,
    keys: Keyspace,
}

impl Peer for Fjall {
    fn session(&self) -> Outcome<Box<dyn Session + '_>> {
        Ok(Box::new(LookThenWrite::new(&self.tree, self.in_flight.as_ref())))
    }

    fn close(self: Box<Self>) -> Outcome<()> {
        Ok(self.tree.database.persist(PersistMode::Buffer)?)
    }
}

impl Engine for Tree {
    fn look(&self, keys: &[KeyBytes], are_known: &mut Vec<bool>) -> Outcome<()> {
        for key in keys {
            are_known.push(self.keys.contains_key(key)?);
        }
        Ok(())
    }

    fn write(&self, keys: &[KeyBytes]) -> Outcome<()> {
        let mut batch = self.database.batch().durability(Some(PersistMode::Buffer));
        for key in keys {
            batch.insert(&self.keys, *key, []);
        }
        Ok(batch.commit()?)
    }
}
