use super::super::context::entry;
use super::*;
use aliquot_core::unit::{NodeId, RequestId};

fn committed(index: u64, command: &[u8]) -> Committed {
    Committed {
        index,
        term: 1,
        command: Some(Bytes::copy_from_slice(command)),
    }
}

fn join(request: u64) -> Bytes {
    let command = Command::Join {
        node: NodeId::new(1),
        request: RequestId::new(request),
    };
    entry(command).unwrap()
}

#[test]
fn the_reply_follows_the_last_entry() {
    let mut replica = Replica::new();
    let (reply, mut outcomes) = oneshot::channel();
    let entries = vec![committed(1, &join(1)), committed(2, &join(2))];
    replica.begin(entries, reply);
    for index in 1..=2 {
        assert!(replica.is_applying() && outcomes.try_recv().is_err());
        assert!(replica.apply_next().is_some());
        assert_eq!(replica.state().applied(), index);
        replica.reply_if_done();
    }
    assert!(!replica.is_applying());
    assert_eq!(outcomes.try_recv().unwrap().unwrap().len(), 2);
}

#[test]
fn nothing_is_applied_after_an_entry_that_cannot_be_read() {
    let mut replica = Replica::new();
    let (reply, mut outcomes) = oneshot::channel();
    let entries = vec![
        committed(1, &join(1)),
        committed(2, b"\xff"),
        committed(3, &join(3)),
    ];
    replica.begin(entries, reply);
    assert!(replica.apply_next().is_some());
    assert!(replica.apply_next().is_none() && !replica.is_applying());
    assert!(replica.apply_next().is_none());
    let halted = outcomes.try_recv().unwrap().unwrap_err();
    assert!(matches!(
        halted,
        MachineError::Halted(Halt::Entry { entry, .. }) if entry.index == 2
    ));
    assert_eq!(replica.state().applied(), 1);
}
