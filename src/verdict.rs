//! The answer to a check.

/// Whether an ID had been seen before.
///
/// It is no `bool` on purpose: a verdict that is mixed up or ignored loses a message or does its work twice.
///
/// ```
/// use firstseen::{Options, Store, Verdict};
///
/// let store = Store::in_memory(Options::new())?;
/// match store.check("order-17")? {
///     Verdict::FirstSeen => println!("do the work"),
///     Verdict::Duplicate => println!("skip it"),
///     Verdict::InFlight => println!("somebody is at it: come back later"),
/// }
/// # Ok::<(), firstseen::Error>(())
/// ```
#[must_use = "a verdict that is not looked at loses a message or does its work twice"]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(u8)]
pub enum Verdict {
    /// Not seen before, and recorded as seen by this call: among all concurrent calls on one ID in one window
    /// exactly one gets this answer.
    FirstSeen,
    /// Seen before, and its window is not over.
    Duplicate,
    /// Somebody holds a lease on it: it is neither seen nor free. Nothing was recorded.
    #[default]
    InFlight,
}

impl Verdict {
    /// Whether the ID was seen for the first time.
    #[must_use]
    pub const fn is_first_seen(self) -> bool {
        matches!(self, Verdict::FirstSeen)
    }

    /// Whether the ID had been seen before.
    #[must_use]
    pub const fn is_duplicate(self) -> bool {
        matches!(self, Verdict::Duplicate)
    }
}

const _: () = assert!(size_of::<Verdict>() == 1);
