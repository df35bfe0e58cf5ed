//! Callers that ask once, and what a node may still bring them.

use super::*;
use crate::key_state::Home;
use aliquot_core::central::Reason as Why;

#[test]
fn one_caller_a_second_waits_for_a_spent_quota() {
    let at = |millis: u64| Tick::from_nanos(millis * 1_000_000);
    let (home, wait) = (Home::default(), Span::from_millis(250));
    let probe = |cost, millis| home.probe(cost, wait, at(millis));
    assert_eq!((probe(2, 0), probe(2, 1)), (None, None), "nothing is known");
    home.waited_in_vain(2, at(250));
    assert_eq!(probe(2, 251), Some(Span::from_millis(999)));
    assert_eq!(probe(1, 251), None, "less may be there");
    assert_eq!(probe(2, 1_250), None, "one waits again");
    assert_eq!(probe(2, 1_250), Some(wait), "the others do not");
    home.waited_in_vain(2, at(1_500));
    assert_eq!(probe(3, 2_499), Some(Span::from_millis(1)));
}

/// A home node that has nothing left of a rate answers before the share arrives that the key's first report
/// brings.
#[test]
fn a_share_that_is_on_its_way_outlives_the_refusal_of_the_home() {
    for comes in [true, false] {
        let mut kept = Kept::new();
        kept.part.agree(terms());
        let limiter = kept.part.limiter.clone();
        let mut once = pin!(limiter.check(1));
        assert!(once.as_mut().now_or_never().is_none());
        let spent = Answer::Refused {
            reason: Why::Spent,
            retry_after: Some(Span::from_millis(400)),
        };
        let question = kept.asked().expect("nothing is held here");
        assert!(question.reply.send(spent).is_ok());
        assert!(once.as_mut().now_or_never().is_none(), "a share may come");
        kept.part.clock.advance(Duration::from_millis(249));
        assert!(once.as_mut().now_or_never().is_none());
        if comes {
            kept.part.deposit(1_000, 100);
        }
        kept.part.clock.advance(Duration::from_millis(1));
        let outcome = once.as_mut().now_or_never().expect("that was long enough");
        assert_eq!(outcome.is_ok(), comes);
    }
}
