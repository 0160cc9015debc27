//! Tests of the log on a directory in memory.

mod damage;
mod faults;
mod life;

use super::memory::Memory;
use super::{Cut, Extent, Log, Record, Recovered, Setup, recover};
use crate::error::Result;
use crate::fingerprint::Fingerprint;
use crate::sync::Arc;

const STORE: u64 = 0x5707e;

fn setup(segment: u64, seq: u64, segment_bytes: u64) -> Setup {
    Setup {
        store_id: STORE,
        segment,
        seq,
        segment_bytes,
        segment_bytes_max: segment_bytes,
        slice_bytes: 2048,
        segments_ready: 1,
        segments_at_once: 1,
    }
}

fn open(memory: &Memory, segment: u64, seq: u64, segment_bytes: u64) -> Result<Log> {
    Log::create(Arc::new(memory.clone()), setup(segment, seq, segment_bytes))
}

fn key(number: u64) -> Fingerprint {
    Fingerprint::from_halves(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1, number + 1)
}

fn fact(number: u64) -> u64 {
    number << 2 | 2
}

/// Leaves facts in as few places as they fit in, making room when there is none.
fn push(log: &Log, numbers: impl IntoIterator<Item = u64>) -> Result<u64> {
    let mut numbers = numbers.into_iter().peekable();
    while numbers.peek().is_some() {
        let Some(mut session) = log.session()? else {
            log.write_until(log.position())?;
            continue;
        };
        while let Some(number) = numbers.next_if(|_| !session.is_full()) {
            session.push(key(number), fact(number));
        }
        assert!(session.finish() <= log.position());
    }
    Ok(log.position())
}

/// What a recovery reports, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Replayed {
    numbers: Vec<u64>,
    cursors: Vec<(String, u64)>,
}

fn replay(memory: &Memory, from: u64, cuts: &[Cut]) -> Result<(Recovered, Replayed)> {
    let mut replayed = Replayed::default();
    let mut numbers = Vec::new();
    let mut bytes_last = 0;
    let recovered = recover(
        memory,
        Extent { store_id: STORE, from, cuts },
        &mut |records: &[Record]| {
            for record in records {
                let number = record.fact >> 2;
                assert_eq!(*record, Record { key: key(number), fact: fact(number) }, "a phantom");
                numbers.push(number);
            }
        },
        &mut |name, value| replayed.cursors.push((name.to_owned(), value)),
        &mut |done, total| {
            assert!(bytes_last <= done && done <= total, "{bytes_last} {done} {total}");
            bytes_last = done;
        },
    )?;
    replayed.numbers = numbers;
    assert_eq!(recovered.records, replayed.numbers.len() as u64);
    Ok((recovered, replayed))
}
