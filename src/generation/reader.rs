//! A generation as the store has it: its file and its filter.

use crate::bloom::{BLOCK_BYTES, Bloom, Mask};
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::fingerprint::Fingerprint;
use crate::stamp::{Stamp, State};
use crate::storage::Storage;
use crate::table::prefetch;

use super::file::{Access, Content, SealedFile, index};
use super::filter::Filter;
#[cfg(test)]
use super::scan::Facts;
use super::{Sealed, SealedFact};

/// A generation that is open; immutable, so any number of threads may ask at once.
#[derive(Debug)]
pub(crate) struct Generation {
    pub(super) file: SealedFile,
    pub(super) filter: Filter,
}

impl Generation {
    /// Opens the file that the manifest names.
    ///
    /// Checks the length, the header, the footer and the filter; a damaged filter is made anew from the lines
    /// ([`Generation::is_filter_rebuilt`]). Lines are checked when they are read.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] when it is missing, damaged or another file; [`Error::Format`]; [`Error::Io`];
    /// [`Error::System`] when there is no memory for the filter.
    pub(crate) fn open(
        storage: &dyn Storage,
        named: &Sealed,
        store_id: u64,
        access: Access,
    ) -> Result<Generation> {
        let file = SealedFile::open(storage, named, store_id, access)?;
        Ok(Generation { filter: Filter::open(&file)?, file })
    }

    /// The same for a file of which the caller has the filter at hand: without a map it is not read, and
    /// every key passes here.
    ///
    /// # Errors
    ///
    /// As [`Generation::open`].
    pub(crate) fn open_written(
        storage: &dyn Storage,
        named: &Sealed,
        store_id: u64,
        access: Access,
    ) -> Result<Generation> {
        let file = SealedFile::open(storage, named, store_id, access)?;
        let filter =
            if matches!(file.content, Content::File) { Filter::none() } else { Filter::open(&file)? };
        Ok(Generation { filter, file })
    }

    /// What is known of a key: its state, and until which tick.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] when a line on the way is damaged; [`Error::Io`] where the file is read.
    ///
    /// Complexity: one cache line as a rule, and no system call through a map; one read otherwise.
    #[inline]
    pub(crate) fn find(&self, key: Fingerprint) -> Result<Option<(State, u64)>> {
        self.file.find(key)
    }

    /// Whether the key may be here; `false` is certain.
    #[inline]
    pub(crate) fn may_contain_masked(&self, key: Fingerprint, mask: Mask) -> bool {
        self.filter.may_contain_masked(&self.file, key, mask)
    }

    /// Asks the processor for what [`Generation::may_contain_masked`] reads.
    #[inline]
    pub(crate) fn prefetch(&self, key: Fingerprint) {
        self.filter.prefetch(&self.file, key);
    }

    /// Asks the processor for what [`Generation::find`] reads; does nothing without a map.
    #[inline]
    pub(crate) fn prefetch_line(&self, key: Fingerprint) {
        if let Content::Map(map) = &self.file.content {
            prefetch(&map[index(self.file.home_offset(key))]);
        }
    }

    /// Whether [`Generation::find`] would not have to wait for the disk; also true where the system doesn't
    /// say. One system call.
    pub(crate) fn is_at_hand(&self, key: Fingerprint) -> bool {
        self.file.is_at_hand(key)
    }

    /// Asks the system to read what [`Generation::find`] needs, and waits for nothing. One system call.
    pub(crate) fn will_find(&self, key: Fingerprint) {
        self.file.will_find(key);
    }

    /// File name, within the store's directory.
    pub(crate) fn name(&self) -> &str {
        &self.file.name
    }

    /// What the manifest says of this generation.
    pub(crate) fn sealed(&self) -> Sealed {
        self.file.header.sealed(self.file.header_checksum)
    }

    /// Number of the generation.
    pub(crate) fn id(&self) -> u64 {
        self.file.header.id
    }

    /// Keys in it.
    pub(crate) fn ids(&self) -> u64 {
        self.file.header.ids
    }

    /// Lines in it, for [`Generation::facts_in`].
    pub(crate) fn lines(&self) -> u64 {
        self.file.header.lines
    }

    /// Lines that are anybody's home.
    pub(crate) fn home_lines(&self) -> u64 {
        self.file.header.home_lines
    }

    /// The tick that its versions count from.
    pub(crate) fn birth(&self) -> u64 {
        self.file.header.birth
    }

    /// The last tick until which anything in it is seen.
    pub(crate) fn until_max(&self) -> u64 {
        self.file.header.until_max
    }

    /// Length of the file.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.file.header.bytes
    }

    /// Memory of its own: the filter, if that is loaded.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.filter.memory_bytes()
    }

    /// Whether the filter in the file was damaged, and was made anew from the lines.
    pub(crate) fn is_filter_rebuilt(&self) -> bool {
        self.filter.is_rebuilt()
    }

    /// Bytes of memory that [`Generation::read_filter`] takes.
    pub(crate) fn filter_bytes(&self) -> u64 {
        self.file.header.filter_blocks * BLOCK_BYTES as u64
    }

    /// Whether the filter is in memory already, because it can't be asked in the map.
    pub(crate) fn is_filter_loaded(&self) -> bool {
        self.filter.is_loaded()
    }

    /// Reads the filter into memory: one in the map is only as good as the next read from the disk, and costs
    /// a page fault now and then. One that was damaged since it was checked is made anew.
    ///
    /// # Errors
    ///
    /// [`Error::System`] without that much memory; [`Error::Corrupt`] and [`Error::Io`] from reading.
    pub(crate) fn read_filter(&self) -> Result<Bloom> {
        Filter::read(&self.file)
    }

    /// All facts in the order of `hi`, each line checked; ends with the first error.
    #[cfg(test)]
    pub(crate) fn facts(&self) -> Facts<'_> {
        self.file.facts()
    }

    /// Appends the facts in `count` lines from `first` on, in the order of `hi`; lines behind the last are
    /// none.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] at the first damaged line; [`Error::Io`].
    pub(crate) fn facts_in(&self, first: u64, count: u64, facts: &mut Vec<SealedFact>) -> Result<()> {
        self.file.facts_in(first, count, facts)
    }

    /// Hands on what is in `count` lines from `first` on: number of the line, slot, key and stamp. Answers
    /// the last `hi`, or `hi_least` if there is none, for the next lines.
    ///
    /// # Errors
    ///
    /// As [`Generation::facts_in`], also where a key is not in the order of `hi`, beginning with
    /// `hi_least`, or before its home line: no writer has written that. What was handed on before is right.
    pub(crate) fn each_slot_in(
        &self,
        first: u64,
        count: u64,
        hi_least: u64,
        visit: impl FnMut(u64, usize, Fingerprint, Stamp),
    ) -> Result<u64> {
        self.file.each_slot_in(first, count, hi_least, visit)
    }

    /// Appends the facts of keys with a `hi` in `first..=last`, in the order of `hi`.
    ///
    /// # Errors
    ///
    /// As [`Generation::facts_in`].
    pub(crate) fn facts_between(&self, first: u64, last: u64, facts: &mut Vec<SealedFact>) -> Result<()> {
        self.file.facts_between(first, last, facts)
    }
}
