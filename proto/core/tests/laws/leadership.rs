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
    Office,
    /// An incarnation begins or continues: it sends a newer report, or repeats one.
    Report(u64, u64),
    StartBarrier,
    Acknowledge(Index),
    Fail(Index),
    Doom(u64),
    End(u64),
    Reclaim,
}

fn any_steps() -> impl Strategy<Value = Vec<Step>> {
    let life = || 1..4_u64;
    let step = prop_oneof![
        6 => (0..60_u64).prop_map(Step::Wait),
        1 => Just(Step::Office),
        9 => (life(), 0..3_u64).prop_map(|(life, newer)| Step::Report(life, newer)),
        7 => Just(Step::StartBarrier),
        5 => any::<Index>().prop_map(Step::Acknowledge),
        1 => any::<Index>().prop_map(Step::Fail),
        1 => life().prop_map(Step::Doom),
        1 => life().prop_map(Step::End),
        2 => Just(Step::Reclaim),
    ];
    prop::collection::vec(step, 1..90)
}

#[derive(Debug, Default)]
struct Life {
    doomed: bool,
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
    office: Option<u64>,
    lives: BTreeMap<u64, Life>,
    over: Vec<u64>,
    barriers: Vec<(Barrier, usize)>,
}

impl World {
    fn new() -> Self {
        let mut leader = Leadership::elected(Term::new(3), PATIENCE);
        let mut lives = BTreeMap::new();
        for life in 1..4 {
            leader.begin(Incarnation::new(life), Tick::from_nanos(0));
            lives.insert(life, Life::default());
        }
        Self {
            leader,
            now: 0,
            step: 0,
            office: None,
            lives,
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
            Step::Office if self.office.is_none() => {
                self.office = Some(self.now);
                let lives: Vec<_> = self
                    .lives
                    .keys()
                    .map(|&life| Incarnation::new(life))
                    .collect();
                self.leader.take_office(self.now(), lives.into_iter());
            }
            Step::Office => {}
            Step::Report(life, newer) => self.report(*life, *newer),
            Step::StartBarrier => {
                let started = self.leader.start_barrier();
                prop_assert!(started.is_none() || self.office.is_some(), "before office");
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
            Step::Doom(life) => {
                self.leader.doom(Incarnation::new(*life));
                if let Some(life) = self.lives.get_mut(life) {
                    life.doomed = true;
                }
            }
            Step::End(life) => {
                self.leader.end(Incarnation::new(*life));
                self.lives.remove(life);
                self.over.push(*life);
            }
            Step::Reclaim => self.reclaim()?,
        }
        for (&life, known) in &self.lives {
            let live = self.leader.is_live(Incarnation::new(life));
            prop_assert_eq!(live, !known.doomed, "life {}", life);
        }
        Ok(())
    }

    fn report(&mut self, life: u64, newer: u64) {
        if let Some(known) = self.lives.get_mut(&life) {
            let last = known
                .arrived
                .iter()
                .map(|&(seq, ..)| seq)
                .max()
                .unwrap_or(0);
            known.arrived.push((last + newer, self.now, self.step));
            self.leader.arrived(
                Incarnation::new(life),
                Seq::new(last + newer),
                Tick::from_nanos(self.now),
            );
        }
    }

    /// Checks that a confirmed report arrived before its barrier started, in office, from an incarnation that
    /// was never fenced, and is newer than the report confirmed before.
    fn acknowledge(&mut self, (barrier, started): (Barrier, usize)) -> TestCaseResult {
        for Confirmation {
            child,
            seq,
            received,
        } in self.leader.acknowledged(barrier)
        {
            prop_assert!(self.office.is_some(), "{seq} of {child} before office");
            prop_assert!(!self.over.contains(&child.get()), "{child} is over");
            let Some(life) = self.lives.get_mut(&child.get()) else {
                return Err(TestCaseError::fail("an unknown life"));
            };
            prop_assert!(!life.doomed, "{child} was given up");
            let arrived = life.arrived.iter().any(|&(number, at, step)| {
                number == seq.get() && at == received.nanos() && step < started
            });
            prop_assert!(
                arrived,
                "{seq} of {child} arrived after the barrier had started"
            );
            prop_assert!(seq.get() > life.confirmed, "{seq} of {child} is not newer");
            life.confirmed = seq.get();
            life.confirmed_received = life.confirmed_received.max(received.nanos());
        }
        Ok(())
    }

    /// Checks that the reclaimable incarnations are exactly those that were silent for more than a whole
    /// patience, by the leader's clock, in office.
    fn reclaim(&mut self) -> TestCaseResult {
        let over = self.leader.reclaimable(self.now());
        for (&life, known) in &mut self.lives {
            let named = over.contains(&Incarnation::new(life));
            let silent = self.office.is_some_and(|office| {
                let from = office.max(known.begun).max(known.confirmed_received);
                self.now - from > PATIENCE.nanos()
            });
            prop_assert_eq!(named, silent, "life {} at {}", life, self.now);
            known.doomed |= named;
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
    world.step(&Step::Office)?;
    for _ in 0..2 {
        world.step(&Step::StartBarrier)?;
        for barrier in std::mem::take(&mut world.barriers) {
            world.acknowledge(barrier)?;
        }
    }
    for (life, known) in world.lives {
        let last = known
            .arrived
            .iter()
            .map(|&(seq, ..)| seq)
            .max()
            .unwrap_or(0);
        prop_assert!(
            known.doomed || known.confirmed == last,
            "life {life}: {known:?}"
        );
    }
    Ok(())
}

/// However much faster reports arrive than a quorum answers, each is confirmed within the time of two
/// barriers: the one under way and the one that covers it.
///
/// Each of `lives` incarnations reports once a step, and each barrier is answered `slow` steps after it
/// began.
fn no_report_waits_for_ever(lives: u64, slow: usize) -> TestCaseResult {
    let lives = 1..=lives;
    let mut leader = Leadership::elected(Term::new(1), PATIENCE);
    leader.take_office(Tick::from_nanos(0), lives.clone().map(Incarnation::new));
    let mut under_way = VecDeque::new();
    let mut confirmed: BTreeMap<_, usize> = BTreeMap::new();
    for step in 1..=5 * slow + 5 {
        for life in lives.clone() {
            let seq = Seq::new(step as u64);
            leader.arrived(Incarnation::new(life), seq, Tick::from_nanos(step as u64));
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
        for life in lives.clone() {
            let last = confirmed.get(&life).copied().unwrap_or(0);
            prop_assert!(
                last + 2 * slow + 2 >= step,
                "life {life} at {step}: confirmed {last}"
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
    leader.take_office(now, [one].into_iter());
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
    fn reports_are_confirmed_however_slow_a_quorum_is(lives in 1..4_u64, slow in 0..60_usize) {
        no_report_waits_for_ever(lives, slow)?;
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
    let mut steps = vec![Step::Office, Step::Report(1, 1), Step::StartBarrier];
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
        Bug::ConfirmsBeforeOffice,
        Bug::DoomedConfirmed,
        Bug::PatienceLags,
    ] {
        catches(bug, any_steps(), |steps| {
            every_promise_has_its_cause(&steps)
        });
    }
    let slow = (1..4_u64, 0..60_usize);
    catches(Bug::OldestBarrierGivenUp, slow, |(lives, slow)| {
        no_report_waits_for_ever(lives, slow)
    });
}
