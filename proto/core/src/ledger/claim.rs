//! One child's claim on one budget, and the target set for it.

use crate::budget;
use crate::edge::{Vector, meets};
use crate::message::{AnswerLine, BandDemand, ReportLine, Tally};
use crate::planted::{self, Bug};
use crate::share::{Kind, Share};
use crate::unit::{Number, PeriodId, Tick, Tokens};
use alloc::vec::Vec;

/// Urgency of a plan after a line of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum News {
    /// Nothing changed.
    None,
    /// The plan can wait for its usual time.
    Changed,
    /// At once if another child lacks what was returned.
    Returned,
    /// At once if another child lacks what this one leaves. The parent's own parent is told.
    Fell,
    /// At once: a request cannot be served.
    Asked,
}

/// Kind of a change of demand.
pub(crate) enum Leap {
    /// Demand begins or at least doubles: requests cannot be served before more is granted.
    Up,
    /// Demand ends or falls to half or less: others may use what was held for it.
    Down,
    /// A small change, or none.
    None,
}

impl Leap {
    pub(crate) const fn of(before: u64, after: u64) -> Self {
        if after > 0 && after >= before.saturating_mul(2) {
            return Self::Up;
        }
        match before > 0 && before >= after.saturating_mul(2) {
            true => Self::Down,
            false => Self::None,
        }
    }
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
///  none ──recall──► wanted ──told──► told ──echo──► heard(at) ──returned──► none
///                                                     │ patience over
///                                                     ▼
///                                                  overdue
/// ```
#[derive(Clone, Debug, Default, Hash)]
pub struct Claim {
    /// Demand per band, highest first.
    pub demand: Vec<BandDemand>,
    /// The requested floors.
    pub floor: Share,
    /// The largest cost of a waiting request, and the time since which one waits.
    pub waiting: Option<(Tick, Tokens)>,
    /// Counts of requests so far.
    pub tally: Tally,
    /// The period of `returned`: the book's, once the claim was compared with the book.
    pub period: PeriodId,
    begun: bool,
    /// The greatest `returned` that was reported.
    pub returned: Vector,
    /// The value that `returned` must reach.
    pub target: Vector,
    /// Time since which the held part differs from the planned one.
    pub differs: Option<Tick>,
    /// Set once a report had a line of this budget.
    reported: bool,
    /// Claim with which the demand counts, whatever is reported. `None` if it counts as reported.
    pub(super) rule: Option<budget::Claim>,
    /// The agenda's round in which the claim was last reported.
    pub(super) spoken: u64,
    said: Option<(Number, AnswerLine)>,
    /// The first answer that carried a target which the child has not echoed yet.
    pending: Option<(Number, Vector)>,
    heard: Option<(Tick, Vector)>,
}

impl Claim {
    /// Takes a line of a report. Returns how urgently the budget must be planned.
    pub(super) fn take(&mut self, line: &ReportLine, now: Tick) -> News {
        self.reported = true;
        self.tally = self.tally.merge(line.tally);
        let claimed = self
            .rule
            .map(|rule| BandDemand::claimed(&line.demand, rule));
        let demand = claimed
            .as_ref()
            .map_or(line.demand.as_slice(), Option::as_slice);
        let mut changed = self.demand != demand;
        let mut asked = line.largest_wait > self.waiting.map_or(Tokens::ZERO, |(_, cost)| cost);
        let mut fell = false;
        if changed {
            let sum = total(demand);
            match Leap::of(total(&self.demand), sum) {
                Leap::Up => asked |= !self.serves(sum),
                Leap::Down => fell = true,
                Leap::None => {}
            }
            self.demand.clear();
            self.demand.extend_from_slice(demand);
        }
        let waiting = match self.waiting {
            _ if line.largest_wait.is_zero() => None,
            Some((since, _)) => Some((since, line.largest_wait)),
            None => Some((now, line.largest_wait)),
        };
        changed |= self.floor != line.floor || self.waiting != waiting;
        (self.floor, self.waiting) = (line.floor, waiting);
        // Only the parent's book begins periods: a child that reports a later one would get rid of its
        // targets. Before the claim was compared with the book it has no targets. The line is taken then,
        // since it may not be repeated.
        let before = self.returned;
        if !self.begun && line.period > self.period {
            (self.period, self.returned) = (line.period, Vector::ZERO);
        }
        if line.period == self.period {
            self.returned = self.returned.merge(line.returned);
        }
        match self.returned != before {
            _ if asked => News::Asked,
            _ if fell => News::Fell,
            true => News::Returned,
            false if changed => News::Changed,
            false => News::None,
        }
    }

    /// Returns true if the part that the child was last told of, less its target, is enough for a demand.
    fn serves(&self, demand: u64) -> bool {
        let Some((_, said)) = &self.said else {
            return false;
        };
        let kept = said.given.ahead_of(self.returned.merge(self.target));
        let kept = match said.terms.kind {
            Kind::Rate => kept.rate.grains(),
            Kind::Quota => kept.tokens.grains(),
            Kind::Concurrency => kept.burst.grains(),
        };
        said.period == self.period && kept >= demand
    }

    /// Counts the demand with `rule` from now on. Returns true if the demand changed by that.
    pub(super) fn reweigh(&mut self, rule: budget::Claim) -> bool {
        self.rule = Some(rule);
        let demand = BandDemand::claimed(&self.demand, rule);
        let changed = self.demand != demand.as_slice();
        self.demand.clear();
        self.demand.extend(demand);
        changed
    }

    /// Returns true if nothing is wanted and the claim was never answered: the parent does not know the
    /// budget.
    pub(super) fn is_over(&self) -> bool {
        let wants = !self.demand.is_empty() || !self.floor.is_empty() || self.waiting.is_some();
        !wants && self.said.is_none() && self.returned.is_zero() && self.target.is_zero()
    }

    /// Returns true if a report ever had a line of this budget. Before that, the demand is unknown.
    pub(super) const fn is_spoken_of(&self) -> bool {
        self.reported
    }

    /// Begins the book's period, if it is another one. Returns and targets of the former period are void.
    pub(super) fn begin(&mut self, period: PeriodId) {
        self.begun = true;
        if period != self.period {
            self.period = period;
            if !planted::is(Bug::ReturnCrossesStamps) {
                self.returned = Vector::ZERO;
            }
            self.target = Vector::ZERO;
            self.heard = None;
            self.pending = None;
        }
    }

    /// Raises the target.
    pub(super) fn raise_target(&mut self, target: Vector) {
        self.target = self.target.merge(target);
    }

    /// Follows the child's echo. A target that the child has received starts the clock, and its return stops
    /// the clock. A target that was raised meanwhile does not stop the clock of the former one.
    pub(super) fn echo(&mut self, heard: Number, now: Tick) {
        if self
            .heard
            .is_some_and(|(_, target)| meets(self.returned, target))
        {
            self.heard = None;
        }
        let Some((number, told)) = self.pending else {
            return;
        };
        if self.heard.is_some() || heard < number {
            return;
        }
        if !meets(self.returned, told) {
            self.heard = Some((now, told));
        }
        self.pending = self.said.and_then(|(number, line)| {
            let later = !meets(told.merge(self.returned), line.target);
            later.then_some((number, line.target))
        });
    }

    /// Returns true if the echo matters: a target was sent and, as far as is known, not met.
    pub(super) const fn is_watched(&self) -> bool {
        self.pending.is_some() || self.heard.is_some()
    }

    /// Returns the time at which the child echoed a target that it has not met.
    pub(super) const fn heard_at(&self) -> Option<Tick> {
        match self.heard {
            Some((at, _)) => Some(at),
            None => None,
        }
    }

    /// Returns true if something is wanted back.
    pub(super) fn has_target(&self) -> bool {
        !meets(self.returned, self.target)
    }

    /// Returns true if the child, having echoed answer `heard`, knows `line`.
    pub(super) fn knows(&self, heard: Number, line: &AnswerLine) -> bool {
        let said = self.said.as_ref();
        said.is_some_and(|(first, said)| said == line && heard >= *first)
    }

    /// Returns true if the child, having echoed answer `heard`, must be sent `line` in answer `number`.
    /// Remembers that it was sent.
    pub(super) fn must_say(&mut self, number: Number, heard: Number, line: &AnswerLine) -> bool {
        match &self.said {
            Some((first, said)) if said == line => heard < *first,
            _ => {
                self.said = Some((number, *line));
                if self.pending.is_none() && self.has_target() {
                    self.pending = Some((number, self.target));
                }
                true
            }
        }
    }
}
