//! The observer of a run, on both tiers: it feeds the oracle, records the timeline, counts marks, and shows
//! events to a tracer.
//!
//! A tier reports events when they happen, and at every inspection what its hosts believe. The observer never
//! affects the hosts. It ends the run early, once an invariant is broken or everything has recovered.
//!
//! Two things are observed by the tiers themselves, since only one of them can see them: the text that a
//! tracer gets of an event, and the marks of messages, of the log and of clients' state machines. The latter
//! exist in the kernel tier only ([`Mark::is_of_kernel`]).

mod central;
mod tracing;

use crate::clock::{Clock, SEC};
use crate::draw::{Draw, Of};
use crate::hosts::Hosts;
use crate::ideal::Wanted;
use crate::keys::Keys;
use crate::mark::{Mark, Marks};
use crate::oracle::{Admission, Breach, Flown, Health, Oracle, Right, availability};
use crate::plan::Plan;
use crate::scenario::Group;
use crate::timeline::Timeline;
use crate::trace::Tracer;
use aliquot_core::budget::{Budget, Key};
use aliquot_core::command::{Changes, Command};
use aliquot_core::edge::Counters;
use aliquot_core::share::{Kind, Share};
use aliquot_core::state::{Effect, State};
use aliquot_core::unit::{BudgetId, Edge, Incarnation, RequestId, Span, Tokens};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// The result of a run.
#[derive(Debug)]
pub struct RunResult {
    /// Breaches of invariants that must hold: the first of each.
    pub breaches: Vec<Breach>,
    /// Breaches that the scenario allows by `breaks`.
    pub allowed: Vec<Breach>,
    /// Reasons for which something could not be judged.
    pub doubts: Vec<String>,
    /// The least slack under any envelope, in tokens; negative if an envelope is broken.
    pub slack: Option<f64>,
    /// Tokens admitted without a lease, by policy.
    pub unleased: f64,
    /// Time from the last fault until everything was well for good, in nanoseconds.
    pub recovery: Option<u64>,
    /// The least part of what one limiter would have used that was used, in any window without faults.
    pub availability: Option<f64>,
    /// The same over the whole run, with its faults.
    pub availability_through_faults: Option<f64>,
    /// The recording of demand, admissions and traffic.
    pub timeline: Timeline,
    /// The marks that were hit.
    pub marks: Marks,
    /// Number of events: inputs handled by a state machine of the core, or in the network tier pieces of data
    /// read.
    pub events: u64,
    /// True time simulated, in nanoseconds.
    pub simulated: u64,
}

/// An entry of the log that a node has applied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Applied<'a> {
    pub(crate) node: usize,
    pub(crate) index: u64,
    pub(crate) command: Option<&'a Command>,
    pub(crate) effects: &'a [Effect],
    /// The state after the entry.
    pub(crate) state: &'a State,
}

/// The source of a booked right.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Basis {
    /// A lease, as it is at the admission.
    Lease {
        /// The node that gave it, if that is known.
        node: Option<usize>,
        /// Time until it ends, by the client's clock.
        left: Span,
        node_is_up: bool,
        /// True if the client's messages do not reach the node.
        is_cut: bool,
    },
    /// A floor, after the lease.
    Floor,
    /// A floor of an edge that the client has left.
    FormerFloor,
}

/// Maximum number of clients whose clock errors are recorded.
const CLIENTS_SHOWN: usize = 3;

/// The observer of a run.
pub(crate) struct Observer {
    hosts: Rc<Hosts>,
    /// Invariants that the scenario allows to be broken.
    breaks: Vec<&'static str>,
    /// The duration of a lease, in nanoseconds.
    lease: u64,
    may_end_early: bool,
    /// Grains of one token of the first key's budget.
    grains: u64,
    /// A request of each client, and the requests per second of a closed loop's caller.
    wants: Vec<(Wanted, Option<f64>)>,
    seed: u64,
    /// Number of requests for permits, which names the random holds of the ideal limiter.
    requests: u64,
    /// The keys that clients use.
    keys: Keys,
    /// The only key of each client; `None` if it uses many.
    only_key: Vec<Option<usize>>,
    /// The index of each key.
    index_of: BTreeMap<Key, usize>,
    /// The key of each budget that a generation was made for.
    key_of_budget: BTreeMap<BudgetId, usize>,
    pub(crate) oracle: Oracle,
    pub(crate) marks: Marks,
    pub(crate) timeline: Timeline,
    tracer: Option<Box<dyn Tracer>>,
    /// Is called once in each second of true time.
    reached: Option<Box<dyn Fn(u64)>>,
    /// The node of each incarnation.
    incarnations: BTreeMap<Incarnation, usize>,
    /// Admissions in central mode: the deciding incarnation, the client's edge and the request.
    decided: BTreeSet<(Incarnation, Edge, RequestId)>,
    /// True time and reading of each host's clock at its first sample.
    skew_from: Vec<(u64, i64)>,
    /// True time since which no node has been the ready leader, as of the last inspection.
    vacant: Option<u64>,
    /// Set once an invariant is broken that must hold.
    stopped: bool,
    /// Set once everything has been well for a while after the last fault.
    healed: bool,
    /// The time in which everything must recover, if anything fails.
    heals_within: Option<u64>,
}

impl Observer {
    pub(crate) fn new(plan: &Plan, hosts: &Rc<Hosts>, keys: Keys) -> Self {
        let scenario = &plan.scenario;
        let groups = || hosts.clients.iter().map(|&(group, _)| group);
        let queues = keys.queues(scenario, &hosts.clients);
        let budgets = &keys.budgets;
        let named = keys.keys.iter().zip(budgets).zip(&queues);
        let judged = named.map(|((key, budget), queue)| (key.to_string(), budget, *queue));
        let bounds = (
            scenario.run.availability,
            scenario.run.availability_through_faults,
        );
        let availability = availability::Check::new(judged, bounds, plan.times(budgets));
        Self {
            hosts: Rc::clone(hosts),
            breaks: scenario.run.breaks.clone(),
            lease: scenario.lease.lease,
            may_end_early: plan.may_end_early(),
            grains: budgets
                .first()
                .map_or(1, |budget| budget.scale().grains_per_token()),
            wants: groups()
                .map(|group| wanted_by(&scenario.clients[group]))
                .collect(),
            only_key: groups().map(|group| keys.only_key(group)).collect(),
            seed: plan.seed,
            requests: 0,
            key_of_budget: BTreeMap::new(),
            oracle: Oracle::new(scenario.lease.drift, plan.greatest(), availability),
            marks: Marks::default(),
            timeline: Timeline::new(
                &keys,
                &queues,
                groups().map(|group| keys.row_of_group(group)).collect(),
            ),
            index_of: keys.keys.iter().cloned().zip(0..).collect(),
            keys,
            tracer: None,
            reached: None,
            incarnations: BTreeMap::new(),
            decided: BTreeSet::new(),
            skew_from: Vec::new(),
            vacant: None,
            stopped: false,
            healed: false,
            heals_within: (!plan.faults.is_empty()).then(|| plan.heals_within()),
        }
    }

    /// Passes everything that happens from now on to a tracer.
    pub(crate) fn trace_to(&mut self, tracer: Box<dyn Tracer>) {
        self.tracer = Some(tracer);
    }

    /// Calls this once in each second of true time from now on.
    pub(crate) fn call(&mut self, reached: Box<dyn Fn(u64)>) {
        self.reached = Some(reached);
    }

    pub(crate) const fn is_traced(&self) -> bool {
        self.tracer.is_some()
    }

    /// Returns true once the run may end: an invariant is broken that must hold, or everything has recovered.
    pub(crate) const fn is_over(&self) -> bool {
        self.stopped || self.healed
    }

    /// Returns true once an invariant is broken that must hold.
    pub(crate) const fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Ends the run as a failure, because the simulated software or its log does not work.
    #[cfg(feature = "network")]
    pub(crate) fn broke(&mut self, now: u64, what: impl FnOnce() -> String) {
        self.oracle.commits.broke(now, what);
        self.stopped = true;
    }

    /// Returns the node of an incarnation.
    pub(crate) fn node_of(&self, incarnation: Incarnation) -> Option<usize> {
        self.incarnations.get(&incarnation).copied()
    }

    /// Records an election.
    pub(crate) fn elected(&mut self, now: u64, node: usize) {
        let last = self.timeline.elections.last();
        let again = last.is_some_and(|(_, last)| *last == node);
        self.marks.hit_if(again, Mark::ElectedAgain);
        self.timeline.elected(now, node);
    }

    /// Records that a node has become a ready leader. `ready` is the number of nodes that believe so of
    /// themselves.
    pub(crate) fn became_ready(&mut self, now: u64, node: usize, ready: usize) {
        let last = self.timeline.ready_leaders.last();
        let changed = last.is_some_and(|(_, last)| *last != node);
        self.marks.hit_if(changed, Mark::LeaderChanged);
        self.marks.hit_if(ready > 1, Mark::TwoReadyLeaders);
        self.timeline.became_ready(now, node);
    }

    /// Takes a round that a leader proposes. `since` is the time for which it has been ready.
    pub(crate) fn proposed(&mut self, now: u64, changes: &Changes, since: Option<Span>) {
        let reclaims = !changes.reclaims.is_empty();
        self.marks.hit_if(reclaims, Mark::ReclaimProposed);
        self.oracle.patience.proposed(now, changes, since);
    }

    /// Takes an entry that a node has applied. It counts when the first node applies it. `runs` says whether
    /// an incarnation is running, `over` whether a permit is over.
    pub(crate) fn applied(
        &mut self,
        now: u64,
        applied: Applied<'_>,
        runs: impl Fn(Incarnation) -> bool,
        over: impl Fn(&Flown) -> bool,
    ) {
        let Applied {
            node,
            index,
            command,
            effects,
            state,
        } = applied;
        self.show(now, "applied", Some(node), || {
            format!("entry {index}: {effects:?}")
        });
        if index <= self.oracle.latest_applied() {
            return;
        }
        self.timeline.traffic.entries += 1;
        let makes = matches!(command, Some(Command::Instantiate { .. }));
        for effect in effects {
            self.mark_effect(effect, &runs);
            let made = makes && matches!(effect, Effect::Created { .. });
            self.marks.hit_if(made, Mark::KeyInstantiated);
        }
        // Permits may have expired since the last inspection. They no longer count against a limit that this
        // entry lowers.
        self.land(now, over);
        self.oracle.applied(now, index, state, (command, effects));
        for effect in effects {
            if let Effect::Reclaimed(incarnation) = effect
                && let Some(node) = self.node_of(*incarnation)
            {
                self.timeline.reclaims.push((now, node));
            }
        }
        self.follow_budgets(now, state, effects);
    }

    /// Notes which key a new budget belongs to, and when a quota's period begins.
    fn follow_budgets(&mut self, now: u64, state: &State, effects: &[Effect]) {
        for effect in effects {
            let (Effect::Created { budget, .. } | Effect::Stamped(budget, _)) = effect else {
                continue;
            };
            let found = state.budget(*budget);
            let Some(&key) = found.and_then(|of| self.index_of.get(&of.key)) else {
                continue;
            };
            self.key_of_budget.insert(*budget, key);
            if let Effect::Stamped(..) = effect {
                let (row, place) = self.keys.places[key];
                self.timeline.keys[row].begin_period(now, place);
                self.oracle.availability.begin_period(now, key);
            }
        }
    }

    /// Takes a request of a client for a key when it arrives first. Clones are not counted among the clients.
    pub(crate) fn offered(&mut self, now: u64, client: usize, key: usize, also: Option<usize>) {
        let Some(&(mut wanted, _)) = self.wants.get(client) else {
            return;
        };
        self.timeline.offered(now, client, wanted.cost as u64);
        if self.timeline.keys[self.keys.places[key].0].is_permits {
            self.requests += 1;
            let mut draw = Draw::of(self.seed, Of::IdealHold, client as u64, self.requests);
            wanted.hold = draw.exponential(wanted.hold as f64) as u64;
        }
        match also {
            Some(also) => self.wanted(now, &[key, also], wanted),
            None => self.wanted(now, &[key], wanted),
        }
    }

    /// Takes note that callers of a closed loop have waited for `span`. Callers that are served at once ask again
    /// at their rate, so those that wait want as much.
    pub(crate) fn waited(
        &mut self,
        now: u64,
        (client, key): (usize, usize),
        (callers, span): (u64, u64),
    ) {
        if let Some(&(wanted, Some(rate))) = self.wants.get(client) {
            let requests = callers as f64 * rate * span as f64 / 1e9;
            let cost = wanted.cost * requests;
            self.wanted(now, &[key], Wanted { cost, ..wanted });
        }
    }

    /// Takes what callers want of some keys at once: all of it or nothing.
    fn wanted(&mut self, now: u64, keys: &[usize], wanted: Wanted) {
        let (places, timeline) = (&self.keys.places, &mut self.timeline);
        let mut each = keys.iter().map(|&key| places[key]);
        let admits =
            keys.len() == 1 || each.all(|(row, place)| timeline.keys[row].has(now, place, wanted));
        if admits {
            for (row, place) in keys.iter().map(|&key| places[key]) {
                timeline.keys[row].wanted(now, place, wanted);
            }
        }
        self.oracle.availability.wanted(now, keys, wanted);
    }

    /// Takes the permits in flight of each key, for the `span` before `now`.
    pub(crate) fn held(
        &mut self,
        now: u64,
        permits: impl Iterator<Item = (usize, usize)>,
        span: u64,
    ) {
        for (key, permits) in permits.filter(|(_, permits)| *permits > 0) {
            self.timeline.keys[self.keys.places[key].0].held(now, permits, span);
            let held = permits as f64 * span as f64 / 1e9;
            self.oracle.availability.held(key, held);
        }
    }

    /// Takes note of a changed limit of a key.
    pub(crate) fn changed(&mut self, now: u64, key: usize, budget: &Budget) {
        let (row, place) = self.keys.places[key];
        self.timeline.keys[row].change(now, place, budget);
        self.oracle.availability.change(now, key, budget);
    }

    /// Begins the healing phase: the last fault is over at `now`, and everything must be well `within` that time.
    pub(crate) fn heals(&mut self, now: u64, within: u64) {
        self.oracle.healing.begin(now, within);
        self.oracle.availability.calmed(now);
    }

    /// Returns the keys that clients use.
    pub(crate) const fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Returns the only key of a client, or the key of a budget if the client uses many, is a clone, or is unknown.
    fn key(&self, client: Option<usize>, budget: Option<BudgetId>) -> Option<usize> {
        let of_client = client.and_then(|client| self.only_key.get(client).copied().flatten());
        of_client.or_else(|| self.key_of_budget.get(&budget?).copied())
    }

    fn counted_admission(
        &mut self,
        now: u64,
        (client, budget): (Option<usize>, Option<BudgetId>),
        cost: u64,
    ) {
        if let Some(key) = self.key(client, budget) {
            self.timeline
                .admitted(now, self.keys.places[key], client, cost);
            self.oracle.availability.admitted(key, cost);
        }
    }

    fn mark_effect(&mut self, effect: &Effect, runs: impl Fn(Incarnation) -> bool) {
        match effect {
            Effect::Joined {
                node, incarnation, ..
            } => {
                let node = node.get() as usize - 1;
                let again = self.incarnations.values().any(|known| *known == node);
                let new = self.incarnations.insert(*incarnation, node).is_none();
                self.marks.hit_if(again && new, Mark::IncarnationBegan);
            }
            Effect::Reclaimed(incarnation) => {
                self.marks.hit(Mark::ReclaimApplied);
                self.marks
                    .hit_if(runs(*incarnation), Mark::ReclaimedWhileRunning);
            }
            Effect::Stamped(..) => self.marks.hit(Mark::Stamped),
            Effect::MovementRefused(..) => self.marks.hit(Mark::MovementRefused),
            Effect::Repeated(_) => self.marks.hit(Mark::RequestRepeated),
            Effect::Freed(..) => self.marks.hit(Mark::PartFreed),
            Effect::Ended(_) => self.marks.hit(Mark::InstanceEnded),
            _ => {}
        }
    }

    /// Takes an admission of `cost` tokens by a client itself. `basis` is the source of a booked right.
    pub(crate) fn admitted(
        &mut self,
        now: u64,
        (client, cost): (usize, u64),
        admission: &Admission,
        basis: Option<Basis>,
    ) {
        self.mark_admission(client, admission.right, basis);
        self.oracle.admitted(now, admission);
        self.counted_admission(now, (Some(client), Some(admission.budget)), cost);
    }

    fn mark_admission(&mut self, client: usize, right: Right, basis: Option<Basis>) {
        let marks = &mut self.marks;
        marks.hit_if(client >= self.hosts.clients.len(), Mark::CloneAdmitted);
        marks.hit_if(self.vacant.is_some(), Mark::AdmittedWithoutLeader);
        let unleased = match right {
            Right::Booked => None,
            Right::Kept => Some(Mark::KeptShareUsed),
            Right::Local => Some(Mark::LocalPartUsed),
            Right::Open => Some(Mark::OpenUsed),
        };
        if let Some(mark) = unleased {
            marks.hit(mark);
            marks.hit(Mark::AdmittedUnleased);
            return;
        }
        match basis {
            Some(Basis::Lease {
                node: Some(node),
                left,
                node_is_up,
                is_cut,
            }) => {
                let soon = left < Span::from_millis(50);
                let home = self.hosts.homes.get(client).copied();
                marks.hit_if(soon, Mark::AdmittedAtTheEnd);
                marks.hit_if(home != Some(node), Mark::AdmittedByOtherNode);
                marks.hit_if(!node_is_up, Mark::AdmittedWhileNodeDown);
                marks.hit_if(is_cut, Mark::AdmittedWhileCut);
            }
            Some(Basis::Lease { node: None, .. }) | None => {}
            Some(Basis::Floor) => marks.hit(Mark::AdmittedByFloor),
            Some(Basis::FormerFloor) => marks.hit(Mark::AdmittedByFormerFloor),
        }
    }

    /// Takes a refusal. `grains` has the budget and the refused tokens, if the client knows its budget.
    pub(crate) fn refused(
        &mut self,
        now: u64,
        client: Option<usize>,
        grains: Option<(BudgetId, Tokens)>,
    ) {
        if let Some(key) = self.key(client, grains.map(|(budget, _)| budget)) {
            self.timeline.refused(now, self.keys.places[key].0);
        }
        if let Some((budget, grains)) = grains {
            self.oracle.refused(now, budget, grains);
        }
    }

    /// Takes a permit that a client acquired. `over` returns true for an earlier one that is over.
    pub(crate) fn permit_taken(
        &mut self,
        now: u64,
        (client, budget): (usize, Option<BudgetId>),
        flown: Flown,
        over: impl Fn(&Flown) -> bool,
    ) {
        self.land(now, over);
        self.counted_admission(now, (Some(client), budget), 1);
        if let Some(checkers) = budget.and_then(|budget| self.oracle.checkers(budget)) {
            checkers.taken(now, flown);
        }
    }

    /// Ends the permits that are over, by their clients' own clocks.
    pub(crate) fn land(&mut self, now: u64, over: impl Fn(&Flown) -> bool) {
        for (_, checkers) in self.oracle.of_permits() {
            checkers.landed(now, &over);
        }
    }

    /// Takes the shares that all hosts believe they hold at this instant, in any order, of the budgets that are
    /// `covered`. `state` is the latest replicated state.
    pub(crate) fn believed(
        &mut self,
        now: u64,
        state: &State,
        mut parts: Vec<(BudgetId, Share)>,
        covered: impl Fn(BudgetId) -> bool,
    ) {
        parts.sort_by_key(|(budget, _)| *budget);
        let rates = state.budgets().filter(|(budget, generation)| {
            covered(*budget) && generation.budget.kind() == Kind::Rate
        });
        for (budget, _) in rates {
            let from = parts.partition_point(|(of, _)| *of < budget);
            let of = parts[from..].iter().take_while(|(of, _)| *of == budget);
            if let Some(checkers) = self.oracle.checkers(budget) {
                checkers.believed(now, of.map(|(_, share)| *share));
            }
        }
    }

    /// Takes the counters at the child's end of an edge. For the edge of a node, `committed` has the node's
    /// incarnation and the latest replicated state.
    pub(crate) fn counted(
        &mut self,
        now: u64,
        edge: Edge,
        committed: Option<(Incarnation, &State)>,
        counters: impl Iterator<Item = (BudgetId, Counters)>,
    ) {
        for (budget, counters) in counters {
            self.oracle.edges.seen(now, edge, budget, &counters);
            let Some((incarnation, state)) = committed else {
                continue;
            };
            let Some(generation) = state.budget(budget) else {
                continue;
            };
            let account = &generation.account;
            if !account.open().any(|(open, _)| open == incarnation) {
                continue;
            }
            let committed = account.counters(incarnation);
            if committed.period == counters.period {
                let (given, booked) = (counters.given, committed.given);
                self.oracle
                    .commits
                    .given(now, incarnation, budget, given, booked);
            }
        }
    }

    /// Takes the ready leader at an inspection. `is_cut` is true if it reaches no quorum.
    pub(crate) fn led_by(&mut self, now: u64, leader: Option<usize>, is_cut: bool) {
        if leader.is_some() {
            self.vacant = None;
            self.marks.hit_if(is_cut, Mark::LeaderCutOff);
        } else {
            let since = *self.vacant.get_or_insert(now);
            let long = now - since > self.lease;
            self.marks.hit_if(long, Mark::NoReadyLeader);
        }
    }

    /// Ends an inspection: judges whether everything is well, and whether the run ends.
    pub(crate) fn inspected(&mut self, now: u64, health: &Health) {
        let all = health.unleased.len() == self.hosts.clients.len() && now > 10 * SEC;
        self.marks.hit_if(all, Mark::AllUnleased);
        let unleased = health.unleased.len();
        self.timeline.inspected(now, unleased, &health.orphans);
        let hosts = &self.hosts;
        // A fleet that was well for long enough has healed. The run goes on, so that invariant 9 is judged.
        if !(self.may_end_early && self.oracle.healing.is_over(now)) {
            self.oracle
                .healing
                .look(now, health, &|host| hosts.name(host));
        }
        self.oracle.availability.look(now, health.is_well());
        self.healed = self.may_end_early
            && self.oracle.healing.is_over(now)
            && self.oracle.availability.is_over(now);
        if now.is_multiple_of(SEC) {
            if let Some(reached) = &self.reached {
                reached(now);
            }
            self.mark_full_use();
        }
        // Capacity that is not used does no harm: the rest of the run is judged all the same.
        let mut found = self
            .oracle
            .found()
            .filter_map(|found| found.breach.as_ref())
            .filter(|breach| breach.number != availability::NAME.0);
        self.stopped |= found.any(|breach| !self.breaks.contains(&breach.invariant));
    }

    fn mark_full_use(&mut self) {
        for key in self.timeline.keys.iter().filter(|key| key.is_rate) {
            let last: u64 = key.bins.iter().rev().take(10).map(|bin| bin.admitted).sum();
            let full = last as f64 >= 0.99 * key.limit;
            self.marks.hit_if(full, Mark::FullUse);
        }
    }

    /// Returns the number of hosts, the first ones, whose clock errors are recorded once a second.
    pub(crate) fn clocks_shown(&self) -> usize {
        self.hosts.nodes + self.hosts.clients.len().min(CLIENTS_SHOWN)
    }

    /// Records the clock error of a host. Hosts are taken in order.
    pub(crate) fn clock(&mut self, now: u64, host: usize, clock: &Clock) {
        if self.skew_from.len() == host {
            self.skew_from.push((now, clock.boot(now)));
            let name = self.hosts.name(host);
            self.timeline.skews.push((name, Vec::new()));
        }
        let skew = clock.skew(now, self.skew_from[host]);
        self.timeline.skews[host].1.push(skew);
    }

    /// Ends the run at `now`. The safety phase ended at `end`, unless the run did so earlier.
    pub(crate) fn finish(mut self, end: u64, now: u64, events: u64) -> RunResult {
        let (places, rows) = (self.keys.places.iter(), &mut self.timeline.keys);
        let totals = places.map(|&(row, place)| rows[row].totals(now, place));
        self.oracle.availability.finish(now, totals);
        let breaches = self.oracle.found().filter_map(|found| found.breach.clone());
        let (allowed, breaches) =
            breaches.partition(|breach| self.breaks.contains(&breach.invariant));
        let recovery = self.oracle.healing.took();
        self.marks.hit_if(recovery.is_some(), Mark::Recovered);
        let tight = self.oracle.slack().is_some_and(|slack| slack < 1.0);
        self.marks.hit_if(tight, Mark::EnvelopeTight);
        let ahead = self.timeline.keys.iter().any(|key| key.ahead > 0);
        self.marks.hit_if(ahead, Mark::AheadOfIdeal);
        self.timeline.ends = (end.min(now), now);
        let doubts = self.oracle.found().filter_map(|found| found.doubt.clone());
        let heals = self.heals_within.filter(|_| !self.stopped);
        let heals = heals.filter(|_| !self.breaks.contains(&"healing"));
        let doubts = doubts.chain(heals.and_then(|within| self.oracle.healing.doubt(now, within)));
        RunResult {
            breaches,
            allowed,
            doubts: doubts.collect(),
            slack: self.oracle.slack(),
            unleased: self.oracle.degraded.admitted as f64 / self.grains as f64,
            recovery,
            availability: self.oracle.availability.least(),
            availability_through_faults: self.oracle.availability.least_of_run(),
            timeline: self.timeline,
            marks: self.marks,
            events,
            simulated: now,
        }
    }
}

/// Returns a request of a group's client, and the requests per second of a closed loop's caller.
fn wanted_by(group: &Group) -> (Wanted, Option<f64>) {
    let wanted = Wanted {
        cost: group.cost as f64,
        hold: group.hold,
        waits: group.flows.is_some() || group.waiting > 0,
    };
    (wanted, group.flows.map(|_| group.rate * group.times))
}
