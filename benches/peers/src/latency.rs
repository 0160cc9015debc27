//! Latencies of single calls: samples, and their percentiles.

use std::time::Duration;

/// Every how many calls one is timed. Reading the clock takes about as long as a check of the fastest
/// peers, so timing every call would make them look half as fast.
pub(crate) const SAMPLE_EVERY: usize = 8;

/// Durations in nanoseconds.
#[derive(Debug)]
pub(crate) struct Samples(Vec<u32>);

impl Samples {
    /// With room for so many, in memory that is resident already.
    pub(crate) fn with_capacity(count: usize) -> Self {
        let mut samples = vec![u32::MAX; count];
        samples.clear();
        Self(samples)
    }

    /// Takes one down.
    pub(crate) fn add(&mut self, duration: Duration) {
        self.0.push(u32::try_from(duration.as_nanos()).unwrap_or(u32::MAX));
    }

    /// Takes over those of another thread.
    pub(crate) fn append(&mut self, mut other: Self) {
        self.0.append(&mut other.0);
    }

    /// p50, p99 and p99.9, if there is anything.
    pub(crate) fn percentiles(mut self) -> Option<[u32; 3]> {
        self.0.sort_unstable();
        let at = |share: f64| self.0[((self.0.len() - 1) as f64 * share).round() as usize];
        (!self.0.is_empty()).then(|| [at(0.5), at(0.99), at(0.999)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_a_range_are_its_places() {
        let mut samples = Samples::with_capacity(2000);
        (0..=1000).rev().for_each(|ns| samples.add(Duration::from_nanos(ns)));
        assert_eq!(samples.percentiles(), Some([500, 990, 999]));
        assert_eq!(Samples::with_capacity(0).percentiles(), None);
    }
}
