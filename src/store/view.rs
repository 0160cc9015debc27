//! The immutable list of tables that a call works on.
//!
//! ```text
//! { active, closing?, older: newest ... oldest, sealed: newest ... oldest }
//!                                               |--- kept ---|-- files --|
//! ```
//!
//! Sealed generations are there in stores with a directory only. While the memory budget allows the newest
//! of them need not be asked: the tables that they were written from, or fewer that these were merged into,
//! are kept and answer for them. The others answer from their files.
//!
//! A view is never changed: a rotation, a merge or an expiry publishes another one. A call holds one view
//! while it works and takes the present one when a closed stamp tells it to. Because views are published
//! one by one and each is kept until the last call lets go of it, "no call holds a view older than number n"
//! can be asked: that is the grace period of rotation and of every release of memory.
//!
//! - P3 Publication: what the maintenance did before [`Published::replace`] (a new table's memory, a merged
//!   table's slots, the plain reads and writes behind them) is visible to whoever loads the view. Kept by
//!   arc-swap.
//! - P4 Release: what a call did under a view is visible to the maintenance once `Retired::is_released` says
//!   that nobody holds it. Kept by the reference count of the view. Without it a frozen table could be read
//!   before the last decision in it is visible.
//!
//! [`Published::replace`]: crate::sync::Published::replace

use crate::bloom::{Bloom, Mask};
use crate::error::Error;
use crate::fingerprint::Fingerprint;
use crate::stamp::{Stamp, StampCell, State};
use crate::sync::Arc;
use crate::table::{Probe, Table, Vacancy};

use super::fact::{Fact, Retry};
use super::sealed::Sealed;

/// All tables of a store at one time.
#[derive(Clone, Debug)]
pub(crate) struct View {
    /// Position in the sequence of views.
    pub(crate) number: u64,
    /// The table that takes inserts.
    pub(crate) active: Arc<Table>,
    /// The tick from which on `active` is to be rotated because of its age.
    pub(crate) rotate_at: u64,
    /// The table that was active before and in which calls under an older view may still decide.
    pub(crate) closing: Option<Closing>,
    /// Frozen tables, newest first.
    pub(crate) older: Vec<Older>,
    /// Tables kept in memory that answer for the newest sealed generations, newest first.
    pub(crate) kept: Vec<Older>,
    /// Sealed generations, newest first, all of them older than every frozen table.
    pub(crate) sealed: Vec<Sealed>,
    /// How many of them the kept tables answer for; counted anew for each view.
    pub(crate) sealed_kept: usize,
    /// The log segment that was being written when `active` became active: its facts are there or later.
    pub(crate) log_from: u64,
}

/// A table that is being closed key by key.
#[derive(Clone, Debug)]
pub(crate) struct Closing {
    pub(crate) table: Arc<Table>,
    /// Number of the first view in which the table was no longer active.
    pub(crate) since: u64,
    /// The log segment from which on its facts are logged.
    pub(crate) log_from: u64,
}

/// A frozen or a kept table, or the part of it that answers in this view.
#[derive(Clone, Debug)]
pub(crate) struct Older {
    pub(crate) table: Arc<Table>,
    pub(crate) filter: Option<Arc<Bloom>>,
    /// The smallest and the largest `hi` that this entry answers for; all but during a merge.
    pub(crate) hi_first: u64,
    pub(crate) hi_last: u64,
    /// Number of the first view in which the table was frozen.
    pub(crate) frozen_since: u64,
    /// Whether all leases that this table says `Pending` of are `Pending` in a newer table as well.
    pub(crate) is_carried: bool,
    /// The log segment from which on its facts are logged.
    pub(crate) log_from: u64,
    /// Numbers of the sealed generations that it answers for, of some of them together with other kept
    /// tables; none for a frozen table.
    pub(crate) covers: Vec<u64>,
}

/// What may have to be asked behind the active and the closing table.
enum Behind<'v> {
    Frozen(&'v Older),
    Kept(&'v Older),
    File(&'v Sealed),
}

/// Where an ID is, or would be, in the active table.
#[derive(Debug)]
pub(crate) enum Place<'v> {
    /// It has a slot, whose stamp was this.
    Slot(&'v StampCell, Stamp),
    /// It has none.
    Vacant(Vacancy),
    /// It has none and there is no room for one.
    Exhausted,
}

impl View {
    /// Looks the key up in the active table.
    #[inline]
    pub(crate) fn place(&self, key: Fingerprint) -> Result<Place<'_>, Retry> {
        match self.active.find(key) {
            Probe::Hit(cell) => {
                let stamp = cell.load();
                if stamp.is_closed() { Err(Retry::Moved) } else { Ok(Place::Slot(cell, stamp)) }
            }
            Probe::Miss(vacancy) => Ok(Place::Vacant(vacancy)),
            Probe::Exhausted => Ok(Place::Exhausted),
        }
    }

    /// Whether the active table is the only one.
    #[inline]
    pub(crate) fn is_single(&self) -> bool {
        self.closing.is_none() && self.older.is_empty() && self.sealed.is_empty()
    }

    /// What the tables behind the active one know of a key; in the closing table the key is closed first.
    ///
    /// `candidates` has a bit for each frozen table and sealed generation whose filter lets the key
    /// pass, if that is known already.
    ///
    /// Never inlined: a check of a store with one table would prepare for filters that it has not.
    #[inline(never)]
    pub(crate) fn older_fact(&self, key: Fingerprint, candidates: Option<u64>) -> Result<Fact, Retry> {
        if let Some(closing) = &self.closing {
            let cell = closing.table.locate_to_close(key).ok_or(Retry::Crowded)?;
            let fact = Fact::of(&closing.table, cell.close());
            if fact != Fact::None {
                return Ok(fact);
            }
        }
        self.frozen_fact(key, candidates.unwrap_or_else(|| self.screen(key)))
    }

    /// What the tables behind the active one know of a key, without closing it: for calls that only read.
    pub(crate) fn older_fact_read(&self, key: Fingerprint, candidates: u64) -> Result<Fact, Retry> {
        if let Some(closing) = &self.closing
            && let Probe::Hit(cell) = closing.table.find(key)
        {
            let fact = Fact::of(&closing.table, cell.load().fact());
            if fact != Fact::None {
                return Ok(fact);
            }
        }
        self.frozen_fact(key, candidates)
    }

    /// Newest first, the first fact found answers.
    #[inline]
    fn frozen_fact(&self, key: Fingerprint, mut candidates: u64) -> Result<Fact, Retry> {
        while candidates != 0 {
            let index = candidates.trailing_zeros() as usize;
            candidates &= candidates - 1;
            let fact = match self.behind(index) {
                Behind::Frozen(older) => Fact::in_table(&older.table, key),
                Behind::Kept(kept) => kept.sealed_fact(key),
                Behind::File(sealed) => sealed.fact(key)?,
            };
            if fact != Fact::None {
                return Ok(fact);
            }
        }
        Ok(Fact::None)
    }

    /// What has a bit among the candidates.
    #[inline]
    fn behind(&self, index: usize) -> Behind<'_> {
        if let Some(older) = self.older.get(index) {
            return Behind::Frozen(older);
        }
        let index = index - self.older.len();
        match self.kept.get(index) {
            Some(kept) => Behind::Kept(kept),
            None => Behind::File(&self.files()[index - self.kept.len()]),
        }
    }

    /// The sealed generations that answer from their files.
    #[inline]
    pub(crate) fn files(&self) -> &[Sealed] {
        &self.sealed[self.sealed_kept..]
    }

    /// How many tables and files may have to be asked behind the active and the closing table.
    #[inline]
    pub(crate) fn depth(&self) -> usize {
        self.older.len() + self.kept.len() + self.files().len()
    }

    /// A bit for each frozen table, then for each kept one, then for each file, that may have the key.
    #[inline]
    pub(crate) fn screen(&self, key: Fingerprint) -> u64 {
        let mask = Mask::of(key);
        let (mut candidates, mut index) = (0, 0);
        for older in self.older.iter().chain(&self.kept) {
            candidates |= u64::from(older.may_contain(key, mask)) << index;
            index += 1;
        }
        for sealed in self.files() {
            candidates |= u64::from(sealed.may_contain(key, mask)) << index;
            index += 1;
        }
        candidates
    }

    /// Why a file could not be read, for a call that was told so.
    #[cold]
    pub(crate) fn damage(&self) -> Error {
        let latest = self.sealed.iter().find_map(Sealed::damage);
        latest.unwrap_or(Error::Poisoned { operation: "reading a sealed file" })
    }

    /// Asks the processor for the lines of the frozen tables and sealed generations that are candidates.
    #[inline]
    pub(crate) fn prefetch_candidates(&self, key: Fingerprint, mut candidates: u64) {
        while candidates != 0 {
            let index = candidates.trailing_zeros() as usize;
            candidates &= candidates - 1;
            match self.behind(index) {
                Behind::Frozen(older) | Behind::Kept(older) => older.table.prefetch(key),
                Behind::File(sealed) => sealed.prefetch_line(key),
            }
        }
    }

    /// Whether any sealed generation is likely to make look-ups wait for the disk.
    pub(crate) fn is_any_cold(&self) -> bool {
        self.files().iter().any(Sealed::is_cold)
    }

    /// Asks the system for the pages of the candidates that answer from cold files.
    pub(crate) fn fetch_candidates(&self, key: Fingerprint, candidates: u64) {
        let tables = self.older.len() + self.kept.len();
        for (index, sealed) in (tables..).zip(self.files()) {
            if candidates & (1 << index) != 0 {
                sealed.fetch_line(key);
            }
        }
    }

    /// Asks the processor for what the first look at a key reads: its line in the active and the closing
    /// table and its filter blocks.
    #[inline]
    pub(crate) fn prefetch(&self, key: Fingerprint) {
        self.prefetch_lines(key);
        self.prefetch_filters(key);
    }

    /// Asks the processor for a key's line in the active and the closing table.
    #[inline]
    pub(crate) fn prefetch_lines(&self, key: Fingerprint) {
        self.active.prefetch(key);
        if let Some(closing) = &self.closing {
            closing.table.prefetch(key);
        }
    }

    /// Whether the active table has a fact of a key, so that no older table is asked.
    #[inline]
    pub(crate) fn is_in_active(&self, key: Fingerprint) -> bool {
        match self.active.find(key) {
            Probe::Hit(cell) => cell.load().state() != State::Undecided,
            Probe::Miss(_) | Probe::Exhausted => false,
        }
    }

    /// Asks the processor for a key's filter blocks.
    #[inline]
    pub(crate) fn prefetch_filters(&self, key: Fingerprint) {
        for older in self.older.iter().chain(&self.kept) {
            if let Some(filter) = older.filter.as_ref().filter(|_| older.is_in_range(key)) {
                filter.prefetch(key);
            }
        }
        for sealed in self.files() {
            sealed.prefetch_filter(key);
        }
    }

    /// All tables in memory, newest first.
    pub(crate) fn tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.unsealed().chain(self.kept.iter().map(|kept| &kept.table))
    }

    /// Tables that are in no file, newest first.
    pub(crate) fn unsealed(&self) -> impl Iterator<Item = &Arc<Table>> {
        let closing = self.closing.iter().map(|closing| &closing.table);
        let older = self.older.iter().map(|older| &older.table);
        std::iter::once(&self.active).chain(closing).chain(older)
    }

    /// Bytes charged for tables, each once.
    pub(crate) fn table_bytes(&self) -> u64 {
        self.tables().map(|table| table.bytes()).sum()
    }

    /// Bytes charged for filters.
    pub(crate) fn filter_bytes(&self) -> u64 {
        let tables = self.older.iter().chain(&self.kept).filter_map(|older| older.filter.as_ref());
        tables.map(|filter| filter.memory_bytes()).sum::<u64>()
            + self.sealed.iter().map(Sealed::filter_bytes).sum::<u64>()
    }

    /// The log segment from which on facts are logged that are in no sealed file.
    pub(crate) fn log_floor(&self) -> u64 {
        let closing = self.closing.as_ref().map(|closing| closing.log_from);
        self.older.last().map(|older| older.log_from).or(closing).unwrap_or(self.log_from)
    }

    /// An estimate of the IDs in all tables; an ID in two tables counts twice.
    pub(crate) fn ids(&self) -> u64 {
        let closing = self.closing.as_ref().map_or(0, |closing| closing.table.facts());
        let sealed = self.sealed.iter().map(Sealed::ids).sum::<u64>();
        self.active.facts() + closing + self.older.iter().map(Older::ids).sum::<u64>() + sealed
    }
}

impl Older {
    /// A table that has just been frozen.
    pub(crate) fn frozen(table: Arc<Table>, view_number: u64, log_from: u64) -> Older {
        Older {
            table,
            filter: None,
            hi_first: 0,
            hi_last: u64::MAX,
            frozen_since: view_number,
            is_carried: false,
            log_from,
            covers: Vec::new(),
        }
    }

    /// Bytes charged for the table and its filter.
    pub(crate) fn bytes(&self) -> u64 {
        self.table.bytes() + self.filter.as_ref().map_or(0, |filter| filter.memory_bytes())
    }

    /// An estimate of the IDs that this entry answers for.
    fn ids(&self) -> u64 {
        if self.hi_last != u64::MAX {
            // The table is being filled, and has just the IDs that it answers for.
            return self.table.facts();
        }
        let share = (1_u128 << 64) - u128::from(self.hi_first);
        u64::try_from((u128::from(self.table.facts()) * share) >> 64).unwrap_or(u64::MAX)
    }

    #[inline]
    fn is_in_range(&self, key: Fingerprint) -> bool {
        self.hi_first <= key.hi() && key.hi() <= self.hi_last
    }

    #[inline]
    pub(crate) fn may_contain(&self, key: Fingerprint, mask: Mask) -> bool {
        self.is_in_range(key)
            && self.filter.as_ref().is_none_or(|filter| filter.may_contain_masked(key, mask))
    }
}
