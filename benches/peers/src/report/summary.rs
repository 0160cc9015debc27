//! Summaries: all runs of one peer in one case, as medians and ranges.

use crate::record::{Case, Line, Run};

/// A peer in a case.
#[derive(Clone, Debug)]
pub(super) struct Summary {
    pub(super) peer: String,
    pub(super) keeps: String,
    pub(super) case: Case,
    /// Checks a second, of each round, ascending.
    pub(super) rates: Vec<f64>,
    /// The fewest IDs of a round, if time was up in one.
    pub(super) stopped_at: Option<u64>,
    /// Medians of p50, p99 and p99.9.
    pub(super) latency_ns: Option<[u32; 3]>,
    /// The most of all runs.
    pub(super) memory_bytes: u64,
    /// Distinct IDs, and what was written and kept for them, of the last run.
    pub(super) distinct: u64,
    pub(super) written_bytes: u64,
    pub(super) disk_bytes: u64,
    /// Medians.
    pub(super) close_seconds: f64,
    pub(super) reopen_seconds: Option<f64>,
}

impl Summary {
    /// Of all lines, in the order in which cases, and in them peers, came first.
    pub(super) fn of(lines: &[Line]) -> Vec<Summary> {
        let mut groups: Vec<Vec<&Run>> = Vec::new();
        for line in lines {
            let Line::Run(run) = line else { continue };
            let same = |group: &&mut Vec<&Run>| group[0].peer == run.peer && group[0].case == run.case;
            match groups.iter_mut().find(same) {
                Some(group) => group.push(run),
                None => groups.push(vec![run]),
            }
        }
        groups.iter().filter_map(|group| Self::of_group(group)).collect()
    }

    fn of_group(runs: &[&Run]) -> Option<Self> {
        let last = runs.last()?;
        let timed: Vec<_> = runs.iter().flat_map(|run| &run.timed).collect();
        let rates = ascending(timed.iter().map(|timed| timed.checks as f64 / timed.seconds));
        let fewest = timed.iter().map(|timed| timed.checks).min()?;
        let latencies: Vec<[u32; 3]> = timed.iter().filter_map(|timed| timed.latency_ns).collect();
        let percentile =
            |index: usize| median(&ascending(latencies.iter().map(|ns| f64::from(ns[index])))) as u32;
        let reopened = ascending(runs.iter().filter_map(|run| run.reopen_seconds));
        Some(Self {
            peer: last.peer.clone(),
            keeps: last.keeps.clone(),
            case: last.case,
            rates,
            stopped_at: (fewest < last.case.keys).then_some(fewest),
            latency_ns: (!latencies.is_empty()).then(|| [percentile(0), percentile(1), percentile(2)]),
            memory_bytes: runs.iter().map(|run| run.memory_bytes).max()?,
            distinct: last.distinct,
            written_bytes: last.written_bytes,
            disk_bytes: last.disk_bytes,
            close_seconds: median(&ascending(runs.iter().map(|run| run.close_seconds))),
            reopen_seconds: (!reopened.is_empty()).then(|| median(&reopened)),
        })
    }

    /// The median of the rates.
    pub(super) fn rate(&self) -> f64 {
        median(&self.rates)
    }

    /// Whether it gives no answers.
    pub(super) fn is_floor(&self) -> bool {
        self.keeps == "floor"
    }
}

fn ascending(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

/// The middle of sorted values, the upper one of two; 0 of none.
fn median(values: &[f64]) -> f64 {
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// The cases, each once, in order.
pub(super) fn cases(summaries: &[Summary]) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for summary in summaries {
        if !cases.contains(&summary.case) {
            cases.push(summary.case);
        }
    }
    cases
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::record::Timed;

    pub(crate) fn line(peer: &str, batch: usize, seconds: f64) -> Line {
        let case = Case { keys: 1000, repeats: 0.3, batch, threads: 1, preload: 0 };
        let latency_ns = (batch == 1).then_some([100, 200, 300]);
        Line::Run(Run {
            peer: peer.to_owned(),
            keeps: "memory".to_owned(),
            case,
            timed: vec![Timed { checks: 1000, seconds, latency_ns }],
            distinct: 700,
            preload_seconds: 0.0,
            memory_bytes: 70_000,
            written_bytes: 0,
            write_call_bytes: 0,
            disk_bytes: 0,
            close_seconds: 0.1,
            reopen_seconds: None,
        })
    }

    #[test]
    fn rounds_of_a_peer_become_a_median_and_a_range() {
        let lines = [line("a", 64, 1.0), line("b", 64, 9.0), line("a", 64, 4.0), line("a", 64, 2.0)];
        let summaries = Summary::of(&lines);
        assert_eq!(summaries.len(), 2);
        assert_eq!(summaries[0].rates, [250.0, 500.0, 1000.0]);
        assert_eq!((summaries[0].rate(), summaries[0].stopped_at), (500.0, None));
    }

    #[test]
    fn cases_of_summaries_are_named_once() {
        let lines = [line("a", 64, 1.0), line("b", 64, 1.0), line("a", 1, 1.0)];
        assert_eq!(cases(&Summary::of(&lines)).len(), 2);
    }
}
