use super::super::context::tests::{context, pass};
use super::super::presence::tests::{announce, join};
use super::*;
use aliquot_core::unit::Incarnation;

#[test]
fn members_are_listed_until_they_are_removed_even_if_they_show_no_address() {
    let (mut context, mut state) = (context(), State::new());
    let mut book = Book::new(Incarnation::default());
    let mut members = MemberAddresses::default();
    let own = context.options.address.clone();
    let own_id = context.options.node.get();
    for node in [own_id, 2, 3] {
        let peer = format!("peer-{node}");
        context.status.voters.insert(node, peer);
    }
    let check = |members: &MemberAddresses, expect: &[&str]| {
        let mut expect = [expect, &[own.as_str()]].concat();
        expect.sort_unstable();
        assert_eq!(members.list(), expect);
    };
    assert!(members.refresh(&book, &state, &context));
    check(&members, &[]);
    let [second, third] = [2, 3].map(|node| join(&mut state, node));
    // A node that is not a member of the log's cluster any more.
    let removed = join(&mut state, 4);
    announce(&mut book, second, 1, "b");
    announce(&mut book, third, 1, "c");
    announce(&mut book, removed, 1, "d");
    assert!(members.refresh(&book, &state, &context), "at once");
    check(&members, &["b", "c"]);
    pass(&mut context, REFRESH);
    assert!(!members.refresh(&book, &state, &context), "nothing is new");
    announce(&mut book, third, 2, "");
    pass(&mut context, REFRESH);
    assert!(
        !members.refresh(&book, &state, &context),
        "without a lease, it is still a member"
    );
    // A member that comes back at another address.
    let again = join(&mut state, 2);
    announce(&mut book, again, 1, "e");
    assert!(
        !members.refresh(&book, &state, &context),
        "it is not due: an address of each is known"
    );
    pass(&mut context, REFRESH);
    assert!(members.refresh(&book, &state, &context));
    check(&members, &["c", "e"]);
    context.status.voters.remove(&3);
    pass(&mut context, REFRESH);
    assert!(members.refresh(&book, &state, &context));
    check(&members, &["e"]);
}
