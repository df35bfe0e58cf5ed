use super::*;

#[test]
fn as_many_costs_as_the_fleet_takes_are_no_error() {
    let with = |number: u64| {
        let request = |cost| super::super::Request { at: cost, cost };
        let recorded = super::super::Recorded {
            key: "a".into(),
            requests: (1..=number).map(request).collect(),
        };
        costs(&recorded.size(0.0, SECOND)).map(|costs| costs.len())
    };
    assert_eq!(with(8), Ok(8));
    assert!(with(9).is_err_and(|error| error.contains("9 different costs")));
}
