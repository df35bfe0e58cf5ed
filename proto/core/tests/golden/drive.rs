//! Time and messages: the steps, and the order in which things move.

use super::stage::{STEP, Stage};
use super::wire::Body;
use aliquot_core::node::{Node, NodeOutput};

impl Stage {
    /// Lets `span` pass in steps, and delivers everything that is not held.
    pub(super) fn run(&mut self, span: u64) {
        let until = self.now + span;
        while self.now < until {
            self.now = (self.now - self.now % STEP + STEP).min(until);
            self.step(self.now.is_multiple_of(STEP));
        }
        self.report_clients();
    }

    fn step(&mut self, whole: bool) {
        self.pump();
        let now = self.now;
        for host in self.hosts.values_mut() {
            if let Some(node) = &mut host.node {
                node.tick(host.clock.at(now));
            }
        }
        self.pump();
        if whole {
            self.loads();
        }
        if now.is_multiple_of(2 * STEP) {
            self.client_reports();
            self.pump();
        }
        if now.is_multiple_of(5 * STEP) {
            self.node_reports();
            self.pump();
        }
        self.tick_leaders();
        self.pump();
        self.cancel_overheld();
        self.observe();
    }

    /// Ends a permit that was held for too long, whatever its client does.
    fn cancel_overheld(&mut self) {
        let Some(id) = self.budget else { return };
        let mut over = Vec::new();
        for (name, process) in &mut self.clients {
            let tick = process.clock.at(self.now);
            let mut allotments = process.client.allotments();
            let Some((_, allotment)) = allotments.find(|(of, _)| *of == id) else {
                continue;
            };
            let permits = allotment.permits();
            let valid = |permit| permits.is_valid(permit, tick);
            let ended = process.permits.iter().filter(|(_, of)| !valid(*of));
            over.extend(ended.map(|(number, _)| (name.clone(), *number)));
            process.permits.retain(|(_, of)| valid(*of));
        }
        for (name, number) in over {
            self.judge_permit(id, &name, number, false);
        }
    }

    /// Sends what is ready and delivers what is due, until nothing moves.
    pub(super) fn pump(&mut self) {
        for _ in 0..50 {
            self.drain();
            let due = self.wire.due(self.now);
            if due.is_empty() {
                return;
            }
            for (from, to, body) in due {
                self.deliver(&from, &to, body);
            }
        }
    }

    fn drain(&mut self) {
        let names: Vec<String> = self.hosts.keys().cloned().collect();
        for name in names {
            let now = self.now;
            let Some(host) = self.hosts.get_mut(&name) else {
                continue;
            };
            let tick = host.clock.at(now);
            let answers = host.leader.poll_answers(&host.state, tick);
            let outputs = host.node.as_mut().map(Node::poll_outputs);
            self.answer(&name, answers);
            for output in outputs.into_iter().flatten() {
                match output {
                    NodeOutput::Answer(answer) => {
                        if let Some(to) = self.client_of(answer.edge) {
                            self.send(&name, &to, Body::Answer(answer));
                        }
                    }
                    NodeOutput::Rejoin => {
                        self.say(format!("{name}'s edge is closed: it joins again"));
                        self.join(&name);
                    }
                }
            }
        }
    }

    pub(super) fn send(&mut self, from: &str, to: &str, body: Body) {
        if let Some(held) = self.wire.send(self.now, from, to, body) {
            self.say(held);
        }
    }

    pub(super) fn deliver(&mut self, from: &str, to: &str, body: Body) {
        let now = self.now;
        if let Some(process) = self.clients.get_mut(to) {
            if let Body::Answer(mut answer) = body {
                if process.deaf_to_recalls {
                    for line in &mut answer.lines {
                        line.target = aliquot_core::edge::Vector::ZERO;
                    }
                }
                let tick = process.clock.at(now);
                process.client.handle_answer(&answer, tick);
            }
            return;
        }
        let from_client = self.clients.contains_key(from);
        let Some(host) = self.hosts.get_mut(to) else {
            return;
        };
        let tick = host.clock.at(now);
        match body {
            Body::Report(report) if from_client => {
                if let Some(node) = &mut host.node {
                    node.handle_report(&report, tick);
                    node.tick(tick);
                }
            }
            Body::Report(report) => {
                let answer = host.leader.handle_report(&report, &host.state, tick);
                self.answer(to, answer.into_iter().collect());
            }
            Body::Answer(answer) => {
                let mut asked = false;
                if let Some(node) = &mut host.node {
                    node.handle_answer(&answer, tick);
                    node.tick(tick);
                    asked = node.holder().has_more();
                }
                // A node that is asked for everything does not wait for its next report.
                if asked {
                    self.node_report(to);
                }
            }
        }
    }
}
