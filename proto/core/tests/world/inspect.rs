//! Inspection of invariants at instants, over all hosts at once.

use super::clock::{MS, SEC};
use super::net::NODES;
use super::{Plan, World};
use aliquot_core::client::Mode;
use aliquot_core::command::Command;
use aliquot_core::leader::LeaderOutput;
use aliquot_core::share::Share;
use aliquot_core::unit::{BudgetId, Edge, Tick};

impl World {
    /// Checks that no leader proposes a reclaim before it has been ready for a lease (invariant 5). Lets
    /// some of the nodes about to be reclaimed come back.
    pub(super) fn watch_reclaims(&mut self, node: usize, output: &LeaderOutput) {
        let LeaderOutput::Propose(Command::Round(changes)) = output else {
            return;
        };
        let host = &self.nodes[node];
        let now = host.clock.read(self.now);
        let since = host.ready_since.map(|ready_since| now.since(ready_since));
        if changes.reclaims.is_empty() {
            return;
        }
        if since.is_none_or(|since| since < host.state.lease()) {
            let what = || format!("{:?} reclaimed {since:?} into the office", changes.reclaims);
            self.judge.fail("patience", self.now, what);
        }
        if std::mem::take(&mut self.trap) {
            for incarnation in &changes.reclaims {
                if let Some(&of) = self.incarnations.get(incarnation) {
                    self.net.open[of] = self.now + SEC;
                }
            }
            self.net.slow_log = self.now + 600 * MS;
        }
    }

    /// Checks that an admission under a lease belongs to a session that its node still has open.
    pub(super) fn inspect_admission(&mut self, of: usize, edge: Option<Edge>, budget: BudgetId) {
        let Some(edge) = edge else { return };
        let node = self
            .nodes
            .iter()
            .filter_map(|host| Some((host.clock.read(self.now), host.node.as_ref()?)))
            .find(|(_, node)| node.incarnation() == edge.parent);
        let Some((node, account)) = node.and_then(|(now, node)| {
            let lease = node.holder().lease();
            Some((
                (
                    lease.until().since(now),
                    now.since(lease.until()),
                    lease.state(),
                ),
                node.account(budget)?,
            ))
        }) else {
            return;
        };
        if account.holding(edge.child).is_zero() {
            let service = &self.services[of];
            let now = service.clock.read(self.now);
            self.judge.fail("disjointness", self.now, || {
                let held = service.client.holder().map(|holder| holder.holding(budget));
                let until = service
                    .client
                    .holder()
                    .map(|holder| holder.lease().until().since(now));
                format!(
                    "client {of} admitted on {edge}, of which its node booked nothing: {:?}; \
                     it holds {held:?} for {until:?}; node's lease {node:?}; {:?}",
                    account.counters(edge.child),
                    self.plan
                )
            });
        }
    }

    pub(super) fn look(&mut self) {
        let state = &self.nodes[self.most_applied()].state;
        let Some((budget, _)) = state.budgets().last() else {
            return;
        };
        let mut parts = Vec::with_capacity(NODES + Plan::CLIENTS);
        for host in &self.nodes {
            let now = host.clock.read(self.now);
            if let Some(node) = host
                .node
                .as_ref()
                .filter(|node| host.process.up && node.is_leased(now))
            {
                parts.push(node.undealt(budget, now));
            }
        }
        for service in self.services.iter().filter(|service| service.process.up) {
            let now = service.clock.read(self.now);
            parts.push(usable(&service.client, budget, now));
        }
        let pool = self.pool(budget);
        for (node, host) in self.nodes.iter().enumerate().filter(|_| self.verbose) {
            if let Some(machine) = &host.node
                && !machine.holder().owed(budget).is_zero()
            {
                let (owed, held) = (
                    machine.holder().owed(budget),
                    machine.holder().holding(budget),
                );
                let booked = machine
                    .account(budget)
                    .map(|account| (account.held(), account.lingering()));
                self.say(|| {
                    format!(
                        "node {node} owes {owed} of {held}; its clients and ghosts have {booked:?}"
                    )
                });
            }
        }
        if self.verbose && self.now.is_multiple_of(1_000_000_000) {
            self.tell_of_clients(budget);
        }
        self.say(|| format!("clients and nodes {}, pool {pool}", sums(&parts)));
        let now = self.now;
        self.judge.believed(now, &parts, pool);
        self.look_at_edges();
    }

    fn most_applied(&self) -> usize {
        (0..NODES)
            .max_by_key(|&node| self.nodes[node].state.applied())
            .unwrap_or(0)
    }

    /// Returns the pool of the latest ready leader, if its book is the latest too.
    fn pool(&self, budget: BudgetId) -> Share {
        let latest = self.nodes[self.most_applied()].state.applied();
        let leading = self.nodes.iter().filter(|host| {
            host.process.up && host.leader.is_ready() && host.state.applied() == latest
        });
        leading
            .max_by_key(|host| host.leader.term())
            .and_then(|host| {
                let now = host.clock.read(self.now);
                host.leader.pool(budget).map(|pool| pool.share_at(now))
            })
            .unwrap_or(Share::EMPTY)
    }

    /// Prints the clients with a problem: without a lease, in debt to their node, or without a share.
    fn tell_of_clients(&self, budget: BudgetId) {
        for (of, service) in self.services.iter().enumerate() {
            let now = service.clock.read(self.now);
            let holder = service.client.holder();
            let owes = holder.map(|holder| holder.owed(budget)).unwrap_or_default();
            let holds = holder
                .map(|holder| holder.holding(budget))
                .unwrap_or_default();
            let leased = service.client.is_leased(now);
            if !leased || !owes.is_zero() || holds.is_zero() {
                let (edge, home) = (service.client.edge(), service.home);
                self.say(|| format!("client {of} of node {home} on {edge:?}: leased {leased}, holds {holds}, owes {owes}"));
            }
        }
    }

    fn look_at_edges(&mut self) {
        let now = self.now;
        for host in &self.nodes {
            let holder = host.node.as_ref().map(|node| node.holder());
            for (budget, counters) in holder.iter().flat_map(|holder| holder.counters()) {
                let edge = holder.map(|holder| holder.edge()).unwrap_or_default();
                self.judge.edge(now, edge, budget, counters);
            }
        }
        for service in &self.services {
            let holder = service.client.holder();
            for (budget, counters) in holder.iter().flat_map(|holder| holder.counters()) {
                let edge = holder.map(|holder| holder.edge()).unwrap_or_default();
                self.judge.edge(now, edge, budget, counters);
            }
        }
    }
}

/// Returns the sums, in grains, for display.
fn sums(parts: &[Share]) -> String {
    let all = parts.iter().fold((0, 0, 0), |(rate, burst, tokens), part| {
        (
            rate + part.rate.grains(),
            burst + part.burst.grains(),
            tokens + part.tokens.grains(),
        )
    });
    format!("{all:?}")
}

/// Returns the part by which a client would admit at this instant.
fn usable(client: &aliquot_core::client::Client, budget: BudgetId, now: Tick) -> Share {
    let found = client.allotments().find(|&(id, _)| id == budget);
    let Some((_, allotment)) = found else {
        return Share::EMPTY;
    };
    match allotment.mode() {
        Mode::Leased if client.is_leased(now) => allotment.share_at(now),
        Mode::Floor(until) if now < *until => allotment.share_at(now),
        _ => Share::EMPTY,
    }
}
