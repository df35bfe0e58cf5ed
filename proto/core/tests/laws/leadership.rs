//! Laws of leadership: what may be confirmed, and when an incarnation may be reclaimed (invariants 3 and 5 of
//! `docs/invariants.md`).

use super::catch;
use aliquot_core::leadership::{Barrier, Confirmation, Leadership};
use aliquot_core::planted::Bug;
use aliquot_core::unit::{Incarnation, Seq, Span, Term, Tick};
use catch::{catches, config};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::TestCaseResult;
use std::collections::{BTreeMap, VecDeque};

const PATIENCE: Span = Span::from_nanos(100);

#[derive(Clone, Debug)]
enum Step {
    Wait(u64),
    Ready,
    /// An incarnation begins or continues: it sends a newer report, or repeats one.
    Report(u64, u64),
    StartBarrier,
    Acknowledge(Index),
    Fail(Index),
    Fence(u64),
    End(u64),
    Reclaim,
}

fn any_steps() -> impl Strategy<Value = Vec<Step>> {
    let incarnation = || 1..4_u64;
    let step = prop_oneof![
        6 => (0..60_u64).prop_map(Step::Wait),
        1 => Just(Step::Ready),
        9 => (incarnation(), 0..3_u64).prop_map(|(incarnation, newer)| Step::Report(incarnation, newer)),
        7 => Just(Step::StartBarrier),
        5 => any::<Index>().prop_map(Step::Acknowledge),
        1 => any::<Index>().prop_map(Step::Fail),
        1 => incarnation().prop_map(Step::Fence),
        1 => incarnation().prop_map(Step::End),
        2 => Just(Step::Reclaim),
    ];
    prop::collection::vec(step, 1..90)
}

#[derive(Debug, Default)]
struct Member {
    fenced: bool,
    begun: u64,
    /// Each report that arrived: its number, the time, and the step.
    arrived: Vec<(u64, u64, usize)>,
    confirmed: u64,
    confirmed_received: u64,
}

/// Everything that happened, so that each promise can be traced to its cause.
#[derive(Debug)]
struct World {
    leader: Leadership,
    now: u64,
    step: usize,
    ready_since: Option<u64>,
    incarnations: BTreeMap<u64, Member>,
    over: Vec<u64>,
    barriers: Vec<(Barrier, usize)>,
}

impl World {
    fn new() -> Self {
        let mut leader = Leadership::elected(Term::new(3), PATIENCE);
        let mut incarnations = BTreeMap::new();
        for incarnation in 1..4 {
            leader.know(Incarnation::new(incarnation), Tick::from_nanos(0));
            incarnations.insert(incarnation, Member::default());
        }
        Self {
            leader,
            now: 0,
            step: 0,
            ready_since: None,
            incarnations,
            over: Vec::new(),
            barriers: Vec::new(),
        }
    }

    fn now(&self) -> Tick {
        Tick::from_nanos(self.now)
    }

    fn step(&mut self, step: &Step) -> TestCaseResult {
        self.step += 1;
        match step {
            Step::Wait(nanos) => self.now += nanos,
            Step::Ready if self.ready_since.is_none() => {
                self.ready_since = Some(self.now);
                let incarnations: Vec<_> = self
                    .incarnations
                    .keys()
                    .map(|&incarnation| Incarnation::new(incarnation))
                    .collect();
                self.leader
                    .become_ready(self.now(), incarnations.into_iter());
            }
            Step::Ready => {}
            Step::Report(incarnation, newer) => self.report(*incarnation, *newer),
            Step::StartBarrier => {
                let started = self.leader.start_barrier();
                prop_assert!(
                    started.is_none() || self.ready_since.is_some(),
                    "before it is ready"
                );
                self.barriers
                    .extend(started.map(|barrier| (barrier, self.step)));
            }
            Step::Acknowledge(which) if !self.barriers.is_empty() => {
                let barrier = self.barriers.remove(which.index(self.barriers.len()));
                self.acknowledge(barrier)?;
            }
            Step::Fail(which) if !self.barriers.is_empty() => {
                let (barrier, _) = self.barriers.remove(which.index(self.barriers.len()));
                self.leader.failed(barrier);
                prop_assert_eq!(self.leader.acknowledged(barrier), [], "it failed");
            }
            Step::Acknowledge(_) | Step::Fail(_) => {}
            Step::Fence(incarnation) => {
                self.leader.fence(Incarnation::new(*incarnation));
                if let Some(incarnation) = self.incarnations.get_mut(incarnation) {
                    incarnation.fenced = true;
                }
            }
            Step::End(incarnation) => {
                self.leader.end(Incarnation::new(*incarnation));
                self.incarnations.remove(incarnation);
                self.over.push(*incarnation);
            }
            Step::Reclaim => self.reclaim()?,
        }
        for (&incarnation, known) in &self.incarnations {
            let live = self.leader.is_live(Incarnation::new(incarnation));
            prop_assert_eq!(live, !known.fenced, "incarnation {}", incarnation);
        }
        Ok(())
    }

    fn report(&mut self, incarnation: u64, newer: u64) {
        if let Some(known) = self.incarnations.get_mut(&incarnation) {
            let last = known
                .arrived
                .iter()
                .map(|&(seq, ..)| seq)
                .max()
                .unwrap_or(0);
            known.arrived.push((last + newer, self.now, self.step));
            self.leader.arrived(
                Incarnation::new(incarnation),
                Seq::new(last + newer),
                Tick::from_nanos(self.now),
            );
        }
    }

    /// Checks that a confirmed report arrived before its barrier started, with the leader ready, from an incarnation that
    /// was never fenced, and is newer than the report confirmed before.
    fn acknowledge(&mut self, (barrier, started): (Barrier, usize)) -> TestCaseResult {
        for Confirmation {
            child,
            seq,
            received,
        } in self.leader.acknowledged(barrier)
        {
            prop_assert!(
                self.ready_since.is_some(),
                "{seq} of {child} before it is ready"
            );
            prop_assert!(!self.over.contains(&child.get()), "{child} is over");
            let Some(incarnation) = self.incarnations.get_mut(&child.get()) else {
                return Err(TestCaseError::fail("an unknown incarnation"));
            };
            prop_assert!(!incarnation.fenced, "{child} was given up");
            let arrived = incarnation.arrived.iter().any(|&(number, at, step)| {
                number == seq.get() && at == received.nanos() && step < started
            });
            prop_assert!(
                arrived,
                "{seq} of {child} arrived after the barrier had started"
            );
            prop_assert!(
                seq.get() > incarnation.confirmed,
                "{seq} of {child} is not newer"
            );
            incarnation.confirmed = seq.get();
            incarnation.confirmed_received = incarnation.confirmed_received.max(received.nanos());
        }
        Ok(())
    }

    /// Checks that the reclaimable incarnations are exactly those that were silent for more than a whole
    /// patience, by the clock of the ready leader.
    fn reclaim(&mut self) -> TestCaseResult {
        let over = self.leader.reclaimable(self.now());
        for (&incarnation, known) in &mut self.incarnations {
            let named = over.contains(&Incarnation::new(incarnation));
            let silent = self.ready_since.is_some_and(|ready_since| {
                let from = ready_since.max(known.begun).max(known.confirmed_received);
                self.now - from > PATIENCE.nanos()
            });
            prop_assert_eq!(named, silent, "incarnation {} at {}", incarnation, self.now);
            known.fenced |= named;
        }
        Ok(())
    }
}

/// Every confirmation and every reclaim has its cause.
fn every_promise_has_its_cause(steps: &[Step]) -> TestCaseResult {
    let mut world = World::new();
    for step in steps {
        world.step(step)?;
    }
    Ok(())
}

/// However many barriers failed or had to wait, the last report of each live incarnation is confirmed once
/// the barriers are answered.
fn no_report_falls_between_two_barriers(steps: &[Step]) -> TestCaseResult {
    let mut world = World::new();
    for step in steps {
        world.step(step)?;
    }
    world.step(&Step::Ready)?;
    for _ in 0..2 {
        world.step(&Step::StartBarrier)?;
        for barrier in std::mem::take(&mut world.barriers) {
            world.acknowledge(barrier)?;
        }
    }
    for (incarnation, known) in world.incarnations {
        let last = known
            .arrived
            .iter()
            .map(|&(seq, ..)| seq)
            .max()
            .unwrap_or(0);
        prop_assert!(
            known.fenced || known.confirmed == last,
            "incarnation {incarnation}: {known:?}"
        );
    }
    Ok(())
}

/// However much faster reports arrive than a quorum answers, each is confirmed within the time of two
/// barriers: the one under way and the one that covers it.
///
/// Each of `incarnations` incarnations reports once a step, and each barrier is answered `slow` steps after it
/// began.
fn no_report_waits_for_ever(incarnations: u64, slow: usize) -> TestCaseResult {
    let incarnations = 1..=incarnations;
    let mut leader = Leadership::elected(Term::new(1), PATIENCE);
    leader.become_ready(
        Tick::from_nanos(0),
        incarnations.clone().map(Incarnation::new),
    );
    let mut under_way = VecDeque::new();
    let mut confirmed: BTreeMap<_, usize> = BTreeMap::new();
    for step in 1..=5 * slow + 5 {
        for incarnation in incarnations.clone() {
            let seq = Seq::new(step as u64);
            leader.arrived(
                Incarnation::new(incarnation),
                seq,
                Tick::from_nanos(step as u64),
            );
        }
        let started = leader.start_barrier();
        under_way.extend(started.map(|barrier| (barrier, step)));
        while let Some((barrier, begun)) =
            under_way.pop_front_if(|(_, begun)| *begun + slow <= step)
        {
            for answer in leader.acknowledged(barrier) {
                prop_assert!(answer.seq.get() <= begun as u64, "it arrived later");
                confirmed.insert(answer.child.get(), answer.received.nanos() as usize);
            }
        }
        for incarnation in incarnations.clone() {
            let last = confirmed.get(&incarnation).copied().unwrap_or(0);
            prop_assert!(
                last + 2 * slow + 2 >= step,
                "incarnation {incarnation} at {step}: confirmed {last}"
            );
        }
    }
    Ok(())
}

/// Two barriers that fail, the earlier one first: the report of the later one is not lost.
#[test]
fn of_two_failed_barriers_the_later_report_counts() {
    let one = Incarnation::new(1);
    let now = Tick::from_nanos(1);
    let mut leader = Leadership::elected(Term::new(1), PATIENCE);
    leader.begin(one, now);
    leader.become_ready(now, [one].into_iter());
    let barriers = [1, 2].map(|seq| {
        leader.arrived(one, Seq::new(seq), now);
        leader.start_barrier().expect("a report waits")
    });
    for barrier in barriers {
        leader.failed(barrier);
    }
    let third = leader.start_barrier().expect("a report waits");
    let confirmed = leader.acknowledged(third);
    assert_eq!(confirmed.len(), 1);
    assert_eq!(confirmed[0].seq, Seq::new(2));
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_confirmation_and_every_reclaim_has_its_cause(steps in any_steps()) {
        every_promise_has_its_cause(&steps)?;
    }

    #[test]
    fn no_report_is_lost_between_barriers(steps in any_steps()) {
        no_report_falls_between_two_barriers(&steps)?;
    }

    #[test]
    fn reports_are_confirmed_however_slow_a_quorum_is(incarnations in 1..4_u64, slow in 0..60_usize) {
        no_report_waits_for_ever(incarnations, slow)?;
    }

    #[test]
    fn patience_is_never_shortened(leases in prop::collection::vec(0..200_u64, 0..9)) {
        let mut leader = Leadership::elected(Term::new(1), PATIENCE);
        for &lease in &leases {
            leader.extend_patience(Span::from_nanos(lease));
        }
        let longest = leases.into_iter().max().unwrap_or(0).max(PATIENCE.nanos());
        prop_assert_eq!(leader.patience(), Span::from_nanos(longest));
    }
}

/// More barriers are started than may be under way, then they are answered.
#[test]
fn a_report_that_has_to_wait_is_covered_by_the_next_barrier() {
    let mut steps = vec![Step::Ready, Step::Report(1, 1), Step::StartBarrier];
    for _ in 0..20 {
        steps.extend([Step::Report(2, 1), Step::StartBarrier]);
    }
    let confirmed = no_report_falls_between_two_barriers(&steps);
    assert!(confirmed.is_ok(), "{confirmed:?}");
}

#[test]
fn the_laws_of_leadership_notice_what_they_should() {
    for bug in [
        Bug::NoPatience,
        Bug::BarrierCoversLate,
        Bug::ConfirmsBeforeReady,
        Bug::FencedConfirmed,
        Bug::PatienceLags,
    ] {
        catches(bug, any_steps(), |steps| {
            every_promise_has_its_cause(&steps)
        });
    }
    let slow = (1..4_u64, 0..60_usize);
    catches(Bug::OldestBarrierGivenUp, slow, |(incarnations, slow)| {
        no_report_waits_for_ever(incarnations, slow)
    });
}
