//! The figures of a run, for people (one line) and for programs (one JSON object), both on stderr.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::time::Duration;

use firstseen::Stats;

/// Whether and how figures are reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Report {
    None,
    Line,
    Json,
}

/// What went through.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) records: u64,
    pub(super) first_seen: u64,
    pub(super) bytes_read: u64,
    pub(super) bytes_written: u64,
}

/// Prints the summary that `report` asks for.
///
/// A stderr that is closed or full changes nothing: the lines themselves are safely out.
pub(super) fn print(report: Report, counts: &Counts, stats: &Stats, elapsed: Duration) {
    let text = match report {
        Report::None => return,
        Report::Line => line(counts, stats, elapsed),
        Report::Json => json(counts, stats, elapsed),
    };
    let _ = io::stderr().write_all(text.as_bytes());
}

fn line(counts: &Counts, stats: &Stats, elapsed: Duration) -> String {
    let Counts { records, first_seen, .. } = *counts;
    let duplicates = records - first_seen;
    let seconds = elapsed.as_secs_f64();
    let mut text = format!(
        "firstseen: {} lines, {} first seen, {} duplicates ({:.1} %), {seconds:.2} s",
        grouped(records),
        grouped(first_seen),
        grouped(duplicates),
        100.0 * ratio(duplicates as f64, records as f64),
    );
    // String's writer never fails.
    let _ = write!(text, " ({:.1} million lines/s)", ratio(records as f64, seconds) / 1e6);
    let _ = write!(text, ", {} of memory for them", mebibytes(stats.memory_bytes));
    if stats.ids_dropped > 0 {
        let _ = write!(text, ", {} of them forgotten", grouped(stats.ids_dropped));
    }
    text.push('\n');
    text
}

fn json(counts: &Counts, stats: &Stats, elapsed: Duration) -> String {
    format!(
        "{{\"lines\":{},\"first_seen\":{},\"duplicates\":{},\"bytes_read\":{},\"bytes_written\":{},\
         \"seconds\":{:.3},\"memory_bytes\":{},\"forgotten\":{},\"collision_probability\":{:e}}}\n",
        counts.records,
        counts.first_seen,
        counts.records - counts.first_seen,
        counts.bytes_read,
        counts.bytes_written,
        elapsed.as_secs_f64(),
        stats.memory_bytes,
        stats.ids_dropped,
        stats.collision_probability,
    )
}

/// A part of a whole; nothing of nothing is zero.
fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// Decimal digits in groups of three.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Bytes in the unit that people write on the command line.
pub(super) fn mebibytes(bytes: u64) -> String {
    if bytes < 1 << 20 { format!("{} KiB", bytes.div_ceil(1 << 10)) } else { format!("{} MiB", bytes >> 20) }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn number_grouped_by_thousands_reads_well() {
        for (number, expected) in [(0, "0"), (999, "999"), (1000, "1,000"), (12_345_678, "12,345,678")] {
            assert_eq!(grouped(number), expected);
        }
    }

    #[test]
    fn ratio_of_nothing_is_zero() {
        assert!(ratio(0.0, 0.0).abs() < f64::EPSILON);
        assert!((ratio(1.0, 4.0) - 0.25).abs() < f64::EPSILON);
    }

    #[test]
    fn mebibytes_below_one_are_kibibytes() {
        assert_eq!(mebibytes(1), "1 KiB");
        assert_eq!(mebibytes(64 << 20), "64 MiB");
    }
}
