//! The one error type: plain data that says which operation failed and what to do about it.

use std::fmt;
use std::io;

/// What every fallible call of this crate returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call could not be answered.
///
/// Match on the kind; the text of [`Display`](fmt::Display) may change between releases.
/// An error never comes with a verdict: the ID that failed was neither recorded nor dropped.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// A value given to [`Options`](crate::Options) was refused when the store was created.
    Option {
        /// The builder method whose value was refused.
        name: &'static str,
        /// What is wrong with it and which values are accepted.
        reason: String,
    },
    /// [`Hash::Exact`](crate::Hash::Exact) takes IDs of exactly 16 bytes.
    IdLength {
        /// Length of the refused ID in bytes.
        length: usize,
    },
    /// The memory budget is used up and the store was told to refuse new IDs then.
    ///
    /// IDs that are already there are still answered, but in a sliding window those that must be written
    /// anew.
    Full {
        /// The budget of the store in bytes.
        budget_bytes: u64,
        /// What its tables and filters take in bytes.
        memory_bytes: u64,
    },
    /// The IDs are not evenly spread, so tables fill up in one place and can be merged no more.
    ///
    /// With hashed IDs that takes somebody who knows the secret; with
    /// [`Store::check_fingerprints`](crate::Store::check_fingerprints) it means that the fingerprints are
    /// no digests. IDs that are already there are still answered.
    Uneven {
        /// Tables in use.
        tables: usize,
    },
    /// The lease is no longer the caller's: it was committed, aborted or taken over by somebody else, or it
    /// was over and gave way to another when as many as allowed were held (G3).
    ///
    /// Nothing was changed. The work done under the lease may have been done by somebody else too.
    LeaseLost {
        /// Attempt number of the refused token.
        attempt: u64,
    },
    /// As many leases as the store has room for are held, and none of them is over.
    LeaseLimit {
        /// The limit: [`Options::leases_max`](crate::Options::leases_max), or what the memory budget has
        /// room for.
        leases_max: u64,
    },
    /// The buffer for verdicts has another length than the batch.
    BufferLength {
        /// IDs in the batch.
        ids: usize,
        /// Places in the buffer.
        verdicts: usize,
    },
    /// A batch stopped on the way: the verdicts before `answered` hold, the others were not asked.
    Partial {
        /// How many items, from the first on, were answered.
        answered: usize,
        /// What stopped the batch at the item with that index.
        cause: Box<Error>,
    },
    /// What was to be committed at once, facts and cursors, does not fit in one frame of the log. Nothing was
    /// recorded.
    CommitSize {
        /// Length of the frame that it would take.
        bytes: u64,
        /// Longest frame.
        bytes_max: u64,
    },
    /// A time to live was given to a store that does not forget, or one longer than it was created for.
    TimeToLive {
        /// What was asked for, in milliseconds.
        asked_ms: u64,
        /// The longest the store takes, in milliseconds; zero in a store without a window.
        longest_ms: u64,
    },
    /// One ID was forgotten and seen again more often than a stamp can count (about 5 * 10^8 times).
    RevisionsUsedUp,
    /// A write, sync, rename or truncation has failed before, or the maintenance thread is gone (it
    /// panicked): the store takes no more writes (G6). What was answered before holds; open it anew.
    Poisoned {
        /// What was being done when it stopped.
        operation: &'static str,
    },
    /// The system refused to read or write a file of the store.
    ///
    /// After a failed write the store is poisoned: whether this call's IDs are recorded is known once the
    /// store was opened anew.
    Io {
        /// What was asked of the system.
        operation: &'static str,
        /// The file, within the store's directory.
        file: String,
        /// The kind of refusal.
        kind: io::ErrorKind,
        /// The system's own words.
        message: String,
    },
    /// A file of the store is damaged (G4). Nothing was changed.
    Corrupt {
        /// The file, within the store's directory.
        file: String,
        /// Where the damage was found, in bytes from the start of the file.
        offset: u64,
        /// What should be there.
        expected: String,
        /// What is there.
        found: String,
    },
    /// A file of the store has a format that this version does not know. Nothing was changed.
    Format {
        /// The file, within the store's directory.
        file: String,
        /// The version of its format.
        found: u64,
        /// The latest version that is known.
        known: u64,
    },
    /// Somebody else, in this process or another, has the store open (G9).
    Locked {
        /// Where the store is.
        place: String,
    },
    /// The store was created with another value of an option that cannot change, or with another secret.
    Mismatch {
        /// The option.
        name: &'static str,
        /// The value that the store was created with.
        stored: String,
        /// The value that was given now.
        given: String,
    },
    /// A cursor was refused. Nothing was committed.
    Cursor {
        /// Its name.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The store was closed by another handle.
    Closed,
    /// The process was forked after the store was opened: the child can't use it.
    Forked,
    /// The system refused something the store needs: memory, random numbers, a thread.
    System {
        /// What was asked of the system.
        operation: &'static str,
        /// The system's own words.
        message: String,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Option { name, reason } => write!(f, "option {name}: {reason}"),
            Error::IdLength { length } => {
                write!(f, "an exact store takes IDs of 16 bytes, this one has {length}")
            }
            Error::Full { budget_bytes, memory_bytes } => write!(
                f,
                "the memory budget of {budget_bytes} bytes is used up ({memory_bytes} in tables and \
                 filters): raise it, shorten the window, or let the oldest IDs be forgotten"
            ),
            Error::Uneven { tables } => write!(
                f,
                "the fingerprints are not evenly spread and fill {tables} tables in one place: use a keyed \
                 hash, or digests as fingerprints"
            ),
            Error::LeaseLost { attempt } => write!(
                f,
                "lease {attempt} is no longer held: it ended and somebody else took over, or it was already \
                 committed or aborted"
            ),
            Error::LeaseLimit { leases_max } => {
                write!(f, "all {leases_max} leases are held: commit or abort some, or raise leases_max")
            }
            Error::BufferLength { ids, verdicts } => {
                write!(f, "{ids} IDs need a buffer for {ids} verdicts, this one has {verdicts}")
            }
            Error::Partial { answered, cause } => {
                write!(f, "the batch stopped after {answered} answered items: {cause}")
            }
            Error::CommitSize { bytes, bytes_max } => write!(
                f,
                "a commit of {bytes} bytes is longer than the log takes at once ({bytes_max}): split it"
            ),
            Error::TimeToLive { asked_ms, longest_ms: 0 } => {
                write!(f, "a store that never forgets takes no time to live ({asked_ms} ms asked)")
            }
            Error::TimeToLive { asked_ms, longest_ms } => write!(
                f,
                "a time to live of {asked_ms} ms is longer than the {longest_ms} ms this store was created \
                 for: raise ttl_max"
            ),
            Error::RevisionsUsedUp => {
                write!(f, "this ID was forgotten and seen again too often to be recorded once more")
            }
            Error::Poisoned { operation } => write!(
                f,
                "the store is poisoned, {operation} has failed before: what was answered holds, open it anew"
            ),
            Error::System { operation, message } => write!(f, "{operation} failed: {message}"),
            error => error.fmt_of_files(f),
        }
    }
}

impl Error {
    /// What concerns a store with a directory.
    fn fmt_of_files(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Io { operation, file, message, .. } => write!(f, "{operation} {file} failed: {message}"),
            Error::Corrupt { file, offset, expected, found } => write!(
                f,
                "{file} is damaged at byte {offset}: expected {expected}, found {found}; nothing was changed"
            ),
            Error::Format { file, found, known } => write!(
                f,
                "{file} has format {found}, this version knows formats up to {known}: use a later version"
            ),
            Error::Locked { place } => {
                write!(f, "the store in {place} is open elsewhere: close it there first")
            }
            Error::Mismatch { name, stored, given } => {
                write!(f, "the store was created with {name} {stored}, not {given}")
            }
            Error::Cursor { name, reason } => write!(f, "cursor {name:?}: {reason}"),
            Error::Closed => write!(f, "the store was closed: open it anew"),
            Error::Forked => write!(
                f,
                "the process was forked after the store was opened: open stores in the process that uses them"
            ),
            _ => Ok(()),
        }
    }

    /// Damage in a file.
    pub(crate) fn corrupt(
        file: impl Into<String>,
        offset: u64,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Error {
        Error::Corrupt { file: file.into(), offset, expected: expected.into(), found: found.into() }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Partial { cause, .. } => Some(cause.as_ref()),
            _ => None,
        }
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn partial_error_names_its_cause_and_position() {
        let full = Error::Full { budget_bytes: 10, memory_bytes: 9 };
        let error = Error::Partial { answered: 3, cause: Box::new(full.clone()) };
        assert!(error.to_string().contains("after 3 answered"));
        assert!(error.to_string().contains("budget of 10 bytes"));
        let source = std::error::Error::source(&error).map(ToString::to_string);
        assert_eq!(source, Some(full.to_string()));
    }

    #[test]
    fn ttl_error_tells_forever_from_too_long() {
        let forever = Error::TimeToLive { asked_ms: 5, longest_ms: 0 }.to_string();
        let too_long = Error::TimeToLive { asked_ms: 5, longest_ms: 4 }.to_string();
        assert!(forever.contains("never forgets"));
        assert!(too_long.contains("ttl_max"));
    }
}
