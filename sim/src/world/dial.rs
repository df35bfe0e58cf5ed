//! Which node a session talks to, and when it goes to another one.

use super::World;
use super::clock::MS;
use super::event::Message;
use super::service::Next;
use crate::mark::Mark;
use aliquot_core::unit::{Span, Tick};

impl World {
    /// A client that never had a session tries its own node so often before any other.
    const HOME_TRIES: u32 = 8;

    const OPEN_WAIT: Span = Span::from_millis(500);
    const NO_LEASE: Span = Span::from_millis(1_500);
    const SILENCE: Span = Span::from_secs(1);
    pub(super) fn dial_if_due(&mut self, of: usize, now: Tick) {
        let service = &self.services[of];
        if service.leaving || now < service.dial_at {
            return;
        }
        match service.next {
            Some(next) if next.opened.is_some() => return,
            // It says nothing: another one may.
            Some(next) => {
                self.marks.hit(Mark::DialUnanswered);
                let service = &mut self.services[of];
                (service.next, service.avoid) = (None, Some(next.node));
                service.failures += 1;
            }
            None if service.link.is_some() => return,
            None => {}
        }
        let node = self.choose(of);
        self.dial(of, node, false, now);
    }

    /// The node of the edge in use first, if its connection was just lost;
    /// at first the client's own; then any.
    pub(super) fn choose(&mut self, of: usize) -> usize {
        let home = self.hosts.homes.get(of).copied().unwrap_or(0);
        let nodes = self.hosts.nodes;
        let mut draw = self.choice(of);
        let service = &mut self.services[of];
        // A node that has just begun serves soon.
        if service.client.edge().is_none() && service.failures < Self::HOME_TRIES {
            return home;
        }
        if service.failures == 0
            && let Some(last) = service.last.take()
        {
            return last;
        }
        let avoid = service.avoid.take();
        let others: Vec<usize> = (0..nodes).filter(|&node| Some(node) != avoid).collect();
        others
            .get(draw.index(others.len()))
            .copied()
            .unwrap_or(home)
    }

    pub(super) fn dial(&mut self, of: usize, node: usize, wished: bool, now: Tick) {
        let nonce = self.choice(of).next();
        let there = &self.nodes[node];
        let refused = match there.process.up {
            true => there.node.is_none(),
            false => there.process.refuses,
        };
        let service = &mut self.services[of];
        service.next = Some(Next {
            node,
            nonce,
            opened: None,
            wished,
        });
        self.marks.hit_if(refused, Mark::DialRefused);
        // A machine without the process, or a node that has not joined, refuses at once.
        let backoff = Span::from_millis(10 << service.failures.min(6));
        service.dial_at = now.after(if refused { backoff } else { Self::OPEN_WAIT });
        let resume = service.client.edge().filter(|_| !wished);
        self.send(self.hosts.nodes + of, node, Message::Open { nonce, resume });
    }

    /// Goes on with the next link once the edge in use has nothing left, or is the same one.
    pub(super) fn switch_if_due(&mut self, of: usize, now: Tick) {
        let service = &mut self.services[of];
        let Some(Next {
            node,
            opened: Some(edge),
            ..
        }) = service.next
        else {
            return;
        };
        let same = service.client.edge() == Some(edge);
        if !same && service.client.is_leased(now) {
            return;
        }
        if same {
            self.marks.hit(Mark::SessionResumed);
        } else if service.client.edge().is_some() {
            self.marks.hit(Mark::SessionMoved);
        }
        if !same {
            service.client.open(edge, now);
            service.asking.end_session();
        }
        (service.next, service.link) = (None, Some(node));
        (service.heard, service.leased, service.report_at) = (now, now, now);
        service.failures = 0;
    }

    /// The connection is gone.
    pub(super) fn lose_link(&mut self, of: usize, now: Tick) {
        let jitter = self.choice(of).range(5 * MS, 10 * MS);
        let service = &mut self.services[of];
        let asking = service.asking.pending() > 0;
        self.marks.hit_if(asking, Mark::LinkLostWhileAsking);
        service.last = service.link.take();
        service.dial_at = now.after(Span::from_nanos(jitter));
        self.look_within(of, jitter);
    }

    /// Leaves a node that says nothing, or gives nothing.
    pub(super) fn give_up_if_useless(&mut self, of: usize, now: Tick) {
        let every = Span::from_nanos(self.plan.scenario.lease.client_report_every);
        let service = &mut self.services[of];
        if service.client.is_leased(now) {
            service.leased = now;
        }
        let Some(node) = service.link.filter(|_| !service.leaving) else {
            return;
        };
        let silence = Self::SILENCE.max(every.times_or_max(5));
        let silent = now.since(service.heard) > silence;
        if silent || now.since(service.leased) > Self::NO_LEASE {
            self.marks.hit(if silent {
                Mark::NodeSilent
            } else {
                Mark::NodeGaveNoLease
            });
            self.lose_link(of, now);
            let service = &mut self.services[of];
            (service.last, service.avoid) = (None, Some(node));
        }
    }
}
