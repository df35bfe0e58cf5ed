//! Laws of leases: a child's lease always ends before its parent's patience (invariants 3 and 5 of
//! `docs/invariants.md`).
#![expect(
    clippy::unwrap_used,
    reason = "the helpers of a test may panic as the test may"
)]

use super::catch;
use aliquot_core::lease::{
    ChildLease, LeaseEvent, LeaseState, YoungLease, child_span, parent_span,
};
use aliquot_core::planted::{self, Bug};
use aliquot_core::unit::{Drift, Seq, Span, Tick};
use catch::{catches, config};
use expect_test::expect;
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use std::collections::BTreeMap;

const MILLION: i128 = 1_000_000;

fn any_drift() -> impl Strategy<Value = Drift> {
    prop_oneof![
        Just(0),
        Just(1_000),
        1..2_000_u32,
        Just(Drift::PPM_MAX),
        0..=Drift::PPM_MAX
    ]
    .prop_map(|ppm| Drift::from_ppm(ppm).unwrap())
}

/// Generates spans from zero over seconds to the longest.
fn any_span() -> impl Strategy<Value = Span> {
    prop_oneof![
        0..3_000_u64,
        0..10_000_000_000_u64,
        any::<u64>(),
        Just(u64::MAX)
    ]
    .prop_map(Span::from_nanos)
}

fn nanos(span: Span) -> i128 {
    i128::from(span.nanos())
}

/// `T_parent · (1 − ρ) / (1 + ρ) − 1 ns < T_child ≤ T_parent · (1 − ρ) / (1 + ρ)`.
fn the_childs_span_is_the_bound_to_the_nanosecond(parent: Span, drift: Drift) -> TestCaseResult {
    let ppm = i128::from(drift.ppm());
    let child = nanos(child_span(parent, drift));
    let bound = nanos(parent) * (MILLION - ppm);
    prop_assert!(child * (MILLION + ppm) <= bound);
    prop_assert!((child + 1) * (MILLION + ppm) > bound);
    Ok(())
}

fn the_parents_wait_is_the_least_that_covers_the_child(
    child: Span,
    drift: Drift,
) -> TestCaseResult {
    let wait = parent_span(child, drift);
    if wait < Span::MAX {
        prop_assert!(child_span(wait, drift) >= child);
    }
    let less = wait.minus_or_zero(Span::from_nanos(1));
    prop_assert!(wait.is_zero() || child_span(less, drift) < child);
    Ok(())
}

/// Two clocks with any offset, whose rates are within ±ρ of true time.
#[derive(Clone, Debug)]
struct Clocks {
    drift: Drift,
    /// Deviation of each from true time, in ppm, between −ρ and +ρ.
    child: i128,
    parent: i128,
    /// Reading of each at true time zero.
    child_zero: u64,
    parent_zero: u64,
}

fn any_clocks() -> impl Strategy<Value = Clocks> {
    let of_drift = prop_oneof![Just(1_000), Just(-1_000), -1_000..=1_000_i128];
    (
        any_drift(),
        of_drift.clone(),
        of_drift,
        0..1_u64 << 50,
        0..1_u64 << 50,
    )
        .prop_map(|(drift, child, parent, child_zero, parent_zero)| Clocks {
            drift,
            child: child * i128::from(drift.ppm()) / 1_000,
            parent: parent * i128::from(drift.ppm()) / 1_000,
            child_zero,
            parent_zero,
        })
}

/// Returns the reading of a clock with this zero and rate at a true time in ns, rounded down as a clock
/// would.
fn reading(zero: u64, ppm: i128, at: i128) -> Tick {
    Tick::from_nanos(zero + u64::try_from(at * (MILLION + ppm) / MILLION).unwrap())
}

/// A lease confirmed for a report that travelled for `flight` and was confirmed `later` ends, in true time,
/// no later than the parent's patience.
///
/// In units of 10⁻⁶ ns of true time, both clocks' ends are exact.
fn a_child_stops_before_its_parent_stops_waiting(
    clocks: &Clocks,
    patience: Span,
    (sent, flight, later): (u64, u64, u64),
) -> TestCaseResult {
    let (sent, received) = (i128::from(sent), i128::from(sent + flight));
    let age = received + i128::from(later);
    let mut lease = ChildLease::new();
    let seq = lease
        .send(reading(clocks.child_zero, clocks.child, sent))
        .unwrap();
    let span = child_span(patience, clocks.drift);
    let held = lease.confirm(seq, span, reading(clocks.child_zero, clocks.child, age));
    if !held {
        return Ok(());
    }
    // Instants at which the clocks pass their ends: (reading − zero) · 10⁶ / (10⁶ + ppm), compared crosswise.
    let child_end = i128::from(lease.until().nanos() - clocks.child_zero);
    let arrived = reading(clocks.parent_zero, clocks.parent, received);
    let parent_end = i128::from(arrived.after(patience).nanos() - clocks.parent_zero);
    // Each reading is rounded down by less than 1 ns; the parent's may come up to one early.
    let (child, parent) = (MILLION + clocks.child, MILLION + clocks.parent);
    prop_assert!(
        child_end * parent <= (parent_end + 1) * child,
        "the child's lease outlives the parent's patience"
    );
    Ok(())
}

/// Events on the child's side.
#[derive(Clone, Copy, Debug)]
enum Step {
    Wait(u64),
    Send,
    /// A confirmation of the report this many sendings ago; beyond the first one it was never sent.
    Confirm(u64, u64),
    /// A confirmation of a report yet to be sent.
    Foretell(u64),
    Expire,
    Jump,
    Close,
}

fn any_steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0..60_u64).prop_map(Step::Wait),
        6 => Just(Step::Send),
        6 => (0..8_u64, 0..100_u64).prop_map(|(ago, span)| Step::Confirm(ago, span)),
        1 => (1..9_u64).prop_map(Step::Foretell),
        2 => Just(Step::Expire),
        1 => Just(Step::Jump),
        1 => Just(Step::Close),
    ];
    prop::collection::vec(step, 1..60)
}

/// The lease by its design: all confirmations are kept, and nothing is derived.
#[derive(Debug, Default)]
struct Model {
    now: u64,
    sent: BTreeMap<u64, u64>,
    last: u64,
    until: u64,
    closed: bool,
}

impl Model {
    fn step(&mut self, step: Step) {
        match step {
            Step::Wait(nanos) => self.now += nanos,
            Step::Send => {
                self.last += 1;
                self.sent.insert(self.last, self.now);
            }
            Step::Confirm(ago, span) => {
                if let Some(&sent) = self.sent.get(&(self.last.wrapping_sub(ago)))
                    && !self.closed
                    && sent + span > self.now
                {
                    self.until = self.until.max(sent + span);
                }
            }
            Step::Foretell(_) | Step::Expire => {}
            Step::Jump => {
                self.until = 0;
                self.sent.clear();
            }
            Step::Close => self.closed = true,
        }
    }

    fn holds(&self) -> bool {
        !self.closed && self.now < self.until
    }
}

/// A lease is held exactly until the greatest `sent + span` confirmed in time since the last jump.
fn a_lease_is_what_was_confirmed_of_what_was_sent(steps: &[Step]) -> TestCaseResult {
    let (mut model, mut lease) = (Model::default(), ChildLease::new());
    for &step in steps {
        let held_before = model.holds();
        model.step(step);
        let now = Tick::from_nanos(model.now);
        match step {
            Step::Wait(_) => {}
            Step::Send => prop_assert_eq!(lease.send(now), Some(Seq::new(model.last))),
            Step::Confirm(ago, span) => {
                let seq = Seq::new(model.last.wrapping_sub(ago));
                let holds = lease.confirm(seq, Span::from_nanos(span), now);
                prop_assert_eq!(holds, model.holds());
            }
            Step::Foretell(ahead) => {
                let seq = Seq::new(model.last + ahead);
                let holds = lease.confirm(seq, Span::from_secs(1), now);
                prop_assert_eq!(holds, held_before, "a seq never sent changes nothing");
            }
            Step::Expire => {
                lease.expire(now);
                prop_assert!(lease.state() != LeaseState::Held || model.holds());
            }
            Step::Jump => {
                lease.jump(now);
            }
            Step::Close => {
                lease.close();
            }
        }
        prop_assert_eq!(
            lease.holds(now),
            model.holds(),
            "after {:?} of {:?}",
            step,
            steps
        );
        if model.holds() {
            prop_assert_eq!(lease.until(), Tick::from_nanos(model.until));
        }
        prop_assert_eq!(lease.state() == LeaseState::Closed, model.closed);
    }
    Ok(())
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_childs_span_is_the_exact_bound_rounded_down(parent in any_span(), drift in any_drift()) {
        the_childs_span_is_the_bound_to_the_nanosecond(parent, drift)?;
    }

    #[test]
    fn a_parents_wait_is_the_least_inverse(child in any_span(), drift in any_drift()) {
        the_parents_wait_is_the_least_that_covers_the_child(child, drift)?;
    }

    #[test]
    fn whatever_the_clocks_a_child_stops_before_its_parent_stops_waiting(
        clocks in any_clocks(), patience in any_patience(), times in any_times(),
    ) {
        a_child_stops_before_its_parent_stops_waiting(&clocks, patience, times)?;
    }

    #[test]
    fn the_greatest_confirmed_end_is_the_end(steps in any_steps()) {
        a_lease_is_what_was_confirmed_of_what_was_sent(&steps)?;
    }
}

fn any_patience() -> impl Strategy<Value = Span> {
    (1_000..10_000_000_000_u64).prop_map(Span::from_nanos)
}

fn any_times() -> impl Strategy<Value = (u64, u64, u64)> {
    let flight = || prop_oneof![Just(0), 0..5_000_u64, 0..4_000_000_000_u64];
    (0..1_u64 << 40, flight(), flight())
}

#[test]
fn only_so_many_sendings_are_remembered_and_the_oldest_is_forgotten_first() {
    let mut lease = ChildLease::new();
    let now = Tick::from_nanos(7);
    let seqs: Vec<Seq> = (0..=ChildLease::REMEMBERED)
        .map(|_| lease.send(now).unwrap())
        .collect();
    assert!(!lease.confirm(seqs[0], Span::from_secs(1), now));
    assert!(lease.confirm(seqs[1], Span::from_secs(1), now));
}

#[test]
fn the_whole_table_of_lease_states() {
    use LeaseEvent::{Close, Expire, Open, Renew};
    use LeaseState::{Closed, Held, Lapsed, None};
    let mut table = String::new();
    for state in [None, Held, Lapsed, Closed] {
        let row = [Renew, Expire, Close, Open].map(|event| {
            let after = format!("{:?}", state.after(event));
            format!("{event:?} → {after:<7}")
        });
        table += format!("{:<7} {}", format!("{state:?}"), row.join("  ")).trim_end();
        table += "\n";
    }
    expect![[r#"
        None    Renew → Held     Expire → None     Close → Closed   Open → None
        Held    Renew → Held     Expire → Lapsed   Close → Closed   Open → None
        Lapsed  Renew → Held     Expire → Lapsed   Close → Closed   Open → None
        Closed  Renew → Closed   Expire → Closed   Close → Closed   Open → None
    "#]]
    .assert_eq(&table);
}

#[test]
fn the_laws_of_leases_notice_what_they_should() {
    catches(
        Bug::NoDriftMargin,
        (any_clocks(), any_patience(), any_times()),
        |(clocks, patience, times)| {
            a_child_stops_before_its_parent_stops_waiting(&clocks, patience, times)
        },
    );
    catches(
        Bug::LeaseFromReceipt,
        (any_clocks(), any_patience(), any_times()),
        |(clocks, patience, times)| {
            a_child_stops_before_its_parent_stops_waiting(&clocks, patience, times)
        },
    );
    for bug in [Bug::LeaseFromReceipt, Bug::ShortGrantWins] {
        catches(bug, any_steps(), |steps| {
            a_lease_is_what_was_confirmed_of_what_was_sent(&steps)
        });
    }
}

#[test]
fn a_confirmation_that_has_run_out_changes_nothing() {
    for late in [5, 6] {
        let mut lease = ChildLease::new();
        let seq = lease.send(Tick::from_nanos(0)).unwrap();
        let now = Tick::from_nanos(late);
        assert!(!lease.confirm(seq, Span::from_nanos(5), now));
        assert_eq!(lease.state(), LeaseState::None);
        assert_eq!(lease.until(), Tick::from_nanos(0));
    }
}

#[test]
fn a_jump_and_a_close_say_whether_a_lease_was_held() {
    let held = || {
        let mut lease = ChildLease::new();
        let now = Tick::from_nanos(0);
        let seq = lease.send(now).unwrap();
        assert!(lease.confirm(seq, Span::from_nanos(5), now));
        lease
    };
    let none = ChildLease::new;
    let now = Tick::from_nanos(1);
    assert!(held().jump(now) && held().close());
    assert!(!none().jump(now) && !none().close());
}

/// Returns the end of a lease until 5 ns, after the clock jumped at `now`.
fn end_after_a_jump(now: u64) -> Tick {
    let mut lease = ChildLease::new();
    let start = Tick::from_nanos(0);
    let seq = lease.send(start).unwrap();
    assert!(lease.confirm(seq, Span::from_nanos(5), start));
    lease.jump(Tick::from_nanos(now));
    assert!(!lease.holds(start));
    lease.until()
}

/// The tokens that were used are compared with those that the bucket made until the end of the lease: an
/// earlier end would take all that were used since then out of the next part.
#[test]
fn a_jump_ends_a_lease_at_that_instant_and_not_earlier() {
    assert_eq!(end_after_a_jump(3), Tick::from_nanos(3));
    assert_eq!(end_after_a_jump(9), Tick::from_nanos(5));
    let planted = planted::with(Some(Bug::JumpEndsAtZero), || end_after_a_jump(3));
    assert_eq!(planted, Tick::from_nanos(0));
}

#[test]
fn the_lease_of_a_young_process_grows_with_its_age() {
    let lease = Span::from_secs(3);
    let most = |millis| YoungLease::most(Span::from_millis(millis), lease).map(Span::nanos);
    for (millis, expect) in [(0, 500), (4_000, 500), (6_000, 750), (9_000, 1_687)] {
        assert_eq!(most(millis).map(|nanos| nanos / 1_000_000), Some(expect));
    }
    assert!(most(11_999).is_some_and(|nanos| nanos < lease.nanos()));
    assert_eq!(most(12_000), None);
    assert_eq!(YoungLease::most(Span::ZERO, Span::ZERO), None);
}
