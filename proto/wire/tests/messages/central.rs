//! Requests and replies of central decisions: read as written, refused by field.

use crate::strategies as any;
use aliquot_core::central::{
    DecisionReply, DecisionRequest, Outcome, Reason, Release, RetryPolicy, Route,
};
use aliquot_core::share::Kind;
use aliquot_core::unit::{BudgetId, Edge, Incarnation, PeriodId, RequestId, Span};
use aliquot_wire::central::{AskForward, ReleaseForward};
use aliquot_wire::session::{ClientMessage, NodeMessage};
use aliquot_wire::{Wire, pb};
use proptest::option;
use proptest::prelude::*;
use prost::Message;
use std::fmt::Debug;
use std::num::NonZeroU64;

fn same<T: Wire + PartialEq + Debug>(value: &T) {
    let bytes = value.to_bytes();
    let read = T::from_bytes(bytes.clone());
    assert_eq!(read.as_ref(), Ok(value));
    assert_eq!(read.unwrap().to_bytes(), bytes);
}

#[track_caller]
fn refused<T: Wire + Debug>(message: T::Message, expect: &str) {
    let error = T::from_bytes(message.encode_to_vec().into()).unwrap_err();
    assert_eq!(error.to_string(), expect);
}

fn request() -> impl Strategy<Value = RequestId> {
    (1..=u64::MAX).prop_map(RequestId::new)
}

fn incarnation() -> impl Strategy<Value = Incarnation> {
    (1..=u64::MAX).prop_map(Incarnation::new)
}

fn span() -> impl Strategy<Value = Span> {
    any::<u64>().prop_map(Span::from_nanos)
}

fn ask() -> impl Strategy<Value = DecisionRequest> {
    let kinds = vec![Kind::Rate, Kind::Quota, Kind::Concurrency];
    let manners = vec![RetryPolicy::Once, RetryPolicy::Waits];
    (
        any::edge(),
        request(),
        any::<u64>().prop_map(BudgetId::new),
        prop::sample::select(kinds),
        any::<NonZeroU64>(),
        prop::sample::select(manners),
    )
        .prop_map(
            |(edge, request, budget, kind, cost, retry_policy)| DecisionRequest {
                edge,
                request,
                budget,
                kind,
                cost,
                retry_policy,
                route: Route::Direct,
            },
        )
}

fn outcome() -> impl Strategy<Value = Outcome> {
    let reasons = prop_oneof![
        any::<u64>().prop_map(Reason::ExceedsBurst),
        prop::sample::select(vec![
            Reason::Spent,
            Reason::NoBudget,
            Reason::OtherKind,
            Reason::NoLease,
            Reason::Busy,
            Reason::Void,
        ]),
    ];
    prop_oneof![
        (incarnation(), any::<u64>(), span()).prop_map(|(by, period, hold)| Outcome::Admitted {
            by,
            period: PeriodId::new(period),
            hold,
        }),
        (reasons, option::of(span())).prop_map(|(reason, after)| Outcome::refused(reason, after)),
        option::of(incarnation()).prop_map(|home| Outcome::Moved { home }),
    ]
}

proptest! {
    #[test]
    fn a_question_is_read_as_it_was_written(ask in ask(), by in incarnation()) {
        same(&ClientMessage::DecisionRequest(ask));
        let forward = AskForward::new(ask);
        prop_assert_eq!(forward.ask().route, Route::Forwarded);
        same(&forward);
        let release = Release { edge: ask.edge, request: ask.request, by, route: Route::Direct };
        same(&ClientMessage::Release(release));
        let forward = ReleaseForward::new(release);
        prop_assert_eq!(forward.release().route, Route::Forwarded);
        same(&forward);
    }

    #[test]
    fn a_verdict_is_read_as_it_was_written(
        edge in any::edge(), request in request(), outcome in outcome(), left in option::of(any::number()),
    ) {
        let told = DecisionReply { edge, request, outcome, left };
        same(&told);
        same(&NodeMessage::DecisionReply(told));
    }
}

fn question() -> pb::Ask {
    pb::Ask {
        edge: Some((&Edge::default()).into()),
        request: 1,
        budget: 1,
        kind: pb::Kind::Rate.into(),
        cost: 1,
        manner: pb::Manner::Once.into(),
    }
}

#[test]
fn a_question_is_refused_by_the_field_that_is_wrong() {
    let check = |change: fn(&mut pb::Ask), expect: &str| {
        let mut ask = question();
        change(&mut ask);
        let forward = pb::AskForward {
            ask: Some(ask),
            hops: 1,
        };
        refused::<AskForward>(forward, &format!("AskForward.ask.{expect}"));
        let kind = pb::client_message::Kind::Ask(ask);
        let message = pb::ClientMessage { kind: Some(kind) };
        refused::<ClientMessage>(message, &format!("ClientMessage.ask.{expect}"));
    };
    check(|ask| ask.edge = None, "edge = nothing: must be given");
    check(|ask| ask.request = 0, "request = 0: must be at least 1");
    check(|ask| ask.cost = 0, "cost = 0: must be at least 1");
    check(
        |ask| ask.kind = 9,
        "kind = 9: must be 1 (rate), 2 (quota) or 3 (concurrency)",
    );
    check(
        |ask| ask.manner = 0,
        "manner = 0: must be 1 (once) or 2 (waits)",
    );
}

#[test]
fn nothing_is_passed_on_but_once() {
    for hops in [0, 2] {
        let expect = format!("hops = {hops}: must be 1");
        let ask = Some(question());
        refused::<AskForward>(
            pb::AskForward { ask, hops },
            &format!("AskForward.{expect}"),
        );
        let release = Some(pb::PermitRelease::default());
        let forward = pb::ReleaseForward { release, hops };
        refused::<ReleaseForward>(forward, &format!("ReleaseForward.{expect}"));
    }
}

#[test]
fn a_verdict_is_refused_by_the_field_that_is_wrong() {
    let told = |outcome| pb::Told {
        edge: Some(pb::Edge::default()),
        request: 1,
        outcome,
        left: None,
    };
    refused::<DecisionReply>(
        told(None),
        "Told.outcome = nothing: must be admitted, refused or moved",
    );
    let admitted = pb::told::Outcome::Admitted(pb::Admitted::default());
    refused::<DecisionReply>(
        told(Some(admitted)),
        "Told.admitted.by = 0: must be the incarnation of a node",
    );
    let no = |reason, largest| {
        told(Some(pb::told::Outcome::Refused(pb::Refused {
            reason,
            retry_after_ns: None,
            largest,
        })))
    };
    refused::<DecisionReply>(
        no(8, 0),
        "Told.refused.reason = 8: must be 1 (spent), 2 (exceeds burst), 3 (no budget), \
         4 (other kind), 5 (no lease), 6 (busy) or 7 (void)",
    );
    refused::<DecisionReply>(
        no(1, 5),
        "Told.refused.largest = 5: must be 0 unless the reason is 2 (exceeds burst)",
    );
}
