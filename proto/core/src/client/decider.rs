//! The decider of one budget, and the right by which it admits.

use super::permits::Permits;
use crate::bucket::Bucket;
use crate::demand::{DemandCurve, Observed};
use crate::holder::PeriodEnd;
use crate::message::Terms;
use crate::share::Share;
use crate::unit::{PeriodId, Rate, Span, Tick, Tokens};
use core::fmt;

/// Right by which a decider admits, and its end.
///
/// A decider has exactly one right at any time. Only the machine changes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Right {
    /// None: everything is refused.
    Never,
    /// The session's lease: admits strictly before its end.
    Leased,
    /// A floor that outlives its lease.
    Floor {
        /// The floor's end on the client's own clock: it holds strictly before it.
        until: Tick,
        /// Maximum number of permits in flight, for a concurrency budget.
        permits: Tokens,
    },
    /// A part that is used without a lease and without an end.
    Forever,
    /// No limit.
    Open,
}

/// Decides requests for one budget.
///
/// The machine moves capacity in and out, and sets the right by which it is used. Callers may decide on the
/// same state at the same time, without the machine. Then each method must be one atomic step. After it, no
/// decision uses what was taken away. The part returned as taken away has not been used by any decision and
/// never will be.
pub trait Decider: fmt::Debug + Sized {
    /// Returns a decider that holds nothing and has no right.
    fn empty(now: Tick) -> Self;

    /// Sets the terms of its part. `hold` is the maximum time for which a permit may be held, on the client's
    /// own clock.
    fn agree(&mut self, terms: &Terms, hold: Span, now: Tick);

    /// Sets the end of a quota's running period, or that it is not known any more. Only answers to callers use it.
    fn period_ends(&mut self, end: Option<PeriodEnd>) {
        let _ = end;
    }

    /// Admits by `right` from now on. Admissions of a quota belong to `period`.
    fn admit_by(&mut self, right: Right, period: PeriodId, now: Tick);

    /// Adds a part: its capacity, with the tokens in it.
    fn deposit(&mut self, part: Share, now: Tick);

    /// Removes capacity, at most what there is, with the tokens that no longer fit. Empty capacity is removed
    /// first: in the result, `burst − tokens` is what had been spent and not been refilled.
    fn withdraw(&mut self, rate: Rate, burst: Tokens, now: Tick) -> Share;

    /// Replaces its part of a rate or a quota with `share`.
    fn replace(&mut self, share: Share, now: Tick);

    /// Returns its part of a rate or a quota at `now`.
    fn share_at(&self, now: Tick) -> Share;

    /// Adds permits.
    fn gain(&mut self, permits: Tokens, now: Tick);

    /// Removes up to `most` permits that are neither in flight nor among the first `keep`. Returns how many.
    ///
    /// If fewer are removed, the rest of `most` is in flight. A decider that callers ask directly lets no caller take a
    /// permit that is released then ([`Plain`]'s callers ask through the machine, which sees to that), so that a later call finds it idle, until a call asks for less or the right changes. If callers could take it
    /// again, callers that wait would keep every permit in flight, and a parent would never get one back.
    fn withdraw_idle(&mut self, most: Tokens, keep: Tokens, now: Tick) -> Tokens;

    /// Returns the number of permits in flight under the present edge.
    fn in_flight(&self) -> u64;

    /// Cancels permits that were held for too long.
    fn cancel_overheld(&mut self, now: Tick);

    /// Returns the time at which `cancel_overheld` must be called even if nothing is requested and no permit
    /// is in flight, or `None` for never.
    fn rests_until(&self, now: Tick) -> Option<Tick>;

    /// Drops the edge, which is gone: no permit is held, and those in flight belong to the old edge.
    fn orphan_permits(&mut self, now: Tick);

    /// Returns the demands of the callers behind the decider by their levels, in grains per second, if there are
    /// several and their demands are known. Only the division of a rate uses them.
    fn callers(&self) -> Option<DemandCurve> {
        None
    }

    /// Returns the demand of callers since the last call, in grains, or `None` if the owner counts demand
    /// itself.
    fn observed(&mut self) -> Option<Observed>;
}

/// Decider of a client that makes all decisions through its machine, one after the other. The machine itself
/// checks the right.
#[derive(Clone, Debug, Hash)]
pub struct Plain {
    pub(super) bucket: Bucket,
    pub(super) permits: Permits,
}

impl Decider for Plain {
    fn empty(now: Tick) -> Self {
        Self {
            bucket: Bucket::new(Share::EMPTY, now),
            permits: Permits::default(),
        }
    }

    fn agree(&mut self, _: &Terms, _: Span, _: Tick) {}

    fn admit_by(&mut self, _: Right, _: PeriodId, _: Tick) {}

    fn deposit(&mut self, part: Share, now: Tick) {
        // A part out of range is never granted: it would exceed the budget.
        let _ = self.bucket.deposit(part, now);
    }

    fn withdraw(&mut self, rate: Rate, burst: Tokens, now: Tick) -> Share {
        self.bucket.withdraw(rate, burst, now)
    }

    fn replace(&mut self, share: Share, now: Tick) {
        self.bucket = Bucket::new(share, now);
    }

    fn share_at(&self, now: Tick) -> Share {
        self.bucket.share_at(now)
    }

    fn gain(&mut self, permits: Tokens, _: Tick) {
        self.permits.gain(permits);
    }

    fn withdraw_idle(&mut self, most: Tokens, keep: Tokens, _: Tick) -> Tokens {
        self.permits.yield_up(most, keep)
    }

    fn in_flight(&self) -> u64 {
        self.permits.in_flight()
    }

    fn cancel_overheld(&mut self, now: Tick) {
        self.permits.cancel_overheld(now);
    }

    fn rests_until(&self, now: Tick) -> Option<Tick> {
        (!self.permits.is_empty()).then_some(now)
    }

    fn orphan_permits(&mut self, _: Tick) {
        self.permits.orphan();
    }

    fn observed(&mut self) -> Option<Observed> {
        None
    }
}
