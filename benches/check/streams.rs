//! Streams of IDs with known answers, the same in every run.

use std::collections::HashSet;

/// IDs in order, and how many of them are new when they come.
pub(crate) struct Stream<const N: usize> {
    pub(crate) keys: usize,
    pub(crate) ids: Vec<[u8; N]>,
    pub(crate) firsts: u64,
    /// IDs that every contestant has seen before.
    pub(crate) preload: Option<Vec<[u8; N]>>,
}

/// Marsaglia's xorshift: evenly spread, and cheap enough to be left out of the measurement.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// Distinct IDs: hexadecimal text when there is room for it, bytes otherwise.
fn distinct<const N: usize>(count: usize) -> Vec<[u8; N]> {
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let digit = |nibble: u64| b"0123456789abcdef"[(nibble & 15) as usize];
    let mut id = || {
        let words = [random.next(), random.next(), random.next()];
        std::array::from_fn(|place| match N {
            0..32 => words[place / 8].to_le_bytes()[place % 8],
            _ => digit(words[place / 16] >> (place % 16 * 4)),
        })
    };
    (0..count).map(|_| id()).collect()
}

impl<const N: usize> Stream<N> {
    pub(crate) fn all_new(keys: usize) -> Self {
        Stream { keys, ids: distinct(keys), firsts: keys as u64, preload: None }
    }

    /// In another order than the first time.
    pub(crate) fn all_duplicate(keys: usize) -> Self {
        let mut ids = distinct(keys);
        let preload = Some(ids.clone());
        let mut random = Random(88_172_645_463_325_252);
        for index in (1..keys).rev() {
            ids.swap(index, random.next() as usize % (index + 1));
        }
        Stream { keys, ids, firsts: 0, preload }
    }

    /// Repeats: half of them among the last 100,000 IDs, half anywhere before.
    pub(crate) fn with_repeats(keys: usize, percent: u64) -> Self {
        let fresh = distinct(keys);
        let mut random = Random(88_172_645_463_325_252);
        let mut ids = Vec::with_capacity(keys);
        let mut firsts = 0;
        for index in 0..keys {
            let dice = random.next();
            if index > 0 && dice % 100 < percent {
                let reach = if dice >> 32 & 1 == 0 { index.min(100_000) } else { index };
                ids.push(ids[index - 1 - (dice >> 40) as usize % reach]);
            } else {
                ids.push(fresh[firsts]);
                firsts += 1;
            }
        }
        Stream { keys, ids, firsts: firsts as u64, preload: None }
    }

    /// Ranks with probability proportional to 1 / rank, by inversion of its continuous form.
    pub(crate) fn zipf(keys: usize) -> Self {
        let fresh = distinct::<N>(keys);
        let mut random = Random(88_172_645_463_325_252);
        let mut seen = HashSet::with_capacity(keys);
        let mut pick = || {
            let even = (random.next() >> 11) as f64 / (1_u64 << 53) as f64;
            ((keys as f64 + 1.0).powf(even) - 1.0) as usize
        };
        let ranks: Vec<usize> = (0..keys).map(|_| pick().min(keys - 1)).collect();
        let firsts = ranks.iter().filter(|rank| seen.insert(**rank)).count() as u64;
        Stream { keys, ids: ranks.into_iter().map(|rank| fresh[rank]).collect(), firsts, preload: None }
    }
}
