//! Reports of this node to the leader.

use super::actor::Actor;
use super::joining::Joining;
use aliquot_core::node::NodeOutput;
use aliquot_core::unit::{Span, Tick};
use aliquot_wire::Sealed;
use aliquot_wire::gossip::{Presence, Record};

/// Times of the last report, gossip round and presence record.
#[derive(Debug)]
pub(super) struct SendTimes {
    pub(super) last_report: Tick,
    /// Minimum time between urgent reports.
    pub(super) report_gap: Span,
    pub(super) is_urgent: bool,
    pub(super) last_gossip: Tick,
    pub(super) presence: Presence,
    pub(super) last_presence: Tick,
    /// True if this node had a lease at the last check.
    leased: bool,
}

impl SendTimes {
    pub(super) fn new(now: Tick) -> Self {
        Self {
            last_report: now,
            report_gap: URGENT,
            is_urgent: true,
            last_gossip: now,
            presence: Presence::default(),
            last_presence: now,
            leased: false,
        }
    }

    /// Logs once when a lease begins or ends.
    pub(super) fn log_lease_change(&mut self, leased: bool) {
        match (self.leased, leased) {
            (true, false) => tracing::warn!(
                "no leader confirmed this node's reports: its lease is over, its sessions are closed, and its \
                 clients follow their budgets' expiry policies"
            ),
            (false, true) => tracing::info!("this node has a lease"),
            _ => {}
        }
        self.leased = leased;
    }

    /// Starts a new incarnation, whose first report is sent at once.
    pub(super) const fn begin_incarnation(&mut self, now: Tick) {
        self.last_report = now;
        self.is_urgent = true;
    }
}

/// Minimum time between urgent reports, so that a storm of client requests leads to one report.
///
/// Making reports takes at most about a tenth of the time: after a report that took long, the next one
/// waits ten times as long, up to the limit.
const URGENT: Span = Span::from_millis(1);
const URGENT_LIMIT: Span = Span::from_millis(200);
const URGENT_PART: u64 = 10;

/// Interval of reports while this node has no lease.
const UNLEASED: Span = Span::from_millis(100);

impl Actor {
    /// Carries out the outputs of the node's state machine.
    pub(super) fn drain_node(&mut self) {
        let Some(node) = &mut self.node else {
            return;
        };
        for output in node.poll_outputs() {
            match output {
                NodeOutput::Answer(answer) => self.answer_client(answer),
                NodeOutput::Rejoin => {
                    tracing::warn!("this incarnation has ended; joining again");
                    self.join = Joining::new(&mut self.rng);
                }
            }
        }
    }

    /// Reports if a regular or an urgent report is due.
    pub(super) fn report_if_due(&mut self) {
        let Some(node) = &mut self.node else {
            return;
        };
        self.send_times.is_urgent |= node.take_report_urgent();
        let every = match (node.is_leased(self.now), self.send_times.is_urgent) {
            (_, true) => self.send_times.report_gap,
            (false, false) => UNLEASED,
            (true, false) => self.options.report_every,
        };
        if self.now.since(self.send_times.last_report) < every {
            return;
        }
        (self.send_times.last_report, self.send_times.is_urgent) = (self.now, false);
        let begun = self.options.clock.now();
        let Some(report) = node.report(self.now, self.options.clock.wall_ms()) else {
            return;
        };
        let took = self.options.clock.now().since(begun);
        let gap = took.times_or_max(URGENT_PART).min(URGENT_LIMIT);
        self.send_times.report_gap = gap.max(URGENT);
        match Sealed::seal(&report) {
            Ok(sealed) => {
                self.publish(&Record::of_report(&sealed));
                self.lead_report(&report);
            }
            Err(error) => tracing::error!(%error, "a report was not sent: it cannot be decoded"),
        }
    }

    /// Returns the time at which the next urgent report is due, if there is one.
    pub(super) fn urgent_report_at(&self) -> Option<Tick> {
        let waits = self.send_times.is_urgent && self.node.is_some();
        waits.then(|| {
            self.send_times
                .last_report
                .after(self.send_times.report_gap)
        })
    }
}
