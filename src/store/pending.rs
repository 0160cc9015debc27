//! Stating `Pending`: by a claim, and again in a newer table before an older one goes.

use crate::fingerprint::Fingerprint;
use crate::stamp::{Stamp, State};
use crate::window::Moment;

use super::core::{Core, Recorded};
use super::fact::{Fact, Retry};
use super::view::{Place, View};

impl Core {
    /// States `Pending` in the active table for every lease, so that older tables may go (L1).
    ///
    /// False when there was no room for one: try again after the next rotation.
    pub(crate) fn carry_leases(&self) -> bool {
        self.leases.keys().into_iter().all(|key| self.carry_lease(key))
    }

    fn carry_lease(&self, key: Fingerprint) -> bool {
        let shard = self.leases.lock(key);
        loop {
            if !shard.holds(key) {
                return true;
            }
            let view = self.views.load();
            let mut recorded = Recorded::urgent();
            let stated = view.place_and_fact(key).and_then(|(place, fact)| {
                let is_pending = matches!(&place, Place::Slot(_, stamp) if stamp.state() == State::Pending);
                if is_pending { Ok(()) } else { view.state_pending(key, &place, fact, &mut recorded) }
            });
            let moment = Moment { now: 0, deadline: 0, slides: false };
            self.settle(&view, moment, &recorded);
            match stated {
                Ok(()) => return true,
                Err(Retry::Moved) => {}
                Err(_) => return false,
            }
        }
    }
}

impl View {
    /// The key's place in the active table, and the newest fact of it in any table.
    pub(crate) fn place_and_fact(&self, key: Fingerprint) -> Result<(Place<'_>, Fact), Retry> {
        let place = self.place(key)?;
        let fact = match &place {
            Place::Slot(_, stamp) => Fact::of(&self.active, *stamp),
            _ => Fact::None,
        };
        let fact = if fact == Fact::None { self.older_fact(key, None)? } else { fact };
        Ok((place, fact))
    }

    /// States `Pending` over `fact` in the active table, in a way that can be read back as what it was.
    pub(crate) fn state_pending(
        &self,
        key: Fingerprint,
        place: &Place<'_>,
        fact: Fact,
        recorded: &mut Recorded<'_>,
    ) -> Result<(), Retry> {
        let floor = fact.floor();
        let stamp = if floor <= self.active.birth() {
            // Nothing was seen, or it was over before this table was born: reads back as nothing.
            Stamp::new(State::Pending, 0)
        } else {
            self.active.stamp(State::Pending, floor.saturating_add(1)).ok_or(Retry::Outdated)?
        };
        match place {
            Place::Slot(_, found) if found.state() == State::Pending => Ok(()),
            place => self.record_stamp(key, place, stamp, recorded),
        }
    }
}
