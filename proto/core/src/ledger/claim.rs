//! One child's claim on one budget, and the target set for it.

use crate::budget;
use crate::edge::{PackedVector, Vector, meets};
use crate::few::Few;
use crate::interner::Interner;
use crate::message::{AnswerLine, BandDemand, ReportLine, Tally, Terms};
use crate::planted::{self, Bug};
use crate::share::{Kind, Share};
use crate::unit::{Band, Number, PeriodId, Rate, Tick, Tokens, Weight};
use alloc::boxed::Box;
use alloc::sync::Arc;

/// Urgency of a plan after a line of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Urgency {
    /// Nothing changed.
    None,
    /// The plan can wait for its usual time.
    Changed,
    /// At once if another child lacks what was returned.
    Returned,
    /// At once if another child lacks what this one leaves. The parent's own parent is notified.
    Fell,
    /// At once: a request cannot be served.
    Asked,
}

/// Kind of a change of demand.
pub(crate) enum DemandChange {
    /// Demand begins or at least doubles: requests cannot be served before more is granted.
    Up,
    /// Demand ends or falls to half or less: others may use what was held for it.
    Down,
    /// A small change, or none.
    None,
}

impl DemandChange {
    pub(crate) const fn of(before: u64, after: u64) -> Self {
        if after > 0 && after >= before.saturating_mul(2) {
            return Self::Up;
        }
        match before > 0 && before >= after.saturating_mul(2) {
            true => Self::Down,
            false => Self::None,
        }
    }

    /// Compares what two demands take at one level: that at which the former callers would take what is `held` if
    /// their total was that of the latter.
    ///
    /// The same total may have moved among callers, or be that of more callers or fewer. If they then take a quarter
    /// more or less at the level at which all others are, what is held for them is not their share any more. At that
    /// level, ten callers that want one token each take ten times as much as one that wants ten.
    pub(crate) fn of_callers(before: &[BandDemand], after: &[BandDemand], held: u64) -> Self {
        let (mut was, mut is) = (0_u64, 0_u64);
        for band in after {
            let former = before.iter().find(|of| of.band == band.band);
            let Some(former) = former.map(|of| of.curve.with_total(band.curve.total())) else {
                continue;
            };
            let level = former.level_taking(held.saturating_sub(was));
            was = was.saturating_add(former.at(level));
            is = is.saturating_add(band.curve.at(level));
        }
        let quarter = was >> 2;
        match planted::is(Bug::MovesUnseen) {
            false if is > was.saturating_add(quarter) => Self::Up,
            false if is < was.saturating_sub(quarter) => Self::Down,
            _ => Self::None,
        }
    }
}

/// Returns true if a demand is little of the rate that is held for it, an eighth at most.
///
/// A fall of such a demand leaves others little more than they can have already: all but that eighth. For a
/// child that lacks more, some of the held rate is recalled, and what is returned is reported with the demand of that time. So a key
/// that is used once in a while costs no report of each step in which its estimate falls.
pub(crate) const fn is_little(demand: u64, held: Rate) -> bool {
    demand <= held.grains() >> 3
}

/// Returns the sum of the demand of all bands.
pub(crate) fn total(demand: &[BandDemand]) -> u64 {
    demand
        .iter()
        .fold(0_u64, |sum, band| sum.saturating_add(band.curve.total()))
}

/// One child's claim on one budget.
///
/// A target goes through these states. Only the child's echo starts the clock:
///
/// ```text
///  none ──recall──► wanted ──send──► sent ──echo──► heard(at) ──returned──► none
///                                                     │ patience over
///                                                     ▼
///                                                  overdue
/// ```
///
/// A claim is kept for every key of every session, so what few claims have is boxed.
#[derive(Clone, Debug, Default, Hash)]
pub struct Claim {
    /// Demand per band, highest first.
    demand: Few<BandDemand>,
    /// Counts of requests so far.
    pub tally: Tally,
    last_line: Option<LastLine>,
    rare: Option<Box<Rare>>,
    /// Weight with which the demand of each caller counts, whatever is reported. `None` if it counts as reported.
    weight: Option<Weight>,
    /// Its band in that case.
    band: Band,
    source: PeriodSource,
    /// Set once something of the budget was granted to the child by this parent itself.
    given: bool,
    /// Set once a report had a line of this budget.
    reported: bool,
}

/// Message or book that a claim's period is known from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum PeriodSource {
    /// The child's reports alone.
    #[default]
    Report,
    /// The book. A line of it that was sent to the child, if any was, is of another period.
    Book,
    /// The book, and the line that was last sent to the child.
    LastLine,
}

/// The line that was last sent to the child, without its target and its period.
///
/// Of what was given until then, it has two numbers instead of the vector of six. Within a period all six only grow, so
/// two lines with one sum were given the same.
#[derive(Clone, Debug, Hash)]
struct LastLine {
    /// The first answer that had it.
    first: Number,
    /// Sum of all components of what was given.
    sum: u64,
    /// The component of which the child uses a part, in grains: see [`used`].
    given: u64,
    terms: Arc<Terms>,
}

/// Returns the component of a vector that limits requests: the rate of a rate, tokens of a quota, permits.
const fn used(kind: Kind, vector: Vector) -> u64 {
    match kind {
        Kind::Rate => vector.rate.grains(),
        Kind::Quota => vector.tokens.grains(),
        Kind::Concurrency => vector.burst.grains(),
    }
}

/// Returns the sum of all components. Each is at most [`Vector::EXHAUSTED`], and two lines differ by far less, so a sum
/// that wraps around is as good as one that does not.
fn sum(given: Vector) -> u64 {
    given.to_array().into_iter().fold(0, u64::wrapping_add)
}

/// The parts of a claim that most claims do not have: those of which something was returned or asked back, and some
/// that are boxed once more.
///
/// These boxes come and go while claims stay. They are of another size than a [`Claim`], so that they leave no holes
/// among the claims, which an allocator has in blocks of their size.
#[derive(Clone, Debug, Default, PartialEq, Hash)]
struct Rare {
    /// The greatest `returned` that was reported.
    returned: PackedVector,
    /// The value that `returned` must reach.
    target: PackedVector,
    passing: Option<Box<Passing>>,
    recall: Option<Box<Recall>>,
}

/// The parts of a claim that are there for a short time, or if its budget is a quota or has floors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Hash)]
struct Passing {
    /// The requested floors.
    floor: Share,
    /// The largest cost of a waiting request, and the time since which one waits.
    waiting: Option<(Tick, Tokens)>,
    /// Time since which the held part differs from the planned one, or [`Tick::ZERO`].
    differs: Tick,
    /// Time at which the child last asked for a central decision, or [`Tick::ZERO`].
    asked: Tick,
    /// The period of what was returned: the book's, once the claim was compared with the book.
    period: PeriodId,
    /// [`PeriodRest::exhausted`](crate::message::PeriodRest::exhausted) in the line last sent to the child, if that
    /// had a rest. The rest itself runs down, and is not sent again for that.
    exhausted_sent: Option<bool>,
    /// Set if the child's part stays at the parent, which decides for it.
    central: bool,
}

/// A target on its way to the child, or one that the child has not met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Hash)]
struct Recall {
    /// The target in the line that was last sent to the child, if it is not the claim's.
    former: Option<Vector>,
    /// The first answer that carried a target which the child has not echoed yet.
    pending: Option<(Number, Vector)>,
    heard: Option<(Tick, Vector)>,
}

impl Passing {
    const NONE: Self = Self {
        floor: Share::EMPTY,
        waiting: None,
        differs: Tick::ZERO,
        asked: Tick::ZERO,
        period: PeriodId::new(0),
        exhausted_sent: None,
        central: false,
    };
}

/// Returns a time unless it is [`Tick::ZERO`].
fn known(time: Tick) -> Option<Tick> {
    (time > Tick::ZERO).then_some(time)
}

impl Recall {
    const NONE: Self = Self {
        former: None,
        pending: None,
        heard: None,
    };
}

impl Claim {
    /// Reads some of its fields, for [`fetch`](super::children::fetch).
    pub(crate) fn read_head(&self) -> u64 {
        let given = self.last_line.as_ref().map_or(0, |of| of.first.get());
        given ^ self.tally.admitted.grains() ^ u64::from(self.rare.is_some())
    }

    /// Reads some of the rare parts, for [`fetch`](super::children::fetch).
    pub(crate) fn read_rare(&self) -> u64 {
        let parts = self.returned().rate.grains() ^ self.target().rate.grains();
        let passing = self.passing();
        parts ^ passing.floor.rate.grains() ^ u64::from(passing.central) ^ total(&self.demand)
    }

    /// Returns the demand per band, highest first.
    #[must_use]
    pub fn demand(&self) -> &[BandDemand] {
        &self.demand
    }

    /// Returns the requested floors.
    #[must_use]
    pub fn floor(&self) -> Share {
        self.passing().floor
    }

    /// Returns the largest cost of a waiting request, and the time since which one waits.
    #[must_use]
    pub fn waiting(&self) -> Option<(Tick, Tokens)> {
        self.passing().waiting
    }

    /// Returns the time since which the held part differs from the planned one.
    pub(super) fn differs(&self) -> Option<Tick> {
        known(self.passing().differs)
    }

    /// Sets the time since which the held part differs from the planned one.
    pub(super) fn set_differs(&mut self, since: Option<Tick>) {
        if self.differs() != since {
            self.change_passing(|passing| passing.differs = since.unwrap_or_default());
        }
    }

    /// Returns the time at which the child last asked for a central decision.
    pub(super) fn asked(&self) -> Option<Tick> {
        known(self.passing().asked)
    }

    /// Records that the child asked for a central decision, or with `None` that it has not asked lately.
    pub(super) fn set_asked(&mut self, asked: Option<Tick>) {
        if self.asked() != asked {
            self.change_passing(|passing| passing.asked = asked.unwrap_or_default());
        }
    }

    /// Returns true if the child's part stays at the parent, which decides for it.
    pub(super) fn is_central(&self) -> bool {
        self.passing().central
    }

    /// Sets whether the child's part stays at the parent. Returns true if that changed.
    pub(super) fn set_central(&mut self, central: bool) -> bool {
        let changed = self.is_central() != central;
        if changed {
            self.change_passing(|passing| passing.central = central);
        }
        changed
    }

    /// Returns the period of what was returned: the book's, once the claim was compared with the book.
    #[must_use]
    pub fn period(&self) -> PeriodId {
        self.passing().period
    }

    fn set_period(&mut self, period: PeriodId) {
        if period != self.period() {
            self.change_passing(|passing| passing.period = period);
        }
    }

    fn exhausted_sent(&self) -> Option<bool> {
        self.passing().exhausted_sent
    }

    /// Returns the greatest total that was reported as returned.
    #[must_use]
    pub fn returned(&self) -> Vector {
        let rare = self.rare.as_deref();
        rare.map_or(Vector::ZERO, |rare| rare.returned.get())
    }

    /// Returns the total that must be returned.
    #[must_use]
    pub fn target(&self) -> Vector {
        let rare = self.rare.as_deref();
        rare.map_or(Vector::ZERO, |rare| rare.target.get())
    }

    fn passing(&self) -> &Passing {
        let passing = self
            .rare
            .as_deref()
            .and_then(|rare| rare.passing.as_deref());
        passing.unwrap_or(&Passing::NONE)
    }

    fn recall(&self) -> &Recall {
        let recall = self.rare.as_deref().and_then(|rare| rare.recall.as_deref());
        recall.unwrap_or(&Recall::NONE)
    }

    /// Returns the target in the line that was last sent to the child.
    fn sent_target(&self) -> Vector {
        self.recall().former.unwrap_or(self.target())
    }

    /// Changes the rare parts. They are dropped once they are empty.
    fn change(&mut self, change: impl FnOnce(&mut Rare)) {
        let mut rare = self.rare.take().unwrap_or_default();
        change(&mut rare);
        self.rare = (*rare != Rare::default()).then_some(rare);
    }

    fn change_passing(&mut self, change: impl FnOnce(&mut Passing)) {
        self.change(|rare| {
            let mut passing = rare.passing.take().unwrap_or_default();
            change(&mut passing);
            rare.passing = (*passing != Passing::NONE).then_some(passing);
        });
    }

    fn change_recall(&mut self, change: impl FnOnce(&mut Recall)) {
        self.change(|rare| {
            let mut recall = rare.recall.take().unwrap_or_default();
            change(&mut recall);
            rare.recall = (*recall != Recall::NONE).then_some(recall);
        });
    }

    fn set_returned(&mut self, returned: Vector) {
        self.change(|rare| rare.returned = returned.into());
    }

    /// Sets the target, and the one in the line that was last sent to the child.
    fn set_targets(&mut self, target: Vector, sent: Vector) {
        self.change(|rare| rare.target = target.into());
        self.change_recall(|recall| recall.former = (sent != target).then_some(sent));
    }

    /// Returns the claim with which the demand of each caller counts, whatever is reported. `None` if it counts as
    /// reported.
    pub(super) fn rule(&self) -> Option<budget::Claim> {
        let band = self.band;
        self.weight.map(|weight| budget::Claim { weight, band })
    }

    /// Sets that claim.
    pub(super) fn set_rule(&mut self, rule: Option<budget::Claim>) {
        self.weight = rule.map(|rule| rule.weight);
        self.band = rule.map(|rule| rule.band).unwrap_or_default();
    }

    /// Takes a line of a report. Returns how urgently the budget must be planned.
    pub(super) fn take(&mut self, line: &ReportLine, now: Tick) -> Urgency {
        self.reported = true;
        self.tally = self.tally.merge(line.tally);
        let claimed = self
            .rule()
            .map(|rule| BandDemand::claimed(&line.demand, Weight::ONE, rule));
        let demand = claimed
            .as_ref()
            .map_or(line.demand.as_slice(), Option::as_slice);
        let used = self.take_returned(line);
        let (waited, floor) = (self.waiting(), self.floor());
        let mut changed = *self.demand != *demand;
        let mut asked = line.largest_wait > waited.map_or(Tokens::ZERO, |(_, cost)| cost);
        asked |= self.runs_out(used.spent);
        let mut fell = false;
        if changed {
            let (was, sum) = (total(&self.demand), total(demand));
            let moved = DemandChange::of_callers(&self.demand, demand, self.kept_rate().grains());
            for change in [DemandChange::of(was, sum), moved] {
                match change {
                    DemandChange::Up => asked |= !self.serves(sum),
                    DemandChange::Down => fell |= !self.has_much_for(was),
                    DemandChange::None => {}
                }
            }
            self.demand = demand.into();
        }
        let waiting = match waited {
            _ if line.largest_wait.is_zero() => None,
            Some((since, _)) => Some((since, line.largest_wait)),
            None => Some((now, line.largest_wait)),
        };
        if floor != line.floor || waited != waiting {
            changed = true;
            self.change_passing(|passing| (passing.floor, passing.waiting) = (line.floor, waiting));
        }
        match used.is_zero() {
            _ if asked => Urgency::Asked,
            _ if fell => Urgency::Fell,
            false => Urgency::Returned,
            true if changed => Urgency::Changed,
            true => Urgency::None,
        }
    }

    /// Takes the returned total of a report's line. Returns what is new of it.
    fn take_returned(&mut self, line: &ReportLine) -> Vector {
        let mut before = self.returned();
        // Only the parent's book begins periods: a child that reports a later one would get rid of its
        // targets. Before the claim was compared with the book it has no targets. The line is taken then,
        // since it may not be repeated.
        if self.source == PeriodSource::Report && line.period > self.period() {
            self.set_period(line.period);
            self.set_returned(Vector::ZERO);
            before = Vector::ZERO;
        }
        if line.period != self.period() {
            return Vector::ZERO;
        }
        let returned = before.merge(line.returned);
        if returned != before {
            self.set_returned(returned);
        }
        returned.ahead_of(before)
    }

    /// Returns true if what is left of a quota's part may not last until the next report: it is at most what was used
    /// since the last one. The next part is then needed at once, since callers may wait for less time than until
    /// usual reports.
    fn runs_out(&self, used: Tokens) -> bool {
        let left = |(kind, kept): (Kind, u64)| kind == Kind::Quota && kept <= used.grains();
        !used.is_zero() && !planted::is(Bug::RunningOutUnsaid) && self.kept().is_some_and(left)
    }

    /// Returns true if the part in the line last sent to the child, less its target, is enough for a demand.
    fn serves(&self, demand: u64) -> bool {
        self.kept().is_some_and(|(_, kept)| kept >= demand)
    }

    /// Returns true if that part is not enough for the demand.
    pub(super) fn lacks(&self) -> bool {
        let demand = total(&self.demand);
        demand > 0 && !self.serves(demand)
    }

    /// Returns true if a demand is little of that part, which is of a rate.
    fn has_much_for(&self, demand: u64) -> bool {
        is_little(demand, self.kept_rate())
    }

    /// Returns that part of a rate, and nothing of any other budget.
    fn kept_rate(&self) -> Rate {
        let rate = |(kind, kept): (Kind, u64)| (kind == Kind::Rate).then_some(kept);
        Rate::from_grains(self.kept().and_then(rate).unwrap_or(0))
    }

    /// Returns the part in the line last sent to the child, in grains of what limits requests, less what is spent and its
    /// target, unless it is of another period.
    fn kept(&self) -> Option<(Kind, u64)> {
        let last_line = self
            .last_line
            .as_ref()
            .filter(|_| self.source == PeriodSource::LastLine)?;
        let mut gone = self.returned();
        gone.tokens = gone.tokens.plus(gone.spent).unwrap_or(Tokens::MAX);
        let (kind, back) = (last_line.terms.kind, gone.merge(self.target()));
        Some((kind, last_line.given.saturating_sub(used(kind, back))))
    }

    /// Counts the demand with `rule` from now on. Returns true if the demand changed by that.
    pub(super) fn reweigh(&mut self, rule: budget::Claim) -> bool {
        let former = self.weight.unwrap_or(Weight::ONE);
        self.set_rule(Some(rule));
        let demand = BandDemand::claimed(&self.demand, former, rule);
        let changed = *self.demand != *demand.as_slice();
        self.demand = demand.as_slice().into();
        changed
    }

    /// Returns true if nothing is wanted, granted or answered: the parent does not know the budget.
    pub(super) fn is_over(&self) -> bool {
        let passing = self.passing();
        let wants =
            !self.demand.is_empty() || !passing.floor.is_empty() || passing.waiting.is_some();
        let is_moved = !self.returned().is_zero() || !self.target().is_zero();
        !wants && !self.given && self.last_line.is_none() && !is_moved
    }

    /// Records that something was granted to the child. Returns true if nothing was before.
    pub(super) const fn note_given(&mut self) -> bool {
        !core::mem::replace(&mut self.given, true)
    }

    /// Returns true if something was ever granted to the child.
    pub(super) const fn is_given(&self) -> bool {
        self.given
    }

    /// Returns true if a report ever had a line of this budget. Before that, the demand is unknown.
    pub(super) const fn is_reported(&self) -> bool {
        self.reported
    }

    /// Begins the book's period, if it is another one. Returns and targets of the former period are void.
    pub(super) fn begin(&mut self, period: PeriodId) {
        if period == self.period() {
            self.source = self.source.max(PeriodSource::Book);
            return;
        }
        self.source = PeriodSource::Book;
        self.set_period(period);
        if !planted::is(Bug::ReturnCrossesStamps) {
            self.set_returned(Vector::ZERO);
        }
        self.set_targets(Vector::ZERO, self.sent_target());
        self.change_recall(|recall| (recall.heard, recall.pending) = (None, None));
    }

    /// Raises the target.
    pub(super) fn raise_target(&mut self, target: Vector) {
        self.set_targets(self.target().merge(target), self.sent_target());
    }

    /// Follows the child's echo. A target that the child has received starts the clock, and its return stops
    /// the clock. A target that was raised meanwhile does not stop the clock of the former one.
    pub(super) fn echo(&mut self, heard: Number, now: Tick) {
        if self.is_watched() {
            let last_line = self.last_line.as_ref().map(|last_line| last_line.first);
            let (returned, sent) = (self.returned(), self.sent_target());
            self.change_recall(|recall| {
                recall.echo(returned, last_line.zip(Some(sent)), heard, now)
            });
        }
    }

    /// Returns true if the echo matters: a target was sent and, as far as is known, not met.
    pub(super) fn is_watched(&self) -> bool {
        let recall = self.recall();
        recall.pending.is_some() || recall.heard.is_some()
    }

    /// Returns the time at which the child echoed a target that it has not met.
    pub(super) fn heard_at(&self) -> Option<Tick> {
        self.recall().heard.map(|(at, _)| at)
    }

    /// Adds to a line of the book what only the claim knows: the target, and central mode of this child.
    pub(super) fn complete(&self, line: &mut AnswerLine) {
        line.target = self.target();
        line.terms.central_mode |= self.is_central();
    }

    /// Returns true if something is wanted back.
    pub(super) fn has_target(&self) -> bool {
        !meets(self.returned(), self.target())
    }

    /// Returns the first answer with `line`, if no later line was sent to the child.
    fn first_with(&self, line: &AnswerLine) -> Option<Number> {
        let last_line = self.last_line.as_ref()?;
        let alike = self.source == PeriodSource::LastLine
            && self.period() == line.period
            && self.exhausted_sent() == line.rest.map(|rest| rest.exhausted)
            && last_line.sum == sum(line.given)
            && self.sent_target() == line.target
            && *last_line.terms == line.terms;
        alike.then_some(last_line.first)
    }

    /// Returns true if the child, having echoed answer `heard`, knows `line`.
    pub(super) fn knows(&self, heard: Number, line: &AnswerLine) -> bool {
        self.first_with(line).is_some_and(|first| heard >= first)
    }

    /// Returns true if the child, having echoed answer `heard`, must be sent `line` in answer `number`.
    /// Remembers that it was sent, with terms shared by `terms`.
    pub(super) fn must_send(
        &mut self,
        number: Number,
        heard: Number,
        line: &AnswerLine,
        terms: &mut Interner<Terms>,
    ) -> bool {
        if let Some(first) = self.first_with(line) {
            return heard < first;
        }
        debug_assert_eq!(
            self.period(),
            line.period,
            "the claim begins a period before its line"
        );
        self.source = PeriodSource::LastLine;
        self.last_line = Some(LastLine {
            first: number,
            sum: sum(line.given),
            given: used(line.terms.kind, line.given),
            terms: terms.share(&line.terms),
        });
        let exhausted = line.rest.map(|rest| rest.exhausted);
        if self.exhausted_sent() != exhausted {
            self.change_passing(|passing| passing.exhausted_sent = exhausted);
        }
        let target = self.target();
        if self.sent_target() != line.target {
            self.set_targets(target, line.target);
        }
        if self.recall().pending.is_none() && self.has_target() {
            self.change_recall(|recall| recall.pending = Some((number, target)));
        }
        true
    }
}

impl Recall {
    /// Follows the echo of answer `heard` by a child whose returned total is `returned`. `last` is the first answer with
    /// the line that was last sent to the child, and the target in it.
    fn echo(&mut self, returned: Vector, last: Option<(Number, Vector)>, heard: Number, now: Tick) {
        if self
            .heard
            .is_some_and(|(_, target)| meets(returned, target))
        {
            self.heard = None;
        }
        let Some((number, asked_target)) = self.pending else {
            return;
        };
        if self.heard.is_some() || heard < number {
            return;
        }
        if !meets(returned, asked_target) {
            self.heard = Some((now, asked_target));
        }
        self.pending = last.filter(|(_, sent)| !meets(asked_target.merge(returned), *sent));
    }
}

#[cfg(test)]
#[path = "../../tests/unit/ledger/claim.rs"]
mod tests;
