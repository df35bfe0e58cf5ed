//! What decides for one budget, and by what right.

use super::permits::Permits;
use crate::bucket::Bucket;
use crate::demand::Observed;
use crate::message::Terms;
use crate::share::Share;
use crate::unit::{PeriodId, Rate, Span, Tick, Tokens};
use core::fmt;

/// By what right a decider admits, and until when.
///
/// Exactly one holds at any time, and the machine alone changes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Right {
    /// By none: everything is refused.
    Never,
    /// By the session's lease, strictly before its end.
    Leased,
    /// By a floor that outlived its lease.
    Floor {
        /// The floor's end on the client's own clock: it holds strictly before it.
        until: Tick,
        /// The most permits that may be in flight, of a concurrency budget.
        permits: Tokens,
    },
    /// By a part that is used without a lease and without an end.
    Forever,
    /// Without any limit.
    Open,
}

/// What decides for one budget.
///
/// The machine moves capacity in and out, and says by what right it is used.
/// Others may decide on the same state at the same time, and without the
/// machine: then each method must be one atomic step, after which no decision
/// counts on what was taken away, and what is answered as taken away is what
/// no decision has used and none ever will.
pub trait Decider: fmt::Debug + Sized {
    /// One that holds nothing and has no right.
    fn empty(now: Tick) -> Self;

    /// The terms of what it holds from now on; `hold` is how long a permit may
    /// be held on the client's own clock.
    fn agree(&mut self, terms: &Terms, hold: Span, now: Tick);

    /// Admits by `right` from now on; admissions of a quota belong to `period`.
    fn admit_by(&mut self, right: Right, period: PeriodId, now: Tick);

    /// Takes a part in: its capacity, with the tokens that it carries.
    fn deposit(&mut self, part: Share, now: Tick);

    /// Gives capacity up, at most what there is, with the tokens that no longer
    /// fit. Empty capacity goes first: `burst − tokens` of the answer is what
    /// had been spent and not been made again.
    fn withdraw(&mut self, rate: Rate, burst: Tokens, now: Tick) -> Share;

    /// Forgets all that it held of a rate or a quota and holds `share`.
    fn replace(&mut self, share: Share, now: Tick);

    /// What it holds of a rate or a quota at `now`.
    fn share_at(&self, now: Tick) -> Share;

    /// Holds so many permits more.
    fn gain(&mut self, permits: Tokens, now: Tick);

    /// Gives up to `most` permits up that are neither in flight nor among the
    /// first `keep`; answers how many.
    fn withdraw_idle(&mut self, most: Tokens, keep: Tokens, now: Tick) -> Tokens;

    /// The permits in flight under the present edge.
    fn in_flight(&self) -> u64;

    /// Cancels permits that were held for too long.
    fn cancel_overheld(&mut self, now: Tick);

    /// By when it must be told to cancel what is overheld, though nothing was asked of it and
    /// no permit is in flight; `None` for never.
    fn rests_until(&self, now: Tick) -> Option<Tick>;

    /// The edge is gone: no permit is held, and those in flight go on under the old one.
    fn orphan_permits(&mut self, now: Tick);

    /// What callers wanted since the last call, in grains. `None` from a
    /// decider that leaves it to its owner to say.
    fn observed(&mut self) -> Option<Observed>;
}

/// The decider of a client that decides through its machine, one after the
/// other: the machine itself asks for the right.
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
        // A part out of range was never given: it would be above the budget.
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
