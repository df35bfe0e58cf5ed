//! Passes the events of a step to the observer: entries applied and written, and requests decided.

use super::Network;
use super::event_log::{
    Admitted, Applied, Decided, EventLog, Happened, NodeDecided, What, Written,
};
use super::service::is_booked;
use crate::mark::Mark;
use crate::observer::{Applied as Entry, Basis};
use crate::oracle::{Admission, Flight, Flown, Right};
use aliquot_client::limiter::LimiterState;
use aliquot_core::command::Command;
use aliquot_core::state::Effect;
use aliquot_core::unit::{BudgetId, RequestId, Scale, Span, Tokens};
use aliquot_wire::Wire;
use aliquot_wire::log::LogEntry;
use aliquot_wire::raft;
use std::collections::BTreeSet;

impl Network<'_> {
    /// Passes on the events of a step, in order. A decision that a node made after its snapshot is kept until the
    /// snapshots are compared, since the snapshot has the tokens still.
    pub(super) fn ingest(&mut self) {
        let mut looked = BTreeSet::new();
        for happened in self.event_log.take() {
            match happened {
                Happened::Snapshot(node) => drop(looked.insert(node)),
                Happened::NodeDecided(decided) if looked.contains(&decided.node) => {
                    self.decided_late.push(decided);
                }
                Happened::Applied(applied) => self.applied(&applied),
                Happened::Written(written) => self.wrote(&written),
                Happened::Decided(decided) => self.decided(&decided),
                Happened::NodeDecided(decided) => self.node_decided(&decided),
            }
        }
        if !self.observer.is_traced() {
            return;
        }
        for (_, from, to, len, digest) in self.fabric.take_noted() {
            let from = self.hosts.name(from);
            self.observer.show(self.now, "piece", Some(to), || {
                format!("from {from}: {len} bytes {digest:016x}")
            });
        }
    }

    /// Passes on the decisions that nodes made after their snapshots.
    pub(super) fn ingest_late(&mut self) {
        for decided in std::mem::take(&mut self.decided_late) {
            self.node_decided(&decided);
        }
    }

    fn applied(&mut self, applied: &Applied) {
        let (node, entry) = (applied.node, &applied.entry);
        self.ready_since
            .entry((node, entry.term))
            .or_insert(applied.tick);
        let digested = digest(&applied.outcome);
        if let Some(known) = self.effects.get(entry.index as usize - 1) {
            if *known != digested {
                let outcome = &applied.outcome;
                self.observer
                    .oracle
                    .commits
                    .replayed(self.now, node, outcome);
            }
            return;
        }
        let read = entry.command.clone().map(LogEntry::from_bytes);
        let command = match read {
            Some(Ok(read)) => read.command,
            Some(Err(error)) => return self.broke_log(entry.index, &error.to_string()),
            None => None,
        };
        if entry.index != self.effects.len() as u64 + 1 {
            return self.broke_log(entry.index, "entries before it were applied nowhere");
        }
        let effects = self.state.apply(entry.index, command.as_ref());
        self.effects.push(digest(&effects));
        if digest(&effects) != digested {
            self.observer
                .oracle
                .commits
                .replayed(self.now, node, &applied.outcome);
        }
        let nodes = &self.node_hosts;
        let runs = |incarnation| {
            let mut up = nodes.iter().filter(|node| self.fabric.is_up(node.number));
            up.any(|node| node.lock().snapshot.incarnation == Some(incarnation))
        };
        let entry = Entry {
            node,
            index: entry.index,
            command: command.as_ref(),
            effects: &effects,
            state: &self.state,
        };
        let over = permit_over(&self.event_log);
        self.observer.applied(self.now, entry, runs, over);
    }

    fn broke_log(&mut self, index: u64, why: &str) {
        self.observer
            .broke(self.now, || format!("entry {index} of the log: {why}"));
    }

    /// Takes the first write of an entry, which is its leader's, as the proposal of the entry.
    fn wrote(&mut self, (_, node, index, bytes): &Written) {
        let Ok(entry) = raft::Entry::from_bytes(bytes.clone()) else {
            return;
        };
        let place = (entry.id.term, *index);
        if place <= self.written {
            return;
        }
        if entry.id.term > self.written.0 {
            self.observer.elected(self.now, *node);
        }
        self.written = place;
        let raft::Payload::Command(command) = entry.payload else {
            return;
        };
        if let Ok(LogEntry {
            command: Some(Command::Round(changes)),
        }) = LogEntry::from_bytes(command)
        {
            let now_here = self.fabric.hosts[*node].read().nanos();
            let since = self.ready_since.get(&(*node, entry.id.term));
            let since = since.map(|since| Span::from_nanos(now_here.saturating_sub(*since)));
            self.observer.proposed(self.now, &changes, since);
        }
    }

    /// Returns the budget of a key that clients use, according to the entries applied so far.
    pub(super) fn budget_of(&self, key: usize) -> Option<(BudgetId, Scale)> {
        let key = self.observer.keys().keys.get(key)?;
        let id = self.state.budget_of(key)?;
        Some((id, self.state.budget(id)?.budget.scale()))
    }

    fn node_decided(&mut self, decided: &NodeDecided) {
        let NodeDecided { at, ask, reply, .. } = decided;
        let clients = &self.client_hosts;
        let asker = clients.iter().position(|of| of.edge().0 == Some(ask.edge));
        // Its client shows the admission when it learns of it.
        let _ = self.observer.decided_centrally(*at, (ask, reply), asker);
    }

    fn decided(&mut self, decided: &Decided) {
        let (client, now) = (decided.client, decided.at);
        let budget = self.budget_of(decided.key);
        let grains = |cost: u64| {
            let grains = budget.map_or(0, |(_, scale)| scale.grains_per_token());
            Tokens::from_grains(grains.saturating_mul(cost))
        };
        match &decided.what {
            What::Offered(also) => self.observer.offered(now, client, decided.key, *also),
            What::NotMade => self.observer.broke(now, || {
                "a request could not be made: its process has no client".to_owned()
            }),
            What::Waits => self.observer.marks.hit(Mark::CallerWaited),
            What::Refused(cost) => {
                let refused = budget.map(|(budget, _)| (budget, grains(*cost)));
                self.observer.refused(now, Some(client), refused);
            }
            What::Central(cost) => {
                let host = self.hosts.nodes + client;
                self.observer.marks.hit(Mark::AdmittedCentrally);
                self.observer.show(self.now, "admitted", Some(host), || {
                    format!("{cost} centrally")
                });
            }
            What::Admitted(admitted) => self.admitted((now, client), budget, admitted),
            What::Taken(number) => {
                let flown = flown(client, decided.process, *number);
                let budget = budget.map(|(budget, _)| budget);
                let over = permit_over(&self.event_log);
                self.observer
                    .permit_taken(self.now, (client, budget), flown, over);
            }
            What::Landed { cut } => {
                self.observer.marks.hit_if(*cut, Mark::PermitOverrun);
                let over = permit_over(&self.event_log);
                self.observer.land(self.now, over);
            }
        }
    }

    fn admitted(
        &mut self,
        (now, client): (u64, usize),
        budget: Option<(BudgetId, Scale)>,
        admitted: &Admitted,
    ) {
        let (host, state, cost) = (self.hosts.nodes + client, admitted.state, admitted.cost);
        self.observer.show(self.now, "admitted", Some(host), || {
            format!("{cost} as {state:?}")
        });
        let Some((budget, scale)) = budget else {
            let what = "something was admitted of a budget that no log has";
            return self.observer.oracle.commits.broke(now, || what.to_owned());
        };
        let leased = state == LimiterState::Leased;
        let edge = admitted.edge.filter(|_| leased);
        let grains = scale.grains_per_token().saturating_mul(cost);
        let admission = Admission {
            client: Some(client),
            budget,
            edge,
            cost: Tokens::from_grains(grains),
            period: admitted.period,
            right: match state {
                LimiterState::Open => Right::Open,
                _ if is_booked(state) => Right::Booked,
                _ => Right::Kept,
            },
            share: admitted.share,
        };
        let node = edge.and_then(|edge| self.observer.node_of(edge.parent));
        let basis = match state {
            LimiterState::Floor => Some(Basis::Floor),
            LimiterState::Leased => Some(Basis::Lease {
                node,
                left: admitted.lease,
                node_is_up: node.is_some_and(|node| self.fabric.is_up(node)),
                is_cut: node.is_some_and(|node| !self.fabric.reaches(host, node)),
            }),
            _ => None,
        };
        self.observer
            .admitted(now, (client, cost), &admission, basis);
    }
}

/// Returns a function that returns true if a permit is over, by its client's own clock.
fn permit_over(event_log: &EventLog) -> impl Fn(&Flown) -> bool {
    move |(client, process, flight): &Flown| match flight {
        Flight::Central(number) => !event_log.is_flying(*client, *process, number.get()),
        Flight::Own(..) => true,
    }
}

/// Identifies a permit by its number in the event log.
const fn flown(client: usize, process: u32, number: u64) -> Flown {
    (client, process, Flight::Central(RequestId::new(number)))
}

/// Returns a digest of an entry's effects.
fn digest(effects: &[Effect]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in format!("{effects:?}").bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    hash
}
