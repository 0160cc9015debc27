//! Measures `firstseen` against stores that do the same job, and writes a table and plots.
//!
//! `cargo run --release -- --keys 1e6 --out results`; `README.md` says what is compared and how.
//!
//! The parent ([`compare`]) starts itself once for each run; the child ([`child`]) opens one [`peer`],
//! drives it ([`drive`]) with a stream that was generated ahead ([`workload`]) and verifies its answers
//! ([`verify`]).

mod args;
mod child;
mod compare;
mod drive;
mod key;
mod latency;
mod machine;
mod peer;
mod peers;
mod record;
mod report;
#[cfg(test)]
mod smoke;
mod usage;
mod verify;
mod workload;

use std::process::ExitCode;

use args::{Args, HELP, Task};
use child::Setting;
use peer::Outcome;
use rustix::process::Signal;

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(cause) => {
            // A child's parent reads what is printed on standard output, whatever it is.
            println!("{cause}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Outcome<ExitCode> {
    let args = Args::parse(std::env::args_os().skip(1))?;
    match &args.task {
        Task::Help => print!("{HELP}"),
        Task::List => {
            for entry in peers::entries() {
                println!("{:<18} {}", entry.name, entry.keeps.word());
            }
        }
        Task::One(name) => println!("{}", one(&args, name)?),
        Task::Render => report::write(&args.out)?,
        Task::Compare => {
            let troubles = compare::compare(&args)?;
            report::write(&args.out)?;
            eprintln!("results: {}", args.out.join("results.md").display());
            if troubles > 0 {
                eprintln!("!!! {troubles} peers or runs are missing from them, see above");
                return Ok(ExitCode::FAILURE);
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// One run in this process, as a line of JSON.
fn one(args: &Args, name: &str) -> Outcome<String> {
    let entries = peers::entries();
    let entry = entries.iter().find(|entry| entry.name == name).ok_or("there is no such peer")?;
    let dir = args.dir.as_ref().ok_or("--one needs --dir, an empty folder")?;
    let setting = Setting { segments: args.rounds, cache_bytes: args.cache_mib << 20, limit: args.limit };
    let case = args.cases()[0];
    // Whoever ends the parent means the child as well.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    Ok(serde_json::to_string(&child::run(entry, case, &setting, dir)?)?)
}
