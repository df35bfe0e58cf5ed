//! Decisions of nodes in central mode.

use super::Observer;
use crate::oracle::{Admission, Right};
use aliquot_core::central::{DecisionReply, DecisionRequest, Outcome};
use aliquot_core::share::{Kind, Share};
use aliquot_core::unit::{Edge, Tokens};

impl Observer {
    /// Takes a decision at the true time at which its node makes it, and judges it if it is an admission. `asker`
    /// is the client that asked, if its session is known. A decision that is repeated counts once. Returns true if it
    /// counts as an admission.
    pub(crate) fn decided_centrally(
        &mut self,
        now: u64,
        (ask, reply): (&DecisionRequest, &DecisionReply),
        asker: Option<usize>,
    ) -> bool {
        let Outcome::Admitted { by, period, .. } = reply.outcome else {
            return false;
        };
        let Some(checkers) = self.oracle.checkers(ask.budget) else {
            return false;
        };
        let (grains, kind) = (checkers.grains, checkers.kind);
        // A permit counts when the client learns of it.
        if !self.decided.insert((by, reply.edge, reply.request)) || kind == Kind::Concurrency {
            return false;
        }
        let admission = Admission {
            client: None,
            budget: ask.budget,
            edge: Some(Edge {
                parent: by,
                child: ask.edge.child,
            }),
            cost: Tokens::from_grains(grains.saturating_mul(ask.cost.get())),
            period,
            right: Right::Booked,
            share: Share::EMPTY,
        };
        self.oracle.admitted(now, &admission);
        self.counted_admission(now, (asker, Some(ask.budget)), ask.cost.get());
        true
    }
}
