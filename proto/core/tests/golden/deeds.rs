//! Actions of clients: acquire, take permits, wait.

use super::script::Done;
use super::stage::Stage;
use aliquot_core::central::{DecisionRequest, Outcome, RetryPolicy, Route};
use aliquot_core::node::RequestAction;
use aliquot_core::share::Kind;
use aliquot_core::unit::{Incarnation, Tokens};
use std::num::NonZeroU64;

impl Stage {
    pub(super) fn loads(&mut self) {
        let names: Vec<String> = self.clients.keys().cloned().collect();
        for name in names {
            let process = &self.clients[&name];
            if let Some((attempts, cost)) = process.load {
                self.attempt(&name, cost, attempts);
            }
            if let Some(n) = self.clients[&name].wants {
                let before = self.clients[&name].admitted;
                self.attempt(&name, n, 1);
                if self.clients[&name].admitted > before || self.ask(&name, n) {
                    self.say(format!("{name}: {n} tokens at once are admitted"));
                    if let Some(process) = self.clients.get_mut(&name) {
                        process.wants = None;
                    }
                } else {
                    self.wait(&name, n);
                }
            }
        }
    }

    /// Asks the client's node for a cost that waits, and that node the home, at once. Returns true if it was
    /// admitted.
    fn ask(&mut self, name: &str, n: u64) -> bool {
        let (request, edge) = (self.request(), self.clients[name].client.edge());
        let (Some(id), Some(edge), Some(cost)) = (self.budget, edge, NonZeroU64::new(n)) else {
            return false;
        };
        let ask = DecisionRequest {
            edge,
            request,
            budget: id,
            kind: Kind::Rate,
            cost,
            retry_policy: RetryPolicy::Waits,
            route: Route::Direct,
        };
        let decided = match self.decide(edge.parent, &ask) {
            Some(RequestAction::Forward { to, ask }) => self.decide(to, &ask),
            decided => decided,
        };
        let Some(RequestAction::Reply(reply)) = decided else {
            return false;
        };
        let Outcome::Admitted { by, period, .. } = reply.outcome else {
            return false;
        };
        let per = self.scale_of(id).map_or(1, |of| of.0.grains_per_token());
        self.judge_decision(id, Tokens::from_grains(n * per), period, Some(by));
        if let Some(process) = self.clients.get_mut(name) {
            process.admitted += n;
        }
        true
    }

    fn decide(&mut self, to: Incarnation, ask: &DecisionRequest) -> Option<RequestAction> {
        let now = self.now;
        let mut hosts = self.hosts.values_mut();
        let host = hosts.find(|host| host.node.as_ref().map(|node| node.incarnation()) == Some(to));
        let host = host?;
        let tick = host.clock.at(now);
        let node = host.node.as_mut()?;
        Some(node.handle_ask(ask, &host.state, tick))
    }

    fn wait(&mut self, name: &str, n: u64) {
        let (now, Some(id)) = (self.now, self.budget) else {
            return;
        };
        let per = self
            .scale_of(id)
            .map_or(1, |(scale, _)| scale.grains_per_token());
        if let Some(process) = self.clients.get_mut(name) {
            let tick = process.clock.at(now);
            process.client.waits(id, Tokens::from_grains(n * per), tick);
        }
    }

    fn attempt(&mut self, name: &str, n: u64, times: u64) {
        let (now, Some(id)) = (self.now, self.budget) else {
            return;
        };
        let Some((scale, _)) = self.scale_of(id) else {
            return;
        };
        let tokens = Tokens::from_grains(n * scale.grains_per_token());
        for _ in 0..times {
            let Some(process) = self.clients.get_mut(name) else {
                return;
            };
            let tick = process.clock.at(now);
            match process.client.try_acquire_at(id, tokens, tick) {
                Ok(period) => {
                    process.admitted += n;
                    self.judge_admission(id, tokens, period, name);
                }
                Err(denial) => {
                    process.denied += n;
                    process.reason = denial.to_string();
                }
            }
        }
    }

    pub(super) fn acquire(&mut self, name: &str, n: &str, times: &[&str]) -> Done {
        let n = n.parse().map_err(|_| "no number")?;
        let process = self.process(name)?;
        let before = std::mem::take(&mut process.admitted);
        let denied = std::mem::take(&mut process.denied);
        self.attempt(name, n, count(times));
        let process = self.process(name)?;
        let why = match process.denied {
            0 => String::new(),
            denied => format!(", denied {denied}: {}", process.reason),
        };
        let text = format!("{name}: admitted {}{why}", process.admitted);
        (process.admitted, process.denied) = (before, denied);
        self.say(text);
        Ok(())
    }

    pub(super) fn permit(&mut self, name: &str, times: &[&str]) -> Done {
        let (now, id) = (self.now, self.budget.ok_or("no budget")?);
        let (mut taken, mut why) = (0, String::new());
        for _ in 0..count(times) {
            self.counter += 1;
            let number = self.counter;
            let process = self.process(name)?;
            let tick = process.clock.at(now);
            match process.client.try_permit_at(id, tick) {
                Ok(permit) => {
                    process.permits.push((number, permit));
                    taken += 1;
                    self.judge_permit(id, name, number, true);
                }
                Err(denial) => why = format!("; then: {denial}"),
            }
        }
        self.say(format!("{name}: {taken} permits{why}"));
        Ok(())
    }

    pub(super) fn done(&mut self, name: &str, times: &[&str]) -> Done {
        let (now, id) = (self.now, self.budget.ok_or("no budget")?);
        for _ in 0..count(times) {
            let process = self.process(name)?;
            let Some((number, permit)) = process.permits.pop() else {
                break;
            };
            let tick = process.clock.at(now);
            process.client.release_permit(id, permit, tick);
            self.judge_permit(id, name, number, false);
        }
        Ok(())
    }
}

/// Reads `x80`, or returns 1.
fn count(times: &[&str]) -> u64 {
    let times = times.first().and_then(|times| times.strip_prefix('x'));
    times.and_then(|times| times.parse().ok()).unwrap_or(1)
}

pub(super) fn load_of(text: &str) -> Option<(u64, u64)> {
    let (attempts, cost) = text.split_once('x').unwrap_or((text, "1"));
    Some((attempts.parse().ok()?, cost.parse().ok()?))
}
