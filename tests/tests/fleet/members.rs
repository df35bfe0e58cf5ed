//! Nodes are added, promoted, removed and replaced, by the command line.

use crate::support::{setup, together};
use aliquot_client::clock::Span;
use aliquot_tests::fleet::{Answer, Fleet, SOON, get, now, until};

/// Starts a fleet of which three form a cluster; two are not members yet.
async fn three_and_two() -> Fleet {
    let mut fleet = setup().nodes(5).founders(3).plan().await;
    for index in 0..3 {
        fleet.start(index);
    }
    fleet.serves().await;
    fleet.apply("{ key: shared, rate: 1000/s }").await;
    fleet
}

/// Returns the members and their roles as one node knows them, by their index in the fleet.
async fn roles(fleet: &Fleet, asked: usize) -> Option<Vec<(usize, String)>> {
    let view = fleet.view(asked).await?;
    let place = |peer: &str| fleet.nodes().iter().position(|node| node.peer == peer);
    let there = view.members.iter().filter(|it| it.role != "removed");
    let roles = there.filter_map(|it| Some((place(&it.peer)?, it.role.clone())));
    let mut roles: Vec<_> = roles.collect();
    roles.sort();
    Some(roles)
}

async fn id_of(fleet: &Fleet, index: usize) -> String {
    let peer = &fleet.nodes()[index].peer;
    let id = until("the node is known", SOON, async || {
        let view = fleet.view(0).await?;
        let member = view.members.into_iter().find(|it| it.peer == *peer)?;
        Some(member.id)
    });
    id.await.to_string()
}

#[track_caller]
fn done(answer: &Answer, was_so: bool) {
    assert_eq!(answer.code, 0, "{answer:?}");
    assert_eq!(answer.json["was_so"], was_so, "{answer:?}");
}

/// Runs each command twice: an operator who lost the reply repeats it and gets the same reply.
async fn twice(fleet: &Fleet, words: &[&str]) {
    done(&fleet.cli(words).await, false);
    again(fleet, words).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_come_and_go_by_the_command_line() {
    let _machine = together().await;
    let mut fleet = three_and_two().await;
    fleet.start(3);
    let fourth = fleet.nodes()[3].peer.clone();
    until("the fourth listens, and may not join", SOON, async || {
        let log = fleet.nodes()[3].log();
        log.contains("is not among the peers of the leader")
            .then_some(())
    })
    .await;
    twice(&fleet, &["cluster", "add", &fourth]).await;
    let id = id_of(&fleet, 3).await;
    let learns = (3, "learner".to_owned());
    assert!(roles(&fleet, 0).await.unwrap().contains(&learns));
    twice(&fleet, &["cluster", "promote", &id]).await;
    twice(&fleet, &["cluster", "transfer-leader", &id]).await;
    assert_eq!(fleet.leader().await, 3);
    // A leader that is to be removed transfers leadership first.
    twice(&fleet, &["cluster", "remove", &id]).await;
    says_that_it_was_removed(&fleet, 3).await;
    fleet.kill(3);
    let leader = fleet.leader().await;
    // A dead node is replaced by one that it never met.
    let dead = (leader + 1) % 3;
    let asked = (leader + 2) % 3;
    let former = id_of(&fleet, dead).await;
    fleet.kill(dead);
    fleet.start(4);
    let fifth = fleet.nodes()[4].peer.clone();
    let replace = ["cluster", "replace", &former, &fifth];
    until("the fifth listens, and takes the place", SOON, async || {
        (fleet.cli(&replace).await.code == 0).then_some(())
    })
    .await;
    again(&fleet, &replace).await;
    until("three vote", SOON, async || {
        let roles = roles(&fleet, asked).await?;
        let votes = roles.iter().filter(|(_, role)| role != "learner");
        let mut votes: Vec<usize> = votes.map(|(index, _)| *index).collect();
        votes.sort_unstable();
        let mut expect = [leader, asked, 4];
        expect.sort_unstable();
        (votes == expect).then_some(())
    })
    .await;
    fleet.is_ready(4).await;
    let list = fleet.operator_at(4).run(&["budget", "list"], "").await;
    assert_eq!(list.json[0]["budget"]["key"], "shared", "{list:?}");
}

/// Asserts that a removed node says so wherever an operator looks, and stays out.
async fn says_that_it_was_removed(fleet: &Fleet, index: usize) {
    const REMOVED: &str = "was removed from the cluster";
    let (node, others) = (&fleet.nodes()[index], fleet.operator());
    until("it knows that it was removed", SOON, async || {
        let (status, why) = get(&node.metrics_listen, "/readyz").await?;
        (status == 503 && why.contains("removed from the cluster")).then_some(())
    })
    .await;
    until("its metrics say so", SOON, async || {
        (node.figure("aliquot_removed").await? == 1.0).then_some(())
    })
    .await;
    assert!(
        node.log().contains("WARN") && node.log().contains(REMOVED),
        "{}",
        node.log()
    );
    let removed = fleet.operator_at(index);
    for words in [["cluster", "status"], ["cluster", "members"]] {
        let answer = removed.run(&words, "").await;
        assert_eq!(answer.code, 1, "{answer:?}");
        assert!(answer.message.contains(REMOVED), "{answer:?}");
    }
    let budget = "budgets: [{ key: late, rate: 1/s }]";
    for (words, input) in [
        (vec!["budget", "apply", "-"], budget),
        (vec!["budget", "list"], ""),
        (vec!["check", "shared"], ""),
    ] {
        let answer = removed.run(&words, input).await;
        assert_eq!(answer.code, 3, "{answer:?}");
        assert!(answer.message.contains(REMOVED), "{answer:?}");
    }
    // It answers at once, and is passed over. Without an answer, the next endpoint would be asked as well, but late.
    let live = fleet.running().into_iter().find(|other| *other != index);
    let both = fleet.operator_at(live.unwrap());
    let begun = now();
    let list = both
        .run(&["budget", "list", "--endpoint", &node.client], "")
        .await;
    let took = now().since(begun);
    assert_eq!(list.code, 0, "{list:?}");
    assert_eq!(list.json[0]["budget"]["key"], "shared", "{list:?}");
    assert!(took < Span::from_secs(10), "{took:?}: {list:?}");
    let add = others.run(&["cluster", "add", &node.peer], "").await;
    assert_eq!(add.code, 1, "{add:?}");
    for message in ["its id can never join again", "move its data_dir away"] {
        assert!(add.message.contains(message), "{add:?} lacks {message:?}");
    }
}

/// A removed node says so, whether it ran or not when it was removed, and cannot be added again as it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removed_node_says_so_and_stays_out() {
    let _machine = together().await;
    let mut fleet = setup().nodes(3).start().await;
    fleet.apply("{ key: shared, rate: 1000/s }").await;
    let gone = (fleet.leader().await + 1) % 3;
    let id = id_of(&fleet, gone).await;
    fleet.stop(gone).await;
    done(&fleet.cli(&["cluster", "remove", &id]).await, false);
    fleet.start(gone);
    says_that_it_was_removed(&fleet, gone).await;
    let end = fleet.stop(gone).await;
    assert_eq!(end.status.code(), Some(0), "{}", end.log);
    // With an empty directory, it joins as another node.
    fleet.nodes()[gone].wipe();
    fleet.start(gone);
    fleet.is_ready(gone).await;
}

/// Repeats a command whose effect is already made.
async fn again(fleet: &Fleet, words: &[&str]) {
    until("all know of it", SOON, async || {
        let again = fleet.cli(words).await;
        assert_eq!(again.code, 0, "{again:?}");
        (again.json["was_so"] == true).then_some(())
    })
    .await;
}

/// A node that was never added never catches up; to wait for it would keep all others waiting, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranger_is_not_waited_for() {
    let _machine = together().await;
    let fleet = three_and_two().await;
    let leader = fleet.leader().await;
    let follower = fleet.operator_at((leader + 1) % 3);
    for (order, says) in [("promote", "cluster add"), ("remove", "no member")] {
        let refused = follower.run(&["cluster", order, "99"], "").await;
        assert_eq!(refused.code, 1, "{refused:?}");
        for message in ["node 99 is no member", says, "nothing was changed"] {
            assert!(
                refused.message.contains(message),
                "{refused:?} lacks {message:?}"
            );
        }
    }
    let heir = id_of(&fleet, (leader + 2) % 3).await;
    done(
        &follower
            .run(&["cluster", "transfer-leader", &heir], "")
            .await,
        false,
    );
}
