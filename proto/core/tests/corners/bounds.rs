//! Behaviour at a bound, and one beyond it.

use super::setup::*;
use aliquot_core::holder::Holder;
use aliquot_core::message::FloorRelease;
use aliquot_core::share::Share;
use aliquot_core::state::Effect;
use std::collections::BTreeMap;

/// Requests are remembered in the order in which they were carried out. A retry of a remembered request does
/// nothing. One request above the bound, the oldest is forgotten, and would be carried out again.
#[test]
fn a_retry_is_known_until_as_many_other_requests_as_the_bound_came_after_it() {
    let mut state = State::new();
    let mut put = |request: u64, rate: &str| {
        let budget = budget(|draft| draft.rate = Some(rate.into()));
        let command = Command::PutRule {
            request: RequestId::new(request),
            budget,
            creator: None,
        };
        let effects = state.apply(state.applied() + 1, Some(&command));
        effects.contains(&Effect::Repeated(RequestId::new(request)))
    };
    assert!(!put(1, "1/s"));
    for request in 2..=State::REQUESTS_MAX as u64 {
        assert!(!put(request, "2/s"));
    }
    assert!(put(1, "1/s"), "as many as are remembered");
    assert!(!put(1_000_000, "2/s"), "the first is forgotten by this");
    assert!(!put(1, "1/s"), "one more than are remembered");
}

/// A floor release without room in the report is not lost: the floor ends at its parent after its time.
#[test]
fn a_report_says_ten_thousand_floor_releases_and_leaves_out_what_is_beyond() {
    let mut holder = Holder::new(edge(0, 1));
    for client in 1..=10_001 {
        holder.release_floor(FloorRelease {
            budget: B,
            former: edge(2, client),
            floor: Share::EMPTY,
        });
    }
    let report = holder.report(at(0), DAWN, BTreeMap::new());
    let report = report.expect("the edge is open");
    assert_eq!(report.floors.len(), 10_000);
    assert!(
        report
            .floors
            .iter()
            .all(|floor| floor.former != edge(2, 10_001))
    );
}
