//! A quota that is spent is waited for by one caller a second.

use crate::key::Home;
use aliquot_core::unit::{Span, Tick};

#[test]
fn of_all_who_lack_a_quota_one_a_second_waits() {
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
