//! The comparison: every case, every round, every peer in turn, each run in a child process.
//!
//! Peers take turns within a round, so that a slow minute of the machine does not fall on one of them.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::args::Args;
use crate::machine;
use crate::peer::{Entry, Outcome};
use crate::peers;
use crate::record::{Case, Line, Run};

/// The file of results, one line of JSON each.
pub(crate) const RESULTS: &str = "results.jsonl";

/// Measures everything that was asked for and adds it to the results. Returns how many peers were missing
/// and how many runs failed.
///
/// # Errors
///
/// What the system says; a run that fails is a result.
pub(crate) fn compare(args: &Args) -> Outcome<usize> {
    fs::create_dir_all(&args.out)?;
    let mut results = OpenOptions::new().create(true).append(true).open(args.out.join(RESULTS))?;
    add(&mut results, &Line::Machine { facts: machine::facts() })?;
    let mut troubles = 0;
    let mut present = Vec::new();
    for entry in chosen(args)? {
        match entry.needs.missing() {
            None => present.push(entry),
            Some(reason) => {
                troubles += 1;
                eprintln!("!!! NOT MEASURED: {}: {reason}", entry.name);
                add(&mut results, &Line::Missing { peer: entry.name.to_owned(), reason })?;
            }
        }
    }
    for case in args.cases() {
        // After a preload one process goes on for all rounds: a preload may take many minutes.
        let (rounds, segments) = if case.preload_needed() == 0 { (args.rounds, 1) } else { (1, args.rounds) };
        for round in 0..rounds {
            for entry in &present {
                troubles += usize::from(!measure(args, entry, case, segments, round, &mut results)?);
            }
        }
    }
    Ok(troubles)
}

/// The peers that the flags ask for.
///
/// # Errors
///
/// A name that no peer has.
pub(crate) fn chosen(args: &Args) -> Outcome<Vec<Entry>> {
    let entries = peers::entries();
    for name in args.only.iter().chain(&args.without) {
        if entries.iter().all(|entry| entry.name != name) {
            return Err(format!("there is no peer `{name}`; --list names them").into());
        }
    }
    let is_chosen = |entry: &Entry| {
        let is_named = |names: &[String]| names.iter().any(|name| name == entry.name);
        (args.only.is_empty() || is_named(&args.only)) && !is_named(&args.without)
    };
    Ok(entries.into_iter().filter(is_chosen).collect())
}

/// One run in a child; false if it failed.
fn measure(
    args: &Args,
    entry: &Entry,
    case: Case,
    segments: usize,
    round: usize,
    results: &mut File,
) -> Outcome<bool> {
    // What the last run has left to be written must not slow this one.
    rustix::fs::sync();
    let line = match run_child(args, entry, case, segments) {
        Ok(run) => {
            say(&run, round);
            Line::Run(run)
        }
        Err(cause) => {
            eprintln!("!!! FAILED: {}, {}: {cause}", entry.name, case.title());
            Line::Failed { peer: entry.name.to_owned(), case, reason: cause.to_string() }
        }
    };
    add(results, &line)?;
    Ok(matches!(line, Line::Run(_)))
}

fn run_child(args: &Args, entry: &Entry, case: Case, segments: usize) -> Outcome<Run> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--one", entry.name, "--keys", &case.keys.to_string()]);
    command.args(["--repeats", &case.repeats.to_string(), "--batches", &case.batch.to_string()]);
    command.args(["--threads", &case.threads.to_string(), "--preloads", &case.preload.to_string()]);
    command.args(["--rounds", &segments.to_string(), "--cache-mib", &args.cache_mib.to_string()]);
    if let Some(limit) = args.limit {
        command.args(["--seconds-max", &limit.as_secs_f64().to_string()]);
    }
    // The folder belongs to the parent, so that it is removed even if the child dies.
    let root = args.dir.clone().unwrap_or_else(std::env::temp_dir);
    let folder = tempfile::Builder::new().prefix("firstseen-peers-").tempdir_in(root)?;
    command.arg("--dir").arg(folder.path());
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
    folder.close()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stdout);
        return Err(format!("{}: {}", output.status, said.trim()).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn say(run: &Run, round: usize) {
    for (index, timed) in run.timed.iter().enumerate() {
        let rate = timed.checks as f64 / timed.seconds / 1e6;
        let rest = if timed.checks < run.case.keys {
            format!(" (stopped at {})", timed.checks)
        } else {
            String::new()
        };
        eprintln!(
            "{:>9.3} M/s  {:<18} round {}, {}{rest}",
            rate,
            run.peer,
            round + index + 1,
            run.case.title()
        );
    }
}

fn add(results: &mut File, line: &Line) -> Outcome<()> {
    let mut text = serde_json::to_string(line)?;
    text.push('\n');
    Ok(results.write_all(text.as_bytes())?)
}

/// The results in a folder.
///
/// # Errors
///
/// A file that is not there, or a line that is none of ours.
pub(crate) fn read(out: &Path) -> Outcome<Vec<Line>> {
    let path = out.join(RESULTS);
    let file = File::open(&path).map_err(|cause| format!("{}: {cause}", path.display()))?;
    let mut lines = Vec::new();
    for (index, text) in BufReader::new(file).lines().enumerate() {
        let line = serde_json::from_str(&text?);
        lines.push(line.map_err(|cause| format!("{}:{}: {cause}", path.display(), index + 1))?);
    }
    Ok(lines)
}
