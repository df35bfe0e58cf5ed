use super::*;
use aliquot_core::unit::Incarnation;

/// The release is sent by the next look, although no caller waits for an answer.
#[test]
fn a_release_that_was_not_sent_is_looked_at() {
    let mut requests = CentralRequests::new(Tick::from_nanos(7));
    assert_eq!(requests.next_look(), None);
    let node = Incarnation::new(1);
    requests.owe(Release {
        edge: Edge {
            parent: node,
            child: Incarnation::new(2),
        },
        request: RequestId::new(1),
        by: node,
        route: Route::Direct,
    });
    assert_eq!(requests.next_look(), Some(Tick::from_nanos(7)));
}
