//! Counts marks of this tier. Nothing here changes the simulation.

use super::World;
use crate::mark::Mark;
use aliquot_core::message::Report;

impl World {
    /// Counts marks of a node's start.
    pub(super) fn mark_start(&mut self, node: usize) {
        let replays = self.nodes[node].state.applied() > 0;
        self.observer.marks.hit_if(replays, Mark::LogReplayed);
        let under = self.services.iter().any(|service| {
            let parent = service.client.edge().map(|edge| edge.parent);
            let here = parent
                .is_some_and(|incarnation| self.incarnations.get(&incarnation) == Some(&node));
            here && service.client.is_leased(service.clock.read(self.now))
        });
        self.observer
            .marks
            .hit_if(under, Mark::NodeRestartedUnderLeases);
    }

    pub(super) fn mark_client_report(&mut self, node: usize, report: &Report) {
        let host = &mut self.nodes[node];
        let Some(machine) = &host.node else { return };
        if report.edge.parent != machine.incarnation() {
            self.observer.marks.hit(Mark::ReportOfFormerIncarnation);
            return;
        }
        if machine.ledger().child(report.edge.child).is_none() {
            self.observer.marks.hit(Mark::ReportOfClosedEdge);
            return;
        }
        let last = host.reports.entry(report.edge.child).or_default();
        self.observer
            .marks
            .hit_if(report.seq <= *last, Mark::ReportStale);
        *last = report.seq.max(*last);
    }
}
