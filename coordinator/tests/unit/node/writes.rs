use super::super::context::tests::context;
use super::*;
use aliquot_core::unit::{Incarnation, NodeId};

fn join(request: u64) -> Command {
    Command::Join {
        node: NodeId::new(1),
        request: RequestId::new(request),
    }
}

#[test]
fn a_write_without_a_log_is_refused_at_once() {
    let mut writers = Writers::default();
    let (reply, mut written) = oneshot::channel();
    writers.write(join(1), reply, &context());
    assert_eq!(written.try_recv(), Ok(Err(ProposeError::Stopped)));
    assert!(writers.waiting.is_empty());
}

#[test]
fn all_attempts_with_one_request_learn_its_result() {
    let mut writers = Writers::default();
    let mut wait = |request: u64| {
        let (reply, written) = oneshot::channel();
        let waiting = writers.waiting.entry(RequestId::new(request));
        waiting.or_default().push(reply);
        written
    };
    let (mut first, mut retry, mut failed) = (wait(1), wait(1), wait(2));
    let effects = [Effect::Leaving(Incarnation::new(3))];
    writers.applied(Some(&join(3)), &effects);
    writers.applied(None, &effects);
    assert!(first.try_recv().is_err(), "another write was applied");
    writers.applied(Some(&join(1)), &effects);
    assert_eq!(first.try_recv(), Ok(Ok(effects.to_vec())));
    assert_eq!(retry.try_recv(), Ok(Ok(effects.to_vec())));
    writers.failed(RequestId::new(2), &ProposeError::Unknown);
    assert_eq!(failed.try_recv(), Ok(Err(ProposeError::Unknown)));
}
