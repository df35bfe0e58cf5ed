//! Tokens or a permit, taken from a limiter that may have to wait for a node.

use crate::limiter::decision::Decision;
use crate::limiter::permit::Permit;
use crate::limiter::refused::Admission;
use crate::limiter::{Limiter, Reservation};
use std::sync::Arc;
use std::time::Duration;

/// Is called with each admission.
pub(super) type Hook = Arc<dyn Fn(&Limiter, &Admission) + Send + Sync>;

/// Tokens, which stay taken, or a permit, which is held.
pub(super) enum Acquired {
    Tokens(Reservation),
    Permit(Permit),
}

impl Acquired {
    pub(super) const fn admission(&self) -> Admission {
        match self {
            Self::Tokens(reservation) => reservation.admission(),
            Self::Permit(permit) => Admission {
                tokens: 1,
                asked_at: permit.asked_at(),
                decided_at: permit.decided_at(),
                period: 0,
            },
        }
    }

    /// Returns the permits to hold until the response has been sent.
    pub(super) fn permits(self) -> Vec<Permit> {
        match self {
            Self::Tokens(_) => Vec::new(),
            Self::Permit(permit) => vec![permit],
        }
    }

    /// Puts back what was taken.
    pub(super) fn put_back(self) {
        match self {
            Self::Tokens(reservation) => drop(reservation.settle(0)),
            Self::Permit(permit) => drop(permit),
        }
    }
}

/// Takes `n` tokens, or one permit if the limiter counts permits. Asks a node if they are not held here.
pub(super) async fn take(limiter: &Limiter, n: u64) -> Decision<Acquired> {
    if !limiter.counts_permits() {
        let decision = limiter.decide_to_settle_within(n, Duration::MAX).await;
        // The kind of a leased limit is known only once a node has told it. Tokens of a limit of permits are refused,
        // as of the wrong kind or as too many.
        if decision.outcome.is_ok() || !limiter.counts_permits() {
            return decision.map(Acquired::Tokens);
        }
    }
    let decision = limiter.decide_permit_within(Duration::MAX).await;
    decision.map(Acquired::Permit)
}
