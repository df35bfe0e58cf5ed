//! Admissions and permits, as the oracle sees them.

use aliquot_core::client::Permit;
use aliquot_core::share::Share;
use aliquot_core::unit::{BudgetId, Edge, PeriodId, RequestId, Tokens};

/// The right by which a request was admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Right {
    /// A share under a lease, a booked floor, or a node's decision in central mode.
    Booked,
    /// The last share, kept without a lease (policy `keep`).
    Kept,
    /// A local part of the client's own, without a lease (policy `local`).
    Local,
    /// No limit at all, without a lease (policy `open`).
    Open,
}

/// An admission.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Admission {
    /// The number of the client; `None` if a node admitted in central mode.
    pub(crate) client: Option<usize>,
    pub(crate) budget: BudgetId,
    /// The edge on which it was admitted; `None` for a floor of an earlier edge.
    pub(crate) edge: Option<Edge>,
    pub(crate) cost: Tokens,
    pub(crate) period: PeriodId,
    pub(crate) right: Right,
    /// The share that decided, if the right is not booked.
    pub(crate) share: Share,
}

/// A permit in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Flight {
    Own(BudgetId, Permit),
    Central(RequestId),
}

/// A permit in flight, with its client and the process there.
pub(crate) type Flown = (usize, u32, Flight);
