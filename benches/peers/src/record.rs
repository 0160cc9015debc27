//! Records: what one run found out, as a line of JSON that the report reads again.

use serde::{Deserialize, Serialize};

/// What is asked of a peer.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug, Serialize, Deserialize)]
pub(crate) struct Case {
    /// Positions of the stream in a timed segment.
    pub(crate) keys: u64,
    /// The share of repeats, from 0 to 1.
    pub(crate) repeats: f64,
    /// IDs in one call.
    pub(crate) batch: usize,
    /// Threads that call.
    pub(crate) threads: usize,
    /// Distinct IDs that were there before.
    pub(crate) preload: u64,
}

impl Case {
    /// Distinct IDs to be put in before the clock starts. A stream of nothing but repeats needs some to
    /// repeat.
    pub(crate) fn preload_needed(&self) -> u64 {
        if self.repeats >= 1.0 { self.preload.max(self.keys) } else { self.preload }
    }

    /// The case in words, for headings and messages.
    pub(crate) fn title(&self) -> String {
        let Case { keys, repeats, batch, threads, preload } = self;
        let s = if *threads == 1 { "" } else { "s" };
        let preload = if *preload == 0 { String::new() } else { format!(", {} preloaded", count(*preload)) };
        format!("{} IDs{preload}, R = {repeats}, batch {batch}, {threads} thread{s}", count(*keys))
    }
}

/// A number with a thin structure: 10000000 is `10 M`.
pub(crate) fn count(number: u64) -> String {
    match number {
        n if n >= 1_000_000_000 && n % 100_000_000 == 0 => format!("{} G", n as f64 / 1e9),
        n if n >= 1_000_000 && n % 100_000 == 0 => format!("{} M", n as f64 / 1e6),
        n if n >= 10_000 && n % 1_000 == 0 => format!("{} k", n / 1000),
        n => n.to_string(),
    }
}

/// A timed segment of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Timed {
    /// IDs that were checked: fewer than asked for if time was up.
    pub(crate) checks: u64,
    /// From the first call of any thread to the return of the last.
    pub(crate) seconds: f64,
    /// Duration of single calls in nanoseconds (p50, p99, p99.9), for batches of one.
    pub(crate) latency_ns: Option<[u32; 3]>,
}

/// One run: one process, one peer, one case, one or more timed segments.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Run {
    pub(crate) peer: String,
    /// What it keeps, in a word.
    pub(crate) keeps: String,
    pub(crate) case: Case,
    pub(crate) timed: Vec<Timed>,
    /// Distinct IDs that it held at the end.
    pub(crate) distinct: u64,
    /// Time for the preload.
    pub(crate) preload_seconds: f64,
    /// Peak of resident memory beyond what the harness held before; of the server, where there is one.
    pub(crate) memory_bytes: u64,
    /// Bytes that went towards the disk (`write_bytes`), and bytes given to `write` and the like (`wchar`).
    pub(crate) written_bytes: u64,
    pub(crate) write_call_bytes: u64,
    /// Bytes on the disk after closing.
    pub(crate) disk_bytes: u64,
    pub(crate) close_seconds: f64,
    /// Opening again and one verified check, with what the page cache holds.
    pub(crate) reopen_seconds: Option<f64>,
}

/// A line of the results.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "snake_case")]
pub(crate) enum Line {
    /// Where what follows was measured.
    Machine { facts: Vec<(String, String)> },
    /// A run that ended well.
    Run(Run),
    /// A peer that could not be measured at all.
    Missing { peer: String, reason: String },
    /// A run that failed, with wrong answers for example.
    Failed { peer: String, case: Case, reason: String },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn count_of_round_numbers_is_short() {
        let shown = [999, 10_000, 1_000_000, 1_500_000, 1_234_567, 10_000_000_000].map(count);
        assert_eq!(shown, ["999", "10 k", "1 M", "1.5 M", "1234567", "10 G"]);
    }

    #[test]
    fn line_written_and_read_is_the_same() {
        let case = Case { keys: 5, repeats: 0.3, batch: 1, threads: 2, preload: 7 };
        let line = Line::Failed { peer: "x".to_owned(), case, reason: "y".to_owned() };
        let text = serde_json::to_string(&line).expect("it can be written");
        let again: Line = serde_json::from_str(&text).expect("it can be read");
        assert_eq!(format!("{line:?}"), format!("{again:?}"));
    }
}
