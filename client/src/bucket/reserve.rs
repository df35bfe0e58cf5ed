//! Reservations and refunds: tokens taken for a later time, and tokens put back.
//!
//! A reservation is a GCRA step that admits a debt above the burst, with the wait as its result
//! ([`Bucket::reserve`]). A refund lowers the debt ([`Bucket::put_back_of`]). Let `D` be the debt, `S` the supply
//! and `B` the capacity, all of the present epoch. Let `D₀` be the debt just after the `n` tokens were taken,
//! counted as if the base had always been the present one. Then
//!
//! > refund `≤ min(n, D₀ − F − S, D − S)`, and nothing while debt that was booked later is
//! > promised to a tick: while `D > S + B` and `D − B > D₀ − B₀`.
//!
//! `F` is the sum of all other refunds since, and of what was missing of parts that were withdrawn. The
//! second term is the part of `n` that the bucket would still have room for had the tokens never been taken.
//! At each instant since, the debt was at least `D₀ − F`; where that was not above `S`, the bucket would have
//! been full, and a full bucket loses what it replenishes.
//!
//! No more can be lost than was replenished since the `n` were taken, at the supply `S₀`. So within the same
//! epoch `n − (S − S₀)` has room as well, whatever others put back. Hence a refund never offers more than one
//! bucket of the same rate and capacity could have offered without the refunded tokens.
//!
//! Later reservations wait for ticks that these tokens delayed. If the tokens were given to newcomers, both would
//! act at once. `golang.org/x/time/rate` subtracts the later debt instead, but two such refunds before one tick
//! give more than the bucket has: after reservations of `B`, `B` and `B / 3`, the first two would return two thirds
//! and one third. With this rule, the debt never falls below its value at the booking of a tick that is still to come. Callers that
//! wait in line have no such ticks: they move up (see [`super::places`]), so their debt does not count.
//!
//! Atomics: a reservation loads `era`, `back` and the word, in this order (`Acquire`). A refund loads the
//! word, `back`, the clock and then `era`. It first adds its amount to `back` and then swaps the word, so that concurrent
//! refunds see too little room rather than too much. The era changes before the epoch that forgets a debt, so
//! that a refund of that debt finds another era or fails its swap. It changes again after that epoch has begun,
//! and is odd in between. What is taken in an odd era may be of either epoch, and is never put back.

use super::step::{AtomicWord, Next, update};
use super::view::{View, WordView};
use super::{AdmissionMode, Bucket, Need, No, Word};
use crate::sync::{self, AtomicU64, Bug, Ordering};
use aliquot_core::share::Kind;
use aliquot_core::unit::{PeriodId, Span, Tick};

/// A charge: what was taken, and where. Enough to put it back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BucketCharge {
    /// The cost in grains, rounded up to the units of that epoch.
    pub(crate) grains: u64,
    /// The debt just after the charge, in grains since the bucket was created; wraps.
    pub(super) position: u64,
    /// The total of refunds at that time.
    pub(super) back: u64,
    /// The capacity at that time, in grains.
    pub(super) burst: u64,
    /// The supply at which the tokens may be used: the debt just after the charge, less the capacity. In
    /// grains since the bucket was created; wraps.
    pub(crate) due: u64,
    /// Number of the first place in line that was booked later. Zero if the tokens were there at once.
    pub(crate) behind: u64,
    pub(super) era: u64,
    pub(super) epoch: u16,
    pub(crate) at: Tick,
    pub(crate) period: PeriodId,
    /// When the tokens may be used.
    pub(crate) act_at: Tick,
}

impl BucketCharge {
    /// Eras that no bucket ever has.
    const NOWHERE: u64 = u64::MAX;
    const AT_HOME: u64 = u64::MAX - 2;

    /// Returns a charge of nothing.
    pub(crate) const fn nothing(now: Tick) -> Self {
        Self::outside(Self::NOWHERE, now, now, PeriodId::new(0))
    }

    /// Returns a charge that was made at the budget's home. Nothing of it can be put back here.
    pub(crate) const fn at_home(at: Tick, act_at: Tick, period: PeriodId) -> Self {
        Self::outside(Self::AT_HOME, at, act_at, period)
    }

    /// Returns an empty charge in this era, to which [`Bucket::exact`] can add a cost.
    pub(crate) const fn owing(era: u64, now: Tick) -> Self {
        Self::outside(era, now, now, PeriodId::new(0))
    }

    const fn outside(era: u64, at: Tick, act_at: Tick, period: PeriodId) -> Self {
        Self {
            grains: 0,
            position: 0,
            back: 0,
            burst: 0,
            due: 0,
            behind: 0,
            era,
            epoch: 0,
            at,
            period,
            act_at,
        }
    }

    /// Returns true if the charge was made at the budget's home.
    pub(crate) const fn is_at_home(&self) -> bool {
        self.era == Self::AT_HOME
    }
}

impl Bucket {
    /// Begins a change that voids all earlier charges, before the epoch that forgets their debt begins. A
    /// refund of an earlier charge does nothing from here on. Until [`Bucket::end_change`] the era is odd. Charges
    /// made meanwhile are void at once ([`Bucket::is_void`]), because the new epoch may have forgotten them.
    pub(super) fn begin_change(&self) {
        self.cold.era.fetch_add(1, Ordering::AcqRel);
    }

    /// Ends the change: the epoch has begun.
    pub(super) fn end_change(&self) {
        self.cold.era.fetch_add(1, Ordering::AcqRel);
    }

    /// Returns true if nothing of a charge that was made in `era` may be put back: the limit has changed since,
    /// or was being changed. Must be called after the word is loaded that a refund is swapped against: the era
    /// changes before an epoch that forgets debt begins, so a swap against that word is ordered before it.
    pub(super) fn is_void(&self, era: u64) -> bool {
        let amid = era % 2 == 1 && !sync::planted(Bug::MidChangeRefunded);
        amid || (self.era() != era && !sync::planted(Bug::EraIgnored))
    }

    /// Decides as [`Bucket::decide`] does, with a wait of at most `most`, and returns the charge.
    ///
    /// Only capacity without an end ([`AdmissionMode::Forever`]) admits tokens that are not replenished yet:
    /// leased capacity may be recalled before they are.
    pub(crate) fn reserve(
        &self,
        n: u64,
        now: Tick,
        most: Span,
        lease: &AtomicU64,
    ) -> Result<BucketCharge, No> {
        self.reserve_and_view(n, now, most, lease).0
    }

    /// Decides as [`Bucket::reserve`] does. Also returns the state as this decision left it or, if it refused, found
    /// it: the state of the very word that it swapped or read, whatever other threads do meanwhile.
    #[inline(always)]
    pub(crate) fn reserve_and_view(
        &self,
        n: u64,
        now: Tick,
        most: Span,
        lease: &AtomicU64,
    ) -> (Result<BucketCharge, No>, View) {
        // The era is loaded first: tokens taken under one edge are not put back under the next.
        let era = self.era();
        let back = self.cold.back.load(Ordering::Acquire);
        update(self, |seen| {
            let view = self.word_view(seen);
            let WordView { word, slot, before } = &view;
            let period = self.period(slot, word.epoch);
            let (debt, grains, act_at) = match self.step_for_later(&view, n, now, most, lease) {
                Ok(step) => step,
                Err(no) => return Next::Keep((Err(no), self.view_of(*word, slot, now))),
            };
            let burst = slot.grains(slot.burst);
            let position = before.wrapping_add(slot.grains(debt));
            let charge = BucketCharge {
                grains,
                position,
                back,
                burst,
                due: position.wrapping_sub(burst),
                behind: 0,
                era,
                epoch: word.epoch,
                at: now,
                period,
                act_at,
            };
            let next = Word { debt, ..*word };
            Next::Swap(next.pack(), (Ok(charge), self.view_of(next, slot, now)))
        })
    }

    /// Decides as [`Bucket::decide`] does. Also returns the state of the very word that it swapped or read, as
    /// [`Bucket::reserve_and_view`] does.
    pub(crate) fn decide_and_view(
        &self,
        need: Need,
        now: Tick,
        lease: &AtomicU64,
    ) -> (Result<(), No>, View) {
        update(self, |seen| {
            let WordView { word, slot, .. } = self.word_view(seen);
            match self.step(&slot, word, need, now, lease, 0) {
                Ok(debt) => {
                    let next = Word { debt, ..word };
                    Next::Swap(next.pack(), (Ok(()), self.view_of(next, &slot, now)))
                }
                Err(no) => Next::Keep((Err(no), self.view_of(word, &slot, now))),
            }
        })
    }

    /// Returns what [`Bucket::decide`] would; takes nothing.
    pub(crate) fn would(&self, need: Need, now: Tick, lease: &AtomicU64) -> Result<(), No> {
        self.would_and_view(need, now, lease).0
    }

    /// Returns what [`Bucket::decide`] would, and the state that it would find; takes nothing.
    pub(crate) fn would_and_view(
        &self,
        need: Need,
        now: Tick,
        lease: &AtomicU64,
    ) -> (Result<(), No>, View) {
        self.read(|WordView { word, slot, .. }| {
            let step = self.step(slot, *word, need, now, lease, 0);
            (step.map(|_| ()), self.view_of(*word, slot, now))
        })
    }

    /// Returns an error if the right to the capacity has an end and that is past at `now`.
    pub(crate) fn in_time(&self, now: Tick, lease: &AtomicU64) -> Result<(), No> {
        self.read(|WordView { word, slot, .. }| {
            let over = match slot.mode {
                AdmissionMode::Leased => now.nanos() >= lease.load(Ordering::Acquire),
                AdmissionMode::Floor => now >= self.until(word.epoch),
                _ => false,
            };
            if over { Err(No::Lapsed) } else { Ok(()) }
        })
    }

    /// Returns the debt after `n`, their cost in grains, and when they may be used.
    fn step_for_later(
        &self,
        view: &WordView,
        n: u64,
        now: Tick,
        most: Span,
        lease: &AtomicU64,
    ) -> Result<(u64, u64, Tick), No> {
        let WordView { word, slot, .. } = view;
        let need = Need::Tokens(n);
        let no = match self.step(slot, *word, need, now, lease, 0) {
            Ok(debt) if slot.mode == AdmissionMode::Open => return Ok((debt, 0, now)),
            Ok(debt) => return Ok((debt, slot.grains(self.cost(slot, need)?), now)),
            Err(no) => no,
        };
        let owns = slot.mode == AdmissionMode::Forever && slot.kind == Kind::Rate;
        let No::NotYet(Some(wait)) = no else {
            return Err(no);
        };
        if !owns || wait > most {
            return Err(no);
        }
        let cost = self.cost(slot, need)?;
        let floor = self.floor(slot, 0);
        // Thread caches may be spent at the same instant as this reservation. Where there is no room for them
        // beside `cost`, they must be revoked first.
        if floor.saturating_add(cost) > slot.burst {
            return Err(no);
        }
        let debt = slot.at(now, floor).step(word.debt, cost).debt;
        match debt > Word::DEBT_MAX {
            true => Err(No::Aged),
            false => Ok((debt, slot.grains(cost), now.after(wait))),
        }
    }

    /// Puts back up to `tokens` of a charge. Returns the grains put back. The clock is read after the word:
    /// an earlier reading might be behind those of other decisions, and would miss the supply that was
    /// replenished and lost by theirs.
    pub(crate) fn put_back_of(
        &self,
        charge: &BucketCharge,
        tokens: u64,
        clock: impl Fn() -> Tick,
    ) -> u64 {
        self.put_back_ahead(charge, tokens, 0, clock)
    }

    /// [`Bucket::put_back_of`] ahead of a line: of the debt that was booked since, `moves_up` grains belong to
    /// callers that wait behind the charge and are served earlier for it.
    pub(crate) fn put_back_ahead(
        &self,
        charge: &BucketCharge,
        tokens: u64,
        moves_up: u64,
        clock: impl Fn() -> Tick,
    ) -> u64 {
        self.lower_debt(
            || clock().max(charge.at),
            |view, back, now| {
                let WordView { word, slot, .. } = view;
                let nothing = matches!(slot.mode, AdmissionMode::Open | AdmissionMode::Cold);
                let other = self.period(slot, word.epoch) != charge.period;
                if nothing || other || self.is_void(charge.era) {
                    return 0;
                }
                let scale = self.hot.scale.load(Ordering::Relaxed);
                let grains = tokens.saturating_mul(scale).min(charge.grains);
                let floor = self.floor(slot, 0);
                view.room_for(charge, back, (floor, moves_up), now)
                    .min(grains)
            },
        )
    }

    /// Lowers the debt by as many grains as `room` allows, rounded down to units, and returns how many those
    /// were. `room` receives the word, the total of all other refunds, and a reading made after both.
    pub(super) fn lower_debt(
        &self,
        clock: impl Fn() -> Tick,
        room: impl Fn(&WordView, u64, Tick) -> u64,
    ) -> u64 {
        // Amount that this call added to `back` without a refund, since another swap came first. It must not
        // reduce this call's room.
        let mut recorded_in_vain = 0_u64;
        update(self, |seen| {
            let back = self.cold.back.load(Ordering::Acquire);
            let now = clock();
            let view = self.word_view(seen);
            let WordView { word, slot, .. } = &view;
            let units = room(&view, back.wrapping_sub(recorded_in_vain), now) >> slot.shift;
            if units == 0 {
                return Next::Keep(0);
            }
            // Added to `back` before the swap: a concurrent refund may find less room, never more.
            let grains = slot.grains(units);
            let recorded = self.cold.back.try_swap(back, back.wrapping_add(grains));
            if !recorded && !sync::planted(Bug::OthersUnseen) {
                return Next::Again;
            }
            // In vain unless the swap succeeds.
            if !sync::planted(Bug::SaidAgain) {
                recorded_in_vain = recorded_in_vain.wrapping_add(grains);
            }
            let debt = word.debt.saturating_sub(units);
            Next::Swap(Word { debt, ..*word }.pack(), grains)
        })
    }

    /// Charges up to `n` tokens more than were asked for, whether they are there or not: the true cost became
    /// known only now. Returns how many were charged: a quota has no more than it has, a debt no more than
    /// fits the word, and there is none if the right to the capacity is gone.
    pub(crate) fn exact(&self, charge: &BucketCharge, n: u64, now: Tick) -> u64 {
        update(self, |seen| {
            // An odd era will do: tokens that are taken beyond what is due do no harm.
            if self.era() != charge.era {
                return Next::Keep(0);
            }
            let scale = self.hot.scale.load(Ordering::Relaxed);
            let WordView { word, slot, .. } = self.word_view(seen);
            let unknown = slot.mode == AdmissionMode::Cold;
            if unknown || self.period(&slot, word.epoch) != charge.period {
                return Next::Keep(0);
            }
            if slot.mode == AdmissionMode::Open {
                return Next::Keep(n);
            }
            let bucket = slot.at(now.max(charge.at), self.floor(&slot, 0));
            let most = match slot.kind {
                Kind::Quota => slot.burst,
                _ => Word::DEBT_MAX,
            };
            let room = most.saturating_sub(bucket.step(word.debt, 0).debt);
            match slot.affordable(n, scale, room) {
                Some((tokens, cost)) => {
                    let debt = bucket.step(word.debt, cost).debt;
                    Next::Swap(Word { debt, ..word }.pack(), tokens)
                }
                None => Next::Keep(0),
            }
        })
    }
}

impl WordView {
    /// Returns the maximum number of grains of the charge that may be put back at `now`. The level stays
    /// `floor` units below the capacity. `moves_up` grains of the later debt are promised to no tick.
    fn room_for(
        &self,
        charge: &BucketCharge,
        back: u64,
        (floor, moves_up): (u64, u64),
        now: Tick,
    ) -> u64 {
        let Self { word, slot, before } = self;
        let (made, more) = slot.made(now);
        let by_now = made.saturating_add(u64::from(more));
        let there = i128::from(slot.grains(made));
        let made = slot.grains(by_now.saturating_add(floor));
        let (debt, burst) = (slot.grains(word.debt), slot.grains(slot.burst));
        // Relative to this epoch's base; may be negative.
        let mine = i128::from(charge.position.wrapping_sub(*before).cast_signed());
        let [debt, burst, made] = [debt, burst, made].map(i128::from);
        // Reservations wait for the supply alone, whatever capacity thread caches hold. A promised tick keeps all
        // that was booked before it.
        let later = (debt - burst) - (mine - i128::from(charge.burst)) - i128::from(moves_up);
        if debt > there + burst && later > 0 {
            return 0;
        }
        let others = i128::from(back.wrapping_sub(charge.back));
        let mut room = mine - others - made;
        // Epoch numbers recur, but then with a later base.
        if charge.epoch == word.epoch && charge.at >= slot.base {
            let since = by_now.saturating_sub(slot.made(charge.at).0);
            room = room.max(i128::from(charge.grains) - i128::from(slot.grains(since)));
        }
        let room = room.min(debt - made).min(i128::from(charge.grains));
        u64::try_from(room.max(0)).unwrap_or(u64::MAX)
    }
}
