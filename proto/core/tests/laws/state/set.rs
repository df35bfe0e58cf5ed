//! Sets of rules beside the same rules one by one.

use super::log::{Op, written};
use aliquot_core::command::Command;
use aliquot_core::state::{Effect, Snapshot, State};
use aliquot_core::unit::RequestId;
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

/// Returns the commands that do one after the other what a set does at once.
fn parts_of_a_set(entry: &Command) -> Option<Vec<Command>> {
    let Command::Apply {
        deletes,
        puts,
        creator,
        ..
    } = entry
    else {
        return None;
    };
    let mut request = (1_000_000..).map(RequestId::new);
    let deleted = deletes.iter().zip(request.by_ref());
    let mut parts: Vec<Command> = deleted
        .map(|(&rule, request)| Command::DeleteRule { request, rule })
        .collect();
    let put = puts.iter().cloned().zip(request);
    parts.extend(put.map(|(budget, request)| Command::PutRule {
        request,
        budget,
        creator: *creator,
    }));
    Some(parts)
}

/// Returns the content of a state, without its index and its remembered requests.
fn substance(state: &State) -> Snapshot {
    Snapshot {
        applied: 0,
        requests: Vec::new(),
        ..super::unnumbered(state)
    }
}

/// A set of rules has the effect of its rules one by one, or none at all.
pub(crate) fn a_set_is_its_rules_or_nothing(ops: &[Op]) -> TestCaseResult {
    let mut state = State::new();
    for (index, entry) in (1..).zip(&written(ops)) {
        let mut pieces = state.clone();
        let effects = state.apply(index, entry.as_ref());
        let Some(parts) = entry.as_ref().and_then(parts_of_a_set) else {
            continue;
        };
        if let [Effect::SetRefused(..) | Effect::Repeated(_)] = effects[..] {
            prop_assert_eq!(substance(&pieces), substance(&state));
            continue;
        }
        let mut done = Vec::new();
        for (index, part) in (index..).zip(&parts) {
            done.extend(pieces.apply(index, Some(part)));
        }
        prop_assert_eq!(done, effects);
        prop_assert_eq!(substance(&pieces), substance(&state));
    }
    Ok(())
}
