//! The messages for invalid scenarios: each names the field, its value and the allowed values.

#[path = "errors/tiers.rs"]
mod tiers;

use aliquot_sim::scenario::{DamagedPart, MemberChange, Scenario};
use expect_test::{Expect, expect};

const WHOLE: &str = "
[run]
duration = \"10s\"

[[budget]]
key = \"reads\"
rate = \"100/s\"

[[clients]]
count = 3
rate = \"50/s\"
";

#[track_caller]
fn check(text: &str, expect: &Expect) {
    let message = match Scenario::parse("mine", text, None) {
        Ok(_) => "it is well".to_owned(),
        Err(problems) => problems.to_string(),
    };
    expect.assert_eq(&message);
}

/// Checks the valid scenario with one text replaced.
#[track_caller]
fn instead(old: &str, new: &str, expect: &Expect) {
    assert!(WHOLE.contains(old), "{old}");
    check(&WHOLE.replace(old, new), expect);
}

#[test]
fn a_whole_one_is_well() {
    check(WHOLE, &expect!["it is well"]);
}

#[test]
fn unknown_keys_and_sections_are_told_with_what_was_meant() {
    instead(
        "duration",
        "durration",
        &expect![[r#"run.durration = "10s": there is no such key; did you mean `duration`?"#]],
    );
    instead(
        "[[clients]]",
        "[[client]]",
        &expect![[r#"
            client: there is no such section; did you mean `clients`?
            clients: is missing: at least one [[clients]] section is required"#]],
    );
    instead(
        "rate = \"100/s\"",
        "rte = \"100/s\"",
        &expect![[
            r#"budget[1]: budget[1], budget "reads": there is no field `rte`; did you mean `rate`?"#
        ]],
    );
    instead(
        "[run]",
        "[run]\nwibble = 3",
        &expect![
            "run.wibble = 3: there is no such key; the keys of [run] are says, tier, tiers_differ, duration, heal, seeds, availability, availability_through_faults, breaks"
        ],
    );
}

#[test]
fn values_are_told_with_what_may_be() {
    instead(
        "\"10s\"",
        "10",
        &expect![[
            r#"run.duration = 10: must be a span with its unit from 1s to 24h, such as "500ms""#
        ]],
    );
    instead(
        "\"10s\"",
        "\"10\"",
        &expect![[
            r#"run.duration = "10": must be a span with its unit from 1s to 24h, such as "500ms""#
        ]],
    );
    instead(
        "count = 3",
        "count = 0",
        &expect!["clients[1].count = 0: must be a whole number from 1 to 20000, without quotes"],
    );
    instead(
        "\"50/s\"",
        "\"fast\"",
        &expect![[
            r#"clients[1].rate = "fast": must be a rate of at most 10M a second, such as "400/s""#
        ]],
    );
    instead(
        "\"100/s\"",
        "\"100\"",
        &expect![[
            r#"budget[1].rate = "100": must be a rate of 0/s, or from 1 per 10 days to 1T/s, such as "1000/s", "1.5k/s" or "1 per 10 days""#
        ]],
    );
    instead(
        "[run]",
        "[run]\nseeds = \"9..3\"",
        &expect![[
            r#"run.seeds = "9..3": must be seeds such as "0..64" (64 not included), or one number such as 7"#
        ]],
    );
}

#[test]
fn hosts_that_there_are_not_are_told() {
    let fault = |target: &str| format!("[[fault]]\nkind = \"crash\"\ntarget = \"{target}\"\n[run]");
    instead(
        "[run]",
        &fault("n4"),
        &expect![[r#"fault[1].target = "n4": there are only the nodes n1 to n3"#]],
    );
    instead(
        "[run]",
        &fault("c-4"),
        &expect![[
            r#"fault[1].target = "c-4": there is no such host; allowed are all, nodes, clients, minority, @leader, @follower, n1, c, NAME-1, zone:NAME and one-of:NAME"#
        ]],
    );
    instead(
        "[run]",
        &fault("@leder"),
        &expect![[r#"fault[1].target = "@leder": there is no such host; did you mean "@leader"?"#]],
    );
    instead(
        "[run]",
        &fault("zone:asia"),
        &expect![[r#"fault[1].target = "zone:asia": there is no zone "asia"; there are zone"#]],
    );
    instead(
        "[run]",
        "[clock.n9]\nppm = 100\n[run]",
        &expect!["clock.n9: there are only the nodes n1 to n3"],
    );
    instead(
        "[run]",
        "[clock.n1]\nppm = 150\n[run]",
        &expect!["clock.n1.ppm = 150: must be a multiple of 100"],
    );
}

#[test]
fn asserts_that_make_no_sense_are_told() {
    let assert = |body: &str| format!("[[assert]]\n{body}\n[run]");
    instead(
        "[run]",
        &assert("metric = \"utilisation\""),
        &expect!["assert[1].at_least: a figure needs at_least, at_most or both"],
    );
    instead(
        "[run]",
        &assert("metric = \"utilization\"\nat_least = 1"),
        &expect![[
            r#"assert[1].metric = "utilization": must be one of admitted, utilisation, loss_against_ideal, loss_of_worst_key, availability, availability_through_faults, jain, deviation, seconds_over, seconds_unsaved, refused, worst_second, back_after, settled, excess, slack, recovery, messages, bytes, entries, requests, faults, ahead, breaches"#
        ]],
    );
    instead(
        "[run]",
        &assert("sometimes = \"lease-begun\""),
        &expect![[
            r#"assert[1].sometimes = "lease-begun": there is no such mark; did you mean "lease-began"?"#
        ]],
    );
    instead(
        "[run]",
        &assert("metric = \"jain\"\nat_least = \"lots\""),
        &expect![[
            r#"assert[1].at_least = "lots": must be a number, a part up to "100%", a span such as "3s", or times the rate such as "0.99 R""#
        ]],
    );
    instead(
        "[run]",
        &assert("at_least = 1"),
        &expect![
            "assert[1].metric: exactly one of never, after_heal, metric, sometimes is required"
        ],
    );
    instead(
        "[run]",
        &assert("metric = \"admitted\"\nat_least = 1\ngroup = \"cleints\""),
        &expect![[r#"assert[1].group = "cleints": the scenario has no such group"#]],
    );
    instead(
        "[run]",
        &assert("metric = \"admitted\"\nat_least = 1\nkey = \"read\""),
        &expect![[
            r#"assert[1].key = "read": the scenario has no such key; did you mean "reads"?"#
        ]],
    );
}

#[test]
fn a_fault_that_never_happens_is_told() {
    instead(
        "[run]",
        "[[fault]]\nkind = \"crash\"\nat = \"10s\"\n[run]",
        &expect![[
            r#"fault[1].at = "10s": must be before the end of the run, or it never happens"#
        ]],
    );
}

#[test]
fn everything_that_is_wrong_is_reported_at_once() {
    let text = WHOLE
        .replace("\"10s\"", "\"0s\"")
        .replace("count = 3", "count = \"many\"");
    check(
        &text,
        &expect![[r#"
            run.duration = "0s": must be a span with its unit from 1s to 24h, such as "500ms"
            clients[1].count = "many": must be a whole number from 1 to 20000, without quotes"#]],
    );
}

#[test]
fn a_template_cannot_be_deleted() {
    let template = "[[budget]]\nkey = \"tenant/*\"\nrate = \"1/s\"\n";
    let fault = "[[fault]]\nkind = \"budget_delete\"\nset = { key = \"tenant/*\" }\n";
    check(
        &format!("{WHOLE}{template}{fault}"),
        &expect![
            "fault[1].set: names a template: only a budget with a key of its own can be deleted"
        ],
    );
}

#[test]
fn a_key_without_effect_is_refused() {
    let with = |lines: &str, expect: &Expect| check(&format!("{WHOLE}{lines}"), expect);
    with(
        "[[fault]]\nkind = \"membership\"\ntarget = \"n1\"\nfor = \"2s\"\n",
        &expect![[
            r#"fault[1].for = "2s": has no effect here: membership takes at, every, times, target, change"#
        ]],
    );
    with(
        "[[fault]]\nkind = \"crash\"\namount = 0.5\n",
        &expect![[
            r#"fault[1].amount = 0.5: has no effect here: crash takes at, every, times, for, target"#
        ]],
    );
    with(
        "over = \"3s\"\nswing = 0.5\nshape = \"step\"\nto = \"9/s\"\nflows = 3\n",
        &expect![[r#"
            clients[1].flows = 3: has no effect here: an open loop takes verb, waiting
            clients[1].over = "3s": has no effect here: step takes to, at
            clients[1].swing = 0.5: has no effect here: step takes to, at"#]],
    );
    with(
        "[[assert]]\nsometimes = \"full-use\"\nat_least = 1\n",
        &expect![[
            r#"assert[1].at_least = 1: has no effect here: sometimes takes none of at_least, at_most, from, to, group, key"#
        ]],
    );
}

#[test]
fn the_zone_of_a_quota_is_in_the_database() {
    let quota = |zone: &str| format!("quota = \"100 per day\"\nzone = \"{zone}\"");
    instead(
        "rate = \"100/s\"",
        &quota("Europe/Berlin"),
        &expect!["it is well"],
    );
    let wrong = WHOLE.replace("rate = \"100/s\"", &quota("Europe/Berlinn"));
    let problems = Scenario::parse("mine", &wrong, None).expect_err("there is no such zone");
    let message = problems.to_string();
    assert!(message.contains("budget[1].zone = "), "{message}");
    assert!(
        message.contains("did you mean \"Europe/Berlin\"?"),
        "{message}"
    );
}

#[test]
fn no_scenario_is_exempt_from_work_conservation() {
    let wrong = WHOLE.replace("[run]", "[run]\nbreaks = [\"work-conservation\"]");
    let problems = Scenario::parse("mine", &wrong, None).expect_err("it is always judged");
    assert!(problems.to_string().contains("run.breaks"), "{problems}");
}

#[test]
fn settings_that_a_node_would_refuse_are_refused() {
    instead(
        "[run]",
        "[topology]\nlink_delay = \"60ms\"\n[run]",
        &expect![[r#"
            lease.lease = "3s": `aliquot serve` refuses this: is too short for a leader change: 3 × report_every + 2 × election_max + 5 × round_trip + 5/4 × heartbeat = 3352500us, but a client may use only 2988 ms of the lease: make lease longer, or report_every, election_max, round_trip or heartbeat shorter (the links of [topology] have round_trip = 123ms)
            lease.heartbeat = "150ms": `aliquot serve` refuses this: must be at least 4/3 of round_trip = 123ms: otherwise answers to heartbeats arrive too late (the links of [topology] have round_trip = 123ms)"#]],
    );
    instead(
        "[run]",
        "[lease]\nlease = \"1s\"\n[run]",
        &expect![[
            r#"lease.lease = "1s": `aliquot serve` refuses this: is too short for a leader change: 3 × report_every + 2 × election_max + 5 × round_trip + 5/4 × heartbeat = 2987500us, but a client may use only 996 ms of the lease: make lease longer, or report_every, election_max, round_trip or heartbeat shorter"#
        ]],
    );
    instead(
        "[run]",
        "[lease]\nheartbeat = \"400ms\"\nelection_min = \"20ms\"\n[run]",
        &expect![[
            r#"lease.election_min = "20ms": `aliquot serve` refuses this: must be a span from 30ms to 1m, such as 500ms or 3s"#
        ]],
    );
    instead(
        "[run]",
        "[topology]\nlink_delay = \"40ms\"\n[lease]\nlease = \"3200ms\"\n[run]",
        &expect!["it is well"],
    );
}

#[test]
fn a_key_without_effect_on_the_kind_of_budget_is_refused() {
    instead(
        "count = 3",
        "count = 3\nhold = \"1s\"",
        &expect![[r#"clients[1].hold = "1s": has no effect here: only permits are held"#]],
    );
    let permits = WHOLE
        .replace("rate = \"100/s\"", "concurrency = 4")
        .replace("count = 3", "cost = 2");
    check(
        &permits,
        &expect!["clients[1].cost = 2: has no effect here: a request takes one permit"],
    );
}

#[test]
fn callers_of_a_closed_loop_acquire() {
    instead(
        "count = 3",
        "loop = \"closed\"\nverb = \"check\"",
        &expect![[
            r#"clients[1].verb = "check": must be acquire in a closed loop: its callers wait until they are admitted"#
        ]],
    );
    instead(
        "count = 3",
        "waiting = 3",
        &expect![[
            r#"clients[1].waiting = 3: has no effect here: a caller that does not `acquire` takes verb"#
        ]],
    );
    instead(
        "count = 3",
        "verb = \"acquire\"\nwaiting = 3",
        &expect!["it is well"],
    );
}

/// Words with two values, of which the other one must not be read.
#[test]
fn what_is_written_is_what_is_read() {
    let read = |text: &str| Scenario::parse("mine", text, None).expect("it is well");
    let waits = WHOLE.replace("count = 3", "verb = \"acquire\"\nwaiting = 3");
    assert_eq!(read(&waits).clients[0].waiting, 3);
    let fault = |more: &str| {
        let text = format!("{WHOLE}\n[[fault]]\nat = \"1s\"\ntarget = \"n1\"\n{more}\n");
        read(&text).faults.pop().expect("it was added")
    };
    let step = "kind = \"clock_step\"\nby = \"1s\"\nclock = ";
    assert!(fault(&format!("{step}\"wall\"")).wall);
    assert!(!fault(&format!("{step}\"boot\"")).wall);
    let change = |name| fault(&format!("kind = \"membership\"\nchange = \"{name}\"")).change;
    let changes = [
        MemberChange::Leave,
        MemberChange::Remove,
        MemberChange::Join,
    ];
    assert_eq!(["leave", "remove", "join"].map(change), changes);
    let part = |name| fault(&format!("kind = \"disk_damage\"\npart = \"{name}\"")).part;
    let parts = [DamagedPart::Entry, DamagedPart::Snapshot];
    assert_eq!(["entry", "snapshot"].map(part), parts);
    // Three seconds, and what two clocks drift apart by 0.1 % each.
    let patience = read(WHOLE).lease.patience();
    assert!(
        (3_006_000_000..3_007_000_000).contains(&patience),
        "{patience}"
    );
}

/// Text for a number, numbers beyond their bounds, and numbers that are none.
#[test]
fn a_value_of_another_kind_is_refused() {
    instead(
        "count = 3",
        "count = \"3\"",
        &expect![[
            r#"clients[1].count = "3": must be a whole number from 1 to 20000, without quotes"#
        ]],
    );
    instead(
        "count = 3",
        "count = -3",
        &expect![[
            r#"clients[1].count = -3: must be a whole number from 1 to 20000, without quotes"#
        ]],
    );
    instead(
        "count = 3",
        "count = 3.0",
        &expect![[
            r#"clients[1].count = 3.0: must be a whole number from 1 to 20000, without quotes"#
        ]],
    );
    instead(
        "count = 3",
        "count = 3\nname = 7",
        &expect![[r#"clients[1].name = 7: must be a text in quotes"#]],
    );
    instead(
        "count = 3",
        "count = 3\ntimes = nan",
        &expect![[r#"clients[1].times = nan: must be a number from 0 to 1000"#]],
    );
    instead(
        "count = 3",
        "count = 3\ntimes = \"2\"",
        &expect![[r#"clients[1].times = "2": must be a number from 0 to 1000"#]],
    );
}

#[test]
fn a_part_or_a_span_out_of_range_is_refused() {
    instead(
        "[run]",
        "[run]\nseeds = \"7\"",
        &expect![[
            r#"run.seeds = "7": must be seeds such as "0..64" (64 not included), or one number such as 7"#
        ]],
    );
    instead(
        "[run]",
        "[run]\navailability = \"101%\"",
        &expect![[
            r#"run.availability = "101%": must be a fraction, such as "30%", or a number from 0 to 1"#
        ]],
    );
    instead(
        "[run]",
        "[run]\navailability = \"nan%\"",
        &expect![[
            r#"run.availability = "nan%": must be a fraction, such as "30%", or a number from 0 to 1"#
        ]],
    );
    instead(
        "[run]",
        "[run]\navailability = -0.1",
        &expect![[
            r#"run.availability = -0.1: must be a fraction, such as "30%", or a number from 0 to 1"#
        ]],
    );
    instead(
        "[run]",
        "[run]\nheal = \"-3s\"",
        &expect![[
            r#"run.heal = "-3s": must be a span with its unit from 0s to 1h, such as "500ms""#
        ]],
    );
    instead(
        "[run]",
        "[run]\nheal = \"9000 days\"",
        &expect![[
            r#"run.heal = "9000 days": must be a span with its unit from 0s to 1h, such as "500ms""#
        ]],
    );
    let fault = |body: &str| format!("[[fault]]\nat = \"1s\"\n{body}\n[run]");
    instead(
        "[run]",
        &fault("kind = \"clock_step\"\nby = \"-9000 days\""),
        &expect![[
            r#"fault[1].by = "-9000 days": must be a span with its unit, from -365d to 365d, such as "-3s""#
        ]],
    );
    instead(
        "[run]",
        &fault("kind = \"loss\"\namount = \"inf%\""),
        &expect![[
            r#"fault[1].amount = "inf%": must be a fraction, such as "30%", or a number from 0 to 1"#
        ]],
    );
    instead(
        "count = 3",
        "shape = \"trace\"\npoints = [[\"0s\", \"1/s\"], [\"9000 days\", \"1/s\"]]",
        &expect![[
            r#"clients[1].points = [["0s", "1/s"], ["9000 days", "1/s"]]: must be a list of pairs of a span up to 24h and a rate, times rising, such as [["0s", "10/s"]]"#
        ]],
    );
}

/// Checks the outcome of an assertion with these bounds.
fn bounds(metric: &str, bounds: &str, expect: &Expect) {
    let assertion = format!("[[assert]]\nmetric = \"{metric}\"\n{bounds}\n[run]");
    instead("[run]", &assertion, expect);
}

#[test]
fn a_bound_of_a_part_is_a_part() {
    bounds(
        "utilisation",
        "at_least = \"200%\"",
        &expect![[
            r#"assert[1].at_least = "200%": must be a number, a part up to "100%", a span such as "3s", or times the rate such as "0.99 R""#
        ]],
    );
    bounds(
        "utilisation",
        "at_least = 2",
        &expect![[
            r#"assert[1].at_least = 2: must be a part from "0%" to "100%", or a number from 0 to 1 for utilisation"#
        ]],
    );
    bounds(
        "utilisation",
        "at_least = \"3s\"",
        &expect![[
            r#"assert[1].at_least = "3s": must be a part from "0%" to "100%", or a number from 0 to 1 for utilisation"#
        ]],
    );
    bounds(
        "utilisation",
        "at_least = \"0.5\"",
        &expect![[
            r#"assert[1].at_least = "0.5": must be a number, a part up to "100%", a span such as "3s", or times the rate such as "0.99 R""#
        ]],
    );
    bounds(
        "jain",
        "at_least = nan",
        &expect![[
            r#"assert[1].at_least = nan: must be a number, a part up to "100%", a span such as "3s", or times the rate such as "0.99 R""#
        ]],
    );
}

#[test]
fn a_bound_is_of_the_kind_of_its_figure() {
    bounds(
        "admitted",
        "at_most = inf",
        &expect![[
            r#"assert[1].at_most = inf: must be a number, a part up to "100%", a span such as "3s", or times the rate such as "0.99 R""#
        ]],
    );
    bounds(
        "admitted",
        "at_most = \"nan R\"",
        &expect![[
            r#"assert[1].at_most = "nan R": must be a number, a part up to "100%", a span such as "3s", or times the rate such as "0.99 R""#
        ]],
    );
    bounds(
        "admitted",
        "at_most = \"98%\"",
        &expect![[
            r#"assert[1].at_most = "98%": must be a number, or times the rate such as "0.99 R" for admitted"#
        ]],
    );
    bounds(
        "settled",
        "at_most = \"98%\"",
        &expect![[
            r#"assert[1].at_most = "98%": must be a span such as "3s", or a number of seconds for settled"#
        ]],
    );
    bounds(
        "messages",
        "at_most = \"3s\"",
        &expect![[r#"assert[1].at_most = "3s": must be a number for messages"#]],
    );
    bounds(
        "jain",
        "at_least = 0.9\nat_most = 0.8",
        &expect![[r#"assert[1].at_least = 0.9: must not be more than at_most"#]],
    );
    bounds(
        "settled",
        "at_least = \"1s\"\nat_most = 3",
        &expect![["it is well"]],
    );
    bounds(
        "admitted",
        "at_least = 2\nat_most = \"0.99 R\"",
        &expect![["it is well"]],
    );
    bounds("slack", "at_least = -3.5", &expect![["it is well"]]);
}

#[test]
fn a_line_of_a_trace_that_is_wrong_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = WHOLE.replace("count = 3", "shape = \"trace\"\ntrace = \"load.csv\"");
    let check = |lines: &str, expect: &Expect| {
        std::fs::write(folder.path().join("load.csv"), lines).expect("it can be written");
        let message = match Scenario::parse("mine", &text, Some(folder.path())) {
            Ok(_) => "it is well".to_owned(),
            Err(problems) => problems.to_string(),
        };
        expect.assert_eq(&message);
    };
    check("0,10\n\n1.5,300/s\n", &expect![["it is well"]]);
    check(
        "0,10\n\n1.5,nan\n",
        &expect![[
            r#"clients[1].trace = "load.csv": line 3 of the file is "1.5,nan": must be `seconds,rate` such as `1.5,300`, up to 86400 seconds and 10M a second, times rising"#
        ]],
    );
    check(
        "2,10\n1,10\n",
        &expect![[
            r#"clients[1].trace = "load.csv": line 2 of the file is "1,10": must be `seconds,rate` such as `1.5,300`, up to 86400 seconds and 10M a second, times rising"#
        ]],
    );
    check(
        "\n",
        &expect![[
            r#"clients[1].trace = "load.csv": must have lines of `seconds,rate`, such as `1.5,300`"#
        ]],
    );
}

/// The settings that follow from the round trip are those of `aliquot serve`.
#[test]
fn a_round_trip_sets_what_follows_from_it() {
    let lease = |text: &str| {
        let text = WHOLE.replace("[run]", &format!("[lease]\n{text}\n[run]"));
        let lease = Scenario::parse("mine", &text, None)
            .expect("it is well")
            .lease;
        [
            lease.heartbeat,
            lease.election_min,
            lease.election_max,
            lease.lease,
        ]
        .map(|nanos| nanos / 1_000_000)
    };
    assert_eq!(lease(""), [150, 300, 600, 3_000]);
    assert_eq!(lease("round_trip = \"50ms\""), [150, 300, 600, 3_000]);
    // 4/3 of the round trip, twice that, twice that again, and 3 x 450 + 2 x 800 + 5 x 150 + 5/4 x 200 ms.
    assert_eq!(lease("round_trip = \"150ms\""), [200, 400, 800, 4_000]);
    assert_eq!(
        lease("round_trip = \"150ms\"\nlease = \"5s\"\nelection_max = \"900ms\""),
        [200, 400, 900, 5_000]
    );
    let refused = |text: &str, expect: &Expect| {
        instead("[run]", &format!("[lease]\n{text}\n[run]"), expect);
    };
    refused(
        "round_trip = \"150ms\"\nlease = \"3s\"",
        &expect![[
            r#"lease.lease = "3s": `aliquot serve` refuses this: is too short for a leader change: 3 × report_every + 2 × election_max + 5 × round_trip + 5/4 × heartbeat = 3950ms, but a client may use only 2988 ms of the lease: make lease longer, or report_every, election_max, round_trip or heartbeat shorter"#
        ]],
    );
    refused(
        "round_trip = \"0.5ms\"",
        &expect![[
            r#"lease.round_trip = "500us": `aliquot serve` refuses this: must be a span from 1ms to 1m, such as 500ms or 3s"#
        ]],
    );
    refused(
        "round_trip = \"2m\"",
        &expect![[
            r#"lease.round_trip = "2m": `aliquot serve` refuses this: must be a span from 1ms to 1m, such as 500ms or 3s"#
        ]],
    );
    refused(
        "round_trip = 150",
        &expect![[
            r#"lease.round_trip = 150: must be a span with its unit from 0s to 1h, such as "500ms""#
        ]],
    );
    // The links are slower than the cluster is set for.
    instead(
        "[run]",
        "[topology]\nlink_delay = \"100ms\"\n[lease]\nround_trip = \"100ms\"\n[run]",
        &expect![[r#"
            lease.lease = "3500ms": `aliquot serve` refuses this: is too short for a leader change: 3 × report_every + 2 × election_max + 5 × round_trip + 5/4 × heartbeat = 3752500us, but a client may use only 3486 ms of the lease: make lease longer, or report_every, election_max, round_trip or heartbeat shorter (the links of [topology] have round_trip = 203ms)
            lease.heartbeat = "150ms": `aliquot serve` refuses this: must be at least 4/3 of round_trip = 203ms: otherwise answers to heartbeats arrive too late (the links of [topology] have round_trip = 203ms)"#]],
    );
    instead(
        "[run]",
        "[topology]\nlink_delay = \"60ms\"\n[lease]\nround_trip = \"123ms\"\n[run]",
        &expect![["it is well"]],
    );
}
