//! The table: one for each case, after what was measured where and what is missing.

use std::fmt::Write;

use crate::peers::{self, REFERENCE};
use crate::record::{Case, Line, count};

use super::summary::{Summary, cases};

/// The whole text.
pub(super) fn text(lines: &[Line], summaries: &[Summary], plots: &[String]) -> String {
    let mut text = String::from("# firstseen and its peers\n\n");
    text += &troubles(lines);
    text += &machines(lines);
    text += EXPLANATION;
    for plot in plots {
        text += &format!("![{plot}]({plot})\n");
    }
    let peers = peers::entries();
    for case in cases(summaries) {
        let mut rows: Vec<&Summary> = summaries.iter().filter(|summary| summary.case == case).collect();
        rows.sort_by_key(|row| peers.iter().position(|peer| peer.name == row.peer));
        text += &table(&case, &rows);
    }
    text
}

const EXPLANATION: &str = "\
Checks a second are medians, with the range of the rounds. *Times* says how often the rate of a peer goes
into that of `firstseen-memory` in the same case. Memory is the peak beyond what the harness holds; of
servers, the server's. Bytes are for each distinct ID held at the end: *written* as the system counts
pages on their way to the disk, *on disk* after closing. *Reopen* is opening again and a verified check,
with a warm page cache. What a peer keeps: `floor` nothing (it gives no answers), `memory` until its
process ends, `buffered` what was answered survives the end of the process, `at risk` that too, but a
power cut may corrupt it, or the end of the process loses what came last. Every answer of every other peer
was verified.

";

/// What nobody must overlook, first of all.
fn troubles(lines: &[Line]) -> String {
    let mut text = String::new();
    for line in lines {
        let found = match line {
            Line::Missing { peer, reason } => format!("- **NOT MEASURED: `{peer}`**: {reason}\n"),
            Line::Failed { peer, case, reason } => {
                format!("- **FAILED: `{peer}`**, {}: {reason}\n", case.title())
            }
            Line::Machine { .. } | Line::Run(_) => continue,
        };
        if !text.contains(&found) {
            text += &found;
        }
    }
    if text.is_empty() { text } else { text + "\n" }
}

/// The machine of the last results; of earlier ones, what is different.
fn machines(lines: &[Line]) -> String {
    let machines = lines.iter().filter_map(|line| match line {
        Line::Machine { facts } => Some(facts),
        _ => None,
    });
    let mut values: Vec<(&str, Vec<&str>)> = Vec::new();
    for (name, value) in machines.flatten() {
        match values.iter_mut().find(|(known, _)| known == name) {
            Some((_, list)) if list.contains(&value.as_str()) => {}
            Some((_, list)) => list.push(value),
            None => values.push((name, vec![value])),
        }
    }
    let rows = values.iter().map(|(name, list)| format!("| {name} | {} |\n", list.join("; ")));
    format!("| measured on | |\n| --- | --- |\n{}\n", rows.collect::<String>())
}

fn table(case: &Case, rows: &[&Summary]) -> String {
    let has_latency = rows.iter().any(|row| row.latency_ns.is_some());
    let latency = if has_latency { " p50 | p99 | p99.9, us |" } else { "" };
    let latency_rule = if has_latency { " --: | --: | --: |" } else { "" };
    let mut text = format!("\n## {}\n\n", case.title());
    text += &format!("| peer | keeps | M checks/s | times |{latency} memory, MiB | bytes |");
    text += " written | on disk | close, s | reopen, s |\n";
    text += &format!("| --- | --- | --: | --: |{latency_rule} --: | --: | --: | --: | --: | --: |\n");
    let reference = rows.iter().find(|row| row.peer == REFERENCE).map(|row| row.rate());
    for row in rows {
        text += &line(row, reference, has_latency);
    }
    text
}

fn line(row: &Summary, reference: Option<f64>, has_latency: bool) -> String {
    let mut text = format!("| {} | {} | {} |", row.peer, row.keeps, rates(row));
    let times = reference.map_or_else(String::new, |reference| short(reference / row.rate()));
    // Writing to a string cannot fail.
    let _ = write!(text, " {times} |");
    if has_latency {
        match row.latency_ns {
            Some(ns) => ns.iter().for_each(|ns| {
                let _ = write!(text, " {} |", short(f64::from(*ns) / 1000.0));
            }),
            None => text += " | | |",
        }
    }
    let each = |bytes: u64| short(bytes as f64 / row.distinct.max(1) as f64);
    let _ = write!(text, " {} |", short(row.memory_bytes as f64 / f64::from(1 << 20)));
    if row.is_floor() {
        return text + " | | | | |\n";
    }
    let _ = write!(text, " {} |", each(row.memory_bytes));
    match row.reopen_seconds {
        Some(reopen) => {
            let (written, disk) = (each(row.written_bytes), each(row.disk_bytes));
            let _ =
                writeln!(text, " {written} | {disk} | {} | {} |", short(row.close_seconds), short(reopen));
        }
        None => text += " | | | |\n",
    }
    text
}

fn rates(row: &Summary) -> String {
    let mega = |rate: f64| short(rate / 1e6);
    let mut text = mega(row.rate());
    if let [slowest, .., fastest] = row.rates[..] {
        let _ = write!(text, " ({} to {})", mega(slowest), mega(fastest));
    }
    if let Some(stopped_at) = row.stopped_at {
        let _ = write!(text, ", stopped at {}", count(stopped_at));
    }
    text
}

/// Three digits, as far as there are any.
fn short(value: f64) -> String {
    match value {
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v if v >= 1.0 => format!("{v:.2}"),
        v => format!("{v:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::summary::tests::line;
    use super::*;

    #[test]
    fn missing_peer_stands_before_everything() {
        let missing = Line::Missing { peer: "redis".to_owned(), reason: "not installed".to_owned() };
        let lines = [line(REFERENCE, 64, 1.0), missing.clone(), missing];
        let text = text(&lines, &Summary::of(&lines), &[]);
        assert_eq!(text.matches("NOT MEASURED: `redis`").count(), 1);
        assert!(text.find("NOT MEASURED") < text.find("measured on"));
    }

    #[test]
    fn row_of_a_slower_peer_says_how_many_times() {
        let lines = [line(REFERENCE, 1, 1.0), line("b", 1, 20.0)];
        let text = text(&lines, &Summary::of(&lines), &[]);
        assert!(text.contains("| b | memory | 0.000 | 20.0 | 0.100 | 0.200 | 0.300 |"), "{text}");
    }

    #[test]
    fn rows_have_as_many_cells_as_the_head() {
        let lines = [line(REFERENCE, 1, 1.0), line("b", 64, 20.0)];
        let text = text(&lines, &Summary::of(&lines), &[]);
        let tables = text.split("## ").skip(1);
        for table in tables {
            let cells: Vec<usize> = table
                .lines()
                .filter(|line| line.starts_with('|'))
                .map(|line| line.matches('|').count())
                .collect();
            assert!(cells.len() >= 3 && cells.iter().all(|count| *count == cells[0]), "{table}");
        }
    }
}
