//! Files that were written once and are read for ever.

use super::*;
use crate::storage::names::generation_name;

const GOLDEN: &[u8] = include_bytes!("../../../tests/golden/generation-0000000007");

/// What the golden generation says.
fn twin() -> Twin {
    let mut random = Random(7);
    random.twin(25)
}

#[test]
fn golden_generation_is_read_as_it_was_written() {
    let shelf = Shelf::default();
    shelf.put(&generation_name(7), GOLDEN);
    let sealed = Sealed {
        id: 7,
        bytes: 4096 + 11 * 64 + 2 * 32 + 64,
        lines: 11,
        ids: 25,
        birth: BIRTH,
        until_min: 5_932,
        until_max: 97_732,
        header_checksum: 0x1662_5950_6f3e_8131,
    };
    let generation = Generation::open(&shelf, &sealed, STORE, Access::Map).unwrap();
    assert_same(&generation, &twin(), &[Random(8).key()]);
}

#[test]
fn golden_generation_is_written_again_byte_for_byte() {
    let shelf = Shelf::default();
    write(&shelf, spec(7, 25), &twin()).unwrap();
    assert!(shelf.content(&generation_name(7)) == GOLDEN, "format 1 has changed");
}
