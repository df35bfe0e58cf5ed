//! What one child says of one budget, and what is wanted back from it.

use crate::budget;
use crate::edge::{Vector, meets};
use crate::message::{AnswerLine, BandDemand, ReportLine, Tally};
use crate::planted::{self, Bug};
use crate::share::{Kind, Share};
use crate::unit::{Number, PeriodId, Tick, Tokens};
use alloc::vec::Vec;

/// How soon a plan must look at what a report said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum News {
    /// Nothing changed.
    None,
    /// At its usual time.
    Changed,
    /// At once if others lack what came back.
    Returned,
    /// At once if others lack what it leaves them, and whoever is above is told.
    Fell,
    /// At once: somebody cannot begin.
    Asked,
}

/// How a demand moves.
pub(crate) enum Leap {
    /// It begins or at least doubles: whoever waits for what it asks cannot begin.
    Up,
    /// It ends or falls by half: others may have what was held for it.
    Down,
    /// A wobble, or nothing.
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

/// The demand of all bands.
pub(crate) fn total(demand: &[BandDemand]) -> u64 {
    demand
        .iter()
        .fold(0_u64, |sum, band| sum.saturating_add(band.curve.total()))
}

/// One child's claim on one budget.
///
/// A target goes through these states; only the child's echo starts the clock:
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
    /// The floors asked for.
    pub floor: Share,
    /// The largest cost that waits, and since when.
    pub waiting: Option<(Tick, Tokens)>,
    /// What became of requests so far.
    pub tally: Tally,
    /// The period of `returned`: the book's, once that was looked at.
    pub period: PeriodId,
    begun: bool,
    /// The greatest `returned` reported.
    pub returned: Vector,
    /// What `returned` must reach.
    pub target: Vector,
    /// Since when what is held has differed from what should be.
    pub differs: Option<Tick>,
    /// Set once a report had a line of this budget.
    reported: bool,
    /// What the demand counts for, whatever is reported; nothing where it counts for what it says.
    pub(super) rule: Option<budget::Claim>,
    /// The round of the agenda in which it was last spoken of.
    pub(super) spoken: u64,
    said: Option<(Number, AnswerLine)>,
    /// The first answer that carried a target which the child has not echoed yet.
    pending: Option<(Number, Vector)>,
    heard: Option<(Tick, Vector)>,
}

impl Claim {
    /// Takes what a report says, and answers how soon a plan must look at it.
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
        // Only the parent's book begins periods: a child that names a later one
        // would be rid of its targets. Before the book was looked at there are none,
        // and what is said once may not be said again.
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

    /// Whether what the child was last told that it has, and may keep, is enough for a demand.
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

    /// Counts for what `rule` says instead, from now on. Whether that is another demand.
    pub(super) fn reweigh(&mut self, rule: budget::Claim) -> bool {
        self.rule = Some(rule);
        let demand = BandDemand::claimed(&self.demand, rule);
        let changed = self.demand != demand.as_slice();
        self.demand.clear();
        self.demand.extend(demand);
        changed
    }

    /// Whether nothing is wanted, and it was never answered: no parent knows such a budget.
    pub(super) fn is_over(&self) -> bool {
        let wants = !self.demand.is_empty() || !self.floor.is_empty() || self.waiting.is_some();
        !wants && self.said.is_none() && self.returned.is_zero() && self.target.is_zero()
    }

    /// Whether a report ever had a line of this budget: before, nobody knows what
    /// is wanted of it.
    pub(super) const fn is_spoken_of(&self) -> bool {
        self.reported
    }

    /// Begins the book's period, if it is another: what was returned and wanted before is void.
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

    /// Wants more back.
    pub(super) fn raise_target(&mut self, target: Vector) {
        self.target = self.target.merge(target);
    }

    /// Follows the echo: what the child has heard of starts its clock, what it
    /// returned stops it. A target that was raised meanwhile does not stop
    /// the clock of the one before.
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

    /// Whether the echo matters: a target was told and not met, as far as is known.
    pub(super) const fn is_watched(&self) -> bool {
        self.pending.is_some() || self.heard.is_some()
    }

    /// When the child heard of a target that it has not met.
    pub(super) const fn heard_at(&self) -> Option<Tick> {
        match self.heard {
            Some((at, _)) => Some(at),
            None => None,
        }
    }

    /// Whether anything is wanted back.
    pub(super) fn has_target(&self) -> bool {
        !meets(self.returned, self.target)
    }

    /// Returns true if the child, having heard answer `heard`, knows `line`.
    pub(super) fn knows(&self, heard: Number, line: &AnswerLine) -> bool {
        let said = self.said.as_ref();
        said.is_some_and(|(first, said)| said == line && heard >= *first)
    }

    /// Whether the child, having heard answer `heard`, must be told `line` in
    /// answer `number`; remembers that it was.
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
