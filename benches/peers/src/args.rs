//! The command line: flags, their defaults, and the cases that they stand for.

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use lexopt::prelude::{Long, Short, ValueExt};

use crate::peer::Outcome;
use crate::record::Case;

/// What `--help` prints.
pub(crate) const HELP: &str = "\
Measures firstseen against stores that do the same job.

  cargo run --release -- --keys 1e6 --out results

Cases. A list has commas; the first one of `--repeats 0.3`, `--batches 1024`, `--threads 1` that is in its
list is the base, and the others are varied one at a time, unless --cross combines all with all.
  --keys N          IDs in a timed segment (1e6)
  --repeats LIST    shares of repeats (0,0.3,0.5,1)
  --batches LIST    IDs in a call (1,64,1024)
  --threads LIST    threads that call (1,2)
  --preloads LIST   distinct IDs that are there before (0)
  --cross           all combinations of the lists
  --rounds N        runs of each case, or, after a preload, segments of one run (3)
  --seconds-max S   stop a segment after so many seconds (none); needs --rounds 1 after a preload

Peers.
  --only LIST       these peers
  --without LIST    all but these peers
  --cache-mib N     what the caches of databases may hold (1024)
  --list            name the peers

Files.
  --out DIR         results.jsonl (added to, if it is there), results.md, *.svg (peers-results)
  --dir DIR         where peers keep their files (the system's temporary folder)
  --render          measure nothing, make table and plots of what is in --out
";

/// The command line, read.
#[derive(Clone, Debug)]
pub(crate) struct Args {
    pub(crate) keys: u64,
    pub(crate) repeats: Vec<f64>,
    pub(crate) batches: Vec<usize>,
    pub(crate) threads: Vec<usize>,
    pub(crate) preloads: Vec<u64>,
    pub(crate) is_cross: bool,
    pub(crate) rounds: usize,
    pub(crate) limit: Option<Duration>,
    pub(crate) only: Vec<String>,
    pub(crate) without: Vec<String>,
    pub(crate) cache_mib: u64,
    pub(crate) out: PathBuf,
    pub(crate) dir: Option<PathBuf>,
    pub(crate) task: Task,
}

/// What to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Task {
    /// Measure, and report.
    Compare,
    /// Report on earlier results.
    Render,
    /// Name the peers.
    List,
    /// Print the help.
    Help,
    /// One peer, in this process: how the harness calls itself.
    One(String),
}

impl Default for Args {
    fn default() -> Self {
        Self {
            keys: 1_000_000,
            repeats: vec![0.0, 0.3, 0.5, 1.0],
            batches: vec![1, 64, 1024],
            threads: vec![1, 2],
            preloads: vec![0],
            is_cross: false,
            rounds: 3,
            limit: None,
            only: Vec::new(),
            without: Vec::new(),
            cache_mib: 1024,
            out: PathBuf::from("peers-results"),
            dir: None,
            task: Task::Compare,
        }
    }
}

impl Args {
    /// Reads a command line, without the name of the program.
    ///
    /// # Errors
    ///
    /// A flag that is unknown, or a value that makes no sense.
    pub(crate) fn parse(arguments: impl IntoIterator<Item = OsString>) -> Outcome<Self> {
        let mut args = Self::default();
        let mut parser = lexopt::Parser::from_args(arguments);
        while let Some(argument) = parser.next()? {
            match argument {
                Short('h') | Long("help") => args.task = Task::Help,
                Long("list") => args.task = Task::List,
                Long("render") => args.task = Task::Render,
                Long("cross") => args.is_cross = true,
                Long("one") => args.task = Task::One(parser.value()?.string()?),
                Long("keys") => args.keys = number(&parser.value()?.string()?)?,
                Long("repeats") => args.repeats = list(&parser.value()?.string()?)?,
                Long("batches") => args.batches = numbers(&parser.value()?.string()?)?,
                Long("threads") => args.threads = numbers(&parser.value()?.string()?)?,
                Long("preloads") => args.preloads = numbers(&parser.value()?.string()?)?,
                Long("rounds") => args.rounds = number(&parser.value()?.string()?)?,
                Long("seconds-max") => args.limit = Some(seconds(&parser.value()?.string()?)?),
                Long("only") => args.only = list(&parser.value()?.string()?)?,
                Long("without") => args.without = list(&parser.value()?.string()?)?,
                Long("cache-mib") => args.cache_mib = number(&parser.value()?.string()?)?,
                Long("out") => args.out = parser.value()?.into(),
                Long("dir") => args.dir = Some(parser.value()?.into()),
                other => return Err(other.unexpected().into()),
            }
        }
        args.check()?;
        Ok(args)
    }

    fn check(&self) -> Outcome<()> {
        if self.keys == 0 || self.rounds == 0 || self.batches.contains(&0) || self.threads.contains(&0) {
            return Err("keys, rounds, batches and threads are at least 1".into());
        }
        if self.repeats.iter().any(|share| !(0.0..=1.0).contains(share)) {
            return Err("a share of repeats is from 0 to 1".into());
        }
        Ok(())
    }

    /// The cases, the base first.
    pub(crate) fn cases(&self) -> Vec<Case> {
        let base = Case {
            keys: self.keys,
            repeats: base_of(&self.repeats, 0.3),
            batch: base_of(&self.batches, 1024),
            threads: base_of(&self.threads, 1),
            preload: base_of(&self.preloads, 0),
        };
        let mut cases = vec![base];
        for case in self.combinations() {
            let differences = [
                case.repeats != base.repeats,
                case.batch != base.batch,
                case.threads != base.threads,
                case.preload != base.preload,
            ];
            let difference_count = differences.iter().filter(|is_different| **is_different).count();
            if difference_count == 1 || difference_count > 1 && self.is_cross {
                cases.push(case);
            }
        }
        cases
    }

    fn combinations(&self) -> Vec<Case> {
        let mut cases = Vec::new();
        for preload in &self.preloads {
            for repeats in &self.repeats {
                for batch in &self.batches {
                    for threads in &self.threads {
                        let (preload, repeats, batch, threads) = (*preload, *repeats, *batch, *threads);
                        cases.push(Case { keys: self.keys, repeats, batch, threads, preload });
                    }
                }
            }
        }
        cases
    }
}

/// The usual value if it is in the list, or else the first.
fn base_of<T: Copy + PartialEq>(list: &[T], usual: T) -> T {
    if list.contains(&usual) { usual } else { list.first().copied().unwrap_or(usual) }
}

/// A whole number, which may be written `1e6`.
fn number<T: TryFrom<u64>>(text: &str) -> Outcome<T> {
    let value: f64 = text.parse().map_err(|_| format!("`{text}` is no number"))?;
    let is_whole = value >= 0.0 && value.fract() == 0.0 && value < 1e15;
    let whole = if is_whole { T::try_from(value as u64).ok() } else { None };
    whole.ok_or_else(|| format!("`{text}` is no whole number of a fitting size").into())
}

fn seconds(text: &str) -> Outcome<Duration> {
    let value: f64 = text.parse().map_err(|_| format!("`{text}` is no number"))?;
    Ok(Duration::try_from_secs_f64(value)?)
}

fn numbers<T: TryFrom<u64>>(text: &str) -> Outcome<Vec<T>> {
    text.split(',').map(number).collect()
}

fn list<T: FromStr>(text: &str) -> Outcome<Vec<T>> {
    let parsed =
        text.split(',').map(|part| part.parse().map_err(|_| format!("`{part}` makes no sense").into()));
    parsed.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Outcome<Args> {
        Args::parse(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn flags_left_out_have_their_defaults() {
        let args = parse("").expect("nothing is fine");
        assert_eq!((args.keys, args.rounds, args.cases().len()), (1_000_000, 3, 1 + 3 + 2 + 1));
        let base = args.cases()[0];
        assert_eq!((base.repeats, base.batch, base.threads, base.preload), (0.3, 1024, 1, 0));
    }

    #[test]
    fn cases_crossed_are_all_combinations() {
        let args = parse("--cross --keys 1e7 --repeats 0,1 --batches 64 --preloads 0,1e7").expect("good");
        assert_eq!(args.cases().len(), 2 * 2 * 2);
        assert!(args.cases().iter().all(|case| case.keys == 10_000_000 && case.batch == 64));
    }

    #[test]
    fn values_without_sense_are_refused() {
        for line in ["--keys 0", "--keys 1.5", "--keys -1", "--repeats 2", "--batches 0", "--what", "--keys"]
        {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
