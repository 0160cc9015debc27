//! The end of the log, torn at every byte.

use firstseen::testing::SimDisk;
use firstseen::{Durability, FileAccess};

use crate::setup::Setup;

const IDS: u8 = 12;

/// Where frames begin in a segment.
const HEADER_BYTES: usize = 4096;

/// A store that was killed, with a log of one frame for each ID.
fn killed() -> (Setup, SimDisk, Vec<u8>) {
    let setup = Setup { durability: Durability::Sync, first_table_lines: 100, ..Setup::default() };
    let disk = SimDisk::new(0);
    let store = setup.open_at(&disk, 0, FileAccess::Map).unwrap();
    (0..IDS).for_each(|id| assert!(store.check([id]).unwrap().is_first_seen()));
    let disk = disk.kill();
    let log = disk.files()["log-0000000001"].clone();
    (setup, disk, log)
}

/// IDs that are seen when the log is `log`; `None` when it is refused.
fn seen(setup: &Setup, disk: &SimDisk, log: &[u8]) -> Option<Vec<u8>> {
    let image = disk.kill();
    image.overwrite("log-0000000001", log);
    let store = setup.open_at(&image, 0, FileAccess::Map).ok()?;
    Some((0..255).filter(|id| store.contains([*id]).unwrap()).collect())
}

/// Frames have one length here: the bytes that are not zero behind the header, cut into as many as there are
/// IDs.
fn frame_bytes(log: &[u8]) -> usize {
    let end = log.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    (end - HEADER_BYTES).div_ceil(usize::from(IDS)).next_multiple_of(8)
}

#[test]
fn log_torn_at_any_byte_of_its_last_frames_is_read_to_the_last_whole_one() {
    let (setup, disk, log) = killed();
    let frame = frame_bytes(&log);
    let mut opens = 0;
    for torn in 1..=3 * frame {
        let from = HEADER_BYTES + usize::from(IDS) * frame - torn;
        let mut bytes = log.clone();
        bytes[from..].fill(0);
        let whole = (from - HEADER_BYTES) / frame;
        let expected: Vec<u8> = (0..u8::try_from(whole).unwrap()).collect();
        // The last bytes of a frame may be zero as they are.
        let is_whole = bytes == log;
        let found = seen(&setup, &disk, &bytes).expect("a torn end is no damage");
        assert_eq!(found, if is_whole { (0..IDS).collect() } else { expected }, "torn at byte {from}");
        opens += 1;
    }
    report!("counted: {opens} torn logs");
}

#[test]
fn log_with_any_bit_of_a_synced_frame_flipped_is_refused() {
    let (setup, disk, log) = killed();
    let frame = frame_bytes(&log);
    let mut opens = 0;
    for index in [0, usize::from(IDS) / 2, usize::from(IDS) - 2] {
        for at in HEADER_BYTES + index * frame..HEADER_BYTES + (index + 1) * frame {
            for bit in 0..8 {
                let mut bytes = log.clone();
                bytes[at] ^= 1 << bit;
                assert_eq!(seen(&setup, &disk, &bytes), None, "byte {at}, bit {bit}");
                opens += 1;
            }
        }
    }
    report!("counted: {opens} logs with a flipped bit refused");
}
