//! One child of a parent, as the parent hears it.

use super::ReportError;
use super::agenda::Agenda;
use super::claim::{Claim, News};
use crate::budget;
use crate::message::{AnswerLine, Heard, Intent, Report};
use crate::planted::{self, Bug};
use crate::unit::{BudgetId, Edge, Number, Seq, Span, Term, Tick};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// What a parent knows of one child.
#[derive(Clone, Debug, Hash)]
pub struct Child {
    edge: Edge,
    opened: Tick,
    seq: Seq,
    received: Tick,
    heard: Number,
    seen: Number,
    number: Number,
    sent: BTreeMap<Number, Tick>,
    wall_ms: i64,
    intent: Intent,
    muted: bool,
    /// A plan was made without it, because it was silent.
    skipped: bool,
    /// Its claims, by budget.
    pub claims: BTreeMap<BudgetId, Claim>,
    /// Whether its last report was whole: then what it did not speak of is not wanted.
    whole: bool,
    /// The claims that an answer may have something to say of: those that somebody
    /// [told](Child::tell) of, and those whose line was not echoed yet, or is wanted back.
    telling: BTreeSet<BudgetId>,
    /// The claims whose targets were told and not met: all that [`Claim::is_watched`], and perhaps more.
    watched: BTreeSet<BudgetId>,
}

impl Child {
    /// So many sendings of answers are remembered for the echo.
    const REMEMBERED: usize = 128;

    /// They are so far apart, whatever was sent between two of them: together
    /// longer than any echo takes that still counts, in little memory.
    const APART: Span = Span::from_millis(100);

    /// So many claims of a child are kept, whatever it reports from one whole
    /// report to the next: as many as a message has lines.
    pub const CLAIMS_MAX: usize = 16_384;

    pub(super) fn new(edge: Edge, now: Tick) -> Self {
        Self {
            edge,
            opened: now,
            seq: Seq::new(0),
            received: now,
            heard: Number::new(0),
            seen: Number::new(0),
            number: Number::new(0),
            sent: BTreeMap::new(),
            wall_ms: 0,
            intent: Intent::Stay,
            muted: false,
            skipped: false,
            claims: BTreeMap::new(),
            whole: true,
            telling: BTreeSet::new(),
            watched: BTreeSet::new(),
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
        rules: impl Fn(BudgetId) -> Option<budget::Claim>,
        agenda: &mut Agenda,
    ) -> Result<(), ReportError> {
        if report.seq <= self.seq {
            return Err(ReportError::Stale);
        }
        // Who takes another life's report for a child's own does not ask for its basis either.
        let asks = !planted::is(Bug::BasisNotAsked) && !planted::is(Bug::ReportNotFenced);
        if asks && report.basis > self.seq {
            return Err(ReportError::Unfounded);
        }
        self.seq = report.seq;
        self.received = now;
        self.wall_ms = report.wall_ms;
        if report.intent != self.intent {
            self.intent = report.intent;
            agenda.touch_all(self.claims.keys());
            agenda.spoken.extend(self.claims.keys());
        }
        // An echo of a number that was never sent is no echo.
        let sent = |echo: Heard| echo.term == term && echo.number <= self.number;
        if sent(report.heard) {
            self.heard = self.heard.max(report.heard.number);
        }
        if sent(report.seen) {
            self.seen = self.seen.max(report.seen.number);
        }
        self.whole = report.is_whole();
        let spoken = self.take_lines(now, report, rules, agenda);
        // Mostly every claim was spoken of, and there is none left to look for.
        if self.whole && spoken < self.claims.len() {
            self.fall_silent(agenda);
        }
        let claims = &mut self.claims;
        self.watched.retain(|budget| {
            let claim = claims.get_mut(budget);
            claim.is_some_and(|claim| {
                claim.echo(self.heard, now);
                claim.is_watched()
            })
        });
        if core::mem::take(&mut self.skipped) {
            agenda.touch_all(self.claims.keys());
        }
        Ok(())
    }

    /// Takes what a report says. Of how many budgets that is.
    fn take_lines(
        &mut self,
        now: Tick,
        report: &Report,
        rules: impl Fn(BudgetId) -> Option<budget::Claim>,
        agenda: &mut Agenda,
    ) -> usize {
        let (id, mut spoken) = (self.edge.child, 0_usize);
        for line in &report.lines {
            let full = self.claims.len() >= Self::CLAIMS_MAX;
            if full && !self.claims.contains_key(&line.budget) {
                continue;
            }
            let claim = self.claims.entry(line.budget).or_insert_with(|| {
                agenda.claims(line.budget, id);
                self.telling.insert(line.budget);
                Claim::default()
            });
            if claim.reported != report.seq {
                spoken = spoken.saturating_add(1);
            }
            agenda.speak(line.budget, claim);
            claim.rule = claim.rule.or_else(|| rules(line.budget));
            debug_assert!(
                rules(line.budget).is_none_or(|rule| claim.rule == Some(rule)),
                "a rule changed of which nobody told"
            );
            let before = (claim.period, claim.returned);
            let news = claim.take(line, report.seq, now);
            let returns = (claim.period, claim.returned) != before;
            if returns || planted::is(Bug::ReturnCrossesStamps) {
                agenda.returned.insert(line.budget);
            }
            match news {
                News::None => {}
                News::Changed => agenda.touch(line.budget),
                News::Returned => agenda.came_back(line.budget),
                News::Fell => agenda.fell(line.budget),
                News::Asked => agenda.ask(line.budget),
            }
            // Where absence says nothing, a line has to say that nothing is wanted.
            if !self.whole && line.asks_nothing() && claim.is_over() {
                self.claims.remove(&line.budget);
                agenda.touch(line.budget);
                agenda.claims_no_longer(line.budget, id);
            }
        }
        spoken
    }

    /// Of claims that a whole report does not speak of nothing is wanted any more.
    fn fall_silent(&mut self, agenda: &mut Agenda) {
        let (id, seq) = (self.edge.child, self.seq);
        // Budgets that nobody knows leave nothing behind.
        self.claims.retain(|&budget, claim| {
            let (silent, forgotten) = (claim.fall_silent(seq), claim.is_forgotten(seq));
            if silent || forgotten {
                agenda.touch(budget);
                agenda.spoken.insert(budget);
            }
            if forgotten {
                agenda.claims_no_longer(budget, id);
            }
            !forgotten
        });
    }

    /// The next answer looks at this budget.
    pub(super) fn tell(&mut self, budget: BudgetId) {
        self.telling.insert(budget);
    }

    /// It echoed an answer sent less than `lease` ago, or is younger than that.
    pub(super) fn hears(&self, now: Tick, lease: Span) -> bool {
        // Of an answer between two that are remembered, the earlier one's time is taken.
        let echoed = self.sent.range(..=self.seen).next_back();
        now.since(self.opened) < lease || echoed.is_some_and(|(_, &sent)| now.since(sent) < lease)
    }

    pub(super) fn is_overdue(&self, now: Tick, patience: impl Fn(BudgetId) -> Span) -> bool {
        self.watched.iter().any(|&budget| {
            let heard = self.claims.get(&budget).and_then(Claim::heard_at);
            heard.is_some_and(|at| now.since(at) >= patience(budget))
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
        let telling = core::mem::take(&mut self.telling);
        let mut lines = Lines::default();
        for budget in telling {
            if let Some(claim) = self.claims.get_mut(&budget) {
                lines.look(budget, claim, (number, self.heard), books);
            }
        }
        self.telling = lines.telling;
        self.watched.extend(lines.watched);
        debug_assert!(
            planted::any() || self.knows_the_rest(books),
            "the book says something new of which nobody told"
        );
        lines.urgent.append(&mut lines.rest);
        lines.urgent
    }

    /// Whether the child knows the line of every claim that is not to be told.
    fn knows_the_rest(&self, books: &impl Fn(BudgetId) -> Option<AnswerLine>) -> bool {
        let rest = |budget: &BudgetId| !self.telling.contains(budget);
        let mut claims = self.claims.iter().filter(|(budget, _)| rest(budget));
        claims.all(|(&budget, claim)| {
            books(budget).is_none_or(|mut line| {
                line.target = claim.target;
                claim.knows(self.heard, &line)
            })
        })
    }
}

/// The lines of an answer in the making.
#[derive(Default)]
struct Lines {
    urgent: Vec<AnswerLine>,
    rest: Vec<AnswerLine>,
    telling: BTreeSet<BudgetId>,
    watched: Vec<BudgetId>,
}

impl Lines {
    /// Says what the child, having heard the latter answer, must be told in the former.
    fn look(
        &mut self,
        budget: BudgetId,
        claim: &mut Claim,
        (number, heard): (Number, Number),
        books: &impl Fn(BudgetId) -> Option<AnswerLine>,
    ) {
        let Some(mut line) = books(budget) else {
            return;
        };
        claim.begin(line.period);
        line.target = claim.target;
        if !claim.must_say(number, heard, &line) {
            return;
        }
        if !planted::is(Bug::ToldOnce) {
            self.telling.insert(budget);
        }
        if claim.is_watched() {
            self.watched.push(budget);
        }
        match claim.has_target() {
            true => self.urgent.push(line),
            false => self.rest.push(line),
        }
    }
}
