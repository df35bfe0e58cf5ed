//! The configuration of a node: sources, precedence, and errors.

use aliquot_client::http::{Fields, LimitFields, Reset};
use aliquot_coordinator::config::{
    Address, ClientCerts, ClientName, Config, FaceAddress, FaceFlags, Flags, Loaded, Problems,
    SETTINGS, Security, Sources, lease_needs,
};
use aliquot_core::unit::Span;
use aliquot_faces::{Face, Uncovered};
use std::time::Duration;

fn sources(file: &str, env: &[(&str, &str)], flags: &[(&str, &str)]) -> Sources {
    let mut sources = Sources::default();
    sources.file("node.toml", file);
    let env = env.iter().map(|&(name, text)| (name.into(), text.into()));
    sources.env(env);
    let mut given = Flags::default();
    for (key, text) in flags {
        assert!(given.add(key, text), "{key}");
    }
    sources.flags(given);
    sources
}

fn load(file: &str) -> Result<Loaded, Problems> {
    Config::load(&sources(file, &[], &[]))
}

#[track_caller]
fn check_refused(file: &str, expect: &[&str]) {
    let problems = load(file).expect_err("it must be refused");
    let messages: Vec<String> = problems.0.iter().map(ToString::to_string).collect();
    assert_eq!(messages.len(), expect.len(), "{messages:#?}");
    for (message, expect) in messages.iter().zip(expect) {
        assert!(message.contains(expect), "{message}\nlacks {expect}");
    }
}

#[test]
fn the_defaults_are_a_whole_configuration() {
    let loaded = Config::load(&Sources::default()).unwrap();
    let config = &loaded.config;
    assert_eq!(config.listen.to_string(), "127.0.0.1:7001");
    assert_eq!(
        config.cluster.peers,
        std::slice::from_ref(&config.peer_advertise)
    );
    assert_eq!(config.pace.lease, Span::from_secs(3));
    assert_eq!(config.tls, None);
    assert_eq!(config.security, Security::Strict);
    assert!(loaded.warnings.is_empty());
}

#[test]
fn a_port_has_room_for_all_sessions_a_quarter_more_and_64() {
    let clients = |file| load(file).unwrap().config.connections.clients;
    assert_eq!(clients("[session]\nmax = 1000\n"), 1_314);
    assert_eq!(clients("connections.clients = 99"), 99);
}

#[test]
fn an_address_has_so_many_bytes_and_no_more() {
    const MOST: usize = aliquot_wire::limits::ADDRESS_BYTES_MAX;
    let address = |bytes: usize| format!("{}:7001", "a".repeat(bytes - 5));
    let read = |bytes| address(bytes).parse::<Address>();
    assert_eq!(read(MOST).unwrap().to_string(), address(MOST));
    assert!(read(MOST + 1).is_err());
}

#[test]
fn an_entry_to_skip_is_named_by_index_and_checksum() {
    let loaded = load("skip_entry = [\"7:00000000000000ff\"]").unwrap();
    assert_eq!(
        loaded.config.skip_entry[0].to_string(),
        "7:00000000000000ff"
    );
    let expect = "skip_entry = \"7\" (node.toml:1) must be INDEX:CHECKSUM";
    check_refused("skip_entry = [\"7\"]", &[expect]);
}

#[test]
fn a_flag_goes_before_a_variable_before_the_file_before_the_default() {
    let file = "listen = \"127.0.0.1:1\"\nlease = \"4s\"\n\n[session]\nmax = 7\n";
    let env = [
        ("ALIQUOT_LISTEN", "127.0.0.1:2"),
        ("ALIQUOT_LEASE", "5s"),
        ("PATH", "/bin"),
    ];
    let loaded = Config::load(&sources(file, &env, &[("listen", "127.0.0.1:3")])).unwrap();
    let config = &loaded.config;
    assert_eq!(config.listen.port(), 3);
    assert_eq!(config.pace.lease, Span::from_secs(5));
    assert_eq!(config.session.most, 7);
    let origin = |key| loaded.origin(key).unwrap().to_string();
    assert_eq!(origin("listen"), "--listen");
    assert_eq!(origin("lease"), "ALIQUOT_LEASE");
    assert_eq!(origin("session.max"), "node.toml:5");
    assert_eq!(origin("heartbeat"), "default");
}

#[test]
fn what_is_printed_reads_back_as_the_same_configuration() {
    let file = "cluster.id = \"shop\"\npeer_listen = \"127.0.0.1:9\"\nmetrics_listen = \"off\"\n\
                cluster.peers = [\"127.0.0.1:9\", \"node-b:9\"]\nsnapshot_every = 1_000\n";
    let loaded = load(file).unwrap();
    let again = load(&loaded.to_string()).unwrap();
    assert_eq!(again.config, loaded.config);
    let json = loaded.to_json();
    assert_eq!(json.as_object().unwrap().len(), SETTINGS.len());
    assert_eq!(json["cluster.id"]["value"], "shop");
    assert_eq!(json["cluster.id"]["origin"], "node.toml:1");
    assert_eq!(json["tls.cert"]["value"], serde_json::Value::Null);
}

#[test]
fn an_unknown_key_is_refused_with_its_line_and_what_was_meant() {
    check_refused(
        "\nleese = \"3s\"\n[cluster]\nid = \"x\"\npears = []\n[zebra]\nstripes = 3\n",
        &[
            r#"cluster.pears (node.toml:5) is not a setting; did you mean "cluster.peers"?"#,
            r#"leese (node.toml:2) is not a setting; did you mean "lease"?"#,
            "zebra (node.toml:6) is not a setting; `aliquot serve --print-config` shows all settings",
        ],
    );
    check_refused(
        "id = \"x\"",
        &[r#"id (node.toml:1) is not a setting; did you mean "cluster.id"?"#],
    );
    check_refused("tls = 3", &["tls (node.toml:1) must be a table"]);
    check_refused(
        "lease = \"3s\nlisten = 4",
        &["the file (node.toml:1) is not TOML"],
    );
}

/// The setting decides, and not the types of TOML.
#[test]
fn a_value_of_another_type_is_reported_with_what_its_setting_allows() {
    check_refused(
        "lease = 1e3\nlog.format = true\ninsecure = 1\nsnapshot_every = 99_999_999_999_999_999_999\n\
         session.max = 1979-05-27\ndata_dir = [\"a\", \"b\"]\ncluster.peers = [[\"a:1\"]]",
        &[
            r#"cluster.peers = "[[\"a:1\"]]" (node.toml:7) must be a list, each item one HOST:PORT"#,
            r#"data_dir = "[\"a\", \"b\"]" (node.toml:6) must be one DIR"#,
            r#"lease = "1e3" (node.toml:1) must be a span from 200ms to 1h"#,
            r#"snapshot_every = "99999999999999999999" (node.toml:4) must be a whole number from 100"#,
            r#"session.max = "1979-05-27" (node.toml:5) must be a whole number from 1 to 1000000"#,
            r#"log.format = "true" (node.toml:2) must be pretty or json"#,
            r#"insecure = "1" (node.toml:3) must be true or false"#,
        ],
    );
}

#[test]
fn an_empty_item_of_a_list_is_refused_and_an_empty_list_is_not() {
    let empty = |env: &[_], flags: &[_]| {
        let problems = Config::load(&sources("", env, flags)).expect_err("it must be refused");
        problems.0[0].to_string()
    };
    for text in [
        ",,",
        ",",
        "127.0.0.1:7101,",
        "127.0.0.1:7101,,a:1",
        " ,127.0.0.1:7101",
    ] {
        let items = text.matches(',').count() + 1;
        let reported = empty(&[("ALIQUOT_CLUSTER_PEERS", text)], &[]);
        let value = format!("{:?}", text.trim());
        let begin =
            format!("cluster.peers = {value} (ALIQUOT_CLUSTER_PEERS) has an empty item, number ");
        assert!(reported.starts_with(&begin), "{reported}");
        let end = format!(" of {items}: each must be HOST:PORT");
        assert!(reported.ends_with(&end), "{reported}");
        let reported = empty(&[], &[("cluster.peers", text)]);
        assert!(
            reported.contains("(--cluster-peers) has an empty item"),
            "{reported}"
        );
    }
    check_refused(
        "faces.rules = [\"any:a -> b\", \" \"]\ntls.admins = [\"\"]",
        &[
            "(node.toml:1) has an empty item, number 2 of 2: each must be RULE",
            "(node.toml:2) has an empty item, number 1 of 1",
        ],
    );
    for text in ["", " "] {
        let env = [("ALIQUOT_CLUSTER_PEERS", text)];
        let loaded = Config::load(&sources("cluster.peers = []", &env, &[])).unwrap();
        assert_eq!(loaded.config.cluster.peers.len(), 1);
    }
}

#[test]
fn every_wrong_value_is_reported_at_once() {
    check_refused(
        "listen = \"nowhere\"\nlease = \"3 parsecs\"\ndrift_ppm = -1\ninsecure = \"maybe\"\n\
         snapshot_every = 3.5\ncluster.peers = [\"a:0\", \"127.0.0.1:7101\"]\nlog.format = \"xml\"\nlog.filter = \"a=loud\"",
        &[
            r#"listen = "nowhere" (node.toml:1) must be IP:PORT"#,
            r#"cluster.peers = "a:0" (node.toml:6) must be HOST:PORT"#,
            r#"lease = "3 parsecs" (node.toml:2) must be a span from 200ms to 1h"#,
            r#"drift_ppm = "-1" (node.toml:3) must be a whole number from 0 to 100000"#,
            r#"snapshot_every = "3.5" (node.toml:5) must be a whole number from 100 to 100000000"#,
            r#"log.format = "xml" (node.toml:7) must be pretty or json"#,
            r#"log.filter = "a=loud" (node.toml:8) must be a filter"#,
            r#"insecure = "maybe" (node.toml:4) must be true or false"#,
        ],
    );
}

#[test]
fn a_lease_must_outlast_a_leader_change() {
    check_refused(
        "lease = \"2950ms\"",
        &["3 × report_every + 2 × election_max + 5 × round_trip + 5/4 × heartbeat = 2987500us"],
    );
    let mut pace = load("").unwrap().config.pace;
    assert_eq!(lease_needs(&pace), Ok(()));
    pace.lease = Span::from_millis(3_000);
    assert_eq!(lease_needs(&pace), Ok(()));
    pace.lease = Span::from_millis(2_999);
    assert!(lease_needs(&pace).is_err());
    check_refused(
        "heartbeat = \"60ms\"\nelection_min = \"100ms\"\nelection_max = \"100ms\"",
        &["election_min", "election_min", "heartbeat"],
    );
}

#[test]
fn elections_and_the_lease_follow_the_round_trip() {
    let check = |text: &str, expect: [u64; 4]| {
        let pace = load(text).unwrap().config.pace;
        assert_eq!(lease_needs(&pace), Ok(()), "{text}");
        let found = [
            pace.heartbeat,
            pace.election_min,
            pace.election_max,
            pace.lease,
        ];
        assert_eq!(found, expect.map(Span::from_millis), "{text}");
    };
    check("", [150, 300, 600, 3_000]);
    check("round_trip = \"5ms\"", [150, 300, 600, 3_000]);
    check("round_trip = \"150ms\"", [200, 400, 800, 4_000]);
    check("round_trip = \"250ms\"", [340, 680, 1_360, 6_000]);
    check(
        "heartbeat = \"60ms\"\nround_trip = \"45ms\"",
        [60, 300, 600, 3_000],
    );
    check("election_min = \"500ms\"", [150, 500, 1_000, 4_000]);
    check(
        "round_trip = \"150ms\"\nlease = \"9s\"",
        [200, 400, 800, 9_000],
    );
    let shown = load("round_trip = \"150ms\"").unwrap().to_json();
    assert_eq!(shown["lease"]["value"], "4s");
    assert_eq!(shown["lease"]["origin"], "default");
}

#[test]
fn the_peers_contain_the_node_itself() {
    check_refused(
        "cluster.peers = [\"a:1\", \"b:1\"]",
        &[r#"must contain this node's own peer_advertise = "127.0.0.1:7101""#],
    );
    check_refused(
        "cluster.peers = [\"127.0.0.1:7101\", \"127.0.0.1:7101\"]",
        &["is listed twice"],
    );
    check_refused(
        "listen = \"127.0.0.1:5\"\npeer_listen = \"127.0.0.1:5\"",
        &["is already the address of listen"],
    );
}

#[test]
fn off_loopback_plaintext_must_be_accepted_in_so_many_words() {
    let open = "listen = \"0.0.0.0:7001\"\nadvertise = \"node-1:7001\"\n";
    check_refused(
        open,
        &["listen = \"0.0.0.0:7001\" (node.toml:1) is not a loopback address"],
    );
    check_refused(
        "listen = \"0.0.0.0:7001\"\ninsecure = true",
        &["because no other host can connect to listen = \"0.0.0.0:7001\""],
    );
    let config = load(&format!("{open}insecure = true")).unwrap().config;
    assert_eq!(config.security, Security::Insecure);
    assert_eq!(config.advertise.to_string(), "node-1:7001");
    let tls = "[tls]\ncert = \"c\"\nkey = \"k\"\nca = \"a\"\n";
    let config = load(&format!("{open}{tls}")).unwrap().config;
    let tls_read = config.tls.unwrap();
    assert_eq!(tls_read.client_certs, ClientCerts::Required);
    assert_eq!(tls_read.peers, ["127.0.0.1"]);
    let client = |name: &str, prefixes: &[&str]| ClientName {
        name: name.to_owned(),
        prefixes: prefixes.iter().map(|&prefix| prefix.to_owned()).collect(),
    };
    assert_eq!(tls_read.clients, [client("*", &[])]);
    let confined = format!("{tls}clients = [\"ops.example\", \"10.0.0.9  tenant/42 jobs\"]");
    let confined = load(&confined).unwrap().config.tls.unwrap();
    assert_eq!(
        confined.clients,
        [
            client("ops.example", &[]),
            client("10.0.0.9", &["tenant/42", "jobs"])
        ]
    );
    check_refused(
        &format!("{tls}clients = [\"*\", \"billing.example tenant/42\"]"),
        &[
            "tls.clients = \"*\" (node.toml:5) must not be listed together with a name that has prefixes",
        ],
    );
    for wrong in ["a b*", "a /b", "not_a-host!", "* tenant/"] {
        let expect = format!(
            "tls.clients = {wrong:?} (node.toml:5) must be a DNS name, an IP address, or * for any"
        );
        check_refused(&format!("{tls}clients = [{wrong:?}]"), &[&expect]);
    }
    check_refused(
        "[tls]\ncert = \"c\"",
        &["tls.key = \"\"", "tls.ca = \"\" (default) must be given"],
    );
    check_refused(
        &format!("{tls}require_client_cert = false"),
        &["needs tokens"],
    );
}

#[test]
fn faces_are_off_unless_they_have_an_address() {
    assert!(load("").unwrap().config.faces.listen.is_empty());
    let file = "[faces]\nhttp_listen = \"localhost:7301\"\ngrpc_listen = \"unix:/run/x.sock\"\n\
                redis_listen = \"127.0.0.1:7303\"\nrlqs_listen = \"127.0.0.1:7304\"\n\
                rules = [\"redis:cl/* -> cl/*\"]";
    let faces = load(file).unwrap().config.faces;
    let path = "/run/x.sock".into();
    assert_eq!(faces.listen[&Face::Grpc], FaceAddress::Unix(path));
    assert_eq!(faces.listen[&Face::Http].to_string(), "127.0.0.1:7301");
    assert_eq!(faces.listen[&Face::Redis].to_string(), "127.0.0.1:7303");
    assert_eq!(faces.listen[&Face::Rlqs].to_string(), "127.0.0.1:7304");
    assert_eq!(faces.uncovered, Uncovered::Allow);
    let mapped = faces.rules.budget_key(Face::Redis, b"cl/7").unwrap();
    assert_eq!(mapped.key, "cl/7");
    check_refused(
        "[faces]\nhttp_listen = \"0.0.0.0:7301\"",
        &["faces.http_listen = \"0.0.0.0:7301\" (node.toml:2) is not a loopback address"],
    );
    check_refused(
        "[faces]\nhttp_listen = \"127.0.0.1:7001\"",
        &["is already the address of listen"],
    );
    check_refused(
        "[faces]\nhttp_listen = \"7301\"\nrules = [\"x\"]",
        &["must be IP:PORT", "must be FACE:PATTERN -> KEY"],
    );
    let denied = load("[faces]\nrlqs_uncovered = \"deny\"").unwrap().config;
    assert_eq!(denied.faces.uncovered, Uncovered::Deny);
    check_refused(
        "[faces]\nrlqs_listen = \"0.0.0.0:7304\"\nrlqs_uncovered = \"maybe\"",
        &["faces.rlqs_uncovered = \"maybe\" (node.toml:3) must be allow or deny"],
    );
    check_refused(
        "[faces]\nrlqs_listen = \"0.0.0.0:7304\"",
        &["faces.rlqs_listen = \"0.0.0.0:7304\" (node.toml:2) is not a loopback address"],
    );
}

#[test]
fn metrics_off_loopback_must_be_accepted_in_so_many_words() {
    let tls = "[tls]\ncert = \"c\"\nkey = \"k\"\nca = \"a\"\n";
    let open = "metrics_listen = \"0.0.0.0:7201\"\n";
    for more in ["", tls] {
        check_refused(
            &format!("{open}{more}"),
            &["metrics_listen = \"0.0.0.0:7201\" (node.toml:1) is not a loopback address"],
        );
        let accepted = load(&format!("{open}metrics_open = true\n{more}")).unwrap();
        assert_eq!(accepted.config.metrics_security, Security::Insecure);
        assert_eq!(accepted.config.security, Security::Strict);
    }
    load("metrics_listen = \"off\"").unwrap();
    load(&format!("{open}insecure = true")).unwrap();
}

#[test]
fn an_unknown_variable_is_reported_and_stops_no_node() {
    let env = [
        ("ALIQUOT_LISEN", "x"),
        ("ALIQUOT_ENDPOINTS", "y"),
        ("ALIQUOT_PORT_7001_TCP_ADDR_PROTO", "z"),
    ];
    let loaded = Config::load(&sources("", &env, &[])).unwrap();
    assert_eq!(
        loaded.warnings,
        ["the variable ALIQUOT_LISEN is not a setting; did you mean ALIQUOT_LISTEN?"]
    );
}

#[test]
fn every_setting_has_a_flag_and_a_variable_of_its_own() {
    let mut names: Vec<_> = SETTINGS.iter().map(|setting| setting.flag()).collect();
    names.extend(SETTINGS.iter().map(|setting| setting.variable()));
    let all = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), all);
}

#[test]
fn an_agent_serves_no_metrics_unless_it_is_reported_to() {
    let listen = |variables: &[(&str, &str)]| {
        let mut sources = Sources::default();
        for (key, text) in FaceFlags::DEFAULTS {
            sources.default_of(key, text);
        }
        let pair = |(name, text): &(&str, &str)| ((*name).to_owned(), (*text).to_owned());
        sources.env(variables.iter().map(pair));
        let loaded = Config::load(&sources).expect("a configuration");
        loaded.config.metrics_listen.map(|at| at.to_string())
    };
    assert_eq!(listen(&[]), None);
    let set = [("ALIQUOT_METRICS_LISTEN", "127.0.0.1:7202")];
    assert_eq!(listen(&set).as_deref(), Some("127.0.0.1:7202"));
}

#[test]
fn the_header_fields_of_the_http_face_are_read() {
    let http = |file| load(file).unwrap().config.faces.http;
    assert_eq!(http(""), LimitFields::default());
    let file = "[faces]\nhttp_fields = \"both\"\nhttp_reset = \"epoch\"\nhttp_jitter = \"2500ms\"";
    let expect = LimitFields {
        fields: Fields::Both,
        reset: Reset::Epoch,
        jitter: Duration::from_millis(2_500),
    };
    assert_eq!(http(file), expect);
    check_refused(
        "[faces]\nhttp_fields = \"x\"\nhttp_reset = \"soon\"\nhttp_jitter = \"2h\"",
        &[
            "faces.http_fields = \"x\" (node.toml:2) must be standard, legacy, both or none",
            "faces.http_reset = \"soon\" (node.toml:3) must be delta or epoch",
            "faces.http_jitter = \"2h\" (node.toml:4) must be a span from 0ns to 1h",
        ],
    );
}
