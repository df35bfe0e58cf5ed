//! The state of a limiter at one instant.

use aliquot_core::share::Kind;
use std::time::Duration;

/// State of a limiter at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Kind of the budget: a rate, a quota or permits.
    pub kind: Kind,
    /// Tokens per second that this process may admit, rounded down; zero for kinds other than rates.
    pub rate: u64,
    /// Maximum number of tokens at once, rounded down; for permits, the number that this process may have in
    /// flight.
    pub burst: u64,
    /// Tokens or permits that are available now, rounded down.
    pub level: u64,
    /// Basis on which the limiter admits.
    pub state: LimiterState,
    /// Remaining time of this state: of the lease or of the floor. Zero after its end; [`Duration::MAX`] if
    /// it has no end.
    pub remaining: Duration,
}

/// State of a limiter: the basis on which it admits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LimiterState {
    /// Nothing: the budget is not known yet.
    Cold,
    /// A share of the budget, under the session's lease.
    Leased,
    /// Nothing: the lease is over.
    Lapsed,
    /// A floor: a small share that outlives the lease.
    Floor,
    /// A part without a lease: the last share, or a limit of this process.
    Forever,
    /// No limit: everything is admitted.
    Open,
    /// Nothing: there is no budget for the key.
    NoBudget,
    /// Nothing: the session has all the keys that it may have.
    NoRoom,
    /// Nothing: the key's template has reached its `max_keys`.
    MaxKeys,
    /// Nothing: the client is closed.
    Closed,
    /// Nothing: the mode is [`Mode::Freeze`](crate::observe::Mode::Freeze).
    Frozen,
}

impl LimiterState {
    /// All states, in order.
    pub const ALL: [Self; 11] = [
        Self::Cold,
        Self::Leased,
        Self::Lapsed,
        Self::Floor,
        Self::Forever,
        Self::Open,
        Self::NoBudget,
        Self::NoRoom,
        Self::MaxKeys,
        Self::Closed,
        Self::Frozen,
    ];

    /// Returns the state as one word, as in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cold => "cold",
            Self::Leased => "leased",
            Self::Lapsed => "lapsed",
            Self::Floor => "floor",
            Self::Forever => "forever",
            Self::Open => "open",
            Self::NoBudget => "no_budget",
            Self::NoRoom => "no_room",
            Self::MaxKeys => "max_keys",
            Self::Closed => "closed",
            Self::Frozen => "frozen",
        }
    }
}
