//! Files of `deploy/` that no process here reads: the paths and keys that they name exist.

use super::{certified, read, root};
use aliquot_coordinator::config::{Config, SETTINGS, Sources};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Allowed keys of the sections of a unit. systemd ignores a misspelt key.
const UNIT: &[(&str, &str)] = &[
    (
        "Unit",
        "Description Documentation Wants After StartLimitIntervalSec",
    ),
    (
        "Service",
        "Type ExecStart WorkingDirectory Environment DynamicUser StateDirectory StateDirectoryMode \
         LoadCredential Restart RestartSec RestartPreventExitStatus KillSignal TimeoutStopSec LimitNOFILE \
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

#[test]
fn the_unit_says_only_what_systemd_knows_and_sets_only_what_a_node_knows() {
    let unit = read("deploy/aliquot.service");
    let (mut section, mut said) = ("", BTreeMap::<&str, Vec<&str>>::new());
    for line in unit
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
        said.entry(key).or_default().push(value);
    }
    assert_eq!(
        said["ExecStart"],
        ["/usr/local/bin/aliquot serve --config /etc/aliquot/node.toml"]
    );
    let variables = said["Environment"].iter().map(|line| {
        let (name, value) = line.split_once('=').unwrap();
        let value = value
            .replace("%S", "/var/lib")
            .replace("%d", "/run/credentials");
        (name.to_owned(), value)
    });
    let under_systemd = config("node-1.toml", &variables.collect());
    let state = format!("/var/lib/{}", said["StateDirectory"][0]);
    assert!(under_systemd.data_dir.starts_with(state));
    let (credential, _) = said["LoadCredential"][0].split_once(':').unwrap();
    assert!(under_systemd.tls.unwrap().key.ends_with(credential));
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
}
