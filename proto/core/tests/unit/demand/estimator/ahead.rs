use super::super::Observed;
use super::*;

fn at(millis: u64) -> Tick {
    Tick::ZERO.after(Span::from_millis(millis))
}

#[test]
fn what_is_expected_grows_with_how_long_a_stream_is_known() {
    let (mut estimator, nine) = (
        Estimator::new(Span::from_millis(100), u64::MAX, at(0)),
        Span::from_secs(9),
    );
    let ten = Observed {
        admitted: 10,
        ..Observed::default()
    };
    for tick in 0..60 {
        estimator.observe(ten, at(tick * 100));
        let ahead = estimator.ahead_at(nine, at(tick * 100));
        let known = (tick + 4).min(30);
        assert!(ahead.abs_diff(known * 30) <= 90, "{ahead} in tick {tick}");
    }
    assert_eq!(estimator.ahead_at(nine, at(40_000)), 0);
}
