//! The store that this is all about.
//!
//! Each way to open it is one function from a [`Place`] to a [`Store`], and one line in the table of peers.

use firstseen::{Durability, Options, Store, Verdict};

use crate::key::Id;
use crate::peer::{Outcome, Peer, Place, Session};

/// More than any case needs, so that nothing is refused.
const BUDGET_BYTES: u64 = 64 << 30;

/// A store in memory, with a hint how many IDs there will be.
pub(super) fn memory(place: &Place) -> Outcome<Box<dyn Peer>> {
    let options = Options::new().expect(place.keys_expected).memory_budget(BUDGET_BYTES);
    Ok(Box::new(Firstseen(Store::in_memory(options)?)))
}

/// A store in a directory with its default durability: a killed process loses nothing that was answered.
pub(super) fn buffered(place: &Place) -> Outcome<Box<dyn Peer>> {
    durable(place, Durability::Buffered)
}

/// A store in a directory that syncs before it answers.
pub(super) fn sync(place: &Place) -> Outcome<Box<dyn Peer>> {
    durable(place, Durability::Sync)
}

fn durable(place: &Place, durability: Durability) -> Outcome<Box<dyn Peer>> {
    let options = Options::new().expect(place.keys_expected).memory_budget(BUDGET_BYTES);
    Ok(Box::new(Firstseen(Store::open_with(&place.dir, options.durability(durability))?)))
}

/// A store, however it was opened.
struct Firstseen(Store);

impl Peer for Firstseen {
    fn session(&self) -> Outcome<Box<dyn Session + '_>> {
        Ok(Box::new(self.0.clone()))
    }

    fn close(self: Box<Self>) -> Outcome<()> {
        Ok(self.0.close()?)
    }
}

impl Session for Store {
    fn check_batch(&mut self, ids: &[Id], verdicts: &mut [Verdict]) -> Outcome<()> {
        match (ids, verdicts) {
            ([id], [verdict]) => *verdict = self.check(id)?,
            (ids, verdicts) => Store::check_batch(self, ids, verdicts)?,
        }
        Ok(())
    }
}
