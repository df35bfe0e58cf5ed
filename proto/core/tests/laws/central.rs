//! Laws of central mode (invariants 1, 2, 9 and 10).
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests, which stop where they cannot go on"
)]

mod fleet;

mod corners;

mod permits;

use aliquot_core::planted::{self, Bug};
use aliquot_core::unit::RequestId;
use fleet::{Fleet, budget, rate};

/// Runs a fleet under three times its limit. Returns its part of R over twenty seconds, the least that any
/// client was admitted, and the fleet.
fn run(rate_of: u64, burst: u64, clients: usize) -> (f64, u64, Fleet) {
    let mut fleet = Fleet::new(rate(rate_of, burst), clients);
    fleet.load(3 * rate_of, 2_000);
    for service in &mut fleet.services {
        (service.admitted, service.locally) = (0, 0);
    }
    fleet.load(3 * rate_of, 20_000);
    let part = fleet.admitted() as f64 / (20 * rate_of) as f64;
    let least = fleet.services.iter().map(|service| service.admitted).min();
    (part, least.unwrap(), fleet)
}

#[test]
fn three_tokens_for_forty_clients_on_three_nodes_are_all_used_and_reach_everybody() {
    for (rate, burst, clients) in [
        (100, 3, 40),
        (100, 1, 7),
        (100, 30, 40),
        (300, 11, 12),
        (50, 2, 2),
    ] {
        let (part, least, fleet) = run(rate, burst, clients);
        let slack = fleet.envelope.report().slack;
        let mean = fleet.admitted() as f64 / clients as f64;
        eprintln!(
            "{rate}/s, burst {burst}, {clients} clients: {part:.4} of R, least {least} of {mean:.0}, slack {slack}"
        );
        assert!(
            fleet.envelope.verdict().is_pass(),
            "{}",
            fleet.envelope.verdict()
        );
        assert!(slack >= 0);
        let (ours, reference) = fleet.dominance.counts();
        assert!(
            fleet.dominance.verdict().is_pass(),
            "{}",
            fleet.dominance.verdict()
        );
        assert!(
            ours * 100 >= reference * 97,
            "{ours} where one bucket admits {reference}"
        );
        // A bucket of one token loses what is made while no client asks, wherever it is.
        let enough = if burst < 2 { 0.70 } else { 0.95 };
        assert!(part >= enough, "only {part} of R with a burst of {burst}");
        assert!(part <= 1.001, "{part} of R");
        assert!(
            least as f64 >= 0.5 * mean,
            "one caller got {least} of a mean of {mean}"
        );
    }
}

#[test]
fn dealt_in_single_tokens_a_small_burst_would_lie_idle() {
    planted::with(Some(Bug::SmallBudgetDealt), || {
        let (part, least, fleet) = run(100, 3, 40);
        let mean = fleet.admitted() / 40;
        assert!(part < 0.95 || least * 2 < mean, "{part}, {least} of {mean}");
    });
}

#[test]
fn what_is_large_enough_is_decided_locally() {
    let (part, _, fleet) = run(1_000, 200, 12);
    let locally: u64 = fleet.services.iter().map(|service| service.locally).sum();
    assert!(part >= 0.95, "{part}");
    assert!(
        locally * 10 >= fleet.admitted() * 9,
        "{locally} of {}",
        fleet.admitted()
    );
}

#[test]
fn forty_clients_share_a_quota_of_five_to_the_last_token() {
    let mut fleet = Fleet::new(budget(|draft| draft.quota = Some("5/day".into())), 40);
    fleet.load(200, 5_000);
    assert_eq!(fleet.admitted(), 5);
}

#[test]
fn forty_clients_take_turns_with_two_permits() {
    let mut fleet = Fleet::new(fleet::permits(2), 40);
    let mut flights: Vec<(u64, usize, RequestId)> = Vec::new();
    let mut served = [0_u64; 40];
    for step in 0..20_000_u64 {
        fleet.step();
        assert_eq!(fleet.overdealt(), None);
        flights.retain(|&(until, of, request)| {
            let over = until <= step;
            if over {
                let release = fleet.services[of].requests.release(request).unwrap();
                let node = fleet.services[of].node;
                fleet.carry_release(node, &release);
            }
            !over
        });
        let of = fleet.draw(40) as usize;
        if fleet.draw(3) > 0 {
            continue;
        }
        let now = fleet::at(fleet.now);
        if fleet.services[of]
            .client
            .try_permit_at(fleet::B, now)
            .is_ok()
        {
            panic!("two permits are never dealt to forty");
        }
        let Some(ask) = fleet.ask(of, 1, Default::default()) else {
            continue;
        };
        let node = fleet.services[of].node;
        let decision = fleet.carry(node, &ask);
        let Some(decision) = decision else { continue };
        let verdict = fleet.services[of].requests.handle(&decision, now);
        if let aliquot_core::decision_requests::Verdict::Counts(request, outcome) = verdict
            && fleet::admitted(Some(outcome))
        {
            served[of] += 1;
            flights.push((step + 50, of, request));
        }
        assert!(flights.len() <= 2, "{} in flight", flights.len());
    }
    eprintln!("served: {served:?}");
    assert!(served.iter().all(|&times| times > 0), "{served:?}");
    let sum: u64 = served.iter().sum();
    // Two permits of 50 ms in 20 s are 800.
    assert!(sum >= 640, "{sum}");
}
