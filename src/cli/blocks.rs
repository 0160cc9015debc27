//! Blocks: inputs cut into runs of whole records.
//!
//! A block is what one read delivered, up to its last terminator; the beginning of a record behind that
//! waits in `Blocks` for the next block. Only while a block holds no whole record is it read into again,
//! and it grows then, so memory is bounded by the longest record and a record typed by hand is passed on at
//! once. Records never join across inputs: the last one of each input gets a terminator if it has none.
//!
//! Each byte is copied at most twice here (out of the kernel, and once as part of a cut record) and
//! searched once.

use std::io::Read;
use std::vec;

use super::block::Block;
use super::exit::Failure;
use super::input::Input;
use super::settings::Format;

/// Cuts inputs into blocks, one input after the other.
pub(super) struct Blocks {
    inputs: vec::IntoIter<Input>,
    open: Option<Open>,
    format: Format,
    /// The beginning of a record whose end has not been read.
    cut: Vec<u8>,
    /// Told once the whole records before it have been handed out.
    failure: Option<Failure>,
}

struct Open {
    input: Input,
    source: Box<dyn Read + Send>,
    /// Records handed out so far, for messages.
    records: u64,
}

impl Blocks {
    /// Blocks of `inputs`.
    pub(super) fn new(inputs: Vec<Input>, format: Format) -> Self {
        Self { inputs: inputs.into_iter(), open: None, format, cut: Vec::new(), failure: None }
    }

    /// Fills `block` with at least one whole record; false at the end of the last input.
    ///
    /// Waits for input only while there is no whole record.
    ///
    /// # Errors
    ///
    /// An input cannot be opened or read, or a record is too long. Whole records before the error were handed
    /// out by the calls before.
    pub(super) fn fill(&mut self, block: &mut Block) -> Result<bool, Failure> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        block.restart(&self.cut);
        self.cut.clear();
        loop {
            let Some(open) = self.open.as_mut() else {
                let Some(input) = self.inputs.next() else {
                    return Ok(false);
                };
                self.open = Some(Open { source: input.open()?, input, records: 0 });
                continue;
            };
            let read_bytes =
                block.read_from(&mut open.source).map_err(|error| open.input.read_failure(&error))?;
            if read_bytes == 0 {
                block.terminate(self.format.terminator);
            } else {
                block.split(self.format.terminator);
            }
            self.failure = self.format.bytes_max.and_then(|bytes_max| open.refuse_long(block, bytes_max));
            open.records += block.records() as u64;
            if read_bytes == 0 {
                self.open = None;
            }
            if block.records() > 0 {
                self.cut.extend_from_slice(block.cut());
                return Ok(true);
            }
            if let Some(failure) = self.failure.take() {
                return Err(failure);
            }
        }
    }
}

impl Open {
    /// Drops the first record longer than `bytes_max` and all behind it from `block`, and says which it was.
    fn refuse_long(&self, block: &mut Block, bytes_max: u64) -> Option<Failure> {
        let index = block.first_longer_than(bytes_max)?;
        block.truncate(index);
        let line = self.records + index as u64 + 1;
        Some(Failure::LineTooLong { name: self.input.name(), line, bytes_max })
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;
    use crate::cli::settings::Format;

    /// Delivers `bytes` in pieces of uneven lengths, as pipes do.
    struct Pieces {
        bytes: Vec<u8>,
        at: usize,
        seed: u64,
    }

    impl Read for Pieces {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            if self.seed >> 62 == 0 {
                return Err(std::io::ErrorKind::Interrupted.into());
            }
            let wanted = 1 + usize::try_from(self.seed >> 60).unwrap();
            let piece = wanted.min(self.bytes.len() - self.at).min(buffer.len());
            buffer[..piece].copy_from_slice(&self.bytes[self.at..self.at + piece]);
            self.at += piece;
            Ok(piece)
        }
    }

    fn blocks_of(bytes: &[u8], seed: u64, bytes_max: Option<u64>) -> Blocks {
        let format = Format { terminator: b'\n', crlf: false, bytes_max };
        let mut blocks = Blocks::new(Vec::new(), format);
        let source = Box::new(Pieces { bytes: bytes.to_vec(), at: 0, seed });
        blocks.open = Some(Open { input: Input::Stdin, source, records: 0 });
        blocks
    }

    fn joined(mut blocks: Blocks) -> (Vec<u8>, Option<Failure>) {
        let mut all = Vec::new();
        let mut block = Block::default();
        loop {
            match blocks.fill(&mut block) {
                Ok(true) => {
                    all.extend_from_slice(block.keep(std::iter::repeat(true)));
                }
                Ok(false) => return (all, None),
                Err(failure) => return (all, Some(failure)),
            }
        }
    }

    #[test]
    fn input_in_any_pieces_comes_out_whole() {
        let text = b"\n\na\nbcdefghijklmnopqrstuvwxyz0123456789\n\0\r\n\xff\xfe\n\nlast";
        for seed in 0..500 {
            for end in [0, 1, 2, 30, text.len()] {
                let (all, failure) = joined(blocks_of(&text[..end], seed, None));
                let mut expected = text[..end].to_vec();
                if expected.last().is_some_and(|&byte| byte != b'\n') {
                    expected.push(b'\n');
                }
                assert_eq!(all, expected, "seed {seed}, {end} bytes");
                assert!(failure.is_none());
            }
        }
    }

    #[test]
    fn record_too_long_is_named_after_all_before_it_came_out() {
        for seed in 0..200 {
            let (all, failure) = joined(blocks_of(b"ab\nabc\nabcd\nx\n", seed, Some(3)));
            assert_eq!(all, b"ab\nabc\n", "seed {seed}");
            let sentence = failure.unwrap().sentence();
            assert!(sentence.starts_with("standard input:3: line is longer than 3 bytes"), "{sentence}");
        }
        let (all, failure) = joined(blocks_of(b"ab\nabcd", 1, Some(3)));
        assert!(all == b"ab\n" && failure.is_some());
    }
}
