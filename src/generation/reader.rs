//! Reads a generation: opening, and the look-up of one key.

use std::io;

use crate::bloom::{Bloom, Mask};
use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::limits::{LINE_BYTES, SPARE_LINES};
use crate::stamp::State;
use crate::storage::names::generation_name;
use crate::storage::{Map, Storage, StorageFile, failed};
use crate::table::prefetch;

use super::filter::Filter;
use super::header::{FOOTER_BYTES, HEADER_BYTES, Header, UnverifiedHeader, footer};
use super::line::{self, Look};
use super::{Sealed, Seeds, home};

/// Lines that a look-up without a map reads at once: first, and when those did not end it.
const LINES_FIRST: u64 = 4;
const LINES_NEXT: u64 = 16;

/// How the lines are reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Access {
    /// Through a read-only map of the file; where the system has none, as with `Pread`.
    #[default]
    Map,
    /// By reading from the file for every look-up.
    Pread,
}

/// The bytes of the file.
#[derive(Debug)]
pub(super) enum Content {
    Map(Map),
    File(Box<dyn StorageFile>),
}

/// A generation that is open; immutable, so any number of threads may ask at once.
#[derive(Debug)]
pub(crate) struct Generation {
    pub(super) name: String,
    pub(super) header: Header,
    pub(super) header_checksum: u64,
    pub(super) seeds: Seeds,
    pub(super) content: Content,
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
        let mut generation = Generation::open_unfiltered(storage, named, store_id, access)?;
        generation.filter = Filter::open(&generation)?;
        Ok(generation)
    }

    /// The same with the filter at hand that [`GenerationWriter::finish`](super::GenerationWriter::finish)
    /// has answered.
    pub(crate) fn open_with(
        storage: &dyn Storage,
        named: &Sealed,
        store_id: u64,
        access: Access,
        filter: Bloom,
    ) -> Result<Generation> {
        let mut generation = Generation::open_unfiltered(storage, named, store_id, access)?;
        generation.filter = Filter::in_memory(filter);
        Ok(generation)
    }

    /// Everything but the filter, which lets every key pass.
    fn open_unfiltered(
        storage: &dyn Storage,
        named: &Sealed,
        store_id: u64,
        access: Access,
    ) -> Result<Generation> {
        let name = generation_name(named.id);
        let file = open_named(storage, &name, named.bytes)?;
        let mut bytes = [0; HEADER_BYTES];
        file.read_exact_at(0, &mut bytes).map_err(failed("reading", &name))?;
        let (header, header_checksum) = UnverifiedHeader(&bytes).verify(&name)?;
        if header.store_id != store_id || header.sealed(header_checksum) != *named {
            return Err(Error::corrupt(
                name,
                16,
                format!("generation {} of store {store_id:016x} as the manifest has it", named.id),
                format!("generation {} of store {:016x}", header.id, header.store_id),
            ));
        }
        let seeds = Seeds::new(store_id, named.id);
        let mut bytes = [0; FOOTER_BYTES];
        file.read_exact_at(header.footer_offset(), &mut bytes).map_err(failed("reading", &name))?;
        if bytes != footer(header_checksum, seeds) {
            return Err(Error::corrupt(name, header.footer_offset(), "the footer", "something else"));
        }
        let content = Content::new(file, access).map_err(failed("mapping", &name))?;
        Ok(Generation { name, header, header_checksum, seeds, content, filter: Filter::none() })
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
        let home = home(key.hi(), self.header.home_lines);
        let end = (home + SPARE_LINES + 1).min(self.header.lines);
        match &self.content {
            Content::Map(map) => {
                let lines = &map[index(Header::line_offset(home))..index(Header::line_offset(end))];
                Ok(self.walk(lines, home, key)?.flatten())
            }
            Content::File(file) => self.find_by_reading(file.as_ref(), home, end, key),
        }
    }

    fn find_by_reading(
        &self,
        file: &(dyn StorageFile + 'static),
        mut from: u64,
        end: u64,
        key: Fingerprint,
    ) -> Result<Option<(State, u64)>> {
        let mut buffer = [0; (LINES_NEXT * LINE_BYTES) as usize];
        let mut count = LINES_FIRST;
        while from < end {
            count = count.min(end - from);
            let lines = &mut buffer[..index(count * LINE_BYTES)];
            file.read_exact_at(Header::line_offset(from), lines).map_err(failed("reading", &self.name))?;
            if let Some(found) = self.walk(lines, from, key)? {
                return Ok(found);
            }
            from += count;
            count = LINES_NEXT;
        }
        Ok(None)
    }

    /// Looks for a key in lines that follow each other; `None` when the search goes on behind them.
    #[inline]
    #[expect(clippy::option_option, reason = "the search is over, or not; and if so it has found, or not")]
    fn walk(&self, lines: &[u8], first: u64, key: Fingerprint) -> Result<Option<Option<(State, u64)>>> {
        for (line, line_index) in lines.as_chunks().0.iter().zip(first..) {
            if !line::is_intact(line, self.seeds.of_line(line_index)) {
                return Err(self.damaged(line_index));
            }
            match line::look(line, key) {
                Look::Hit(stamp) => {
                    let (state, version) = line::fact_of(stamp).ok_or_else(|| self.damaged(line_index))?;
                    return Ok(Some(Some((state, self.header.birth.saturating_add(version.into())))));
                }
                Look::Absent => return Ok(Some(None)),
                Look::Further => {}
            }
        }
        Ok(None)
    }

    /// Whether the key may be here; `false` is certain.
    #[inline]
    pub(crate) fn may_contain_masked(&self, key: Fingerprint, mask: Mask) -> bool {
        self.filter.may_contain_masked(self, key, mask)
    }

    /// Asks the processor for what [`Generation::may_contain_masked`] reads.
    #[inline]
    pub(crate) fn prefetch(&self, key: Fingerprint) {
        self.filter.prefetch(self, key);
    }

    /// Asks the processor for what [`Generation::find`] reads; does nothing without a map.
    #[inline]
    pub(crate) fn prefetch_line(&self, key: Fingerprint) {
        if let Content::Map(map) = &self.content {
            prefetch(&map[index(Header::line_offset(home(key.hi(), self.header.home_lines)))]);
        }
    }

    /// File name, within the store's directory.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// What the manifest says of this generation.
    pub(crate) fn sealed(&self) -> Sealed {
        self.header.sealed(self.header_checksum)
    }

    /// Number of the generation.
    pub(crate) fn id(&self) -> u64 {
        self.header.id
    }

    /// Keys in it.
    pub(crate) fn ids(&self) -> u64 {
        self.header.ids
    }

    /// Lines in it, for [`Generation::facts_in`].
    pub(crate) fn lines(&self) -> u64 {
        self.header.lines
    }

    /// The tick that its versions count from.
    pub(crate) fn birth(&self) -> u64 {
        self.header.birth
    }

    /// The last tick until which anything in it is seen.
    pub(crate) fn until_max(&self) -> u64 {
        self.header.until_max
    }

    /// Length of the file.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.header.bytes
    }

    /// Memory of its own: the filter, if that is loaded.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.filter.memory_bytes()
    }

    /// Whether the filter in the file was damaged, and was made anew from the lines.
    pub(crate) fn is_filter_rebuilt(&self) -> bool {
        self.filter.is_rebuilt()
    }

    #[cold]
    pub(super) fn damaged(&self, line_index: u64) -> Error {
        let offset = Header::line_offset(line_index);
        Error::corrupt(self.name.as_str(), offset, "a line with its checksum", "something else")
    }
}

impl Content {
    fn new(file: Box<dyn StorageFile>, access: Access) -> io::Result<Content> {
        if access == Access::Map
            && let Some(map) = file.map()?
        {
            return Ok(Content::Map(map));
        }
        Ok(Content::File(file))
    }
}

/// Opens a file that must be there and have that length.
fn open_named(storage: &dyn Storage, name: &str, bytes: u64) -> Result<Box<dyn StorageFile>> {
    let expected = || format!("a file of {bytes} bytes, as the manifest says");
    let file = match storage.open_read(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(Error::corrupt(name, 0, expected(), "no file"));
        }
        outcome => outcome.map_err(failed("opening", name))?,
    };
    let found = file.size().map_err(failed("reading the length of", name))?;
    if found != bytes || bytes < (HEADER_BYTES + FOOTER_BYTES) as u64 {
        return Err(Error::corrupt(name, found.min(bytes), expected(), format!("{found} bytes")));
    }
    Ok(file)
}

/// An offset in the file as an index into what is mapped, which is as long.
#[inline]
pub(super) fn index(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}
