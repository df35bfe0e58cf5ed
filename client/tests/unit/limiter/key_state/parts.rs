use super::*;
use proptest::prelude::*;

const WINDOW: u64 = 100;

fn at(nanos: u64) -> Tick {
    Tick::from_nanos(1_000 + nanos)
}

proptest! {
    #[test]
    fn the_limit_is_the_least_share_held_in_the_window(
        steps in prop::collection::vec((0..60_u64, 0..6_u64), 1..60),
    ) {
        let parts = Parts::default();
        let part = parts.follow(Span::from_nanos(WINDOW), at(0));
        let (mut now, mut held) = (0, vec![(0, 0)]);
        for (gap, amount) in steps {
            now += gap;
            held.push((now, amount));
            parts.see(amount, at(now));
            // A step counts up to where the next one begins.
            let ends = held.iter().skip(1).map(|step| step.0).chain([u64::MAX]);
            let recent = held.iter().zip(ends).filter(|(_, end)| end.saturating_add(WINDOW) > now);
            let least = recent.map(|(step, _)| step.1).min();
            prop_assert_eq!(Some(part.limit()), least, "at {}: {:?}", now, held);
        }
    }
}

#[test]
fn forgotten_steps_only_lower_the_limit() {
    let parts = Parts::default();
    let part = parts.follow(Span::from_nanos(1_000_000), at(0));
    for amount in 0..2_000 {
        parts.see(amount, at(amount));
    }
    assert_eq!(part.limit(), 0);
    parts.see(2_000, at(1_000_100));
    assert!(part.limit() <= 101, "{}", part.limit());
}

#[test]
fn a_window_that_is_gone_is_forgotten() {
    let parts = Parts::default();
    drop(parts.follow(Span::from_nanos(WINDOW), at(0)));
    parts.see(1, at(1));
    assert!(lock(&parts.all).is_empty());
}
