//! Writes a generation in one sequential pass, with its filter and one block of lines in memory.

use std::fmt;
use std::io;

use crate::bloom::{BLOCK_BYTES, Bloom, BloomBuilder};
use crate::codec::Checksum;
use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::limits::{
    FILTER_BITS_PER_KEY, GENERATION_BLOCK_BYTES, GENERATION_SYNC_BYTES, LOAD_SEALED_PERCENT, SPARE_LINES,
};
use crate::stamp::{Stamp, State, VERSION_MAX};
use crate::storage::names::{generation_name, temporary_name};
use crate::storage::replace::create_anew;
use crate::storage::{Storage, StorageFile, failed};
use crate::sync::Arc;
use crate::table::lines_for;

use super::header::{HEADER_BYTES, Header, footer};
use super::line::{self, Line, SLOTS};
use super::{Sealed, Seeds, home};

/// What a generation is going to be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spec {
    pub(crate) store_id: u64,
    /// Number of the generation, never used before.
    pub(crate) id: u64,
    /// Keys that are going to be pushed, or a higher estimate: it sizes the file and its filter.
    pub(crate) ids: u64,
    /// The tick that versions count from; what is over by then is kept for one tick.
    pub(crate) birth: u64,
    pub(crate) tick_ms: u64,
    pub(crate) is_forever: bool,
}

/// The filter of the file.
enum Making {
    /// Of the keys that were pushed so far.
    Builder(BloomBuilder),
    /// One at hand, that lets all keys pass which are going to be pushed.
    Made(Arc<Bloom>),
}

/// A generation that is being written, under its temporary name.
///
/// Dropping it leaves that file, which nobody reads; [`GenerationWriter::abandon`] removes it.
pub(crate) struct GenerationWriter {
    file: Box<dyn StorageFile>,
    name: String,
    temporary: String,
    spec: Spec,
    seeds: Seeds,
    home_lines: u64,
    filter: Making,
    /// The line that is being filled, how many slots of it are, and which line it is.
    line: Line,
    slots: usize,
    line_index: u64,
    key_last: Option<Fingerprint>,
    ids: u64,
    until_min: u64,
    until_max: u64,
    /// Whole lines that are not written yet, and where they belong.
    buffer: Vec<u8>,
    offset: u64,
    /// How far the file was synced: little is left to sync at its end, when others wait.
    offset_synced: u64,
    lines_checksum: Checksum,
    /// Whether the last write or sync did not come to its end: the file is worth nothing then.
    is_broken: bool,
}

impl GenerationWriter {
    /// Begins a file; one with the same temporary name, which a crash left, is removed.
    ///
    /// # Errors
    ///
    /// [`Error::Io`]; [`Error::System`] when there is no memory for the filter.
    pub(crate) fn create(storage: &dyn Storage, spec: Spec) -> Result<GenerationWriter> {
        let filter = BloomBuilder::new(spec.ids, FILTER_BITS_PER_KEY)?;
        GenerationWriter::begin(storage, spec, Making::Builder(filter))
    }

    /// The same with a filter at hand, which lets all keys pass that are going to be pushed.
    ///
    /// # Errors
    ///
    /// As [`GenerationWriter::create`].
    pub(crate) fn create_with(
        storage: &dyn Storage,
        spec: Spec,
        filter: Arc<Bloom>,
    ) -> Result<GenerationWriter> {
        GenerationWriter::begin(storage, spec, Making::Made(filter))
    }

    fn begin(storage: &dyn Storage, spec: Spec, filter: Making) -> Result<GenerationWriter> {
        let name = generation_name(spec.id);
        let temporary = temporary_name(&name);
        let seeds = Seeds::new(spec.store_id, spec.id);
        Ok(GenerationWriter {
            file: create_anew(storage, &temporary)?,
            name,
            temporary,
            spec,
            seeds,
            home_lines: lines_for(spec.ids, LOAD_SEALED_PERCENT),
            filter,
            line: [0; line::BYTES],
            slots: 0,
            line_index: 0,
            key_last: None,
            ids: 0,
            until_min: u64::MAX,
            until_max: 0,
            buffer: Vec::with_capacity(GENERATION_BLOCK_BYTES),
            offset: HEADER_BYTES as u64,
            offset_synced: 0,
            lines_checksum: Checksum::new(seeds.lines),
            is_broken: false,
        })
    }

    /// Gives the file at least so many home lines, before the first key: keys that found room in a table with
    /// as many find room in it.
    pub(crate) fn with_home_lines(mut self, home_lines: u64) -> GenerationWriter {
        self.home_lines = self.home_lines.max(home_lines);
        self
    }

    /// Adds a key that was not added before; keys come in the order of `hi`.
    ///
    /// # Errors
    ///
    /// [`Error::Io`]; [`Error::Uneven`] when too many keys crowd before this one: see
    /// [`GenerationWriter::with_home_lines`].
    /// [`Error::RevisionsUsedUp`] when `until` is too far from birth for a stamp.
    ///
    /// # Panics
    ///
    /// When the order is broken or the state is none that is sealed.
    pub(crate) fn push(&mut self, key: Fingerprint, state: State, until: u64) -> Result<()> {
        assert!(matches!(state, State::Seen | State::Forgotten), "{state:?} is no fact");
        let is_ordered = self.key_last.is_none_or(|last| last.hi() <= key.hi() && last != key);
        assert!(is_ordered, "keys come once and in order, here {key:?} after {:?}", self.key_last);
        let version = until.saturating_sub(self.spec.birth).max(1);
        let version = u32::try_from(version).ok().filter(|version| *version <= VERSION_MAX);
        let stamp = Stamp::new(state, version.ok_or(Error::RevisionsUsedUp)?);
        let home = home(key.hi(), self.home_lines);
        while self.line_index < home || self.slots == SLOTS {
            self.end_line()?;
        }
        if self.line_index - home > SPARE_LINES {
            return Err(Error::Uneven { tables: 1 });
        }
        line::put(&mut self.line, self.slots, key, stamp);
        if let Making::Builder(filter) = &mut self.filter {
            filter.insert(key);
        }
        self.slots += 1;
        self.key_last = Some(key);
        self.ids += 1;
        let until = self.spec.birth.saturating_add(stamp.version().into());
        self.until_min = self.until_min.min(until);
        self.until_max = self.until_max.max(until);
        Ok(())
    }

    /// Lines that are anybody's home.
    pub(crate) fn home_lines(&self) -> u64 {
        self.home_lines
    }

    /// Keys pushed so far.
    pub(crate) fn ids(&self) -> u64 {
        self.ids
    }

    /// Memory of the filter that is being made.
    pub(crate) fn filter_bytes(&self) -> u64 {
        match &self.filter {
            Making::Builder(filter) => filter.memory_bytes(),
            Making::Made(_) => 0,
        }
    }

    /// Memory that the writer takes beside its filter.
    pub(crate) fn buffer_bytes(&self) -> u64 {
        self.buffer.capacity() as u64
    }

    /// Writes what is left and the header, syncs the file, gives it its name and syncs the directory.
    ///
    /// Answers what the manifest has to say of it, and its filter.
    ///
    /// # Errors
    ///
    /// [`Error::Io`]; [`Error::Poisoned`] when a write has failed before.
    pub(crate) fn finish(mut self, storage: &dyn Storage) -> Result<(Sealed, Arc<Bloom>)> {
        while self.line_index < self.home_lines.max(1) {
            self.end_line()?;
        }
        if self.slots > 0 {
            self.end_line()?;
        }
        self.flush()?;
        let filter = match self.filter {
            Making::Builder(filter) => Arc::new(filter.build()),
            Making::Made(filter) => filter,
        };
        self.filter = Making::Made(Arc::clone(&filter));
        let filter_checksum = self.write_filter(&filter)?;
        let header = self.header(&filter, filter_checksum);
        let (header_bytes, header_checksum) = header.encode();
        self.write(header.footer_offset(), &footer(header_checksum, self.seeds))?;
        self.write(0, &header_bytes)?;
        self.attempt("syncing", |file| file.sync())?;
        storage.rename(&self.temporary, &self.name).map_err(failed("renaming", &self.temporary))?;
        storage.sync_dir().map_err(failed("syncing the directory of", &self.name))?;
        Ok((header.sealed(header_checksum), filter))
    }

    /// Gives up: removes the temporary file.
    ///
    /// # Errors
    ///
    /// [`Error::Io`].
    pub(crate) fn abandon(self, storage: &dyn Storage) -> Result<()> {
        drop(self.file);
        storage.remove(&self.temporary).map_err(failed("removing", &self.temporary))
    }

    /// Seals the line that is being filled and begins the next.
    fn end_line(&mut self) -> Result<()> {
        line::seal(&mut self.line, self.seeds.of_line(self.line_index));
        self.buffer.extend_from_slice(&self.line);
        self.line = [0; line::BYTES];
        self.slots = 0;
        self.line_index += 1;
        if self.buffer.len() + line::BYTES > GENERATION_BLOCK_BYTES { self.flush() } else { Ok(()) }
    }

    /// Writes the lines that wait.
    fn flush(&mut self) -> Result<()> {
        let buffer = std::mem::take(&mut self.buffer);
        self.lines_checksum.add(&buffer);
        self.append(&buffer)?;
        self.buffer = buffer;
        self.buffer.clear();
        Ok(())
    }

    /// Writes the filter behind the lines; answers its checksum.
    fn write_filter(&mut self, filter: &Bloom) -> Result<u64> {
        let blocks_at_once = GENERATION_BLOCK_BYTES / BLOCK_BYTES;
        let mut sum = Checksum::new(self.seeds.filter);
        for first in (0..filter.blocks()).step_by(blocks_at_once) {
            let mut buffer = std::mem::take(&mut self.buffer);
            buffer.clear();
            filter.write_into(first, blocks_at_once.min(filter.blocks() - first), &mut buffer);
            sum.add(&buffer);
            self.append(&buffer)?;
            self.buffer = buffer;
        }
        Ok(sum.finish())
    }

    fn header(&self, filter: &Bloom, filter_checksum: u64) -> Header {
        let filter_blocks = filter.blocks() as u64;
        let bytes = Header::bytes_of(self.line_index, filter_blocks).expect("the file has been written");
        Header {
            store_id: self.spec.store_id,
            id: self.spec.id,
            bytes,
            lines: self.line_index,
            home_lines: self.home_lines,
            filter_blocks,
            ids: self.ids,
            birth: self.spec.birth,
            tick_ms: self.spec.tick_ms,
            until_min: self.until_min,
            until_max: self.until_max,
            lines_checksum: self.lines_checksum.finish(),
            filter_checksum,
            is_forever: self.spec.is_forever,
        }
    }

    /// Writes what comes next in the file, and syncs now and then.
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.write(self.offset, bytes)?;
        self.offset += bytes.len() as u64;
        if self.offset - self.offset_synced < GENERATION_SYNC_BYTES {
            return Ok(());
        }
        self.offset_synced = self.offset;
        self.attempt("syncing", |file| file.sync())
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.attempt("writing", |file| file.write_all_at(offset, bytes))
    }

    /// Does what must not be done after a failure, nor again (G6).
    fn attempt(
        &mut self,
        operation: &'static str,
        act: impl FnOnce(&(dyn StorageFile + 'static)) -> io::Result<()>,
    ) -> Result<()> {
        if std::mem::replace(&mut self.is_broken, true) {
            return Err(Error::Poisoned { operation: "writing a generation" });
        }
        act(&*self.file).map_err(failed(operation, &self.temporary))?;
        self.is_broken = false;
        Ok(())
    }
}

impl fmt::Debug for GenerationWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (spec, ids) = (&self.spec, self.ids);
        f.debug_struct("GenerationWriter").field("spec", spec).field("ids", &ids).finish_non_exhaustive()
    }
}
