//! The service for operators over a real state.
#![expect(
    clippy::unwrap_used,
    reason = "the helpers of a test may panic as the test may"
)]

#[path = "support/fake.rs"]
mod fake;
#[path = "support/server.rs"]
mod server;

use aliquot_coordinator::api::auth::Auth;
use aliquot_core::budget::BudgetDraft;
use aliquot_wire::admin::{BudgetsOutcome, BusyKeys, ClusterChange, Rules, Usage};
use aliquot_wire::pb::admin_client::AdminClient;
use aliquot_wire::{Wire, pb};
use fake::Fake;
use tonic::Code;
use tonic::transport::Channel;

async fn client(fake: &Fake) -> AdminClient<Channel> {
    let (address, _) = server::serve(fake, Auth::default(), None).await;
    AdminClient::connect(format!("http://{address}"))
        .await
        .unwrap()
}

fn rate(key: &str, rate: &str) -> BudgetDraft {
    BudgetDraft {
        key: key.into(),
        rate: Some(rate.into()),
        ..BudgetDraft::default()
    }
}

fn apply(request: u64, mode: pb::Mode, budgets: &[BudgetDraft]) -> pb::ApplyBudgetsRequest {
    pb::ApplyBudgetsRequest {
        request,
        mode: mode.into(),
        budgets: budgets.iter().map(Into::into).collect(),
    }
}

fn outcome(answer: tonic::Response<pb::BudgetsOutcome>) -> BudgetsOutcome {
    BudgetsOutcome::from_message(answer.into_inner()).unwrap()
}

#[tokio::test]
async fn a_set_of_budgets_is_written_in_one_entry_and_a_retry_writes_nothing() {
    let fake = Fake::new();
    let mut client = client(&fake).await;
    let set = [rate("a", "100/s"), rate("tenant/*/reads", "5/s")];
    let before = fake.entries();
    let dry = client.apply_budgets(apply(7, pb::Mode::DryRun, &set)).await;
    assert_eq!(outcome(dry.unwrap()).differences.len(), 2);
    assert_eq!(fake.entries(), before);
    for expect in [2, 0] {
        let done = client.apply_budgets(apply(7, pb::Mode::Commit, &set)).await;
        assert_eq!(outcome(done.unwrap()).differences.len(), expect);
        assert_eq!(fake.entries(), before + 1);
    }
    let changed = [rate("a", "200/s"), rate("tenant/*/reads", "5/s")];
    let diff = pb::DiffBudgetsRequest {
        budgets: changed.iter().map(Into::into).collect(),
    };
    let outcome_found = outcome(client.diff_budgets(diff).await.unwrap());
    let [difference] = &outcome_found.differences[..] else {
        panic!("{outcome_found:?}");
    };
    assert_eq!(
        difference.before.as_ref().unwrap().rate,
        Some("100/s".into())
    );
    assert_eq!(
        difference.after.as_ref().unwrap().rate,
        Some("200/s".into())
    );
    // The request id was used for another change, so this must not be reported as done.
    let reused = client
        .apply_budgets(apply(7, pb::Mode::Commit, &changed))
        .await;
    assert_eq!(reused.unwrap_err().code(), Code::Aborted);
}

#[tokio::test]
async fn one_wrong_budget_keeps_the_whole_set_out() {
    let fake = Fake::new();
    let mut client = client(&fake).await;
    let before = fake.entries();
    let set = [
        rate("a", "100/s"),
        rate("b", "100 parsecs"),
        rate("a", "7/s"),
        BudgetDraft {
            key: "c".into(),
            quota: Some("5 per day".into()),
            zone: Some("Mars/Olympus".into()),
            ..BudgetDraft::default()
        },
    ];
    let outcome_found = client.apply_budgets(apply(1, pb::Mode::Commit, &set)).await;
    let outcome_found = outcome(outcome_found.unwrap());
    let indices: Vec<_> = outcome_found
        .refusals
        .iter()
        .map(|refusal| refusal.index)
        .collect();
    assert_eq!(indices, [1, 2, 3]);
    assert_eq!(outcome_found.refusals[2].errors[0].field, "zone");
    assert!(
        outcome_found.refusals[0].errors[0]
            .to_string()
            .contains("rate = \"100 parsecs\"")
    );
    assert_eq!(fake.entries(), before);
    let none = client.apply_budgets(apply(0, pb::Mode::Commit, &set)).await;
    assert_eq!(none.unwrap_err().code(), Code::InvalidArgument);
}

#[tokio::test]
async fn a_request_has_at_most_1024_budgets_and_one_more_changes_nothing() {
    let fake = Fake::new();
    let mut client = client(&fake).await;
    let set = |budgets: usize| -> Vec<BudgetDraft> {
        (0..budgets)
            .map(|n| rate(&format!("k/{n}"), "9/s"))
            .collect()
    };
    let before = fake.entries();
    let beyond = client
        .apply_budgets(apply(1, pb::Mode::Commit, &set(1_025)))
        .await;
    assert_eq!(beyond.unwrap_err().code(), Code::InvalidArgument);
    assert_eq!(fake.entries(), before);
    let full = client
        .apply_budgets(apply(1, pb::Mode::Commit, &set(1_024)))
        .await;
    assert_eq!(outcome(full.unwrap()).differences.len(), 1_024);
    for (limit, code) in [
        (0, Some(Code::InvalidArgument)),
        (1_024, None),
        (1_025, Some(Code::InvalidArgument)),
    ] {
        let page = pb::ListBudgetsRequest { after: 0, limit };
        let page = client.list_budgets(page).await;
        assert_eq!(page.err().map(|status| status.code()), code, "{limit}");
    }
}

#[tokio::test]
async fn rules_are_listed_by_pages_and_withdrawn() {
    let fake = Fake::new();
    let mut client = client(&fake).await;
    let set: Vec<_> = (0..5).map(|n| rate(&format!("k/{n}"), "9/s")).collect();
    client
        .apply_budgets(apply(1, pb::Mode::Commit, &set))
        .await
        .unwrap();
    let (mut after, mut keys) = (0, Vec::new());
    loop {
        let page = pb::ListBudgetsRequest { after, limit: 2 };
        let page = client.list_budgets(page).await.unwrap().into_inner();
        let page = Rules::from_message(page).unwrap();
        keys.extend(page.rules.iter().map(|rule| rule.budget.key().to_string()));
        if !page.more {
            break;
        }
        after = page.rules.last().unwrap().rule.get();
    }
    assert_eq!(keys, ["k/0", "k/1", "k/2", "k/3", "k/4"]);
    let delete = |request, key: &str| pb::DeleteBudgetRequest {
        request,
        mode: pb::Mode::Commit.into(),
        key: key.into(),
    };
    let gone = client
        .delete_budget(delete(2, "k/3"))
        .await
        .unwrap()
        .into_inner();
    assert!(gone.found && gone.instances == 1);
    // An operator who lost the answer repeats the request and learns that it was done. A new request
    // learns that there is nothing to delete.
    for (request, found) in [(2, true), (3, false)] {
        let again = client.delete_budget(delete(request, "k/3")).await;
        assert_eq!(again.unwrap().into_inner().found, found);
    }
    let get = pb::GetBudgetRequest { key: "k/3".into() };
    assert_eq!(
        client.get_budget(get).await.unwrap_err().code(),
        Code::NotFound
    );
}

#[tokio::test]
async fn a_key_shows_its_limit_its_use_and_its_holders() {
    let fake = Fake::new();
    let mut client = client(&fake).await;
    let set = [rate("a", "100/s"), rate("t/*", "5/s"), rate("b", "50/s")];
    client
        .apply_budgets(apply(1, pb::Mode::Commit, &set))
        .await
        .unwrap();
    let usage = |key: &str| pb::GetUsageRequest { key: key.into() };
    let used = client.get_usage(usage("a")).await.unwrap().into_inner();
    let used = Usage::from_message(used).unwrap();
    // The leader's node got the whole budget when it was created.
    assert_eq!(used.held.rate, used.limit.whole().rate);
    let unused = client.get_usage(usage("t/x")).await.unwrap().into_inner();
    assert_eq!(unused.budget, None);
    let unknown = client.get_usage(usage("z")).await.unwrap_err();
    assert_eq!(unknown.code(), Code::NotFound);
    let holders = pb::ListHoldersRequest { key: "a".into() };
    let holders = client
        .list_holders(holders)
        .await
        .unwrap()
        .into_inner()
        .holders;
    assert_eq!((holders.len(), holders[0].node), (1, 1));
    for (skip, limit, expect) in [
        (0, 1, &["b"][..]),
        (0, 2, &["b", "a"]),
        (1, 1, &["a"]),
        (1, 9, &["a"]),
        (2, 9, &[]),
    ] {
        let top = pb::TopKeysRequest { skip, limit };
        let top = client.top_keys(top).await.unwrap().into_inner();
        let top = BusyKeys::from_message(top).unwrap();
        assert_eq!(top.total, 2);
        let keys: Vec<String> = top.keys.iter().map(|it| it.usage.key.to_string()).collect();
        assert_eq!(keys, expect, "{skip} {limit}");
        assert!(top.keys.iter().all(|it| it.admitted_milli == Some(950_500)));
    }
}

#[tokio::test]
async fn the_cluster_is_shown_without_a_leader_and_budgets_are_not() {
    let fake = Fake::new();
    let mut client = client(&fake).await;
    fake.lose_leader_after(0);
    let view = client
        .get_cluster(pb::GetClusterRequest::default())
        .await
        .unwrap()
        .into_inner();
    assert_eq!(
        (view.leader, view.nodes.len(), view.cluster.as_str()),
        (None, 2, "test")
    );
    assert_eq!(view.nodes[0].heard_ns_ago, Some(200_000_000));
    let page = pb::ListClientsRequest {
        after: 1,
        limit: 1,
        key: None,
    };
    let page = client.list_clients(page).await.unwrap().into_inner();
    assert_eq!((page.clients[0].session, page.more), (2, true));
    let list = pb::ListBudgetsRequest { after: 0, limit: 9 };
    let refused = client.list_budgets(list).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable);
    assert!(
        refused.message().contains("nothing was changed"),
        "{refused}"
    );
}

#[tokio::test]
async fn changes_of_the_cluster_reach_the_node_and_refusals_come_back() {
    use pb::change_cluster_request::Change;
    let fake = Fake::new();
    let mut client = client(&fake).await;
    let change = |change| pb::ChangeClusterRequest {
        request: 5,
        change: Some(change),
    };
    client
        .change_cluster(change(Change::Add("node-4:7101".into())))
        .await
        .unwrap();
    assert_eq!(fake.changes(), [ClusterChange::Add("node-4:7101".into())]);
    for stranger in [Change::Promote(9), Change::Remove(9)] {
        let refused = client.change_cluster(change(stranger)).await.unwrap_err();
        assert_eq!(refused.code(), Code::FailedPrecondition);
    }
    // An operator who lost the answer repeats the request, and the log shows that it was done.
    fake.remove(9);
    client
        .change_cluster(change(Change::Remove(9)))
        .await
        .unwrap();
    let empty = client
        .change_cluster(change(Change::Add(String::new())))
        .await
        .unwrap_err();
    assert_eq!(empty.code(), Code::InvalidArgument);
}
