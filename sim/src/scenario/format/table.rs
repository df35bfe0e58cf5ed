//! The sections and keys of the format.

use super::Default::{Is, Nothing, Required};
use super::{INVARIANTS, Key, LOADS, METRICS, Section, Shape, VERBS};
use crate::scenario::kinds::FAULTS;

/// A row for each key: name, shape, default and description.
macro_rules! keys {
    ($($name:literal: $shape:expr, $default:expr, $says:literal;)*) => {
        &[$(Key { name: $name, shape: $shape, default: $default, says: $says },)*]
    };
}

const fn span(least: &'static str, most: &'static str) -> Shape {
    Shape::Span { least, most }
}

/// All sections of the format.
pub const SECTIONS: &[Section] = &[
    Section {
        name: "run",
        heading: "[run]",
        says: "How long, how often, and what is judged.",
        keys: keys! {
            "says": Shape::Text, Nothing("no title"), "One line that says what the scenario shows.";
            "tier": Shape::Word(&["kernel", "network"]), Is("kernel"), "kernel: the core's machines in a modelled world. network: the real nodes and clients in a simulated network, up to 6 nodes; slower.";
            "tiers_differ": Shape::Text, Nothing("they agree"), "Why what is used or lost differs between the tiers by more than 3 points, or why the other tier fails; `aliquot-sim tiers` checks that it does.";
            "duration": span("1s", "24h"), Is("60s"), "The safety phase, in true time: anything may fail in it.";
            "heal": span("0s", "1h"), Nothing("invariant 8's bound and 5s if anything fails, else 0s"), "The healing phase that follows it: nothing fails, and everything must recover.";
            "seeds": Shape::Seeds, Is("0..16"), "The seeds that are lived through; --seeds goes before it.";
            "availability": Shape::Part, Is("90%"), "Invariant 9: the part of what one limiter that sees every request would use that is used at least, in each window without faults.";
            "availability_through_faults": Shape::Part, Is("25%"), "The same over the whole run at once, with its faults.";
            "breaks": Shape::Words(INVARIANTS), Nothing("every invariant is judged"), "Invariants that this scenario is there to see broken: a breach of them is no failure, and is measured.";
        },
    },
    Section {
        name: "topology",
        heading: "[topology]",
        says: "Coordinator nodes n1, n2, … and the links between all hosts.",
        keys: keys! {
            "nodes": Shape::Whole { least: 1, most: 9 }, Is("3"), "Coordinator nodes; a majority of them makes the log.";
            "zones": Shape::Texts, Nothing("one zone"), "Names of zones; nodes and clients without a zone are dealt to them in turn.";
            "link_delay": span("0s", "10s"), Is("1ms"), "One way between two hosts, at least.";
            "link_spread": span("0s", "10s"), Is("1ms"), "What a message takes longer, drawn for each.";
            "spread_shape": Shape::Word(&["uniform", "exponential", "pareto"]), Is("uniform"), "How that is drawn: up to the spread, or with it as mean.";
            "zone_delay": span("0s", "10s"), Is("0s"), "What a message between two zones takes longer.";
            "loss": Shape::Part, Is("0%"), "Data lost, always. In the network tier TCP sends it again, so that it is late.";
            "duplicate": Shape::Part, Is("0%"), "Messages that arrive twice, always.";
            "commit_delay": span("0s", "10s"), Is("1ms"), "How long a node takes to make an entry of the log durable.";
        },
    },
    Section {
        name: "budget",
        heading: "[[budget]]",
        says: "A budget, with the fields that `aliquot budget apply` takes. Instead of these, a top-level `budgets = \"FILE\"` names a file beside the scenario.",
        keys: &[],
    },
    Section {
        name: "lease",
        heading: "[lease]",
        says: "What the cluster is configured with.",
        keys: keys! {
            "lease": span("100ms", "1h"), Is("3s"), "How long a node may be deaf.";
            "drift_ppm": Shape::Whole { least: 0, most: 100_000 }, Is("1000"), "The bound on drift that promises are made with: ρ.";
            "report_every": span("10ms", "10m"), Is("450ms"), "How often nodes report.";
            "client_report_every": span("10ms", "10m"), Is("200ms"), "How often clients report.";
            "heartbeat": span("5ms", "1m"), Is("150ms"), "Interval of the messages by which a leader of the log keeps its leadership.";
            "election_min": span("20ms", "10m"), Is("300ms"), "The shortest that a follower waits for its leader.";
            "election_max": span("20ms", "10m"), Is("600ms"), "The longest.";
            "tick": span("1ms", "1s"), Is("20ms"), "How often a node looks at what is due, if nothing comes in; of the kernel tier alone.";
            "round": span("1ms", "1m"), Is("100ms"), "At most one round in this time, unless a node waits.";
            "counted_on": Shape::Word(&["boot", "monotonic"]), Is("boot"), "The clock that leases are counted on. boot counts suspended time and is what Aliquot reads; monotonic shows why.";
        },
    },
    Section {
        name: "clients",
        heading: "[[clients]]",
        says: "A group of service instances, their callers included: NAME-1, NAME-2, …",
        keys: keys! {
            "name": Shape::Text, Nothing("c, or c2, c3, … for later groups"), "The group's name.";
            "count": Shape::Whole { least: 1, most: 20_000 }, Is("1"), "How many.";
            "zone": Shape::Text, Nothing("dealt in turn"), "Their zone.";
            "home": Shape::Text, Nothing("spread over all nodes"), "The node they go to first, such as n1.";
            "key": Shape::Text, Nothing("the first budget's key"), "The key they ask for.";
            "labels": Shape::Labels, Nothing("none"), "Labels of these clients, by which the `weights` of a budget give them their weight and band.";
            "shape": Shape::Word(LOADS), Is("constant"), "How the load of each changes over time.";
            "rate": Shape::Rate, Required, "Requests of each client; of `sine`, `on_off`, `pareto` and `walk` what it begins with or moves about.";
            "to": Shape::Rate, Nothing("rate"), "Where `ramp`, `step`, `spike` and `flash_crowd` go.";
            "at": span("0s", "24h"), Is("0s"), "When they begin to.";
            "over": span("0s", "24h"), Is("10s"), "How long `ramp` takes, `spike` lasts and `flash_crowd` needs to die down; the period of `sine`; how often `walk` steps.";
            "on": span("1ms", "24h"), Is("1s"), "How long `on_off` is on.";
            "off": span("0s", "24h"), Is("1s"), "How long it is off.";
            "swing": Shape::Part, Is("50%"), "By how much `sine` and `walk` move, of the rate.";
            "alpha": Shape::Number { least: 1.05, most: 10.0 }, Is("1.5"), "The tail of `pareto`'s gaps: the smaller, the heavier.";
            "points": Shape::Points, Nothing("no trace"), "The load of `trace`: the rate from each instant on.";
            "trace": Shape::Text, Nothing("no file"), "A file beside the scenario with lines of `seconds,rate`, instead of points.";
            "times": Shape::Number { least: 0.0, most: 1_000.0 }, Is("1"), "Every rate of the load is so many times what is written.";
            "arrivals": Shape::Word(&["poisson", "constant"]), Is("poisson"), "Whether requests come by chance or in step.";
            "phase": span("0s", "24h"), Is("0s"), "How much later the first comes; with constant arrivals clients are spread over one gap besides.";
            "loop": Shape::Word(&["open", "closed"]), Is("open"), "open: callers come whatever becomes of others. closed: `flows` callers, each waits until it is admitted, and `rate` is the most that it asks for.";
            "flows": Shape::Whole { least: 1, most: 1_000 }, Is("1"), "Callers of a closed loop, per client.";
            "verb": Shape::Word(VERBS), Nothing("check; acquire in a closed loop"), "How callers ask, as in the client library. try_acquire: the client decides alone. check: a request that finds no tokens at its client is sent to a node where a node may have some. acquire: the caller waits until it is admitted.";
            "waiting": Shape::Whole { least: 1, most: 100_000 }, Is("100000"), "Callers of an open loop with `verb = \"acquire\"` that wait at each client at most; beyond them callers `check`.";
            "cost": Shape::Whole { least: 1, most: 1_000_000_000 }, Is("1"), "Tokens per request.";
            "hold": span("1ms", "24h"), Is("100ms"), "How long a permit is held, on average.";
            "start": span("0s", "24h"), Is("0s"), "When the processes start.";
            "stop": span("0s", "24h"), Nothing("never"), "When callers stop asking.";
        },
    },
    Section {
        name: "clock",
        heading: "[clock.TARGET]",
        says: "The clocks of hosts: n1, c-3, nodes, clients, all, zone:NAME or a group's name. A host that is not named runs within its bound by chance. The narrower goes before the wider: a host, a group, a zone, nodes or clients, all.",
        keys: keys! {
            "ppm": Shape::Number { least: -1_000_000.0, most: 10_000_000.0 }, Nothing("drawn within ±drift_ppm"), "How much faster than true time it runs; multiples of 100. Beyond ±drift_ppm the contract does not hold.";
            "offset": span("0s", "365d"), Nothing("drawn"), "What it shows at the beginning.";
            "wall_offset": Shape::Shift, Is("0s"), "How far its wall clock is ahead.";
        },
    },
    Section {
        name: "fault",
        heading: "[[fault]]",
        says: "Something that goes wrong, once or again and again.",
        keys: keys! {
            "kind": Shape::Word(FAULTS), Required, "What.";
            "at": span("0s", "24h"), Is("0s"), "When, first.";
            "every": span("1ms", "24h"), Nothing("once"), "How often again, until the duration is over.";
            "times": Shape::Whole { least: 1, most: 100_000 }, Nothing("until the duration is over"), "How often at most, with `every`.";
            "for": span("0s", "24h"), Is("1s"), "How long it lasts.";
            "target": Shape::Texts, Nothing("all hosts; @leader for leader_transfer"), "Hosts: n1, c-3, nodes, clients, all, a group's name, zone:NAME, one-of:NAME, minority, @leader, @follower (both looked up when the fault begins). In a list `one-of:` holds for its own entry.";
            "to": Shape::Texts, Nothing("all others"), "The other side of partition, one_way, delay, loss, message_loss, duplicate and reorder.";
            "with_clients": Shape::Flag, Is("true"), "Whether clients stay on the side of the node that they go to.";
            "amount": Shape::Part, Is("20%"), "How many messages: loss, message_loss, duplicate, reorder, delay.";
            "by": Shape::Shift, Is("100ms"), "How long: delay, reorder (at most), slow, clock_step, strobe.";
            "ppm": Shape::Number { least: -1_000_000.0, most: 10_000_000.0 }, Is("0"), "The rate: clock_rate.";
            "period": span("1ms", "1h"), Is("100ms"), "How often strobe steps.";
            "clock": Shape::Word(&["boot", "wall"]), Is("wall"), "Which clock: clock_step, strobe.";
            "change": Shape::Word(&["leave", "join"]), Is("leave"), "membership: a node hands everything back and leaves, or joins (it does not run before).";
            "set": Shape::Budget, Nothing("nothing"), "budget_change: fields that change, `key` among them if it is not the first budget. budget_delete: the same, for the budget that is written when the fault is over.";
        },
    },
    Section {
        name: "swarm",
        heading: "[swarm]",
        says: "Faults drawn for each seed, of which each seed leaves some classes out.",
        keys: keys! {
            "kinds": Shape::Words(FAULTS), Required, "The classes that there are.";
            "omit": Shape::Part, Is("40%"), "How likely a seed is to leave out a class.";
            "every": span("10ms", "1h"), Is("1s"), "The mean time between two faults.";
            "from": span("0s", "24h"), Is("4s"), "When they begin.";
            "longest": span("10ms", "1h"), Is("5s"), "How long a fault lasts at most.";
            "nodes": Shape::Range, Nothing("as in the topology"), "Nodes, drawn for each seed.";
            "groups": Shape::Range, Nothing("all of them"), "How many groups of clients a seed keeps; it leaves out the others, and the budgets that no group uses then.";
            "clients": Shape::Range, Nothing("as their groups say"), "Clients of all groups that are kept, drawn for each seed and dealt to the groups alike.";
            "load": Shape::Flag, Is("false"), "Whether the shape and the size of every load are drawn, too.";
        },
    },
    Section {
        name: "assert",
        heading: "[[assert]]",
        says: "What must hold besides the invariants.",
        keys: keys! {
            "never": Shape::Word(INVARIANTS), Nothing("-"), "An invariant that `breaks` lists, and that must hold all the same in this window.";
            "after_heal": Shape::Word(METRICS), Nothing("-"), "A figure of the last 5s of the healing phase.";
            "metric": Shape::Word(METRICS), Nothing("-"), "A figure of the window `from` to `to`.";
            "sometimes": Shape::Text, Nothing("-"), "A mark that at least one of the seeds must hit; `aliquot-sim marks` lists them.";
            "at_least": Shape::Text, Nothing("no bound"), "The least that the figure may be: a number, a part or a span, as the figure is; N R for times the rate.";
            "at_most": Shape::Text, Nothing("no bound"), "The most.";
            "from": span("0s", "24h"), Is("0s"), "The window's begin.";
            "to": span("0s", "24h"), Nothing("the end of the duration"), "The window's end.";
            "group": Shape::Text, Nothing("all clients"), "Only these clients: admitted, utilisation, refused, jain.";
            "key": Shape::Text, Nothing("the first budget"), "Whose figures.";
        },
    },
];
