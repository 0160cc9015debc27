//! LMDB through `heed`: one write transaction a batch, keys in order, `MDB_NOOVERWRITE`.

use std::fs;

use firstseen::Verdict;
use heed::types::{Bytes, Unit};
use heed::{CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions, WithTls};

use crate::key::{Id, SortedKeys};
use crate::peer::{Outcome, Peer, Place, Session};

/// Room in the address space, not on the disk.
const MAP_BYTES: usize = 64 << 30;

/// `MDB_NOSYNC`: written to the page cache at each commit, never synced.
pub(super) fn open(place: &Place) -> Outcome<Box<dyn Peer>> {
    open_with(place, EnvFlags::NO_SYNC)
}

/// `MDB_NOSYNC | MDB_WRITEMAP`: pages are changed in the map. After a power cut the file may be corrupt.
pub(super) fn open_write_map(place: &Place) -> Outcome<Box<dyn Peer>> {
    open_with(place, EnvFlags::NO_SYNC | EnvFlags::WRITE_MAP)
}

fn open_with(place: &Place, flags: EnvFlags) -> Outcome<Box<dyn Peer>> {
    let dir = place.dir.join("db");
    fs::create_dir_all(&dir)?;
    let env = open_env(&dir, flags)?;
    let created = env.create_databases_and_commit(env.write_txn()?, |opener, transaction| {
        opener.create_database(transaction, None).map(CommitOrAbort::<_, ()>::Commit)
    })?;
    let keys = created.commit().ok_or("the database was not committed")?;
    Ok(Box::new(Lmdb { env, keys }))
}

#[expect(unsafe_code, reason = "`heed` has no other way to open an environment")]
fn open_env(dir: &std::path::Path, flags: EnvFlags) -> Outcome<Env<WithTls>> {
    let mut options = EnvOpenOptions::new();
    options.map_size(MAP_BYTES);
    // SAFETY: what is at stake without syncs is the file after a power cut, and nobody needs it then.
    let options = unsafe { options.flags(flags) };
    // SAFETY: the folder was made by this process for this peer alone, so nobody else opens, cuts or changes
    // the file under the map, and it is opened once at a time.
    Ok(unsafe { options.open(dir) }?)
}

struct Lmdb {
    env: Env<WithTls>,
    keys: Database<'static, Bytes, Unit>,
}

impl Peer for Lmdb {
    fn session(&self) -> Outcome<Box<dyn Session + '_>> {
        Ok(Box::new(Writing { lmdb: self, sorted: SortedKeys::default() }))
    }
}

struct Writing<'a> {
    lmdb: &'a Lmdb,
    sorted: SortedKeys,
}

impl Session for Writing<'_> {
    fn check_batch(&mut self, ids: &[Id], verdicts: &mut [Verdict]) -> Outcome<()> {
        self.sorted.fill(ids);
        let mut transaction = self.lmdb.env.write_txn()?;
        for (key, place) in &self.sorted.0 {
            let known = self.lmdb.keys.get_or_put(&mut transaction, &key.to_be_bytes(), &())?;
            let is_known = known.is_some();
            verdicts[*place as usize] = if is_known { Verdict::Duplicate } else { Verdict::FirstSeen };
        }
        Ok(transaction.commit()?)
    }
}
