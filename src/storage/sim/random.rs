//! Numbers that are the same on every run: splitmix64 (Steele, Lea, Flood 2014).

/// A stream of numbers that a seed decides.
#[derive(Clone, Debug)]
pub(in crate::storage) struct Random(u64);

impl Random {
    pub(in crate::storage) fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub(in crate::storage) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`; 0 for the bound 0.
    pub(in crate::storage) fn below(&mut self, bound: u64) -> u64 {
        self.next().checked_rem(bound).unwrap_or(0)
    }

    /// True `times` out of `of`.
    pub(in crate::storage) fn chance(&mut self, times: u64, of: u64) -> bool {
        self.below(of) < times
    }

    pub(in crate::storage) fn index(&mut self, bound: usize) -> usize {
        usize::try_from(self.below(bound as u64)).expect("it is below a usize")
    }
}
