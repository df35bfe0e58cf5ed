use super::*;
use std::string::ToString;

const BREACH: Verdict = Verdict::Fail(Violation {
    invariant: Invariant::Envelope,
    when: When::Within {
        from: Tick::from_nanos(1_000_000_000),
        to: Tick::from_nanos(1_500_000_000),
    },
    excess: 17,
    what: "grains admitted over the envelope",
});
const DOUBT: Verdict = Verdict::Unknown(Doubt::OutOfRange);

#[test]
fn a_violation_says_which_invariant_when_and_by_how_much() {
    assert_eq!(
        BREACH.to_string(),
        "fail: invariant 1 (envelope) broken within [@1s, @1500ms]: \
         17 grains admitted over the envelope"
    );
}

#[test]
fn a_failure_outweighs_a_doubt_and_a_doubt_a_pass() {
    for (a, b, both) in [
        (Verdict::Pass, Verdict::Pass, Verdict::Pass),
        (Verdict::Pass, DOUBT, DOUBT),
        (DOUBT, BREACH, BREACH),
        (Verdict::Pass, BREACH, BREACH),
    ] {
        assert_eq!(a.and(b), both);
        assert_eq!(b.and(a), both);
    }
}
