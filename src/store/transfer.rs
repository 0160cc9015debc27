//! Moving what one store knows into another: export, import and merge.
//!
//! Both sides are sets of facts, and a fact only grows; so taking one store's facts into another is the union
//! of two sets by maximum. It may be done twice, in part, in any order, and while both stores are in use.
//!
//! # Giving
//!
//! The range of `hi` is cut into slices of a few hundred keys. For each slice the present view is taken, the
//! slice's facts are gathered from all its tables and generations, and the view is let go before anybody
//! waits. Of each key the largest fact counts, as it is the newest. Whatever was answered before the call is
//! in some table of every later view; what is decided meanwhile may be in or not.
//!
//! # Taking in
//!
//! A fact is stated in the active table, like one that was decided here, when it is larger than what is known
//! (so no older table ever knows more than a newer one), and logged. What is over is left out.
//!
//! An ID that is *pending* has perhaps a lease on it:
//!
//! - A fact that it was seen says that the work was done elsewhere: the ID is taken over, as when a lease
//!   is over. The entry in the lease table ends together with `Pending` (L2), and its holder is told
//!   `LeaseLost`.
//! - While the holder is committing, its outcome is waited for: then there is one fact more, and the larger
//!   wins.
//! - A fact that it was forgotten leaves the lease alone: `Pending` is stated over it, so that it is read
//!   back as forgotten until then, and what the holder commits exceeds it.

use std::io::{Read, Write};

use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::generation::SealedFact;
use crate::limits::BATCH_CHUNK;
use crate::stamp::{State, VERSION_MAX};
use crate::sync::pause;
use crate::table::Table;
use crate::wal::Record;
use crate::window::Moment;

use super::Store;
use super::core::Recorded;
use super::engine::Engine;
use super::fact::{Fact, Retry};
use super::ledger::logged;
use super::open::{mismatch, random_id};
use super::sealed::Sealed;
use super::stream::{FACTS_PER_BLOCK, Label, StreamReader, StreamWriter, WindowKind};
use super::view::View;

/// Keys in a slice, about: enough to read whole pages, few enough to find room in one place of a table.
const IDS_PER_SLICE: u64 = 256;

/// How many facts ahead memory is asked for.
const AHEAD: usize = 16;

/// Outcome of [`Store::import`] and [`Store::merge`].
#[non_exhaustive]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Imported {
    /// Facts that the other store has given: one for each ID that is seen there, or was forgotten.
    pub facts: u64,
    /// Those that said more than was known: IDs that are seen now, or seen for longer, or forgotten.
    pub changed: u64,
    /// Leases that ended because their ID is seen in the other store: a commit is refused as lost.
    pub leases_lost: u64,
    /// The time in the other store when it began to give.
    pub time: Timestamp,
}

impl Store {
    /// Writes all that the store knows, as it is when this is called or later, to a stream of bytes; answers
    /// how many facts it has: one for each ID that is seen, and for those that were forgotten before their
    /// time.
    ///
    /// The store stays in use meanwhile. The stream is for [`Store::import`], in a store with the same
    /// secret; its format is documented in `src/store/stream.rs` and stays readable. It has no secret and
    /// no IDs, only fingerprints.
    ///
    /// ```
    /// use firstseen::{Options, Secret, Store};
    ///
    /// let options = Options::new().secret(Secret::random()?);
    /// let (here, there) = (Store::in_memory(options.clone())?, Store::in_memory(options)?);
    /// let _ = here.check("order-1")?;
    ///
    /// let mut bytes = Vec::new();
    /// assert_eq!(here.export(&mut bytes)?, 1);
    /// assert_eq!(there.import(&mut bytes.as_slice())?.changed, 1);
    /// assert!(there.contains("order-1")?);
    /// # Ok::<(), firstseen::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when the sink fails; [`Error::Corrupt`] when a file of the store is damaged;
    /// [`Error::Closed`], [`Error::Poisoned`]. Without its end mark what was written is no whole stream.
    ///
    /// # Complexity
    ///
    /// Reads every table and file once, in slices all over them; 24 bytes a fact are written in blocks of
    /// 96 KiB. Memory for one block.
    pub fn export(&self, sink: &mut dyn Write) -> Result<u64> {
        self.engine.export(sink)
    }

    /// Takes in what another store has written ([`Store::export`]): from then on an ID is seen here when it
    /// is seen in either of them, until the later of the two ends.
    ///
    /// A union by maximum: importing twice changes nothing, the order of imports does not matter, and two
    /// stores that take over from each other know the same. When this returns, all of it is as durable as
    /// anything that was checked here. The store stays in use meanwhile, and what is seen or forgotten here
    /// during the import counts as well. Nothing is read behind the stream's end.
    ///
    /// - An ID that was forgotten in one store and is seen in the other is seen if that end is later than the
    ///   one that was forgotten, else forgotten. In stores that never forget by themselves there are no
    ///   ends, only counts: an ID that was never forgotten twice is forgotten in both, as long as the fact is
    ///   kept, which merging drops where it hides nothing any more.
    /// - A lease held here on an ID that is seen in the other store ends: the work was done there. Its holder
    ///   is told [`Error::LeaseLost`] by its commit.
    /// - Leases and cursors are not exported.
    ///
    /// # Errors
    ///
    /// [`Error::Mismatch`] when the other store has another secret, hash, kind of window or tick: nothing was
    /// taken in. [`Error::Corrupt`] when the stream is damaged or not whole, [`Error::Format`] when a later
    /// version has written it, [`Error::Io`] when the source fails, and errors as of [`Store::check`]; what
    /// came before in whole blocks was taken in then, which does no harm: import again. [`Error::Option`]
    /// when the stream's windows end further in the future of this store's clock than it can state.
    ///
    /// # Complexity
    ///
    /// As a batch of checks; memory for one block.
    pub fn import(&self, source: &mut dyn Read) -> Result<Imported> {
        self.engine.import(source)
    }

    /// Takes in what another store of this process knows, without a stream in between; as [`Store::import`].
    ///
    /// # Errors
    ///
    /// As [`Store::import`], and those of [`Store::export`] that concern the other store.
    pub fn merge(&self, other: &Store) -> Result<Imported> {
        self.engine.merge(&other.engine)
    }
}

impl Engine {
    fn export(&self, sink: &mut dyn Write) -> Result<u64> {
        self.admit()?;
        let mut writer = StreamWriter::begin(sink, self.label()?)?;
        self.each_slice(&mut |records| writer.push(records))?;
        writer.flush()?;
        // What is given away must not be undone by a crash (G2).
        self.acknowledge()?;
        writer.finish()
    }

    fn import(&self, source: &mut dyn Read) -> Result<Imported> {
        self.admit()?;
        let mut reader = StreamReader::begin(source)?;
        let label = reader.label();
        self.compare(&label)?;
        let mut imported = Imported { time: Timestamp::from_millis(label.time_ms), ..Imported::default() };
        let mut records = Vec::with_capacity(FACTS_PER_BLOCK);
        while reader.next(&mut records)? {
            self.take_in(&records, &mut imported)?;
        }
        debug_assert_eq!(imported.facts, reader.facts());
        self.acknowledge()?;
        Ok(imported)
    }

    fn merge(&self, other: &Engine) -> Result<Imported> {
        self.admit()?;
        other.admit()?;
        let label = other.label()?;
        self.compare(&label)?;
        let mut imported = Imported { time: Timestamp::from_millis(label.time_ms), ..Imported::default() };
        other.each_slice(&mut |records| self.take_in(records, &mut imported))?;
        other.acknowledge()?;
        self.acknowledge()?;
        Ok(imported)
    }

    fn label(&self) -> Result<Label> {
        Ok(Label {
            hash: self.hasher.hash(),
            check_value: self.hasher.check_value(),
            window: WindowKind::of(self.span.window()),
            tick_ms: self.span.tick_ms(),
            time_ms: self.now().as_millis(),
            number: random_id()?,
        })
    }

    /// Refuses facts that mean something else here.
    fn compare(&self, label: &Label) -> Result<()> {
        if label.hash != self.hasher.hash() {
            return Err(mismatch("hash", self.hasher.hash(), label.hash));
        }
        if label.check_value != self.hasher.check_value() {
            let (stored, given) = ("one of its own".to_owned(), "the other store's".to_owned());
            return Err(Error::Mismatch { name: "secret", stored, given });
        }
        let window = WindowKind::of(self.span.window());
        if label.window != window {
            return Err(mismatch("window", window, label.window));
        }
        if label.tick_ms != self.span.tick_ms() {
            let ticks = |tick_ms: u64| format!("in ticks of {tick_ms} ms");
            let (stored, given) = (ticks(self.span.tick_ms()), ticks(label.tick_ms));
            return Err(Error::Mismatch { name: "window", stored, given });
        }
        Ok(())
    }
}

/// What became of a pending ID.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Over {
    /// Nothing: as much was known.
    Unchanged,
    /// It was not pending any more, and said less.
    NoLease,
    /// It is seen; a lease on it is lost.
    Seen,
    /// It is still pending, and reads as forgotten until later than before.
    Forgotten,
}

/// Giving.
impl Engine {
    /// Calls `give` with the facts of one slice after the other; no view is held meanwhile.
    fn each_slice(&self, give: &mut dyn FnMut(&[Record]) -> Result<()>) -> Result<()> {
        let slices = (self.views.load().ids() / IDS_PER_SLICE).max(1).next_power_of_two();
        let (mut sealed, mut records) = (Vec::new(), Vec::new());
        for index in 0..slices {
            let (first, last) = slice(index, slices);
            let now = self.moment(None)?.now;
            let view = self.views.load();
            records.clear();
            let gathered = view.gather(first, last, &mut records, &mut sealed);
            drop(view);
            gathered?;
            records.retain(|record: &Record| record.fact >> 2 > now);
            keep_largest(&mut records);
            give(&records)?;
        }
        Ok(())
    }
}

/// The smallest and the largest `hi` of a slice. Those with successive numbers are far from each other.
fn slice(index: u64, slices: u64) -> (u64, u64) {
    let bits = slices.trailing_zeros();
    if bits == 0 {
        return (0, u64::MAX);
    }
    // The bits reversed and shifted to the top are those of the number, reversed in place.
    let first = index.reverse_bits();
    (first, first | (u64::MAX >> bits))
}

/// Of each key the largest fact, in the order of keys.
fn keep_largest(records: &mut Vec<Record>) {
    records.sort_unstable_by_key(|record| (record.key, std::cmp::Reverse(record.fact)));
    records.dedup_by_key(|record| record.key);
}

impl View {
    /// Appends what all tables know of keys with a `hi` in `first..=last`.
    fn gather(
        &self,
        first: u64,
        last: u64,
        records: &mut Vec<Record>,
        sealed_facts: &mut Vec<SealedFact>,
    ) -> Result<()> {
        gather_table(&self.active, first, last, records);
        if let Some(closing) = &self.closing {
            gather_table(&closing.table, first, last, records);
        }
        for older in self.older.iter().chain(&self.kept) {
            let (first, last) = (first.max(older.hi_first), last.min(older.hi_last));
            if first <= last {
                gather_table(&older.table, first, last, records);
            }
        }
        for sealed in self.files() {
            gather_sealed(sealed, first, last, records, sealed_facts)?;
        }
        Ok(())
    }
}

fn gather_table(table: &Table, first: u64, last: u64, records: &mut Vec<Record>) {
    let facts = table.keys_between(first, last);
    records.extend(facts.filter_map(|(key, stamp)| {
        let fact = match Fact::of(table, stamp) {
            Fact::None => return None,
            Fact::Seen(until) => logged(State::Seen, until),
            // Leases stay where they are: read back as before the claim.
            fact @ (Fact::Forgotten(_) | Fact::Pending(..)) => logged(State::Forgotten, fact.floor()),
        };
        Some(Record { key, fact })
    }));
}

fn gather_sealed(
    sealed: &Sealed,
    first: u64,
    last: u64,
    records: &mut Vec<Record>,
    facts: &mut Vec<SealedFact>,
) -> Result<()> {
    facts.clear();
    sealed.generation().facts_between(first, last, facts)?;
    records.extend(facts.iter().map(|fact| Record { key: fact.key, fact: logged(fact.state, fact.until) }));
    Ok(())
}

/// Taking in.
impl Engine {
    /// Takes facts in; they are in the log when this returns, but not waited for.
    fn take_in(&self, records: &[Record], imported: &mut Imported) -> Result<()> {
        let moment = self.moment(None)?;
        self.expect_statable(records, moment)?;
        for chunk in records.chunks(BATCH_CHUNK) {
            let mut done = 0;
            while done < chunk.len() {
                done += self.take_in_chunk(&chunk[done..], moment, imported);
                if let Some(record) = chunk.get(done) {
                    // The view has moved on, there is no room, or the ID is pending: with all that it takes.
                    let is_changed = self.take_in_one(*record, moment, imported)?;
                    imported.changed += u64::from(is_changed);
                    done += 1;
                }
            }
        }
        imported.facts += records.len() as u64;
        Ok(())
    }

    /// Refuses ends of windows that no table of now could state.
    fn expect_statable(&self, records: &[Record], moment: Moment) -> Result<()> {
        let until_max = if self.span.is_forever() {
            u64::from(VERSION_MAX)
        } else {
            // Tables are born now or later; a part is left for one that is born while this goes on.
            moment.now.saturating_add(u64::from(VERSION_MAX) / 4 * 3)
        };
        let latest = records.iter().map(|record| record.fact >> 2).max().unwrap_or(0);
        if latest <= until_max {
            return Ok(());
        }
        let (now, until) = (self.span.time_of(moment.now), self.span.time_of(latest));
        let reason = format!(
            "in this store it is {} ms since 1970, and what is imported ends at {} ms: that is too far in \
             the future; is one of the clocks wrong?",
            now.as_millis(),
            until.as_millis()
        );
        Err(Error::Option { name: "clock", reason })
    }

    /// Takes facts in from the first on, under one view; returns how many.
    fn take_in_chunk(&self, records: &[Record], moment: Moment, imported: &mut Imported) -> usize {
        let view = self.views.load();
        let mut recorded = self.recorded();
        let (mut done, mut touched) = (0, 0);
        while let Some(record) = records.get(done) {
            while let Some(ahead) = records.get(touched).filter(|_| touched < done + AHEAD) {
                view.prefetch(ahead.key);
                touched += 1;
            }
            let Ok(is_changed) = view.take_in(*record, moment, &mut recorded) else { break };
            imported.changed += u64::from(is_changed);
            done += 1;
        }
        self.settle(&view, moment, &recorded);
        drop(recorded);
        done
    }

    fn take_in_one(&self, record: Record, moment: Moment, imported: &mut Imported) -> Result<bool> {
        self.run(
            moment,
            |view, recorded| view.take_in(record, moment, recorded),
            || self.take_in_pending(record, moment, imported),
        )
    }

    #[cold]
    fn take_in_pending(&self, record: Record, moment: Moment, imported: &mut Imported) -> Result<bool> {
        let key = record.key;
        for round in 0.. {
            let outcome = self.run_locked(key, moment, |core, shard, view, recorded| {
                if shard.is_committing(key) {
                    return Ok(Ok(None));
                }
                let taken = view.take_in_over_pending(record, moment, recorded)?;
                let is_lost = taken == Over::Seen && shard.holds(key);
                if is_lost {
                    core.leases.end(shard, key);
                }
                Ok(Ok(Some((taken != Over::Unchanged, u64::from(is_lost)))))
            })?;
            if let Some((is_changed, leases_lost)) = outcome {
                imported.leases_lost += leases_lost;
                return Ok(is_changed);
            }
            pause(round);
        }
        Ok(false)
    }
}

impl View {
    /// Takes one fact in; whether it said more than was known.
    fn take_in(&self, record: Record, moment: Moment, recorded: &mut Recorded<'_>) -> Result<bool, Retry> {
        let (key, state, until) = parts(record);
        if !moment.is_live(until) {
            return Ok(false);
        }
        let (place, fact) = self.place_and_fact(key)?;
        let known = match fact {
            Fact::None => 0,
            Fact::Seen(until) => logged(State::Seen, until),
            Fact::Forgotten(until) => logged(State::Forgotten, until),
            Fact::Pending(..) => return Err(Retry::Pending),
        };
        if record.fact <= known {
            return Ok(false);
        }
        self.record(key, &place, state, until, recorded)?;
        Ok(true)
    }

    /// The same for an ID that was pending just now; the lock of its shard is held.
    fn take_in_over_pending(
        &self,
        record: Record,
        moment: Moment,
        recorded: &mut Recorded<'_>,
    ) -> Result<Over, Retry> {
        let (key, state, until) = parts(record);
        let (place, fact) = self.place_and_fact(key)?;
        if !matches!(fact, Fact::Pending(..)) {
            let is_changed = self.take_in(record, moment, recorded)?;
            return Ok(if is_changed { Over::NoLease } else { Over::Unchanged });
        }
        if !moment.is_live(until) || record.fact <= logged(State::Forgotten, fact.floor()) {
            return Ok(Over::Unchanged);
        }
        if state == State::Forgotten {
            self.record_forgotten_pending(key, &place, until, recorded)?;
            return Ok(Over::Forgotten);
        }
        self.record(key, &place, State::Seen, until, recorded)?;
        Ok(Over::Seen)
    }
}

fn parts(record: Record) -> (Fingerprint, State, u64) {
    let state = if record.fact & 3 == State::Forgotten as u64 { State::Forgotten } else { State::Seen };
    (record.key, state, record.fact >> 2)
}
