//! `redb`: one write transaction a batch, keys in order, one descent for each.
//!
//! It has two levels of durability: synced, and `None`, where a commit is lost with the process unless a
//! synced one follows. Nothing lies in between, so `None` stands here, with one synced commit at the end.

use firstseen::Verdict;
use redb::{Builder, Database, Durability, Entry, TableDefinition};

use crate::key::{Id, SortedKeys};
use crate::peer::{Outcome, Peer, Place, Session};

const KEYS: TableDefinition<u128, ()> = TableDefinition::new("seen");

/// A database without syncs until it is closed.
pub(super) fn open(place: &Place) -> Outcome<Box<dyn Peer>> {
    let cache_bytes = usize::try_from(place.cache_bytes)?;
    let database = Builder::new().set_cache_size(cache_bytes).create(place.dir.join("db"))?;
    Ok(Box::new(Redb(database)))
}

struct Redb(Database);

impl Peer for Redb {
    fn session(&self) -> Outcome<Box<dyn Session + '_>> {
        Ok(Box::new(Writing { database: &self.0, sorted: SortedKeys::default() }))
    }

    fn close(self: Box<Self>) -> Outcome<()> {
        let mut transaction = self.0.begin_write()?;
        transaction.set_durability(Durability::Immediate)?;
        Ok(transaction.commit()?)
    }
}

struct Writing<'a> {
    database: &'a Database,
    sorted: SortedKeys,
}

impl Session for Writing<'_> {
    fn check_batch(&mut self, ids: &[Id], verdicts: &mut [Verdict]) -> Outcome<()> {
        self.sorted.fill(ids);
        let mut transaction = self.database.begin_write()?;
        transaction.set_durability(Durability::None)?;
        let mut table = transaction.open_table(KEYS)?;
        for (key, place) in &self.sorted.0 {
            verdicts[*place as usize] = match table.entry(*key)? {
                Entry::Occupied(_) => Verdict::Duplicate,
                Entry::Vacant(vacant) => {
                    vacant.insert(())?;
                    Verdict::FirstSeen
                }
            };
        }
        drop(table);
        Ok(transaction.commit()?)
    }
}
