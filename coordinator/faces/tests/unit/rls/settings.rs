use super::*;

fn read(variables: &[(&str, &str)]) -> Result<Compat, Vec<String>> {
    let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let variables: Vec<_> = variables.iter().map(pair).collect();
    Compat::read(&variables)
}

#[test]
fn without_variables_ports_and_paths_are_those_of_the_reference_server() {
    let it = read(&[]).unwrap();
    assert_eq!(
        (it.grpc.as_str(), it.http.as_str()),
        ("0.0.0.0:8081", "0.0.0.0:8080")
    );
    assert_eq!(
        (it.debug.as_str(), it.prometheus.as_str()),
        ("0.0.0.0:6070", "0.0.0.0:19001")
    );
    let directory = "/srv/runtime_data/current/config".into();
    let files = Source::Files {
        directory,
        ignore_dot_files: false,
    };
    assert_eq!(it.source, files);
    assert_eq!(it.service, Settings::default());
    assert!(it.tls.is_none() && it.ignored.is_empty() && !it.start_without_rules);
}

#[test]
fn variables_are_read_and_those_of_the_storage_are_ignored() {
    let it = read(&[
        ("RUNTIME_ROOT", "/data"),
        ("RUNTIME_SUBDIRECTORY", "ratelimit"),
        ("RUNTIME_IGNOREDOTFILES", "true"),
        ("GRPC_HOST", "::1"),
        ("GRPC_PORT", "9001"),
        ("PROMETHEUS_ADDR", ":9102"),
        ("SHADOW_MODE", "true"),
        ("LIMIT_RESPONSE_HEADERS_ENABLED", "1"),
        ("LIMIT_RESET_HEADER", "x-reset"),
        ("GRPC_SERVER_USE_TLS", "true"),
        ("ALIQUOT_RLS_KEYS", "4096"),
        ("ALIQUOT_RLS_MAX_KEYS", "2000"),
        ("REDIS_URL", "redis:6379"),
        ("USE_STATSD", "false"),
        ("HOME", "x"),
    ])
    .unwrap();
    let directory = "/data/ratelimit/config".into();
    let files = Source::Files {
        directory,
        ignore_dot_files: true,
    };
    assert_eq!(it.source, files);
    assert_eq!(
        (it.grpc.as_str(), it.prometheus.as_str()),
        ("[::1]:9001", "0.0.0.0:9102")
    );
    assert_eq!((it.keys, it.reading.max_keys), (4_096, Some(2_000)));
    assert!(it.service.shadow);
    assert_eq!(it.service.headers.unwrap().reset, "x-reset");
    assert_eq!(it.tls.unwrap().cert, PathBuf::from("/certs/tls.crt"));
    assert_eq!(it.ignored, ["REDIS_URL", "USE_STATSD"]);
}

#[test]
fn every_wrong_value_is_told() {
    let problems = read(&[
        ("ALIQUOT_RLS_KEYS", "63"),
        ("GRPC_UDS", "/run/x"),
        ("CONFIG_TYPE", "GRPC_XDS_DELTA"),
        ("SHADOW_MODE", "maybe"),
        ("PORT", "http"),
    ]);
    let expect = [
        r#"ALIQUOT_RLS_KEYS = "63": must be a number from 64 to 16384"#,
        r#"CONFIG_TYPE = "GRPC_XDS_DELTA": must be FILE or GRPC_XDS_SOTW"#,
        r#"GRPC_UDS = "/run/x": is not supported: set GRPC_HOST and GRPC_PORT"#,
        r#"PORT = "http": must be a port from 0 to 65535"#,
        r#"SHADOW_MODE = "maybe": must be true or false"#,
    ];
    let mut problems = problems.unwrap_err();
    problems.sort();
    assert_eq!(problems, expect);
}

fn management_server(variables: &[(&str, &str)]) -> Result<ManagementServer, Vec<String>> {
    let variables = [&[("CONFIG_TYPE", "GRPC_XDS_SOTW")], variables].concat();
    match read(&variables)?.source {
        Source::Xds(server) => Ok(*server),
        source @ Source::Files { .. } => panic!("{source:?}"),
    }
}

/// Every name that its deployment of the rate limit service has in 2026, those of options included.
#[test]
fn all_variables_that_envoy_gateway_sets_are_accepted() {
    let it = read(&[
        ("RUNTIME_ROOT", "/data"),
        ("RUNTIME_SUBDIRECTORY", "ratelimit"),
        ("RUNTIME_IGNOREDOTFILES", "true"),
        ("RUNTIME_WATCH_ROOT", "false"),
        ("LOG_LEVEL", "info"),
        ("USE_STATSD", "false"),
        ("STATSD_PORT", "9125"),
        ("CONFIG_TYPE", "GRPC_XDS_SOTW"),
        ("CONFIG_GRPC_XDS_SERVER_URL", "envoy-gateway:18001"),
        ("CONFIG_GRPC_XDS_NODE_ID", "envoy-ratelimit"),
        ("GRPC_SERVER_USE_TLS", "true"),
        ("GRPC_SERVER_TLS_CERT", "/certs/tls.crt"),
        ("GRPC_SERVER_TLS_KEY", "/certs/tls.key"),
        ("GRPC_SERVER_TLS_CA_CERT", "/certs/ca.crt"),
        ("CONFIG_GRPC_XDS_SERVER_USE_TLS", "true"),
        ("CONFIG_GRPC_XDS_CLIENT_TLS_CERT", "/certs/tls.crt"),
        ("CONFIG_GRPC_XDS_CLIENT_TLS_KEY", "/certs/tls.key"),
        ("CONFIG_GRPC_XDS_SERVER_TLS_CACERT", "/certs/ca.crt"),
        ("FORCE_START_WITHOUT_INITIAL_CONFIG", "true"),
        ("REDIS_SOCKET_TYPE", "tcp"),
        ("REDIS_URL", "redis:6379"),
        ("REDIS_TLS", "true"),
        ("REDIS_TLS_CLIENT_CERT", "/redis-certs/tls.crt"),
        ("REDIS_TLS_CLIENT_KEY", "/redis-certs/tls.key"),
        ("USE_PROMETHEUS", "true"),
        ("PROMETHEUS_ADDR", ":19001"),
        ("PROMETHEUS_MAPPER_YAML", "/etc/statsd-exporter/conf.yaml"),
        ("TRACING_ENABLED", "true"),
        ("TRACING_SERVICE_NAME", "envoy-ratelimit"),
        ("TRACING_SERVICE_NAMESPACE", "envoy-gateway-system"),
        ("TRACING_SERVICE_INSTANCE_ID", "envoy-ratelimit-0"),
        ("TRACING_SAMPLING_RATE", "0.1"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://otel:4317"),
    ])
    .unwrap();
    assert!(it.start_without_rules);
    // A caller of the service needs no certificate, as with the reference server.
    assert_eq!(it.tls.unwrap().ca, None);
    let expect = ManagementServer {
        address: "envoy-gateway:18001".into(),
        tls: Some(ManagementTls {
            ca: "/certs/ca.crt".into(),
            identity: Some(("/certs/tls.crt".into(), "/certs/tls.key".into())),
            name: None,
        }),
        node: "envoy-ratelimit".into(),
        metadata: Vec::new(),
        headers: HeaderMap::new(),
        message_max: MESSAGE_MAX,
    };
    assert_eq!(it.source, Source::Xds(Box::new(expect)));
    let ignored = "RUNTIME_WATCH_ROOT USE_STATSD STATSD_PORT GRPC_SERVER_TLS_CA_CERT REDIS_SOCKET_TYPE REDIS_URL \
         REDIS_TLS REDIS_TLS_CLIENT_CERT REDIS_TLS_CLIENT_KEY USE_PROMETHEUS PROMETHEUS_MAPPER_YAML \
         TRACING_ENABLED TRACING_SERVICE_NAME TRACING_SERVICE_NAMESPACE TRACING_SERVICE_INSTANCE_ID \
         TRACING_SAMPLING_RATE OTEL_EXPORTER_OTLP_ENDPOINT";
    assert_eq!(it.ignored.join(" "), ignored);
}

#[test]
fn a_management_server_has_the_defaults_of_the_reference_server() {
    let it = management_server(&[]).unwrap();
    assert_eq!(
        (it.address.as_str(), it.node.as_str()),
        ("localhost:18000", "default")
    );
    assert!(it.tls.is_none() && it.metadata.is_empty() && it.headers.is_empty());
    let it = management_server(&[
        ("CONFIG_GRPC_XDS_SERVER_URL", "dns:///[::1]:1"),
        ("CONFIG_GRPC_XDS_NODE_METADATA", "zone=a,shard=2"),
        (
            "CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS",
            "authorization:Bearer x,x-b:c",
        ),
        ("XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES", "1000"),
        ("CONFIG_GRPC_XDS_SERVER_USE_TLS", "true"),
        ("CONFIG_GRPC_XDS_SERVER_TLS_CACERT", "/ca"),
        ("CONFIG_GRPC_XDS_SERVER_TLS_SAN", "gateway"),
    ])
    .unwrap();
    assert_eq!((it.address.as_str(), it.message_max), ("[::1]:1", 1000));
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    assert_eq!(it.metadata, [pair("zone", "a"), pair("shard", "2")]);
    assert_eq!(it.headers["authorization"], "Bearer x");
    assert!(!format!("{:?}", it.headers).contains("Bearer"));
    let tls = it.tls.unwrap();
    assert_eq!((tls.identity, tls.name), (None, Some("gateway".into())));
}

#[test]
fn every_wrong_value_of_a_management_server_is_told() {
    let problems = management_server(&[
        ("CONFIG_GRPC_XDS_SERVER_URL", "http://gateway:1"),
        ("CONFIG_GRPC_XDS_SERVER_USE_TLS", "true"),
        ("CONFIG_GRPC_XDS_CLIENT_TLS_CERT", "/certs/tls.crt"),
        ("CONFIG_GRPC_XDS_NODE_METADATA", "zone"),
        ("CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS", "a b:c"),
        ("XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES", "many"),
    ]);
    let expect = [
        r#"CONFIG_GRPC_XDS_SERVER_URL = "http://gateway:1": must be HOST:PORT"#,
        r#"CONFIG_GRPC_XDS_CLIENT_TLS_KEY = "": must be a file, because the certificate is set"#,
        r#"CONFIG_GRPC_XDS_SERVER_TLS_CACERT = "": must be a file: the system's authorities are not used"#,
        r#"CONFIG_GRPC_XDS_NODE_METADATA = "zone": must be a list such as a=1,b=2"#,
        r#"CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS = "a b": must be names and values of headers"#,
        r#"XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES = "many": must be a number of bytes; 0 for 64 MiB"#,
    ];
    assert_eq!(problems.unwrap_err(), expect);
    for url in [
        "gateway",
        "gateway:0",
        ":18000",
        "gateway:18000/path",
        "gate way:1",
    ] {
        let problems = management_server(&[("CONFIG_GRPC_XDS_SERVER_URL", url)]);
        let expect = format!("CONFIG_GRPC_XDS_SERVER_URL = {url:?}: must be HOST:PORT");
        assert_eq!(problems.unwrap_err(), [expect]);
    }
}
