//! The scenarios that are compiled into the program.

macro_rules! library {
    ($($name:literal)*) => {
        const ALL: &[(&str, &str)] = &[
            $(($name, include_str!(concat!("../scenarios/", $name, ".toml"))),)*
        ];
    };
}

library! {
    "blackhole"
    "calm"
    "churn"
    "clock-at-the-bound"
    "clock-clone"
    "clock-drift-1-percent"
    "clock-drift-5-percent"
    "clock-offsets"
    "clock-steps-of-wall"
    "clock-strobe"
    "clock-suspend"
    "clock-suspend-monotonic"
    "clock-vm-pause"
    "clock-wide-bound"
    "closed-loop"
    "deaf-leader"
    "deleted"
    "disk-full"
    "distbucket/constant-100"
    "distbucket/constant-200"
    "distbucket/constant-400"
    "distbucket/mixed"
    "distbucket/ramp"
    "doorman-5"
    "doorman-6"
    "doorman-7"
    "drl-490"
    "drl-dynamic"
    "escrow/n5"
    "escrow/n512"
    "escrow/n64"
    "flash-crowd"
    "floors"
    "gossip-table/crash"
    "gossip-table/doubled"
    "gossip-table/duplicated-delayed"
    "gossip-table/even"
    "gossip-table/halved"
    "gossip-table/join"
    "gossip-table/leave"
    "gossip-table/loss"
    "gossip-table/one"
    "gossip-table/one-way"
    "gossip-table/pause"
    "gossip-table/ramp-up"
    "gossip-table/rolling-restart"
    "gossip-table/skewed"
    "gossip-table/split-deny"
    "gossip-table/split-floor"
    "gossip-table/split-keep"
    "gossip-table/split-local"
    "gossip-table/split-open"
    "hand-over"
    "kept-shares"
    "large-costs"
    "large-costs-wait"
    "late-and-twice"
    "leader-crash"
    "leader-dies-once"
    "limit-dance"
    "lossy"
    "network-blackout"
    "network-budgets"
    "network-calm"
    "network-clocks"
    "network-leader-crash"
    "network-partial"
    "network-partition"
    "network-swarm"
    "newcomers"
    "no-quorum"
    "partial"
    "partition-leader"
    "partition-minority"
    "pause-past-lease"
    "permits"
    "permits-asked"
    "permits-run-out"
    "pulses"
    "quota"
    "quota-churn"
    "regions"
    "resets"
    "rolling-crash"
    "rolling-nodes"
    "short-leaderships"
    "skewed-by-chance"
    "slow-node"
    "small-burst"
    "small-parts"
    "step-22k-367k"
    "swarm"
    "swarm-loaded"
    "swarm-rules"
    "template-forgotten"
    "templates"
    "waves"
}

/// Iterates over the names of the scenarios that this build can run, in order.
pub fn names() -> impl Iterator<Item = &'static str> {
    let names = ALL.iter().map(|(name, _)| *name);
    names.filter(|name| cfg!(feature = "network") || !name.starts_with("network-"))
}

/// Returns a scenario's text.
#[must_use]
pub fn text(name: &str) -> Option<&'static str> {
    let found = ALL.iter().find(|(known, _)| *known == name);
    found.map(|(_, text)| *text)
}
