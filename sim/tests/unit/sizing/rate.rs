use super::*;

#[test]
fn candidates_begin_at_the_mean_in_a_unit_with_two_digits() {
    let first = |tokens, seconds: u64| {
        let rates: Vec<String> = grid(tokens, seconds * 1_000_000_000)
            .take(3)
            .map(|rate| rate.to_string())
            .collect();
        rates.join(" ")
    };
    assert_eq!(first(1_000, 10), "100/s 110/s 120/s");
    assert_eq!(first(1_001, 10), "110/s 120/s 130/s");
    assert_eq!(first(100, 100), "62/min 68/min 75/min");
    assert_eq!(first(60, 3_600), "62/h 68/h 75/h");
    assert_eq!(first(1, 86_400), "1/day 2/day 3/day");
}
