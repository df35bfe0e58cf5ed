//! Laws of changing nodes: nothing is used beside what is held (invariant 2), nothing is left before there is
//! a replacement, and no client stays at a node that gives nothing (invariant 8).
#![expect(
    clippy::unwrap_used,
    reason = "the helpers of a test may panic as the test may"
)]

mod shell;

use super::catch;
use aliquot_core::message::Intent;
use aliquot_core::node_selection::{DialReason, Held, NodeSelection, Phase, Times, closing_report};
use aliquot_core::planted::Bug;
use aliquot_core::unit::{Edge, Incarnation, Seq, Span, Tick};
use catch::{catches, config};
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use shell::{Client, NODES, OPEN_WAIT, Via, Word, any_story};
use std::collections::BTreeSet;

fn whatever_comes_one_edge_is_in_use_and_each_attempt_ends_once(
    story: &[(u64, Word)],
) -> TestCaseResult {
    Client::live(story).map(drop)
}

/// A client that receives nothing any more has switched when its lease is over, or as soon as another node
/// opens.
fn who_hears_nothing_is_elsewhere_in_time(story: &[(u64, Word)]) -> TestCaseResult {
    let mut client = Client::live(story)?;
    let (edge, incarnations) = (client.edge, client.incarnations);
    let rest = client.until.since(client.now).nanos() / 1_000_000;
    // A second of silence, the longest pause after failures, handing back, and some steps.
    let most = rest.max(1_000) + 1_000 + 200 + 300;
    client.pass(most, |client| match client.selection.attempt() {
        Some(attempt) if attempt.opened.is_none() => Word::Opens,
        _ => Word::Nothing,
    })?;
    prop_assert!(client.incarnations > incarnations || client.edge != edge);
    prop_assert!(client.selection.link().is_some());
    Ok(())
}

/// A client that hears its node again before its lease is over stays, and ends all attempts.
fn who_hears_its_node_again_stays(story: &[(u64, Word)]) -> TestCaseResult {
    let mut client = Client::live(story)?;
    let wished = |client: &Client| {
        let reason = client.selection.attempt().map(|attempt| attempt.reason);
        client.moves_at.is_some() || reason == Some(DialReason::Redirect)
    };
    if client.node().is_none() || !client.is_leased() || wished(&client) {
        return Ok(());
    }
    let (edge, ends) = (client.edge, client.until);
    client.pass(OPEN_WAIT.nanos() / 1_000_000 + 300, |client| {
        let after = ends.since(client.now).nanos() / 1_000_000;
        Word::Renews(after + 1_000)
    })?;
    // An earlier order to move may have come due.
    if !wished(&client) {
        prop_assert_eq!(client.edge, edge);
        prop_assert!(client.selection.attempt().is_none());
    }
    Ok(())
}

/// If no node opens, all nodes are tried, with pauses that grow to a second.
fn where_all_are_dead_all_are_tried(story: &[(u64, Word)]) -> TestCaseResult {
    let mut client = Client::live(story)?;
    client.pass(10_000, |_| Word::Nothing)?;
    let before = client.dials.len();
    client.pass(60_000, |_| Word::Nothing)?;
    let dialled = &client.dials[before..];
    let nodes: BTreeSet<u8> = dialled.iter().copied().collect();
    prop_assert_eq!(nodes.len(), NODES.len(), "{:?}", dialled);
    // Each takes half a second to be given up, and a second's pause.
    prop_assert!((35..=80).contains(&dialled.len()), "{}", dialled.len());
    Ok(())
}

/// After any story, the client serves at a node that renews its lease, and has no attempt.
fn at_rest(story: &[(u64, Word)]) -> Result<Client, TestCaseError> {
    let mut client = Client::live(story)?;
    client.stale = None;
    // The longest lease, under which the client does not switch, a pause, handing back, and some steps.
    client.pass(4_000, opens_and_renews)?;
    prop_assert!(client.is_leased() && client.selection.attempt().is_none());
    Ok(client)
}

fn opens_and_renews(client: &Client) -> Word {
    match client.selection.attempt() {
        Some(attempt) if attempt.opened.is_none() => Word::Opens,
        _ => Word::Renews(2_000),
    }
}

/// A client that wants another session of its node has one from then on, and uses what it holds until the new
/// one is open.
fn who_wants_another_session_of_its_node_has_it(
    story: &[(u64, Word)],
    from_ms: u64,
) -> TestCaseResult {
    let mut client = at_rest(story)?;
    let (edge, node, dials) = (client.edge, client.node(), client.dials.len());
    client.hear(Word::Anew(from_ms));
    client.pass(from_ms.saturating_sub(1), opens_and_renews)?;
    prop_assert_eq!(
        (client.edge, client.dials.len()),
        (edge, dials),
        "too early"
    );
    client.pass(400, |client| match client.selection.attempt() {
        Some(attempt) => {
            assert_eq!(
                (attempt.reason, Some(attempt.link.0)),
                (DialReason::Redirect, client.node())
            );
            assert!(client.is_leased(), "what is held is used meanwhile");
            opens_and_renews(client)
        }
        None => Word::Renews(2_000),
    })?;
    prop_assert_eq!(client.node(), node);
    prop_assert_ne!(client.edge, edge);
    prop_assert_eq!(client.dials.len(), dials + 1);
    prop_assert!(client.is_leased() && client.selection.attempt().is_none());
    Ok(())
}

/// A client that is to move, and also wants another session of its node, moves and stays there.
fn an_order_comes_before_another_session(
    story: &[(u64, Word)],
    away: u8,
    [order, anew]: [u64; 2],
) -> TestCaseResult {
    let mut client = at_rest(story)?;
    let node = client.node().map(|node| (node + away) % 3);
    let dials = client.dials.len();
    client.hear(Word::Anew(order + anew));
    client.look()?;
    client.hear(Word::Redirects(node.unwrap(), order));
    client.pass(3_000, opens_and_renews)?;
    prop_assert_eq!((client.node(), client.dials.len()), (node, dials + 1));
    Ok(())
}

/// A client that gets no other session keeps the one that it has, and asks with pauses that grow to a second.
fn who_is_not_given_another_session_keeps_its_own(story: &[(u64, Word)]) -> TestCaseResult {
    let mut client = at_rest(story)?;
    let edge = client.edge;
    client.hear(Word::Anew(0));
    // Not at the first step.
    let fails = |client: &Client| match client.selection.attempt() {
        Some(_) if (client.now.nanos() / 50_000_000).is_multiple_of(2) => Word::Fails,
        _ => Word::Renews(2_000),
    };
    client.pass(5_000, fails)?;
    let dials = client.dials.len();
    client.pass(5_000, fails)?;
    prop_assert!(client.is_leased());
    prop_assert_eq!(client.edge, edge);
    let dialled = client.dials.len() - dials;
    prop_assert!((4..=5).contains(&dialled), "{}", dialled);
    Ok(())
}

/// A client whose node is gone has switched when its lease is over, or by the longest pause later, even if it
/// wants another session of that node.
fn who_wants_another_session_of_a_node_that_is_gone_is_elsewhere_in_time(
    story: &[(u64, Word)],
    from_ms: u64,
) -> TestCaseResult {
    let mut client = at_rest(story)?;
    let node = client.node();
    let rest = client.until.since(client.now).nanos() / 1_000_000;
    client.hear(Word::Anew(from_ms));
    client.pass(rest + 1_000 + 50, |client| {
        match client.selection.attempt() {
            Some(attempt) if Some(attempt.link.0) != node => Word::Opens,
            _ => Word::Nothing,
        }
    })?;
    prop_assert_ne!(client.node(), node);
    Ok(())
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn one_edge_at_a_time(story in any_story()) {
        whatever_comes_one_edge_is_in_use_and_each_attempt_ends_once(&story)?;
    }

    #[test]
    fn silence_ends_elsewhere(story in any_story()) {
        who_hears_nothing_is_elsewhere_in_time(&story)?;
    }

    #[test]
    fn doubts_end(story in any_story()) {
        who_hears_its_node_again_stays(&story)?;
    }

    #[test]
    fn no_node_is_forgotten(story in any_story()) {
        where_all_are_dead_all_are_tried(&story)?;
    }

    #[test]
    fn sessions_are_renewed(story in any_story(), from_ms in 0..300_u64) {
        who_wants_another_session_of_its_node_has_it(&story, from_ms)?;
    }

    #[test]
    fn orders_come_first(story in any_story(), away in 1..3_u8, ms in [0..300_u64, 1..300_u64]) {
        an_order_comes_before_another_session(&story, away, ms)?;
    }

    #[test]
    fn sessions_of_the_dead_are_not_waited_for(story in any_story(), from_ms in 0..1_500_u64) {
        who_wants_another_session_of_a_node_that_is_gone_is_elsewhere_in_time(&story, from_ms)?;
    }

    #[test]
    fn sessions_are_kept(story in any_story()) {
        who_is_not_given_another_session_keeps_its_own(&story)?;
    }
}

#[test]
fn going_over_under_a_lease_is_noticed() {
    catches(Bug::BothPartsUsed, any_story(), |story| {
        whatever_comes_one_edge_is_in_use_and_each_attempt_ends_once(&story)
    });
}

#[test]
fn taking_silence_for_death_is_noticed() {
    catches(Bug::SilenceIsDeath, any_story(), |story| {
        whatever_comes_one_edge_is_in_use_and_each_attempt_ends_once(&story)
    });
}

#[test]
fn a_closing_report_to_the_edge_in_use_is_noticed() {
    catches(Bug::ClosingReportToOneInUse, any_story(), |story| {
        whatever_comes_one_edge_is_in_use_and_each_attempt_ends_once(&story)
    });
}

#[test]
fn a_closing_report_is_the_first_of_its_edge_and_leaves() {
    let edge = Edge {
        parent: Incarnation::new(7),
        child: Incarnation::new(1),
    };
    let report = closing_report(edge, None, Tick::from_nanos(5), 0).unwrap();
    assert_eq!((report.edge, report.seq), (edge, Seq::new(1)));
    assert_eq!(report.intent, Intent::Leave);
    assert!(report.lines.is_empty() && report.basis == Seq::new(0));
    assert!(closing_report(edge, Some(edge), Tick::from_nanos(5), 0).is_none());
}

/// Returns a client at node 0 with a lease, which just heard its node.
fn settled(lease_ms: u64) -> Client {
    let mut client = Client::new();
    client.look().unwrap();
    client.hear(Word::Opens);
    client.look().unwrap();
    client.hear(Word::Renews(lease_ms));
    client.look().unwrap();
    client
}

/// Returns a client with a spare attempt, after the node in use was silent for too long.
fn doubting(lease_ms: u64) -> (Client, Edge) {
    let mut client = settled(lease_ms);
    let edge = client.edge.unwrap();
    client.pass(1_050, |_| Word::Nothing).unwrap();
    let attempt = client.selection.attempt().unwrap();
    assert_eq!(attempt.reason, DialReason::Fallback);
    assert_ne!(Some(attempt.link.0), client.node());
    (client, edge)
}

#[test]
fn both_at_once_is_whichever_is_handled_first() {
    for (words, stays) in [
        ([Word::Opens, Word::Renews(4_000)], true),
        ([Word::Renews(4_000), Word::Opens], true),
        ([Word::Opens, Word::Talks], false),
    ] {
        let (mut client, edge) = doubting(2_000);
        for word in words {
            client.hear(word);
            client.look().unwrap();
        }
        client.pass(1_000, |_| Word::Nothing).unwrap();
        assert_eq!(client.edge == Some(edge), stays, "{words:?}");
        assert!(client.selection.attempt().is_none());
    }
}

#[test]
fn a_lease_that_ends_meanwhile_leaves_the_old_link_until_another_opens() {
    let (mut client, edge) = doubting(1_200);
    let node = client.node();
    client.pass(300, |_| Word::Nothing).unwrap();
    assert!(!client.is_leased());
    assert_eq!((client.edge, client.node()), (Some(edge), node));
    client.hear(Word::Opens);
    client.look().unwrap();
    assert_ne!(client.edge, Some(edge));
}

#[test]
fn an_order_outranks_a_doubt() {
    for same in [true, false] {
        let (mut client, edge) = doubting(2_000);
        let (node, tried) = (client.node(), client.selection.attempt().unwrap().link.0);
        let away = |wanted: &&u8| Some(**wanted) != node && (**wanted == tried) == same;
        let wanted = *NODES.iter().find(away).unwrap();
        client.hear(Word::Redirects(wanted, 0));
        client.look().unwrap();
        let attempt = client.selection.attempt().unwrap();
        assert_eq!(
            (attempt.reason, attempt.link.0),
            (DialReason::Redirect, wanted)
        );
        client.hear(Word::Opens);
        client.look().unwrap();
        assert!(client.moves_at.is_some(), "what is held goes back first");
        client.pass(250, |_| Word::Nothing).unwrap();
        assert_eq!(client.node(), Some(wanted));
        assert_ne!(client.edge, Some(edge));
    }
}

#[test]
fn a_session_anew_is_another_edge_of_the_same_node() {
    let mut client = settled(5_000);
    let (edge, node) = (client.edge, client.node());
    client.hear(Word::Anew(100));
    client.look().unwrap();
    assert!(client.selection.attempt().is_none(), "it is not time");
    client.pass(150, |_| Word::Renews(5_000)).unwrap();
    let attempt = client.selection.attempt().unwrap();
    assert_eq!(
        (attempt.reason, Some(attempt.link.0)),
        (DialReason::Redirect, node)
    );
    assert!(
        client.is_leased(),
        "what is held is used until the other is open"
    );
    client.hear(Word::Opens);
    client.look().unwrap();
    assert!(client.moves_at.is_some(), "what is held goes back first");
    client.pass(250, |_| Word::Nothing).unwrap();
    assert_eq!(client.node(), node);
    assert_ne!(client.edge, edge);
}

#[test]
fn a_connection_that_is_lost_is_made_again_before_a_session_anew() {
    let mut client = settled(5_000);
    for word in [Word::Anew(0), Word::Fails, Word::Lost] {
        client.hear(word);
        client.look().unwrap();
    }
    client.pass(50, |_| Word::Nothing).unwrap();
    // Under it the present edge continues.
    assert_eq!(
        client.selection.attempt().unwrap().reason,
        DialReason::NoLink
    );
}

#[test]
fn who_closes_or_is_a_copy_tries_nothing_any_more() {
    let (mut client, _) = doubting(2_000);
    let attempt = client.selection.abandon().unwrap();
    assert_eq!(attempt.opened, None);
    let ends = Held {
        phase: Phase::Ends,
        ..client.held()
    };
    assert!(client.selection.step(&ends, client.now).is_none());
    let (mut client, _) = doubting(2_000);
    client.selection.forked(client.now);
    assert!(client.selection.link().is_none() && client.selection.attempt().is_none());
}

/// Returns a client without a node that was told these members.
fn with_members(members: &[u8]) -> NodeSelection<Via> {
    let times = Times::of(Span::from_millis(200));
    let mut selection = NodeSelection::new(times, Tick::from_nanos(0));
    selection.set_members(members.iter().copied());
    selection
}

/// Dials the first of the nodes that come into question.
fn dial(selection: &mut NodeSelection<Via>, configured: &[u8]) -> u8 {
    let node = selection.choose(configured, |_| 0).unwrap();
    selection.dialled(Via(node), DialReason::NoLink, Tick::from_nanos(1));
    node
}

/// Connects the client to a node.
fn connect(selection: &mut NodeSelection<Via>, node: u8) {
    selection.dialled(Via(node), DialReason::NoLink, Tick::from_nanos(1));
    selection.opened(Edge::default());
    assert!(selection.switch_over(Tick::from_nanos(0)).is_some());
}

#[test]
fn members_are_tried_in_turn_with_the_configured_nodes_that_cannot_be_reached() {
    for (configured, members, expect) in [
        // The node that was lost comes first, and then every other attempt is at a member.
        (&[0][..], &[0, 1, 2][..], [0, 1, 0, 1, 0]),
        (&[0], &[0], [0, 0, 0, 0, 0]),
        (&[0], &[], [0, 0, 0, 0, 0]),
        // A proxy, of which the nodes know nothing. It sent the client to node 0, which is tried again first.
        (&[9], &[0, 1, 2], [0, 9, 0, 9, 0]),
        // All configured nodes are tried before the first member.
        (&[0, 1], &[0, 1, 2], [0, 1, 2, 0, 2]),
        (&[0, 1], &[0, 1], [0, 1, 0, 1, 0]),
    ] {
        let mut selection = with_members(members);
        connect(&mut selection, 0);
        selection.lost();
        let dials = expect.map(|_| {
            let node = dial(&mut selection, configured);
            selection.failed();
            node
        });
        assert_eq!(dials, expect, "{configured:?} {members:?}");
    }
}

#[test]
fn a_member_is_the_fallback_of_a_client_of_one_address() {
    let mut selection = with_members(&[0, 1]);
    connect(&mut selection, 0);
    assert_eq!(dial(&mut selection, &[0]), 1);
    let mut selection = with_members(&[0, 1]);
    connect(&mut selection, 0);
    assert_eq!(dial(&mut selection, &[0, 2]), 2, "a configured one is left");
    let mut selection = with_members(&[]);
    connect(&mut selection, 0);
    assert_eq!(dial(&mut selection, &[0]), 0, "by another connection");
}

#[test]
fn members_are_bounded_and_forgotten_with_the_next_list() {
    let mut selection = with_members(&[]);
    let counts = |selection: &mut NodeSelection<Via>| {
        connect(selection, 0);
        let mut counted = 0;
        let count = |count| {
            counted = count;
            0
        };
        selection.choose(&[0], count);
        counted
    };
    selection.set_members(1..=200);
    assert_eq!(counts(&mut selection), NodeSelection::<Via>::MEMBERS_MAX);
    selection.forked(Tick::from_nanos(0));
    assert_eq!(counts(&mut selection), NodeSelection::<Via>::MEMBERS_MAX);
    selection.set_members([0, 3]);
    assert_eq!(counts(&mut selection), 1);
    selection.set_members([]);
    assert_eq!(counts(&mut selection), 1, "the configured one");
}
