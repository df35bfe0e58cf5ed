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

/// A node that held parts of 600 keys is reclaimed in three slices. The next entry waits for the last of them.
#[test]
fn an_entry_in_slices_is_one_entry() {
    let draft = aliquot_core::budget::BudgetDraft {
        key: "k/*".into(),
        rate: Some("100/s".into()),
        ..Default::default()
    };
    let creator = Some(aliquot_core::unit::Incarnation::new(1));
    let commands = [
        Command::PutRule {
            request: RequestId::new(2),
            budget: draft.validate().unwrap(),
            creator: None,
        },
        Command::Instantiate {
            keys: (0..600).map(|key| format!("k/{key}")).collect(),
            creator,
        },
        Command::Round(aliquot_core::command::Changes {
            reclaims: creator.into_iter().collect(),
            ..Default::default()
        }),
    ];
    let mut entries = vec![join(1)];
    entries.extend(commands.map(|command| entry(command).unwrap()));
    entries.push(join(3));
    let mut replica = Replica::new();
    let (reply, mut outcomes) = oneshot::channel();
    let entries = (1..).zip(&entries);
    let entries = entries.map(|(index, bytes)| committed(index, bytes));
    replica.begin(entries.collect(), reply);
    let mut whole = Vec::new();
    while let Some(applied) = replica.apply_next() {
        assert!(applied.effects.len() <= 2 * State::CLOSINGS_MAX || applied.is_whole);
        whole.push(applied.is_whole);
        assert!(outcomes.try_recv().is_err());
        replica.reply_if_done();
    }
    assert_eq!(whole, [true, true, true, false, false, true, true]);
    assert_eq!(outcomes.try_recv().unwrap().unwrap().len(), 5);
}
