use super::super::context::tests::{context, joined, pass};
use super::*;

const EVERY: Span = Span::from_millis(250);

/// Returns the time in milliseconds until the next report.
fn wait(reporting: &mut Reporting, node: &mut Node, context: &mut Context) -> u64 {
    for ms in 0..1_000 {
        if reporting.next(node, EVERY, context).is_some() {
            return ms;
        }
        pass(context, Span::from_millis(1));
    }
    panic!("no report in a second");
}

#[test]
fn an_urgent_report_waits_a_millisecond_and_one_without_a_lease_a_tenth_of_a_second() {
    let mut context = context();
    let (state, incarnation) = joined();
    let mut node = Node::new(incarnation, state.drift());
    let mut reporting = Reporting::new(context.now);
    assert_eq!(reporting.urgent_at(), Some(context.now.after(URGENT)));
    assert_eq!(wait(&mut reporting, &mut node, &mut context), 1);
    assert_eq!(reporting.urgent_at(), None);
    assert_eq!(wait(&mut reporting, &mut node, &mut context), 100);
    reporting.urge();
    assert_eq!(wait(&mut reporting, &mut node, &mut context), 1);
}
