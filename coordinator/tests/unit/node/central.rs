use super::super::context::tests::context;
use super::*;
use aliquot_core::central::RetryPolicy;
use aliquot_core::share::Kind;
use aliquot_core::unit::{BudgetId, Edge, RequestId};
use std::num::NonZeroU64;

#[test]
fn a_request_beyond_those_that_are_being_forwarded_is_refused_as_busy() {
    let mut central = Central::default();
    let mut rooms: Vec<_> = (0..FORWARDED_MAX).map(|_| central.room()).collect();
    assert!(rooms.iter().all(Option::is_some));
    let ask = DecisionRequest {
        edge: Edge::default(),
        request: RequestId::new(1),
        budget: BudgetId::new(1),
        kind: Kind::Rate,
        cost: NonZeroU64::MIN,
        retry_policy: RetryPolicy::Once,
        route: Route::Direct,
    };
    let reason = |central: &mut Central| {
        let decided = central.pass_on(Incarnation::new(2), ask, &State::new(), &context());
        match decided?.outcome {
            Outcome::Refused { reason, .. } => Some(reason),
            _ => None,
        }
    };
    assert_eq!(reason(&mut central), Some(Reason::Busy));
    rooms.pop();
    assert_eq!(reason(&mut central), Some(Reason::NoLease), "no such node");
}
