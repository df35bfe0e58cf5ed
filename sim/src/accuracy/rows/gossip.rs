//! The workloads of a published gossiping limiter: five instances, and the faults of its own test table.

use super::super::table::{REPORTED, Row, at_least, at_most, from, row, within};

pub(super) const GOSSIP: &[Row] = &[
    row("gossip-table/even", "5 × 400/s", "1.00 R, 0 s over, 3 s"),
    row(
        "gossip-table/skewed",
        "1,200/s and 4 × 150/s",
        "1.00 R, 0 s over, 3 s",
    ),
    row(
        "gossip-table/one",
        "all demand (1,500/s) on one of five",
        "0.96 R, 0 s over, 2 s",
    )
    .but(&[("used", from(5.0, at_least(0.99)))]),
    row(
        "gossip-table/loss",
        "skewed, 30 % of messages lost",
        "1.00 R, 0 s over, 2 s",
    )
    .note("in 16 seeds, at least 0.98 R is used while messages are lost. A client that receives nothing for a second, the time of five reports, tries another node: one \
        time in thirty it was chance. It goes on reporting to its own meanwhile, and stays if its lease is renewed before it is over, as it nearly always is. For the real code a lost message is a lost \
        packet: TCP sends it again, and all that follows on the connection waits; at 30 % leaders change and leases end.")
    .but(&[
        ("used", within(10.0, 50.0, at_least(0.0))),
        ("settled", from(50.0, REPORTED)),
    ]),
    row(
        "gossip-table/duplicated-delayed",
        "skewed, 20 % doubled, half up to 1.2 s late",
        "1.00 R, 0 s over, 2 s",
    )
    .but(&[
        ("used", within(10.0, 50.0, at_least(0.0))),
        ("settled", from(50.0, REPORTED)),
    ]),
    row(
        "gossip-table/split-deny",
        "3/2 split for 40 s, policy deny",
        "1.00 to 1.80 R, 0 to 37 s over",
    )
    .but(&[
        ("used", within(20.0, 50.0, at_least(0.99))),
        ("settled", within(10.0, 50.0, at_most(4.0))),
    ]),
    row("gossip-table/split-floor", "the same, policy floor", "")
        .note(
            "after the split some floors of reclaimed incarnations stay booked until they \
                are forgotten, and meanwhile that part of the limit is not used: a floor's \
                release is lost if the leader has not reclaimed the incarnation that it names yet.",
        )
        .but(&[
            ("used", within(20.0, 50.0, at_least(0.99))),
            ("settled", within(10.0, 50.0, at_most(4.0))),
        ]),
    row(
        "gossip-table/split-keep",
        "the same, policy keep",
        "1.80 R, 37 s over",
    )
    .but(&[
        ("used", within(20.0, 50.0, at_least(0.0))),
        ("unsaved", from(2.0, REPORTED)),
        ("settled", from(50.0, REPORTED)),
        ("excess", from(0.0, REPORTED)),
    ]),
    row("gossip-table/split-local", "the same, policy local", "").but(&[
        ("used", within(20.0, 50.0, at_least(0.0))),
        ("unsaved", from(2.0, REPORTED)),
        ("settled", from(50.0, REPORTED)),
        ("excess", from(0.0, REPORTED)),
    ]),
    row("gossip-table/split-open", "the same, policy open", "").but(&[
        ("used", within(20.0, 50.0, at_least(0.0))),
        ("unsaved", from(2.0, REPORTED)),
        ("settled", from(50.0, REPORTED)),
        ("excess", from(0.0, REPORTED)),
    ]),
    row(
        "gossip-table/one-way",
        "one link lost one way",
        "1.00 R, 0 s over, 0 s",
    )
    .but(&[
        ("used", from(10.0, at_least(1.0))),
        ("settled", from(10.0, at_most(1.0))),
    ]),
    row(
        "gossip-table/pause",
        "one instance of five is paused for 5 s",
        "0.80 R, 0 s over, 9 s",
    )
    .but(&[
        ("used", within(20.0, 24.0, at_least(0.8))),
        ("settled", from(20.0, REPORTED)),
    ]),
    row(
        "gossip-table/rolling-restart",
        "one instance restarts each 8 s",
        "1.00 R, 0 s over, 2 s",
    )
    .note("what a restarted instance held is unused until its lease ends.")
    .but(&[
        ("used", within(8.0, 48.0, at_least(0.0))),
        ("settled", from(40.0, at_most(4.0))),
    ]),
    row(
        "gossip-table/crash",
        "one instance of five crashes for good",
        "1.00 R, 0 s over, 17 s",
    )
    .but(&[
        ("used", from(24.5, at_least(1.0))),
        ("settled", from(20.0, at_most(4.0))),
    ]),
    row(
        "gossip-table/leave",
        "one instance of five leaves",
        "1.00 R, 0 s over, 1 s",
    )
    .but(&[
        ("used", from(22.0, at_least(1.0))),
        ("settled", from(20.0, at_most(1.0))),
    ]),
    row(
        "gossip-table/ramp-up",
        "5 × 10/s become 5 × 1,000/s",
        "1.00 R, 0 s over, 3 s",
    )
    .but(&[
        ("used", from(22.0, at_least(1.0))),
        ("settled", from(20.0, at_most(1.0))),
    ]),
    row(
        "gossip-table/join",
        "the fifth instance begins 10 s late",
        "1.00 R, 0 s over, 1 s",
    )
    .but(&[
        ("used", from(15.0, at_least(1.0))),
        ("settled", from(10.0, at_most(1.0))),
    ]),
    row(
        "gossip-table/halved",
        "the limit is halved",
        "0.50 of the old R, 3 s",
    )
    .but(&[
        ("used", from(33.0, at_least(1.0))),
        ("settled", from(30.0, at_most(1.0))),
    ]),
    row(
        "gossip-table/doubled",
        "the limit is doubled",
        "1.00 R, 3 s",
    )
    .but(&[
        ("used", from(33.0, at_least(1.0))),
        ("settled", from(30.0, at_most(1.0))),
    ]),
];
