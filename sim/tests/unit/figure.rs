use super::*;
use crate::plan::Plan;
use crate::world::World;
use aliquot_core::unit::{Band, Weight};

#[test]
fn the_small_are_served_first_and_the_rest_alike() {
    let alike = [Claim::default(); 3];
    assert_eq!(max_min(&[1.0, 10.0, 10.0], &alike, 9.0), [1.0, 4.0, 4.0]);
    assert_eq!(max_min(&[1.0, 2.0], &alike[..2], 9.0), [1.0, 2.0]);
    assert!(max_min(&[], &[], 9.0).is_empty());
}

#[test]
fn shares_follow_weights_within_a_band_and_the_higher_band_comes_first() {
    let claim = |weight, band| Claim {
        weight: Weight::new(weight).unwrap_or_default(),
        band: Band::new(band).unwrap_or_default(),
    };
    let claims = [claim(1, 5), claim(3, 5), claim(1, 5)];
    // The third wants less than its part, which the others divide 1 to 3.
    assert_eq!(max_min(&[9.0, 9.0, 0.5], &claims, 8.5), [2.0, 6.0, 0.5]);
    let claims = [claim(1, 5), claim(1, 9), claim(100, 5)];
    assert_eq!(max_min(&[9.0, 6.0, 0.0], &claims, 8.0), [2.0, 6.0, 0.0]);
    assert_eq!(max_min(&[9.0, 9.0, 9.0], &claims, 8.0), [0.0, 8.0, 0.0]);
}

#[test]
fn a_second_that_is_off_counts_until_it_is_over() {
    let bin = |admitted, ideal| Bin {
        admitted,
        ideal: f64::from(ideal),
        rate: 1_000.0,
        ..Bin::default()
    };
    let mut bins = vec![bin(100, 100); 40];
    assert_eq!(settled(&bins), 0.0);
    bins[12].admitted = 150;
    assert_eq!(settled(&bins), 1.3);
    // Within two in a hundred and one token a second counts as the ideal.
    let mut near = vec![bin(100, 100); 10];
    near[0].admitted = 121;
    assert_eq!(settled(&near), 0.0);
    near[0].admitted = 122;
    assert_eq!(settled(&near), 0.1);
    assert_eq!(seconds_over(&bins), 1.0);
}

#[test]
fn a_second_is_over_its_limit_beyond_a_hundredth_of_it() {
    let over = |admitted| {
        let bin = |admitted| Bin {
            admitted,
            rate: 1_000.0,
            ..Bin::default()
        };
        let mut bins = vec![bin(100); 10];
        bins[0] = bin(admitted);
        (seconds_over(&bins), seconds_unsaved(&bins))
    };
    assert_eq!(over(110), (0.0, 0.0));
    assert_eq!(over(111), (1.0, 1.0));
}

#[test]
fn a_limit_is_back_after_the_last_short_second() {
    let bin = |admitted| Bin {
        admitted,
        rate: 1_000.0,
        ..Bin::default()
    };
    let mut bins = vec![bin(100); 60];
    assert_eq!((back_after(&bins), worst_second(&bins)), (0.0, Some(1.0)));
    bins[3].admitted = 50;
    assert_eq!((back_after(&bins), worst_second(&bins)), (0.4, Some(0.95)));
    bins[33].admitted = 95;
    assert_eq!(back_after(&bins), 0.4, "one in two hundred is no dip");
    bins[33].admitted = 80;
    assert_eq!(back_after(&bins), 3.4);
    // More admissions within the same second make up for it.
    bins[36].admitted = 120;
    assert_eq!(back_after(&bins), 0.7);
}

#[test]
fn what_was_saved_may_be_spent_and_no_more() {
    let bin = |admitted| Bin {
        admitted,
        rate: 1_000.0,
        burst: 40.0,
        ..Bin::default()
    };
    let mut bins = vec![bin(100); 40];
    (bins[12].admitted, bins[25].admitted) = (50, 130);
    assert_eq!((seconds_over(&bins), seconds_unsaved(&bins)), (1.0, 0.0));
    // The bucket holds at most 40, whatever was left unused.
    bins[25].admitted = 151;
    assert_eq!((seconds_over(&bins), seconds_unsaved(&bins)), (1.0, 1.0));
    // Tokens that were spent are not available again.
    (bins[25].admitted, bins[35].admitted) = (130, 130);
    assert_eq!((seconds_over(&bins), seconds_unsaved(&bins)), (2.0, 1.0));
}

/// Runs five clients of 100/s for two seconds, and replaces what each of them requested and was admitted. The fourth
/// has two callers that ask five times a second once they are served. The fifth is of a lower band.
fn of_five(clients: [(u32, u32); 5]) -> (Scenario, RunResult) {
    let text = r#"
        [run]
        duration = "2s"
        heal = "0s"
        [[budget]]
        key = "reads"
        rate = "100/s"
        weights = [{ match = { tier = "low" }, weight = 1, band = 1 }]
        [[clients]]
        count = 3
        rate = "20/s"
        [[clients]]
        loop = "closed"
        flows = 2
        rate = "5/s"
        [[clients]]
        labels = { tier = "low" }
        rate = "20/s"
        "#;
    let scenario = Scenario::parse("mine", text, None).expect("it is well");
    let mut result = World::new(Plan::draw(&scenario, 0)).live();
    result.timeline.clients = clients.map(|all| vec![all, (0, 0)]).to_vec();
    (scenario, result)
}

const TWO_SECONDS: Window<'_> = Window {
    from: 0,
    to: 2 * SEC,
    group: None,
    key: None,
};

#[test]
fn shares_are_told_by_those_who_want_and_by_their_bands() {
    let (scenario, mut result) = of_five([(10, 10), (50, 20), (50, 34), (6, 6), (10, 0)]);
    // The 70 tokens are divided into 10, which is all that the first wants, and three times 20, since the callers of
    // the fourth would ask for 20 in two seconds. Nothing is left for the lower band, which is no client's fault.
    let parts: [f64; 4] = [1.0, 1.0, 34.0 / 20.0, 6.0 / 20.0];
    let (sum, squares) = (4.0, 1.0 + 1.0 + 2.89 + 0.09);
    assert!((parts.iter().sum::<f64>() - sum).abs() < 1e-9);
    let figure = |result: &RunResult, name, window| {
        let scenario = &scenario;
        Figures { scenario, result }.figure(name, window)
    };
    let jain = figure(&result, "jain", TWO_SECONDS).expect("there is one");
    assert!((jain - sum * sum / (4.0 * squares)).abs() < 1e-9, "{jain}");
    // Two clients are 14 tokens off, which is 7 a second of 100.
    let deviation = figure(&result, "deviation", TWO_SECONDS).expect("there is one");
    assert!((deviation - 0.07).abs() < 1e-9, "{deviation}");
    // Within an instant nothing is made, and a limit of nothing has no fractions.
    let instant = Window {
        from: SEC / 2,
        to: SEC / 2,
        ..TWO_SECONDS
    };
    assert_eq!(figure(&result, "deviation", instant), None);
    result.timeline.keys[0].limit = 0.0;
    assert_eq!(figure(&result, "deviation", TWO_SECONDS), None);
}

#[test]
fn nothing_is_shared_alike_if_no_client_got_anything() {
    let (scenario, result) = of_five([(10, 0); 5]);
    let (scenario, result) = (&scenario, &result);
    let jain = Figures { scenario, result }.figure("jain", TWO_SECONDS);
    assert_eq!(jain, None);
}
