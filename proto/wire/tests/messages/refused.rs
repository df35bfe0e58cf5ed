//! An error names the field, its value and the allowed values.

use aliquot_core::command::Command;
use aliquot_core::message::{Answer, Report};
use aliquot_core::state::Snapshot;
use aliquot_wire::limits::{LINES_MAX, MESSAGE_BYTES_MAX, PAGE_MAX};
use aliquot_wire::{Wire, WireError, admin, gossip, pb, session};
use bytes::Bytes;
use prost::Message;
use std::fmt::Debug;

#[track_caller]
fn check<T: Wire + Debug>(message: T::Message, expect: &str) {
    let error = T::from_bytes(message.encode_to_vec().into()).unwrap_err();
    assert_eq!(error.to_string(), expect);
}

fn report(lines: Vec<pb::ReportLine>) -> pb::Report {
    pb::Report {
        edge: Some(pb::Edge::default()),
        intent: pb::Intent::Stay.into(),
        lines,
        ..pb::Report::default()
    }
}

fn demand(band: u32, segments: &[(u64, u64)]) -> pb::Report {
    let segments = segments.iter();
    let segments = segments.map(|&(demand, weight)| pb::Segment { demand, weight });
    let curve = pb::DemandCurve {
        segments: segments.collect(),
    };
    let demand = pb::BandDemand {
        band,
        curve: Some(curve),
    };
    report(vec![
        pb::ReportLine::default(),
        pb::ReportLine {
            demand: vec![demand],
            ..pb::ReportLine::default()
        },
    ])
}

fn terms(change: impl FnOnce(&mut pb::Terms)) -> pb::Answer {
    let mut terms = pb::Terms {
        kind: pb::Kind::Rate.into(),
        grains_per_token: 1,
        on_lease_expiry: pb::OnLeaseExpiry::Deny.into(),
        policy: pb::Policy::MaxMin.into(),
        headroom: pb::Headroom::Kept.into(),
        ..pb::Terms::default()
    };
    change(&mut terms);
    pb::Answer {
        edge: Some(pb::Edge::default()),
        number: Some(pb::Heard::default()),
        verdict: pb::Verdict::Open.into(),
        lines: vec![pb::AnswerLine {
            terms: Some(terms),
            ..pb::AnswerLine::default()
        }],
        ..pb::Answer::default()
    }
}

#[test]
fn a_report_is_refused_by_the_field_that_is_wrong() {
    check::<Report>(
        pb::Report::default(),
        "Report.edge = nothing: must be given",
    );
    let mut unknown = report(Vec::new());
    unknown.intent = 7;
    check::<Report>(unknown, "Report.intent = 7: must be 1 (stay) or 2 (leave)");
    check::<Report>(
        demand(10, &[]),
        "Report.lines[1].demand[0].band = 10: must be 0 to 9",
    );
    check::<Report>(
        demand(9, &[(1, 1), (5, 0)]),
        "Report.lines[1].demand[0].curve.segments[1].weight = 0: must be at least 1",
    );
    check::<Report>(
        demand(9, &[(5, 1), (3, 1)]),
        "Report.lines[1].demand[0].curve.segments[0] = 5 by weight 1: \
         must be before the next, 3 by weight 1",
    );
    check::<Report>(
        demand(9, &[(u64::MAX, 2), (u64::MAX, 1)]),
        "Report.lines[1].demand[0].curve.segments = a curve's sums are out of range: \
         must be such that demands and weights each add up within 64 bits",
    );
}

#[test]
fn an_answer_is_refused_by_the_term_that_is_wrong() {
    check::<Answer>(
        terms(|terms| terms.grains_per_token = 0),
        "Answer.lines[0].terms.grains_per_token = 0: must be 1 to 72057594037927936",
    );
    check::<Answer>(
        terms(|terms| terms.kind = 0),
        "Answer.lines[0].terms.kind = 0: must be 1 (rate), 2 (quota) or 3 (concurrency)",
    );
    check::<Answer>(
        terms(|terms| terms.policy = 5),
        "Answer.lines[0].terms.policy = 5: \
         must be 1 (max-min), 2 (static), 3 (equal) or 4 (proportional)",
    );
    check::<Answer>(
        terms(|terms| terms.on_lease_expiry = pb::OnLeaseExpiry::Local.into()),
        "Answer.lines[0].terms.local = nothing: must be given with the choice 4 (local)",
    );
    check::<Answer>(
        terms(|terms| terms.local = Some(pb::Share::default())),
        "Answer.lines[0].terms.local = 0/0/0: must be left out without the choice 4 (local)",
    );
}

#[test]
fn a_kind_that_is_not_known_here_is_refused() {
    check::<session::ClientMessage>(
        pb::ClientMessage { kind: None },
        "ClientMessage.kind = nothing: must be a kind that is known here: \
         open, intern, report, ask or release",
    );
    check::<Command>(
        pb::Command { kind: None },
        "Command.kind = nothing: must be a kind of command that is known here",
    );
}

#[test]
fn a_budget_is_refused_by_its_own_field() {
    let text = |text: &str| pb::Written {
        value: Some(pb::written::Value::Text(text.into())),
    };
    let draft = pb::BudgetDraft {
        key: "a/b".into(),
        rate: Some(text("10/s")),
        burst: Some(text("-3")),
        ..pb::BudgetDraft::default()
    };
    let put = pb::PutRule {
        budget: Some(pb::Budget {
            draft: Some(draft),
            grains_per_token: 1 << 20,
        }),
        ..pb::PutRule::default()
    };
    check::<Command>(
        pb::Command {
            kind: Some(pb::command::Kind::PutRule(put)),
        },
        "Command.put_rule.budget.draft.burst = -3: \
         must be a whole number from 0 to 72057594037927936",
    );
}

#[test]
fn keys_labels_and_requests_are_refused_where_they_stand() {
    let open = |labels: &[&str], keys: &[&str]| pb::ClientMessage {
        kind: Some(pb::client_message::Kind::Open(pb::SessionOpen {
            resume: None,
            wants_members: false,
            labels: labels
                .iter()
                .map(|&name| pb::Label {
                    name: name.into(),
                    value: String::new(),
                })
                .collect(),
            keys: keys.iter().map(|&key| key.into()).collect(),
            former: Vec::new(),
            age_ns: None,
        })),
    };
    check::<session::ClientMessage>(
        open(&[], &["a", "b//c"]),
        "ClientMessage.open.keys[1] = \"b//c\": \
         must be a key, which must have no empty segment (segment 2 is)",
    );
    check::<session::ClientMessage>(
        open(&["a", "b", "a"], &[]),
        "ClientMessage.open.labels[2].name = a: must be a name that no other label has",
    );
    let addresses = vec!["a:1".to_owned(), String::new()];
    let members = pb::node_message::Kind::Members(pb::Members { addresses });
    check::<session::NodeMessage>(
        pb::NodeMessage {
            kind: Some(members),
        },
        "NodeMessage.members.addresses[1] = nothing: must be an address",
    );
    check::<admin::ListBudgets>(
        pb::ListBudgetsRequest::default(),
        "ListBudgetsRequest.limit = 0: must be 1 to 1024",
    );
    check::<admin::ApplyBudgets>(
        pb::ApplyBudgetsRequest::default(),
        "ApplyBudgetsRequest.request = 0: must be at least 1",
    );
}

#[test]
fn a_snapshot_that_contradicts_itself_is_refused() {
    let member = |life| pb::Member {
        life,
        node: 1,
        phase: pb::Phase::Live.into(),
        silence: None,
    };
    let snapshot = pb::Snapshot {
        members: vec![member(3), member(3)],
        ..pb::Snapshot::default()
    };
    check::<Snapshot>(snapshot, "Snapshot.members[1] = 3: must be greater than 3");
}

/// Encodes, after the elements, a field that no decoder accepts: an edge that is a number.
/// The error is about the number of elements, so nothing was decoded.
#[test]
fn too_many_elements_are_refused_before_they_are_decoded() {
    let mut bytes = [0x32, 0x00].repeat(LINES_MAX + 1);
    bytes.extend([0x08, 0x01]);
    let bytes = Bytes::from(bytes);
    let expect = "Report.lines = 16385 elements: must be at most 16384";
    let error = Report::from_bytes(bytes.clone()).unwrap_err();
    assert_eq!(error.to_string(), expect);
    let message = pb::ClientMessage {
        kind: Some(pb::client_message::Kind::Report(bytes)),
    };
    check::<session::ClientMessage>(message, &format!("ClientMessage.report.{expect}"));
}

#[test]
fn too_many_elements_are_refused() {
    let drafts = vec![pb::BudgetDraft::default(); PAGE_MAX + 1];
    let apply = pb::ApplyBudgetsRequest {
        request: 1,
        mode: pb::Mode::Commit.into(),
        budgets: drafts,
    };
    check::<admin::ApplyBudgets>(
        apply,
        "ApplyBudgetsRequest.budgets = 1025 elements: must be at most 1024",
    );
}

#[test]
fn too_many_bytes_are_refused_unread() {
    let bytes = Bytes::from(vec![0xff; MESSAGE_BYTES_MAX + 1]);
    let refused = |message| WireError::TooLarge {
        message,
        bytes: MESSAGE_BYTES_MAX + 1,
        most: MESSAGE_BYTES_MAX,
    };
    assert_eq!(Report::from_bytes(bytes.clone()), Err(refused("Report")));
    let gossip = gossip::GossipMessage::from_bytes(bytes);
    assert_eq!(gossip, Err(refused("GossipMessage")));
}

#[test]
fn bytes_that_are_no_message_are_named() {
    let error = Report::from_bytes(Bytes::from_static(b"\x0a\x05")).unwrap_err();
    assert!(error.to_string().starts_with("no Report: "), "{error}");
}
