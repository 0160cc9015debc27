//! What a sequence is made of: a setup, and calls that are resolved against it when they are run.

use std::time::Duration;

use firstseen::Window;
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_oneof};

/// Number of an ID; small numbers are hot.
pub(crate) type Id = u8;

/// How a store is created.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) window: Window,
    /// The longest time to live, as a multiple of the window.
    pub(crate) ttl_factor: Option<u32>,
    pub(crate) first_table_lines: u64,
    /// Where the clock stands in the beginning.
    pub(crate) start_ms: u64,
}

/// A length of time relative to the window, because nothing interesting happens far from its ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Length {
    pub(crate) quarters: u8,
    pub(crate) seconds: u8,
    pub(crate) millis: i8,
}

/// What is done with the outcomes of a batch of claims.
#[derive(Clone, Copy, Debug)]
pub(crate) enum After {
    Commit,
    Abort,
    Drop,
    /// Its leases are handled one by one by later calls.
    Split,
    /// It is committed as a whole by a later call.
    Keep,
}

/// What a token or a handle is used for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Use {
    Commit,
    Abort,
    Extend(Length),
    /// A handle is dropped; a token is only thrown away.
    Drop,
    /// A handle becomes a token; a token stays one.
    IntoToken,
}

/// One call, or one move of the clock.
#[cfg_attr(not(feature = "testing"), expect(dead_code, reason = "only stores on disk are opened anew"))]
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Check(Id),
    /// At a time relative to the latest that the store knows.
    CheckAt(Id, Length, bool),
    CheckWith(Id, Length),
    CheckBatch(Vec<Id>),
    CheckFingerprints(Vec<Id>),
    Contains(Id),
    Explain(Id),
    Claim(Id, Length),
    ClaimBatch(Vec<Id>, Length, After),
    /// The oldest batch that was kept is committed.
    CommitBatch,
    Handle(u8, Use),
    /// A token by its age: 0 is the newest.
    Token(u8, Use),
    Forget(Id),
    Advance(Length),
    SetBack(Length),
    Maintain(u8),
    MaintainUntilIdle,
    /// Only in a store that has a place to be opened from again.
    Reopen(End),
}

/// How a run of a store ends.
#[cfg_attr(not(feature = "testing"), expect(dead_code, reason = "only stores on disk are opened anew"))]
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    Close,
    /// Dropped without being closed.
    Drop,
    Kill,
    /// A power cut, of which the seed decides what it leaves.
    PowerCut(u64),
}

pub(crate) fn setups() -> impl Strategy<Value = Setup> {
    let length = prop_oneof![
        Just(Duration::from_micros(1)),
        Just(Duration::from_millis(7)),
        Just(Duration::from_millis(1_000)),
        Just(Duration::from_millis(4_003)),
        Just(Duration::from_secs(3_600)),
        Just(Duration::from_secs(30 * 86_400)),
    ]
    .prop_map(|length| length.max(Duration::from_millis(1)));
    let window = (length, 0..6_u8).prop_map(|(length, kind)| match kind {
        0 | 1 => Window::Forever,
        2 | 3 => Window::Fixed(length),
        _ => Window::Sliding(length),
    });
    let start = prop_oneof![Just(0), Just(1_700_000_000_123), Just(u64::from(u32::MAX) * 1000)];
    (window, proptest::option::of(1..4_u32), 1..=4_u64, start).prop_map(
        |(window, ttl_factor, first_table_lines, start_ms)| Setup {
            window,
            ttl_factor,
            first_table_lines,
            start_ms,
        },
    )
}

pub(crate) fn sequences() -> impl Strategy<Value = Vec<Op>> {
    vec(op(), 1..100)
}

/// Sequences in which the store is opened anew now and then.
#[cfg(feature = "testing")]
pub(crate) fn sequences_with_reopening() -> impl Strategy<Value = Vec<Op>> {
    let end =
        prop_oneof![Just(End::Close), Just(End::Drop), Just(End::Kill), any::<u64>().prop_map(End::PowerCut)];
    vec(prop_oneof![24 => op(), 1 => end.prop_map(Op::Reopen)], 1..100)
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => id().prop_map(Op::Check),
        3 => (id(), length(), any::<bool>()).prop_map(|(id, time, is_back)| Op::CheckAt(id, time, is_back)),
        3 => (id(), length()).prop_map(|(id, length)| Op::CheckWith(id, length)),
        4 => ids().prop_map(Op::CheckBatch),
        2 => ids().prop_map(Op::CheckFingerprints),
        4 => id().prop_map(Op::Contains),
        3 => id().prop_map(Op::Explain),
        8 => (id(), length()).prop_map(|(id, length)| Op::Claim(id, length)),
        3 => (ids(), length(), after()).prop_map(|(ids, length, after)| Op::ClaimBatch(ids, length, after)),
        1 => Just(Op::CommitBatch),
        7 => (any::<u8>(), usage()).prop_map(|(index, usage)| Op::Handle(index, usage)),
        5 => (age(), usage()).prop_map(|(age, usage)| Op::Token(age, usage)),
        4 => id().prop_map(Op::Forget),
        6 => length().prop_map(Op::Advance),
        1 => length().prop_map(Op::SetBack),
        6 => (1..6_u8).prop_map(Op::Maintain),
        2 => Just(Op::MaintainUntilIdle),
    ]
}

fn id() -> impl Strategy<Value = Id> {
    prop_oneof![3 => 0..4_u8, 2 => 0..16_u8, 1 => 0..250_u8]
}

fn age() -> impl Strategy<Value = u8> {
    prop_oneof![3 => 0..3_u8, 1 => any::<u8>()]
}

/// Mostly a few, sometimes many, often the same one several times.
fn ids() -> impl Strategy<Value = Vec<Id>> {
    let run = (0..250_u8, 1..90_u8).prop_map(|(first, count)| (first..first.saturating_add(count)).collect());
    prop_oneof![2 => vec(id(), 0..8), 1 => run]
}

fn length() -> impl Strategy<Value = Length> {
    let quarters = prop_oneof![4 => Just(0), 3 => Just(1), 1 => Just(2), 3 => Just(4), 1 => 5..12_u8];
    let seconds = prop_oneof![4 => Just(0), 2 => Just(1), 1 => 2..9_u8];
    (quarters, seconds, -2..=3_i8).prop_map(|(quarters, seconds, millis)| Length {
        quarters,
        seconds,
        millis,
    })
}

fn after() -> impl Strategy<Value = After> {
    prop_oneof![
        Just(After::Commit),
        Just(After::Abort),
        Just(After::Drop),
        Just(After::Split),
        Just(After::Keep)
    ]
}

fn usage() -> impl Strategy<Value = Use> {
    prop_oneof![
        4 => Just(Use::Commit),
        3 => Just(Use::Abort),
        2 => length().prop_map(Use::Extend),
        1 => Just(Use::Drop),
        1 => Just(Use::IntoToken),
    ]
}

impl Length {
    /// Milliseconds, given those of the window; never negative.
    pub(crate) fn millis(self, window_ms: u64) -> u64 {
        let whole = window_ms / 4 * u64::from(self.quarters) + u64::from(self.seconds) * 1000;
        whole.saturating_add_signed(i64::from(self.millis))
    }
}
