//! Changed bytes: an error or the right answer, for every change (G4, G8).

use super::*;
use crate::codec::checksum;
use crate::storage::names::{generation_name, temporary_name};

/// A small generation, what it says and keys that it does not have.
struct Sample {
    shelf: Shelf,
    name: String,
    sealed: Sealed,
    twin: Twin,
    absent: Vec<Fingerprint>,
}

impl Sample {
    fn new(id: u64, keys: usize) -> Sample {
        let (mut random, shelf) = (Random(id), Shelf::default());
        let twin = random.twin(keys);
        let sealed = write(&shelf, spec(id, keys), &twin).unwrap();
        let absent = (0..200).map(|_| random.key()).collect();
        Sample { shelf, name: generation_name(id), sealed, twin, absent }
    }

    fn bytes(&self) -> Vec<u8> {
        self.shelf.content(&self.name)
    }

    fn open(&self, bytes: &[u8], access: Access) -> Result<Generation> {
        self.shelf.put(&self.name, bytes);
        Generation::open(&self.shelf, &self.sealed, STORE, access)
    }

    /// How many of all keys are answered wrongly: an error is no wrong answer.
    fn wrong_answers(&self, generation: &Generation) -> usize {
        let is_wrong = |key: &Fingerprint, expected: Option<(State, u64)>| {
            if expected.is_some() && !generation.may_contain_masked(*key, Mask::of(*key)) {
                return true;
            }
            generation.find(*key).is_ok_and(|found| found != expected)
        };
        let present = self.twin.iter().filter(|(key, fact)| is_wrong(key, Some(**fact))).count();
        present + self.absent.iter().filter(|key| is_wrong(key, None)).count()
    }
}

/// Flips, one at a time, all bits of some bytes, and hands the result to `visit`.
fn each_flip(bytes: &mut [u8], mut visit: impl FnMut(&[u8], usize)) {
    let step = if cfg!(miri) { 997 } else { 1 };
    for bit in (0..bytes.len() * 8).step_by(step) {
        bytes[bit / 8] ^= 1 << (bit % 8);
        visit(bytes, bit);
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
}

#[test]
fn flipped_bit_is_an_error_or_leaves_the_answers_right_and_is_always_found_by_verify() {
    let sample = Sample::new(3, 100);
    let whole = sample.bytes();
    let (mut opened, mut rebuilt) = (0, 0);
    for access in [Access::Map, Access::Pread] {
        each_flip(&mut whole.clone(), |bytes, bit| {
            let Ok(generation) = sample.open(bytes, access) else { return };
            opened += 1;
            rebuilt += usize::from(generation.is_filter_rebuilt());
            assert_eq!(sample.wrong_answers(&generation), 0, "bit {bit}, {access:?}");
            assert!(generation.verify().is_err(), "bit {bit} unnoticed, {access:?}");
        });
    }
    assert!(opened > rebuilt && rebuilt > 0, "{opened} opened, {rebuilt} with another filter");
}

#[test]
fn byte_made_all_zeros_or_ones_is_an_error_or_leaves_the_answers_right() {
    let sample = Sample::new(4, 100);
    let whole = sample.bytes();
    for at in (0..whole.len()).step_by(if cfg!(miri) { 97 } else { 1 }) {
        for byte in [0, 0xff] {
            let mut bytes = whole.clone();
            if std::mem::replace(&mut bytes[at], byte) == byte {
                continue;
            }
            if let Ok(generation) = sample.open(&bytes, Access::Map) {
                assert_eq!(sample.wrong_answers(&generation), 0, "byte {at}");
                assert!(generation.verify().is_err(), "byte {at} unnoticed");
            }
        }
    }
}

#[test]
fn damaged_line_is_an_error_for_its_keys_with_its_offset() {
    let sample = Sample::new(5, 100);
    let whole = sample.bytes();
    let mut errors = 0;
    for line_index in 0..usize::try_from(sample.sealed.lines).unwrap() {
        let mut bytes = whole.clone();
        bytes[4096 + 64 * line_index] ^= 1;
        let generation = sample.open(&bytes, Access::Map).unwrap();
        for key in sample.twin.keys().chain(&sample.absent) {
            if let Err(error) = generation.find(*key) {
                let offset = 4096 + 64 * line_index as u64;
                assert!(
                    matches!(&error, Error::Corrupt { file, offset: at, .. }
                        if *file == sample.name && *at == offset),
                    "{error}"
                );
                errors += 1;
            }
        }
    }
    let looked_at = sample.twin.len() + sample.absent.len();
    assert!(errors >= looked_at, "each of {looked_at} looks at a line at least, {errors} errors");
}

#[test]
fn file_of_any_other_length_is_refused() {
    let sample = Sample::new(6, 60);
    let whole = sample.bytes();
    for length in (0..whole.len()).step_by(if cfg!(miri) { 97 } else { 1 }) {
        let error = sample.open(&whole[..length], Access::Map).unwrap_err();
        assert!(matches!(&error, Error::Corrupt { file, .. } if *file == sample.name), "{error}");
    }
    let longer: Vec<u8> = whole.iter().copied().chain([0; 64]).collect();
    assert!(sample.open(&longer, Access::Map).is_err());
    assert!(sample.open(&vec![0; whole.len()], Access::Map).is_err());
    assert!(sample.open(&whole, Access::Map).is_ok());
}

#[test]
fn missing_file_is_damage_and_names_it() {
    let sample = Sample::new(7, 10);
    sample.shelf.remove(&sample.name).unwrap();
    let error = Generation::open(&sample.shelf, &sample.sealed, STORE, Access::Map).unwrap_err();
    assert!(matches!(&error, Error::Corrupt { file, .. } if *file == sample.name), "{error}");
}

#[test]
fn lines_in_the_place_of_each_other_are_found() {
    let sample = Sample::new(8, 100);
    let whole = sample.bytes();
    let lines = usize::try_from(sample.sealed.lines).unwrap();
    for (one, other) in (0..lines).flat_map(|one| (0..one).map(move |other| (one, other))) {
        let mut bytes = whole.clone();
        let (from, to) = (4096 + 64 * one, 4096 + 64 * other);
        bytes.copy_within(from..from + 64, to);
        bytes[from..from + 64].copy_from_slice(&whole[to..to + 64]);
        let generation = sample.open(&bytes, Access::Map).unwrap();
        assert_eq!(sample.wrong_answers(&generation), 0, "{one} and {other}");
        assert!(generation.verify().is_err());
    }
}

#[test]
fn parts_of_another_file_with_the_same_keys_are_found() {
    let twin = Random(9).twin(100);
    let shelf = Shelf::default();
    let mut specs = [spec(1, 100), spec(2, 100), spec(1, 100)];
    specs[2].store_id += 1;
    let files = specs.map(|spec| {
        let sealed = write(&shelf, spec, &twin).unwrap();
        (spec, sealed, shelf.content(&generation_name(spec.id)))
    });
    for (one, (spec, sealed, bytes)) in files.iter().enumerate() {
        for (other, (_, _, foreign)) in files.iter().enumerate().filter(|(other, _)| *other != one) {
            assert_eq!(bytes.len(), foreign.len());
            let name = generation_name(spec.id);
            let open = |bytes: &[u8]| {
                shelf.put(&name, bytes);
                Generation::open(&shelf, sealed, spec.store_id, Access::Map)
            };
            assert!(open(foreign).is_err(), "file {other} as {one}");
            for cut in (0..=bytes.len()).step_by(64).filter(|cut| *cut > 0 && *cut < bytes.len()) {
                let mixed = [&bytes[..cut], &foreign[cut..]].concat();
                assert!(
                    open(&mixed).and_then(|generation| generation.verify()).is_err(),
                    "{one} {other} {cut}"
                );
                let mixed = [&foreign[..cut], &bytes[cut..]].concat();
                assert!(
                    open(&mixed).and_then(|generation| generation.verify()).is_err(),
                    "{one} {other} {cut}"
                );
            }
            for at in (4096..4096 + 64 * usize::try_from(sealed.lines).unwrap()).step_by(64) {
                let mut mixed = bytes.clone();
                mixed[at..at + 64].copy_from_slice(&foreign[at..at + 64]);
                assert!(open(&mixed).unwrap().verify().is_err(), "line at {at} of {other} in {one}");
            }
        }
    }
}

#[test]
fn file_that_the_manifest_does_not_mean_is_refused() {
    let sample = Sample::new(10, 40);
    let open = |sealed: &Sealed| Generation::open(&sample.shelf, sealed, STORE, Access::Map);
    assert!(open(&sample.sealed).is_ok());
    let changes: [fn(&mut Sealed); 8] = [
        |sealed| sealed.id += 1,
        |sealed| sealed.bytes += 1,
        |sealed| sealed.lines += 1,
        |sealed| sealed.ids += 1,
        |sealed| sealed.birth += 1,
        |sealed| sealed.until_min += 1,
        |sealed| sealed.until_max += 1,
        |sealed| sealed.header_checksum += 1,
    ];
    for (index, change) in changes.iter().enumerate() {
        let mut sealed = sample.sealed;
        change(&mut sealed);
        assert!(open(&sealed).is_err(), "field {index}");
    }
}

/// Whoever can make checksums can make wrong answers, but no panic and no large allocation.
#[test]
fn hostile_sizes_with_the_right_checksum_are_refused() {
    let sample = Sample::new(11, 40);
    let whole = sample.bytes();
    let values = [0, 1, 2, 1 << 31, 1 << 32, 1 << 58, 1 << 63, u64::MAX - 1, u64::MAX];
    for at in (16..120).step_by(8) {
        for value in values {
            let mut bytes = whole.clone();
            bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
            if bytes == whole {
                continue;
            }
            let sum = checksum(0, &bytes[..4088]);
            bytes[4088..4096].copy_from_slice(&sum.to_le_bytes());
            assert!(sample.open(&bytes, Access::Map).is_err(), "{value} at {at}");
            let field = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
            // The manifest says the same.
            let named = Sealed {
                id: sample.sealed.id,
                bytes: field(32),
                lines: field(40),
                ids: field(64),
                birth: field(72),
                until_min: field(88),
                until_max: field(96),
                header_checksum: sum,
            };
            let end = bytes.len() - 64;
            bytes[end..].copy_from_slice(&header::footer(sum, Seeds::new(STORE, named.id)));
            sample.shelf.put(&sample.name, &bytes);
            if let Ok(generation) = Generation::open(&sample.shelf, &named, STORE, Access::Pread) {
                let _ = (sample.wrong_answers(&generation), generation.verify());
                assert!(generation.memory_bytes() <= whole.len() as u64);
            }
        }
    }
}

#[test]
fn later_version_is_refused_as_such_and_earlier_readers_ignore_spare_bytes() {
    let sample = Sample::new(12, 40);
    let whole = sample.bytes();
    let resealed = |at: usize, byte: u8| {
        let mut bytes = whole[..4096].to_vec();
        bytes[at] = byte;
        let sum = checksum(0, &bytes[..4088]);
        bytes[4088..].copy_from_slice(&sum.to_le_bytes());
        header::UnverifiedHeader(bytes[..].first_chunk().unwrap()).verify("file").map(|(header, _)| header)
    };
    assert_eq!(resealed(8, 2), Err(Error::Format { file: "file".to_owned(), found: 2, known: 1 }));
    assert_eq!(resealed(8, 0), Err(Error::Format { file: "file".to_owned(), found: 0, known: 1 }));
    assert_eq!(resealed(2000, 7), resealed(8, 1));
}

#[test]
fn generation_that_failed_half_way_leaves_no_file_of_its_name() {
    let twin = Random(13).twin(2_000);
    let whole = Shelf::default();
    write(&whole, spec(1, 2_000), &twin).unwrap();
    let name = generation_name(1);
    let mut failures = 0;
    loop {
        let shelf = Shelf::default();
        shelf.put(&temporary_name(&name), b"left by a crash");
        shelf.fail_after(failures);
        let outcome = write(&shelf, spec(1, 2_000), &twin);
        let has_name = shelf.list().unwrap().contains(&name);
        assert!(!has_name || shelf.content(&name) == whole.content(&name), "half a file after {failures}");
        if let Ok(sealed) = outcome {
            assert!(Generation::open(&shelf, &sealed, STORE, Access::Map).is_ok());
            break;
        }
        shelf.recover();
        let sealed = write(&shelf, spec(1, 2_000), &twin).unwrap();
        assert!(Generation::open(&shelf, &sealed, STORE, Access::Map).is_ok());
        failures += 1;
    }
    assert!(failures >= 8, "{failures} operations");
}

#[test]
fn writer_that_failed_is_worth_nothing_and_can_be_abandoned() {
    let shelf = Shelf::default();
    let mut writer = GenerationWriter::create(&shelf, spec(1, 100_000)).unwrap();
    shelf.fail_after(3);
    let mut random = Random(14);
    let mut keys: Vec<Fingerprint> = (0..100_000).map(|_| random.key()).collect();
    keys.sort_unstable();
    let refused = keys.iter().find_map(|key| writer.push(*key, State::Seen, BIRTH + 1).err());
    assert!(matches!(refused, Some(Error::Io { operation: "writing", .. })), "{refused:?}");
    shelf.recover();
    assert!(matches!(writer.finish(&shelf), Err(Error::Poisoned { .. })));
    assert_eq!(shelf.list().unwrap(), [temporary_name(&generation_name(1))]);
    GenerationWriter::create(&shelf, spec(1, 10)).unwrap().abandon(&shelf).unwrap();
    assert!(shelf.list().unwrap().is_empty());
}

/// A forged file whose lines have their checksums: a search ends at a larger `hi`, one in a copy of the lines
/// in memory did not, and took an answer back. Found by fuzzing.
#[test]
fn keys_out_of_order_are_not_handed_on() {
    let sample = Sample::new(4, 100);
    let whole = sample.bytes();
    let each = |generation: &Generation| generation.each_slot_in(0, u64::MAX, 0, |_, _, _, _| {});
    assert!(each(&sample.open(&whole, Access::Pread).unwrap()).is_ok());
    let mut refused = 0;
    for line_index in 0..sample.sealed.lines {
        let at = 4096 + 64 * usize::try_from(line_index).unwrap();
        let mut bytes = whole.clone();
        let line: &mut line::Line = (&mut bytes[at..at + 64]).try_into().unwrap();
        if line[..16] == [0; 16] {
            continue;
        }
        // The largest `hi` there is, in the first slot.
        line[..8].fill(0xff);
        line::seal(line, Seeds::new(STORE, 4).of_line(line_index));
        let generation = sample.open(&bytes, Access::Pread).unwrap();
        assert!(matches!(each(&generation), Err(Error::Corrupt { .. })), "line {line_index}");
        refused += 1;
    }
    assert!(refused > 30);
}
