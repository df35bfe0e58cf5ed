//! Laws of leaders that follow each other: whatever voters are started again and whatever their clocks show, no
//! leader that a quorum follows reclaims from an incarnation within a lease after a confirmed report of it arrived
//! (invariants 3 and 5 of `docs/invariants.md`).

use super::catch::{catches, config};
use aliquot_core::earlier_terms::{AcknowledgedTerms, EarlierTerms};
use aliquot_core::leadership::{Barrier, Leadership};
use aliquot_core::planted::Bug;
use aliquot_core::unit::{Incarnation, NodeId, Seq, Span, Term, Tick};
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use std::collections::{BTreeMap, BTreeSet};

const PATIENCE: Span = Span::from_nanos(1_000);
const QUIET: Span = Span::from_nanos(100);
/// Bound on the drift of clocks, in thousandths.
const DRIFT: i64 = 50;
const VOTERS: usize = 3;
const HOLDERS: u64 = 3;

#[derive(Clone, Debug)]
enum Step {
    Wait(u64),
    /// Time passes until this much before or after the end of a lease that counts from the latest confirmed report
    /// of a holder, if that is to come.
    WaitForEnd(u64, i64),
    /// A voter is elected with the vote of another.
    Elect(usize, usize),
    Restart(usize),
    /// A holder's report reaches a voter, which may believe that it leads.
    Report(usize, u64),
    StartBarrier(usize),
    /// A voter acknowledges the oldest barrier of another.
    Acknowledge(usize, usize),
    /// The first may commit silences, with the second.
    Silences(usize, usize),
    /// The first may propose reclaims, with the second.
    Reclaim(usize, usize),
}

fn any_case() -> impl Strategy<Value = (Vec<i64>, Vec<Step>)> {
    let voter = || 0..VOTERS;
    let step = prop_oneof![
        6 => (0..400_u64).prop_map(Step::Wait),
        4 => (0..HOLDERS, -170..70_i64).prop_map(|(of, by)| Step::WaitForEnd(of, by)),
        2 => (voter(), voter()).prop_map(|(one, other)| Step::Elect(one, other)),
        1 => voter().prop_map(Step::Restart),
        6 => (voter(), 0..HOLDERS).prop_map(|(to, from)| Step::Report(to, from)),
        5 => voter().prop_map(Step::StartBarrier),
        5 => (voter(), voter()).prop_map(|(one, other)| Step::Acknowledge(one, other)),
        4 => (voter(), voter()).prop_map(|(one, other)| Step::Silences(one, other)),
        4 => (voter(), voter()).prop_map(|(one, other)| Step::Reclaim(one, other)),
    ];
    let drifts = prop::collection::vec(-DRIFT..=DRIFT, VOTERS);
    (drifts, prop::collection::vec(step, 1..120))
}

fn id(voter: usize) -> NodeId {
    NodeId::new(voter as u64 + 1)
}

#[derive(Debug)]
struct Leads {
    term: u64,
    machine: Leadership,
    barriers: Vec<Barrier>,
}

#[derive(Debug)]
struct Voter {
    drift: i64,
    term: u64,
    calls: AcknowledgedTerms,
    leads: Option<Leads>,
    /// The beginning of each silence in the log, by this voter's clock.
    silences: BTreeMap<u64, Tick>,
}

#[derive(Debug)]
struct World {
    now: u64,
    term: u64,
    voters: Vec<Voter>,
    /// Silences in the log. An entry is committed at once, or never.
    log: BTreeMap<u64, Span>,
    seq: u64,
    /// True time at which each report arrived, and the latest arrival of a confirmed one.
    arrived: BTreeMap<u64, u64>,
    confirmed: BTreeMap<u64, u64>,
    over: BTreeSet<u64>,
}

impl World {
    fn new(drifts: &[i64]) -> Self {
        let voter = |&drift: &i64| Voter {
            drift,
            term: 0,
            calls: AcknowledgedTerms::new(Tick::from_nanos(1_000_000)),
            leads: None,
            silences: BTreeMap::new(),
        };
        Self {
            now: 0,
            term: 0,
            voters: drifts.iter().map(voter).collect(),
            log: BTreeMap::new(),
            seq: 0,
            arrived: BTreeMap::new(),
            confirmed: BTreeMap::new(),
            over: BTreeSet::new(),
        }
    }

    fn clock(&self, voter: usize) -> Tick {
        let ran = i128::from(self.now) * i128::from(1_000 + self.voters[voter].drift) / 1_000;
        Tick::from_nanos(1_000_000 + u64::try_from(ran).unwrap_or(0))
    }

    /// Has a voter answer a leader's call. Returns false if it knows of a later term.
    fn call(&mut self, leader: usize, voter: usize) -> bool {
        let now = self.clock(voter);
        let Some(term) = self.voters[leader].leads.as_ref().map(|leads| leads.term) else {
            return false;
        };
        let called = &mut self.voters[voter];
        if voter == leader || called.term > term {
            return false;
        }
        if called.term < term {
            called.leads = None;
        }
        called.term = term;
        called.calls.called(Term::new(term), now);
        true
    }

    fn elect(&mut self, leader: usize, voter: usize) {
        if leader == voter {
            return;
        }
        self.term += 1;
        let (term, now) = (Term::new(self.term), self.clock(leader));
        let machine = Leadership::elected(term, PATIENCE);
        let leads = Leads {
            term: self.term,
            machine,
            barriers: Vec::new(),
        };
        self.voters[leader].term = self.term;
        self.voters[leader].leads = Some(leads);
        assert!(self.call(leader, voter), "the latest term");
        let earlier = self.voters[voter].calls.before(term).expect("its term");
        let quiet = self.clock(voter).since(earlier);
        let mut answers = EarlierTerms::default();
        answers.answered(id(voter), term, Some(quiet), now);
        let own = self.voters[leader].calls.before(term).expect("its term");
        let all: BTreeSet<NodeId> = (0..VOTERS).map(id).collect();
        let until = answers.until(term, (id(leader), own), [&all].into_iter());
        let holders = (0..HOLDERS).filter(|holder| !self.over.contains(holder));
        let voter = &mut self.voters[leader];
        let Some(leads) = &mut voter.leads else {
            return;
        };
        leads
            .machine
            .become_ready(now, holders.map(Incarnation::new));
        assert!(until.is_some(), "a quorum has answered");
        leads.machine.learn_earlier(until);
        for (&holder, &since) in &voter.silences {
            leads.machine.begin_silence(Incarnation::new(holder), since);
        }
    }

    fn step(&mut self, step: &Step) -> TestCaseResult {
        match *step {
            Step::Wait(nanos) => self.now += nanos,
            Step::WaitForEnd(holder, by) => {
                let from = self.confirmed.get(&holder).copied();
                let end = from.map(|from| (from + PATIENCE.nanos()).saturating_add_signed(by));
                self.now = self.now.max(end.unwrap_or(0));
            }
            Step::Elect(leader, voter) => self.elect(leader, voter),
            Step::Restart(voter) => {
                let now = self.clock(voter);
                self.voters[voter].calls = AcknowledgedTerms::new(now);
                self.voters[voter].leads = None;
                let log = self.log.iter();
                let seen = log.map(|(&holder, &lasted)| (holder, now.before(lasted)));
                self.voters[voter].silences = seen.collect();
            }
            Step::Report(voter, holder) => {
                let now = self.clock(voter);
                self.seq += 1;
                self.arrived.insert(self.seq, self.now);
                if let Some(leads) = &mut self.voters[voter].leads {
                    let (holder, seq) = (Incarnation::new(holder), Seq::new(self.seq));
                    leads.machine.arrived(holder, seq, now);
                }
            }
            Step::StartBarrier(leader) => {
                let now = self.clock(leader);
                let voter = &mut self.voters[leader];
                if let Some(leads) = &mut voter.leads
                    && let Some(barrier) = leads.machine.start_barrier()
                {
                    leads.barriers.push(barrier);
                    voter.calls.called(Term::new(leads.term), now);
                }
            }
            Step::Acknowledge(leader, voter) => {
                if self.call(leader, voter)
                    && let Some(leads) = &mut self.voters[leader].leads
                    && !leads.barriers.is_empty()
                {
                    let barrier = leads.barriers.remove(0);
                    for confirmed in leads.machine.acknowledged(barrier) {
                        let arrived = self.arrived[&confirmed.seq.get()];
                        let last = self.confirmed.entry(confirmed.child.get()).or_default();
                        *last = arrived.max(*last);
                    }
                }
            }
            Step::Silences(leader, voter) => self.silences(leader, voter),
            Step::Reclaim(leader, voter) => self.reclaim(leader, voter)?,
        }
        Ok(())
    }

    fn silences(&mut self, leader: usize, voter: usize) {
        let (now, commits) = (self.clock(leader), self.call(leader, voter));
        let Some(leads) = &mut self.voters[leader].leads else {
            return;
        };
        let begin = leads.machine.fall_silent(QUIET, 9, now);
        let end = leads.machine.heard_again(9);
        if !commits {
            return;
        }
        for (child, lasted) in begin {
            self.log.insert(child.get(), lasted);
            for voter in 0..VOTERS {
                let since = self.clock(voter).before(lasted);
                self.voters[voter].silences.insert(child.get(), since);
            }
            let since = self.voters[leader].silences[&child.get()];
            if let Some(leads) = &mut self.voters[leader].leads {
                leads.machine.begin_silence(child, since);
            }
        }
        for child in end {
            self.log.remove(&child.get());
            for voter in &mut self.voters {
                voter.silences.remove(&child.get());
            }
            if let Some(leads) = &mut self.voters[leader].leads {
                leads.machine.end_silence(child);
            }
        }
    }

    /// A deposed leader's proposals are not committed, so only those of a leader that a quorum follows count.
    fn reclaim(&mut self, leader: usize, voter: usize) -> TestCaseResult {
        let now = self.clock(leader);
        if !self.call(leader, voter) {
            return Ok(());
        }
        let leads = self.voters[leader].leads.as_mut();
        let over = leads.map(|leads| leads.machine.reclaimable(now));
        for child in over.into_iter().flatten() {
            let confirmed = self.confirmed.get(&child.get()).copied();
            let waited = confirmed.map_or(u64::MAX, |confirmed| self.now - confirmed);
            // The clocks round down, once for each interval that is added up.
            let fast = waited.saturating_mul(1_000 + DRIFT.unsigned_abs()) / 1_000;
            prop_assert!(
                fast + 5 >= PATIENCE.nanos(),
                "{child} {waited} after its last confirmed report"
            );
            self.over.insert(child.get());
            self.log.remove(&child.get());
            for voter in &mut self.voters {
                voter.silences.remove(&child.get());
                if let Some(leads) = &mut voter.leads {
                    leads.machine.end(child);
                }
            }
        }
        Ok(())
    }
}

fn no_lease_is_cut_short((drifts, steps): &(Vec<i64>, Vec<Step>)) -> TestCaseResult {
    let mut world = World::new(drifts);
    for step in steps {
        world.step(step)?;
    }
    Ok(())
}

const fn at(nanos: u64) -> Tick {
    Tick::from_nanos(nanos)
}

#[test]
fn a_voter_tells_its_last_call_in_an_earlier_term() {
    let mut calls = AcknowledgedTerms::new(at(5));
    assert_eq!(calls.before(Term::new(1)), Some(at(5)), "its start");
    calls.called(Term::new(1), at(10));
    calls.called(Term::new(1), at(20));
    assert_eq!(calls.before(Term::new(1)), Some(at(5)));
    assert_eq!(calls.before(Term::new(2)), Some(at(20)));
    calls.called(Term::new(3), at(30));
    assert_eq!(calls.before(Term::new(2)), None, "it may not answer");
    assert_eq!(calls.before(Term::new(3)), Some(at(20)));
    // A late call of a deposed leader may have overtaken in the voter's tasks.
    calls.called(Term::new(2), at(40));
    assert_eq!(calls.before(Term::new(3)), Some(at(40)));
}

#[test]
fn the_latest_call_of_the_best_quorum_counts() {
    let node = NodeId::new;
    let (term, me) = (Term::new(4), (node(1), at(50)));
    let three = BTreeSet::from([1, 2, 3].map(node));
    let mut answers = EarlierTerms::default();
    let until = |answers: &EarlierTerms| answers.until(term, me, [&three].into_iter());
    assert_eq!(until(&answers), None);
    answers.answered(node(2), Term::new(3), Some(Span::from_nanos(1)), at(90));
    assert_eq!(until(&answers), None, "of another term");
    answers.answered(node(2), term, Some(Span::from_nanos(20)), at(100));
    assert_eq!(until(&answers), Some(at(80)));
    answers.answered(node(2), term, Some(Span::from_nanos(40)), at(110));
    assert_eq!(until(&answers), Some(at(70)), "the closer answer");
    answers.answered(node(3), term, Some(Span::from_nanos(50)), at(110));
    assert_eq!(until(&answers), Some(at(60)), "of two, with its own");
    let other = BTreeSet::from([3, 4].map(node));
    assert_eq!(answers.until(term, me, [&three, &other].into_iter()), None);
    answers.answered(node(4), term, Some(Span::from_nanos(15)), at(110));
    let both = answers.until(term, me, [&three, &other].into_iter());
    assert_eq!(both, Some(at(95)));
    answers.answered(node(5), term, None, at(110));
    assert_eq!(until(&answers), None, "an older version");
}

/// Leaders that follow each other add up their waits: each leads for less than a lease, and restarts.
#[test]
fn short_leaderships_reclaim_from_a_silent_holder_after_a_lease() {
    let mut world = World::new(&[0, 0, 0]);
    let steps = [
        Step::Elect(0, 1),
        Step::Report(0, 0),
        Step::StartBarrier(0),
        Step::Acknowledge(0, 1),
        Step::Restart(0),
        Step::Wait(300),
        Step::Elect(1, 2),
        Step::Wait(150),
        Step::Silences(1, 2),
        Step::Wait(150),
        Step::Restart(1),
        Step::Wait(50),
        Step::Elect(0, 1),
        Step::Wait(340),
        Step::Reclaim(0, 1),
    ];
    for step in &steps {
        world.step(step).expect("it is lawful");
    }
    assert!(world.over.is_empty(), "990 after its last report");
    for step in [Step::Wait(11), Step::Reclaim(0, 1)] {
        world.step(&step).expect("it is lawful");
    }
    assert!(world.over.contains(&0), "{:?}", world.over);
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn no_lease_is_cut_short_by_a_later_leader(case in any_case()) {
        no_lease_is_cut_short(&case)?;
    }
}

/// A report is confirmed late, with the vote of one voter; that voter elects the next leader, which heard of no
/// earlier one.
fn confirmed_just_before(next: &[Step]) -> Vec<Step> {
    let confirmed = [
        Step::Elect(0, 1),
        Step::Wait(1_100),
        Step::Report(0, 0),
        Step::StartBarrier(0),
        Step::Acknowledge(0, 1),
    ];
    let reclaim = [Step::Elect(2, 1), Step::Wait(10), Step::Reclaim(2, 1)];
    [&confirmed[..], next, &reclaim[..]].concat()
}

/// A report arrives during a silence that two leaders inherit.
fn heard_in_a_silence() -> Vec<Step> {
    vec![
        Step::Elect(0, 1),
        Step::Wait(150),
        Step::Silences(0, 1),
        Step::Elect(2, 1),
        Step::Wait(500),
        Step::Report(2, 0),
        Step::StartBarrier(2),
        Step::Acknowledge(2, 1),
        Step::Wait(300),
        Step::Elect(0, 1),
        Step::Wait(100),
        Step::Reclaim(0, 1),
    ]
}

#[test]
fn the_law_of_earlier_terms_notices_what_it_should() {
    let restarted = confirmed_just_before(&[Step::Restart(1)]);
    for (bug, steps) in [
        (Bug::RestartForgetsCalls, restarted),
        (Bug::FirstVoterTrusted, confirmed_just_before(&[])),
        (Bug::SilentConfirmed, heard_in_a_silence()),
    ] {
        let case = Just((vec![0; VOTERS], steps));
        catches(bug, case, |case| no_lease_is_cut_short(&case));
    }
    for bug in [Bug::NoPatience, Bug::EarlierPatienceShort] {
        catches(bug, any_case(), |case| no_lease_is_cut_short(&case));
    }
}
