//! The events of a run, as a tracer gets them.

use super::Observer;
use crate::hosts::Hosts;
use crate::trace::{TraceEvent, Traced};

impl Observer {
    /// Shows an event to the tracer, as text.
    pub(crate) fn show(
        &mut self,
        now: u64,
        kind: &'static str,
        host: Option<usize>,
        text: impl FnOnce() -> String,
    ) {
        if self.is_traced() {
            self.record(now, kind, (host, None), &text());
        }
    }

    /// Shows an event at a host to the tracer, with the sender if it is a message.
    pub(crate) fn record(
        &mut self,
        now: u64,
        kind: &'static str,
        (host, from): (Option<usize>, Option<usize>),
        what: &dyn Traced,
    ) {
        if let Some(tracer) = &mut self.tracer {
            tracer.record(&event(&self.hosts, now, kind, (host, from), what));
        }
    }

    /// Shows the tracer an admission by a node, which is in the message that the node sends.
    pub(crate) fn note_admitted(
        &mut self,
        now: u64,
        (host, node): (Option<usize>, usize),
        text: impl FnOnce() -> String,
    ) {
        if let Some(tracer) = &mut self.tracer {
            let hosts = (host, Some(node));
            tracer.note(&event(&self.hosts, now, "admitted", hosts, &text()));
        }
    }
}

fn event<'a>(
    hosts: &'a Hosts,
    at: u64,
    kind: &'static str,
    (host, from): (Option<usize>, Option<usize>),
    what: &'a dyn Traced,
) -> TraceEvent<'a> {
    let label = |host: Option<usize>| host.map_or("", |host| hosts.label(host));
    TraceEvent {
        at,
        kind,
        host: label(host),
        from: label(from),
        what,
    }
}
