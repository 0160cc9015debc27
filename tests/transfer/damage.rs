//! Every stream that is not whole and unchanged is refused, and what came before the damage is right.

use firstseen::{Error, Store};

use crate::{check_all, exported, import, options, seen_of};

const IDS: u32 = 12;
const HEADER_BYTES: usize = 64;
const BLOCK_BYTES: usize = 16 + 4096 * 24 + 8;

fn store_with(ids: u32) -> Store {
    let store = Store::in_memory(options().first_table_lines(4096)).unwrap();
    check_all(&store, 0..ids);
    store
}

fn empty() -> Store {
    Store::in_memory(options()).unwrap()
}

/// The error of an import that must fail, after which nothing is known that was not exported.
fn refused(bytes: &[u8], ids: u32) -> Error {
    let store = empty();
    let error = import(&store, bytes).expect_err("damage is refused");
    assert!(store.len() <= u64::from(ids));
    assert_eq!(seen_of(&store, ids..ids + 100), []);
    error
}

#[test]
fn stream_cut_anywhere_is_refused() {
    let bytes = exported(&store_with(IDS));
    assert_eq!(bytes.len(), HEADER_BYTES + 16 + 12 * 24 + 8 + 32);
    for length in 0..bytes.len() {
        let error = refused(&bytes[..length], IDS);
        assert!(matches!(error, Error::Corrupt { .. }), "{length}: {error}");
    }
}

#[test]
fn stream_with_any_bit_flipped_is_refused() {
    let bytes = exported(&store_with(IDS));
    for bit in 0..bytes.len() * 8 {
        let mut bytes = bytes.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let error = refused(&bytes, IDS);
        assert!(matches!(error, Error::Corrupt { .. }), "bit {bit}: {error}");
    }
}

#[test]
fn blocks_missing_repeated_swapped_or_foreign_are_refused() {
    let store = store_with(20_000);
    let (bytes, other) = (exported(&store), exported(&store));
    let block = |bytes: &[u8], number: usize| {
        let at = HEADER_BYTES + number * BLOCK_BYTES;
        bytes[at..at + BLOCK_BYTES].to_vec()
    };
    let put_together = |blocks: &[Vec<u8>]| {
        let tail = &bytes[HEADER_BYTES + 3 * BLOCK_BYTES..];
        [&bytes[..HEADER_BYTES], &blocks.concat(), tail].concat()
    };
    let own: Vec<Vec<u8>> = (0..3).map(|number| block(&bytes, number)).collect();
    assert_eq!(put_together(&own), bytes);
    let [a, b, c] = <[Vec<u8>; 3]>::try_from(own).unwrap();
    let foreign = block(&other, 1);
    let damaged = [
        vec![a.clone(), c.clone()],
        vec![a.clone(), b.clone(), b.clone(), c.clone()],
        vec![b.clone(), a.clone(), c.clone()],
        vec![a.clone(), foreign, c],
        vec![a, b],
    ];
    for blocks in damaged {
        refused(&put_together(&blocks), 20_000);
    }
    for number in 0..=3 {
        refused(&bytes[..HEADER_BYTES + number * BLOCK_BYTES], 20_000);
    }
}

#[test]
fn stream_of_a_later_version_is_told_from_damage() {
    let mut bytes = exported(&store_with(IDS));
    bytes[8] = 2;
    let sum = xxhash_rust::xxh3::xxh3_64(&bytes[..56]);
    bytes[56..64].copy_from_slice(&sum.to_le_bytes());
    assert!(matches!(refused(&bytes, IDS), Error::Format { found: 2, known: 1, .. }));
}

#[test]
fn bytes_behind_the_end_mark_are_left_to_the_caller() {
    let (one, other) = (exported(&store_with(3)), exported(&store_with(5)));
    let bytes = [one, other, b"rest".to_vec()].concat();
    let (store, mut source) = (empty(), bytes.as_slice());
    assert_eq!(store.import(&mut source).unwrap().facts, 3);
    assert_eq!(store.import(&mut source).unwrap().facts, 5);
    assert_eq!(source, b"rest");
}

#[test]
fn sink_or_source_that_fails_is_told() {
    struct Failing;
    impl std::io::Write for Failing {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("no"))
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    impl std::io::Read for Failing {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("no"))
        }
    }
    assert!(matches!(store_with(1).export(&mut Failing), Err(Error::Io { .. })));
    assert!(matches!(store_with(1).import(&mut Failing), Err(Error::Io { .. })));
}
