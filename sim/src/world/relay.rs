//! Messages that nodes send to all others, and their relaying.
//!
//! A node's report, and a leader's answer to a node, are sent to all other nodes at once. If the receiver
//! cannot hear the sender directly, the other nodes relay the message to it.

use super::World;
use super::event::Message;
use crate::mark::Mark;
use aliquot_core::message::{Answer, Report};
use aliquot_core::unit::Tick;
use std::rc::Rc;

impl World {
    /// Relays an answer to its node, unless that node hears the leader directly.
    pub(super) fn relay_answer(
        &mut self,
        (from, node): (usize, usize),
        to: Option<usize>,
        answer: Rc<Answer>,
    ) {
        let Some(to) = to.filter(|&to| !self.net.is_faultless(from, to)) else {
            return;
        };
        let relayed = true;
        self.send(node, to, Message::Answer { answer, relayed });
    }

    pub(super) fn node_receives_report(
        &mut self,
        node: usize,
        (report, sessions): (Rc<Report>, Option<u64>),
        relayed: bool,
        now: Tick,
    ) {
        let host = &mut self.nodes[node];
        host.balance
            .take_report((report.edge.child, report.seq), sessions, now);
        let incarnation = report.edge.child;
        let known = host.heard.get(&incarnation).map(|known| known.seq);
        let newer = known < Some(report.seq);
        self.observer
            .marks
            .hit_if(known > Some(report.seq), Mark::NodeReportStale);
        if newer {
            host.heard.insert(incarnation, Rc::clone(&report));
        }
        if host.leads.is_some() {
            if relayed && newer {
                self.observer.marks.hit(Mark::ReportRelayed);
            }
            if let Some(answer) = host.leader.handle_report(&report, &host.state, now) {
                self.tell(node, answer);
            }
        } else if let (true, false, Some(to)) = (newer, relayed, host.log.hint) {
            let origin = self.incarnations.get(&incarnation).copied();
            if origin.is_none_or(|origin| !self.net.is_faultless(origin, to)) {
                let relayed = true;
                let message = Message::Report {
                    report,
                    sessions,
                    relayed,
                };
                self.send(node, to, message);
            }
        }
    }
}
