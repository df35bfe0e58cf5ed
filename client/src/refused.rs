//! What a limiter answers.

use crate::cell::No;
use crate::cell::book::Taken;
use aliquot_core::unit::{PeriodId, Tick};
use std::fmt;
use std::time::Duration;

/// A request that was let through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admission {
    /// The tokens taken.
    pub tokens: u64,
    /// The clock reading before which it was not decided: the same as
    /// [`Admission::decided_at`] if it was decided here, and the sending of the
    /// question if it was decided elsewhere.
    pub asked_at: Tick,
    /// The clock reading on which it was decided here, or on which it was heard
    /// that it was decided elsewhere, in nanoseconds of the client's clock. The
    /// decision lies between the two readings, both included: who checks admissions
    /// against a limit must count each somewhere in between.
    pub decided_at: Tick,
    /// The period of a quota that it counts in; zero for other kinds.
    pub period: PeriodId,
}

impl Admission {
    /// What was decided here, at one reading.
    #[inline(always)]
    pub(crate) const fn at(tokens: u64, at: Tick, period: PeriodId) -> Self {
        Self {
            tokens,
            asked_at: at,
            decided_at: at,
            period,
        }
    }

    /// What was taken to be settled, as an admission.
    pub(crate) const fn of(tokens: u64, taken: &Taken) -> Self {
        Self {
            tokens,
            asked_at: taken.at,
            decided_at: taken.act_at,
            period: taken.period,
        }
    }
}

/// A request that was turned away. Nothing was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("refused: {reason}")]
pub struct Refused {
    /// What refused.
    pub reason: Reason,
    /// When to ask again: the shortest wait that may help. `None` where waiting
    /// does not help, or nobody knows.
    pub retry_after: Option<Duration>,
}

/// What refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// No rule names the key, and the client's default is to deny.
    NoBudget,
    /// The budget is not known yet: no node has answered.
    Cold,
    /// Nothing of the budget is held: not granted yet, or all of it recalled.
    NoShare,
    /// The lease is over, and the budget's policy denies.
    Lapsed,
    /// More was asked for than what is held can ever have at once.
    ExceedsBurst,
    /// The tokens are not there yet.
    Throttled,
    /// What is held of the period's quota is spent, or less than asked for.
    Quota,
    /// All permits are in flight.
    Permits,
    /// The budget is of another kind: permits of a rate, or tokens of permits.
    WrongKind,
    /// No node is known to have decided: none answered, or none could just now.
    Undecided,
    /// The client was closed.
    Closed,
    /// Nothing is admitted, by order: [`Mode::Freeze`](crate::Mode::Freeze).
    Frozen,
    /// What stands before is taken for broken, and was not asked: a [`Breaker`](crate::Breaker).
    Broken,
    /// Too much of it was rejected of late: a [`Throttle`](crate::adaptive::Throttle).
    Shed,
    /// There is no room for another key: the template of the key has as many as it may have, the session
    /// has, or all keys of a store that could make room owe something.
    NoRoom,
}

impl Reason {
    /// All of them, in their order.
    pub const ALL: [Self; 15] = [
        Self::NoBudget,
        Self::Cold,
        Self::NoShare,
        Self::Lapsed,
        Self::ExceedsBurst,
        Self::Throttled,
        Self::Quota,
        Self::Permits,
        Self::WrongKind,
        Self::Undecided,
        Self::Closed,
        Self::Frozen,
        Self::Broken,
        Self::Shed,
        Self::NoRoom,
    ];

    /// The reason in one word, as in metrics and headers.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::NoBudget => "no_budget",
            Self::Cold => "cold",
            Self::NoShare => "no_share",
            Self::Lapsed => "lapsed",
            Self::ExceedsBurst => "exceeds_burst",
            Self::Throttled => "throttled",
            Self::Quota => "quota",
            Self::Permits => "permits",
            Self::WrongKind => "wrong_kind",
            Self::Undecided => "undecided",
            Self::Closed => "closed",
            Self::Frozen => "frozen",
            Self::Broken => "broken",
            Self::Shed => "shed",
            Self::NoRoom => "no_room",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoBudget => "no rule names the key",
            Self::Cold => "the budget is not known yet",
            Self::NoShare => "nothing of the budget is held",
            Self::Lapsed => "the lease is over",
            Self::ExceedsBurst => "more than can be had at once",
            Self::Throttled => "the tokens are not there yet",
            Self::Quota => "not so much of the quota is held",
            Self::Permits => "all permits are in flight",
            Self::WrongKind => "the budget is of another kind",
            Self::Undecided => "no node is known to have decided",
            Self::Closed => "the client is closed",
            Self::Frozen => "all is frozen, by order",
            Self::Broken => "what is behind it is taken for broken",
            Self::Shed => "too much was rejected of late",
            Self::NoRoom => "there is no room for another key",
        })
    }
}

impl Refused {
    /// When a share may have come: one answer of a node that is there.
    const SOON: Duration = Duration::from_millis(50);
    /// When a key that had no room is asked for again.
    const ROOM: Duration = Duration::from_secs(5);
    /// When a session may have come back.
    const LATER: Duration = Duration::from_secs(1);

    /// Nobody knows. When to ask again: after an election, as nodes say it.
    pub(crate) const fn undecided() -> Self {
        Self {
            reason: Reason::Undecided,
            retry_after: Some(Duration::from_millis(200)),
        }
    }

    /// The refusal for what a cell says.
    pub(crate) fn of(no: No) -> Self {
        let (reason, retry_after) = match no {
            No::Cold => (Reason::Cold, Some(Self::SOON)),
            No::Unruled => (Reason::NoBudget, None),
            No::NoRoom => (Reason::NoRoom, Some(Self::ROOM)),
            No::Lapsed => (Reason::Lapsed, Some(Self::LATER)),
            No::Closed => (Reason::Closed, None),
            No::Frozen => (Reason::Frozen, None),
            No::Kind => (Reason::WrongKind, None),
            No::Empty => (Reason::NoShare, Some(Self::SOON)),
            No::ExceedsBurst => (Reason::ExceedsBurst, None),
            No::NotYet(wait) => {
                let wait = wait.map(|wait| Duration::from_nanos(wait.nanos()));
                (Reason::Throttled, wait)
            }
            No::Aged => (Reason::Throttled, Some(Duration::from_millis(1))),
            No::Quota => (Reason::Quota, Some(Self::LATER)),
            No::Permits => (Reason::Permits, Some(Self::SOON)),
        };
        Self {
            reason,
            retry_after,
        }
    }
}

impl From<Reason> for Refused {
    fn from(reason: Reason) -> Self {
        Self {
            reason,
            retry_after: None,
        }
    }
}
