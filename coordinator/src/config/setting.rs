//! The table of settings, from which file keys, variables, flags and help are made.

/// A setting of a node.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Key in the file, with a dot between table and key.
    pub key: &'static str,
    /// Form of the value.
    pub shape: Shape,
    /// Default value. If empty, there is none, or `help` describes it.
    pub default: &'static str,
    /// Placeholder for the value in help.
    pub value: &'static str,
    /// Help text.
    pub help: &'static str,
}

/// Form of a setting's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One text or number.
    One,
    /// Any number of texts: a list in the file, commas elsewhere.
    List,
    /// `true` or `false`.
    Flag,
}

impl Setting {
    /// Returns the flag, without the dashes: `cluster-id`.
    #[must_use]
    pub fn flag(&self) -> String {
        self.key.replace(['.', '_'], "-")
    }

    /// Returns the environment variable: `ALIQUOT_CLUSTER_ID`.
    #[must_use]
    pub fn variable(&self) -> String {
        format!("ALIQUOT_{}", self.key.replace('.', "_").to_uppercase())
    }
}

macro_rules! settings {
    ($($key:literal $shape:ident $default:literal $value:literal $help:expr;)+) => {
        /// All settings, in the order in which they are shown.
        pub const SETTINGS: &[Setting] = &[$(Setting {
            key: $key,
            shape: Shape::$shape,
            default: $default,
            value: $value,
            help: $help,
        }),+];
    };
}

settings! {
    "cluster.id" One "aliquot" "NAME"
        "Name of the cluster. A data directory of another cluster is refused.";
    "cluster.peers" List "" "HOST:PORT"
        "Peer addresses of all nodes that form the cluster, this node's own included. Default: this node alone.";
    "listen" One "127.0.0.1:7001" "IP:PORT"
        "Address to listen on for clients and operators.";
    "peer_listen" One "127.0.0.1:7101" "IP:PORT"
        "Address to listen on for the other nodes.";
    "metrics_listen" One "127.0.0.1:7201" "IP:PORT"
        "Address to listen on for Prometheus metrics, over plain HTTP, or `off`.";
    "metrics_open" Flag "false" "BOOL"
        "Allow a `metrics_listen` off loopback. Anyone who can connect to it can then read the names of the busiest keys.";
    "advertise" One "" "HOST:PORT"
        "Address at which clients reach this node. Default: `listen`.";
    "peer_advertise" One "" "HOST:PORT"
        "Address at which the other nodes reach this node. Default: `peer_listen`.";
    "data_dir" One "aliquot-data" "DIR"
        "Directory for everything that this node stores on disk.";
    "lease" One "" "SPAN"
        "Lease of the nodes: the time for which a node that is cut off, and its clients, may continue to admit. Fixed when the cluster is formed. Default: 3s, or longer if `round_trip` requires it.";
    "report_every" One "450ms" "SPAN"
        "Interval between two reports of a node. Clients report at the same interval, or every 200ms if that is shorter.";
    "drift_ppm" One "1000" "PPM"
        "Maximum error of any clock's rate, in parts per million. Fixed when the cluster is formed.";
    "heartbeat" One "" "SPAN"
        "Interval between two heartbeats of a leader to its followers. Default: 150ms, or 4/3 of `round_trip` if that is longer.";
    "election_min" One "" "SPAN"
        "Minimum random wait of a follower before it starts an election. The wait begins when the leader has been silent for `election_max`. Default: twice `heartbeat`.";
    "election_max" One "" "SPAN"
        "Time without a message from the leader after which followers may replace it, and also the maximum of the random wait that follows. Default: twice `election_min`.";
    "round_trip" One "50ms" "SPAN"
        "Longest round trip between nodes, disk flush included, at which leases and leaders must stay stable. Set it for nodes in several regions; the defaults of `lease`, `heartbeat`, `election_min` and `election_max` follow from it.";
    "snapshot_every" One "20000" "ENTRIES"
        "Number of log entries after which a snapshot is made and the log before it is removed.";
    "skip_entry" List "" "INDEX:CHECKSUM"
        "Entries of the log to skip, as named by the error that stopped the cluster. Set the same entries on every node, and keep them set.";
    "session.max" One "20000" "COUNT"
        "Maximum number of concurrent client sessions. Above it, new clients are redirected to another node.";
    "session.keys" One "16384" "COUNT"
        "Maximum number of keys in one session. Any further key is refused with the reason `no_room`; the session continues.";
    "faces.http_listen" One "off" "ADDRESS"
        "Address of the HTTP face, for services that embed no client: `IP:PORT`, `unix:PATH`, or `off`.";
    "faces.grpc_listen" One "off" "ADDRESS"
        "Address of the gRPC face, for services that embed no client: `IP:PORT`, `unix:PATH`, or `off`.";
    "faces.redis_listen" One "off" "ADDRESS"
        "Address of the Redis face, for rate-limit libraries that speak to Redis: `IP:PORT`, `unix:PATH`, or `off`.";
    "faces.rlqs_listen" One "off" "ADDRESS"
        "Address of the face for Envoy's rate limit quota service: `IP:PORT`, `unix:PATH`, or `off`.";
    "faces.http_fields" One "standard" "CHOICE"
        "Header fields of the HTTP face that describe a limit: `standard` (`RateLimit`, `RateLimit-Policy`), `legacy` (`X-RateLimit-*`), `both`, or `none`.";
    "faces.http_reset" One "delta" "CHOICE"
        "Form of `X-RateLimit-Reset`: `delta`, seconds from now, or `epoch`, seconds since 1970.";
    "faces.http_jitter" One "0s" "SPAN"
        "Maximum random time added to the `Retry-After` of the HTTP face, so that refused callers do not all retry at once.";
    "faces.rlqs_uncovered" One "allow" "CHOICE"
        "Assignment for buckets of Envoy's rate limit quota service that neither a rule nor a budget covers: `allow` or `deny`.";
    "faces.rules" List "" "RULE"
        "Rules that map keys of requests to keys of budgets, such as `redis:cl/* -> cl/*`. An exact key takes precedence over a prefix, and a longer prefix over a shorter one. A face without rules uses keys unchanged.";
    "connections.clients" One "" "COUNT"
        "Maximum number of connections to `listen`, 64 to 2000000. At the maximum, the connection that has been idle for the longest time is closed in favour of a new one. Default: 5/4 of `session.max`, plus 64.";
    "connections.peers" One "1024" "COUNT"
        "Maximum number of connections to `peer_listen`, 64 to 1000000. A node opens fewer than ten connections to each other node.";
    "connections.metrics" One "64" "COUNT"
        "Maximum number of connections to `metrics_listen`, 4 to 1000000.";
    "connections.faces" One "1024" "COUNT"
        "Maximum number of connections to all faces together, 4 to 1000000.";
    "connections.per_address" One "" "COUNT"
        "Maximum number of connections of one remote address (IPv6: of one /64 network) to each port, 16 to 2000000. Loopback is not counted. Default: half of the port's maximum.";
    "log.format" One "pretty" "FORMAT"
        "Format of a log line: `pretty` or `json`.";
    "log.filter" One "info" "FILTER"
        "Filter of log lines, such as `info` or `warn,aliquot_coordinator=debug`.";
    "tls.cert" One "" "FILE"
        "Certificate chain of this node, PEM. Turns TLS on, together with `tls.key` and `tls.ca`.";
    "tls.key" One "" "FILE"
        "Private key of this node, PEM.";
    "tls.ca" One "" "FILE"
        "Certificate authority of nodes and clients, PEM.";
    "tls.require_client_cert" Flag "true" "BOOL"
        "Require a certificate of clients and operators. Other nodes always need one.";
    "tls.admins" List "" "NAME"
        "Names (DNS or IP) whose certificates may administer the cluster; `*` is any name.";
    "tls.clients" List "*" "NAME [PREFIX...]"
        "Names whose certificates may open sessions and use faces; `*` is any name. A name that is followed by key prefixes, such as `billing.example tenant/42`, may use only faces, and only keys under these prefixes.";
    "tls.peers" List "" "NAME"
        "Names whose certificates belong to the other nodes. Default: the hosts of `cluster.peers`.";
    "tokens" One "" "FILE"
        "File of bearer tokens and their roles, one `admin TOKEN`, `client TOKEN` or `client TOKEN PREFIX...` per line. A token with prefixes may use only faces, and only keys under these prefixes. If this is set, a caller without a certificate needs a token. The file is read again when it changes.";
    "budgets" One "" "FILE"
        "File of budgets (YAML or TOML) that are applied once, when the cluster is formed.";
    "insecure" Flag "false" "BOOL"
        "Accept plaintext and unauthenticated callers off loopback. Anyone who can connect to the ports then controls the cluster.";
}

/// Finds a setting by its key.
pub(super) fn setting(key: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.key == key)
}

/// Returns the key most similar to `text`, if one is similar enough to be meant.
pub(super) fn nearest(text: &str) -> Option<&'static str> {
    aliquot_budgets::nearest(text, SETTINGS.iter().map(|setting| setting.key))
}
