//! Values of flags: sizes, counts and durations as people write them.
//!
//! Each parser answers with the reason alone; the caller adds the flag's name.

use std::time::Duration;

/// Bytes: digits, then nothing or `K`, `M`, `G`, `T` (powers of 1024; `KiB`, `MiB` and so on mean the same).
pub(super) fn size(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text);
    let factor: u64 = match unit.to_ascii_uppercase().as_str() {
        "" | "B" => 1,
        "K" | "KIB" => 1 << 10,
        "M" | "MIB" => 1 << 20,
        "G" | "GIB" => 1 << 30,
        "T" | "TIB" => 1 << 40,
        _ => return Err(format!("'{text}' is no size; write one like 4096, 64K, 512M or 2G")),
    };
    scaled(number, factor).ok_or_else(|| format!("'{text}' is no size; write one like 4096, 64K, 512M or 2G"))
}

/// A count: digits, then nothing or `k`, `M`, `G` (powers of 1000), or a power of ten as in `1e9`.
pub(super) fn count(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text);
    if let Some(power) = unit.strip_prefix('e').and_then(|digits| digits.parse().ok()) {
        let factor = 10_u64.checked_pow(power);
        let scaled = factor.and_then(|factor| scaled(number, factor));
        return scaled.ok_or_else(|| format!("'{text}' is no count; write one like 5000, 200k or 10M"));
    }
    let factor: u64 = match unit {
        "" => 1,
        "k" | "K" => 1_000,
        "m" | "M" => 1_000_000,
        "g" | "G" => 1_000_000_000,
        _ => return Err(format!("'{text}' is no count; write one like 5000, 200k or 10M")),
    };
    scaled(number, factor).ok_or_else(|| format!("'{text}' is no count; write one like 5000, 200k or 10M"))
}

/// A duration: digits and a unit, `ms`, `s`, `m`, `h` or `d`; not zero.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = split(text);
    let unit_ms: u64 = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(format!("'{text}' is no time; write one like 500ms, 90s, 10m, 24h or 7d")),
    };
    match scaled(number, unit_ms) {
        Some(ms) if ms > 0 => Ok(Duration::from_millis(ms)),
        _ => Err(format!("'{text}' is no time; write one like 500ms, 90s, 10m, 24h or 7d")),
    }
}

/// The leading digits, and what follows them.
fn split(text: &str) -> (&str, &str) {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    text.split_at(digits)
}

fn scaled(digits: &str, factor: u64) -> Option<u64> {
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn size_with_units_is_powers_of_1024() {
        for (text, expected) in
            [("0", 0), ("4096", 4096), ("64K", 65_536), ("3MiB", 3 << 20), ("2g", 2 << 30)]
        {
            assert_eq!(size(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn count_with_units_is_powers_of_1000() {
        assert_eq!(count("10M"), Ok(10_000_000));
        assert_eq!(count("7k"), Ok(7_000));
        assert_eq!(count("25e8"), Ok(2_500_000_000));
        assert!(count("1e20").is_err() && count("1e").is_err() && count("e3").is_err());
    }

    #[test]
    fn duration_with_units_is_milliseconds() {
        assert_eq!(duration("1500ms"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("2d"), Ok(Duration::from_secs(172_800)));
    }

    #[test]
    fn value_out_of_form_is_refused_with_an_example() {
        for text in ["", "M", "-1", "1.5G", "12Q", "99999999999999999999", "17000000T", " 1"] {
            assert!(size(text).is_err_and(|reason| reason.contains("512M")), "{text}");
        }
        for text in ["", "many", "1h"] {
            assert!(count(text).is_err_and(|reason| reason.contains("10M")), "{text}");
        }
        for text in ["", "10", "0s", "5y", "99999999999999999d"] {
            assert!(duration(text).is_err_and(|reason| reason.contains("10m")), "{text}");
        }
    }
}
