//! Sealing: a frozen table becomes a generation on disk, slice by slice, while calls go on.
//!
//! ```text
//! frozen table --lines in the order of hi--> generation-N.new --sync, rename--> generation-N
//!    --> MANIFEST names it --> view lists it --> log segments that only it needed are removed
//! ```
//!
//! Only the oldest frozen table is sealed, so generations are older than all tables. A crash between two of
//! these steps leaves a file that no manifest names, which the next opening removes, and the log, which has
//! everything.

use crate::bloom::Bloom;
use crate::error::{Error, Result};
use crate::event::Event;
use crate::fingerprint::Fingerprint;
use crate::generation::{Generation, GenerationWriter, Spec};
use crate::limits::{ATTEMPTS_AHEAD, LINES_PER_STEP};
use crate::manifest::Manifest;
use crate::stamp::State;
use crate::storage::Storage;
use crate::sync::Arc;
use crate::table::Table;

use super::core::Core;
use super::durable::Durable;
use super::fact::Fact;
use super::sealed::Sealed;
use super::succession::Succession;
use super::view::View;

/// A frozen table that is being written.
#[derive(Debug)]
pub(crate) struct Seal {
    table: Arc<Table>,
    /// That of the table, if it has one already.
    filter: Option<Arc<Bloom>>,
    spec: Spec,
    writer: GenerationWriter,
    next_line: u64,
    /// The present, in ticks, when sealing began: what is over by then is left out.
    now: u64,
    /// Whether there is nothing older that a forgotten fact could hide, nor a log that tells of it: read back
    /// after a kill, it would hide what is seen anew, with a version that began from the first again.
    is_oldest: bool,
}

impl Seal {
    /// Begins with the oldest frozen table, once its leases are carried; `None` when there is none.
    pub(crate) fn begin(core: &Core, durable: &Durable, view: &View) -> Result<Option<Seal>> {
        let Some(oldest) = view.older.last().filter(|older| older.is_carried) else { return Ok(None) };
        let (store_id, id) = (durable.store_id(), durable.generation_number());
        let spec = Spec {
            store_id,
            id,
            ids: oldest.table.facts(),
            birth: oldest.table.birth(),
            tick_ms: core.span.tick_ms(),
            is_forever: core.span.is_forever(),
        };
        let filter = oldest.filter.clone();
        let writer = durable.write(|storage| create(storage, spec, filter.as_ref()))?;
        Ok(Some(Seal {
            table: Arc::clone(&oldest.table),
            filter,
            spec,
            writer,
            next_line: 0,
            now: if core.span.is_forever() { 0 } else { core.span.tick_at(core.now()) },
            is_oldest: core.span.is_forever()
                && view.older.len() == 1
                && view.sealed.is_empty()
                && !durable.has_log_to_read(),
        }))
    }

    /// Memory of the filter that is being made.
    pub(crate) fn filter_bytes(&self) -> u64 {
        self.writer.filter_bytes()
    }

    /// Memory that is taken beside it.
    pub(crate) fn buffer_bytes(&self) -> u64 {
        self.writer.buffer_bytes()
    }

    /// Writes one slice; whether it was the last.
    pub(crate) fn step(&mut self, durable: &Durable) -> Result<bool> {
        let first = self.table.hi_at(self.next_line);
        self.next_line += LINES_PER_STEP;
        let next = self.table.hi_at(self.next_line);
        let Some(first) = first else { return Ok(true) };
        let last = next.map_or(u64::MAX, |next| next - 1);
        let mut slice: Vec<(Fingerprint, State, u64)> = self
            .table
            .keys_between(first, last)
            .filter_map(|(key, stamp)| {
                self.sealed_fact(Fact::of(&self.table, stamp)).map(|(s, u)| (key, s, u))
            })
            .collect();
        sort_nearly_sorted(&mut slice, |(key, ..)| key.hi());
        let push = |&(key, state, until): &(Fingerprint, State, u64)| self.writer.push(key, state, until);
        let has_room = durable.write(|_| match slice.iter().try_for_each(push) {
            Err(Error::Uneven { .. }) => Ok(false),
            outcome => outcome.map(|()| true),
        })?;
        if !has_room {
            self.begin_again(durable)?;
        }
        Ok(has_room && next.is_none())
    }

    /// Begins the file anew with as many home lines as the table has, as keys crowd in fewer.
    #[cold]
    fn begin_again(&mut self, durable: &Durable) -> Result<()> {
        let home_lines = self.table.home_lines();
        if self.writer.home_lines() >= home_lines {
            return Err(durable.poison(Error::Uneven { tables: 1 }));
        }
        let writer = durable.write(|storage| create(storage, self.spec, self.filter.as_ref()))?;
        self.writer = writer.with_home_lines(home_lines);
        self.next_line = 0;
        Ok(())
    }

    /// What of a fact is worth keeping.
    ///
    /// What is over may go: whatever it hides was over before it (a new fact exceeds all older ones). A
    /// claim reads as what was before it; its lease, if still held, is stated in a newer table.
    fn sealed_fact(&self, fact: Fact) -> Option<(State, u64)> {
        let (state, until) = match fact {
            Fact::None => return None,
            Fact::Seen(until) => (State::Seen, until),
            Fact::Forgotten(_) | Fact::Pending(..) => (State::Forgotten, fact.floor()),
        };
        let is_over = until <= self.now;
        let is_hiding_nothing = state == State::Forgotten && (self.is_oldest || until == 0);
        (!is_over && !is_hiding_nothing).then_some((state, until))
    }

    /// Finishes the file, names it in the manifest, lists it in a view, and lets the log go that only it
    /// needed.
    pub(crate) fn finish(self, core: &Core, durable: &Durable, succession: &mut Succession) -> Result<()> {
        let Seal { table, writer, .. } = self;
        if writer.ids() == 0 {
            return drop_empty(core, durable, succession, &table, writer);
        }
        let (named, filter) = durable.write(|storage| writer.finish(storage))?;
        let store_id = durable.store_id();
        let generation =
            durable.write(|storage| Generation::open_written(storage, &named, store_id, durable.access))?;
        let log_floor = log_floor_without(&core.views.load(), &table);
        durable.replace_manifest(core.now(), &core.cursors, |manifest| {
            manifest.generations.insert(0, named);
            // So the numbers that are put aside are not used up.
            let attempts = core.leases.attempts().saturating_add(ATTEMPTS_AHEAD);
            manifest.attempt_floor = manifest.attempt_floor.max(attempts);
            raise_floor(manifest, durable, log_floor);
        })?;
        let (file, ids, bytes) = (generation.name().to_owned(), named.ids, named.bytes);
        let log_last = durable.log_segment();
        succession.publish(&core.views, |view| {
            view.older.retain(|older| !Arc::ptr_eq(&older.table, &table));
            view.list_kept(Sealed::new(generation, log_last), table, filter);
        });
        core.counters.seals.add(1);
        core.counters.sealed_bytes.add(bytes);
        durable.events.note(Event::GenerationSealed { file, ids, bytes });
        durable.remove_log_below(log_floor)
    }
}

/// Sorts what is in order up to small shifts, as the keys of a table are: each step moves an element to where
/// it belongs, which takes 2 ns a key instead of 20. Keys that crowd are left to the general way.
fn sort_nearly_sorted<T: Copy>(items: &mut [T], key_of: impl Fn(&T) -> u64) {
    let mut moves_left = items.len() * 16;
    for index in 1..items.len() {
        let (item, mut place) = (items[index], index);
        while place > 0 && key_of(&items[place - 1]) > key_of(&item) {
            items[place] = items[place - 1];
            place -= 1;
        }
        items[place] = item;
        moves_left = moves_left.saturating_sub(index - place);
        if moves_left == 0 {
            return items.sort_by_key(key_of);
        }
    }
}

/// Begins a file.
fn create(storage: &dyn Storage, spec: Spec, filter: Option<&Arc<Bloom>>) -> Result<GenerationWriter> {
    match filter {
        Some(filter) => GenerationWriter::create_with(storage, spec, Arc::clone(filter)),
        None => GenerationWriter::create(storage, spec),
    }
}

/// Leaves out a table in which everything is over.
fn drop_empty(
    core: &Core,
    durable: &Durable,
    succession: &mut Succession,
    table: &Arc<Table>,
    writer: GenerationWriter,
) -> Result<()> {
    durable.write(|storage| writer.abandon(storage))?;
    let log_floor = log_floor_without(&core.views.load(), table);
    durable.replace_manifest(core.now(), &core.cursors, |manifest| {
        raise_floor(manifest, durable, log_floor);
    })?;
    succession.publish(&core.views, |view| {
        view.older.retain(|older| !Arc::ptr_eq(&older.table, table));
    });
    durable.remove_log_below(log_floor)
}

/// Lets go of what only tables that are gone were logged in: tables go without being sealed when all in them
/// is over. Whether there was anything.
pub(crate) fn trim_log(core: &Core, durable: &Durable) -> Result<bool> {
    let log_floor = core.views.load().log_floor();
    if log_floor <= durable.log_floor() || durable.fault().is_some() {
        return Ok(false);
    }
    durable.replace_manifest(core.now(), &core.cursors, |manifest| {
        raise_floor(manifest, durable, log_floor);
    })?;
    durable.remove_log_below(log_floor)?;
    Ok(true)
}

/// Says that segments below `log_floor` are not needed any more. A store that keeps no log needs none at all
/// once everything that an earlier run has logged is sealed.
fn raise_floor(manifest: &mut Manifest, durable: &Durable, log_floor: u64) {
    manifest.log_floor = manifest.log_floor.max(log_floor);
    manifest.was_closed |= durable.log().is_none() && log_floor >= durable.log_segment();
}

/// The log segment from which on facts are logged that are in no sealed file once `table` is sealed.
fn log_floor_without(view: &View, table: &Arc<Table>) -> u64 {
    let mut view = view.clone();
    view.older.retain(|older| !Arc::ptr_eq(&older.table, table));
    view.log_floor()
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::sort_nearly_sorted;

    #[test]
    fn items_are_sorted_however_far_they_were_from_it() {
        for shift in [1, 2, 7, 100, 5_000] {
            let mut state = 88_172_645_463_325_252_u64;
            let mut random = || {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state
            };
            let items = (0..5_000_u64).map(|index| (index + random() % shift, index)).collect::<Vec<_>>();
            let (mut sorted, mut twin) = (items.clone(), items);
            sort_nearly_sorted(&mut sorted, |(key, _)| *key);
            twin.sort_by_key(|(key, _)| *key);
            assert_eq!(sorted, twin, "stable, and sorted");
        }
        for items in [vec![], vec![1], vec![2, 1], (0..3_000).rev().collect::<Vec<u64>>()] {
            let (mut sorted, mut twin) = (items.clone(), items);
            sort_nearly_sorted(&mut sorted, |key| *key);
            twin.sort_unstable();
            assert_eq!(sorted, twin);
        }
    }
}
