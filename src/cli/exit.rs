//! How a run ends: what can go wrong, the sentence for it, and the exit code.
//!
//! | code | when |
//! | --- | --- |
//! | 0 | everything was read and written, or whoever reads the output has closed it |
//! | 1 | the answer is no: an ID is not seen, a store is damaged, a part of it could not be saved |
//! | 2 | anything else; one sentence on stderr says what, and what to do |
//!
//! No other file of the tool names an exit code or writes an error.

use std::io::{self, Write as _};
use std::process::ExitCode;

use super::flags::Topic;
use super::summary::mebibytes;

const NEGATIVE: u8 = 1;
const FAILED: u8 = 2;

/// Why a run ended early.
#[derive(Debug)]
pub(super) enum Failure {
    /// No command was given: `help` says which there are.
    NothingAsked { help: String },
    /// The command line makes no sense.
    Usage { reason: String, help: Topic },
    /// An input could not be opened or read.
    Input { name: String, reason: String },
    /// A record is longer than the command line allows.
    LineTooLong { name: String, line: u64, bytes_max: u64 },
    /// The output could not be written.
    Output(io::Error),
    /// Whoever reads the output wants no more of it: a quiet success.
    OutputClosed,
    /// The answer was printed, and it is no.
    Negative,
    /// There is no store where one was said to be.
    NoStore { place: String },
    /// The store refused.
    Store(firstseen::Error),
    /// The thread that reads the input could not be started, or died.
    Reader(String),
}

impl Failure {
    /// A write that failed; a closed pipe is told apart.
    pub(super) fn write(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe { Self::OutputClosed } else { Self::Output(error) }
    }

    /// What happened and what to do about it, without the program's name.
    pub(super) fn sentence(&self) -> String {
        match self {
            Self::NothingAsked { .. } => "no command was given; see 'firstseen --help'".to_string(),
            Self::OutputClosed => "whoever read the output has closed it".to_string(),
            Self::Usage { reason, help: Topic::Tool } => format!("{reason}; see 'firstseen --help'"),
            Self::Usage { reason, help } => format!("{reason}; see 'firstseen {} --help'", help.word()),
            Self::Negative => "the answer is no".to_string(),
            Self::NoStore { place } => {
                format!("there is no store in {place}; 'firstseen filter --store {place}' makes one")
            }
            Self::Input { name, reason } => format!("{name}: {reason}"),
            Self::LineTooLong { name, line, bytes_max } => {
                format!(
                    "{name}:{line}: line is longer than {bytes_max} bytes; raise --max-line to let it pass"
                )
            }
            Self::Output(error) => format!("cannot write to standard output: {error}"),
            Self::Store(error) => store_sentence(error),
            Self::Reader(reason) => format!("the thread that reads the input failed: {reason}"),
        }
    }
}

fn store_sentence(error: &firstseen::Error) -> String {
    match error {
        firstseen::Error::Partial { cause, .. } => store_sentence(cause),
        firstseen::Error::Full { budget_bytes, .. } => format!(
            "the lines seen so far fill the memory limit of {}; raise it with --memory, \
             or go on with --when-full forget-oldest",
            mebibytes(*budget_bytes)
        ),
        firstseen::Error::Option { name, reason } => match *name {
            "memory_budget" => format!("--memory: {reason}"),
            "expect" => format!("--expect: {reason}"),
            "window" => format!("--window: {reason}"),
            "hash" => format!("--hash: {reason}"),
            "durability" => format!("--durability: {reason}"),
            "salvage" => reason.clone(),
            name => format!("{name}: {reason}"),
        },
        firstseen::Error::Mismatch { name: "secret", .. } => {
            "the store's file SECRET is missing, or is another store's: nothing can be found without it"
                .to_string()
        }
        firstseen::Error::Mismatch { name: "window", stored, given } => {
            format!("--window: the store was created to remember lines {stored}, which can't become {given}")
        }
        firstseen::Error::Mismatch { name: "hash", stored, given } => {
            let (stored, given) = (stored.to_lowercase(), given.to_lowercase());
            format!("--hash: the store was created with '{stored}', which can't become '{given}'")
        }
        other => other.to_string(),
    }
}

/// Tells the user what happened and turns it into the exit code.
///
/// A stderr that is closed or full changes nothing: there is nobody left to tell.
pub(super) fn report(outcome: Result<(), Failure>) -> ExitCode {
    let text = match outcome {
        Ok(()) | Err(Failure::OutputClosed) => return ExitCode::SUCCESS,
        Err(Failure::Negative) => return ExitCode::from(NEGATIVE),
        Err(Failure::NothingAsked { help }) => help,
        Err(failure) => format!("firstseen: {}\n", failure.sentence()),
    };
    let _ = io::stderr().write_all(text.as_bytes());
    ExitCode::from(FAILED)
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn write_error_of_a_closed_pipe_is_a_quiet_success() {
        let closed = Failure::write(io::Error::from(io::ErrorKind::BrokenPipe));
        assert!(matches!(closed, Failure::OutputClosed));
        let full = Failure::write(io::Error::from(io::ErrorKind::StorageFull));
        assert!(matches!(full, Failure::Output(_)));
    }

    #[test]
    fn budget_reached_in_a_batch_names_both_remedies() {
        let full = firstseen::Error::Full { budget_bytes: 64 << 20, memory_bytes: 63 << 20 };
        let partial = firstseen::Error::Partial { answered: 3, cause: Box::new(full) };
        let sentence = Failure::Store(partial).sentence();
        assert!(sentence.contains("64 MiB"), "{sentence}");
        assert!(
            sentence.contains("--memory") && sentence.contains("--when-full forget-oldest"),
            "{sentence}"
        );
    }
}
