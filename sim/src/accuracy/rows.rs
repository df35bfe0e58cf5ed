//! The workloads: what is run, what was published, and what should be.

mod gossip;

use super::{Column, Goal, Look, Row, Table, Unit};
use gossip::GOSSIP;

const TOLD: Goal = Goal::Told;

const fn at_least(value: f64) -> Goal {
    Goal::AtLeast(value)
}

const fn at_most(value: f64) -> Goal {
    Goal::AtMost(value)
}

const fn column(heading: &'static str, name: &'static str, unit: Unit) -> Column {
    Column {
        heading,
        name,
        unit,
    }
}

/// From so many seconds on.
const fn from(from: f64, goal: Goal) -> Look {
    Look {
        from,
        to: None,
        goal,
    }
}

/// From so many seconds to so many.
const fn within(from: f64, to: f64, goal: Goal) -> Look {
    Look {
        from,
        to: Some(to),
        goal,
    }
}

/// All tables of the document.
pub(super) const TABLES: &[Table] = &[
    Table {
        heading: "The table of a gossiping limiter",
        says: "After the accuracy table of rateguard 0.7: five instances, 1,000/s, links of 1 ms, 400/s wanted of each unless said. Here an instance is a\ncoordinator node and a client, and the burst is 250 for all. Nothing is admitted above the envelope, whatever is cut, but by the policies that trade it\n(keep, local and open).",
        columns: &[
            column("used", "utilisation", Unit::OfLimit),
            column("over", "seconds_over", Unit::Count),
            column("settled", "settled", Unit::Seconds),
            column("excess", "excess", Unit::Count),
            column("messages", "messages", Unit::Count),
            column("log", "entries", Unit::Index),
        ],
        rows: GOSSIP,
    },
    Table {
        heading: "Doorman",
        says: "After the design document of youtube/doorman: three regions, 45 clients, 500/s; demand begins at 10/s for each client and walks by up to\n10 % every 10 s. The lease is Aliquot's default, not 60 s.",
        columns: &[
            column("lost", "loss_against_ideal", Unit::PerCent),
            column("over", "seconds_over", Unit::Count),
            column("used", "utilisation", Unit::OfLimit),
            column("excess", "excess", Unit::Count),
            column("messages", "messages", Unit::Count),
            column("log", "entries", Unit::Index),
        ],
        rows: DOORMAN,
    },
    Table {
        heading: "Distributed rate limiting",
        says: "After Raghavan et al., \"Cloud Control with Distributed Rate Limiting\", SIGCOMM 2007: 50 Mbit/s in packets of 1,000 bytes, links of 40 ms.\nJain's index here is over limiters' max-min shares. The bytes are those of all messages of the nodes, divided by the limiters. The dynamic load is not reproduced.",
        columns: &[
            column("used", "utilisation", Unit::PerCent),
            column("Jain", "jain", Unit::Index),
            column("bytes per limiter", "bytes", Unit::PerClient),
            column("excess", "excess", Unit::Count),
        ],
        rows: DRL,
    },
    Table {
        heading: "Distributed token buckets",
        says: "After the workloads of CockroachDB's RFC 20210604: 240/s with a burst of 100 over several nodes; *ahead* is by how many tokens the fleet was\nahead of one ideal bucket, *requests* are a client's messages per second beyond the renewals of its lease.",
        columns: &[
            column("lost", "loss_against_ideal", Unit::PerCent),
            column("ahead", "ahead", Unit::Count),
            column("requests", "requests", Unit::Index),
            column("excess", "excess", Unit::Count),
        ],
        rows: BUCKETS,
    },
    Table {
        heading: "Sudden demand",
        says: "A step after Uber's report on its rate limiter; pulses after tikv/pd issue 11211, two clients whose targets sum to the limit and who ask for\ntwice that every other second, with a burst of one second's worth, so that one bucket refuses nothing and has nothing left; and arrivals by chance.",
        columns: &[
            column("lost", "loss_against_ideal", Unit::PerCent),
            column("settled", "settled", Unit::Seconds),
            column("excess", "excess", Unit::Count),
        ],
        rows: SUDDEN,
    },
    Table {
        heading: "Escrow",
        says: "After ThrottleKit's batches: a quota per window. Published for 64 nodes, 16 of them cut off for a while: 0.938; for 512 nodes with fixed\nbatches: 0.387. These two are not reproduced here.",
        columns: &[column("used", "utilisation", Unit::Index)],
        rows: ESCROW,
    },
];

const DOORMAN: &[Row] = &[
    Row {
        scenario: "doorman-5",
        seeds: 1,
        says: "45 clients whose demand walks",
        published: "96.8 % handed out",
        short: "",
        looks: &[
            from(10.0, at_most(0.02)),
            from(10.0, at_most(0.0)),
            from(10.0, at_least(0.0)),
            from(0.0, at_most(0.0)),
            from(0.0, TOLD),
            from(0.0, TOLD),
        ],
    },
    Row {
        scenario: "doorman-6",
        seeds: 1,
        says: "two of them spike to a hundred times as much",
        published: "6 to 12 % above the capacity at the peak",
        short: "the second over the limit spends saved burst, which is one second's worth here: the excess is 0.",
        looks: &[
            within(150.0, 250.0, at_most(0.02)),
            within(155.0, 250.0, at_most(0.0)),
            within(150.0, 250.0, at_least(0.0)),
            from(0.0, at_most(0.0)),
            from(0.0, TOLD),
            from(0.0, TOLD),
        ],
    },
    Row {
        scenario: "doorman-7",
        seeds: 1,
        says: "a mishap a minute, for ten minutes",
        published: "96.6 % handed out",
        short: "",
        looks: &[
            from(10.0, at_most(0.02)),
            from(10.0, TOLD),
            from(10.0, at_least(0.0)),
            from(0.0, at_most(0.0)),
            from(0.0, TOLD),
            from(0.0, TOLD),
        ],
    },
];

const DRL: &[Row] = &[Row {
    scenario: "drl-490",
    seeds: 1,
    says: "1,245 closed-loop flows at 490 limiters",
    published: "50 of 50, Jain about 0.81 over flows, 2.88 KB/s",
    short: "",
    looks: &[
        from(20.0, at_least(0.99)),
        from(20.0, at_least(0.81)),
        from(0.0, at_most(2880.0)),
        from(0.0, at_most(0.0)),
    ],
}];

const BUCKETS: &[Row] = &[
    Row {
        scenario: "distbucket/constant-100",
        seeds: 1,
        says: "100/s in all",
        published: "1.00 to 1.015 of ideal, up to 3,157 tokens ahead",
        short: "an estimate of demand that creeps by a thousandth moves a part of what nobody wants, and each such move is said.",
        looks: &[
            from(5.0, at_most(0.01)),
            from(0.0, TOLD),
            from(0.0, at_most(1.0)),
            from(0.0, at_most(0.0)),
        ],
    },
    Row {
        scenario: "distbucket/constant-200",
        seeds: 1,
        says: "200/s in all",
        published: "1.00 to 1.015 of ideal, up to 3,157 tokens ahead",
        short: "as at 100/s.",
        looks: &[
            from(5.0, at_most(0.01)),
            from(0.0, TOLD),
            from(0.0, at_most(1.0)),
            from(0.0, at_most(0.0)),
        ],
    },
    Row {
        scenario: "distbucket/constant-400",
        seeds: 1,
        says: "400/s in all",
        published: "1.00 to 1.015 of ideal, up to 3,157 tokens ahead",
        short: "",
        looks: &[
            from(5.0, at_most(0.01)),
            from(0.0, TOLD),
            from(0.0, at_most(1.0)),
            from(0.0, at_most(0.0)),
        ],
    },
    Row {
        scenario: "distbucket/ramp",
        seeds: 1,
        says: "demand grows",
        published: "1.00 to 1.015 of ideal, up to 3,157 tokens ahead",
        short: "",
        looks: &[
            from(5.0, at_most(0.01)),
            from(0.0, TOLD),
            from(0.0, at_most(1.0)),
            from(0.0, at_most(0.0)),
        ],
    },
    Row {
        scenario: "distbucket/mixed",
        seeds: 1,
        says: "steady, steps, waves, pulses; by chance",
        published: "1.00 to 1.015 of ideal, up to 3,157 tokens ahead",
        short: "",
        looks: &[
            from(5.0, at_most(0.01)),
            from(0.0, TOLD),
            from(0.0, at_most(1.0)),
            from(0.0, at_most(0.0)),
        ],
    },
];

const SUDDEN: &[Row] = &[
    Row {
        scenario: "step-22k-367k",
        seeds: 2,
        says: "offered load grows seventeenfold within a second (a twentieth of the size)",
        published: "2 to 3 s of reaction",
        short: "",
        looks: &[
            from(20.0, TOLD),
            from(21.0, at_most(1.0)),
            from(0.0, at_most(0.0)),
        ],
    },
    Row {
        scenario: "pulses",
        seeds: 2,
        says: "two clients ask for twice the limit every other second",
        published: "refusals",
        short: "each client's part of the burst is filled by its own part of the rate, and while both want twice their part, max-min gives both the same.",
        looks: &[
            from(4.0, at_most(0.0)),
            from(4.0, TOLD),
            from(0.0, at_most(0.0)),
        ],
    },
    Row {
        scenario: "skewed-by-chance",
        seeds: 2,
        says: "one wants all it can get, four come by chance",
        published: "",
        short: "",
        looks: &[
            from(5.0, at_most(0.01)),
            from(5.0, TOLD),
            from(0.0, at_most(0.0)),
        ],
    },
];

const ESCROW: &[Row] = &[Row {
    scenario: "escrow/n5",
    seeds: 2,
    says: "100 per window; 80 wanted at one node, 5 at each of four",
    published: "0.962, no overshoot",
    short: "what quiet clients hold in escrow at the end of a window is lost to the busy one.",
    looks: &[within(60.0, 600.0, at_least(0.962))],
}];
