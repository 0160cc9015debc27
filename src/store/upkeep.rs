//! The disk's part of maintenance: sealing, dropping files that are over, and pacing the log.

use crate::error::{Error, Result};
use crate::event::Event;
use crate::limits::{GENERATIONS_BEHIND, SEAL_LAG_MAX, SEGMENTS_PER_TABLE_MAX};
use crate::storage::names::generation_name;
use crate::sync::Arc;

use super::core::Core;
use super::durable::Durable;
use super::fuse::Fusion;
use super::growth;
use super::recall::Recall;
use super::seal::{Seal, trim_log};
use super::sealed::Sealed;
use super::succession::Succession;
use super::view::View;

/// Work on disk in progress.
#[derive(Debug, Default)]
pub(crate) struct Upkeep {
    seal: Option<Seal>,
    fusion: Option<Fusion>,
    /// Whether a source turned out to be damaged, or too many keys to crowd: trying again would only write
    /// for nothing.
    has_failed_to_fuse: bool,
    recall: Option<Recall>,
    /// Generations that could not be brought back into memory.
    not_recalled: Vec<u64>,
}

impl Upkeep {
    /// One slice of work on disk that is more urgent than fusing; false when there is none.
    pub(crate) fn step(
        &mut self,
        core: &Core,
        durable: &Durable,
        succession: &mut Succession,
    ) -> Result<bool> {
        if self.expire(core, durable, succession)? || trim_log(core, durable)? {
            return Ok(true);
        }
        Ok(self.step_seal(core, durable, succession)?
            // A filter that can't be loaded is asked in the map, and tried again later.
            || load_filter(core, succession).unwrap_or(false)
            || self.step_recall(core, durable, succession))
    }

    /// As [`trim_log`], in any store.
    pub(crate) fn trim_log(core: &Core) -> Result<()> {
        core.durable.as_ref().map_or(Ok(()), |durable| trim_log(core, durable).map(drop))
    }

    /// Whether there will be fewer generations soon.
    pub(crate) fn is_fusing(&self) -> bool {
        !self.has_failed_to_fuse
    }

    fn step_seal(&mut self, core: &Core, durable: &Durable, succession: &mut Succession) -> Result<bool> {
        let begun = match self.seal.take() {
            None => Seal::begin(core, durable, &core.views.load())?,
            seal => seal,
        };
        let Some(mut seal) = begun else { return Ok(false) };
        core.counters.memory_seal.set(seal.filter_bytes());
        core.counters.buffers_seal.set(seal.buffer_bytes());
        if seal.step(durable)? {
            let outcome = seal.finish(core, durable, succession);
            core.counters.memory_seal.set(0);
            core.counters.buffers_seal.set(0);
            outcome?;
        } else {
            self.seal = Some(seal);
        }
        Ok(true)
    }

    /// One slice of bringing a generation back into memory; false when there is none to bring.
    fn step_recall(&mut self, core: &Core, durable: &Durable, succession: &mut Succession) -> bool {
        let view = core.views.load();
        let is_listed = |id: u64| view.sealed.iter().any(|sealed| sealed.generation().id() == id);
        let is_next = |id: u64| view.files().first().is_some_and(|first| first.generation().id() == id);
        // What is fused or over by now is not needed any more.
        self.recall.take_if(|recall| !is_next(recall.id()));
        self.not_recalled.retain(|id| is_listed(*id));
        let is_wanted = |id: u64| {
            !self.not_recalled.contains(&id)
                && self.fusion.as_ref().is_none_or(|fusion| !fusion.is_source(id))
        };
        let begun = self.recall.take().or_else(|| Recall::begin(core, &view, is_wanted));
        drop(view);
        core.counters.memory_recall.set(begun.as_ref().map_or(0, Recall::memory_bytes));
        let Some(mut recall) = begun else { return false };
        let id = recall.id();
        let outcome = match recall.step() {
            Ok(false) => {
                self.recall = Some(recall);
                return true;
            }
            Ok(true) => recall.finish(core, succession),
            Err(cause) => Err(cause),
        };
        if let Err(cause) = outcome {
            // Its file goes on answering, and refuses what is damaged.
            self.not_recalled.push(id);
            durable.events.note(Event::Damaged { cause });
        }
        core.counters.memory_recall.set(0);
        true
    }

    /// One slice of making files one; false when there are few.
    pub(crate) fn step_fusion(
        &mut self,
        core: &Core,
        durable: &Durable,
        succession: &mut Succession,
    ) -> Result<bool> {
        let begun = match self.fusion.take() {
            None if self.has_failed_to_fuse => None,
            None => self.begin_fusion(core, durable, succession)?,
            fusion => fusion,
        };
        let Some(mut fusion) = begun else { return Ok(false) };
        core.counters.memory_fusion.set(fusion.filter_bytes());
        core.counters.buffers_fusion.set(fusion.buffer_bytes());
        let outcome = fusion.step(durable);
        if outcome == Ok(false) {
            self.fusion = Some(fusion);
            return Ok(true);
        }
        core.counters.memory_fusion.set(0);
        core.counters.buffers_fusion.set(0);
        if let Err(cause) = outcome {
            self.has_failed_to_fuse = true;
            fusion.abandon(durable)?;
            if matches!(cause, Error::Uneven { .. }) {
                // No damage: more keys crowd than one file has room for, and all are as good as before.
                return Ok(true);
            }
            durable.events.note(Event::Damaged { cause: cause.clone() });
            return Err(cause);
        }
        fusion.finish(core, durable, succession)?;
        Ok(true)
    }

    /// Begins a fusion that is worth having, with room in the budget for the filter of its result, which what
    /// is only a copy of files makes if need be.
    fn begin_fusion(
        &mut self,
        core: &Core,
        durable: &Durable,
        succession: &mut Succession,
    ) -> Result<Option<Fusion>> {
        let view = core.views.load();
        let Some(range) = Fusion::next(core, &view) else { return Ok(None) };
        let ids = view.sealed[range.clone()].iter().map(Sealed::ids).sum();
        let promised = core.memory_promised(&view) + growth::filter_bytes(ids);
        let excess = promised.saturating_sub(core.memory_budget);
        let releasable = self.recall.as_ref().map_or(0, Recall::memory_bytes) + view.releasable_bytes();
        if excess > releasable && view.sealed.len() < GENERATIONS_BEHIND {
            return Ok(None);
        }
        if excess > 0 {
            self.release_sealed(core, succession, excess);
        }
        Fusion::begin(core, durable, &view, range).map(Some)
    }

    /// Drops generations in which everything is over: the manifest first, then the files.
    fn expire(&mut self, core: &Core, durable: &Durable, succession: &mut Succession) -> Result<bool> {
        if core.span.is_forever() {
            return Ok(false);
        }
        let now = core.span.tick_at(core.now());
        let view = core.views.load();
        let over: Vec<(u64, u64)> = (view.sealed.iter().map(|sealed| sealed.generation()))
            .filter(|generation| generation.until_max() <= now)
            .map(|generation| (generation.id(), generation.ids()))
            .collect();
        drop(view);
        if over.is_empty() {
            return Ok(false);
        }
        let is_over = |id: u64| over.iter().any(|(over, _)| *over == id);
        if let Some(fusion) = self.fusion.take_if(|fusion| over.iter().any(|(id, _)| fusion.is_source(*id))) {
            core.counters.memory_fusion.set(0);
            core.counters.buffers_fusion.set(0);
            fusion.abandon(durable)?;
        }
        durable.replace_manifest(core.now(), &core.cursors, |manifest| {
            manifest.generations.retain(|named| !is_over(named.id));
        })?;
        succession.publish(&core.views, |view| {
            view.sealed.retain(|sealed| !is_over(sealed.generation().id()));
            view.uncover(is_over);
        });
        for (id, ids) in over {
            let file = generation_name(id);
            durable.remove(&file)?;
            core.counters.tables_expired.add(1);
            durable.events.note(Event::GenerationExpired { file, ids });
        }
        Ok(true)
    }

    /// Bounds what a table is logged in; in a store without threads also syncs the log as often as was asked
    /// for.
    pub(crate) fn pace_log(&mut self, core: &Core) -> Result<bool> {
        let Some(durable) = &core.durable else { return Ok(false) };
        let Some(log) = durable.log() else { return Ok(false) };
        if durable.fault().is_some() {
            return Ok(false);
        }
        let view = core.views.load();
        if log.segment().saturating_sub(view.log_from) >= SEGMENTS_PER_TABLE_MAX {
            // Windows that slide fill the log and not the table.
            core.want_rotation(view.number);
        }
        drop(view);
        let is_paced_here = core.worker.get().is_none();
        Ok(is_paced_here && core.sync_log_if_due(|since| since >= core.pace_interval)?)
    }

    /// Makes one slice of a log segment ahead of need; false when there is none to make.
    pub(crate) fn prepare_log(core: &Core) -> Result<bool> {
        let Some(durable) = &core.durable else { return Ok(false) };
        match durable.log().filter(|_| durable.fault().is_none()) {
            None => Ok(false),
            Some(log) => log.prepare().map_err(|error| durable.poison(error)),
        }
    }
}

impl Upkeep {
    /// Gives up what is in memory and also in files until `excess` bytes are free, as far as there is any:
    /// what is being brought back, then kept tables, then filters, the oldest first; returns the bytes.
    pub(crate) fn release_sealed(&mut self, core: &Core, succession: &mut Succession, excess: u64) -> u64 {
        let recalling = self.recall.take().map_or(0, |recall| recall.memory_bytes());
        core.counters.memory_recall.set(0);
        let is_any = core.views.load().releasable_bytes() > 0;
        let mut freed = 0;
        if recalling < excess && is_any {
            succession.publish(&core.views, |view| freed = view.release_copies(excess - recalling));
        }
        recalling + freed
    }
}

/// Brings the filter of one file into memory, the newest first, as far as the budget has room for it and the
/// next table; false when there is none to bring. A store is opened with filters in the maps of their files,
/// which takes no time.
fn load_filter(core: &Core, succession: &mut Succession) -> Result<bool> {
    let view = core.views.load();
    let room = core.memory_room(&view);
    let is_next = |sealed: &&Sealed| sealed.filter_bytes_unloaded().is_some_and(|bytes| bytes <= room);
    let Some(sealed) = view.files().iter().find(is_next) else { return Ok(false) };
    let (id, filter) = (sealed.generation().id(), Arc::new(sealed.generation().read_filter()?));
    drop(view);
    succession.publish(&core.views, |view| {
        let sealed = view.sealed.iter_mut().find(|sealed| sealed.generation().id() == id);
        sealed.into_iter().for_each(|sealed| sealed.load_filter(Some(Arc::clone(&filter))));
    });
    Ok(true)
}

impl Core {
    /// Whether as many frozen tables wait to be sealed as may: new ones must wait.
    pub(crate) fn is_sealing_behind(&self, view: &View) -> bool {
        self.durable.is_some() && view.older.len() >= SEAL_LAG_MAX
    }

    /// Home lines that the table after `view`'s active one should have; as [`growth::next_lines`].
    pub(crate) fn next_lines(&self, view: &View, is_full: bool) -> u64 {
        let now = self.span.tick_at(self.now());
        let need = growth::Need { is_full, now, leases: self.leases.held() };
        let lines = growth::next_lines(view, &self.span, need, self.memory_budget);
        if self.durable.is_some() { lines.min(growth::logged_lines()) } else { lines }
    }

    /// Bytes that the budget has left for copies of what is in files, beside the next table: each rotation
    /// would drop again what took its place.
    pub(crate) fn memory_room(&self, view: &View) -> u64 {
        let next = growth::bytes_with_filter(self.next_lines(view, true));
        self.memory_budget.saturating_sub(self.memory_promised(view)).saturating_sub(next)
    }

    /// The log segment that is being written; zero without a log.
    pub(crate) fn log_segment(&self) -> u64 {
        self.durable.as_ref().map_or(0, Durable::log_segment)
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use crate::options::{Durability, Maintenance, Options};
    use crate::storage::names::Name;
    use crate::storage::sim::{Crash, Op, SimDisk};
    use crate::store::{Progress, Store};
    use crate::sync::Arc;
    use crate::verdict::Verdict;

    fn options() -> Options {
        Options::new().durability(Durability::Sync).maintenance(Maintenance::Manual)
    }

    fn open(disk: &SimDisk, options: &Options) -> Store {
        Store::open_on(Arc::new(disk.clone()), options.clone()).unwrap()
    }

    /// The filters of sealed IDs alone were more than the budget, and nothing gave them up.
    #[test]
    fn budget_holds_where_the_filters_alone_exceed_it() {
        const BUDGET: u64 = 1 << 20;
        let store = open(&SimDisk::new(0), &options().durability(Durability::None).memory_budget(BUDGET));
        let mut verdicts = vec![Verdict::default(); 1_000];
        for first in (0..1_000_000_u32).step_by(1_000) {
            let ids: Vec<_> = (first..first + 1_000).map(u32::to_le_bytes).collect();
            store.check_batch(&ids, &mut verdicts).unwrap();
            assert!(verdicts.iter().all(|verdict| verdict.is_first_seen()));
        }
        while store.maintain().unwrap() != Progress::Idle {}
        let stats = store.stats();
        assert!(stats.memory_bytes_peak <= BUDGET && stats.ids * 12 / 8 > BUDGET, "{stats:?}");
        for number in (0..1_000_000_u32).step_by(101) {
            assert!(store.contains(number.to_le_bytes()).unwrap(), "ID {number}");
            assert!(!store.contains((number + 1_000_000).to_le_bytes()).unwrap());
        }
    }

    /// Bytes of all segments, those in the making too.
    fn log_bytes(disk: &SimDisk) -> u64 {
        let is_log = |name: &str| {
            matches!(Name::parse(name.strip_suffix(".new").unwrap_or(name)), Some(Name::Segment(_)))
        };
        disk.files().iter().filter(|(name, _)| is_log(name)).map(|(_, bytes)| bytes.len() as u64).sum()
    }

    /// A segment was made in one step, which wrote and synced up to 64 MiB: 44 to 208 ms in which no table
    /// was rotated.
    #[test]
    fn segment_is_made_in_short_steps() {
        let disk = SimDisk::new(0);
        let store = open(&disk, &options());
        let (begun, mut before, mut steps) = (log_bytes(&disk), log_bytes(&disk), 0);
        let mut syncs = disk.ops_of(Op::Sync);
        while store.maintain().unwrap() == Progress::Worked {
            let after = log_bytes(&disk);
            assert!(after - before <= 2 << 20, "step {steps} wrote {} bytes", after - before);
            assert!(disk.ops_of(Op::Sync) - syncs <= 1, "step {steps}");
            (before, syncs, steps) = (after, disk.ops_of(Op::Sync), steps + 1);
        }
        assert_eq!(before - begun, 8 << 20, "the second segment");
        assert!(steps >= 8);
    }

    /// The next table came after the whole segment, and callers waited for both.
    #[test]
    fn full_table_is_rotated_between_two_slices_of_a_segment() {
        let disk = SimDisk::new(0);
        // Nothing but the maintenance makes the second segment.
        let store = open(&disk, &options().log_segment_bytes(32 << 20));
        assert_eq!(store.maintain().unwrap(), Progress::Worked);
        let is_full = || {
            let view = store.engine.views.load();
            view.active.slots() >= view.active.slots_rotate()
        };
        let mut id = 0_u64;
        while !is_full() {
            assert!(store.check(id.to_le_bytes()).unwrap().is_first_seen());
            id += 1;
        }
        let segments = || store.engine.durable.as_ref().unwrap().log().unwrap().stats().segments;
        assert_eq!((store.stats().rotations, segments()), (0, 1));
        // It may be time to sync, which is more urgent.
        for _ in 0..2 {
            assert_eq!(store.maintain().unwrap(), Progress::Worked);
        }
        assert_eq!((store.stats().rotations, segments()), (1, 1));
    }

    /// In whatever moment of it the power goes.
    #[test]
    fn crash_while_a_segment_is_made_loses_nothing_and_leaves_nothing() {
        let disk = SimDisk::new(0);
        let store = open(&disk, &options());
        assert!(store.check("a").unwrap().is_first_seen());
        disk.record();
        while store.maintain().unwrap() == Progress::Worked {}
        let states = disk.recorded();
        assert!(states.len() > 20, "{}", states.len());
        for (number, state) in states {
            for crash in [Crash::LoseAll, Crash::KeepAll, Crash::Random(number)] {
                let after = state.crash(crash);
                let later = open(&after, &options());
                assert!(later.check("a").unwrap().is_duplicate(), "{number}, {crash:?}");
                assert!(later.check("b").unwrap().is_first_seen());
                assert!(after.files().keys().all(|name| !name.ends_with(".new")), "{number}, {crash:?}");
            }
        }
    }
}
