//! Files of `deploy/` that no process here reads: the paths and keys that they name exist.

use super::{certified, read, root};
use aliquot_coordinator::config::{Config, SETTINGS, Sources};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Allowed keys of the sections of a unit. systemd ignores a misspelt key.
const UNIT: &[(&str, &str)] = &[
    (
        "Unit",
        "Description Documentation Wants After StartLimitIntervalSec",
    ),
    (
        "Service",
        "Type ExecStart WorkingDirectory Environment EnvironmentFile DynamicUser Group StateDirectory \
         StateDirectoryMode RuntimeDirectory RuntimeDirectoryMode LoadCredential Restart RestartSec RestartPreventExitStatus KillSignal TimeoutStopSec LimitNOFILE \
         NoNewPrivileges ProtectSystem ProtectHome PrivateTmp PrivateDevices ProtectClock ProtectHostname \
         ProtectControlGroups ProtectKernelLogs ProtectKernelModules ProtectKernelTunables ProtectProc \
         ProcSubset CapabilityBoundingSet AmbientCapabilities LockPersonality MemoryDenyWriteExecute \
         RestrictAddressFamilies RestrictNamespaces RestrictRealtime RestrictSUIDSGID \
         SystemCallArchitectures SystemCallFilter UMask",
    ),
    ("Install", "WantedBy"),
];

/// Returns the configuration that a file of `deploy/` describes, with these environment variables.
fn config(file: &str, variables: &BTreeMap<String, String>) -> Config {
    for name in variables.keys() {
        let known = SETTINGS.iter().any(|setting| setting.variable() == *name);
        assert!(known, "{name} is no variable of a node");
    }
    let mut sources = Sources::default();
    sources.file(file, read(&format!("deploy/{file}")));
    sources.env(variables.clone());
    let loaded = Config::load(&sources).unwrap_or_else(|problems| panic!("{file}: {problems}"));
    loaded.config
}

#[test]
fn the_three_configurations_agree_on_their_cluster() {
    let nodes = [1, 2, 3].map(|node| config(&format!("node-{node}.toml"), &BTreeMap::new()));
    for node in &nodes {
        assert_eq!(node.cluster, nodes[0].cluster);
        let tls = node.tls.as_ref().unwrap();
        let certified = certified();
        let cert = tls.cert.file_stem().unwrap().to_str().unwrap();
        let (_, names) = certified.iter().find(|(file, _)| file == cert).unwrap();
        for name in [
            node.advertise.host(),
            node.peer_advertise.host(),
            &tls.peers[0],
        ] {
            assert!(names.iter().any(|own| own == name), "{cert} lacks {name}");
        }
    }
}

/// The lines of a unit by their key. Fails if systemd would not know one.
fn unit(text: &str) -> BTreeMap<&str, Vec<&str>> {
    let (mut section, mut directives) = ("", BTreeMap::<&str, Vec<&str>>::new());
    for line in text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']');
            continue;
        }
        let (key, value) = line.split_once('=').unwrap();
        let known = UNIT.iter().find(|(name, _)| *name == section).unwrap().1;
        let known = known.split_whitespace().any(|known| known == key);
        assert!(known, "[{section}] {key} is unknown");
        directives.entry(key).or_default().push(value);
    }
    directives
}

fn pair(line: &str) -> (String, String) {
    let (name, value) = line.split_once('=').unwrap();
    (name.to_owned(), value.to_owned())
}

#[test]
fn the_unit_says_only_what_systemd_knows_and_sets_only_what_a_node_knows() {
    let text = read("deploy/aliquot.service");
    let directives = unit(&text);
    assert_eq!(
        directives["ExecStart"],
        ["/usr/local/bin/aliquot serve --config /etc/aliquot/node.toml"]
    );
    let variables = directives["Environment"].iter().map(|line| {
        let (name, value) = pair(line);
        let value = value.replace("%S", "/var/lib");
        (name, value.replace("%d", "/run/credentials"))
    });
    let under_systemd = config("node-1.toml", &variables.collect());
    let state = format!("/var/lib/{}", directives["StateDirectory"][0]);
    assert!(under_systemd.data_dir.starts_with(state));
    let (credential, _) = directives["LoadCredential"][0].split_once(':').unwrap();
    assert!(under_systemd.tls.unwrap().key.ends_with(credential));
}

/// Returns the variables of the agent's unit and of its file, with these directories in place of systemd's.
pub(super) fn agent_variables(runtime: &Path, credentials: &Path) -> BTreeMap<String, String> {
    let text = read("deploy/aliquot-agent.service");
    let directives = unit(&text);
    assert_eq!(directives["ExecStart"], ["/usr/local/bin/aliquot agent"]);
    assert_eq!(directives["EnvironmentFile"], ["/etc/aliquot/agent.env"]);
    assert_eq!(directives["RuntimeDirectory"], ["aliquot"]);
    let (credential, key) = directives["LoadCredential"][0].split_once(':').unwrap();
    assert_eq!(Some(credential), key.rsplit('/').next());
    let file = read("deploy/agent.env");
    let file = file
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    let variables = directives["Environment"]
        .iter()
        .copied()
        .chain(file)
        .map(pair);
    let placed = variables.map(|(name, value)| {
        let value = value.replace("%t", runtime.to_str().unwrap());
        (name, value.replace("%d", credentials.to_str().unwrap()))
    });
    let placed: BTreeMap<_, _> = placed.collect();
    for name in placed.keys() {
        assert!(is_of_an_agent(name), "{name} is no variable of an agent");
    }
    placed
}

/// Returns true if an agent reads this variable: a setting of faces, or the connection to the nodes.
fn is_of_an_agent(name: &str) -> bool {
    let connection = [
        "ALIQUOT_ENDPOINTS",
        "ALIQUOT_CLI_TLS_CA",
        "ALIQUOT_CLI_TLS_CERT",
        "ALIQUOT_CLI_TLS_KEY",
    ];
    let setting = SETTINGS.iter().any(|setting| {
        let of_faces = setting.key.starts_with("faces.") || setting.key.starts_with("log.");
        let of_faces = of_faces || setting.key.starts_with("metrics_");
        of_faces && setting.variable() == name
    });
    setting || connection.contains(&name)
}

/// Returns true if a path below `deploy/` exists, or is created by the README.
fn is_there(path: &str) -> bool {
    let made = certified().into_iter();
    let made = made.flat_map(|(file, _)| [format!("tls/{file}.pem"), format!("tls/{file}.key")]);
    let made: BTreeSet<String> = made.chain(["tls/ca.pem".to_owned()]).collect();
    made.contains(path) || root().join("deploy").join(path).exists()
}

#[test]
fn the_composition_mounts_what_is_there_and_sets_only_what_a_node_knows() {
    let compose: Value = serde_saphyr::from_str(&read("deploy/compose.yaml")).unwrap();
    let services = compose["services"].as_object().unwrap();
    assert_eq!(services.len(), 3);
    for (name, service) in services {
        let context = root()
            .join("deploy")
            .join(service["build"]["context"].as_str().unwrap());
        let file = service["build"]["dockerfile"].as_str().unwrap();
        assert!(context.join(file).is_file(), "{file}");
        let mut mounted = BTreeSet::new();
        for volume in service["volumes"].as_array().unwrap() {
            let mut parts = volume.as_str().unwrap().split(':');
            let (from, to) = (parts.next().unwrap(), parts.next().unwrap());
            mounted.insert(to.to_owned());
            match from.strip_prefix("./") {
                Some(path) => assert!(is_there(path), "{path}"),
                None => assert!(compose["volumes"].get(from).is_some(), "{from}"),
            }
        }
        let environment = service["environment"].as_object().unwrap().iter();
        let environment = environment
            .map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned()))
            .collect();
        let node = config(&format!("{name}.toml"), &environment);
        assert_eq!(node.advertise.to_string(), format!("{name}:7001"));
        let tls = node.tls.unwrap();
        let probe: Vec<_> = service["healthcheck"]["test"]
            .as_array()
            .unwrap()
            .iter()
            .collect();
        for file in [tls.ca, tls.cert, tls.key] {
            let file = file.to_str().unwrap();
            assert!(mounted.contains(&format!("/etc/aliquot/{file}")), "{file}");
            assert!(
                probe.iter().any(|word| *word == file),
                "the probe lacks {file}"
            );
        }
        let certified = certified();
        let (_, names) = certified.iter().find(|(file, _)| file == name).unwrap();
        assert!(names.contains(name), "{name}'s certificate lacks its name");
    }
}

#[test]
fn the_container_file_copies_what_is_there() {
    let text = read("deploy/Containerfile");
    let mut copied = Vec::new();
    for line in text.lines().filter(|line| !line.contains("--from=")) {
        let Some(words) = line.strip_prefix("COPY ") else {
            continue;
        };
        let mut words: Vec<&str> = words.split(' ').collect();
        words.pop();
        copied.extend(words);
    }
    for path in &copied {
        assert!(root().join(path).exists(), "{path}");
    }
    // A workspace is built as a whole, so each of its members must exist.
    let workspace: Value = toml::from_str(&read("Cargo.toml")).unwrap();
    for member in workspace["workspace"]["members"].as_array().unwrap() {
        let top = member.as_str().unwrap().split('/').next().unwrap();
        assert!(copied.contains(&top), "{top} is not copied");
    }
    assert!(text.contains("FROM scratch"));
    // Envoy Gateway's Deployment has this command.
    assert!(text.contains("ln -s /aliquot /out/bin/ratelimit") && text.contains("/out/bin /bin"));
}

/// Returns the objects of a file of `deploy/kubernetes/`.
fn objects(file: &str) -> Vec<Value> {
    let text = read(&format!("deploy/kubernetes/{file}"));
    let documents = text.split("\n---\n");
    let read = documents.map(|document| serde_saphyr::from_str(document).unwrap());
    read.collect()
}

/// Returns the variables that a container sets, and those that it takes from its pod as `<name>`.
fn variables(container: &Value) -> BTreeMap<String, String> {
    let variables = container["env"].as_array().unwrap().iter();
    let variables = variables.map(|variable| {
        let name = variable["name"].as_str().unwrap().to_owned();
        let value = variable["value"].as_str().map(str::to_owned);
        let value = value.unwrap_or_else(|| format!("<{name}>"));
        (name, value)
    });
    variables.collect()
}

/// Fails unless each file that a container's variables name is in one of its volumes.
fn names_mounted_files(pod: &Value, container: &Value) {
    let volumes = pod["volumes"].as_array().unwrap();
    let mounts = container["volumeMounts"].as_array().unwrap();
    let mounted: Vec<&str> = mounts
        .iter()
        .map(|mount| mount["mountPath"].as_str().unwrap())
        .collect();
    for (name, value) in variables(container) {
        let path = value.strip_prefix("unix:").unwrap_or(&value);
        let there = mounted.iter().any(|folder| path.starts_with(folder));
        assert!(!path.starts_with('/') || there, "{name}: {path}");
    }
    for mount in mounts {
        let name = &mount["name"];
        let known = volumes.iter().any(|volume| volume["name"] == *name);
        assert!(known || name == "data", "no volume {name}");
    }
}

#[test]
fn the_nodes_of_the_manifests_set_only_what_a_node_knows() {
    let objects = objects("cluster.yaml");
    let of_kind = |kind: &'static str| objects.iter().filter(move |object| object["kind"] == kind);
    let set = of_kind("StatefulSet").next().unwrap();
    let pod = &set["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    assert_eq!(container["args"], serde_json::json!(["serve"]));
    names_mounted_files(pod, container);
    let service = set["spec"]["serviceName"].as_str().unwrap();
    let mut names = Vec::new();
    for replica in 0..set["spec"]["replicas"].as_u64().unwrap() {
        let own = format!("{}-{replica}", set["metadata"]["name"].as_str().unwrap());
        let mut variables = variables(container);
        assert_eq!(variables.remove("POD_NAME").as_deref(), Some("<POD_NAME>"));
        for value in variables.values_mut() {
            *value = value.replace("$(POD_NAME)", &own);
        }
        let node = config("node-1.toml", &variables);
        assert_eq!(node.advertise.to_string(), format!("{own}.{service}:7001"));
        assert!(node.cluster.peers.contains(&node.peer_advertise), "{own}");
        names.push(format!("{own}.{service}"));
    }
    let headless = of_kind("Service").find(|object| object["metadata"]["name"] == service);
    assert_eq!(headless.unwrap()["spec"]["clusterIP"], "None");
    let readme = read("deploy/README.md");
    for name in names {
        assert!(
            readme.contains(&format!("DNS:{name}")),
            "no certificate for {name}"
        );
    }
}

#[test]
fn the_agents_of_the_manifests_set_only_what_an_agent_knows() {
    for file in ["agent-daemonset.yaml", "agent-sidecar.yaml"] {
        let objects = objects(file);
        let pod = &objects[0]["spec"]["template"]["spec"];
        let init = pod.get("initContainers").unwrap_or(&pod["containers"]);
        let agent = &init[0];
        assert_eq!(agent["args"], serde_json::json!(["agent"]), "{file}");
        names_mounted_files(pod, agent);
        let (_, port) = variables(agent)["ALIQUOT_METRICS_LISTEN"]
            .rsplit_once(':')
            .map(|(host, port)| (host.to_owned(), port.to_owned()))
            .unwrap();
        assert_eq!(
            agent["ports"][0]["containerPort"].to_string(),
            port,
            "{file}"
        );
        probes(
            agent,
            [("startupProbe", "/healthz"), ("livenessProbe", "/healthz")],
        );
        // The readiness of a sidecar is that of its whole pod, which must not end with the agent's lease.
        match init == &pod["containers"] {
            true => probes(agent, [("readinessProbe", "/readyz")]),
            false => assert!(agent.get("readinessProbe").is_none(), "{file}"),
        }
        for name in variables(agent).keys() {
            assert!(
                is_of_an_agent(name),
                "{file}: {name} is no variable of an agent"
            );
        }
    }
}

/// Fails unless these probes ask a port of the container at these paths.
fn probes<const N: usize>(container: &Value, expect: [(&str, &str); N]) {
    let ports = container["ports"].as_array().unwrap();
    for (probe, path) in expect {
        let get = &container[probe]["httpGet"];
        assert_eq!(get["path"], path, "{probe}");
        assert!(
            ports.iter().any(|port| port["name"] == get["port"]),
            "{probe}"
        );
    }
}

/// Returns true if `aliquot rls` reads this variable.
fn is_of_rls(name: &str) -> bool {
    let connection = [
        "ALIQUOT_ENDPOINTS",
        "ALIQUOT_CLI_TLS_CA",
        "ALIQUOT_CLI_TLS_CERT",
        "ALIQUOT_CLI_TLS_KEY",
    ];
    let help = include_str!("../../src/cli/rls.rs");
    let is_word = |word: &str| word.trim_matches(|it: char| !it.is_ascii_uppercase()) == name;
    connection.contains(&name) || help.split([' ', ',', ';', '\n']).any(is_word)
}

#[test]
fn the_rate_limit_service_is_set_up_with_what_it_knows() {
    let objects = objects("rls.yaml");
    let deployment = objects
        .iter()
        .find(|object| object["kind"] == "Deployment")
        .unwrap();
    let pod = &deployment["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    assert_eq!(container["args"], serde_json::json!(["rls", "--compat"]));
    probes(container, [("readinessProbe", "/healthcheck")]);
    assert_eq!(container["startupProbe"]["tcpSocket"]["port"], "http");
    let text = read("deploy/aliquot-rls.service");
    let directives = unit(&text);
    assert_eq!(
        directives["ExecStart"],
        ["/usr/local/bin/aliquot rls --compat"]
    );
    assert_eq!(directives["EnvironmentFile"], ["/etc/aliquot/rls.env"]);
    let file = read("deploy/rls.env");
    let file = file
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    let of_unit = directives["Environment"]
        .iter()
        .copied()
        .chain(file)
        .map(|line| pair(line).0);
    for name in variables(container).into_keys().chain(of_unit) {
        assert!(is_of_rls(&name), "{name} is no variable of `aliquot rls`");
    }
    assert!(!is_of_rls("RUNTIME_ROOTS"));
}
