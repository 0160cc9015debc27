//! The tables that a log is read back into.
//!
//! How many IDs a log names is known at its end only: a window that slides logs one ID many times. So the
//! first table is made for few. When it is full all that is in it goes to one that is large enough for what
//! is still to be read, as far as the part that was read tells.
//!
//! IDs that are not evenly spread may find no room in a table that is far from full. The store has accepted
//! them, in several tables, so here they get other tables too. Each ID is in one table, the first that had
//! room for it; later ones are asked only by keys that had none in those before.

use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::limits::{
    LOAD_EXPECTED_PERCENT, LOGGED_IDS_MAX, RECOVERY_WINDOW_BYTES, REFILL_TABLES_CROWDED, REFILL_TABLES_MAX,
};
use crate::stamp::{Stamp, State, VERSION_MAX};
use crate::table::{Table, lines_for, reserve};
use crate::wal::Record;

use super::growth;

/// How much of a log was read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reach {
    pub(super) bytes_done: u64,
    pub(super) bytes: u64,
}

/// Tables that are being filled; at least one.
#[derive(Debug)]
pub(super) struct Refill {
    tables: Vec<Table>,
    birth: u64,
    lines: u64,
    /// Lines that a guess may go to; what is certain goes beyond.
    lines_guessed_max: u64,
    ids: u64,
    ids_in_first: u64,
}

impl Refill {
    /// Begins with a table of so many home lines, whose versions count from `birth`.
    pub(super) fn new(lines: u64, lines_guessed_max: u64, birth: u64) -> Result<Refill> {
        let tables = vec![touched_table(lines, birth)?];
        Ok(Refill { tables, birth, lines, lines_guessed_max, ids: 0, ids_in_first: 0 })
    }

    /// IDs taken in.
    pub(super) fn ids(&self) -> u64 {
        self.ids
    }

    /// The tables, of which the last has room.
    pub(super) fn into_tables(self) -> Vec<Table> {
        self.tables
    }

    /// Asks the processor for the line that a key will need.
    #[inline]
    pub(super) fn prefetch(&self, key: Fingerprint) {
        self.tables[0].prefetch(key);
    }

    /// Takes one fact in.
    ///
    /// # Errors
    ///
    /// [`Error::System`] without memory; [`Error::Uneven`] for more tables of keys that crowd than any store
    /// has accepted.
    #[inline]
    pub(super) fn take_in(&mut self, record: Record, reach: Reach) -> Result<()> {
        let state = if record.fact & 3 == State::Forgotten as u64 { State::Forgotten } else { State::Seen };
        let until = record.fact >> 2;
        let stamp = match self.tables[0].stamp(state, until) {
            Some(stamp) => stamp,
            None => self.stamp_later(state, until)?,
        };
        self.insert(record.key, stamp, until)?;
        if self.ids_in_first >= self.tables[0].slots_rotate() { self.grow(reach) } else { Ok(()) }
    }

    /// A stamp of tables that were born later. What was over by then ends with their birth: late, not early.
    #[cold]
    fn stamp_later(&mut self, state: State, until: u64) -> Result<Stamp> {
        self.rebuild(self.lines, until.saturating_sub(u64::from(VERSION_MAX) / 2))?;
        self.tables[0].stamp(state, until).ok_or(Error::RevisionsUsedUp)
    }

    #[inline]
    fn insert(&mut self, key: Fingerprint, stamp: Stamp, until: u64) -> Result<()> {
        match self.tables[0].raise(key, stamp, until) {
            Some(is_new) => {
                self.ids += u64::from(is_new);
                self.ids_in_first += u64::from(is_new);
                Ok(())
            }
            None => self.insert_beside(key, stamp, until),
        }
    }

    /// The same for a key that has no room in the first table.
    #[cold]
    fn insert_beside(&mut self, key: Fingerprint, stamp: Stamp, until: u64) -> Result<()> {
        for table in &self.tables[1..] {
            if let Some(is_new) = table.raise(key, stamp, until) {
                self.ids += u64::from(is_new);
                return Ok(());
            }
        }
        // Larger tables may have been needed when the keys were accepted; they have more room for a crowd.
        let lines_max = lines_for(2 * LOGGED_IDS_MAX, LOAD_EXPECTED_PERCENT);
        if self.tables.len() >= REFILL_TABLES_CROWDED && self.lines < lines_max {
            self.rebuild(self.lines.saturating_mul(4).min(lines_max), self.birth)?;
            return self.insert(key, stamp, until);
        }
        if self.tables.len() >= REFILL_TABLES_MAX {
            return Err(Error::Uneven { tables: self.tables.len() });
        }
        let table = Table::new(reserve(self.lines)?, self.birth);
        self.ids += u64::from(table.raise(key, stamp, until).unwrap_or(false));
        self.tables.push(table);
        Ok(())
    }

    /// Makes room for as many more IDs as the rest of the log will bring if it is like the part before.
    #[cold]
    fn grow(&mut self, reach: Reach) -> Result<()> {
        // A window is told of before it is looked at.
        let bytes_done = reach.bytes_done.saturating_sub(RECOVERY_WINDOW_BYTES / 2).max(1);
        let guess = u128::from(self.ids) * u128::from(reach.bytes) * 6 / 5 / u128::from(bytes_done);
        let guess = u64::try_from(guess).unwrap_or(u64::MAX).min(self.ids.saturating_mul(16));
        let least = lines_for(self.ids + self.ids / 2, LOAD_EXPECTED_PERCENT);
        let lines = lines_for(guess, LOAD_EXPECTED_PERCENT).min(self.lines_guessed_max).max(least);
        self.rebuild(lines, self.birth)
    }

    /// Moves everything to tables of so many home lines, born at `birth`.
    fn rebuild(&mut self, lines: u64, birth: u64) -> Result<()> {
        let table = touched_table(lines, birth)?;
        let from = std::mem::replace(&mut self.tables, vec![table]);
        (self.lines, self.birth, self.ids, self.ids_in_first) = (lines, birth, 0, 0);
        for table in from {
            for (key, stamp) in table.slots_in(0, table.lines()) {
                let (state, until) = (stamp.state(), table.until(stamp));
                // Born no earlier than the table that it comes from: its version is no larger.
                let stamp = self.tables[0].stamp(state, until).ok_or(Error::RevisionsUsedUp)?;
                self.insert(key, stamp, until)?;
            }
        }
        Ok(())
    }
}

fn touched_table(lines: u64, birth: u64) -> Result<Table> {
    let memory = reserve(lines)?;
    growth::touch_whole(&memory);
    Ok(Table::new(memory, birth))
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::limits::SPARE_LINES;
    use crate::store::ledger::logged;
    use crate::table::Probe;

    type Twin = BTreeMap<Fingerprint, u64>;

    /// Numbers that look random.
    fn random(state: &mut u64) -> u64 {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*state ^ *state >> 29).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    /// The fact that tables have of a key, which only one of them may have.
    fn fact(tables: &[Table], key: Fingerprint) -> Option<u64> {
        let mut facts = tables.iter().filter_map(|table| match table.find(key) {
            Probe::Hit(cell) => Some(logged(cell.load().state(), table.until(cell.load()))),
            _ => None,
        });
        let found = facts.next();
        assert_eq!(facts.next(), None, "{key:?} is in two tables");
        found
    }

    fn fill(refill: &mut Refill, twin: &mut Twin, key: Fingerprint, fact: u64, reach: Reach) {
        refill.take_in(Record { key, fact }, reach).unwrap();
        twin.entry(key).and_modify(|known| *known = fact.max(*known)).or_insert(fact);
    }

    fn compare(refill: Refill, twin: &Twin) -> usize {
        assert_eq!(refill.ids(), twin.len() as u64);
        let tables = refill.into_tables();
        for (key, expected) in twin {
            assert_eq!(fact(&tables, *key), Some(*expected), "{key:?}");
        }
        tables.len()
    }

    #[test]
    fn facts_in_any_order_are_there_once_and_the_largest_counts() {
        let seed = std::env::var("FIRSTSEEN_SEED").ok().and_then(|text| text.parse().ok());
        let seed = seed.unwrap_or_else(|| u64::from(std::process::id()));
        println!("FIRSTSEEN_SEED={seed}");
        let mut state = seed;
        for round in 0..40 {
            let (mut refill, mut twin) =
                (Refill::new(1 + random(&mut state) % 50, 1 << 12, 1_000).unwrap(), Twin::new());
            let count = random(&mut state) % 5_000;
            let keys = 1 + random(&mut state) % 3_000;
            for done in 0..count {
                let number = random(&mut state) % keys;
                let key =
                    Fingerprint::from_halves(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1, number + 1);
                let fact = (1_001 + random(&mut state) % 50) << 2 | 2 | random(&mut state) & 1;
                fill(&mut refill, &mut twin, key, fact, Reach { bytes_done: done, bytes: count });
            }
            assert_eq!(compare(refill, &twin), 1, "round {round}");
        }
    }

    /// Several tables have accepted what none has room for alone.
    #[test]
    fn keys_that_crowd_are_all_taken_in() {
        let room = (SPARE_LINES + 1) * 3;
        let (mut refill, mut twin) = (Refill::new(1 << 12, 1 << 13, 0).unwrap(), Twin::new());
        for lo in 1..=4 * room {
            let key = Fingerprint::from_halves(1 << 63, lo);
            fill(&mut refill, &mut twin, key, 1 << 2 | 2, Reach { bytes_done: lo, bytes: 4 * room });
        }
        // Raising a fact finds it where it is; a key elsewhere finds its room in the first table.
        fill(
            &mut refill,
            &mut twin,
            Fingerprint::from_halves(1 << 63, 4 * room),
            7 << 2 | 2,
            Reach::default(),
        );
        fill(&mut refill, &mut twin, Fingerprint::from_halves(1 << 20, 9), 1 << 2 | 3, Reach::default());
        assert_eq!(compare(refill, &twin), 4);
    }

    /// A range that a large table has room for crowds in a small one: the tables become larger, not many.
    #[test]
    fn keys_that_crowd_only_in_small_tables_get_large_ones() {
        let (mut refill, mut twin) = (Refill::new(1, 1 << 20, 0).unwrap(), Twin::new());
        for number in 0..40_000_u64 {
            let key = Fingerprint::from_halves((1 << 63) + (number << 46), number + 1);
            fill(&mut refill, &mut twin, key, 1 << 2 | 2, Reach { bytes_done: 1, bytes: 1 });
        }
        assert!(compare(refill, &twin) <= REFILL_TABLES_CROWDED);
    }

    /// A clock that was set back by more than a table can state: the tables are born anew, later.
    #[test]
    fn fact_far_ahead_of_the_first_birth_is_stated() {
        let (mut refill, mut twin) = (Refill::new(8, 64, 10).unwrap(), Twin::new());
        let far = 10 + 3 * u64::from(VERSION_MAX);
        let fact = |until: u64| until << 2 | 2;
        fill(&mut refill, &mut twin, Fingerprint::from_halves(1, 1), fact(far - 50), Reach::default());
        fill(&mut refill, &mut twin, Fingerprint::from_halves(1 << 60, 1), fact(far), Reach::default());
        fill(&mut refill, &mut twin, Fingerprint::from_halves(1, 1), fact(far + 9), Reach::default());
        assert_eq!(compare(refill, &twin), 1);
    }
}
