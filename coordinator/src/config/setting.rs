//! The settings: each once, for file, variable, flag and help.

/// One setting.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Its key in the file; a point stands between table and key.
    pub key: &'static str,
    /// What is written in it.
    pub shape: Shape,
    /// What it is where nothing is said. Empty: nothing, or what `help` says.
    pub default: &'static str,
    /// What stands for its value in help.
    pub value: &'static str,
    /// What it means.
    pub help: &'static str,
}

/// What is written in a setting.
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
    /// Its flag, without the dashes: `cluster-id`.
    #[must_use]
    pub fn flag(&self) -> String {
        self.key.replace(['.', '_'], "-")
    }

    /// Its variable: `ALIQUOT_CLUSTER_ID`.
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
        "The cluster's name. A data directory of another cluster is refused.";
    "cluster.peers" List "" "ADDR"
        "The peer addresses of all nodes that form the cluster, this one's own included. Default: this node alone.";
    "listen" One "127.0.0.1:7001" "IP:PORT"
        "Where clients and operators are listened to.";
    "peer_listen" One "127.0.0.1:7101" "IP:PORT"
        "Where the other nodes are listened to.";
    "metrics_listen" One "127.0.0.1:7201" "IP:PORT"
        "Where Prometheus reads metrics, over plain HTTP, or `off`.";
    "metrics_open" Flag "false" "BOOL"
        "Show metrics off loopback. Whoever reaches `metrics_listen` then reads what the busiest keys are called.";
    "advertise" One "" "HOST:PORT"
        "Where clients reach this node. Default: `listen`.";
    "peer_advertise" One "" "HOST:PORT"
        "Where the other nodes reach this node. Default: `peer_listen`.";
    "data_dir" One "aliquot-data" "DIR"
        "What this node keeps on disk is in here.";
    "lease" One "3s" "SPAN"
        "The nodes' lease: how long a cut-off node and its clients go on. Taken when the cluster is formed.";
    "report_every" One "450ms" "SPAN"
        "How often nodes and clients report.";
    "drift_ppm" One "1000" "PPM"
        "How far any clock's rate may be from true, in parts per million. Taken when the cluster is formed.";
    "heartbeat" One "150ms" "SPAN"
        "How often a leader is heard of by its followers.";
    "election_min" One "300ms" "SPAN"
        "The shortest that a follower waits for its leader before it stands for election.";
    "election_max" One "600ms" "SPAN"
        "The longest that it waits.";
    "round_trip" One "50ms" "SPAN"
        "The slowest round trip between nodes, disk flush included, that the lease must allow for.";
    "snapshot_every" One "20000" "ENTRIES"
        "A snapshot is made, and the log before it removed, after so many entries.";
    "skip_entry" List "" "INDEX:CHECKSUM"
        "Entries of the log to skip, as the error that stopped the cluster names them. The same on every node, and for good.";
    "session.max" One "20000" "COUNT"
        "So many client sessions are served at once; the next is sent to another node.";
    "session.keys" One "16384" "COUNT"
        "So many keys are served in one session; one more is refused.";
    "log.format" One "pretty" "FORMAT"
        "How a line of the log looks: `pretty` or `json`.";
    "log.filter" One "info" "FILTER"
        "What is logged, such as `info` or `warn,aliquot_coordinator=debug`.";
    "tls.cert" One "" "FILE"
        "This node's certificate chain, PEM. Turns TLS on, together with `tls.key` and `tls.ca`.";
    "tls.key" One "" "FILE"
        "This node's private key, PEM.";
    "tls.ca" One "" "FILE"
        "The authority that signs the certificates of nodes and clients, PEM.";
    "tls.require_client_cert" Flag "true" "BOOL"
        "Whether clients and operators must show a certificate. Other nodes always must.";
    "tls.admins" List "" "NAME"
        "Names (DNS or IP) whose certificates may administer; `*` is any name.";
    "tls.clients" List "*" "NAME"
        "Names whose certificates may open sessions; `*` is any name.";
    "tls.peers" List "" "NAME"
        "Names whose certificates are the other nodes'. Default: the hosts of `cluster.peers`.";
    "tokens" One "" "FILE"
        "Bearer tokens with their roles, one `admin TOKEN` or `client TOKEN` a line. Once given, whoever shows no certificate needs one. Read again when it changes.";
    "budgets" One "" "FILE"
        "Budgets (YAML or TOML) that are applied when the cluster is formed, and never again.";
    "insecure" Flag "false" "BOOL"
        "Accept plaintext, and anybody, off loopback. Whoever reaches the ports then owns the cluster.";
}

/// The setting of that key.
pub(super) fn setting(key: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.key == key)
}

/// The key that is most like a text, if one is alike enough to be meant.
pub(super) fn nearest(text: &str) -> Option<&'static str> {
    aliquot_budgets::nearest(text, SETTINGS.iter().map(|setting| setting.key))
}
