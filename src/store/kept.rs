//! Tables kept in memory that answer for sealed generations, so that their files are not asked.
//!
//! ```text
//! kept:     [ 9 8 7 ] [ 7 4 ]                newest first, with the generations that each covers
//! sealed:     9 8 7       4   |  3   1       newest first
//!             answered above  |  answer from their files
//! ```
//!
//! A table that was sealed stays and covers its generation ([`Older::kept`]); neighbours are merged in memory
//! as frozen tables are in a store without files ([`Merge`](super::compact::Merge)), so few are asked however
//! many files there are, and these are fused when there is nothing better to do.
//!
//! - Kept tables cover the newest generations, without a gap: all of them are asked before any file, and what
//!   is asked first hides what is asked later ([`View::count_kept`]).
//! - A generation that several cover is answered by all of them together: files were fused, or tables are
//!   being merged. When one of them goes the file answers, and the others may go as well.

use crate::bloom::Bloom;
use crate::fingerprint::Fingerprint;
use crate::generation::Generation;
use crate::limits::KEPT_LIMIT;
use crate::sync::Arc;
use crate::table::Table;

use super::fact::Fact;
use super::sealed::Sealed;
use super::view::{Older, View};

impl Older {
    /// A table that covers a sealed generation.
    pub(crate) fn kept(table: Arc<Table>, filter: Arc<Bloom>, generation: u64) -> Older {
        Older {
            filter: Some(filter),
            is_carried: true,
            covers: vec![generation],
            ..Older::frozen(table, 0, 0)
        }
    }

    /// What a kept table knows of a key. A lease in it is carried elsewhere, or over: read back as it was
    /// sealed.
    #[inline]
    pub(crate) fn sealed_fact(&self, key: Fingerprint) -> Fact {
        match Fact::in_table(&self.table, key) {
            Fact::Pending(stamp, until) if stamp.version() > 0 => Fact::Forgotten(until - 1),
            Fact::Pending(..) => Fact::None,
            fact => fact,
        }
    }

    fn is_covering(&self, generation: u64) -> bool {
        self.covers.contains(&generation)
    }
}

impl View {
    /// Counts the generations that kept tables cover, for a view that is about to be published.
    ///
    /// # Panics
    ///
    /// When there is a gap: a kept table would hide what a newer file knows.
    pub(super) fn count_kept(&mut self) {
        let is_kept =
            |sealed: &Sealed| self.kept.iter().any(|kept| kept.is_covering(sealed.generation().id()));
        self.sealed_kept = self.sealed.iter().take_while(|sealed| is_kept(sealed)).count();
        assert!(!self.files().iter().any(is_kept), "a kept table behind a file: {:?}", self.kept);
    }

    /// Lists a generation that a table was sealed as, which goes on answering for it.
    pub(super) fn list_kept(&mut self, sealed: Sealed, table: Arc<Table>, filter: Arc<Bloom>) {
        while self.kept.len() >= KEPT_LIMIT {
            self.release_kept();
        }
        self.kept.insert(0, Older::kept(table, filter, sealed.generation().id()));
        self.sealed.insert(0, sealed);
    }

    /// Covers the newest generation that is not yet covered with a copy of it.
    pub(super) fn keep(&mut self, generation: &Arc<Generation>, table: Arc<Table>, filter: Arc<Bloom>) {
        self.kept.push(Older::kept(table, filter, generation.id()));
        let kept = self.sealed.iter_mut().filter(|sealed| Arc::ptr_eq(sealed.generation(), generation));
        kept.for_each(|sealed| sealed.load_filter(None));
    }

    /// Puts what neighbours were fused into in their place; `None` when nothing was left of them. If all are
    /// covered so is it, together by all tables that covered one of them; if not, its file answers.
    pub(super) fn replace_sealed(&mut self, sources: &[u64], result: Option<(Sealed, Arc<Bloom>)>) {
        let is_covered = sources.iter().all(|id| self.kept.iter().any(|kept| kept.is_covering(*id)));
        let is_source = |sealed: &Sealed| sources.contains(&sealed.generation().id());
        let place = self.sealed.iter().position(is_source).unwrap_or(0);
        self.sealed.retain(|sealed| !is_source(sealed));
        if let Some((mut sealed, filter)) = result {
            sealed.load_filter(Some(filter).filter(|_| !is_covered));
            let id = sealed.generation().id();
            let covering = self.kept.iter_mut().filter(|kept| sources.iter().any(|id| kept.is_covering(*id)));
            covering.filter(|_| is_covered).for_each(|kept| kept.covers.push(id));
            self.sealed.insert(place, sealed);
        }
        self.uncover(|id| sources.contains(&id));
    }

    /// Lets files answer for some generations, and for all behind them. Tables that cover none go.
    pub(super) fn uncover(&mut self, is_uncovered: impl Fn(u64) -> bool) {
        let is_first = |sealed: &Sealed| is_uncovered(sealed.generation().id());
        let first = self.sealed.iter().position(is_first).unwrap_or(self.sealed.len());
        let behind = &mut self.sealed[first..];
        behind.iter_mut().for_each(Sealed::forget_asked);
        let is_behind = |id: u64| behind.iter().any(|sealed| sealed.generation().id() == id);
        for kept in &mut self.kept {
            kept.covers.retain(|id| !is_uncovered(*id) && !is_behind(*id));
        }
        self.kept.retain(|kept| !kept.covers.is_empty());
    }

    /// Bytes of kept tables and of filters that files can do without.
    pub(super) fn releasable_bytes(&self) -> u64 {
        let filters = self.files().iter().filter_map(Sealed::filter).map(|filter| filter.memory_bytes());
        self.kept.iter().map(Older::bytes).sum::<u64>() + filters.sum::<u64>()
    }

    /// Lets kept tables go, and then filters of files, which are asked in their maps then, the oldest first,
    /// until so many bytes are free; returns how many are.
    pub(super) fn release_copies(&mut self, excess: u64) -> u64 {
        let before = self.table_bytes() + self.filter_bytes();
        let freed = |view: &View| before - view.table_bytes() - view.filter_bytes();
        // One may take others with it that answer together with it.
        while freed(self) < excess && !self.kept.is_empty() {
            self.release_kept();
        }
        for index in (0..self.sealed.len()).rev() {
            if freed(self) < excess {
                self.sealed[index].load_filter(None);
            }
        }
        freed(self)
    }

    /// Lets the oldest kept table go, and with it what it answers for together with others; files answer from
    /// now on, with its filter where it is that of one file.
    pub(super) fn release_kept(&mut self) {
        let Some(oldest) = self.kept.pop() else { return };
        if let [id] = oldest.covers[..]
            && !self.kept.iter().any(|kept| kept.is_covering(id))
            && let Some(sealed) = self.sealed.iter_mut().find(|sealed| sealed.generation().id() == id)
        {
            sealed.load_filter(oldest.filter.clone());
        }
        self.uncover(|id| oldest.is_covering(id));
    }
}

#[cfg(test)]
#[cfg(not(any(loom, miri)))]
mod tests;
