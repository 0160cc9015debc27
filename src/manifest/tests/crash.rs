//! Power cuts and refusals at every operation of a change of the manifest: the old state or the new one.

use std::io;

use super::*;
use crate::generation::{Access, Generation, GenerationWriter, Spec};
use crate::stamp::State;
use crate::storage::sim::{Crash, Fault, SimDisk};

const STORE: u64 = 0x00c0_ffee_0000_0001;

/// Keys of the generation with that number.
fn keys(id: u64) -> impl Iterator<Item = Fingerprint> {
    (1..=400_u64).map(move |n| Fingerprint::from_halves(n << 55 | id, n * 0x9e37_79b9 + id))
}

fn seal(storage: &dyn Storage, id: u64) -> Result<Sealed> {
    let spec = Spec { store_id: STORE, id, ids: 400, birth: 0, tick_ms: 1, is_forever: true };
    let mut writer = GenerationWriter::create(storage, spec)?;
    for key in keys(id) {
        writer.push(key, State::Seen, 1)?;
    }
    Ok(writer.finish(storage)?.0)
}

/// Seals another generation and names it, as a store does.
fn step(storage: &dyn Storage, manifest: &Manifest) -> Result<Manifest> {
    let mut next = manifest.clone();
    next.run += 1;
    next.generation_next += 1;
    next.generations.insert(0, seal(storage, manifest.generation_next)?);
    next.write(storage)?;
    Ok(next)
}

/// A disk with a secret, a manifest and one generation, all of it durable.
fn begin(seed: u64) -> (SimDisk, Manifest) {
    let disk = SimDisk::new(seed);
    let manifest = Manifest { store_id: STORE, generations: Vec::new(), ..sample() };
    write_secret(&disk, &secret()).unwrap();
    manifest.write(&disk).unwrap();
    let manifest = step(&disk, &manifest).unwrap();
    (disk, manifest)
}

/// The manifest that a disk has; everything that it names is there and whole.
fn reopened(disk: &SimDisk, context: &str) -> Result<Manifest> {
    let manifest = Manifest::read(disk)?.unwrap_or_else(|| unreachable!("taken for new, {context}"));
    assert!(read_secret(disk).unwrap().is_some(), "no secret, {context}");
    for named in &manifest.generations {
        let generation = Generation::open(disk, named, STORE, Access::Map).expect(context);
        assert_eq!(generation.verify(), Ok(400), "{context}");
        assert!(keys(named.id).all(|key| generation.find(key) == Ok(Some((State::Seen, 1)))), "{context}");
    }
    Ok(manifest)
}

#[test]
fn power_cut_at_any_operation_leaves_the_old_state_or_the_new_one() {
    let (disk, old) = begin(1);
    disk.short_io(false);
    disk.record();
    let new = step(&disk, &old).unwrap();
    let (mut olds, mut news) = (0, 0);
    for (ops, state) in disk.recorded() {
        let random = (0..40).map(Crash::Random);
        for crash in random.chain([Crash::LoseAll, Crash::KeepAll]) {
            let found = reopened(&state.crash(crash), &format!("{crash:?} before {ops}")).unwrap();
            assert!(found == old || found == new, "{crash:?} before {ops}");
            olds += u64::from(found == old);
            news += u64::from(found == new);
        }
        let killed = reopened(&state.kill(), &format!("killed before {ops}")).unwrap();
        assert!(killed == old || killed == new);
    }
    assert!(olds > 0 && news > 0, "{olds} old and {news} new states");
    for crash in [Crash::LoseAll, Crash::KeepAll, Crash::Random(1)] {
        assert_eq!(reopened(&disk.crash(crash), "after all"), Ok(new.clone()), "answered and lost");
    }
}

/// The same where a rename may leave both names or none: an error then, never a new store.
#[test]
fn torn_rename_is_never_taken_for_a_new_store() {
    let (disk, old) = begin(2);
    disk.rename_torn(true);
    disk.record();
    let new = step(&disk, &old).unwrap();
    for (ops, state) in disk.recorded() {
        for crash in (0..40).map(Crash::Random) {
            match Manifest::read(&state.crash(crash)) {
                Ok(found) => assert!(found == Some(old.clone()) || found == Some(new.clone()), "{ops}"),
                Err(error) => assert!(matches!(error, Error::Corrupt { .. }), "{error}"),
            }
        }
    }
}

#[test]
fn first_manifest_is_there_or_the_store_is_new() {
    let disk = SimDisk::new(3);
    disk.record();
    write_secret(&disk, &secret()).unwrap();
    sample().write(&disk).unwrap();
    for (ops, state) in disk.recorded() {
        for crash in (0..40).map(Crash::Random).chain([Crash::LoseAll, Crash::KeepAll]) {
            let after = state.crash(crash);
            let found = Manifest::read(&after).unwrap();
            assert!(found.is_none() || found == Some(sample()), "{crash:?} before {ops}");
            let is_kept = read_secret(&after).unwrap().is_some();
            assert!(is_kept || found.is_none(), "a manifest without its secret, {crash:?} before {ops}");
        }
    }
}

#[test]
fn operation_refused_once_or_for_ever_is_an_error_and_harmless() {
    let (first, last) = {
        let (disk, old) = begin(4);
        let first = disk.ops();
        step(&disk, &old).unwrap();
        (first, disk.ops())
    };
    assert!(last > first + 8, "{first} to {last}");
    for at in 0..last - first {
        for is_sticky in [false, true] {
            let (disk, old) = begin(4);
            disk.fail(Fault { at, kind: io::ErrorKind::StorageFull, is_sticky, only: None });
            let outcome = step(&disk, &old);
            assert!(matches!(outcome, Err(Error::Io { kind: io::ErrorKind::StorageFull, .. })), "{at}");
            disk.heal();
            for crash in [Crash::LoseAll, Crash::KeepAll, Crash::Random(at)] {
                let after = disk.crash(crash);
                let found = reopened(&after, &format!("{crash:?} after a refusal at {at}")).unwrap();
                assert_eq!(found.generations.last(), old.generations.last(), "{at}");
                let again = Manifest { generation_next: found.generation_next + 5, ..found };
                let new = step(&after, &again).unwrap();
                assert_eq!(reopened(&after, "after another attempt"), Ok(new));
            }
        }
    }
}

#[test]
fn disk_that_does_one_byte_at_a_time_is_written_and_read_alike() {
    let (disk, old) = begin(5);
    disk.short_io(true);
    let new = step(&disk, &old).unwrap();
    assert_eq!(reopened(&disk, "short"), Ok(new.clone()));
    for named in &new.generations {
        let generation = Generation::open(&disk, named, STORE, Access::Pread).unwrap();
        assert!(keys(named.id).all(|key| generation.find(key) == Ok(Some((State::Seen, 1)))));
    }
}
