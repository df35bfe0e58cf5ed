//! The rows, and their interpreter.

use super::{TENTH, full, tick};
use aliquot_client::clock::Span;
use aliquot_client::{Limit, Reservation};

/// Creates a limiter of `per_sec` and `burst`, full at tenth `start`, and runs a script: one step per line,
/// with the tenth at which it happens. `cancel` counts the granted reservations from 0.
#[track_caller]
pub(super) fn check(name: &str, (per_sec, burst, start): (u64, u64, u64), script: &str) {
    let (limiter, _) = full(Limit::per_sec(per_sec), burst, start);
    let mut granted: Vec<Option<Reservation>> = Vec::new();
    for line in script.lines() {
        let step = line.split('#').next().unwrap_or_default();
        let words: Vec<&str> = step.split_whitespace().collect();
        let (at, now) = (number(words[0]), tick(number(words[0])));
        match words[1..] {
            ["allow", n, yes] => {
                let admitted = limiter.try_acquire_at(number(n), now).is_ok();
                assert_eq!(admitted, yes == "yes", "{name}: {line}");
            }
            ["reserve", n, ref rest @ ..] => {
                let (act, most) = expected(rest);
                let most = std::time::Duration::from_nanos(most.nanos());
                let reserved = limiter.reserve_within_at(number(n), most, now).ok();
                let act_at = reserved.as_ref().map(Reservation::act_at);
                assert_eq!(act_at, act.map(tick), "{name}: {line}");
                if let Some(reservation) = reserved {
                    let wait = act.map_or(0, |act| act.saturating_sub(at));
                    let delay = reservation.delay_at(now);
                    assert_eq!(delay, TENTH * wait as u32, "{name}: {line}");
                    granted.push(Some(reservation));
                }
            }
            ["cancel", which, "restores", restored] => {
                let which = granted[number(which) as usize].take();
                let reservation = which.expect("not cancelled yet");
                let back = reservation.cancel_at(now);
                assert_eq!(back, number(restored), "{name}: {line}");
            }
            ["limit", n] => {
                let limit = Limit::per_sec(number(n));
                limiter.set_limit_at(limit, now).expect("a limit");
            }
            ["unlimit"] => {
                let limit = Limit::UNLIMITED;
                limiter.set_limit_at(limit, now).expect("a limit");
            }
            ["burst", n] => limiter.set_burst_at(number(n), now).expect("a burst"),
            ["tokens", expected] => {
                let (tokens, expected) = (limiter.tokens_at(now), expected.parse::<f64>());
                let off = tokens - expected.expect("a number");
                assert!(off.abs() < 1e-6, "{name}: {line}: {tokens}");
            }
            _ => panic!("{name}: {line}"),
        }
    }
}

fn number(word: &str) -> u64 {
    word.parse().expect("a number")
}

/// Parses the tenth to act at (`no`: refused), and the longest wait.
fn expected(rest: &[&str]) -> (Option<u64>, Span) {
    let within = |most: &str| Span::from_millis(100 * number(most));
    match *rest {
        ["no"] => (None, Span::MAX),
        ["no", "within", most] => (None, within(most)),
        ["at", act] => (Some(number(act)), Span::MAX),
        ["at", act, "within", most] => (Some(number(act)), within(most)),
        _ => panic!("{rest:?}"),
    }
}
