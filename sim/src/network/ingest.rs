//! Passes the events of a step to the oracle: entries applied and written, and requests decided.

use super::Network;
use super::disk::Written;
use super::event_log::{Decided, Happened, What};
use super::node::Applied;
use super::service::is_booked;
use crate::mark::Mark;
use crate::oracle::{Admission, Flight, Flown, Right};
use aliquot_client::LimiterState;
use aliquot_core::command::Command;
use aliquot_core::state::Effect;
use aliquot_core::unit::{BudgetId, RequestId, Scale, Span, Tokens};
use aliquot_wire::Wire;
use aliquot_wire::log::LogEntry;
use aliquot_wire::raft;

impl Network<'_> {
    /// Passes on the events of a step, in order.
    pub(super) fn ingest(&mut self) {
        for happened in self.event_log.take() {
            match happened {
                Happened::Applied(applied) => self.applied(&applied),
                Happened::Written(written) => self.wrote(&written),
                Happened::Decided(decided) => self.decided(&decided),
            }
        }
        if self.tracer.is_none() {
            return;
        }
        for (_, from, to, len, digest) in self.fabric.take_noted() {
            let from = self.hosts.name(from);
            self.show("piece", Some(to), || {
                format!("from {from}: {len} bytes {digest:016x}")
            });
        }
    }

    fn applied(&mut self, applied: &Applied) {
        let (node, entry) = (applied.node, &applied.entry);
        self.ready_since
            .entry((node, entry.term))
            .or_insert(applied.tick);
        let said = digest(&applied.outcome);
        if let Some(known) = self.effects.get(entry.index as usize - 1) {
            if *known != said {
                let outcome = &applied.outcome;
                self.oracle.commits.replayed(self.now, node, outcome);
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
        if digest(&effects) != said {
            self.oracle
                .commits
                .replayed(self.now, node, &applied.outcome);
        }
        self.timeline.traffic.entries += 1;
        for effect in &effects {
            match effect {
                Effect::Reclaimed(_) => self.marks.hit(Mark::ReclaimApplied),
                Effect::Stamped(..) => self.marks.hit(Mark::Stamped),
                _ => {}
            }
        }
        self.show("applied", Some(node), || {
            format!("entry {}: {effects:?}", entry.index)
        });
        // Permits may have expired since the last look. They no longer count against a limit that this entry
        // lowers.
        self.land();
        self.oracle
            .applied(self.now, entry.index, &self.state, &effects);
    }

    fn broke_log(&mut self, index: u64, why: &str) {
        let now = self.now;
        self.oracle
            .commits
            .broke(now, || format!("entry {index} of the log: {why}"));
        self.stopped = true;
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
            if !changes.reclaims.is_empty() {
                self.marks.hit(Mark::ReclaimProposed);
            }
            self.oracle
                .patience
                .proposed(self.now, &changes, (since, self.state.lease()));
        }
    }

    /// Returns the budget that a client uses, according to the entries applied so far.
    pub(super) fn budget_of(&self, client: usize) -> Option<(BudgetId, Scale)> {
        let key = &self.client_hosts[client].key;
        let key = aliquot_core::budget::Key::try_from(key.as_str()).ok()?;
        let id = self.state.budget_of(&key)?;
        Some((id, self.state.budget(id)?.budget.scale()))
    }

    fn decided(&mut self, decided: &Decided) {
        let (client, now) = (decided.client, decided.at);
        let host = self.hosts.nodes + client;
        let budget = self.budget_of(client);
        let grains = |cost: u64| {
            budget.map_or(0, |(_, scale)| {
                scale.grains_per_token().saturating_mul(cost)
            })
        };
        match &decided.what {
            What::Offered(cost) => self.timeline.offered(now, client, *cost),
            What::Refused(cost) => {
                self.timeline.refused(now, client, *cost);
                if let Some((budget, _)) = budget {
                    let cost = Tokens::from_grains(grains(*cost));
                    self.oracle.refused(now, budget, cost);
                }
            }
            What::Central(cost) => {
                self.marks.hit(Mark::AdmittedCentrally);
                self.timeline.admitted(now, client, *cost);
                self.show("admitted", Some(host), || format!("{cost} centrally"));
            }
            What::Admitted {
                cost,
                period,
                state,
                share,
                edge,
            } => {
                let booked = is_booked(*state);
                if !booked {
                    self.marks.hit(Mark::AdmittedUnleased);
                }
                if *state == LimiterState::Floor {
                    self.marks.hit(Mark::AdmittedByFloor);
                }
                self.show("admitted", Some(host), || format!("{cost} as {state:?}"));
                self.timeline.admitted(now, client, *cost);
                let Some((budget, _)) = budget else {
                    let what = "something was admitted of a budget that no log has";
                    return self.oracle.commits.broke(now, || what.to_owned());
                };
                let admission = Admission {
                    client: Some(client),
                    budget,
                    edge: edge.filter(|_| *state == LimiterState::Leased),
                    cost: Tokens::from_grains(grains(*cost)),
                    period: *period,
                    right: match state {
                        LimiterState::Open => Right::Open,
                        _ if booked => Right::Booked,
                        _ => Right::Kept,
                    },
                    share: *share,
                };
                self.oracle.admitted(now, &admission);
            }
            What::Taken(number) => {
                self.land();
                self.timeline.admitted(now, client, 1);
                let flown = flown(client, decided.process, *number);
                if let Some(checkers) = budget.and_then(|(budget, _)| self.oracle.checkers(budget))
                {
                    checkers.taken(now, flown);
                }
            }
            What::Landed => self.land(),
        }
    }

    /// Ends the permits that are over, by their clients' own clocks.
    fn land(&mut self) {
        let (event_log, now) = (self.event_log.clone(), self.now);
        let over = |(client, process, flight): &Flown| match flight {
            Flight::Central(number) => !event_log.is_flying(*client, *process, number.get()),
            Flight::Own(..) => true,
        };
        let budgets: Vec<BudgetId> = self.state.budgets().map(|(budget, _)| budget).collect();
        for budget in budgets {
            if let Some(checkers) = self.oracle.checkers(budget) {
                checkers.landed(now, over);
            }
        }
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
