//! The sections and keys of the format.

use super::Default::{Is, Nothing, Required};
use super::{INVARIANTS, Key, LOADS, METRICS, Section, Shape, VERBS};
use crate::scenario::kinds::FAULTS;
use crate::scenario::{DamagedPart, MemberChange};

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
        says: "Durations, seeds, and the parts of the limit that must be used.",
        keys: keys! {
            "says": Shape::Text, Nothing("no title"), "One line that says what the scenario shows.";
            "tier": Shape::Word(&["kernel", "network"]), Is("kernel"), "kernel: the state machines of Aliquot's core, with a modelled log and network. network: the real nodes and clients in a simulated network; at most 6 nodes, and slower.";
            "tiers_differ": Shape::Text, Nothing("they agree"), "Reason for which the two tiers use or lose different parts of a limit, by more than 3 points, or for which the scenario fails on the other tier. `aliquot-sim tiers` checks that they still differ.";
            "duration": span("1s", "24h"), Is("60s"), "Duration of the safety phase, in true time. Faults happen in it.";
            "heal": span("0s", "1h"), Nothing("long enough for invariants 8 and 9, if there are faults; otherwise 0s"), "Duration of the healing phase, which follows the safety phase. No fault happens in it, and everything must recover within the bound of invariant 8. If it is too short to judge that, the verdict is unknown.";
            "seeds": Shape::Seeds, Is("0..16"), "Seeds to run, unless `--seeds` names others.";
            "availability": Shape::Part, Is("90%"), "Least part that must be used in each window without faults, of what one limiter would use that sees every request (invariant 9).";
            "availability_through_faults": Shape::Part, Is("25%"), "Least part that must be used over the whole run, faults included, of what that limiter would use.";
            "breaks": Shape::Words(INVARIANTS), Nothing("every invariant is judged"), "Invariants that this scenario is expected to break. A breach of them is measured and is no failure.";
        },
    },
    Section {
        name: "topology",
        heading: "[topology]",
        says: "The coordinator nodes n1, n2, … and the links between all hosts.",
        keys: keys! {
            "nodes": Shape::Whole { least: 1, most: 9 }, Is("3"), "Number of coordinator nodes. A majority of them commits entries of the log.";
            "old_nodes": Shape::Whole { least: 0, most: 9 }, Is("0"), "Number of nodes, from n1 on, that run the version of the log before the present one until they start again. Network tier only.";
            "zones": Shape::Texts, Nothing("one zone"), "Names of zones. Nodes, and clients without a `zone`, are assigned to them in turn.";
            "link_delay": span("0s", "10s"), Is("1ms"), "Least delay of a message, one way.";
            "link_spread": span("0s", "10s"), Is("1ms"), "Size of the random part of the delay, which is drawn for each message and added to `link_delay`.";
            "spread_shape": Shape::Word(&["uniform", "exponential", "pareto"]), Is("uniform"), "Distribution of the random part: uniform up to `link_spread`, or with `link_spread` as its mean.";
            "zone_delay": span("0s", "10s"), Is("0s"), "Delay that is added to messages between two zones.";
            "loss": Shape::Part, Is("0%"), "Part of the messages that is lost, at all times. In the network tier TCP sends lost data again, so it is late.";
            "duplicate": Shape::Part, Is("0%"), "Part of the messages that arrives twice, at all times.";
            "commit_delay": span("0s", "10s"), Is("1ms"), "Time that a node takes to write an entry of the log to its disk.";
        },
    },
    Section {
        name: "budget",
        heading: "[[budget]]",
        says: "A budget, with the fields that `aliquot budget apply` takes. Instead of such sections, `budgets = \"FILE\"` at the top of the scenario names a budget file beside it.",
        keys: &[],
    },
    Section {
        name: "lease",
        heading: "[lease]",
        says: "The configuration of the cluster, with the names that `aliquot serve` has for it. A setting that `aliquot serve` refuses is refused here.",
        keys: keys! {
            "lease": span("100ms", "1h"), Nothing("3s, or longer if round_trip needs that"), "Time for which a node and its clients may go on admitting when they are cut off from the leader.";
            "drift_ppm": Shape::Whole { least: 0, most: 100_000 }, Is("1000"), "Bound on the error of every clock's rate, in parts per million (ρ). Leases are shortened and extended by it.";
            "report_every": span("10ms", "10m"), Is("450ms"), "Interval between two reports of a node.";
            "client_report_every": span("10ms", "10m"), Is("200ms"), "Interval between two reports of a client.";
            "heartbeat": span("5ms", "1m"), Nothing("150ms, or 4/3 of round_trip if that is longer"), "Interval between two heartbeats of the log's leader.";
            "election_min": span("20ms", "10m"), Nothing("300ms, or twice heartbeat if that is longer"), "Least time that a follower waits for its leader before it starts an election.";
            "election_max": span("20ms", "10m"), Nothing("twice election_min"), "Greatest time that a follower waits for its leader before it starts an election.";
            "round_trip": span("0s", "1h"), Nothing("50ms"), "Slowest round trip between nodes, disk flush included, that must do no harm. As in `aliquot serve`, the lease, heartbeats and elections that are not set follow from it.";
            "tick": span("1ms", "1s"), Is("20ms"), "Interval at which a node checks its timers if no message arrives. Kernel tier only.";
            "round": span("1ms", "1m"), Is("100ms"), "Least interval between two regular rounds of the leader. A node that waits for tokens gets a round at once.";
            "counted_on": Shape::Word(&["boot", "monotonic"]), Is("boot"), "Clock on which leases are counted. boot goes on while the machine is suspended, and is what Aliquot uses. monotonic stops meanwhile, and breaks invariants.";
        },
    },
    Section {
        name: "clients",
        heading: "[[clients]]",
        says: "A group of service instances with their callers. The instances are named NAME-1, NAME-2, …",
        keys: keys! {
            "name": Shape::Text, Nothing("c, or c2, c3, … for later groups"), "Name of the group.";
            "count": Shape::Whole { least: 1, most: 20_000 }, Is("1"), "Number of instances.";
            "zone": Shape::Text, Nothing("assigned in turn"), "Zone of the instances.";
            "home": Shape::Text, Nothing("spread over all nodes"), "Node to which the instances connect first, such as n1.";
            "key": Shape::Text, Nothing("the first budget's key"), "Key that the callers use; with `keys`, the pattern of their keys, such as users/*.";
            "keys": Shape::Whole { least: 1, most: 100_000 }, Nothing("one key"), "Number of keys of a template. The callers of each instance use all of them: a `*` in `key` stands for 0 to keys - 1. At most 512 in the network tier.";
            "also": Shape::Text, Nothing("no other"), "Key of another budget of which each request needs as much: it gets the tokens of both, or of none. Both are rates, and callers `try_acquire`. Network tier only.";
            "skew": Shape::Text, Is("uniform"), "Division of the requests over `keys`. uniform: every key gets the same part. zipf(S): key n gets a part in proportion to 1 / (n + 1)^S; zipf is zipf(1).";
            "labels": Shape::Labels, Nothing("none"), "Labels of the instances. The `weights` of a budget give them their weight and band.";
            "shape": Shape::Word(LOADS), Is("constant"), "Change of the load over time.";
            "rate": Shape::Rate, Required, "Requests of each instance. For `sine`, `on_off`, `pareto` and `walk` this is the initial or the mean rate.";
            "to": Shape::Rate, Nothing("rate"), "Rate that `ramp`, `step`, `spike` and `flash_crowd` reach.";
            "at": span("0s", "24h"), Is("0s"), "Time at which the change begins.";
            "over": span("0s", "24h"), Is("10s"), "Duration of `ramp` and `spike`; time in which `flash_crowd` decays to 37 %; period of `sine`; interval between two steps of `walk`.";
            "on": span("1ms", "24h"), Is("1s"), "Duration of the load in each turn of `on_off`.";
            "off": span("0s", "24h"), Is("1s"), "Duration of the pause in each turn of `on_off`.";
            "swing": Shape::Part, Is("50%"), "Amplitude of `sine` and greatest step of `walk`, as a part of the rate.";
            "alpha": Shape::Number { least: 1.05, most: 10.0 }, Is("1.5"), "Exponent of the heavy-tailed gaps of `pareto`. Smaller values give heavier tails.";
            "points": Shape::Points, Nothing("no trace"), "Load of `trace`: pairs of a time and the rate from then on.";
            "trace": Shape::Text, Nothing("no file"), "File beside the scenario with lines of `seconds,rate`, instead of `points`.";
            "times": Shape::Number { least: 0.0, most: 1_000.0 }, Is("1"), "Factor by which every rate of the load is multiplied.";
            "arrivals": Shape::Word(&["poisson", "constant"]), Is("poisson"), "Distribution of requests over time: random (poisson), or at equal intervals (constant).";
            "phase": span("0s", "24h"), Is("0s"), "Delay of the first request. With constant arrivals, instances are also spread over one interval.";
            "loop": Shape::Word(&["open", "closed"]), Is("open"), "open: requests arrive whatever happened to earlier ones. closed: `flows` callers, of which each waits until it is admitted before it asks again; `rate` is the most that each asks for.";
            "flows": Shape::Whole { least: 1, most: 1_000 }, Is("1"), "Number of callers of a closed loop, per instance.";
            "verb": Shape::Word(VERBS), Nothing("check; acquire in a closed loop"), "Call of the client library that callers make. try_acquire: the client decides alone. check: a request that finds no tokens at its client is sent to a node if a node may have some. acquire: the caller waits until it is admitted.";
            "waiting": Shape::Whole { least: 1, most: 100_000 }, Is("100000"), "Greatest number of callers of an open loop that wait at each instance with `verb = \"acquire\"`. Callers beyond it use `check`.";
            "cost": Shape::Whole { least: 1, most: 1_000_000_000 }, Is("1"), "Tokens of a request.";
            "hold": span("1ms", "24h"), Is("100ms"), "Mean time for which a permit is held.";
            "start": span("0s", "24h"), Is("0s"), "Time at which the instances start.";
            "stop": span("0s", "24h"), Nothing("never"), "Time at which callers stop asking.";
        },
    },
    Section {
        name: "clock",
        heading: "[clock.TARGET]",
        says: "Clocks of hosts. TARGET is n1, c-3, nodes, clients, all, zone:NAME or the name of a group. A clock without a rule gets a random rate within ±drift_ppm. If several rules match a host, the narrowest holds: a host, a group, a zone, nodes or clients, all.",
        keys: keys! {
            "ppm": Shape::Number { least: -1_000_000.0, most: 10_000_000.0 }, Nothing("random within ±drift_ppm"), "Rate of the clock relative to true time, in parts per million, as a multiple of 100: positive if it is fast. Beyond ±drift_ppm the guarantees do not hold.";
            "offset": span("0s", "365d"), Nothing("drawn"), "Reading of the clock at the begin of the run.";
            "wall_offset": Shape::Shift { most: "365d" }, Is("0s"), "Time by which the wall clock is ahead of true time.";
        },
    },
    Section {
        name: "fault",
        heading: "[[fault]]",
        says: "A fault, which happens once or repeatedly.",
        keys: keys! {
            "kind": Shape::Word(FAULTS), Required, "Kind of the fault.";
            "at": span("0s", "24h"), Is("0s"), "Time of the first occurrence.";
            "every": span("1ms", "24h"), Nothing("once"), "Interval between two occurrences, until the safety phase ends.";
            "times": Shape::Whole { least: 1, most: 100_000 }, Nothing("until the duration is over"), "Greatest number of occurrences, with `every`.";
            "for": span("0s", "24h"), Is("1s"), "Duration of an occurrence.";
            "target": Shape::Texts, Nothing("all hosts; @leader for leader_transfer"), "Hosts that the fault affects: n1, c-3, nodes, clients, all, the name of a group, zone:NAME, one-of:NAME (one of them, drawn for each occurrence), minority, @leader or @follower (as of the begin of the occurrence).";
            "to": Shape::Texts, Nothing("all others"), "Hosts on the other side of partition, one_way, delay, loss, message_loss, duplicate and reorder.";
            "with_clients": Shape::Flag, Is("true"), "If true, clients are on the same side of the fault as the node to which they are connected.";
            "amount": Shape::Part, Is("20%"), "Part of the messages that loss, message_loss, duplicate, reorder and delay affect.";
            "by": Shape::Shift { most: "365d" }, Is("100ms"), "Time by which delay, slow and slow_disk delay, reorder delays at most, and clock_step and strobe step.";
            "ppm": Shape::Number { least: -1_000_000.0, most: 10_000_000.0 }, Is("0"), "Rate of the clock during clock_rate, in parts per million.";
            "period": span("1ms", "1h"), Is("100ms"), "Interval between two steps of strobe.";
            "clock": Shape::Word(&["boot", "wall"]), Is("wall"), "Clock that clock_step and strobe step.";
            "change": Shape::Word(MemberChange::NAMES), Is("leave"), "Change by membership. leave: the node returns everything, stops, and then is removed from the cluster. remove: the node is removed while it runs, returns everything, and then is stopped. join: the node joins; it does not run before.";
            "part": Shape::Word(DamagedPart::NAMES), Is("entry"), "What disk_damage damages. entry: a random record of the log. snapshot: the last snapshot. The kernel tier makes no difference.";
            "set": Shape::Budget, Nothing("nothing"), "Fields of the budget that budget_change sets; with `key` they are those of the budget with that key, otherwise of the first one. For budget_delete: fields of the budget that is written when the fault is over.";
        },
    },
    Section {
        name: "swarm",
        heading: "[swarm]",
        says: "Random faults, drawn for each seed. Each seed omits some of the kinds.",
        keys: keys! {
            "kinds": Shape::Words(FAULTS), Required, "Kinds of faults to draw from.";
            "omit": Shape::Part, Is("40%"), "Probability that a seed omits a kind.";
            "every": span("10ms", "1h"), Is("1s"), "Mean interval between two faults.";
            "from": span("0s", "24h"), Is("4s"), "Time of the first fault.";
            "longest": span("10ms", "1h"), Is("5s"), "Greatest duration of a fault.";
            "nodes": Shape::Range, Nothing("as in the topology"), "Number of nodes, drawn for each seed.";
            "groups": Shape::Range, Nothing("all of them"), "Number of groups of clients that a seed keeps. Budgets that no group uses are omitted as well.";
            "clients": Shape::Range, Nothing("as their groups say"), "Number of clients in all groups that are kept, drawn for each seed and divided equally among the groups.";
            "load": Shape::Flag, Is("false"), "If true, the shape and the size of every load are drawn as well.";
        },
    },
    Section {
        name: "assert",
        heading: "[[assert]]",
        says: "An assertion, in addition to the invariants. It has exactly one of `never`, `after_heal`, `metric` and `sometimes`.",
        keys: keys! {
            "never": Shape::Word(INVARIANTS), Nothing("-"), "Invariant that `breaks` lists, and that must still hold in this window.";
            "after_heal": Shape::Word(METRICS), Nothing("-"), "Figure over the last 5s of the healing phase.";
            "metric": Shape::Word(METRICS), Nothing("-"), "Figure over the window from `from` to `to`.";
            "sometimes": Shape::Text, Nothing("-"), "Mark that at least one seed must hit. `aliquot-sim marks` lists all marks.";
            "at_least": Shape::Bound, Nothing("no bound"), "Lower bound of the figure: a part for utilisation and other parts of a whole, a span for durations, a number otherwise. `admitted` may also have a multiple of the budget's rate, such as \"0.99 R\".";
            "at_most": Shape::Bound, Nothing("no bound"), "Upper bound of the figure.";
            "from": span("0s", "24h"), Is("0s"), "Begin of the window.";
            "to": span("0s", "24h"), Nothing("the end of the duration"), "End of the window.";
            "group": Shape::Text, Nothing("all clients"), "Group whose clients count, for admitted, utilisation, refused and jain.";
            "key": Shape::Text, Nothing("the first budget"), "Key whose figures count.";
        },
    },
];
