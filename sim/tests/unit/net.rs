use super::*;
use crate::clock::{MS, QUANTUM};
use crate::scenario::Scenario;

/// Three nodes, of which the last is in another zone, and a client in the first zone.
fn net(lines: &str) -> Net {
    let text = format!(
        r#"
        [topology]
        nodes = 3
        zones = ["here", "there"]
        link_delay = "2ms"
        link_spread = "4ms"
        spread_shape = "uniform"
        zone_delay = "10ms"
        {lines}
        [[budget]]
        key = "reads"
        rate = "100/s"
        [[clients]]
        rate = "20/s"
        "#
    );
    let scenario = Scenario::parse("mine", &text, None);
    let scenario = scenario.unwrap_or_else(|problems| panic!("{problems}"));
    Net::new(7, scenario.topology, vec![0, 0, 1, 0])
}

/// A fault of what goes from one host to another.
fn harmed(harm: Harm, from: usize, to: usize) -> Harmed {
    Harmed {
        harm,
        from: HostSet::of([from]),
        to: HostSet::of([to]),
        both: false,
    }
}

/// The delays of a thousand messages.
fn delays(net: &mut Net, from: usize, to: usize) -> Vec<u64> {
    let sent = (0..1_000).map(|now| net.send(now * 100 * MS, from, to));
    sent.map(|fate| fate.copies[0].expect("it arrives"))
        .collect()
}

#[test]
fn delays_are_spread_evenly_above_their_least() {
    let mut net = net("");
    for (from, to, least) in [(0, 1, 2 * MS), (3, 0, 2 * MS), (0, 2, 12 * MS)] {
        let all = delays(&mut net, from, to);
        let quarter = |of: u64| {
            let part = (least + of * MS)..=(least + (of + 1) * MS + QUANTUM);
            all.iter().filter(|delay| part.contains(delay)).count()
        };
        let quarters: Vec<usize> = (0..4).map(quarter).collect();
        assert!(quarters.iter().sum::<usize>() >= 1_000, "{quarters:?}");
        assert!(quarters.iter().all(|&count| count > 200), "{quarters:?}");
    }
}

#[test]
fn a_message_has_overtaken_if_it_arrives_before_an_earlier_one() {
    let mut net = net("");
    let (mut last, mut seen) = (0, [0; 2]);
    for now in (0..1_000).map(|count| count * MS) {
        let fate = net.send(now, 0, 1);
        let arrives = now + fate.copies[0].expect("it arrives");
        assert_eq!(fate.overtaken, arrives < last, "at {now}");
        seen[usize::from(fate.overtaken)] += 1;
        last = last.max(arrives);
    }
    assert!(seen.iter().all(|&count| count > 100), "{seen:?}");
}

#[test]
fn a_cut_is_one_way_and_any_fault_is_one() {
    let mut net = net("");
    assert!(net.reaches(0, 1) && net.is_faultless(0, 1));
    net.harm(1, harmed(Harm::Cut, 0, 1));
    net.harm(2, harmed(Harm::Duplicate(0.5), 0, 3));
    assert!(!net.reaches(0, 1) && !net.is_faultless(0, 1));
    assert!(net.reaches(1, 0) && net.is_faultless(1, 0));
    assert!(net.reaches(0, 3) && !net.is_faultless(0, 3));
    net.recover(1);
    assert!(net.reaches(0, 1) && net.is_faultless(0, 1));
}

#[test]
fn a_network_that_loses_messages_by_chance_is_never_faultless() {
    assert!(!net("loss = 0.01").is_faultless(0, 1));
}
