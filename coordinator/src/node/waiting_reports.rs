//! Long reports of sessions, which wait while shorter ones are handled.
//!
//! ```text
//!  channel ──► short reports, requests ──────────────────► handled
//!         └──► long reports ──► WaitingReports ── one or more in each turn of the loop ──► handled
//!                                      └─ their leases are renewed meanwhile
//! ```
//!
//! A report of thousands of lines takes ten milliseconds and more. If reports were handled in the order in which
//! they arrive, a hundred of those would delay the renewals of all other sessions by seconds, and their own as well.

use crate::session::{Caller, Event};
use aliquot_core::message::Report;
use aliquot_core::unit::Incarnation;
use std::collections::{BTreeMap, VecDeque};

/// Events that wait: long reports, and later reports and ends of the same sessions, in the order of arrival.
///
/// A report repeats each line of an earlier one that was not taken. So a session's later report replaces the one
/// that waits, at its place in the queue. Otherwise sessions that repeat what a busy node has not read would keep
/// it busy with the repeats.
#[derive(Debug, Default)]
pub(super) struct WaitingReports {
    queue: VecDeque<Waiting>,
    /// Number of these events of each session.
    sessions: BTreeMap<Incarnation, usize>,
    /// Number of reports that were replaced since an event was removed.
    replaced: usize,
}

/// An event that waits.
#[derive(Debug)]
struct Waiting {
    event: Event,
    /// True once the session's lease was renewed for it.
    renewed: bool,
}

impl WaitingReports {
    /// Number of lines from which on a report is long: handling that many lines takes about as long as waking a task.
    const LONG: usize = 64;

    /// Number of events from which on no more events of sessions are read.
    const EVENTS_MAX: usize = 128;

    /// Returns true if an event has to wait: a long report, or one that follows a waiting one of its session.
    pub(super) fn must_wait(&self, event: &Event) -> bool {
        let is_long =
            matches!(event, Event::Report { report, .. } if report.lines.len() >= Self::LONG);
        let follows = caller(event).is_some_and(|of| self.sessions.contains_key(&of.edge.child));
        is_long || follows
    }

    /// Adds an event that has to wait, or lets it replace the earlier report of its session.
    pub(super) fn push(&mut self, event: Event) {
        let waiting = Waiting {
            event,
            renewed: false,
        };
        if let Some(earlier) = self.replaceable(&waiting.event) {
            *earlier = waiting;
            self.replaced += 1;
            return;
        }
        if let Some(caller) = caller(&waiting.event) {
            *self.sessions.entry(caller.edge.child).or_default() += 1;
        }
        self.queue.push_back(waiting);
    }

    /// Returns the report that waits and that `event`, a later one on the same stream, makes needless.
    fn replaceable(&mut self, event: &Event) -> Option<&mut Waiting> {
        let Event::Report { caller, .. } = event else {
            return None;
        };
        if !self.sessions.contains_key(&caller.edge.child) {
            return None;
        }
        let mut queue = self.queue.iter_mut();
        queue.find(
            |waiting| matches!(&waiting.event, Event::Report { caller: of, .. } if of == caller),
        )
    }

    /// Removes and returns the event that has waited longest.
    pub(super) fn pop(&mut self) -> Option<Event> {
        let Waiting { event, .. } = self.queue.pop_front()?;
        self.replaced = 0;
        if let Some(caller) = caller(&event)
            && let Some(count) = self.sessions.get_mut(&caller.edge.child)
        {
            *count -= 1;
            if *count == 0 {
                self.sessions.remove(&caller.edge.child);
            }
        }
        Some(event)
    }

    /// Returns the reports that were added since the last call and still wait.
    pub(super) fn take_unrenewed(&mut self) -> impl Iterator<Item = (&Caller, &Report)> {
        let queue = self.queue.iter_mut();
        let unrenewed = queue.filter_map(|waiting| {
            let renewed = std::mem::replace(&mut waiting.renewed, true);
            (!renewed).then_some(&waiting.event)
        });
        unrenewed.filter_map(|event| match event {
            Event::Report { caller, report } => Some((caller, report)),
            _ => None,
        })
    }

    /// Returns true if no event waits.
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Returns the number of events that wait.
    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Returns true if more events may be read. Reports that replace others take time as well.
    pub(super) fn has_room(&self) -> bool {
        self.queue.len() + self.replaced < Self::EVENTS_MAX
    }
}

/// Returns the session whose order an event belongs to. Requests for names and decisions do not depend on reports.
const fn caller(event: &Event) -> Option<&Caller> {
    match event {
        Event::Report { caller, .. } | Event::Gone { caller } => Some(caller),
        _ => None,
    }
}

#[cfg(test)]
#[path = "../../tests/unit/node/waiting_reports.rs"]
mod tests;
