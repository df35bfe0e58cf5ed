//! Reports of this node to the leader.

use super::context::Context;
use aliquot_core::message::Report;
use aliquot_core::node::Node;
use aliquot_core::unit::{Span, Tick};

/// Times of this node's reports.
#[derive(Debug)]
pub(super) struct Reporting {
    last: Tick,
    /// Minimum time between urgent reports.
    gap: Span,
    is_urgent: bool,
    /// True if this node had a lease at the last check.
    leased: bool,
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

impl Reporting {
    pub(super) fn new(now: Tick) -> Self {
        Self {
            last: now,
            gap: URGENT,
            is_urgent: true,
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
        self.last = now;
        self.is_urgent = true;
    }

    /// Makes the next report urgent.
    pub(super) const fn urge(&mut self) {
        self.is_urgent = true;
    }

    /// Returns a report if a regular or an urgent one is due. Regular ones come `every` so often.
    pub(super) fn next(
        &mut self,
        node: &mut Node,
        every: Span,
        context: &Context,
    ) -> Option<Report> {
        let (now, options) = (context.now, &context.options);
        self.is_urgent |= node.take_report_urgent();
        let every = match (node.is_leased(now), self.is_urgent) {
            (_, true) => self.gap,
            (false, false) => UNLEASED,
            (true, false) => every,
        };
        if now.since(self.last) < every {
            return None;
        }
        (self.last, self.is_urgent) = (now, false);
        let begun = options.clock.now();
        let report = node.report(now, options.clock.wall_ms())?;
        let took = options.clock.now().since(begun);
        let gap = took.times_or_max(URGENT_PART).min(URGENT_LIMIT);
        self.gap = gap.max(URGENT);
        Some(report)
    }

    /// Returns the time at which the next urgent report is due, if there is one.
    pub(super) fn urgent_at(&self) -> Option<Tick> {
        self.is_urgent.then(|| self.last.after(self.gap))
    }
}

#[cfg(test)]
#[path = "../../tests/unit/node/reporting.rs"]
mod tests;
