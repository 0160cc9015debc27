//! The manifest and the secret: read back as written, and what becomes of them when their bytes change.

mod crash;

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use std::time::Duration;

use super::text::NUMBER_MAX;
use super::*;
use crate::codec::checksum;
use crate::fingerprint::{Fingerprint, Hasher, SECRET_BYTES, Secret};
use crate::generation::tests::shelf::Shelf;
use crate::storage::names::{SECRET, generation_name, segment_name, temporary_name};

const GOLDEN: &[u8] = include_bytes!("../../../tests/golden/MANIFEST");
const GOLDEN_SECRET: &[u8] = include_bytes!("../../../tests/golden/SECRET");

fn secret() -> Secret {
    Secret::from_bytes(std::array::from_fn(|index| u8::try_from(index).unwrap() ^ 0x5a))
}

fn sealed(id: u64) -> Sealed {
    Sealed {
        id,
        bytes: 4928,
        lines: 11,
        ids: 25,
        birth: 1_000,
        until_min: 5_932,
        until_max: 97_732,
        header_checksum: 0x0123_4567_89ab_cdef,
    }
}

/// What the golden manifest says.
fn sample() -> Manifest {
    Manifest {
        store_id: 0x00c0_ffee_0000_0001,
        hash: Hash::Xxh3,
        check_value: Hasher::new(Hash::Xxh3, secret()).check_value(),
        window: Window::Fixed(Duration::from_millis(86_400_000)),
        ttl_ms_max: 172_800_000,
        tick_ms: 1,
        run: 3,
        time_ms: 1_700_000_000_000,
        attempt_floor: 77,
        log_floor: 12,
        generation_next: 9,
        was_closed: true,
        cuts: vec![Cut { segment: 11, offset: 4096, resumes_at: 12 }],
        generations: vec![sealed(8), sealed(7)],
        cursors: BTreeMap::from([(b"orders of 100%".to_vec(), 42), (Vec::new(), u64::MAX)]),
        optional: vec!["?note anything goes here".to_owned()],
    }
}

fn manifests() -> impl Strategy<Value = Manifest> {
    let length = (0..1_u64 << 40).prop_map(Duration::from_millis);
    let window = prop_oneof![
        Just(Window::Forever),
        length.clone().prop_map(Window::Fixed),
        length.prop_map(Window::Sliding)
    ];
    let hash = prop_oneof![Just(Hash::Xxh3), Just(Hash::Keyed), Just(Hash::Exact)];
    let bounded = |numbers: [u64; 3]| numbers.map(|number| number % (NUMBER_MAX + 1));
    let cut = any::<[u64; 3]>().prop_map(bounded).prop_map(|[segment, offset, resumes_at]| Cut {
        segment,
        offset,
        resumes_at,
    });
    let generation = any::<[u64; 8]>().prop_map(
        |[id, bytes, lines, ids, birth, until_min, until_max, header_checksum]| Sealed {
            id,
            bytes,
            lines,
            ids,
            birth,
            until_min,
            until_max,
            header_checksum,
        },
    );
    let lists =
        (vec(cut, 0..4), vec(generation, 0..4), btree_map(vec(any::<u8>(), 0..9), any::<u64>(), 0..4));
    (any::<[u64; 9]>(), hash, window, lists, any::<bool>(), vec("\\?[ -~]{0,9}", 0..3)).prop_map(
        |(numbers, hash, window, (cuts, generations, cursors), was_closed, optional)| Manifest {
            store_id: numbers[0],
            hash,
            check_value: numbers[1],
            window,
            ttl_ms_max: numbers[2] % (NUMBER_MAX + 1),
            tick_ms: numbers[3],
            run: numbers[4] % (NUMBER_MAX + 1),
            time_ms: numbers[5] % (NUMBER_MAX + 1),
            attempt_floor: numbers[6],
            log_floor: numbers[7] % (NUMBER_MAX + 1),
            generation_next: numbers[8] % (NUMBER_MAX + 1),
            was_closed,
            cuts,
            generations,
            cursors,
            optional,
        },
    )
}

proptest! {
    #[test]
    fn manifest_is_read_back_as_written(manifest in manifests()) {
        let shelf = Shelf::default();
        manifest.write(&shelf).unwrap();
        prop_assert_eq!(Manifest::read(&shelf), Ok(Some(manifest)));
    }

    #[test]
    fn any_bytes_are_refused_and_any_text_with_the_right_checksum_is_understood_or_refused(
        bytes in vec(any::<u8>(), 0..300),
        lines in vec("(store|hash|window|cut|generation|cursor|run|\\?)?[ -~]{0,20}", 0..9),
    ) {
        prop_assert!(Manifest::decode(&bytes).is_err());
        let text = resealed(&format!("firstseen manifest 1\n{}\n", lines.join("\n")));
        if let Ok(manifest) = Manifest::decode(&text) {
            prop_assert_eq!(Manifest::decode(&manifest.encode()), Ok(manifest));
        }
    }
}

/// A text with its checksum behind it.
fn resealed(text: &str) -> Vec<u8> {
    format!("{text}checksum {:016x}\n", checksum(0, text.as_bytes())).into_bytes()
}

/// The sample with a part of its text replaced, and the right checksum.
fn changed(from: &str, to: &str) -> Result<Manifest> {
    let text = String::from_utf8(sample().encode()).unwrap();
    let (text, _) = text.split_once("checksum ").unwrap();
    assert!(text.contains(from), "{from:?} is not there");
    Manifest::decode(&resealed(&text.replacen(from, to, 1)))
}

#[test]
fn golden_manifest_is_read_and_written_byte_for_byte() {
    assert_eq!(Manifest::decode(GOLDEN), Ok(sample()));
    assert_eq!(String::from_utf8(sample().encode()).unwrap(), str::from_utf8(GOLDEN).unwrap());
}

#[test]
fn golden_secret_is_read_and_written_byte_for_byte() {
    let shelf = Shelf::default();
    shelf.put(SECRET, GOLDEN_SECRET);
    assert!(read_secret(&shelf).unwrap().unwrap().bytes() == secret().bytes());
    write_secret(&shelf, &secret()).unwrap();
    assert!(shelf.content(SECRET) == GOLDEN_SECRET, "format 1 has changed");
}

#[test]
fn changed_bit_or_length_of_the_manifest_is_refused() {
    let whole = sample().encode();
    for bit in 0..whole.len() * 8 {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let error = Manifest::decode(&bytes).unwrap_err();
        assert!(matches!(&error, Error::Corrupt { file, .. } if file == MANIFEST), "bit {bit}: {error}");
    }
    for length in 0..whole.len() {
        assert!(Manifest::decode(&whole[..length]).is_err(), "{length} bytes");
    }
    assert!(Manifest::decode(&[&whole[..], b"\n"].concat()).is_err());
    assert!(Manifest::decode(&vec![0; whole.len()]).is_err());
}

#[test]
fn changed_bit_or_length_of_the_secret_is_refused_and_shows_no_byte_of_it() {
    for bit in 0..GOLDEN_SECRET.len() * 8 {
        let mut bytes = GOLDEN_SECRET.to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let error = keys::decode(&bytes).unwrap_err();
        assert!(matches!(&error, Error::Corrupt { file, .. } if file == SECRET), "bit {bit}: {error}");
        assert!(!error.to_string().contains("90"), "the first byte of the secret: {error}");
    }
    for length in 0..GOLDEN_SECRET.len() {
        assert!(keys::decode(&GOLDEN_SECRET[..length]).is_err(), "{length} bytes");
    }
    assert!(keys::decode(&[GOLDEN_SECRET, &[0]].concat()).is_err());
}

#[test]
fn later_versions_are_refused_as_such() {
    for version in [0, 2, u64::MAX] {
        let error = changed("firstseen manifest 1\n", &format!("firstseen manifest {version}\nnew words\n"));
        assert_eq!(error, Err(Error::Format { file: MANIFEST.to_owned(), found: version, known: 1 }));
    }
    let mut bytes = GOLDEN_SECRET.to_vec();
    bytes[8] = 2;
    let sum = checksum(0, &bytes[..208]);
    bytes[208..].copy_from_slice(&sum.to_le_bytes());
    let error = keys::decode(&bytes).unwrap_err();
    assert_eq!(error, Error::Format { file: SECRET.to_owned(), found: 2, known: 1 });
}

#[test]
fn line_that_is_not_understood_is_refused_and_an_optional_one_is_kept() {
    let with = |line: &str| changed("run 3\n", &format!("run 3\n{line}\n"));
    for line in ["shards 4", "run 3", "run", "", "cut 1 2", "cut 1 2 3 4", "cursor 1", "cursor x y", " run 3"]
    {
        assert!(matches!(with(line), Err(Error::Corrupt { .. })), "{line:?}");
    }
    for line in
        ["generation 3", "cursor 1 %4", "cursor 1 a b", "cursor 1 %41", "cursor 42 orders%20of%20100%25"]
    {
        assert!(matches!(with(line), Err(Error::Corrupt { .. })), "{line:?}");
    }
    // Maintenance that was about to bring its filter into memory never came to an end.
    let text = String::from_utf8(sample().encode()).unwrap();
    let line = text.lines().find(|line| line.starts_with("generation ")).unwrap();
    assert!(matches!(with(line), Err(Error::Corrupt { .. })), "named twice");
    let kept = with("?shards 4").unwrap();
    assert_eq!(kept.optional, ["?shards 4", "?note anything goes here"]);
    assert_eq!(Manifest::decode(&kept.encode()), Ok(kept));
}

#[test]
fn number_in_another_spelling_or_a_missing_line_is_refused() {
    let changes = [
        ("run 3", "run +3"),
        ("run 3", "run 03"),
        ("run 3", "run 18446744073709551616"),
        ("run 3", "run 3 "),
        ("store 00c0ffee00000001", "store c0ffee00000001"),
        ("store 00c0ffee00000001", "store 00C0FFEE00000001"),
        ("hash xxh3", "hash md5"),
        ("window fixed 86400000", "window fixed"),
        ("window fixed 86400000", "window sometimes 86400000"),
        ("closed yes", "closed maybe"),
        ("until-min", "until-mim"),
        ("run 3\n", ""),
        ("run 3\n", "run 3\r\n"),
    ];
    for (from, to) in changes {
        assert!(matches!(changed(from, to), Err(Error::Corrupt { .. })), "{to:?} for {from:?}");
    }
    assert_eq!(changed("run 3", "run 4").unwrap().run, 4);
}

#[test]
fn directory_without_a_manifest_is_new_only_without_files_of_a_store() {
    let others = [".DS_Store", "LOCK", SECRET, "MANIFEST.new", "SECRET.new", "log-7", "generation-1.txt"];
    let shelf = Shelf::default();
    for name in others {
        assert_eq!(Manifest::read(&shelf), Ok(None), "before {name}");
        shelf.put(name, b"");
    }
    assert_eq!(Manifest::read(&shelf), Ok(None));
    for name in [segment_name(0), generation_name(3), temporary_name(&generation_name(3))] {
        let shelf = Shelf::default();
        shelf.put(&name, b"");
        let error = Manifest::read(&shelf).unwrap_err();
        assert!(error.to_string().contains(&name), "{error}");
    }
}

#[test]
fn empty_or_oversized_manifest_is_damage() {
    for content in [vec![], vec![0; 16], vec![b'x'; 1 << 23]] {
        let shelf = Shelf::default();
        shelf.put(MANIFEST, &content);
        assert!(matches!(Manifest::read(&shelf), Err(Error::Corrupt { .. })), "{} bytes", content.len());
    }
    let mut manifest = sample();
    manifest.optional = vec![format!("?{}", "x".repeat(1 << 22))];
    let shelf = Shelf::default();
    assert!(matches!(manifest.write(&shelf), Err(Error::System { .. })));
    assert_eq!(shelf.list().unwrap(), [""; 0]);
}

#[test]
fn write_that_failed_leaves_the_old_manifest_or_the_new_one() {
    let (old, mut new) = (sample(), sample());
    new.run += 1;
    for failures in 0.. {
        let shelf = Shelf::default();
        old.write(&shelf).unwrap();
        shelf.put(&temporary_name(MANIFEST), b"left by a crash");
        shelf.fail_after(failures);
        let outcome = new.write(&shelf);
        let found = Manifest::read(&shelf).unwrap().unwrap();
        assert!(found == old || found == new, "neither after {failures}");
        shelf.recover();
        new.write(&shelf).unwrap();
        assert_eq!(Manifest::read(&shelf), Ok(Some(new.clone())));
        if outcome.is_ok() {
            assert!(failures >= 5, "{failures} operations");
            break;
        }
    }
}

#[test]
fn secret_is_none_before_it_is_written_and_then_the_same() {
    let shelf = Shelf::default();
    assert!(read_secret(&shelf).unwrap().is_none());
    let secret = Secret::random().unwrap();
    write_secret(&shelf, &secret).unwrap();
    assert!(read_secret(&shelf).unwrap().unwrap().bytes() == secret.bytes());
    assert_eq!(shelf.list().unwrap(), [SECRET]);
}

/// The check value is to tell any two secrets apart that give any ID different fingerprints.
#[test]
fn check_value_changes_with_every_byte_that_the_hash_uses_and_with_the_hash() {
    let value = |hash, bytes: [u8; SECRET_BYTES]| Hasher::new(hash, Secret::from_bytes(bytes)).check_value();
    let bytes = *secret().bytes();
    let ids: Vec<Vec<u8>> = [0, 3, 8, 16, 100, 200, 500, 5000].map(|length| vec![7; length]).to_vec();
    for hash in [Hash::Xxh3, Hash::Keyed, Hash::Exact] {
        for index in 0..SECRET_BYTES {
            let mut other = bytes;
            other[index] ^= 1;
            let fingerprints = |bytes| -> Vec<Option<Fingerprint>> {
                let hasher = Hasher::new(hash, Secret::from_bytes(bytes));
                ids.iter().map(|id| hasher.fingerprint(id).ok()).collect()
            };
            let is_same = fingerprints(bytes) == fingerprints(other);
            assert_eq!(value(hash, bytes) == value(hash, other), is_same, "{hash:?} byte {index}");
        }
    }
    assert_ne!(value(Hash::Xxh3, bytes), value(Hash::Keyed, bytes));
    assert_ne!(value(Hash::Xxh3, bytes), value(Hash::Exact, bytes));
}
