//! The workloads of the document: the scenarios, the published figures and the goals.

mod gossip;

use super::table::{
    EXCESS, LOG, MESSAGES, REPORTED, Row, Table, Unit, at_least, at_most, column, from, row, within,
};
use gossip::GOSSIP;

/// All tables of the document.
pub(super) const TABLES: &[Table] = &[
    Table {
        heading: "The table of a gossiping limiter",
        says: "After the accuracy table of rateguard 0.7: five instances, 1,000/s, links of 1 ms. \
            Each instance asks for 400/s unless the row states another rate.\n\
            Here an instance is a coordinator node and a client, and the burst of the whole \
            limit is 250. No partition causes an admission above the envelope,\n\
            except under the policies that allow it (keep, local and open).",
        seeds: 2,
        real: true,
        columns: &[
            column(
                "used",
                "utilisation",
                Unit::OfLimit,
                from(5.0, at_least(1.0)),
            ),
            column("over", "seconds_over", Unit::Count, from(2.0, REPORTED)),
            column(
                "unsaved",
                "seconds_unsaved",
                Unit::Count,
                from(2.0, at_most(0.0)),
            ),
            column("settled", "settled", Unit::Seconds, from(3.0, at_most(1.0))),
            EXCESS,
            MESSAGES,
            LOG,
        ],
        rows: GOSSIP,
    },
    Table {
        heading: "Doorman",
        says: "After the design document of youtube/doorman: three regions, 45 clients, 500/s. The \
            demand of each client begins at 10/s and changes by up to\n\
            10 % every 10 s. The lease is 3.2 s, not 60 s. The burst is one second's worth. A \
            spike spends the saved part of the burst, which causes the seconds over.\n\
            Every limiter with a burst has them: a bucket that has saved `B` may admit `R + B` \
            in one second. A number of *unsaved* seconds above 0 would be an error.",
        seeds: 1,
        real: false,
        columns: &[
            column(
                "lost",
                "loss_against_ideal",
                Unit::PerCent,
                from(10.0, at_most(0.02)),
            ),
            column("over", "seconds_over", Unit::Count, from(10.0, REPORTED)),
            column(
                "unsaved",
                "seconds_unsaved",
                Unit::Count,
                from(10.0, at_most(0.0)),
            ),
            column(
                "used",
                "utilisation",
                Unit::OfLimit,
                from(10.0, at_least(0.0)),
            ),
            EXCESS,
            MESSAGES,
            LOG,
        ],
        rows: DOORMAN,
    },
    Table {
        heading: "Distributed rate limiting",
        says: "After Raghavan et al., \"Cloud Control with Distributed Rate Limiting\", SIGCOMM \
            2007: 50 Mbit/s in packets of 1,000 bytes, links of 40 ms.\n\
            Jain's index is computed over the max-min shares of the limiters. The bytes are \
            those of all messages of the nodes, divided by the number of limiters.",
        seeds: 1,
        real: false,
        columns: &[
            column(
                "used",
                "utilisation",
                Unit::PerCent,
                from(20.0, at_least(0.99)),
            ),
            column("Jain", "jain", Unit::Index, from(20.0, at_least(0.81))),
            column(
                "bytes per limiter",
                "bytes",
                Unit::PerClient,
                from(0.0, at_most(2880.0)),
            ),
            EXCESS,
        ],
        rows: DRL,
    },
    Table {
        heading: "Distributed token buckets",
        says: "After the workloads of CockroachDB's RFC 20210604: 240/s with a burst of 100 over \
            several nodes. *ahead* is the number of tokens that the fleet\n\
            admitted beyond one ideal bucket; *requests* are a client's messages per second \
            beyond the renewals of its lease.",
        seeds: 1,
        real: true,
        columns: &[
            column(
                "lost",
                "loss_against_ideal",
                Unit::PerCent,
                from(5.0, at_most(0.01)),
            ),
            column("ahead", "ahead", Unit::Count, from(0.0, REPORTED)),
            column("requests", "requests", Unit::Index, from(0.0, at_most(1.0))),
            EXCESS,
        ],
        rows: BUCKETS,
    },
    Table {
        heading: "Sudden demand",
        says: "The step is after Uber's report on its rate limiter. The pulses are after tikv/pd \
            issue 11211: two clients whose targets sum to the limit ask for\n\
            twice their targets every other second. The burst is one second's worth, so that one \
            bucket refuses nothing and is empty after each pulse. The last row has random \
            arrivals.",
        seeds: 2,
        real: true,
        columns: &[
            column(
                "lost",
                "loss_against_ideal",
                Unit::PerCent,
                from(5.0, at_most(0.01)),
            ),
            column("settled", "settled", Unit::Seconds, from(5.0, REPORTED)),
            EXCESS,
        ],
        rows: SUDDEN,
    },
    Table {
        heading: "Escrow",
        says: "After ThrottleKit's batches: a quota per window of 60 s. The demand of the 64 and \
            512 nodes was not published; here they are clients of five coordinator\n\
            nodes. Of the 64, the nodes that are not cut off ask for all of a window by \
            themselves.",
        seeds: 2,
        real: false,
        columns: &[column(
            "used",
            "utilisation",
            Unit::Index,
            within(40.0, 280.0, at_least(0.962)),
        )],
        rows: ESCROW,
    },
];

const DOORMAN: &[Row] = &[
    row(
        "doorman-5",
        "45 clients whose demand walks",
        "96.8 % handed out",
    ),
    row(
        "doorman-6",
        "two of them spike to a hundred times their demand",
        "6 to 12 % above the capacity at the peak",
    )
    .but(&[
        ("lost", within(150.0, 250.0, at_most(0.02))),
        ("over", within(130.0, 250.0, REPORTED)),
        ("unsaved", within(130.0, 250.0, at_most(0.0))),
        ("used", within(150.0, 250.0, at_least(0.0))),
    ]),
    row(
        "doorman-7",
        "one fault a minute, for ten minutes",
        "96.6 % handed out",
    ),
];

const DRL: &[Row] = &[
    row(
        "drl-490",
        "1,245 closed-loop flows at 490 limiters",
        "50 of 50, Jain about 0.81 over flows, 2.88 KB/s",
    ),
    row(
        "drl-dynamic",
        "load alternates between ten limiters and four every 30 s, 0.47 % of messages lost",
        "the limit is kept",
    )
    .but(&[("Jain", from(20.0, REPORTED))]),
];

/// The published figure, which is the same for all of these workloads.
const AHEAD: &str = "1.00 to 1.015 of ideal, up to 3,157 tokens ahead";

const BUCKETS: &[Row] = &[
    row("distbucket/constant-100", "100/s in all", AHEAD),
    row("distbucket/constant-200", "200/s in all", AHEAD),
    row("distbucket/constant-400", "400/s in all", AHEAD),
    row("distbucket/ramp", "demand grows", AHEAD),
    row(
        "distbucket/mixed",
        "steady, steps, waves, pulses; random arrivals",
        AHEAD,
    )
    .note(
        "a model of four buckets that know all rates without delay loses 1.2 %: each bucket \
            overflows at times, and the burst that the others saved is not where a pulse begins. \
            The rest is lost because the estimate of a falling demand lags behind it.",
    ),
];

const SUDDEN: &[Row] = &[
    row(
        "step-22k-367k",
        "offered load grows seventeenfold within a second (a twentieth of the size)",
        "2 to 3 s of reaction",
    )
    .but(&[
        ("lost", from(20.0, REPORTED)),
        ("settled", from(21.0, at_most(1.0))),
    ]),
    row(
        "pulses",
        "two clients ask for twice the limit every other second",
        "refusals",
    )
    .note(
        "burst is divided by the current rates, which differ from the mean needs while both \
            clients pulse or both are idle.",
    )
    .but(&[
        ("lost", from(4.0, at_most(0.0))),
        ("settled", from(4.0, REPORTED)),
    ]),
    row(
        "skewed-by-chance",
        "one client asks for more than the limit, four have random arrivals",
        "",
    )
    .note(
        "a bucket whose rate equals its mean demand overflows at random and loses one token \
            in 2K if its burst is K tokens. The four small buckets lose that.",
    ),
];

const ESCROW: &[Row] = &[
    row(
        "escrow/n5",
        "100 per window; 80 wanted at one node, 5 at each of four",
        "0.962, no overshoot",
    )
    .but(&[("used", within(40.0, 580.0, at_least(0.962)))]),
    row(
        "escrow/n64",
        "1,200 per window; 16 hot ones of 64 are cut off in windows 5 to 12",
        "0.938, no overshoot",
    )
    .but(&[("used", within(40.0, 880.0, at_least(0.938)))]),
    row(
        "escrow/n512",
        "2,560 per window and as much wanted, half of it by 32 of 512",
        "0.387 with fixed batches of 20",
    )
    .but(&[("used", within(40.0, 280.0, at_least(0.387)))]),
];
