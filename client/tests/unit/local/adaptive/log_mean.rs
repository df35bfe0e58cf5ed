use super::*;

#[test]
fn the_mean_and_its_error_are_those_of_the_logarithms() {
    let mut logs = LogMean::new();
    assert_eq!((logs.calls(), logs.error()), (0.0, 0.0));
    // Logarithms of about 1, 2 and 6 times that of a thousand.
    for nanos in [1_000, 1_000_000, 1_000_000_000_000_000_000] {
        logs.add(Duration::from_nanos(nanos));
    }
    let unit = 1_000_f64.ln();
    assert!((logs.mean() / unit - 3.0).abs() < 1e-9, "{logs:?}");
    // The squares of 2, 1 and 3 are 14.
    assert!(
        (logs.error() / unit - 14_f64.sqrt() / 3.0).abs() < 1e-9,
        "{logs:?}"
    );
}
