//! The command-line tool, in the order in which a run goes through it.
//!
//! | step | file |
//! | --- | --- |
//! | the words that were typed become raw flags | `parse`, `flags`, `nearest` |
//! | raw flags become checked settings | `settings`, `values` |
//! | input becomes blocks of whole records | `input`, `blocks`, `block` |
//! | each block keeps the records not seen before | `filter` |
//! | with a store: records are recorded when they have arrived | `recorded`, `output`, `open` |
//! | the other commands, all about one store | `inspect`, `json` |
//! | what moves a store, and what one takes | `transfer`, `capacity` |
//! | figures at the end | `summary` |
//! | whatever happened becomes a sentence and an exit code | `exit` |
//!
//! It knows the public API of the library and nothing else.

mod block;
mod blocks;
mod capacity;
mod exit;
mod filter;
mod flags;
mod forecast;
mod help;
mod input;
mod inspect;
mod json;
mod nearest;
mod open;
mod output;
mod parse;
mod recorded;
mod settings;
mod sift;
mod summary;
mod transfer;
mod values;

use std::ffi::OsString;
use std::process::ExitCode;

use exit::Failure;
use flags::Topic;
use parse::Command;

/// Runs the command that `arguments` (the program's name first) ask for.
pub(crate) fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    exit::report(dispatch(arguments))
}

fn dispatch(arguments: impl IntoIterator<Item = OsString>) -> Result<(), Failure> {
    match parse::parse(arguments)? {
        Command::Nothing => Err(Failure::NothingAsked { help: help::text(Topic::Tool) }),
        Command::Help(topic) => help::print(topic),
        Command::Version => help::print_version(),
        Command::Run(Topic::Filter, raw) => filter::run(settings::check(*raw)?),
        Command::Run(topic @ (Topic::Export | Topic::Import), raw) => transfer::run(topic, &raw),
        Command::Run(Topic::Capacity, raw) => capacity::run(&raw),
        Command::Run(topic, raw) => inspect::run(topic, &raw),
    }
}
