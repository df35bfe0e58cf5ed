//! The end of an allotment's lease, or of its edge.

use super::{Allotment, LeaseEnd, Mode, Remnant};
use crate::budget::OnLeaseExpiry;
use crate::client::decider::{Decider, Right};
use crate::edge::Vector;
use crate::lease::child_span;
use crate::message::{FloorRelease, Tally};
use crate::planted::{self, Bug};
use crate::share::{Kind, Share};
use crate::unit::{BudgetId, Edge, Rate, Tick, Tokens};

impl<D: Decider> Allotment<D> {
    /// Ends the lease: the policy takes over. Returns what is provably unused.
    pub(in crate::client) fn lapse(&mut self, end: LeaseEnd, now: Tick, leaving: bool) -> Vector {
        let Some(terms) = self.terms else {
            return Vector::ZERO;
        };
        let policy = if leaving {
            OnLeaseExpiry::Deny
        } else {
            terms.on_lease_expiry
        };
        let mut back = Vector::ZERO;
        if matches!(policy, OnLeaseExpiry::Keep) {
            back.spent = self.take_unreported(now);
            self.keep(end.confirmed, now);
            return back;
        }
        self.former = None;
        let until = end.until;
        if leaving {
            (back.floor_rate, back.floor_burst) = (self.floor.rate, self.floor.burst);
            self.floor = Share::EMPTY;
        }
        // Callers that decide in the meantime have no right.
        self.decider.admit_by(Right::Never, self.period, until);
        let everything = Vector {
            rate: Rate::MAX,
            burst: Tokens::MAX,
            tokens: Tokens::MAX,
            ..Vector::ZERO
        };
        let unused = self.yield_up(everything, until);
        (back.rate, back.burst, back.tokens) = (unused.rate, unused.burst, unused.tokens);
        back.spent = self.take_unreported(until);
        let mode = match policy {
            OnLeaseExpiry::Deny | OnLeaseExpiry::Keep => Mode::Denied,
            OnLeaseExpiry::Floor => {
                if planted::is(Bug::FloorUnclipped) {
                    let part = Share {
                        rate: Rate::ZERO,
                        burst: unused.burst,
                        tokens: unused.tokens,
                    };
                    self.decider.deposit(part, now);
                }
                Mode::Floor(until.after(child_span(terms.forget_after, self.drift)))
            }
            OnLeaseExpiry::Local(share) => {
                self.go_local(share, unused.tokens, now);
                Mode::Local
            }
            OnLeaseExpiry::Open => Mode::Open,
        };
        self.go_by(mode, now);
        back
    }

    /// Goes on with the last share: the present edge's, or the greater one of a former edge if the present one's
    /// lease was never `confirmed` anew.
    fn keep(&mut self, confirmed: bool, now: Tick) {
        if self.mode == Mode::FormerShare {
            return;
        }
        let share = self.share_at(now);
        let former = self.former.take().filter(|former| {
            let greater = former.rate > share.rate;
            greater && !confirmed && !planted::is(Bug::FormerForgotten)
        });
        let Some(former) = former else {
            self.go_by(Mode::LastShare, now);
            return;
        };
        self.park(now);
        let tokens = former.burst.min(share.tokens);
        self.replace(Share { tokens, ..*former }, now);
        self.go_by(Mode::FormerShare, now);
    }

    /// Sets the edge's share aside, without its level.
    fn park(&mut self, now: Tick) {
        if !self.is_apart() {
            self.parked = Share {
                tokens: Tokens::ZERO,
                ..self.share_at(now)
            };
        }
    }

    /// Switches to the policy's own bucket. The switch creates no tokens.
    fn go_local(&mut self, share: Share, unused: Tokens, now: Tick) {
        if self.remnant.is_some() {
            return;
        }
        self.park(now);
        let tokens = share.burst.min(unused);
        self.replace(Share { tokens, ..share }, now);
    }

    /// Ends the edge `former`. Its floor stays in use until the new edge grants something. All else ends.
    pub(in crate::client) fn orphan(
        &mut self,
        budget: BudgetId,
        former: Edge,
        end: LeaseEnd,
        now: Tick,
    ) {
        if self.mode == Mode::Leased {
            let _ = self.lapse(end, now, false);
        }
        self.decider.orphan_permits(now);
        self.unreported = Tokens::ZERO;
        self.tally = Tally::default();
        self.parked = Share::EMPTY;
        if let Mode::Floor(until) = self.mode
            && !self.floor.is_empty()
        {
            let release = FloorRelease {
                budget,
                former,
                floor: self.floor,
            };
            self.remnant = Some(Remnant { release, until });
        }
        // The last share stays separate: grants of the next edge must not be added to it.
        if self.mode == Mode::LastShare && !planted::is(Bug::KeptMerges) {
            self.mode = match self.kind() {
                Some(Kind::Rate) => Mode::FormerShare,
                _ => Mode::Denied,
            };
        }
        let goes_on =
            self.remnant.is_some() || matches!(self.mode, Mode::LastShare) || self.is_apart();
        if !goes_on {
            self.replace(Share::EMPTY, now);
        }
        self.floor = Share::EMPTY;
        self.go_by(self.mode, now);
    }

    /// Ends the use of a floor at `now` at the latest. For a clock that missed some time: the parent may free
    /// the floor before this clock reaches its end.
    pub(in crate::client) fn end_floor(&mut self, now: Tick) {
        if planted::is(Bug::FloorOutlivesJump) {
            return;
        }
        if let Some(remnant) = &mut self.remnant {
            remnant.until = remnant.until.min(now);
        }
        if let Mode::Floor(until) = self.mode {
            self.mode = Mode::Floor(until.min(now));
        }
        self.decider.admit_by(self.right(), self.period, now);
    }

    /// Ends the floor of a former edge. Returns its release.
    pub(in crate::client) fn drop_remnant(&mut self, now: Tick) -> Option<FloorRelease> {
        let remnant = self.remnant.take()?;
        self.replace(Share::EMPTY, now);
        self.go_by(self.mode, now);
        Some(remnant.release)
    }

    /// Drops everything: the part, the right, and the edge.
    pub(in crate::client) fn reset(&mut self, now: Tick) {
        self.former = None;
        self.decider.orphan_permits(now);
        self.decider.admit_by(Right::Never, self.period, now);
        self.replace(Share::EMPTY, now);
    }
}
