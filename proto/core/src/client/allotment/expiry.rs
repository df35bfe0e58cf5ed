//! What an allotment does when its lease, or its edge, is over.

use super::{Allotment, Mode, Remnant};
use crate::bucket::Bucket;
use crate::budget::OnLeaseExpiry;
use crate::edge::Vector;
use crate::lease::child_span;
use crate::message::FloorRelease;
use crate::planted::{self, Bug};
use crate::share::Share;
use crate::unit::{BudgetId, Drift, Edge, Rate, Tick, Tokens};

impl Allotment {
    /// The lease ended at `until`: the policy takes over, and what is provably
    /// unused comes back.
    pub(in crate::client) fn lapse(
        &mut self,
        until: Tick,
        now: Tick,
        leaving: bool,
        drift: Drift,
    ) -> Vector {
        let Some(terms) = self.terms else {
            return Vector::ZERO;
        };
        let policy = if leaving {
            OnLeaseExpiry::Deny
        } else {
            terms.on_lease_expiry
        };
        let mut back = Vector {
            spent: self.take_unreported(),
            ..Vector::ZERO
        };
        if matches!(policy, OnLeaseExpiry::Keep) {
            self.mode = Mode::Kept;
            return back;
        }
        if leaving {
            (back.floor_rate, back.floor_burst) = (self.floor.rate, self.floor.burst);
            self.floor = Share::EMPTY;
        }
        let everything = Vector {
            rate: Rate::MAX,
            burst: Tokens::MAX,
            tokens: Tokens::MAX,
            ..Vector::ZERO
        };
        let unused = self.yield_up(everything, until);
        (back.rate, back.burst, back.tokens) = (unused.rate, unused.burst, unused.tokens);
        self.mode = match policy {
            OnLeaseExpiry::Deny | OnLeaseExpiry::Keep => Mode::Denied,
            OnLeaseExpiry::Floor => {
                if planted::is(Bug::FloorUnclipped) {
                    let tokens = unused.tokens;
                    let burst = unused.burst;
                    let rate = Rate::ZERO;
                    let _ = self.bucket.deposit(
                        Share {
                            rate,
                            burst,
                            tokens,
                        },
                        now,
                    );
                }
                Mode::Floor(until.after(child_span(terms.forget_after, drift)))
            }
            OnLeaseExpiry::Local(share) => {
                // The switch makes no token.
                let tokens = share.burst.min(unused.tokens);
                Mode::Local(Bucket::new(Share { tokens, ..share }, now))
            }
            OnLeaseExpiry::Open => Mode::Open,
        };
        back
    }

    /// The edge `former` is gone. Its floor goes on until the new edge gives
    /// something; the rest of it ends.
    pub(in crate::client) fn orphan(
        &mut self,
        budget: BudgetId,
        former: Edge,
        until: Tick,
        now: Tick,
        drift: Drift,
    ) {
        if matches!(self.mode, Mode::Leased) {
            let _ = self.lapse(until, now, false, drift);
        }
        self.unreported = Tokens::ZERO;
        self.escrow = Tokens::ZERO;
        self.permits.orphan();
        if let Mode::Floor(until) = self.mode
            && !self.floor.is_empty()
        {
            let release = FloorRelease {
                budget,
                former,
                floor: self.floor,
            };
            let bucket = self.bucket.clone();
            self.remnant = Some(Remnant {
                release,
                bucket,
                until,
            });
        }
        // The last share goes on apart: the next edge's gifts must not add to it.
        if matches!(self.mode, Mode::Kept) && !planted::is(Bug::KeptMerges) {
            self.mode = Mode::Local(self.bucket.clone());
        }
        if !matches!(self.mode, Mode::Kept) {
            self.bucket = Bucket::new(Share::EMPTY, now);
        }
        self.floor = Share::EMPTY;
    }
}
