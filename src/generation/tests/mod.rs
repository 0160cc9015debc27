//! A generation compared with a map in memory, and what becomes of it when its bytes change.

mod damage;
mod golden;
mod properties;
pub(crate) mod shelf;

use std::collections::BTreeMap;

use super::*;
use crate::bloom::Mask;
use crate::error::{Error, Result};
use crate::storage::Storage;
use shelf::Shelf;

/// The store and the tick that the generations here belong to.
const STORE: u64 = 0x00c0_ffee_0000_0001;
const BIRTH: u64 = 1_000;

/// What a generation is to say, the slow obvious way.
type Twin = BTreeMap<Fingerprint, (State, u64)>;

fn spec(id: u64, ids: usize) -> Spec {
    Spec { store_id: STORE, id, ids: ids as u64, birth: BIRTH, tick_ms: 1, is_forever: false }
}

/// Writes what the twin knows; `ids` is the estimate.
fn write(storage: &dyn Storage, spec: Spec, twin: &Twin) -> Result<Sealed> {
    let mut writer = GenerationWriter::create(storage, spec)?;
    for (key, (state, until)) in twin {
        writer.push(*key, *state, *until)?;
    }
    Ok(writer.finish(storage)?.0)
}

/// Numbers that look random; the seed is printed where a test fails.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn key(&mut self) -> Fingerprint {
        Fingerprint::from_halves(self.next(), self.next())
    }

    fn fact(&mut self) -> (State, u64) {
        let state = if self.next().is_multiple_of(4) { State::Forgotten } else { State::Seen };
        (state, BIRTH + 1 + self.next() % 100_000)
    }

    fn twin(&mut self, count: usize) -> Twin {
        (0..count).map(|_| (self.key(), self.fact())).collect()
    }
}

/// Everything that a generation can be asked, compared with its twin.
fn assert_same(generation: &Generation, twin: &Twin, absent: &[Fingerprint]) {
    assert_eq!(generation.ids(), twin.len() as u64);
    assert_eq!((generation.id(), generation.birth()), (generation.sealed().id, BIRTH));
    assert_eq!(generation.file_bytes(), generation.sealed().bytes);
    let is_loaded = generation.is_filter_loaded();
    assert_eq!(generation.memory_bytes(), if is_loaded { generation.filter_bytes() } else { 0 });
    for (key, fact) in twin {
        generation.prefetch(*key);
        generation.prefetch_line(*key);
        assert!(generation.may_contain_masked(*key, Mask::of(*key)), "{key:?} is screened out");
        assert_eq!(generation.find(*key), Ok(Some(*fact)), "{key:?}");
    }
    for key in absent.iter().filter(|key| !twin.contains_key(key)) {
        assert_eq!(generation.find(*key), Ok(None), "{key:?} was never written");
    }
    let facts: Result<Vec<SealedFact>> = generation.facts().collect();
    let facts = facts.unwrap();
    assert!(facts.is_sorted_by_key(|fact| fact.key.hi()));
    assert_eq!(facts.len(), twin.len());
    assert!(facts.iter().all(|fact| twin.get(&fact.key) == Some(&(fact.state, fact.until))));
    assert_eq!(generation.verify(), Ok(twin.len() as u64));
    let untils = || twin.values().map(|(_, until)| *until);
    assert_eq!(generation.until_max(), untils().max().unwrap_or(0));
    assert_eq!(generation.sealed().until_min, untils().min().unwrap_or(u64::MAX));
}
