//! Counts marks. Nothing here changes the simulation.

use super::World;
use super::coordinator::Coordinator;
use crate::mark::Mark;
use crate::oracle::{Admission, Right};
use aliquot_core::message::Report;
use aliquot_core::node::Node;
use aliquot_core::state::Effect;
use aliquot_core::unit::Span;

impl World {
    /// Counts marks of a node's start.
    pub(super) fn mark_start(&mut self, node: usize) {
        let replays = self.nodes[node].state.applied() > 0;
        self.marks.hit_if(replays, Mark::LogReplayed);
        let under = self.services.iter().any(|service| {
            let parent = service.client.edge().map(|edge| edge.parent);
            let here = parent
                .is_some_and(|incarnation| self.incarnations.get(&incarnation) == Some(&node));
            here && service.client.is_leased(service.clock.read(self.now))
        });
        self.marks.hit_if(under, Mark::NodeRestartedUnderLeases);
    }

    pub(super) fn mark_client_report(&mut self, node: usize, report: &Report) {
        let host = &mut self.nodes[node];
        let Some(machine) = &host.node else { return };
        if report.edge.parent != machine.incarnation() {
            self.marks.hit(Mark::ReportOfFormerIncarnation);
            return;
        }
        if machine.ledger().child(report.edge.child).is_none() {
            self.marks.hit(Mark::ReportOfClosedEdge);
            return;
        }
        let last = host.reports.entry(report.edge.child).or_default();
        self.marks.hit_if(report.seq <= *last, Mark::ReportStale);
        *last = report.seq.max(*last);
    }

    pub(super) fn mark_admission(&mut self, of: usize, admission: &Admission) {
        let clone = of >= self.hosts.clients.len();
        self.marks.hit_if(clone, Mark::ForkedAlive);
        self.marks
            .hit_if(self.vacant.is_some(), Mark::AdmittedWithoutLeader);
        let unleased = match admission.right {
            Right::Booked => None,
            Right::Kept => Some(Mark::KeptShareUsed),
            Right::Local => Some(Mark::LocalPartUsed),
            Right::Open => Some(Mark::OpenUsed),
        };
        if let Some(mark) = unleased {
            self.marks.hit(mark);
            self.marks.hit(Mark::AdmittedUnleased);
            return;
        }
        let Some(edge) = admission.edge else {
            self.marks.hit(Mark::AdmittedByFormerFloor);
            return;
        };
        let service = &self.services[of];
        let now = service.clock.read(self.now);
        let Some(&node) = self
            .incarnations
            .get(&edge.parent)
            .filter(|_| service.client.is_leased(now))
        else {
            return;
        };
        let until = service.client.holder().map(|holder| holder.lease().until());
        let soon = until.is_some_and(|until| until.since(now) < Span::from_millis(50));
        self.marks.hit_if(soon, Mark::AdmittedAtTheEnd);
        let home = self.hosts.homes.get(of).copied();
        self.marks.hit_if(home != Some(node), Mark::AdmittedAway);
        let down = !self.nodes[node].process.up;
        self.marks.hit_if(down, Mark::AdmittedWhileNodeDown);
        let cut = self.net.is_harmed() && !self.net.reaches(self.hosts.nodes + of, node);
        self.marks.hit_if(cut, Mark::AdmittedWhileCut);
    }

    /// Counts marks of an effect, when the first replica applies it.
    pub(super) fn mark_effect(&mut self, effect: &Effect) {
        match effect {
            Effect::Reclaimed(incarnation) => {
                self.marks.hit(Mark::ReclaimApplied);
                let incarnations = |host: &Coordinator| {
                    host.process.up
                        && host.node.as_ref().map(Node::incarnation) == Some(*incarnation)
                };
                let alive = self.nodes.iter().any(incarnations);
                self.marks.hit_if(alive, Mark::ReclaimedAlive);
            }
            Effect::Stamped(..) => self.marks.hit(Mark::Stamped),
            Effect::MovementRefused(..) => self.marks.hit(Mark::MovementRefused),
            Effect::Repeated(_) => self.marks.hit(Mark::RequestRepeated),
            Effect::Freed(..) => self.marks.hit(Mark::PartFreed),
            Effect::Ended(_) => self.marks.hit(Mark::InstanceEnded),
            _ => {}
        }
    }

    /// Counts marks of leadership: the time without a leader, and a leader that is cut off from the quorum.
    pub(super) fn mark_vacancy(&mut self) {
        let Some(leader) = self.leader() else {
            let since = *self.vacant.get_or_insert(self.now);
            let long = self.now - since > self.plan.scenario.lease.lease;
            self.marks.hit_if(long, Mark::NoReadyLeader);
            return;
        };
        self.vacant = None;
        if self.net.is_harmed() {
            let both =
                |&other: &usize| self.net.reaches(leader, other) && self.net.reaches(other, leader);
            let reached = (0..self.hosts.nodes).filter(both).count();
            let cut = 2 * reached <= self.hosts.nodes;
            self.marks.hit_if(cut, Mark::LeaderCutOff);
        }
    }
}
