//! Opening a store with a directory: a new one, one that was closed, or one whose owner was killed.
//!
//! 1. lock the directory, read the manifest and compare it with the options;
//! 2. open the generations that it names;
//! 3. read the log from the manifest's floor on into a new active table;
//! 4. write a manifest with the next run number and with what was cut off the log; begin a new segment;
//! 5. remove files that the manifest does not name.
//!
//! Nothing is written before step 4 (but for the secret of a new store), so a crash before it changes
//! nothing. A crash after it leaves what the next opening reads in the same way: the log is a set of facts.

use std::fmt;
use std::time::Duration;

use crate::clock::{Clock, Timestamp};
use crate::error::{Error, Result};
use crate::event::Event;
use crate::fingerprint::{Hasher, Secret};
use crate::generation::{Access, Generation};
use crate::limits::{
    ATTEMPTS_AHEAD, CLOCK_JUMP_MS, FROZEN_LIMIT, LOGGED_IDS_MAX, RECORD_BYTES, REFILL_TABLES_MAX,
    SEGMENT_BYTES_DEFAULT, SEGMENT_BYTES_FIRST, SEGMENT_SLICE_BYTES, SEGMENTS_UNSEALED_MAX,
};
use crate::manifest::{Manifest, NUMBER_MAX, read_secret, write_secret};
use crate::options::{Durability, FileAccess, Options, Window};
use crate::storage::names::{LOCK, Name};
use crate::storage::{Storage, failed};
use crate::sync::Arc;
use crate::wal::{Log, Setup};
use crate::window::{Span, TIME_MS_MAX};

use super::core::{Begin, Core};
use super::cursors::Cursors;
use super::durable::{Durable, Opened, named};
use super::pace::WritingCallers;
use super::replay::{Replay, Replayed};
use super::sealed::Sealed;

impl Core {
    /// The shared part of a store in a directory, which is created if it is not there.
    ///
    /// # Errors
    ///
    /// As [`Store::open`](crate::Store::open).
    pub(crate) fn open(storage: Arc<dyn Storage>, options: &Options) -> Result<Core> {
        options.validate()?;
        let lock = storage.lock(LOCK).map_err(|error| refused_lock(&*storage, error))?;
        let (manifest, secret) = match Manifest::read(&*storage)? {
            Some(manifest) => {
                let stored = || read_secret(&*storage)?.ok_or_else(no_secret);
                let secret = options.secret.clone().map_or_else(stored, Ok)?;
                (manifest, secret)
            }
            None => create(&*storage, options)?,
        };
        let hasher = Hasher::new(manifest.hash, secret);
        compare(&manifest, &hasher, options)?;
        open_named(storage, lock, manifest, hasher, options)
    }
}

/// Steps 2 to 5.
fn open_named(
    storage: Arc<dyn Storage>,
    lock: Box<dyn fmt::Debug + Send + Sync>,
    mut manifest: Manifest,
    hasher: Hasher,
    options: &Options,
) -> Result<Core> {
    let window = options.window.unwrap_or(manifest.window);
    let span = Span::with_tick(window, ttl_max(&manifest, options), manifest.tick_ms)
        .ok_or_else(|| mismatched_window(manifest.window, window))?;
    let sealed = open_generations(&*storage, &manifest, options)?;
    let replayed =
        Replay { storage: &*storage, manifest: &manifest, span: &span, options, sealed: &sealed }.run()?;
    let clock = clock_from(&manifest, &replayed, options);
    let attempts_before = advance_attempts(&mut manifest)?;
    advance(&*storage, &mut manifest, &replayed, clock.now())?;
    manifest.window = window;
    manifest.ttl_ms_max = span.ttl_ms_max();
    let log = begin_run(&storage, &mut manifest, &replayed, options)?;
    let records = replayed.records;
    let mut frozen = replayed.tables;
    let active = frozen.pop().ok_or(Error::Uneven { tables: 0 })?;
    let writing_callers = WritingCallers::new(options, &clock);
    let log_next = replayed.next_segment;
    let segments_read = log_next.saturating_sub(manifest.log_floor);
    let core = Core::begin(
        Begin {
            hasher,
            span,
            high_water: clock.now().max(Timestamp::from_millis(manifest.time_ms)),
            clock,
            active,
            older: frozen,
            sealed,
            log_from: manifest.log_floor,
            attempts_before,
            cursors: Cursors::new(replayed.cursors),
            durable: Some(Durable::new(Opened {
                storage,
                lock,
                manifest,
                log,
                log_next,
                durability: options.durability,
                access: access(options.access),
                observer: options.observer.clone(),
                writing_callers,
            })?),
        },
        options,
    );
    core.counters.records_replayed.set(records);
    if segments_read >= SEGMENTS_UNSEALED_MAX {
        // A process that is killed over and over would leave ever more of them.
        core.want_rotation(core.views.load().number);
    }
    Ok(core)
}

/// Steps 4 and 5.
fn begin_run(
    storage: &Arc<dyn Storage>,
    manifest: &mut Manifest,
    replayed: &Replayed,
    options: &Options,
) -> Result<Option<Log>> {
    if replayed.tables.iter().all(|table| table.facts() == 0) {
        // Nothing is in the log alone: it begins anew. A store that is killed again and again keeps no more
        // of it than one that is closed.
        manifest.begin_log_at(replayed.next_segment, &replayed.cursors);
    }
    manifest.write(&**storage)?;
    let log = begin_log(storage, manifest, replayed, options)?;
    if log.is_some() && manifest.was_closed {
        // Only now: a store that was not closed and has no log has lost it.
        manifest.was_closed = false;
        manifest.write(&**storage)?;
    }
    remove_unnamed(&**storage, manifest)?;
    Ok(log)
}

/// The longest time to live: the one given, or the store's own where no other window is given.
fn ttl_max(manifest: &Manifest, options: &Options) -> Option<Duration> {
    let is_own = options.ttl_max.is_none() && options.window.is_none() && manifest.window != Window::Forever;
    if is_own { Some(Duration::from_millis(manifest.ttl_ms_max)) } else { options.ttl_max }
}

/// A manifest and a secret for a directory without a store. The manifest is written in step 4.
fn create(storage: &dyn Storage, options: &Options) -> Result<(Manifest, Secret)> {
    let secret = match &options.secret {
        Some(secret) => secret.clone(),
        None => {
            let secret = Secret::random()?;
            write_secret(storage, &secret)?;
            secret
        }
    };
    let hash = options.hash.unwrap_or_default();
    let window = options.window.unwrap_or_default();
    let span = Span::new(window, options.ttl_max);
    let manifest = Manifest {
        store_id: random_id()?,
        hash,
        check_value: Hasher::new(hash, secret.clone()).check_value(),
        window,
        ttl_ms_max: span.ttl_ms_max(),
        tick_ms: span.tick_ms(),
        run: 0,
        time_ms: 0,
        attempt_floor: 0,
        log_floor: 1,
        generation_next: 1,
        was_closed: true,
        cuts: Vec::new(),
        generations: Vec::new(),
        cursors: std::collections::BTreeMap::new(),
        optional: Vec::new(),
    };
    Ok((manifest, secret))
}

pub(super) fn random_id() -> Result<u64> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(|cause| Error::System {
        operation: "drawing a random store number",
        message: cause.to_string(),
    })?;
    Ok(u64::from_le_bytes(bytes))
}

/// Refuses options that the store was not created with.
pub(super) fn compare(manifest: &Manifest, hasher: &Hasher, options: &Options) -> Result<()> {
    if let Some(hash) = options.hash
        && hash != manifest.hash
    {
        return Err(mismatch("hash", manifest.hash, hash));
    }
    if hasher.check_value() != manifest.check_value {
        return Err(Error::Mismatch {
            name: "secret",
            stored: "another one".to_owned(),
            given: "this one".to_owned(),
        });
    }
    let kind = std::mem::discriminant::<Window>;
    match options.window {
        Some(window) if kind(&window) != kind(&manifest.window) => {
            Err(mismatched_window(manifest.window, window))
        }
        _ => Ok(()),
    }
}

pub(super) fn mismatch(name: &'static str, stored: impl fmt::Debug, given: impl fmt::Debug) -> Error {
    Error::Mismatch { name, stored: format!("{stored:?}"), given: format!("{given:?}") }
}

fn mismatched_window(stored: Window, given: Window) -> Error {
    Error::Mismatch { name: "window", stored: stored.to_string(), given: given.to_string() }
}

#[cold]
pub(super) fn no_secret() -> Error {
    Error::Mismatch {
        name: "secret",
        stored: "one that its owner keeps".to_owned(),
        given: "none".to_owned(),
    }
}

pub(super) fn refused_lock(storage: &dyn Storage, error: std::io::Error) -> Error {
    match error.kind() {
        std::io::ErrorKind::WouldBlock => Error::Locked { place: format!("{} ({error})", storage.place()) },
        _ => failed("locking", LOCK)(error),
    }
}

fn access(access: FileAccess) -> Access {
    match access {
        FileAccess::Map => Access::Map,
        FileAccess::Read => Access::Pread,
    }
}

fn open_generations(storage: &dyn Storage, manifest: &Manifest, options: &Options) -> Result<Vec<Sealed>> {
    let segments = names(storage)?.into_iter().filter_map(|name| match name {
        Name::Segment(number) => Some(number),
        _ => None,
    });
    let log_last = segments.max().unwrap_or(0);
    let open = |named| Generation::open(storage, named, manifest.store_id, access(options.access));
    if manifest.generations.len() > FROZEN_LIMIT - REFILL_TABLES_MAX - 2 {
        return Err(Error::Uneven { tables: manifest.generations.len() });
    }
    let mut sealed = Vec::with_capacity(manifest.generations.len());
    for named in &manifest.generations {
        let generation = open(named)?;
        if generation.is_filter_rebuilt() {
            options.observer.tell(&Event::FilterRebuilt { file: generation.name().to_owned() });
        }
        // Any segment that is there may tell of it.
        sealed.push(Sealed::new(generation, log_last));
    }
    Ok(sealed)
}

/// The store's clock: never before what an earlier run has told (G5).
fn clock_from(manifest: &Manifest, replayed: &Replayed, options: &Options) -> Clock {
    let high_water_ms = manifest.time_ms.max(replayed.time_ms);
    let wall_ms = options.clock.clone().unwrap_or_else(Clock::system).now().as_millis();
    if wall_ms < high_water_ms {
        options.observer.tell(&Event::ClockBehind { behind_ms: high_water_ms - wall_ms });
    } else if high_water_ms > 0 && wall_ms - high_water_ms > CLOCK_JUMP_MS {
        options.observer.tell(&Event::ClockAhead { ahead_ms: wall_ms - high_water_ms });
    }
    options.clock.clone().unwrap_or_else(|| Clock::system_from(Timestamp::from_millis(high_water_ms)))
}

/// Puts attempt numbers aside for this run, so that none is used twice (G3); which is the last before them.
fn advance_attempts(manifest: &mut Manifest) -> Result<u64> {
    let used_up = || Error::System {
        operation: "numbering leases",
        message: "the store has used all attempt numbers that there are".to_owned(),
    };
    // Runs before the first that has noted it had so many each.
    let unnoted = || manifest.run.checked_add(1)?.checked_mul(ATTEMPTS_AHEAD);
    let before = if manifest.attempt_floor > 0 { Some(manifest.attempt_floor) } else { unnoted() };
    let before = before.filter(|before| *before < u64::MAX / 2).ok_or_else(used_up)?;
    manifest.attempt_floor = before + ATTEMPTS_AHEAD;
    Ok(before)
}

/// The manifest of this run.
fn advance(
    storage: &dyn Storage,
    manifest: &mut Manifest,
    replayed: &Replayed,
    now: Timestamp,
) -> Result<()> {
    manifest.run = manifest.run.saturating_add(1);
    manifest.time_ms = manifest.time_ms.max(replayed.time_ms).max(now.as_millis()).min(TIME_MS_MAX);
    manifest.cuts.extend(replayed.cut);
    let numbers = names(storage)?.into_iter().filter_map(|name| match name {
        // A file with a number that no store comes to is not ours.
        Name::Generation(number) | Name::GenerationTemporary(number) if number < NUMBER_MAX => {
            Some(number + 1)
        }
        _ => None,
    });
    manifest.generation_next = numbers.max().unwrap_or(0).max(manifest.generation_next);
    // Their facts are in the log, which was synced when it was read.
    manifest.cursors = named(replayed.cursors.clone());
    Ok(())
}

fn names(storage: &dyn Storage) -> Result<Vec<Name>> {
    let files = storage.list().map_err(failed("listing", "the directory"))?;
    Ok(files.iter().filter_map(|file| Name::parse(file)).collect())
}

fn begin_log(
    storage: &Arc<dyn Storage>,
    manifest: &Manifest,
    replayed: &Replayed,
    options: &Options,
) -> Result<Option<Log>> {
    if options.durability == Durability::None {
        return Ok(None);
    }
    let expected_bytes = options.ids_expected.min(2 * LOGGED_IDS_MAX) * RECORD_BYTES;
    let is_expecting = expected_bytes > SEGMENT_BYTES_FIRST;
    let first = if is_expecting { SEGMENT_BYTES_DEFAULT } else { SEGMENT_BYTES_FIRST };
    let setup = Setup {
        store_id: manifest.store_id,
        segment: replayed.next_segment,
        seq: replayed.next_seq,
        segment_bytes: options.log_segment_bytes.unwrap_or(first),
        segment_bytes_max: options.log_segment_bytes.unwrap_or(SEGMENT_BYTES_DEFAULT),
        slice_bytes: SEGMENT_SLICE_BYTES,
        segments_ready: 1 + expected_bytes / SEGMENT_BYTES_DEFAULT,
        // Later runs begin sooner: the maintenance makes them.
        segments_at_once: if manifest.run == 1 { expected_bytes / SEGMENT_BYTES_DEFAULT } else { 0 },
    };
    Log::create(Arc::clone(storage), setup).map(Some)
}

/// Removes what a crash has left: files that are not finished, generations that no manifest names, and log
/// segments below the floor. Everything in them is in the log, or in generations, or was over.
fn remove_unnamed(storage: &dyn Storage, manifest: &Manifest) -> Result<()> {
    let files = storage.list().map_err(failed("listing", "the directory"))?;
    let is_named = |id| manifest.generations.iter().any(|named| named.id == id);
    let mut removed = 0;
    for file in files {
        let is_left_over = match Name::parse(&file) {
            Some(Name::GenerationTemporary(_) | Name::Temporary) => true,
            Some(Name::Generation(id)) => !is_named(id),
            Some(Name::Segment(segment)) => segment < manifest.log_floor,
            _ => false,
        };
        if is_left_over {
            storage.remove(&file).map_err(failed("removing", &file))?;
            removed += 1;
        }
    }
    if removed > 0 { storage.sync_dir().map_err(failed("syncing", "the directory")) } else { Ok(()) }
}

/// Whether the last owner of a store has not closed it.
///
/// # Errors
///
/// As [`Store::open`](crate::Store::open).
pub(crate) fn needs_recovery(storage: &dyn Storage) -> Result<bool> {
    Ok(Manifest::read(storage)?.is_some_and(|manifest| !manifest.was_closed))
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;
    use crate::options::Maintenance;
    use crate::storage::sim::SimDisk;
    use crate::store::{Claim, Store};

    const LEASE: Duration = Duration::from_secs(60);

    fn open(disk: &SimDisk) -> Result<Store> {
        Store::open_on(Arc::new(disk.clone()), Options::new().maintenance(Maintenance::Manual))
    }

    /// The number of the next attempt.
    fn attempt(store: &Store, id: &str) -> u64 {
        match store.claim(id, LEASE).unwrap() {
            Claim::Leased(lease) => lease.token().attempt(),
            claim => panic!("{claim:?}"),
        }
    }

    /// Each run had 2^40 attempt numbers, its own number times that. After 2^23 runs the manifest was written
    /// with a run number that was refused when it was read: the store was never opened again.
    #[test]
    fn store_that_was_opened_more_often_than_once_was_possible_opens_again() {
        let disk = SimDisk::new(0);
        open(&disk).unwrap().close().unwrap();
        let mut manifest = Manifest::read(&disk).unwrap().unwrap();
        manifest.run = 1 << 40;
        manifest.write(&disk).unwrap();
        let mut last = 0;
        for round in 0..6 {
            let store = open(&disk).unwrap();
            for id in ["a", "b"] {
                let next = attempt(&store, id);
                assert!(next > last && next < 10 * ATTEMPTS_AHEAD, "{next} after {last}");
                last = next;
            }
            if round % 2 == 0 { store.close().unwrap() } else { drop(store) }
        }
    }

    /// A store of before that was noted goes on behind all that its runs may have used.
    #[test]
    fn attempts_of_a_store_that_noted_none_begin_behind_its_runs() {
        let disk = SimDisk::new(0);
        open(&disk).unwrap().close().unwrap();
        for (run, floor, is_opened) in
            [(7, 0, true), (1 << 23, 0, false), (7, u64::MAX, false), (1 << 50, 0, false)]
        {
            let mut manifest = Manifest::read(&disk).unwrap().unwrap();
            (manifest.run, manifest.attempt_floor) = (run, floor);
            manifest.write(&disk).unwrap();
            match open(&disk) {
                Ok(store) => assert!(is_opened && attempt(&store, "a") > (run + 1) * ATTEMPTS_AHEAD),
                Err(error) => assert!(!is_opened && matches!(error, Error::System { .. }), "{error}"),
            }
        }
    }
}
