//! The workload: which IDs are asked for, in which order, the same in every run and for every peer.
//!
//! Distinct IDs are numbered from 0 in the order of their first appearance, and ID `n` is a function of `n`
//! and the seed. So the generator knows every right answer without a set of its own.
//!
//! A position of the stream repeats with probability `R`; half of the repeats are drawn from the last
//! 100,000 distinct IDs, half from all earlier ones, those of the preload included.

use crate::key::Id;

/// The seed of everything.
const SEED: u64 = 0x2545_f491_4f6c_dd1d;

/// How far back the nearer half of the repeats goes.
const RECENT: u64 = 100_000;

const HEX: &[u8; 16] = b"0123456789abcdef";

/// The output function of SplitMix64, a bijection (Steele, Lea and Flood, 2014).
const fn mix(state: u64) -> u64 {
    let state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

/// The step of SplitMix64: 2^64 divided by the golden ratio.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The `n`th distinct ID: a random (version 4) UUID in lower case.
pub(crate) fn id_of(n: u64) -> Id {
    let word = |half: u64| mix(SEED.wrapping_add((2 * n + half).wrapping_mul(STEP)));
    let bits = (u128::from(word(0)) << 64 | u128::from(word(1))) & !(0xf << 76) & !(3 << 62);
    let bits = bits | 4 << 76 | 2 << 62;
    let mut id = [b'-'; 36];
    let mut shift = 128;
    for (place, letter) in id.iter_mut().enumerate() {
        if !matches!(place, 8 | 13 | 18 | 23) {
            shift -= 4;
            *letter = HEX[(bits >> shift) as usize & 15];
        }
    }
    id
}

/// Draws positions of the stream, one after the other.
#[derive(Debug)]
pub(crate) struct Draw {
    state: u64,
    /// Distinct IDs that have appeared.
    known: u64,
    repeat_share: f64,
}

impl Draw {
    /// A stream that begins when the IDs `0..known` have been seen.
    pub(crate) fn new(known: u64, repeat_share: f64) -> Self {
        Self { state: !SEED, known, repeat_share }
    }

    /// How many distinct IDs have appeared so far.
    pub(crate) fn known(&self) -> u64 {
        self.known
    }

    /// The number of the ID at the next position.
    pub(crate) fn next_number(&mut self) -> u64 {
        if self.known > 0 && self.unit() < self.repeat_share {
            let reach = if self.word() >> 63 == 0 { self.known.min(RECENT) } else { self.known };
            return self.known - 1 - self.below(reach);
        }
        self.known += 1;
        self.known - 1
    }

    fn word(&mut self) -> u64 {
        self.state = self.state.wrapping_add(STEP);
        mix(self.state)
    }

    /// From 0 up to, but without, 1.
    fn unit(&mut self) -> f64 {
        (self.word() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Evenly from `0..bound`.
    fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.word()) * u128::from(bound)) >> 64) as u64
    }
}

/// A piece of the stream, generated ahead: what is asked, and what must be answered.
#[derive(Debug)]
pub(crate) struct Segment {
    /// The IDs in the order of the stream.
    pub(crate) ids: Vec<Id>,
    /// The number of each ID.
    pub(crate) numbers: Vec<u32>,
    /// How many distinct IDs were known before the first position.
    pub(crate) known_before: u64,
}

impl Segment {
    /// The next `count` positions.
    pub(crate) fn draw(draw: &mut Draw, count: usize) -> Self {
        let known_before = draw.known();
        let mut ids = Vec::with_capacity(count);
        let mut numbers = Vec::with_capacity(count);
        for _ in 0..count {
            let number = draw.next_number();
            ids.push(id_of(number));
            numbers.push(u32::try_from(number).expect("fewer than 2^32 distinct IDs"));
        }
        Self { ids, numbers, known_before }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use super::*;

    #[test]
    fn id_of_a_number_is_a_uuid_of_its_own() {
        let ids: HashSet<Id> = (0..100_000).map(id_of).collect();
        assert_eq!(ids.len(), 100_000);
        let text = String::from_utf8(id_of(7).to_vec()).expect("ASCII");
        assert_eq!(text.split('-').map(str::len).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
        assert!(text.as_bytes()[14] == b'4' && b"89ab".contains(&text.as_bytes()[19]), "{text}");
    }

    #[test]
    fn stream_drawn_repeats_the_share_that_was_asked_for() {
        for share in [0.0, 0.3, 0.5, 1.0] {
            let mut draw = Draw::new(1000, share);
            let segment = Segment::draw(&mut draw, 200_000);
            let repeats = 200_000 - (draw.known() - 1000);
            assert!((repeats as f64 / 200_000.0 - share).abs() < 0.01, "{share}: {repeats}");
            assert_eq!(segment.known_before, 1000);
        }
    }

    #[test]
    fn numbers_of_new_ids_count_up_as_a_map_says() {
        let segment = Segment::draw(&mut Draw::new(0, 0.5), 50_000);
        let mut next = 0;
        let mut seen = HashMap::new();
        for (id, number) in segment.ids.iter().zip(&segment.numbers) {
            let is_new = seen.insert(*id, *number).is_none();
            assert_eq!(is_new, *number == next, "{number}");
            next += u32::from(is_new);
        }
    }

    #[test]
    fn half_of_the_repeats_are_recent_ones() {
        let mut draw = Draw::new(10_000_000, 1.0);
        let recent = (0..100_000).filter(|_| draw.next_number() >= 10_000_000 - RECENT).count();
        assert!((50_000..52_000).contains(&recent), "{recent}");
    }
}
