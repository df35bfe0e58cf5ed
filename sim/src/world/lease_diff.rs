//! Compares a client's lease before and after an answer, and counts marks.

use super::host::Service;
use crate::mark::{Mark, Marks};
use aliquot_core::message::Answer;
use aliquot_core::unit::{Edge, Span, Tick};

/// A client's lease before an answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct LeaseBefore {
    edge: Option<Edge>,
    leased: bool,
    had: bool,
    until: Tick,
}

impl LeaseBefore {
    const LATE: Span = Span::from_millis(250);

    pub(super) fn of(service: &Service, now: Tick) -> Self {
        let until = |service: &Service| Some(service.client.holder()?.lease().until());
        Self {
            edge: service.client.edge(),
            leased: service.client.is_leased(now),
            had: service.lapsed == service.client.edge() && service.lapsed.is_some(),
            until: until(service).unwrap_or(now),
        }
    }

    /// Counts marks of what the answer changed.
    pub(super) fn compare(
        self,
        service: &mut Service,
        answer: &Answer,
        now: Tick,
        marks: &mut Marks,
    ) {
        let leased = service.client.is_leased(now);
        let stale = |&(edge, number): &(Edge, _)| edge == answer.edge && answer.number <= number;
        if service.answered.as_ref().is_some_and(stale) {
            marks.hit(Mark::AnswerStale);
        } else {
            service.answered = Some((answer.edge, answer.number));
        }
        if answer.lease.is_zero() || self.edge != Some(answer.edge) {
            return;
        }
        marks.hit_if(!leased, Mark::AnswerTooLate);
        marks.hit_if(!self.leased && leased, Mark::LeaseBegan);
        marks.hit_if(!self.leased && leased && self.had, Mark::LeaseBeganAgain);
        if let (true, Some(holder)) = (self.leased, service.client.holder()) {
            let renewed = holder.lease().until() > self.until;
            let late = self.until.since(now) < Self::LATE;
            marks.hit_if(renewed && late, Mark::LeaseRenewedLate);
            let asks = |line: &aliquot_core::message::AnswerLine| {
                let counters = holder.counters().find(|(budget, _)| *budget == line.budget);
                counters.is_some_and(|(_, counters)| !counters.returned.covers(line.target))
            };
            marks.hit_if(answer.lines.iter().any(asks), Mark::Recalled);
        }
    }
}
