//! How a file is opened.

/// What is to be there before, and what may be done with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// One that exists, to read it.
    Read,
    /// One that exists, to read and write it.
    Write,
    /// One that does not exist.
    Create,
    /// One that may exist.
    Lock,
}
