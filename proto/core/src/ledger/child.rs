//! One child of a parent, as the parent hears it.

use super::ReportError;
use super::agenda::Agenda;
use super::claim::{Claim, News};
use crate::message::{AnswerLine, Intent, Report};
use crate::unit::{BudgetId, Edge, Number, Seq, Span, Term, Tick};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// What a parent knows of one child.
#[derive(Clone, Debug)]
pub struct Child {
    edge: Edge,
    opened: Tick,
    seq: Seq,
    received: Tick,
    heard: Number,
    number: Number,
    sent: BTreeMap<Number, Tick>,
    wall_ms: i64,
    intent: Intent,
    muted: bool,
    /// A plan was made without it, because it was silent.
    skipped: bool,
    /// Its claims, by budget.
    pub claims: BTreeMap<BudgetId, Claim>,
}

impl Child {
    /// So many sendings of answers are remembered for the echo.
    const REMEMBERED: usize = 128;

    /// They are so far apart, whatever was sent between two of them: together
    /// longer than any echo takes that still counts, in little memory.
    const APART: Span = Span::from_millis(100);

    pub(super) fn new(edge: Edge, now: Tick) -> Self {
        Self {
            edge,
            opened: now,
            seq: Seq::new(0),
            received: now,
            heard: Number::new(0),
            number: Number::new(0),
            sent: BTreeMap::new(),
            wall_ms: 0,
            intent: Intent::Stay,
            muted: false,
            skipped: false,
            claims: BTreeMap::new(),
        }
    }

    /// The pair of lives.
    #[must_use]
    pub const fn edge(&self) -> Edge {
        self.edge
    }

    /// The greatest report taken.
    #[must_use]
    pub const fn seq(&self) -> Seq {
        self.seq
    }

    /// When that report arrived.
    #[must_use]
    pub const fn received(&self) -> Tick {
        self.received
    }

    /// The wall clock of that report, in milliseconds since the Unix epoch.
    #[must_use]
    pub const fn wall_ms(&self) -> i64 {
        self.wall_ms
    }

    /// Whether it is leaving.
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        self.intent == Intent::Leave
    }

    /// Whether it gets nothing more: what it holds stays booked until it is reclaimed.
    #[must_use]
    pub const fn is_muted(&self) -> bool {
        self.muted
    }

    /// Whether no report tells what it wants now: nothing was heard of it in
    /// this ledger, or for too long.
    pub(super) fn is_silent(&self, now: Tick, silence: Span) -> bool {
        self.seq == Seq::new(0) || now.since(self.received) > silence
    }

    pub(super) const fn skip(&mut self) {
        self.skipped = true;
    }

    pub(super) fn mute(&mut self) {
        self.muted = true;
    }

    pub(super) fn budgets(&self) -> impl Iterator<Item = BudgetId> {
        self.claims.keys().copied()
    }

    pub(super) fn take(
        &mut self,
        now: Tick,
        term: Term,
        report: &Report,
        agenda: &mut Agenda,
    ) -> Result<(), ReportError> {
        if report.seq <= self.seq {
            return Err(ReportError::Stale);
        }
        self.seq = report.seq;
        self.received = now;
        self.wall_ms = report.wall_ms;
        if report.intent != self.intent {
            self.intent = report.intent;
            agenda.touch_all(self.claims.keys());
        }
        // An echo of a number that was never sent is no echo.
        if report.heard.term == term && report.heard.number <= self.number {
            self.heard = self.heard.max(report.heard.number);
        }
        let mut said = 0_usize;
        for line in &report.lines {
            let claim = self.claims.entry(line.budget).or_insert_with(|| {
                agenda.claims(line.budget, report.edge.child);
                Claim::default()
            });
            if claim.reported != report.seq {
                said = said.saturating_add(1);
            }
            match claim.take(line, report.seq, now) {
                News::None => {}
                News::Changed => agenda.touch(line.budget),
                News::Returned => agenda.hurry(line.budget),
                News::Asked => agenda.ask(line.budget),
            }
            claim.echo(self.heard, now);
        }
        // Mostly every claim was spoken of, and there is none left to look for.
        if said < self.claims.len() {
            for (&budget, claim) in &mut self.claims {
                if claim.fall_silent(report.seq) {
                    agenda.touch(budget);
                }
                claim.echo(self.heard, now);
            }
            // Budgets that nobody knows leave nothing behind.
            self.claims.retain(|&budget, claim| {
                let forgotten = claim.is_forgotten(report.seq);
                if forgotten {
                    agenda.touch(budget);
                    agenda.claims_no_longer(budget, report.edge.child);
                }
                !forgotten
            });
        }
        if core::mem::take(&mut self.skipped) {
            agenda.touch_all(self.claims.keys());
        }
        Ok(())
    }

    /// It echoed an answer sent less than `lease` ago, or is younger than that.
    pub(super) fn hears(&self, now: Tick, lease: Span) -> bool {
        // Of an answer between two that are remembered, the earlier one's time is taken.
        let echoed = self.sent.range(..=self.heard).next_back();
        now.since(self.opened) < lease || echoed.is_some_and(|(_, &sent)| now.since(sent) < lease)
    }

    pub(super) fn is_overdue(&self, now: Tick, patience: impl Fn(BudgetId) -> Span) -> bool {
        self.claims.iter().any(|(&budget, claim)| {
            claim
                .heard_at()
                .is_some_and(|at| now.since(at) >= patience(budget))
        })
    }

    pub(super) fn next_answer(&mut self, now: Tick) -> Option<Number> {
        self.number = self.number.next()?;
        let last = self.sent.last_key_value();
        if last.is_none_or(|(_, &sent)| now.since(sent) >= Self::APART) {
            self.sent.insert(self.number, now);
            while self.sent.len() > Self::REMEMBERED {
                self.sent.pop_first();
            }
        }
        Some(self.number)
    }

    /// The lines of answer `number`: what the child does not know, targets first.
    pub(super) fn lines(
        &mut self,
        number: Number,
        books: &impl Fn(BudgetId) -> Option<AnswerLine>,
    ) -> Vec<AnswerLine> {
        let heard = self.heard;
        let (mut urgent, mut rest) = (Vec::new(), Vec::new());
        for (&budget, claim) in &mut self.claims {
            let Some(mut line) = books(budget) else {
                continue;
            };
            claim.begin(line.period);
            line.target = claim.target;
            if claim.must_say(number, heard, &line) {
                if claim.has_target() {
                    urgent.push(line);
                } else {
                    rest.push(line);
                }
            }
        }
        urgent.append(&mut rest);
        urgent
    }
}
