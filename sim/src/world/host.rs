//! The hosts of this tier: a process, a coordinator node, and a service with its client and its callers.

use super::log::Log;
use crate::clock::{Clock, MS};
use crate::draw::{Draw, Of};
use crate::oracle::Flight;
use crate::scenario::{Group, Lease};
use aliquot_budgets::zones::Iana;
use aliquot_core::client::Client;
use aliquot_core::decision_requests::DecisionRequests;
use aliquot_core::few::FewMap;
use aliquot_core::leader::{Leader, Pace};
use aliquot_core::leadership::Barrier;
use aliquot_core::message::{Heard, Report};
use aliquot_core::node::Node;
use aliquot_core::node_selection::{Connection, NodeSelection, Times};
use aliquot_core::rebalance::Rebalancer;
use aliquot_core::state::{Effect, State};
use aliquot_core::unit::{BudgetId, Edge, Incarnation, RequestId, Scale, Seq, Span, Tick};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

/// A process on a host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Process {
    pub(super) number: u32,
    pub(super) up: bool,
    pub(super) paused_until: u64,
    /// If set, the machine refuses connections at once while the process is down.
    pub(super) refuses: bool,
}

impl Process {
    pub(super) const DOWN: Self = Self {
        number: 0,
        up: false,
        paused_until: 0,
        refuses: true,
    };

    pub(super) const fn start(&mut self) {
        self.number += 1;
        (self.up, self.paused_until) = (true, 0);
    }
}

/// A coordinator node.
#[derive(Debug)]
pub(crate) struct Coordinator {
    pub(crate) clock: Clock,
    pub(crate) process: Process,
    pub(crate) log: Log,
    pub(crate) state: State,
    pub(crate) leader: Leader,
    /// Reading of the node's clock when it became the ready leader, if it is.
    pub(crate) ready_since: Option<Tick>,
    pub(super) leads: Option<u64>,
    pub(super) barriers: Vec<(Barrier, u64)>,
    pub(crate) node: Option<Node>,
    pub(super) join: Option<RequestId>,
    pub(super) asked: Option<Tick>,
    pub(super) applying: bool,
    /// Effects of the entry that is half applied.
    pub(super) effects: Vec<Effect>,
    /// The client of each session.
    pub(crate) sessions: BTreeMap<Incarnation, usize>,
    /// Sequence number of the latest report on each session's edge.
    pub(super) reports: BTreeMap<Incarnation, Seq>,
    /// Keys that clients have used and whose budgets do not exist yet.
    pub(super) wanted: BTreeSet<usize>,
    /// The latest report of each incarnation. A new leader starts from them.
    pub(super) heard: BTreeMap<Incarnation, Rc<Report>>,
    pub(super) reported: Tick,
    pub(super) report_urgent: bool,
    pub(super) balance: Balance,
    /// Set if the node is leaving and hands everything back.
    pub(crate) departs: bool,
    /// Time at which a leaving node last asked its clients to move.
    pub(super) sent_away: Tick,
    pub(super) jumps: Option<(Tick, i64)>,
    /// The greatest reading so far: ticks never go back.
    pub(super) latest: Tick,
    pub(super) timers: u64,
}

impl Coordinator {
    pub(crate) fn new(clock: Clock, log: Log, pace: Pace) -> Self {
        Self {
            clock,
            process: Process::DOWN,
            log,
            state: State::new(),
            leader: Leader::new(pace).in_zones(&Iana),
            ready_since: None,
            leads: None,
            barriers: Vec::new(),
            node: None,
            join: None,
            asked: None,
            applying: false,
            effects: Vec::new(),
            sessions: BTreeMap::new(),
            reports: BTreeMap::new(),
            wanted: BTreeSet::new(),
            heard: BTreeMap::new(),
            reported: Tick::ZERO,
            report_urgent: true,
            balance: Balance::default(),
            departs: false,
            sent_away: Tick::ZERO,
            jumps: None,
            latest: Tick::ZERO,
            timers: 0,
        }
    }

    /// Returns the index of the last entry that is wholly applied.
    pub(super) const fn applied_whole(&self) -> u64 {
        self.state.applied() - self.state.is_half_applied() as u64
    }

    /// Returns the clock's reading, but never less than an earlier one.
    pub(super) fn look(&mut self, true_now: u64) -> Tick {
        self.latest = self.latest.max(self.clock.read(true_now));
        self.latest
    }

    /// Returns true if the wall clock has run ahead, which means that the other clock missed some time.
    pub(super) fn jumped(&mut self, now: Tick, wall_ms: i64) -> bool {
        const MOST: Span = Span::from_millis(250);
        let Some((then, wall_then)) = self.jumps.replace((now, wall_ms)) else {
            return false;
        };
        let ahead = u64::try_from(wall_ms.saturating_sub(wall_then)).unwrap_or(0);
        let ahead = Span::from_nanos(ahead.saturating_mul(MS));
        ahead.minus_or_zero(now.since(then)) > MOST
    }
}

/// A node's knowledge of sessions, its own and those of other nodes.
#[derive(Debug)]
pub(crate) struct Balance {
    pub(super) rebalancer: Rebalancer,
    /// Time of the last round.
    pub(super) rebalanced: Option<Tick>,
    /// Clients that were asked to move, by session, and when.
    pub(super) asked: BTreeMap<Incarnation, Tick>,
    /// The sessions of each incarnation that takes clients, and the sequence number of the report that stated it.
    pub(super) sessions_by_incarnation: BTreeMap<Incarnation, (Seq, Option<u64>)>,
}

impl Default for Balance {
    fn default() -> Self {
        Self {
            rebalancer: Rebalancer::new(Incarnation::default()),
            rebalanced: None,
            asked: BTreeMap::new(),
            sessions_by_incarnation: BTreeMap::new(),
        }
    }
}

impl Balance {
    /// Starts anew for another incarnation of the node, which has no sessions yet.
    pub(super) fn begin_incarnation(&mut self, incarnation: Incarnation) {
        self.rebalancer = Rebalancer::new(incarnation);
        self.asked.clear();
    }

    /// Notes what a report states of its node's sessions.
    pub(super) fn take_report(
        &mut self,
        (incarnation, seq): (Incarnation, Seq),
        sessions: Option<u64>,
        now: Tick,
    ) {
        let known = self.sessions_by_incarnation.get(&incarnation);
        if known.is_none_or(|(known, _)| *known < seq) {
            self.sessions_by_incarnation
                .insert(incarnation, (seq, sessions));
            self.rebalancer.note_announced(incarnation, now);
        }
    }
}

/// A service instance with its client.
#[derive(Clone, Debug)]
pub(crate) struct Service {
    pub(crate) clock: Clock,
    pub(crate) process: Process,
    pub(crate) client: Client,
    pub(crate) requests: DecisionRequests,
    pub(crate) group: usize,
    /// Index of its only key; `None` if it uses many.
    pub(crate) key: Option<usize>,
    /// The budgets that nodes have named, and their scales, by key.
    pub(crate) budgets: BTreeMap<usize, (BudgetId, Scale)>,
    /// The keys of these budgets.
    pub(crate) keys: BTreeMap<BudgetId, usize>,
    /// Keys whose budgets are not known yet, and when a node was last asked for each.
    pub(super) unnamed: BTreeMap<usize, Tick>,
    pub(super) selection: NodeSelection<Dialled>,
    /// Time at which the client moves even if the old node has not taken what was handed back.
    pub(super) moves_at: Option<Tick>,
    pub(super) reported: Tick,
    pub(super) report_at: Tick,
    /// Set if a request was refused since the last report.
    pub(crate) wanted: bool,
    /// True time of the valid look. Timers of other looks are ignored.
    pub(super) look_at: u64,
    pub(super) clocks: Option<(Tick, i64)>,
    pub(super) choices: u64,
    pub(crate) leaving: bool,
    pub(crate) had_lease: bool,
    /// True time at which it last began to move to another node, from one under whose lease it was.
    pub(super) moved: Option<u64>,
    /// The edge of the lease that ended last.
    pub(super) lapsed: Option<Edge>,
    /// The edge of the last answer, and that answer's number.
    pub(super) answered: Option<(Edge, Heard)>,
    pub(crate) callers: Callers,
}

impl Service {
    pub(crate) fn new(
        clock: Clock,
        group: usize,
        key: Option<usize>,
        lease: &Lease,
        callers: Callers,
    ) -> Self {
        let (drift, zero) = (lease.drift, Tick::ZERO);
        let times = Times::of(Span::from_nanos(lease.client_report_every));
        Self {
            clock,
            process: Process::DOWN,
            client: Client::new(drift),
            requests: DecisionRequests::new(drift),
            group,
            key,
            budgets: BTreeMap::new(),
            keys: BTreeMap::new(),
            unnamed: key.into_iter().map(|key| (key, zero)).collect(),
            selection: NodeSelection::new(times, zero),
            moves_at: None,
            reported: zero,
            report_at: zero,
            wanted: false,
            look_at: 0,
            clocks: None,
            choices: 0,
            leaving: false,
            had_lease: false,
            moved: None,
            lapsed: None,
            answered: None,
            callers,
        }
    }

    /// Returns the budget of a key and its scale, once a node has named it.
    pub(crate) fn budget(&self, key: usize) -> Option<(BudgetId, Scale)> {
        self.budgets.get(&key).copied()
    }

    /// Returns the node that the client is connected to.
    pub(crate) fn link(&self) -> Option<usize> {
        self.selection.link().map(|line| *line.node())
    }
}

/// A modelled connection: the node, and a nonce that identifies the attempt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dialled {
    pub(super) node: usize,
    pub(super) nonce: u64,
}

impl Connection for Dialled {
    type Node = usize;

    fn node(&self) -> &usize {
        &self.node
    }
}

/// The callers of one service.
#[derive(Clone, Debug, Default)]
pub(crate) struct Callers {
    /// Number of arrivals so far, which names their random numbers.
    pub(super) count: u64,
    /// Number of keys drawn so far, of clients that use many.
    pub(super) drawn: u64,
    /// Time of the next arrival, in nanoseconds of true time, not rounded to the quantum.
    pub(super) next: f64,
    /// The factor that a random walk has reached, and the time of its next step.
    pub(super) walked: (f64, u64),
    pub(super) steps: u64,
    /// If set, the next event sends no request and only evaluates the load again.
    pub(super) rechecks: bool,
    /// The part of a regular gap that has passed at that event.
    pub(super) passed: f64,
    /// Callers that wait, by key.
    pub(crate) queues: FewMap<usize, Waiting>,
    /// Permits in flight, each with the true time of its release and its key.
    pub(crate) flights: Vec<(u64, usize, Flight)>,
    /// Requests that wait for a node's answer, each with its key.
    pub(super) asked: Vec<(RequestId, usize)>,
}

/// The callers of a service that wait for one key.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waiting {
    /// Number of callers that wait for tokens.
    pub(crate) callers: u64,
    pub(super) retrying: bool,
    /// Callers that asked once and wait for what may be moved here: the true time at which each gives up.
    pub(super) once: VecDeque<u64>,
    /// Set after one of them waited in vain: true time until which no other waits for as much.
    pub(super) in_vain: Option<u64>,
}

impl Callers {
    /// Counts an arrival. Returns the number of arrivals so far.
    #[cfg(feature = "network")]
    pub(crate) const fn come(&mut self) -> u64 {
        self.count += 1;
        self.count
    }

    /// Returns the place of the next request's key among those of its group: drawn, if there are many.
    pub(crate) fn pick_key(&mut self, group: &Group, seed: u64, of: u64) -> usize {
        let Some(many) = &group.keys else { return 0 };
        self.drawn += 1;
        many.pick(Draw::of(seed, Of::Key, of, self.drawn).unit())
    }

    /// Returns the callers that wait for a key.
    pub(super) fn queue(&mut self, key: usize) -> &mut Waiting {
        self.queues.get_or_insert_with(key, Waiting::default)
    }

    /// Returns the callers of a restarted process: the load continues, and no caller waits.
    pub(crate) fn reborn(&self) -> Self {
        Self {
            count: self.count,
            drawn: self.drawn,
            walked: self.walked,
            steps: self.steps,
            ..Self::default()
        }
    }
}
