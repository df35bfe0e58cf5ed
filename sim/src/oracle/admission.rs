//! What a client was promised when it admitted something.

use aliquot_core::client::Permit;
use aliquot_core::share::Share;
use aliquot_core::unit::{BudgetId, Edge, PeriodId, RequestId, Tokens};

/// By what right it was admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Right {
    /// By a share under a lease, by a booked floor, or by a node in the client's stead.
    Booked,
    /// By the last share, without a lease.
    Kept,
    /// By a part of its own.
    Local,
    /// By no limit.
    Open,
}

/// An admission.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Admission {
    /// The number of its client; none where a node admitted in a client's stead.
    pub(crate) client: Option<usize>,
    pub(crate) budget: BudgetId,
    /// The edge that it was admitted on; none for a floor of a former one.
    pub(crate) edge: Option<Edge>,
    pub(crate) cost: Tokens,
    pub(crate) period: PeriodId,
    pub(crate) right: Right,
    /// What is decided by, where it is not booked.
    pub(crate) share: Share,
}

/// A permit in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Flight {
    Own(BudgetId, Permit),
    Central(RequestId),
}

/// A permit in flight: its client, the process there, and the permit.
pub(crate) type Flown = (usize, u32, Flight);
