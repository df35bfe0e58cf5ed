//! The answers of a limiter.

use crate::bucket::No;
use crate::bucket::reserve::BucketCharge;
use aliquot_core::unit::{PeriodId, Span, Tick};
use std::fmt;
use std::num::NonZeroU64;
use std::time::Duration;

/// A request that was admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admission {
    /// Number of tokens taken.
    pub tokens: u64,
    /// Earliest clock reading at which the request can have been decided. Equal to [`Admission::decided_at`]
    /// if it was decided here; otherwise the time at which it was sent to the home node.
    pub asked_at: Tick,
    /// Clock reading at which the request was decided here, or at which the home node's answer arrived, on
    /// the client's clock.
    ///
    /// The decision lies between the two readings, both included. A check of admissions against a limit must
    /// count each of them somewhere in between.
    pub decided_at: Tick,
    /// Number of the quota's period that the tokens belong to; zero for other kinds. Later periods have higher
    /// numbers.
    pub period: u64,
}

impl Admission {
    /// Makes the admission of a decision that was made here, at one reading.
    #[inline(always)]
    pub(crate) const fn at(tokens: u64, at: Tick, period: PeriodId) -> Self {
        Self {
            tokens,
            asked_at: at,
            decided_at: at,
            period: period.get(),
        }
    }

    /// Makes the admission of tokens that were taken and can be settled.
    pub(crate) const fn of(tokens: u64, charge: &BucketCharge) -> Self {
        Self {
            tokens,
            asked_at: charge.at,
            decided_at: charge.act_at,
            period: charge.period.get(),
        }
    }
}

/// A request that was refused. Nothing was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("refused: {}", self.cause())]
pub struct Refused {
    /// Reason of the refusal.
    pub reason: Reason,
    /// Shortest wait after which a retry may succeed. `None` if waiting does not help, or if the wait is not
    /// known.
    ///
    /// - For a rate, it is the time until the tokens are refilled: by the share held here, or by the whole rate if
    ///   the share has less than eight tokens of burst and a node was asked without success, because small parts
    ///   share one bucket at their node. For a leased limit both are estimates. The tokens arrive sooner if the share
    ///   grows, and later if a part of it is moved to another client, or if another client takes the tokens first. A
    ///   caller that returns much sooner is mostly refused again.
    /// - For a quota, it is the time until the end of the period if all tokens of the period are granted. Otherwise
    ///   it is at most 1 s, because more may be granted here at any time.
    /// - For permits, it is a hint of 50 ms, the time in which a node may grant one. It is not known when a call
    ///   will release one.
    ///
    /// The end of a period is decided by the wall clocks of a quorum of nodes. Unless these clocks are set in the
    /// meantime, the wait is never too short. It is too long by at most three times the cluster's drift bound (0.3
    /// % by default), applied to the time since a leader announced it, plus the time that messages took.
    pub retry_after: Option<Duration>,
    /// The cost and the largest cost that is ever admitted, if the cost exceeds it. Such a request is refused
    /// until the limit is raised, however long its caller waits.
    pub excess: Option<Excess>,
}

/// A cost that is never admitted, and the largest one that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Excess {
    cost: NonZeroU64,
    burst: u64,
}

impl Excess {
    /// Returns the excess of a cost over the largest one that is ever admitted; `None` if there is none.
    #[must_use]
    pub fn of(cost: u64, burst: u64) -> Option<Self> {
        let cost = NonZeroU64::new(cost).filter(|cost| cost.get() > burst)?;
        Some(Self { cost, burst })
    }

    /// Returns the cost that was asked for.
    #[must_use]
    pub const fn cost(&self) -> u64 {
        self.cost.get()
    }

    /// Returns the largest cost that is ever admitted: the burst of a rate, the tokens of a quota, or all permits.
    /// For a leased limit it is the whole budget's.
    #[must_use]
    pub const fn burst(&self) -> u64 {
        self.burst
    }
}

/// Reason of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// No budget matches the key, and the client's default is to deny.
    NoBudget,
    /// The budget is not known yet: no node has answered.
    Cold,
    /// Nothing of the budget is held here: it was not granted yet, was recalled, or is in central mode.
    NoShare,
    /// The lease is over, and the budget's policy denies.
    Lapsed,
    /// The request costs more than the part held here can ever have at once.
    ExceedsBurst,
    /// Not enough tokens are available yet.
    Throttled,
    /// The part of the period's quota held here is spent, or less than the cost.
    Quota,
    /// All permits are in flight.
    Permits,
    /// The budget is of another kind: permits were asked of a rate, or tokens of a concurrency budget.
    WrongKind,
    /// No node is known to have decided: none answered, or none was able to.
    Undecided,
    /// The client was closed.
    Closed,
    /// Nothing is admitted: the mode is [`Mode::Freeze`](crate::observe::Mode::Freeze).
    Frozen,
    /// A [`Breaker`](crate::breaker::Breaker) is open.
    Broken,
    /// A [`Throttle`](crate::adaptive::Throttle) rejected the call, because the backend rejected many recent calls.
    Shed,
    /// There is no room for another key: the session has its maximum number of keys or, in a store of keys,
    /// every key that could be replaced still owes tokens.
    NoRoom,
    /// The key's template has reached its `max_keys`. Other keys of it go on.
    MaxKeys,
}

impl Reason {
    /// All reasons, in order.
    pub const ALL: [Self; 16] = [
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
        Self::MaxKeys,
    ];

    /// Returns the reason as one word, as in metrics and headers.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
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
            Self::MaxKeys => "max_keys",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoBudget => "no budget matches the key",
            Self::Cold => "the budget is not known yet",
            Self::NoShare => "this client holds no part of the budget",
            Self::Lapsed => "the lease is over",
            Self::ExceedsBurst => "more than can be admitted at once",
            Self::Throttled => "not enough tokens are available yet",
            Self::Quota => "too little of the quota is held here",
            Self::Permits => "all permits are in flight",
            Self::WrongKind => "the budget is of another kind",
            Self::Undecided => "no node has answered with a decision",
            Self::Closed => "the client is closed",
            Self::Frozen => "the limit is frozen by an operator",
            Self::Broken => "the circuit breaker is open",
            Self::Shed => "the backend rejected too many recent calls",
            Self::NoRoom => "there is no room for another key",
            Self::MaxKeys => "the template has reached max_keys",
        })
    }
}

impl Refused {
    /// Refusal of a frozen limit. How long the freeze lasts is not known.
    pub(crate) const FROZEN: Self = Self {
        reason: Reason::Frozen,
        retry_after: None,
        excess: None,
    };
    /// Time after which a share may have arrived: one answer of a node that is up.
    const SOON: Duration = Duration::from_millis(50);
    /// When a key that had no room is asked for again.
    const ROOM: Duration = Duration::from_secs(5);
    /// Time after which a session may have been restored.
    pub(super) const LATER: Duration = Duration::from_secs(1);

    /// Returns the refusal of a cost above the largest one that is ever admitted.
    #[must_use]
    pub fn exceeds(cost: u64, burst: u64) -> Self {
        Self {
            excess: Excess::of(cost, burst),
            ..Self::from(Reason::ExceedsBurst)
        }
    }

    /// Returns true if the request is never admitted, however long its caller waits, unless the limit is raised.
    #[must_use]
    pub const fn is_never(&self) -> bool {
        self.excess.is_some()
    }

    /// Returns the reason, and the excess if there is one, as a text.
    pub(crate) fn cause(&self) -> String {
        match self.excess {
            None => self.reason.to_string(),
            Some(Excess { cost, burst }) => {
                format!("{}: the cost is {cost}, and the burst {burst}", self.reason)
            }
        }
    }

    /// Returns the refusal if no node decided. The wait is that which nodes give after an election.
    pub(crate) const fn undecided() -> Self {
        Self {
            reason: Reason::Undecided,
            retry_after: Some(Duration::from_millis(200)),
            excess: None,
        }
    }

    /// Returns the refusal of tokens that are there after `wait`.
    #[inline]
    pub(crate) const fn throttled(wait: Span) -> Self {
        Self {
            reason: Reason::Throttled,
            retry_after: Some(Duration::from_nanos(wait.nanos())),
            excess: None,
        }
    }

    /// Converts a bucket's refusal.
    pub(crate) fn of(no: No) -> Self {
        let (reason, retry_after) = match no {
            No::Cold => (Reason::Cold, Some(Self::SOON)),
            No::Unruled => (Reason::NoBudget, None),
            No::Full => (Reason::NoRoom, Some(Self::ROOM)),
            No::MaxKeys => (Reason::MaxKeys, Some(Self::ROOM)),
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
            excess: None,
        }
    }
}

impl From<Reason> for Refused {
    fn from(reason: Reason) -> Self {
        Self {
            reason,
            retry_after: None,
            excess: None,
        }
    }
}
