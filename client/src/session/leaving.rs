//! Handing back what a session holds.

use super::{Leaving, Session};
use crate::bucket::AdmissionMode;
use crate::limiter::shared::Command;
use aliquot_core::share::Share;
use aliquot_core::unit::{Scale, Span, Tick};
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::oneshot;

impl Session {
    /// Maximum wait for the answer to a leave.
    pub(super) const LEAVE_WAIT: Span = Span::from_millis(200);

    pub(super) fn obey(&mut self, command: Option<Command>) {
        let now = self.look();
        let (wait, reply) = match command {
            Some(Command::Close(wait, reply)) => (wait, Some(reply)),
            // The last handle was dropped: no caller is left.
            None => (Duration::from_secs(1), None),
        };
        // Permits that were dropped before are released before the session ends.
        self.run_waiting(usize::MAX, now);
        self.closing = true;
        if let Some(attempt) = self.selection.abandon() {
            self.close_link(attempt, now.after(Self::LEAVE_WAIT), now);
        }
        let wait = Span::from_nanos(u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX));
        self.leave(now, wait, reply);
        let (deciders, names) = self.keys.take_all();
        let retired = names
            .into_iter()
            .filter_map(|name| self.machine.retire(name, now));
        for mut decider in retired.chain(deciders).collect::<Vec<_>>() {
            decider.rule(AdmissionMode::Closed, Scale::WHOLE, Share::EMPTY, now);
        }
        self.report(now);
        if self.link().is_none() || self.machine.edge().is_none() {
            self.left(self.machine.edge().is_none(), now);
        }
    }

    /// Hands everything back. The node's answer completes it, or `wait` passes.
    pub(super) fn leave(&mut self, now: Tick, wait: Span, reply: Option<oneshot::Sender<bool>>) {
        self.shared.set_lease(Tick::ZERO);
        self.machine.leave(now);
        self.ask_no_more();
        let until = now.after(wait);
        self.leaving = Some(Leaving { until, reply });
    }

    /// Completes a leave: the node has taken what was handed back, or did not answer in time.
    pub(super) fn left(&mut self, taken: bool, now: Tick) {
        let Some(leaving) = self.leaving.take() else {
            return;
        };
        if self.closing {
            self.shared.untaken.store(!taken, Ordering::Release);
        }
        if let Some(reply) = leaving.reply {
            let _ = reply.send(taken);
        }
        if !self.closing {
            self.switch_over(now);
        }
    }
}
