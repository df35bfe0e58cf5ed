//! Laws of the checkers: each equals its slow definition. Numbers are those of `docs/invariants.md`.
#![expect(
    clippy::unwrap_used,
    reason = "a law that cannot be set up must fail loudly"
)]

use aliquot_core::check::{
    ConcurrencyCheck, Dominance, Doubt, Envelope, LaggedEnvelope, Limit, Limits, Minting,
    Omniscient, QuotaCheck, Verdict,
};
use aliquot_core::unit::{Drift, PeriodId, Rate, Span, Tick, Tokens};
use proptest::collection::vec;
use proptest::prelude::*;

/// Parts of a grain: nanoseconds per second × parts per million.
const PARTS: i128 = 1_000_000_000_000_000;

fn limit(rate: u64, burst: u64) -> Limit {
    Limit::new(Rate::from_grains(rate), Tokens::from_grains(burst))
}

fn drift(ppm: u32) -> Drift {
    Drift::from_ppm(ppm).unwrap()
}

const fn at(nanos: u64) -> Tick {
    Tick::from_nanos(nanos)
}

const fn grains(grains: u64) -> Tokens {
    Tokens::from_grains(grains)
}

/// Generates amounts: nothing, small, and up to the end of the range.
fn amount() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), 0..20_u64, Just(u64::MAX), any::<u64>()]
}

/// Generates rates at which a few nanoseconds make a few grains, and all others.
fn rate() -> impl Strategy<Value = u64> {
    prop_oneof![0..4_000_000_000_u64, amount()]
}

/// Generates events in order of time, many of them at the same instant.
fn events() -> impl Strategy<Value = Vec<(u64, u64)>> {
    let time = prop_oneof![4 => 0..30_u64, 1 => any::<u64>()];
    let cost = prop_oneof![4 => 0..20_u64, 1 => amount()];
    vec((time, cost), 0..40).prop_map(|mut events| {
        events.sort_by_key(|&(time, _)| time);
        events
    })
}

fn replayed(limit: Limit, rho: Drift, events: &[(u64, u64)]) -> Envelope {
    let mut envelope = Envelope::new(limit, rho);
    for &(time, cost) in events {
        envelope.admit(at(time), grains(cost));
    }
    envelope
}

/// Returns `(1 + ρ) · R · Δt` in parts of a grain; `None` is more than any sum here.
fn made(rate: u64, rho: Drift, nanos: u64) -> Option<i128> {
    (i128::from(rate) * i128::from(1_000_000 + rho.ppm())).checked_mul(i128::from(nanos))
}

/// The definition: the least slack in parts of all windows from one event to another, each with every event
/// in it.
fn least_slack(limit: Limit, rho: Drift, events: &[(u64, u64)]) -> Option<i128> {
    let mut least = None;
    for &(from, _) in events {
        for &(to, _) in events.iter().filter(|&&(to, _)| to >= from) {
            let inside = |time: u64| from <= time && time <= to;
            let sum: i128 = events
                .iter()
                .filter(|&&(time, _)| inside(time))
                .map(|&(_, cost)| i128::from(cost) * PARTS)
                .sum();
            let bound = made(limit.rate.grains(), rho, to - from)
                .and_then(|made| made.checked_add(i128::from(limit.burst.grains()) * PARTS));
            if let Some(slack) = bound.map(|bound| bound - sum) {
                least = Some(least.map_or(slack, |known: i128| known.min(slack)));
            }
        }
    }
    least
}

proptest! {
    /// Invariant 1.
    #[test]
    fn one_pass_over_the_events_finds_what_all_pairs_define(
        rate in rate(), burst in amount(), ppm in 0..=Drift::PPM_MAX, events in events()
    ) {
        let (limit, rho) = (limit(rate, burst), drift(ppm));
        let envelope = replayed(limit, rho, &events);
        let report = envelope.report();
        let least = least_slack(limit, rho, &events);
        let expect = least.map_or(i128::from(burst), |parts| parts.div_euclid(PARTS));
        prop_assert_eq!(report.slack, expect);
        prop_assert_eq!(envelope.verdict().is_pass(), expect >= 0);
        prop_assert_eq!(report.events, u64::try_from(events.len()).unwrap());
        let over = (0..events.len())
            .filter(|&last| {
                let end = &events[..=last];
                // Windows that end with this very event: cut what came before.
                (0..=last).any(|first| {
                    let sum: i128 = end[first..].iter().map(|&(_, cost)| i128::from(cost) * PARTS).sum();
                    made(rate, rho, end[last].0 - end[first].0)
                        .and_then(|made| made.checked_add(i128::from(burst) * PARTS))
                        .is_some_and(|bound| bound < sum)
                })
            })
            .count();
        prop_assert_eq!(report.violations, u64::try_from(over).unwrap());
    }

    /// Invariant 1.
    #[test]
    fn the_worst_window_has_the_slack_it_is_reported_with(
        rate in rate(), burst in amount(), events in events()
    ) {
        let (limit, rho) = (limit(rate, burst), Drift::default());
        let report = replayed(limit, rho, &events).report();
        if let Some((from, to)) = report.window {
            let inside: Vec<_> = events
                .iter()
                .copied()
                .filter(|&(time, _)| at(time) >= from && at(time) <= to)
                .collect();
            prop_assert_eq!(inside.first().map(|&(time, _)| at(time)), Some(from));
            let sum: i128 = inside.iter().map(|&(_, cost)| i128::from(cost) * PARTS).sum();
            let bound = made(rate, rho, to.since(from).nanos()).unwrap() + i128::from(burst) * PARTS;
            prop_assert_eq!((bound - sum).div_euclid(PARTS), report.slack);
        } else {
            prop_assert!(events.is_empty());
        }
    }

    /// Invariant 1.
    #[test]
    fn the_slack_can_be_spent_at_the_worst_spot_and_not_a_grain_more(
        rate in rate(), burst in amount(), events in events()
    ) {
        let rho = Drift::default();
        let report = replayed(limit(rate, burst), rho, &events).report();
        // If the slack is negative, that much more burst just passes.
        let lack = -report.slack.min(0);
        let Ok(burst) = u64::try_from(i128::from(burst) + lack) else { return Ok(()) };
        let limit = limit(rate, burst);
        let report = replayed(limit, rho, &events).report();
        prop_assert_eq!(report.slack.min(0), 0);
        prop_assert!(lack == 0 || report.slack == 0);
        let slack = u64::try_from(report.slack).unwrap();
        let to = report.window.map_or(0, |(_, to)| to.nanos());
        let spot = events.iter().filter(|&&(time, _)| time <= to).count();
        let mut more = events.clone();
        more.insert(spot, (to, slack));
        let spent = replayed(limit, rho, &more);
        prop_assert!(spent.verdict().is_pass());
        prop_assert_eq!(spent.report().slack, 0);
        more.insert(spot, (to, 1));
        let over = replayed(limit, rho, &more);
        prop_assert_eq!(over.report().slack, -1);
        prop_assert_eq!(over.verdict().violation().map(|found| found.excess), Some(1));
    }

    /// Invariant 1.
    #[test]
    fn a_limit_that_never_changes_gives_the_plain_envelope(
        rate in rate(), burst in amount(), lag in amount(), events in events(), same in vec(any::<u64>(), 0..4)
    ) {
        let (limit, rho) = (limit(rate, burst), Drift::default());
        let plain = replayed(limit, rho, &events);
        let mut lagged = LaggedEnvelope::new(Limits::new(at(0), limit, Span::from_nanos(lag)), rho);
        let mut steps: Vec<_> = events.iter().map(|&(time, cost)| (time, Some(cost))).collect();
        steps.extend(same.into_iter().map(|time| (time, None)));
        steps.sort_by_key(|&(time, _)| time);
        for (time, step) in steps {
            match step {
                Some(cost) => lagged.admit(at(time), grains(cost)),
                None => lagged.change(at(time), limit),
            }
        }
        prop_assert_eq!(lagged.report().slack, plain.report().slack);
        prop_assert_eq!(lagged.report().violations, plain.report().violations);
        prop_assert_eq!(lagged.verdict().is_pass(), plain.verdict().is_pass());
    }

    /// Invariant 1.
    #[test]
    fn the_lagged_envelope_is_what_all_windows_define(
        first in (0..4_000_000_000_u64, 0..12_u64),
        changes in vec((0..40_u64, 0..4_000_000_000_u64, 0..12_u64), 0..6),
        lag in 0..12_u64,
        costs in vec((0..45_u64, 0..6_u64), 0..20),
    ) {
        let mut changes = changes;
        changes.sort_by_key(|change| change.0);
        let mut costs = costs;
        costs.sort_by_key(|cost| cost.0);
        let mut lagged = LaggedEnvelope::new(
            Limits::new(at(0), limit(first.0, first.1), Span::from_nanos(lag)), drift(1_000));
        let mut pending = changes.iter().peekable();
        for &(time, cost) in &costs {
            while let Some(&&(when, rate, burst)) = pending.peek().filter(|change| change.0 <= time) {
                lagged.change(at(when), limit(rate, burst));
                pending.next();
            }
            lagged.admit(at(time), grains(cost));
        }
        let expect = slow_lagged(first, &changes, lag, &costs);
        if let Some(expect) = expect {
            prop_assert_eq!(lagged.report().slack, expect.div_euclid(PARTS));
        }
    }

    /// Invariant 11.
    #[test]
    fn the_omniscient_bucket_takes_an_arrival_exactly_when_every_window_allows_it(
        rate in rate(), burst in amount(), events in events()
    ) {
        let (limit, rho) = (limit(rate, burst), Drift::default());
        let mut bucket = Omniscient::new(Limits::constant(limit), rho);
        let mut taken: Vec<(u64, u64)> = Vec::new();
        for (time, cost) in events {
            taken.push((time, cost));
            let allowed = least_slack(limit, rho, &taken).is_none_or(|slack| slack >= 0);
            prop_assert_eq!(bucket.offer(at(time), grains(cost)), Some(allowed));
            if !allowed {
                taken.pop();
            }
        }
    }

    /// Invariant 11.
    #[test]
    fn no_lawful_choice_of_equal_requests_is_ahead_of_the_omniscient_bucket(
        rate in 0..4_000_000_000_u64, burst in 0..6_u64, cost in 1..4_u64,
        times in vec(0..12_u64, 0..9)
    ) {
        let (limit, rho) = (limit(rate, burst), Drift::default());
        let mut times = times;
        times.sort_unstable();
        for choice in 0..1_u32 << times.len() {
            let mut envelope = Envelope::new(limit, rho);
            let mut dominance = Dominance::new(Limits::constant(limit), rho);
            for (index, &time) in times.iter().enumerate() {
                if choice >> index & 1 == 1 {
                    envelope.admit(at(time), grains(cost));
                    dominance.admitted(at(time), grains(cost));
                } else {
                    dominance.refused(at(time), grains(cost));
                }
            }
            if envelope.verdict().is_pass() {
                prop_assert!(dominance.verdict().is_pass(), "{}", dominance.verdict());
            }
        }
    }

    /// Invariant 1.
    #[test]
    fn permits_in_flight_are_counted_as_the_definition_counts_them(
        limit in 0..6_u64,
        permits in vec((0..30_u64, 0..30_u64, 0..3_u64), 0..20),
    ) {
        let mut steps = Vec::new();
        for (name, &(start, length, count)) in permits.iter().enumerate() {
            steps.push((start, 0, name, count));
            steps.push((start + length, 1, name, count));
        }
        steps.sort_unstable();
        let mut check = ConcurrencyCheck::new(at(0), grains(limit), Span::ZERO);
        for &(time, release, name, count) in &steps {
            if release == 1 {
                check.release(at(time), &name);
            } else {
                check.acquire(at(time), name, grains(count));
            }
        }
        // Closed intervals: at one instant all acquires were recorded first.
        let peak = permits
            .iter()
            .map(|&(now, ..)| {
                let flying = permits.iter().filter(|&&(start, length, _)| start <= now && now <= start + length);
                flying.map(|&(.., count)| u128::from(count)).sum::<u128>()
            })
            .max()
            .unwrap_or(0);
        prop_assert_eq!(check.peak(), peak);
        prop_assert_eq!(check.in_flight(), 0);
        prop_assert_eq!(check.verdict().is_pass(), peak <= u128::from(limit));
    }

    /// Invariant 1.
    #[test]
    fn a_quota_is_the_sum_of_what_was_stamped_with_its_period(
        limit in amount(), admissions in vec((0..4_u64, amount()), 0..20)
    ) {
        let mut check = QuotaCheck::new(grains(limit));
        let mut sums = [0_u128; 4];
        for &(period, cost) in &admissions {
            check.admit(at(0), PeriodId::new(period), grains(cost));
            sums[usize::try_from(period).unwrap()] += u128::from(cost);
        }
        prop_assert_eq!(check.verdict().is_pass(), sums.iter().all(|&sum| sum <= u128::from(limit)));
    }

    /// Invariant 12.
    #[test]
    fn only_readings_beyond_the_greatest_allow_tokens(
        rate in rate(), burst in amount(), start in any::<u64>(),
        readings in vec((any::<u64>(), amount()), 0..20)
    ) {
        let mut minting = Minting::new(at(start), Rate::from_grains(rate), grains(burst));
        let (mut greatest, mut spent, mut lawful) = (start, 0_u128, true);
        for &(now, tokens) in &readings {
            minting.spend(at(now), grains(tokens));
            greatest = greatest.max(now);
            spent += u128::from(tokens);
            // In whole seconds and the rest, so that no product leaves 128 bits.
            let elapsed = u128::from(greatest - start);
            let (secs, nanos) = (elapsed / 1_000_000_000, elapsed % 1_000_000_000);
            let made = u128::from(rate) * secs + u128::from(rate) * nanos / 1_000_000_000;
            lawful &= spent <= made + u128::from(burst);
        }
        match minting.verdict() {
            Verdict::Unknown(doubt) => prop_assert_eq!(doubt, Doubt::OutOfRange),
            verdict => prop_assert_eq!(verdict.is_pass(), lawful),
        }
    }
}

/// All windows by definition, on a grid of half nanoseconds: changes happen at whole ones, so that each half
/// is inside a stretch without changes.
fn slow_lagged(
    first: (u64, u64),
    changes: &[(u64, u64, u64)],
    lag: u64,
    costs: &[(u64, u64)],
) -> Option<i128> {
    // Each limit with its closed time in force, in halves.
    let mut spans = vec![(0, u64::MAX, first.0, first.1)];
    // A change counts only if some event comes at or after it: others are never reported.
    let last = costs.last()?.0;
    for &(when, rate, burst) in changes.iter().filter(|change| change.0 <= last) {
        spans.last_mut().unwrap().1 = 2 * when;
        spans.push((2 * when, u64::MAX, rate, burst));
    }
    let binding = |half: u64| {
        let counts = |&&(from, to, ..): &&(u64, u64, u64, u64)| {
            from <= half && to >= half.saturating_sub(2 * lag)
        };
        let rate = spans
            .iter()
            .filter(counts)
            .map(|span| span.2)
            .max()
            .unwrap();
        let burst = spans
            .iter()
            .filter(counts)
            .map(|span| span.3)
            .max()
            .unwrap();
        (rate, burst)
    };
    let grown = |from: u64, to: u64| -> i128 {
        (from..to)
            .map(|nano| i128::from(binding(2 * nano + 1).0) * 1_001_000)
            .sum()
    };
    let mut least = None;
    for &(to, _) in costs {
        for from in 0..=to {
            let sum: i128 = costs
                .iter()
                .filter(|&&(time, _)| from <= time && time <= to)
                .map(|&(_, cost)| i128::from(cost) * PARTS)
                .sum();
            // The window starts at this instant, or a moment before it.
            let at_it = binding(2 * from).1;
            // Before the first limit came into force there was no bucket to fill.
            let before = (2 * from)
                .checked_sub(1)
                .map_or(first.1, |half| binding(half).1);
            let slack = i128::from(at_it.min(before)) * PARTS + grown(from, to) - sum;
            least = Some(least.map_or(slack, |known: i128| known.min(slack)));
        }
    }
    least
}
