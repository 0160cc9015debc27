//! What is known of a damaged store: from its manifest, or else from its files and from the options.

use std::collections::BTreeMap;

use crate::error::{Error, Result};
use crate::fingerprint::{Hash, Hasher, Secret};
use crate::generation::{Labelled, Sealed, SealedFact, read_label};
use crate::manifest::{Manifest, Remains, read_secret};
use crate::options::{Options, Window};
use crate::storage::names::Name;
use crate::storage::{Storage, failed};
use crate::wal;
use crate::window::Span;

use super::open::{compare, mismatch, no_secret, random_id};
use super::outcome::Salvage;

/// Run number where none is known: no store was opened so often, so no attempt number is used twice.
const RUN_UNKNOWN: u64 = 1 << 20;

/// Versions of a store that never forgets stay far below this, ticks of any other far above.
const REVISIONS_MAX: u64 = 1 << 20;

/// Everything but the facts.
#[derive(Debug)]
pub(super) struct Evidence {
    pub(super) store_id: u64,
    pub(super) new_store_id: u64,
    /// To be kept in the new store, as in the old one; `None` where its owner keeps it.
    pub(super) stored_secret: Option<Secret>,
    hash: Hash,
    check_value: u64,
    /// `None` until the facts were seen.
    window: Option<Window>,
    tick_ms: Option<u64>,
    ttl_ms_max: u64,
    pub(super) span: Span,
    run: u64,
    pub(super) time_ms: u64,
    attempt_floor: u64,
    pub(super) cursors: BTreeMap<Vec<u8>, u64>,
    pub(super) generations: Vec<Sealed>,
    pub(super) log_from: u64,
    pub(super) cuts: Vec<wal::Cut>,
}

impl Evidence {
    /// Finds out all that can be known without reading facts.
    ///
    /// # Errors
    ///
    /// [`Error::Mismatch`] and [`Error::Corrupt`] when there is no secret, or a wrong one: under another
    /// secret no fingerprint would be right. [`Error::Option`] when neither the files nor the options say
    /// what hash it was. [`Error::Format`], [`Error::Io`].
    pub(super) fn gather(
        storage: &dyn Storage,
        options: &Options,
        salvage: &mut Salvage,
    ) -> Result<Evidence> {
        match Manifest::read(storage) {
            Ok(Some(manifest)) => Evidence::of_manifest(storage, manifest, options),
            Ok(None) => Err(super::verify::no_store(storage)),
            Err(error @ Error::Corrupt { .. }) => {
                salvage.damages.push(error);
                Evidence::of_files(storage, options, salvage)
            }
            Err(error) => Err(error),
        }
    }

    fn of_manifest(storage: &dyn Storage, manifest: Manifest, options: &Options) -> Result<Evidence> {
        let (secret, stored_secret) = secrets(storage, options)?;
        compare(&manifest, &Hasher::new(manifest.hash, secret), options)?;
        let window = options.window.unwrap_or(manifest.window);
        Ok(Evidence {
            store_id: manifest.store_id,
            new_store_id: random_id()?,
            stored_secret,
            hash: manifest.hash,
            check_value: manifest.check_value,
            window: Some(window),
            tick_ms: Some(manifest.tick_ms),
            ttl_ms_max: manifest.ttl_ms_max,
            span: Span::new(window, None),
            run: manifest.run,
            time_ms: manifest.time_ms,
            attempt_floor: manifest.attempt_floor,
            cursors: manifest.cursors,
            generations: manifest.generations,
            log_from: manifest.log_floor,
            cuts: manifest.cuts,
        })
    }

    fn of_files(storage: &dyn Storage, options: &Options, salvage: &mut Salvage) -> Result<Evidence> {
        let (secret, stored_secret) = secrets(storage, options)?;
        let remains = Remains::read(storage);
        let hash = options.hash.or_else(|| remains.hash(&secret)).ok_or_else(|| lost("hash"))?;
        let (labels, store_id) = labels(storage, salvage)?;
        let is_forever = labels.first().map(|label| label.is_forever);
        let window = options.window.or_else(|| remains.window());
        Ok(Evidence {
            store_id,
            new_store_id: random_id()?,
            stored_secret,
            hash,
            check_value: Hasher::new(hash, secret).check_value(),
            window: window.or((is_forever == Some(true)).then_some(Window::Forever)),
            tick_ms: labels.first().map(|label| label.tick_ms),
            ttl_ms_max: 0,
            span: Span::new(Window::Forever, None),
            run: remains.run.unwrap_or(0).max(RUN_UNKNOWN),
            time_ms: remains.time_ms.unwrap_or(0),
            attempt_floor: 0,
            cursors: BTreeMap::new(),
            generations: labels.into_iter().map(|label| label.sealed).collect(),
            log_from: 0,
            cuts: Vec::new(),
        })
    }

    /// Settles what the facts in the log may have to say: whether the store forgets.
    ///
    /// # Errors
    ///
    /// [`Error::Option`] when it does, and nothing says after what time.
    pub(super) fn settle(mut self, facts: &[SealedFact], options: &Options) -> Result<Evidence> {
        let is_forever = || facts.iter().all(|fact| fact.until < REVISIONS_MAX);
        let window = match self.window {
            Some(window) => window,
            None if self.generations.is_empty() && is_forever() => Window::Forever,
            None => return Err(lost("window")),
        };
        let span = Span::new(window, options.ttl_max);
        let tick_ms = self.tick_ms.unwrap_or(span.tick_ms());
        self.span = Span::with_tick(window, options.ttl_max, tick_ms)
            .ok_or_else(|| mismatch("window", format!("a tick of {tick_ms} ms"), window))?;
        self.ttl_ms_max = self.ttl_ms_max.max(self.span.ttl_ms_max());
        self.window = Some(window);
        Ok(self)
    }

    /// The manifest of the new store.
    pub(super) fn manifest(&self, store_id: u64, sealed: Option<Sealed>) -> Manifest {
        Manifest {
            store_id,
            hash: self.hash,
            check_value: self.check_value,
            window: self.span.window(),
            ttl_ms_max: self.ttl_ms_max,
            tick_ms: self.span.tick_ms(),
            run: self.run,
            time_ms: self.time_ms,
            attempt_floor: self.attempt_floor,
            log_floor: 1,
            generation_next: 2,
            was_closed: true,
            cuts: Vec::new(),
            generations: sealed.into_iter().collect(),
            cursors: self.cursors.clone(),
            optional: Vec::new(),
        }
    }
}

/// The secret, and the one to be written into the new store.
fn secrets(storage: &dyn Storage, options: &Options) -> Result<(Secret, Option<Secret>)> {
    match (&options.secret, read_secret(storage)) {
        (Some(given), Ok(stored)) => Ok((given.clone(), stored.map(|_| given.clone()))),
        (Some(given), Err(Error::Corrupt { .. })) => Ok((given.clone(), Some(given.clone()))),
        (None, Ok(Some(stored))) => Ok((stored.clone(), Some(stored))),
        (None, Ok(None)) => Err(no_secret()),
        (_, Err(error)) => Err(error),
    }
}

/// What generations and segments say of themselves, newest first, and whose they are: the store that most of
/// them name.
fn labels(storage: &dyn Storage, salvage: &mut Salvage) -> Result<(Vec<Labelled>, u64)> {
    let mut labels = Vec::new();
    let mut votes: BTreeMap<u64, usize> = BTreeMap::new();
    let files = storage.list().map_err(failed("listing", &storage.place()))?;
    for name in files.iter().filter_map(|file| Name::parse(file)) {
        let store_id = match name {
            Name::Generation(id) => match read_label(storage, id) {
                Ok(label) => {
                    labels.push(label);
                    label.store_id
                }
                Err(error) => {
                    salvage.unreadable(error);
                    continue;
                }
            },
            // A header that does not read is told of when the log is read.
            Name::Segment(number) => match wal::read_store_id(storage, number) {
                Ok(store_id) => store_id,
                Err(_) => continue,
            },
            _ => continue,
        };
        *votes.entry(store_id).or_default() += 1;
    }
    let store_id = votes.into_iter().max_by_key(|(_, votes)| *votes).map_or(0, |(store_id, _)| store_id);
    labels.sort_by_key(|label| std::cmp::Reverse(label.sealed.id));
    labels.retain(|label| label.store_id == store_id);
    Ok((labels, store_id))
}

/// Something that only the manifest says.
#[cold]
fn lost(name: &'static str) -> Error {
    let reason = "the manifest is damaged: give the one that the store was created with".to_owned();
    Error::Option { name, reason }
}
