//! `firstseen filter`: passes on each record that was not seen before.
//!
//! Two threads: one reads and cuts into records (`Blocks`), the calling one asks the store and writes.
//! Whichever has time fingerprints: the reader when it is ahead, the writer when it would otherwise wait.
//! (Copies out of the kernel cost most where nearly all lines repeat, the store where nearly none do.)
//! Seconds on 2 cores:
//!
//! | input | one thread | reader fingerprints | whoever has time |
//! | --- | --: | --: | --: |
//! | 10 M UUIDs, 30 % repeat | 2.01 | 2.01 | 1.31 |
//! | 7.3 M paths, none repeats | 1.88 | 1.44 | 0.89 |
//! | 20 M log lines, 99.5 % repeat | 1.21 | 1.05 | 0.85 |
//!
//! A few blocks go round between them, so nothing is allocated as the run goes on, and a block is sent as
//! soon as one read has filled it, so what was typed is answered before the next read blocks.

use std::io::{self, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};

use firstseen::{Clock, Store, Verdict};

use super::block::Block;
use super::blocks::Blocks;
use super::exit::Failure;
use super::forecast;
use super::input::Input;
use super::open::open;
use super::output::Output;
use super::recorded::Recorder;
use super::settings::{Format, Settings};
use super::sift::Sift;
use super::summary::{self, Counts};

/// Blocks in flight: one being filled, one being written, one in between to even out the pace.
const BLOCKS: usize = 3;

/// Runs the filter from the first input to the last.
///
/// # Errors
///
/// Whatever stopped it; the records answered up to there were written.
pub(super) fn run(settings: Settings) -> Result<(), Failure> {
    for input in &settings.inputs {
        input.probe()?;
    }
    if let Some(place) = settings.place.clone() {
        return run_recorded(settings, &place);
    }
    let clock = Clock::system();
    let started = clock.now();
    let bytes = settings.inputs.iter().map(Input::bytes).sum::<Option<u64>>().filter(|_| settings.forecasts);
    let mut blocks = Blocks::new(settings.inputs, settings.format);
    let mut first = Block::default();
    let is_begun = blocks.fill(&mut first)?;
    let expected = bytes.and_then(|bytes| forecast::expected(bytes, first.iter()));
    let options = expected.map_or(settings.options.clone(), |ids| settings.options.clone().expect(ids));
    let store = Store::in_memory(options).map_err(Failure::Store)?;
    let sieve = Sieve {
        store: &store,
        format: settings.format,
        output: io::stdout().lock(),
        verdicts: Vec::new(),
        counts: Counts::default(),
    };
    let counts = pass_on(is_begun.then_some(first), blocks, sieve)?;
    summary::print(settings.report, &counts, &store.stats(), clock.now().saturating_since(started));
    Ok(())
}

/// The same with a store on disk, which is opened before anything is read: it may be open elsewhere.
fn run_recorded(settings: Settings, place: &Path) -> Result<(), Failure> {
    let clock = Clock::system();
    let started = clock.now();
    let Settings { inputs, format, options, report, syncs, quiet, .. } = settings;
    let (store, cause) = open(place, options, quiet)?;
    let outcome = Output::open(format.terminator, syncs, quiet).and_then(|output| {
        let mut blocks = Blocks::new(inputs, format);
        let mut first = Block::default();
        let is_begun = blocks.fill(&mut first)?;
        pass_on(is_begun.then_some(first), blocks, Recorder::new(&store, format, output))
    });
    if let Ok(counts) = &outcome {
        summary::print(report, counts, &store.stats(), clock.now().saturating_since(started));
    }
    match (outcome, store.close()) {
        // What stopped the run says more than what that did to the store.
        (Err(failure), _) => Err(cause.of(failure)),
        (Ok(_), closed) => closed.map_err(|error| cause.of(Failure::Store(error))),
    }
}

/// Passes on the first block, and all that follow it; there are none if there is no first one.
fn pass_on(first: Option<Block>, blocks: Blocks, mut sift: impl Sift) -> Result<Counts, Failure> {
    let Some(mut first) = first else { return Ok(sift.counts()) };
    sift.pass(&mut first)?;
    let (filled_sender, filled) = channel();
    let (emptied, emptied_receiver) = channel();
    for _ in 0..BLOCKS {
        // The receiver is at hand, so the channel is open.
        let _ = emptied.send(Block::default());
    }
    let reader = start_reader(blocks, &sift, emptied_receiver, filled_sender)?;
    while let Some(mut block) = next_block(&filled, &mut sift)? {
        sift.pass(&mut block)?;
        // Refused only when the reader has ended: the block is not needed any more.
        let _ = emptied.send(block);
    }
    sift.finish()?;
    // A reader that died has closed the channel too: only its own word says that the input was read to its
    // end.
    match reader.join() {
        Ok(outcome) => outcome.map(|()| sift.counts()),
        Err(_) => Err(Failure::Reader("it panicked".to_string())),
    }
}

/// The next block; `None` at the end.
fn next_block(filled: &Receiver<Block>, sift: &mut impl Sift) -> Result<Option<Block>, Failure> {
    while let Some(pause) = sift.settle()? {
        match filled.recv_timeout(pause) {
            Ok(block) => return Ok(Some(block)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(None),
        }
    }
    Ok(filled.recv().ok())
}

fn start_reader(
    mut blocks: Blocks,
    sift: &impl Sift,
    emptied: Receiver<Block>,
    filled: Sender<Block>,
) -> Result<JoinHandle<Result<(), Failure>>, Failure> {
    let (store, format) = (sift.store().clone(), sift.format());
    let read = move || {
        let mut spare = None;
        // Either channel ends when the writer has given up, and then says why itself.
        while let Some(mut block) = spare.take().or_else(|| emptied.recv().ok()) {
            if !blocks.fill(&mut block)? {
                break;
            }
            spare = emptied.try_recv().ok();
            // No empty block is waiting: the writer is behind, so this one is made easier for it.
            if spare.is_none() {
                block.fingerprint_records(&store, format).map_err(Failure::Store)?;
            }
            if filled.send(block).is_err() {
                break;
            }
        }
        Ok(())
    };
    thread::Builder::new()
        .name("firstseen-read".to_string())
        .spawn(read)
        .map_err(|error| Failure::Reader(error.to_string()))
}

/// Asks the store about whole blocks and writes what is new in them.
struct Sieve<'a, W> {
    store: &'a Store,
    format: Format,
    output: W,
    /// Reused from block to block.
    verdicts: Vec<Verdict>,
    counts: Counts,
}

impl<W: Write> Sift for Sieve<'_, W> {
    fn store(&self) -> &Store {
        self.store
    }

    fn format(&self) -> Format {
        self.format
    }

    fn counts(&self) -> Counts {
        self.counts
    }

    fn pass(&mut self, block: &mut Block) -> Result<(), Failure> {
        block.fingerprint_records(self.store, self.format).map_err(Failure::Store)?;
        let records = block.records();
        self.verdicts.resize(self.verdicts.len().max(records), Verdict::Duplicate);
        let verdicts = &mut self.verdicts[..records];
        let outcome = self.store.check_fingerprints(block.fingerprints(), verdicts);
        let answered = match &outcome {
            Err(firstseen::Error::Partial { answered, .. }) => *answered,
            Err(_) => 0,
            Ok(()) => records,
        };
        let verdicts = &verdicts[..answered];
        self.counts.records += answered as u64;
        self.counts.bytes_read += block.input_bytes() as u64;
        self.counts.first_seen += verdicts.iter().filter(|verdict| is_new(**verdict)).count() as u64;
        let kept = block.keep(verdicts.iter().map(|verdict| is_new(*verdict)));
        self.counts.bytes_written += kept.len() as u64;
        write(&mut self.output, kept)?;
        outcome.map_err(Failure::Store)
    }
}

fn is_new(verdict: Verdict) -> bool {
    verdict.is_first_seen()
}

/// One write for a block, flushed, as the next block may be long in coming.
fn write(output: &mut impl Write, bytes: &[u8]) -> Result<(), Failure> {
    if bytes.is_empty() {
        return Ok(());
    }
    output.write_all(bytes).and_then(|()| output.flush()).map_err(Failure::write)
}
