//! How bad a power cut is.

/// What a power cut leaves of all that was not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// Nothing.
    LoseAll,
    /// Everything.
    KeepAll,
    /// Of each sector, length and name independently all, something older, a torn mixture, zeros or garbage:
    /// the seed decides.
    Random(u64),
}
