//! Faults of a world. Every fault that takes effect is counted. Faults drawn beforehand are all over at the
//! plan's `faults_to`. More follow if too few took effect.

use super::clock::{MS, SEC};
use super::mending::Mending;
use super::net::NODES;
use super::plan::Plan;
use super::rng::Rng;
use super::{Event, World};
use aliquot_core::command::Command;
use aliquot_core::node::Node;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    NodeCrash {
        node: usize,
        down: u64,
    },
    LeaderKill {
        down: u64,
    },
    NodePause {
        node: usize,
        span: u64,
    },
    Isolate {
        node: usize,
        span: u64,
    },
    /// Messages pass in one direction only.
    OneWay {
        from: usize,
        to: usize,
        span: u64,
    },
    /// Two nodes do not reach each other; the third reaches both.
    Partial {
        one: usize,
        other: usize,
        span: u64,
    },
    ClientCrash {
        client: usize,
        down: u64,
    },
    ClientPause {
        client: usize,
        span: u64,
    },
    ClientCut {
        client: usize,
        span: u64,
    },
    /// The client's messages arrive and it receives none, or the reverse.
    ClientDeaf {
        client: usize,
        span: u64,
        outgoing: bool,
    },
    ClientMove {
        client: usize,
        to: usize,
    },
    ClientLeave {
        client: usize,
        away: u64,
    },
    Loss {
        per_mille: u64,
        span: u64,
    },
    Late {
        per_mille: u64,
        span: u64,
    },
    /// Messages to the leader come late, then not at all: it continues to believe that it leads.
    Adrift {
        span: u64,
    },
    /// A node is cut off until its reclaim is proposed, and back before that commits.
    Comeback {
        node: usize,
        span: u64,
    },
    Limit {
        per_cent: u64,
    },
    Delete {
        back: u64,
    },
    // Not faults, but events of every world.
    Shift,
    ClockRates,
}

pub(crate) fn draw(plan: &Plan, rng: &mut Rng) -> Vec<(u64, Fault)> {
    let mut faults = Vec::new();
    let mut at = plan.faults_from;
    while at < plan.faults_to {
        let (fault, gap) = next(plan, rng, plan.faults_to - at);
        faults.push((at, fault));
        at += gap;
    }
    faults
}

/// Returns a fault that is over after `left`, and the time until the next one.
fn next(plan: &Plan, rng: &mut Rng, left: u64) -> (Fault, u64) {
    match plan.calm {
        true => (rng.pick(&[Fault::Shift, Fault::ClockRates]), SEC),
        false if plan.palace => (of_leaders(rng, left), rng.range(200 * MS, 800 * MS)),
        false => (one(plan, rng, left), rng.range(250 * MS, 1_250 * MS)),
    }
}

/// Returns a fault of leaders, or of nodes that they are about to reclaim.
fn of_leaders(rng: &mut Rng, left: u64) -> Fault {
    let node = rng.index(NODES);
    let span = (6 * SEC).min(left);
    let down = rng.range(50 * MS, 2 * SEC).min(left);
    match rng.range(0, 100) {
        0..25 => Fault::Adrift { span },
        25..65 => Fault::Comeback { node, span },
        65..75 => Fault::LeaderKill { down },
        75..80 => Fault::NodeCrash { node, down },
        _ => Fault::ClientCrash {
            client: rng.index(Plan::CLIENTS),
            down: 0,
        },
    }
}

fn one(plan: &Plan, rng: &mut Rng, left: u64) -> Fault {
    let (node, client) = (rng.index(NODES), rng.index(Plan::CLIENTS));
    let other = (node + 1 + rng.index(NODES - 1)) % NODES;
    let span = rng.range(200 * MS, 5 * SEC).min(left);
    let short = rng.range(50 * MS, 2 * SEC).min(left);
    let outgoing = rng.chance(500);
    match rng.range(0, 100) {
        0..4 => Fault::NodeCrash { node, down: short },
        4..6 => Fault::LeaderKill { down: short },
        6..11 => Fault::NodePause { node, span },
        11..15 => Fault::Isolate { node, span },
        15..21 => Fault::OneWay {
            from: node,
            to: other,
            span,
        },
        21..25 => Fault::Partial {
            one: node,
            other,
            span,
        },
        25..35 => Fault::ClientCrash {
            client,
            down: short,
        },
        35..45 => Fault::ClientPause { client, span },
        45..53 => Fault::ClientCut { client, span },
        53..61 => Fault::ClientDeaf {
            client,
            span,
            outgoing,
        },
        61..69 => Fault::ClientMove { client, to: node },
        69..73 => Fault::ClientLeave {
            client,
            away: short,
        },
        73..77 => Fault::Loss {
            per_mille: rng.range(50, 400),
            span,
        },
        77..83 => Fault::Late {
            per_mille: rng.range(20, 400),
            span,
        },
        83..85 => Fault::Adrift {
            span: (6 * SEC).min(left),
        },
        85..87 => Fault::Comeback {
            node,
            span: (6 * SEC).min(left),
        },
        87..92 if plan.changes_limits() => Fault::Limit {
            per_cent: rng.pick(&[40, 60, 80, 100, 130, 200]),
        },
        87..89 if plan.deletes() => Fault::Delete {
            back: rng.range(MS, 8 * SEC).min(left),
        },
        92..95 => Fault::ClockRates,
        95..98 => Fault::Shift,
        _ => Fault::ClientCrash { client, down: 0 },
    }
}

impl World {
    pub(super) fn befall(&mut self, index: usize) {
        let fault = self.faults[index].1;
        let took = self.strike(fault);
        self.say(|| format!("fault {fault:?} {took}"));
        self.note(5, index as u64);
        self.seen.faults += u64::from(took);
        if index + 1 == self.faults.len() {
            self.befall_more();
        }
    }

    /// Adds another fault if not enough took effect.
    fn befall_more(&mut self) {
        if self.plan.calm || self.seen.faults >= Plan::LEAST_FAULTS {
            return;
        }
        let (fault, gap) = next(&self.plan, &mut self.rng, 2 * SEC);
        let at = self.plan.faults_to.max(self.now + gap);
        self.lasts = self.lasts.max(at);
        self.faults.push((at, fault));
        self.at(at, Event::Fault(self.faults.len() - 1));
    }

    fn strike(&mut self, fault: Fault) -> bool {
        match fault {
            Fault::NodeCrash { node, down } => self.crash_node(node, down),
            Fault::LeaderKill { down } => {
                let leader = (0..NODES).find(|&node| self.nodes[node].leader.is_ready());
                leader.is_some_and(|node| self.crash_node(node, down))
            }
            Fault::NodePause { node, span } => self.pause(node, span),
            Fault::ClientPause { client, span } => self.pause(NODES + client, span),
            Fault::Isolate { node, span } => self.isolate(node, span),
            Fault::OneWay { from, to, span } => self.cut(vec![(from, to)], span),
            Fault::Partial { one, other, span } => self.cut(vec![(one, other), (other, one)], span),
            Fault::ClientCut { client, span } => {
                let (host, home) = (NODES + client, self.services[client].home);
                self.cut(vec![(host, home), (home, host)], span)
            }
            Fault::ClientDeaf {
                client,
                span,
                outgoing,
            } => {
                let (host, home) = (NODES + client, self.services[client].home);
                let link = if outgoing { (host, home) } else { (home, host) };
                self.cut(vec![link], span)
            }
            Fault::ClientCrash { client, down } => self.crash_client(client, down),
            Fault::ClientMove { client, to } => {
                let moves = self.services[client].process.up && self.services[client].home != to;
                if moves {
                    self.move_service(client, to);
                }
                moves
            }
            Fault::ClientLeave { client, away } => self.leave(client, away),
            Fault::Loss { per_mille, span } => {
                self.net.loss += per_mille;
                self.net.doubled += per_mille;
                self.mend_after(span, Mending::Loss(per_mille));
                true
            }
            Fault::Late { per_mille, span } => {
                self.net.late += per_mille;
                self.mend_after(span, Mending::Late(per_mille));
                true
            }
            Fault::Adrift { span } => self.set_adrift(span),
            Fault::Comeback { node, span } => {
                self.trap = true;
                self.isolate(node, span)
            }
            Fault::Limit { per_cent } => self.limit(per_cent),
            Fault::Delete { back } => self.delete(back),
            Fault::Shift => {
                let calm = self.plan.calm;
                self.load.shift(&self.plan, &mut self.rng, calm);
                false
            }
            Fault::ClockRates => {
                self.tune_clocks(self.plan.rho);
                false
            }
        }
    }

    fn crash_node(&mut self, node: usize, down: u64) -> bool {
        let process = &mut self.nodes[node].process;
        if !process.up {
            return false;
        }
        process.up = false;
        process.paused_until = 0;
        self.nodes[node].leader.deposed();
        self.nodes[node].node = None;
        self.mend_after(down, Mending::StartNode(node));
        true
    }

    fn crash_client(&mut self, client: usize, down: u64) -> bool {
        let process = &mut self.services[client].process;
        if !process.up {
            return false;
        }
        process.up = false;
        process.paused_until = 0;
        self.end_flights(client);
        self.mend_after(down, Mending::StartClient(client));
        true
    }

    fn leave(&mut self, client: usize, away: u64) -> bool {
        let service = &mut self.services[client];
        if !service.process.up || service.leaving || service.process.paused_until > self.now {
            return false;
        }
        let now = service.clock.read(self.now);
        service.leaving = true;
        service.client.leave(now);
        let back = away.max(MS);
        self.mend_after(back, Mending::StartClient(client));
        true
    }

    fn pause(&mut self, host: usize, span: u64) -> bool {
        let now = self.now;
        let process = match host {
            _ if host < NODES => &mut self.nodes[host].process,
            _ => &mut self.services[host - NODES].process,
        };
        let takes = process.up && process.paused_until <= now;
        if takes {
            process.paused_until = super::clock::quantised(now + span);
            self.lasts = self.lasts.max(process.paused_until);
        }
        takes
    }

    pub(super) fn isolate(&mut self, node: usize, span: u64) -> bool {
        let others = (0..NODES).filter(|&other| other != node);
        let links = others.flat_map(|other| [(node, other), (other, node)]);
        self.cut(links.collect(), span)
    }

    fn set_adrift(&mut self, span: u64) -> bool {
        let leader = (0..NODES).find(|&node| self.nodes[node].leader.is_ready());
        let Some(node) = leader.filter(|_| self.net.adrift.is_none()) else {
            return false;
        };
        self.net.adrift = Some(node);
        self.mend_after((200 * MS).min(span), Mending::Adrift { node, span });
        true
    }

    fn cut(&mut self, links: Vec<(usize, usize)>, span: u64) -> bool {
        let takes = links.iter().any(|&(from, to)| self.net.reaches(from, to));
        for &(from, to) in &links {
            self.net.cut(from, to);
        }
        self.mend_after(span, Mending::Links(links));
        takes
    }

    pub(super) fn limit(&mut self, per_cent: u64) -> bool {
        if self.load.budget_asked.is_none() {
            return false;
        }
        let budget = self.plan.budget(per_cent);
        let creator = self.nodes[0].node.as_ref().map(Node::incarnation);
        self.ask(|request| Command::PutRule {
            request,
            budget,
            creator,
        });
        true
    }

    fn delete(&mut self, back: u64) -> bool {
        let rule = self.nodes[0].state.rules().next().map(|(id, _)| id);
        let Some(rule) = rule else { return false };
        self.ask(|request| Command::DeleteRule { request, rule });
        self.mend_after(back, Mending::Limit);
        true
    }
}
