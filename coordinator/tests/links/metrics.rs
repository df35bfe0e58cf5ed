//! The metrics page stays small, and probes report the true state.

use aliquot_coordinator::api::connections::{Cause, Connections, Port, PortLimits};
use aliquot_coordinator::api::metrics::{FaceFigures, KeyUse, Snapshot, TOP_KEYS, render, router};
use axum::body::Body;
use http::Request;
use http_body_util::BodyExt;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::watch;
use tower::ServiceExt;

fn used(key: String, admitted_per_s: f64) -> KeyUse {
    KeyUse {
        key,
        admitted_per_s,
        held: 1.5,
    }
}

#[test]
fn ten_thousand_keys_are_a_page_of_twenty() {
    let few: Vec<KeyUse> = (0..20).map(|n| used(format!("t/{n}"), 1.0)).collect();
    let many: Vec<KeyUse> = (0..10_000)
        .map(|n| used(format!("t/{n}"), f64::from(n)))
        .collect();
    let page = |keys| {
        render(&Arc::new(Snapshot {
            keys,
            ..Snapshot::default()
        }))
    };
    let (few, many) = (page(few), page(many));
    assert_eq!(few.lines().count(), many.lines().count());
    let named = |page: &str| page.matches("aliquot_key_held{").count();
    assert_eq!((named(&few), named(&many)), (TOP_KEYS, TOP_KEYS));
    assert!(
        many.contains("aliquot_key_admitted_per_second{key=\"t/9999\"} 9999.0"),
        "{many}"
    );
    assert!(many.contains("{key=\"t/9980\"}") && !many.contains("{key=\"t/9979\"}"));
    assert!(many.ends_with("# EOF\n"));
}

#[test]
fn a_key_cannot_break_out_of_its_label() {
    let page = render(&Arc::new(Snapshot {
        keys: vec![used("a\"}b\\".into(), 1.0)],
        ..Snapshot::default()
    }));
    assert!(page.contains(r#"{key="a\"}b\\"} 1.5"#), "{page}");
}

/// Returns a snapshot in which no two figures are equal.
fn distinct() -> Snapshot {
    Snapshot {
        not_ready: Some("no lease".into()),
        is_removed: true,
        clock_ahead_s: 1.5,
        is_leader: true,
        term: 2,
        leader_changes: 3,
        applied: 4,
        applied_index: 5,
        rounds: 6,
        lease_left_s: 7.5,
        sessions: 8,
        streams: 9,
        refused: 10,
        moved: 11,
        reports: 12,
        answers: 13,
        budgets: 14,
        held: 15,
        peers: 16,
        round_trips_s: vec![(2, 0.042)],
        records: 17,
        loop_held_s: 18.5,
        loop_worked_s: 17.5,
        keys_waiting: 19,
        keys_shed: 20,
        keys: vec![KeyUse {
            key: "a".into(),
            admitted_per_s: 21.5,
            held: 22.5,
        }],
        ports: Vec::new(),
        faces: FaceFigures::default(),
    }
}

#[test]
fn every_figure_has_its_own_value() {
    let page = render(&Arc::new(distinct()));
    let figures: BTreeMap<&str, &str> = page
        .lines()
        .filter(|line| !line.starts_with('#') && !line.starts_with("aliquot_file_descriptors"))
        .filter(|line| !line.starts_with("aliquot_build_info"))
        .filter_map(|line| line.strip_prefix("aliquot_")?.split_once(' '))
        .collect();
    let expect = [
        ("answers_total", "13"),
        ("applied_entries_total", "4"),
        ("applied_index", "5.0"),
        ("budgets", "14.0"),
        ("budgets_held", "15.0"),
        ("gossip_records_total", "17"),
        ("key_admitted_per_second{key=\"a\"}", "21.5"),
        ("key_held{key=\"a\"}", "22.5"),
        ("keys_shed_total", "20"),
        ("keys_waiting", "19.0"),
        ("leader", "1.0"),
        ("leader_changes_total", "3"),
        ("lease_left_seconds", "7.5"),
        ("loop_held_seconds_max", "18.5"),
        ("loop_worked_seconds_max", "17.5"),
        ("peer_round_trip_seconds{peer=\"2\"}", "0.042"),
        ("peers", "16.0"),
        ("ready", "0.0"),
        ("removed", "1.0"),
        ("reports_total", "12"),
        ("rounds_total", "6"),
        ("sessions", "8.0"),
        ("sessions_moved_total", "11"),
        ("sessions_refused_total", "10"),
        ("streams", "9.0"),
        ("term", "2.0"),
        ("wall_clock_ahead_seconds", "1.5"),
    ];
    assert_eq!(figures, BTreeMap::from(expect));
}

#[test]
fn counters_and_gauges_have_their_names() {
    let page = render(&Arc::new(Snapshot {
        sessions: 7,
        reports: 9,
        ..Snapshot::default()
    }));
    assert!(page.contains("\naliquot_sessions 7.0\n"), "{page}");
    assert!(page.contains("\naliquot_reports_total 9\n"), "{page}");
    assert!(page.contains("\naliquot_ready 1.0\n"), "{page}");
    let version = env!("CARGO_PKG_VERSION");
    let info = format!("\naliquot_build_info{{version=\"{version}\"}} 1\n");
    assert!(page.contains(&info), "{page}");
}

#[test]
fn connections_are_counted_by_port_and_cause() {
    let limits = PortLimits {
        most: 9,
        per_address: 9,
    };
    let connections = Connections::new(Port::Peers, limits);
    let remote = "127.0.0.1:1".parse().unwrap();
    let _open = connections.admit(remote).unwrap();
    connections.refuse(Cause::Expired, remote);
    connections.refuse(Cause::NoRequest, remote);
    let page = render(&Arc::new(Snapshot {
        ports: vec![connections],
        round_trips_s: vec![(2, 0.042)],
        ..Snapshot::default()
    }));
    for line in [
        "aliquot_peer_round_trip_seconds{peer=\"2\"} 0.042",
        "aliquot_connections{port=\"peers\"} 1",
        "aliquot_connections_refused_total{port=\"peers\",cause=\"no_request\"} 1",
        "aliquot_connections_refused_total{port=\"peers\",cause=\"port_full\"} 0",
        "aliquot_tls_failures_total{port=\"peers\",cause=\"expired\"} 1",
    ] {
        assert!(
            page.contains(&format!("\n{line}\n")),
            "{page}\nlacks {line}"
        );
    }
    let allowed = "\naliquot_file_descriptors_allowed ";
    assert!(page.contains("\naliquot_file_descriptors ") && page.contains(allowed));
}

async fn get(snapshots: &watch::Receiver<Arc<Snapshot>>, path: &str) -> (u16, String) {
    let request = Request::get(path).body(Body::empty()).unwrap();
    let response = router(snapshots.clone()).oneshot(request).await.unwrap();
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn probes_say_whether_the_node_lives_and_serves() {
    let starting = Snapshot {
        not_ready: Some("no lease yet".into()),
        ..Snapshot::default()
    };
    let (actor, snapshots) = watch::channel(Arc::new(starting));
    assert_eq!(get(&snapshots, "/healthz").await, (200, "ok\n".into()));
    assert_eq!(
        get(&snapshots, "/readyz").await,
        (503, "no lease yet\n".into())
    );
    actor.send_replace(Arc::default());
    assert_eq!(get(&snapshots, "/readyz").await, (200, "ok\n".into()));
    assert!(
        get(&snapshots, "/metrics")
            .await
            .1
            .contains("aliquot_ready 1.0")
    );
    assert_eq!(get(&snapshots, "/other").await.0, 404);
    drop(actor);
    for path in ["/healthz", "/readyz"] {
        assert_eq!(
            get(&snapshots, path).await,
            (503, "the node has stopped\n".into())
        );
    }
}
