//! The figures behind the alerts that `docs/operations.md` recommends, each after what should raise it.

use crate::support::{setup, together};
use aliquot_tests::fleet::{Fleet, Load, Offer, SOON, Who, until};
use aliquot_wire::pb;
use aliquot_wire::pb::client_message::Kind;
use aliquot_wire::pb::session_client::SessionClient;
use rustix::process::Signal;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use tokio::sync::mpsc::Sender;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

/// Where the figure of each alert in the table is looked at after its cause: a file of a test, and a function.
const FIRED: &[(&str, &str, &str)] = &[
    ("build_info", ALERTS, "nodes_of_two_versions_are_told_apart"),
    (
        "ready",
        ALERTS,
        "the_last_of_three_nodes_shows_that_it_is_alone",
    ),
    (
        "leader",
        ALERTS,
        "the_last_of_three_nodes_shows_that_it_is_alone",
    ),
    (
        "lease_left_seconds",
        ALERTS,
        "the_last_of_three_nodes_shows_that_it_is_alone",
    ),
    (
        "peers",
        ALERTS,
        "the_last_of_three_nodes_shows_that_it_is_alone",
    ),
    (
        "peer_round_trip_seconds",
        ALERTS,
        "a_slow_line_to_a_peer_shows_in_its_round_trip",
    ),
    (
        "leader_changes_total",
        ALERTS,
        "changes_of_leader_are_counted_and_a_node_that_falls_behind_shows_it",
    ),
    (
        "term",
        ALERTS,
        "changes_of_leader_are_counted_and_a_node_that_falls_behind_shows_it",
    ),
    (
        "applied_index",
        ALERTS,
        "changes_of_leader_are_counted_and_a_node_that_falls_behind_shows_it",
    ),
    (
        "sessions",
        ALERTS,
        "a_client_beyond_the_maximum_of_sessions_is_counted",
    ),
    (
        "streams",
        ALERTS,
        "a_client_beyond_the_maximum_of_sessions_is_counted",
    ),
    (
        "sessions_refused_total",
        ALERTS,
        "a_client_beyond_the_maximum_of_sessions_is_counted",
    ),
    (
        "budgets",
        "clients.rs",
        "a_template_takes_no_more_keys_than_it_may_have",
    ),
    (
        "budgets_held",
        "clients.rs",
        "a_template_takes_no_more_keys_than_it_may_have",
    ),
    (
        "loop_held_seconds_max",
        ALERTS,
        "a_loop_that_was_blocked_shows_for_how_long",
    ),
    (
        "loop_worked_seconds_max",
        ALERTS,
        "a_loop_that_was_blocked_shows_for_how_long",
    ),
    (
        "keys_waiting",
        ALERTS,
        "new_keys_beyond_those_that_can_wait_are_counted_as_shed",
    ),
    (
        "keys_shed_total",
        ALERTS,
        "new_keys_beyond_those_that_can_wait_are_counted_as_shed",
    ),
    (
        "connections",
        "hostile.rs",
        "silent_connections_keep_no_session_and_no_operator_out",
    ),
    (
        "connections_refused_total",
        "hostile.rs",
        "silent_connections_keep_no_session_and_no_operator_out",
    ),
    (
        "tls_failures_total",
        "../../../coordinator/tests/roles/tls.rs",
        "are_counted_and_logged",
    ),
    (
        "face_decisions_total",
        "faces.rs",
        "an_agent_whose_nodes_are_all_killed_shows_it",
    ),
    (
        "face_keys",
        "faces.rs",
        "keys_of_a_face_are_shown_up_to_their_maximum",
    ),
    (
        "reservations",
        "faces.rs",
        "the_first_use_of_a_key_is_answered_and_permits_are_shared",
    ),
    (
        "rlqs_streams",
        "quotas.rs",
        "streams_and_buckets_of_quotas_are_shown_up_to_their_bounds",
    ),
    (
        "rlqs_buckets",
        "quotas.rs",
        "streams_and_buckets_of_quotas_are_shown_up_to_their_bounds",
    ),
    (
        "agent_ready",
        "faces.rs",
        "an_agent_whose_nodes_are_all_killed_shows_it",
    ),
    (
        "file_descriptors",
        "hostile.rs",
        "silent_connections_keep_no_session_and_no_operator_out",
    ),
    (
        "file_descriptors_allowed",
        "hostile.rs",
        "silent_connections_keep_no_session_and_no_operator_out",
    ),
    (
        "wall_clock_ahead_seconds",
        ALERTS,
        "a_node_whose_wall_clock_is_an_hour_ahead_says_so_and_the_others_do_not",
    ),
    ("removed", "members.rs", "says_that_it_was_removed"),
];

const ALERTS: &str = "alerts.rs";

/// Returns the metrics of the table in `docs/operations.md` that have an alert.
fn documented(root: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(root.join("docs/operations.md")).unwrap();
    let (_, text) = text.split_once("| worth an alert |").unwrap();
    let rows = text
        .lines()
        .skip(2)
        .take_while(|line| line.starts_with('|'));
    // A bar that belongs to a cell is written as `\|`.
    let rows = rows.map(|row| row.replace("\\|", ""));
    let mut names = Vec::new();
    for row in rows {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [_, metrics, _, alert, _] = cells[..] else {
            panic!("not three cells: {row}");
        };
        if !alert.starts_with('–') {
            let metrics = metrics
                .split('`')
                .filter_map(|text| text.strip_prefix("aliquot_"));
            names.extend(metrics.map(str::to_owned));
        }
    }
    names
}

/// A new alert needs a test that makes its cause.
#[test]
fn each_documented_alert_has_a_test() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut documented = documented(&here.join(".."));
    let mut fired: Vec<&str> = FIRED.iter().map(|(name, ..)| *name).collect();
    documented.sort();
    fired.sort_unstable();
    assert_eq!(documented, fired, "docs/operations.md and FIRED");
    for (name, file, function) in FIRED {
        let text = std::fs::read_to_string(here.join("tests/fleet").join(file)).unwrap();
        let found = text.split_once(&format!("fn {function}("));
        let (_, body) = found.unwrap_or_else(|| panic!("{file} has no {function}"));
        let (body, _) = body.split_once("\n}\n").unwrap();
        let words = body.split(|char: char| !char.is_alphanumeric() && char != '_');
        let names = |word: &str| word == *name || word.strip_prefix("aliquot_") == Some(name);
        assert!(
            words.into_iter().any(names),
            "{function} of {file} does not look at {name}"
        );
    }
}

/// A session of a client of which the test sends each message.
struct Session {
    sender: Sender<pb::ClientMessage>,
    _answers: Streaming<pb::NodeMessage>,
}

impl Session {
    async fn open(fleet: &Fleet, node: usize) -> Self {
        let (sender, receiver) = tokio::sync::mpsc::channel(2);
        let open = Kind::Open(pb::SessionOpen::default());
        let open = pb::ClientMessage { kind: Some(open) };
        sender.send(open).await.unwrap();
        let address = format!("http://{}", fleet.nodes()[node].listen);
        let mut client = SessionClient::connect(address).await.unwrap();
        let answers = client.open(ReceiverStream::new(receiver)).await.unwrap();
        let mut answers = answers.into_inner();
        assert!(answers.message().await.unwrap().is_some(), "it is open");
        Self {
            sender,
            _answers: answers,
        }
    }

    /// Names as many keys as a session may have, which begin with `prefix`.
    async fn brings_keys(&self, prefix: &str) {
        let keys = (0..16_384).map(|number| format!("{prefix}{number}"));
        let keys = pb::InternKeys {
            keys: keys.collect(),
        };
        let kind = Some(Kind::Intern(keys));
        self.sender.send(pb::ClientMessage { kind }).await.unwrap();
    }
}

/// Waits until figures of a node have these values.
async fn shows(fleet: &Fleet, node: usize, expect: &[(&str, f64)]) {
    let names: Vec<&str> = expect.iter().map(|(name, _)| *name).collect();
    until(&format!("node {node} shows {expect:?}"), SOON, async || {
        let mut found = Vec::new();
        for name in &names {
            found.push(
                fleet.nodes()[node]
                    .figure(&format!("aliquot_{name}"))
                    .await?,
            );
        }
        let values = expect.iter().map(|(_, value)| *value);
        found.into_iter().eq(values).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_of_three_nodes_shows_that_it_is_alone() {
    let _machine = together().await;
    let mut fleet = setup().start().await;
    let leader = fleet.leader().await;
    let others: Vec<usize> = (0..3).filter(|index| *index != leader).collect();
    let calm = [("ready", 1.0), ("leader", 1.0), ("peers", 2.0)];
    shows(&fleet, leader, &calm).await;
    let left = fleet.nodes()[leader].figure("aliquot_lease_left_seconds");
    assert!(left.await.unwrap() > 1.0);
    fleet.kill(others[0]);
    // Two of three still decide, and the alert of the peers fires alone.
    let one_lost = [("ready", 1.0), ("leader", 1.0), ("peers", 1.0)];
    shows(&fleet, leader, &one_lost).await;
    fleet.kill(others[1]);
    let alone = [
        ("ready", 0.0),
        ("leader", 0.0),
        ("peers", 0.0),
        ("lease_left_seconds", 0.0),
    ];
    shows(&fleet, leader, &alone).await;
    others.iter().for_each(|index| fleet.start(*index));
    fleet.serves().await;
    shows(&fleet, leader, &[("ready", 1.0), ("peers", 2.0)]).await;
    let mut leaders = 0.0;
    for node in fleet.nodes() {
        leaders += node.figure("aliquot_leader").await.unwrap();
    }
    assert!((leaders - 1.0).abs() < f64::EPSILON, "{leaders} leaders");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_beyond_the_maximum_of_sessions_is_counted() {
    let _machine = together().await;
    let fleet = setup().nodes(1).flag("--session-max=2").start().await;
    fleet.apply("{ key: shared, rate: 1000/s }").await;
    shows(
        &fleet,
        0,
        &[("sessions", 0.0), ("sessions_refused_total", 0.0)],
    )
    .await;
    let offer = Offer {
        key: "shared".to_owned(),
        clients: 3,
        per_second: 30,
    };
    let load = Load::begin(&fleet.addresses(), &offer);
    shows(&fleet, 0, &[("sessions", 2.0), ("streams", 2.0)]).await;
    until("the third is counted", SOON, async || {
        let refused = fleet.nodes()[0].figure("aliquot_sessions_refused_total");
        (refused.await? >= 1.0).then_some(())
    })
    .await;
    load.end().await;
}

/// A follower that is cut off falls behind, and an operator who moves the leader four times sees each change.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_of_leader_are_counted_and_a_node_that_falls_behind_shows_it() {
    let _machine = together().await;
    let fleet = setup().proxied().start().await;
    let leader = fleet.leader().await;
    let (cut, third) = ((leader + 1) % 3, (leader + 2) % 3);
    let figure = async |node: usize, name: &str| {
        let name = format!("aliquot_{name}");
        until("the figure is there", SOON, async || {
            fleet.nodes()[node].figure(&name).await
        })
        .await
    };
    let ahead_of = async |node: usize| {
        figure(leader, "applied_index").await - figure(node, "applied_index").await
    };
    let before = figure(leader, "leader_changes_total").await;
    let term = figure(leader, "term").await;
    let others = [Who::Node(leader), Who::Node(third)];
    fleet.net().isolate(Who::Node(cut), &others);
    for writes in 1..=2 {
        for number in 0..3 {
            let key = format!("{{ key: k{writes}{number}, rate: 1/s }}");
            let applied = fleet.operator_at(leader);
            let applied = applied.run(&["budget", "apply", "-"], &key).await;
            assert_eq!(applied.code, 0, "{applied:?}");
        }
        until("the difference grows", SOON, async || {
            (ahead_of(cut).await >= f64::from(3 * writes)).then_some(())
        })
        .await;
    }
    fleet.net().heal();
    until("it catches up", SOON, async || {
        (ahead_of(cut).await <= 0.0).then_some(())
    })
    .await;
    for _ in 0..4 {
        let from = fleet.leader().await;
        let to = fleet.nodes()[(from + 1) % 3].peer.clone();
        until("the leader moves", SOON, async || {
            let moved = fleet.cli(&["cluster", "transfer-leader", &to]).await;
            (moved.code == 0 && fleet.leader().await != from).then_some(())
        })
        .await;
    }
    until("more than three changes are counted", SOON, async || {
        let changes = figure(leader, "leader_changes_total").await - before;
        (changes > 3.0).then_some(())
    })
    .await;
    until("the term shows them", SOON, async || {
        (figure(leader, "term").await > term + 3.0).then_some(())
    })
    .await;
}

/// Its periods would begin an hour early if a quorum believed it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_wall_clock_is_an_hour_ahead_says_so_and_the_others_do_not() {
    let _machine = together().await;
    let mut fleet = setup().plan().await;
    fleet.node_mut(2).wall_clock_ahead(3_600);
    (0..3).for_each(|node| fleet.start(node));
    fleet.serves().await;
    let ahead = async |node: usize| {
        let figure = fleet.nodes()[node].figure("aliquot_wall_clock_ahead_seconds");
        figure.await
    };
    // Clocks are compared soon after a start, and each minute.
    until("the hour is seen", 3 * SOON, async || {
        (ahead(2).await? > 3_590.0).then_some(())
    })
    .await;
    const SAID: &str = "the wall clock of this node differs from those of the others";
    let warns = |node: usize| {
        let log = fleet.nodes()[node].log();
        log.lines()
            .any(|line| line.contains("WARN") && line.contains(SAID))
    };
    assert!(warns(2), "{}", fleet.nodes()[2].log());
    for other in 0..2 {
        assert!(ahead(other).await.unwrap().abs() < 2.0);
        assert!(!warns(other), "{}", fleet.nodes()[other].log());
    }
}

/// Five sessions bring more keys of a template than a node without a quorum can have made.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_keys_beyond_those_that_can_wait_are_counted_as_shed() {
    const WAITING: f64 = 65_536.0;
    let _machine = together().await;
    let fleet = setup().start().await;
    fleet.apply("{ key: k/*, rate: 1/s }").await;
    let leader = fleet.leader().await;
    let calm = [("keys_waiting", 0.0), ("keys_shed_total", 0.0)];
    shows(&fleet, leader, &calm).await;
    let mut sessions = Vec::new();
    for _ in 0..5 {
        sessions.push(Session::open(&fleet, leader).await);
    }
    // Nothing is committed while they do not answer.
    let others = || (0..3).filter(|node| *node != leader);
    others().for_each(|node| fleet.signal(node, Signal::STOP));
    for (number, session) in sessions.iter().enumerate() {
        session.brings_keys(&format!("k/{number}-")).await;
    }
    let node = &fleet.nodes()[leader];
    until("keys are shed", SOON, async || {
        let waiting = node.figure("aliquot_keys_waiting").await?;
        let shed = node.figure("aliquot_keys_shed_total").await?;
        (waiting >= WAITING && shed > 0.0).then_some(())
    })
    .await;
    others().for_each(|node| fleet.signal(node, Signal::CONT));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_line_to_a_peer_shows_in_its_round_trip() {
    /// Each way: the round trip is above the 50 ms that `round_trip` has by default.
    const DELAY: Duration = Duration::from_millis(60);
    let _machine = together().await;
    let fleet = setup().proxied().start().await;
    let leader = fleet.leader().await;
    let (near, far) = ((leader + 1) % 3, (leader + 2) % 3);
    let round_trips = async || {
        let lines = fleet.nodes()[near].metrics().await?;
        let lines = lines.lines().filter_map(|line| {
            let line = line.strip_prefix("aliquot_peer_round_trip_seconds{")?;
            line.rsplit_once(' ')?.1.parse().ok()
        });
        let mut found: Vec<f64> = lines.collect();
        found.sort_by(f64::total_cmp);
        (found.len() == 2).then_some(found)
    };
    until("both lines are short", SOON, async || {
        round_trips()
            .await?
            .iter()
            .all(|took| *took < 0.05)
            .then_some(())
    })
    .await;
    let (near_end, far_end) = (Who::Node(near), Who::Node(far));
    fleet.net().delay(near_end, far_end, DELAY);
    fleet.net().delay(far_end, near_end, DELAY);
    // The figure is the least of eight seconds.
    until("one line is long, and the other is not", SOON, async || {
        let took = round_trips().await?;
        (took[0] < 0.05 && took[1] >= 0.12).then_some(())
    })
    .await;
    fleet.net().heal();
    until("it is short again", SOON, async || {
        (round_trips().await?[1] < 0.05).then_some(())
    })
    .await;
}

/// A node that gets no processor in the middle of its work renews no lease meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_loop_that_was_blocked_shows_for_how_long() {
    const STOPPED: Duration = Duration::from_millis(600);
    /// Figures are updated every second.
    const FIGURES_WITHIN: Duration = Duration::from_millis(1_500);
    let _machine = together().await;
    let fleet = setup().nodes(1).start().await;
    let held = async || {
        let held = fleet.nodes()[0].figure("aliquot_loop_held_seconds_max");
        held.await
    };
    let before = until("the figure is there", SOON, held).await;
    assert!(before < 0.5, "{before} s at rest");
    // Four sessions name their keys, and the node is stopped while it reads them.
    let mut tries = 0;
    until(
        "a stop in the middle of a turn is seen",
        3 * SOON,
        async || {
            let mut sessions = Vec::new();
            for _ in 0..4 {
                sessions.push(Session::open(&fleet, 0).await);
            }
            for (number, session) in sessions.iter().enumerate() {
                session.brings_keys(&format!("{tries}-{number}-")).await;
            }
            tries += 1;
            tokio::time::sleep(Duration::from_millis(20 * tries)).await;
            fleet.signal(0, Signal::STOP);
            tokio::time::sleep(STOPPED).await;
            fleet.signal(0, Signal::CONT);
            let seen = async {
                while held().await.is_none_or(|held| held < 0.5) {
                    tokio::task::yield_now().await;
                }
            };
            tokio::time::timeout(FIGURES_WITHIN, seen).await.ok()
        },
    )
    .await;
    let worked = fleet.nodes()[0].figure("aliquot_loop_worked_seconds_max");
    let worked = worked.await.expect("a figure");
    assert!(worked < 0.5, "{worked} s, but it was stopped");
    let log = fleet.nodes()[0].log();
    const SAID: &str = "a turn of the loop that renews leases took long";
    let warns = log
        .lines()
        .any(|line| line.contains("WARN") && line.contains(SAID));
    assert!(warns, "{log}");
}

/// The alert for several versions counts the values of a label. The second version is a copy of the program with other
/// digits in its version.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_of_two_versions_are_told_apart() {
    let _machine = together().await;
    let mut fleet = setup().plan().await;
    let version = Command::new(fleet.program()).arg("--version").output();
    let version = String::from_utf8(version.unwrap().stdout).unwrap();
    let (_, version) = version.trim().rsplit_once(' ').unwrap();
    let later = version.replace(|c: char| c.is_ascii_digit(), "9");
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("aliquot");
    // For its permissions.
    std::fs::copy(fleet.program(), &copy).unwrap();
    let exchange = format!("s/{}/{later}/g", version.replace('.', "\\."));
    let exchanged = Command::new("sed")
        .env("LC_ALL", "C")
        .arg(exchange)
        .arg(fleet.program())
        .stdout(std::fs::File::create(&copy).unwrap())
        .status();
    assert!(exchanged.unwrap().success());
    let runs_copy = format!("exec {} \"$@\"", copy.display());
    fleet.node_mut(2).under(&["sh", "-c", &runs_copy]);
    for node in 0..3 {
        fleet.start(node);
    }
    fleet.serves().await;
    for (node, version) in fleet.nodes().iter().zip([version, version, &later]) {
        let line = format!("aliquot_build_info{{version=\"{version}\"}} 1");
        let metrics = node.metrics().await.unwrap();
        assert!(metrics.lines().any(|found| found == line), "{metrics}");
    }
}
