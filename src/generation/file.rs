//! The file of a generation: opened, read, and searched for one key.

use std::io;

use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::limits::{LINE_BYTES, SPARE_LINES};
use crate::stamp::State;
use crate::storage::names::generation_name;
use crate::storage::{Map, Storage, StorageFile, failed};

use super::header::{FOOTER_BYTES, HEADER_BYTES, Header, UnverifiedHeader, footer};
use super::line::{self, Look};
use super::{Sealed, Seeds, home};

/// Lines that a look-up without a map reads at once: first, and when those did not end it.
const LINES_FIRST: u64 = 4;
const LINES_NEXT: u64 = 16;
const BYTES_NEXT: usize = 16 * line::BYTES;

/// How the lines are reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Access {
    /// Through a read-only map of the file; where the system has none, as with `Pread`.
    #[default]
    Map,
    /// By reading from the file for every look-up.
    Pread,
}

/// Bytes from the start of a line that a look-up reads as a rule.
const BYTES_ASKED: u64 = 2 * LINE_BYTES;

/// The bytes of the file.
#[derive(Debug)]
pub(super) enum Content {
    Map(Map),
    File,
}

/// A file whose ends are checked; a line is checked when it is read.
#[derive(Debug)]
pub(super) struct SealedFile {
    pub(super) name: String,
    pub(super) header: Header,
    pub(super) header_checksum: u64,
    pub(super) seeds: Seeds,
    pub(super) content: Content,
    /// Where there is a map too, to ask the system for pages of it.
    file: Box<dyn StorageFile>,
}

impl SealedFile {
    /// Opens the file that the manifest names; checks its length, its header and its footer.
    pub(super) fn open(
        storage: &dyn Storage,
        named: &Sealed,
        store_id: u64,
        access: Access,
    ) -> Result<SealedFile> {
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
        let content = Content::new(&*file, access).map_err(failed("mapping", &name))?;
        Ok(SealedFile { name, header, header_checksum, seeds, content, file })
    }

    /// What is known of a key: its state, and until which tick.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] when a line on the way is damaged; [`Error::Io`] where the file is read.
    ///
    /// Complexity: one cache line as a rule, and no system call through a map; one read otherwise.
    #[inline]
    pub(super) fn find(&self, key: Fingerprint) -> Result<Option<(State, u64)>> {
        let home = home(key.hi(), self.header.home_lines);
        let end = (home + SPARE_LINES + 1).min(self.header.lines);
        match &self.content {
            Content::Map(map) => {
                let lines = &map[index(Header::line_offset(home))..index(Header::line_offset(end))];
                Ok(self.walk(lines, home, key)?.flatten())
            }
            Content::File => self.find_by_reading(home, end, key),
        }
    }

    /// Whether [`SealedFile::find`] would not have to wait for the disk, as far as the system says.
    pub(super) fn is_at_hand(&self, key: Fingerprint) -> bool {
        self.file.is_at_hand(self.home_offset(key))
    }

    /// Asks the system to read what [`SealedFile::find`] needs, without waiting for it.
    pub(super) fn will_find(&self, key: Fingerprint) {
        self.file.will_read(self.home_offset(key), BYTES_ASKED);
    }

    #[inline]
    pub(super) fn home_offset(&self, key: Fingerprint) -> u64 {
        Header::line_offset(home(key.hi(), self.header.home_lines))
    }

    fn find_by_reading(&self, mut from: u64, end: u64, key: Fingerprint) -> Result<Option<(State, u64)>> {
        let mut buffer = [0; BYTES_NEXT];
        let mut count = LINES_FIRST;
        while from < end {
            count = count.min(end - from);
            let lines = &mut buffer[..index(count * LINE_BYTES)];
            let offset = Header::line_offset(from);
            self.file.read_exact_at(offset, lines).map_err(failed("reading", &self.name))?;
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

    /// Bytes of the file: in the map, or read into the buffer.
    pub(super) fn bytes_at<'b>(
        &'b self,
        offset: u64,
        count: usize,
        buffer: &'b mut Vec<u8>,
    ) -> Result<&'b [u8]> {
        match &self.content {
            Content::Map(map) => {
                let range = index(offset)..index(offset) + count;
                map.will_need(range.clone());
                Ok(&map[range])
            }
            Content::File => {
                buffer.resize(count, 0);
                self.file.read_exact_at(offset, buffer).map_err(failed("reading", &self.name))?;
                Ok(buffer)
            }
        }
    }
    #[cold]
    pub(super) fn damaged(&self, line_index: u64) -> Error {
        let offset = Header::line_offset(line_index);
        Error::corrupt(self.name.as_str(), offset, "a line with its checksum", "something else")
    }
}

impl Content {
    fn new(file: &(dyn StorageFile + 'static), access: Access) -> io::Result<Content> {
        if access == Access::Map
            && let Some(map) = file.map()?
        {
            // Look-ups touch one page each: reading its neighbours along would cost 32 times the bytes.
            map.advise_random();
            return Ok(Content::Map(map));
        }
        Ok(Content::File)
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
