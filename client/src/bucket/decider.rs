//! The client state machine's side of a bucket: the only writer of slots, and so the only code that begins
//! epochs.
//!
//! A new rate, burst, mode or period is a new epoch. [`BucketDecider::begin`] computes what is missing of the
//! old bucket (`D − S`, in grains) and lets the caller map it to the new parameters. Then it writes the next
//! slot and swaps the word. Only this code changes the emission interval and the burst; decisions change
//! nothing but the debt.

mod own;

use super::step::{Next, update};
use super::{AdmissionMode, Bucket, Slot, Word};
use crate::limiter::key_state::KeyState;
use crate::sync::{self, Bug, Ordering, fence};
use aliquot_core::budget::Enforcement;
use aliquot_core::client::{Decider, Right};
use aliquot_core::demand::{DemandCurve, Observed};
use aliquot_core::holder::PeriodEnd;
use aliquot_core::message::Terms;
use aliquot_core::planted;
use aliquot_core::share::{Kind, Share};
use aliquot_core::unit::{PeriodId, Rate, Scale, Span, Tick, Tokens};
use std::sync::Arc;

/// The exact parameters of an epoch, in grains. A [`Slot`] rounds them to units.
#[derive(Clone, Copy, Debug)]
struct Plan {
    rate: Rate,
    burst: Tokens,
    mode: AdmissionMode,
    kind: Kind,
    until: Tick,
    period: PeriodId,
}

/// Handle of one key's bucket for the client state machine.
///
/// Not `Clone`: a bucket has one reconfigurer.
#[derive(Debug)]
pub(crate) struct BucketDecider {
    key_state: Arc<KeyState>,
    plan: Plan,
    scale: Scale,
    /// True if the terms of a budget are known.
    agreed: bool,
    right: Right,
    /// Permits held, in flight or not.
    held: u64,
    /// Those of them that the parent wants back and that are in flight. None is taken in their place.
    recalled: u64,
}

impl BucketDecider {
    /// Returns the only handle of a bucket that was never reconfigured.
    pub(crate) fn new(key_state: Arc<KeyState>) -> Self {
        Self {
            key_state,
            plan: Plan {
                rate: Rate::ZERO,
                burst: Tokens::ZERO,
                mode: AdmissionMode::Cold,
                kind: Kind::Rate,
                until: Tick::ZERO,
                period: PeriodId::new(0),
            },
            scale: Scale::WHOLE,
            agreed: false,
            right: Right::Never,
            held: 0,
            recalled: 0,
        }
    }

    /// Applies a rule of the client's own instead of a lease: a local rate, or none, as `mode` says.
    pub(crate) fn rule(&mut self, mode: AdmissionMode, scale: Scale, share: Share, now: Tick) {
        let serves = matches!(mode, AdmissionMode::Forever | AdmissionMode::Open);
        self.key_state.set_kind_unknown(serves);
        self.own(Kind::Rate, mode, scale, share, now);
    }

    /// Applies a changed mode of the key.
    pub(crate) fn switched(&mut self, now: Tick) {
        self.turn(now, |plan, missing| (plan, missing, ()));
        self.key_state.changed();
    }

    /// Wakes waiting callers: there is a lease again.
    pub(crate) fn leased(&self) {
        self.key_state.changed();
    }

    /// Returns the mode that decisions see: `Closed` while the limit is frozen. `Cold` stays `Cold`, since a
    /// change of the fixed-point scale relies on it.
    fn shown(&self, mode: AdmissionMode) -> AdmissionMode {
        match mode {
            AdmissionMode::Cold => AdmissionMode::Cold,
            _ if self.key_state.switch.is_frozen() => AdmissionMode::Closed,
            mode => mode,
        }
    }

    /// Charges here what was owed to the budget's home, once the budget has left central mode.
    fn owe(&mut self, now: Tick) {
        let owed = self.key_state.home.take_owed();
        let grains = owed.saturating_mul(self.scale.grains_per_token());
        if grains > 0 && self.plan.kind == Kind::Rate {
            self.turn(now, |plan, missing| {
                (plan, missing.saturating_add(grains), ())
            });
        }
    }

    fn bucket(&self) -> &Bucket {
        &self.key_state.bucket
    }

    fn set_mode(&mut self, mode: AdmissionMode, now: Tick) {
        self.turn(now, |plan, missing| (Plan { mode, ..plan }, missing, ()));
    }

    /// Changes the kind or the fixed-point scale. Nothing is admitted meanwhile, so that no decision mixes
    /// the old and the new.
    fn set_kind(&mut self, kind: Kind, scale: Scale, now: Tick) {
        if kind == self.plan.kind && scale == self.scale {
            return;
        }
        self.set_mode(AdmissionMode::Cold, now);
        self.bucket().begin_change();
        self.bucket()
            .hot
            .scale
            .store(scale.grains_per_token(), Ordering::Release);
        self.turn(now, |plan, missing| (Plan { kind, ..plan }, missing, ()));
        self.scale = scale;
        self.bucket().end_change();
    }

    /// Begins an epoch at `now`. `change` receives the present plan and the missing capacity, in grains and
    /// rounded up. It returns the new plan and what is missing then. It is called again if a decision came in
    /// between.
    ///
    /// Thread caches of the old epoch are void from then on. They are revoked after the epoch has begun: a
    /// cache that was filled just before would be overlooked otherwise.
    fn turn<R>(&mut self, now: Tick, change: impl Fn(Plan, u64) -> (Plan, u64, R)) -> R {
        let answer = self.begin(now, change);
        self.bucket().thread_caches.revoke_all();
        self.show_parts(now);
        answer
    }

    /// Tells the windows that follow the share how many tokens it has.
    fn show_parts(&self, now: Tick) {
        let plan = &self.plan;
        let counts = plan.mode == AdmissionMode::Leased && plan.kind == Kind::Rate && self.agreed;
        let tokens = plan.burst.grains() / self.scale.grains_per_token();
        self.key_state
            .parts
            .see(if counts { tokens } else { 0 }, now);
    }

    fn begin<R>(&mut self, now: Tick, change: impl Fn(Plan, u64) -> (Plan, u64, R)) -> R {
        let (hot, cold) = (&self.key_state.bucket.hot, &self.key_state.bucket.cold);
        let mut recorded = 0;
        let (plan, answer) = update(self.bucket(), |seen| {
            let word = Word::unpack(seen);
            let old = self.bucket().slot(word.epoch);
            let base = now.max(old.base);
            let missing = word.debt.saturating_sub(old.made(base).0);
            // The old slot is in the old scale, even while the bucket's scale is already the next one.
            let held = self
                .bucket()
                .held_units(&old, self.scale.grains_per_token());
            let missing = missing.max(held.min(old.burst));
            // The fraction of a unit that was cut off the capacity is there: no decision could spend it.
            let missing = old.grains(missing);
            let forgets = planted::is(planted::Bug::ChangeForgetsDebt);
            let missing = if forgets { 0 } else { missing };
            let was = missing;
            let (plan, missing, answer) = change(self.plan, missing);
            // Missing capacity that leaves with a withdrawn part can no longer be refunded. Like a refund, it
            // is added to `back` before the swap.
            let gone = was.saturating_sub(missing);
            cold.back
                .fetch_add(gone.saturating_sub(recorded), Ordering::AcqRel);
            recorded = recorded.max(gone);
            let mode = self.shown(plan.mode);
            let slot = Slot::new(plan.rate, plan.burst, base, mode, plan.kind);
            let debt = debt_of(&slot, missing);
            let step = u16::from(!sync::planted(Bug::SameEpoch));
            let next = word.later(step, debt);
            let at = usize::from(next.epoch & 1);
            // A thread that reads any of these stores also sees that the word has left the epoch before last.
            fence(Ordering::Release);
            for (to, from) in hot.slots[at].iter().zip(slot.pack()) {
                to.store(from, Ordering::Relaxed);
            }
            cold.until[at].store(plan.until.nanos(), Ordering::Relaxed);
            cold.period[at].store(plan.period.get(), Ordering::Relaxed);
            let before = cold.made[usize::from(word.epoch & 1)].load(Ordering::Relaxed);
            let made = old.grains(old.made(base).0);
            cold.made[at].store(before.wrapping_add(made), Ordering::Relaxed);
            Next::Swap(next.pack(), (plan, answer))
        });
        self.plan = plan;
        answer
    }

    /// Replaces the share and the mode, then wakes waiting callers.
    fn put(&mut self, share: Share, mode: AdmissionMode, now: Tick) {
        self.bucket().begin_change();
        self.turn(now, |plan, _| {
            let plan = Plan {
                rate: share.rate,
                burst: share.burst,
                mode,
                ..plan
            };
            let missing = share.burst.minus_or_zero(share.tokens).grains();
            (plan, missing, ())
        });
        self.bucket().end_change();
        self.key_state.changed();
    }

    /// Wakes waiting callers if the last part of what was `held` has been taken away: they were waiting for what is made
    /// or released here, and now only a node can serve them.
    fn wake_if_nothing_is_left(&self, held: Tokens) {
        if self.plan.burst.is_zero() && !held.is_zero() {
            self.key_state.changed();
        }
    }

    /// Returns how many permits may be in flight by the present right.
    fn usable(&self) -> Tokens {
        let held = Tokens::from_grains(self.held.saturating_sub(self.recalled));
        match self.right {
            Right::Floor { permits, .. } => held.min(permits),
            _ => held,
        }
    }
}

impl Decider for BucketDecider {
    fn empty(_: Tick) -> Self {
        Self::new(Arc::new(KeyState::unnamed()))
    }

    fn agree(&mut self, terms: &Terms, hold: Span, now: Tick) {
        self.key_state.set_kind_unknown(false);
        self.set_kind(terms.kind, terms.scale, now);
        self.key_state.home.set_central(terms.central_mode);
        let largest = terms.largest.grains() / terms.scale.grains_per_token();
        self.key_state.home.serve_at_most(largest);
        self.key_state.home.set_rate(terms.rate.grains());
        self.key_state.home.set_written(terms.written);
        let dry_run = terms.enforcement == Enforcement::DryRun;
        self.key_state.switch.set_budget_dry_run(dry_run);
        if terms.kind == Kind::Concurrency {
            self.bucket().wheel.set_hold(hold, now);
        }
        self.agreed = true;
        self.admit_by(self.right, self.plan.period, now);
        if !terms.central_mode {
            self.owe(now);
        }
    }

    fn period_ends(&mut self, end: Option<PeriodEnd>) {
        self.key_state.home.set_period_end(end);
    }

    fn admit_by(&mut self, right: Right, period: PeriodId, now: Tick) {
        self.right = right;
        // The next `withdraw_idle` sets anew what is recalled.
        self.recalled = 0;
        let (mode, until) = match right {
            _ if !self.agreed => (AdmissionMode::Cold, Tick::ZERO),
            Right::Never => (AdmissionMode::Lapsed, Tick::ZERO),
            Right::Leased => (AdmissionMode::Leased, Tick::ZERO),
            Right::Floor { until, .. } => (AdmissionMode::Floor, until),
            Right::Forever => (AdmissionMode::Forever, Tick::ZERO),
            Right::Open => (AdmissionMode::Open, Tick::ZERO),
        };
        let permits = (self.plan.kind == Kind::Concurrency).then(|| self.usable());
        self.turn(now, |plan, missing| {
            let burst = permits.unwrap_or(plan.burst);
            let plan = Plan {
                burst,
                mode,
                until,
                period,
                ..plan
            };
            (plan, missing, ())
        });
        self.key_state.changed();
    }

    fn deposit(&mut self, part: Share, now: Tick) {
        self.turn(now, |plan, missing| {
            let (Some(rate), Some(burst)) =
                (plan.rate.plus(part.rate), plan.burst.plus(part.burst))
            else {
                return (plan, missing, ());
            };
            let full = planted::is(planted::Bug::PartArrivesFull);
            let tokens = if full { part.burst } else { part.tokens };
            let empty = part.burst.minus_or_zero(tokens).grains();
            let plan = Plan {
                rate,
                burst,
                ..plan
            };
            (plan, missing.saturating_add(empty), ())
        });
        self.key_state.changed();
    }

    fn withdraw(&mut self, rate: Rate, burst: Tokens, now: Tick) -> Share {
        let held = self.plan.burst;
        let part = self.turn(now, |plan, missing| {
            let rate = rate.min(plan.rate);
            let burst = burst.min(plan.burst);
            let tokens = match planted::is(planted::Bug::WithdrawnSaidFull) {
                true => burst,
                false => Tokens::from_grains(burst.grains().saturating_sub(missing)),
            };
            let left = missing.saturating_sub(burst.grains());
            let plan = Plan {
                rate: plan.rate.minus_or_zero(rate),
                burst: plan.burst.minus_or_zero(burst),
                ..plan
            };
            let part = Share {
                rate,
                burst,
                tokens,
            };
            (plan, left, part)
        });
        self.wake_if_nothing_is_left(held);
        part
    }

    fn replace(&mut self, share: Share, now: Tick) {
        self.put(share, self.plan.mode, now);
    }

    fn share_at(&self, now: Tick) -> Share {
        let view = self.bucket().view(now);
        let missing = Tokens::from_grains(view.missing);
        Share {
            rate: self.plan.rate,
            burst: self.plan.burst,
            tokens: self.plan.burst.minus_or_zero(missing),
        }
    }

    fn gain(&mut self, permits: Tokens, now: Tick) {
        self.held = self.held.saturating_add(permits.grains());
        let burst = self.usable();
        self.turn(now, |plan, missing| (Plan { burst, ..plan }, missing, ()));
        // The wheel was not turned while no permits were held.
        self.cancel_overheld(now);
        self.key_state.changed();
    }

    fn withdraw_idle(&mut self, most: Tokens, keep: Tokens, now: Tick) -> Tokens {
        if most.is_zero() && self.recalled == 0 {
            return Tokens::ZERO;
        }
        let (held, right, usable) = (self.held, self.right, self.plan.burst);
        let (back, recalled) = self.turn(now, |plan, in_flight| {
            let idle = held.saturating_sub(in_flight.max(keep.grains()));
            let back = most.grains().min(idle);
            let left = held - back;
            let recalled = match planted::is(planted::Bug::RecalledPermitTaken) {
                true => 0,
                false => (most.grains() - back).min(left.saturating_sub(keep.grains())),
            };
            let usable = Tokens::from_grains(left - recalled);
            let burst = match right {
                Right::Floor { permits, .. } => usable.min(permits),
                _ => usable,
            };
            (Plan { burst, ..plan }, in_flight, (back, recalled))
        });
        (self.held, self.recalled) = (self.held - back, recalled);
        self.wake_if_nothing_is_left(usable);
        Tokens::from_grains(back)
    }

    fn in_flight(&self) -> u64 {
        match self.plan.kind {
            Kind::Concurrency => self.bucket().view(Tick::ZERO).missing,
            Kind::Rate | Kind::Quota => 0,
        }
    }

    fn cancel_overheld(&mut self, now: Tick) {
        self.show_parts(now);
        if self.plan.kind == Kind::Concurrency {
            let (wheel, era) = (&self.bucket().wheel, self.bucket().era());
            let turn = wheel.turn(now);
            self.bucket().put_back(turn.cancelled, era);
            if turn.cancelled > 0 || turn.was_late {
                self.key_state.changed();
            }
        } else if self.bucket().is_aging(now) {
            // Moves the base with an unchanged plan, long before the word is full.
            self.turn(now, |plan, missing| (plan, missing, ()));
        }
    }

    fn rests_until(&self, now: Tick) -> Option<Tick> {
        if self.key_state.parts.are_followed() {
            return Some(now);
        }
        match self.plan.kind {
            Kind::Concurrency if self.held > 0 => Some(self.bucket().wheel.turns_by(now)),
            Kind::Concurrency => None,
            Kind::Rate | Kind::Quota => self.bucket().ages_at(),
        }
    }

    fn orphan_permits(&mut self, now: Tick) {
        if self.plan.kind != Kind::Concurrency {
            return;
        }
        // Until the turn, callers still take permits of the old edge, which are not in the debt of the next one.
        // They count them on the wheel until that is cleared.
        self.bucket().begin_change();
        if sync::planted(Bug::EraEndsEarly) {
            self.bucket().end_change();
        }
        (self.held, self.recalled) = (0, 0);
        self.turn(now, |plan, _| {
            let burst = Tokens::ZERO;
            (Plan { burst, ..plan }, 0, ())
        });
        self.bucket().wheel.clear(now);
        if !sync::planted(Bug::EraEndsEarly) {
            self.bucket().end_change();
        }
    }

    fn callers(&self) -> Option<DemandCurve> {
        self.key_state.callers(self.scale.grains_per_token())
    }

    fn observed(&mut self) -> Option<Observed> {
        let caches = &self.bucket().thread_caches;
        let tally = &self.key_state.tally;
        tally.admitted(caches.take_uncounted());
        let denied = caches.take_denied();
        tally.denied(denied);
        if denied > 0 {
            // Threads with a counter of their own do not mark the key, so mark it here.
            tally.touch();
        }
        Some(self.key_state.drain(self.scale.grains_per_token()))
    }
}

/// Returns the debt of a slot of whose capacity `missing` grains are missing, rounded up to units.
fn debt_of(slot: &Slot, missing: u64) -> u64 {
    missing.div_ceil(slot.grains(1)).min(Word::DEBT_MAX)
}
