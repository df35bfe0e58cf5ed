//! Requests for central decisions and the replies: between a client and its node, and forwarded
//! once to the home.

use crate::codec::wire;
use crate::error::WireError;
use crate::limits::CENTRAL_BYTES_MAX;
use crate::pb;
use crate::read::{self, choice};
use aliquot_core::central::{
    DecisionReply, DecisionRequest, Outcome, Reason, Release, RetryPolicy, Route,
};
use aliquot_core::unit::{BudgetId, Incarnation, PeriodId, RequestId, Span};
use std::num::NonZeroU64;

/// A request that a client's node forwards to the home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AskForward(DecisionRequest);

impl AskForward {
    /// Wraps the request for forwarding.
    #[must_use]
    pub const fn new(ask: DecisionRequest) -> Self {
        let route = Route::Forwarded;
        Self(DecisionRequest { route, ..ask })
    }

    /// Returns the request, marked as forwarded.
    #[must_use]
    pub const fn ask(&self) -> DecisionRequest {
        self.0
    }
}

/// A release that a client's node forwards to the node that booked the permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReleaseForward(Release);

impl ReleaseForward {
    /// Wraps the release for forwarding.
    #[must_use]
    pub const fn new(release: Release) -> Self {
        let route = Route::Forwarded;
        Self(Release { route, ..release })
    }

    /// Returns the release, marked as forwarded.
    #[must_use]
    pub const fn release(&self) -> Release {
        self.0
    }
}

wire!(AskForward, AskForward, CENTRAL_BYTES_MAX);
wire!(ReleaseForward, ReleaseForward, CENTRAL_BYTES_MAX);
wire!(DecisionReply, Told, CENTRAL_BYTES_MAX);

choice!(RetryPolicy, Manner, "1 (once) or 2 (waits)", Once, Waits);

impl From<&DecisionRequest> for pb::Ask {
    fn from(ask: &DecisionRequest) -> Self {
        Self {
            edge: Some((&ask.edge).into()),
            request: ask.request.get(),
            budget: ask.budget.get(),
            kind: pb::Kind::from(ask.kind).into(),
            cost: ask.cost.get(),
            manner: pb::Manner::from(ask.retry_policy).into(),
        }
    }
}

/// Reads a request as the client sent it: a forwarding node marks it in the message around it.
impl TryFrom<pb::Ask> for DecisionRequest {
    type Error = WireError;

    fn try_from(ask: pb::Ask) -> Result<Self, WireError> {
        Ok(Self {
            edge: read::required(ask.edge, "edge")?,
            request: request(ask.request)?,
            budget: BudgetId::new(ask.budget),
            kind: read::chosen(ask.kind, "kind")?,
            cost: NonZeroU64::new(ask.cost)
                .ok_or_else(|| WireError::field("cost", 0, "at least 1"))?,
            retry_policy: read::chosen(ask.manner, "manner")?,
            route: Route::Direct,
        })
    }
}

impl From<&Release> for pb::PermitRelease {
    fn from(release: &Release) -> Self {
        Self {
            edge: Some((&release.edge).into()),
            request: release.request.get(),
            by: release.by.get(),
        }
    }
}

/// Reads a release as the client sent it: a forwarding node marks it in the message around it.
impl TryFrom<pb::PermitRelease> for Release {
    type Error = WireError;

    fn try_from(release: pb::PermitRelease) -> Result<Self, WireError> {
        Ok(Self {
            edge: read::required(release.edge, "edge")?,
            request: request(release.request)?,
            by: incarnation(release.by, "by")?,
            route: Route::Direct,
        })
    }
}

impl From<&AskForward> for pb::AskForward {
    fn from(forward: &AskForward) -> Self {
        Self {
            ask: Some((&forward.0).into()),
            hops: 1,
        }
    }
}

impl TryFrom<pb::AskForward> for AskForward {
    type Error = WireError;

    fn try_from(forward: pb::AskForward) -> Result<Self, WireError> {
        once(forward.hops)?;
        read::required(forward.ask, "ask").map(Self::new)
    }
}

impl From<&ReleaseForward> for pb::ReleaseForward {
    fn from(forward: &ReleaseForward) -> Self {
        Self {
            release: Some((&forward.0).into()),
            hops: 1,
        }
    }
}

impl TryFrom<pb::ReleaseForward> for ReleaseForward {
    type Error = WireError;

    fn try_from(forward: pb::ReleaseForward) -> Result<Self, WireError> {
        once(forward.hops)?;
        read::required(forward.release, "release").map(Self::new)
    }
}

impl From<&DecisionReply> for pb::Told {
    fn from(reply: &DecisionReply) -> Self {
        use pb::told::Outcome as PbOutcome;
        let outcome = match reply.outcome {
            Outcome::Admitted { by, period, hold } => PbOutcome::Admitted(pb::Admitted {
                by: by.get(),
                period: period.get(),
                hold_ns: hold.nanos(),
            }),
            Outcome::Refused {
                reason,
                retry_after,
            } => PbOutcome::Refused(refused(reason, retry_after)),
            Outcome::Moved { home } => PbOutcome::Moved(pb::HomeMoved {
                home: home.map_or(0, Incarnation::get),
            }),
        };
        Self {
            edge: Some((&reply.edge).into()),
            request: reply.request.get(),
            outcome: Some(outcome),
            left: reply.left,
        }
    }
}

impl TryFrom<pb::Told> for DecisionReply {
    type Error = WireError;

    fn try_from(reply: pb::Told) -> Result<Self, WireError> {
        use pb::told::Outcome as PbOutcome;
        let outcome = match reply.outcome {
            Some(PbOutcome::Admitted(admitted)) => Outcome::Admitted {
                by: incarnation(admitted.by, "admitted.by")?,
                period: PeriodId::new(admitted.period),
                hold: Span::from_nanos(admitted.hold_ns),
            },
            Some(PbOutcome::Refused(refused)) => {
                read_refused(refused).map_err(|error| error.within("refused"))?
            }
            Some(PbOutcome::Moved(moved)) => Outcome::Moved {
                home: (moved.home > 0).then(|| Incarnation::new(moved.home)),
            },
            None => {
                let allowed = "admitted, refused or moved";
                return Err(WireError::field("outcome", "nothing", allowed));
            }
        };
        Ok(Self {
            edge: read::required(reply.edge, "edge")?,
            request: request(reply.request)?,
            outcome,
            left: reply.left,
        })
    }
}

fn refused(reason: Reason, retry_after: Option<Span>) -> pb::Refused {
    let (word, largest) = match reason {
        Reason::Spent => (pb::Reason::Spent, 0),
        Reason::ExceedsBurst(largest) => (pb::Reason::ExceedsBurst, largest),
        Reason::NoBudget => (pb::Reason::NoBudget, 0),
        Reason::OtherKind => (pb::Reason::OtherKind, 0),
        Reason::NoLease => (pb::Reason::NoLease, 0),
        Reason::Busy => (pb::Reason::Busy, 0),
        Reason::Void => (pb::Reason::Void, 0),
    };
    pb::Refused {
        reason: word.into(),
        retry_after_ns: retry_after.map(Span::nanos),
        largest,
    }
}

fn read_refused(refused: pb::Refused) -> Result<Outcome, WireError> {
    let reason = match pb::Reason::try_from(refused.reason) {
        Ok(pb::Reason::Spent) => Reason::Spent,
        Ok(pb::Reason::ExceedsBurst) => Reason::ExceedsBurst(refused.largest),
        Ok(pb::Reason::NoBudget) => Reason::NoBudget,
        Ok(pb::Reason::OtherKind) => Reason::OtherKind,
        Ok(pb::Reason::NoLease) => Reason::NoLease,
        Ok(pb::Reason::Busy) => Reason::Busy,
        Ok(pb::Reason::Void) => Reason::Void,
        Ok(pb::Reason::Unspecified) | Err(_) => {
            let allowed = "1 (spent), 2 (exceeds burst), 3 (no budget), 4 (other kind), \
                           5 (no lease), 6 (busy) or 7 (void)";
            return Err(WireError::field("reason", refused.reason, allowed));
        }
    };
    if refused.largest > 0 && !matches!(reason, Reason::ExceedsBurst(_)) {
        let allowed = "0 unless the reason is 2 (exceeds burst)";
        return Err(WireError::field("largest", refused.largest, allowed));
    }
    Ok(Outcome::Refused {
        reason,
        retry_after: refused.retry_after_ns.map(Span::from_nanos),
    })
}

fn request(number: u64) -> Result<RequestId, WireError> {
    match number {
        0 => Err(WireError::field("request", 0, "at least 1")),
        number => Ok(RequestId::new(number)),
    }
}

fn incarnation(number: u64, field: &str) -> Result<Incarnation, WireError> {
    match number {
        0 => Err(WireError::field(field, 0, "the incarnation of a node")),
        number => Ok(Incarnation::new(number)),
    }
}

fn once(hops: u32) -> Result<(), WireError> {
    match hops {
        1 => Ok(()),
        hops => Err(WireError::field("hops", hops, "1")),
    }
}
