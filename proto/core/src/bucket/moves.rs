//! Moving capacity and tokens in and out while the level stays.
//!
//! Moves are exact: capacity arrives empty, tokens arrive only with capacity to hold them, and a cut returns
//! the tokens that it cuts. So bucket and moved part together never hold more than before (invariant 2 of
//! `docs/invariants.md`). The unfinished part of a grain stays in the bucket unless a cut leaves it full.

use super::{Accrual, Bucket};
use crate::planted::{self, Bug};
use crate::share::Share;
use crate::unit::{Rate, Tick, Tokens, UnitError};

impl Bucket {
    /// Changes rate and burst, and keeps the level. Returns the tokens that a smaller burst cut off.
    ///
    /// Added capacity is empty. A level below zero stays as it is. A burst above [`Bucket::BURST_MAX`] is cut
    /// to that. An unlimited bucket becomes a limited, empty one.
    pub fn reconfigure(&mut self, rate: Rate, burst: Tokens, now: Tick) -> Tokens {
        if self.is_unlimited() {
            let empty = Share {
                rate,
                burst,
                tokens: Tokens::ZERO,
            };
            *self = Self::new(empty, now);
            return Tokens::ZERO;
        }
        let burst = burst.min(Self::BURST_MAX);
        if planted::is(Bug::AccruesAtNewRate) {
            self.accrual = Accrual::of(rate);
        }
        let missing = self.settle(now);
        let added = burst.minus_or_zero(self.burst);
        let dropped = self.burst.minus_or_zero(burst);
        let cut = dropped.minus_or_zero(missing);
        // The level is burst − missing, so missing changes as the burst does.
        let missing = missing.minus_or_zero(dropped);
        let missing = if planted::is(Bug::RaiseArrivesFull) {
            missing
        } else {
            missing.plus(added).unwrap_or(Tokens::MAX)
        };
        self.resume(rate, burst, missing);
        cut
    }

    /// Adds a part: its capacity, with the tokens in it. Tokens beyond the part's own capacity are lost. An
    /// unlimited bucket is unchanged.
    ///
    /// # Errors
    ///
    /// [`UnitError::OutOfRange`] if rate or burst would leave its range; nothing was changed.
    pub fn deposit(&mut self, part: Share, now: Tick) -> Result<(), UnitError> {
        if self.is_unlimited() {
            return Ok(());
        }
        let rate = self.rate.plus(part.rate);
        let rate = rate.ok_or(UnitError::OutOfRange { what: "rate" })?;
        let burst = self.burst.plus(part.burst);
        let burst = burst
            .filter(|&burst| burst <= Self::BURST_MAX)
            .ok_or(UnitError::OutOfRange { what: "burst" })?;
        let _ = self.reconfigure(rate, burst, now);
        let _ = self.refund(part.tokens.min(part.burst), now);
        Ok(())
    }

    /// Removes capacity, at most what there is, with the tokens that no longer fit: never more than the
    /// removed burst.
    pub fn withdraw(&mut self, rate: Rate, burst: Tokens, now: Tick) -> Share {
        if self.is_unlimited() {
            return Share::EMPTY;
        }
        let (rate, burst) = (rate.min(self.rate), burst.min(self.burst));
        let left = (
            self.rate.minus_or_zero(rate),
            self.burst.minus_or_zero(burst),
        );
        let cut = self.reconfigure(left.0, left.1, now);
        let tokens = if planted::is(Bug::WithdrawLeavesFull) {
            burst
        } else {
            cut
        };
        Share {
            rate,
            burst,
            tokens,
        }
    }

    /// Takes up to `n` tokens out of the level, to be moved elsewhere.
    pub fn take_up_to(&mut self, n: Tokens, now: Tick) -> Tokens {
        if self.is_unlimited() {
            return Tokens::ZERO;
        }
        let taken = n.min(self.level_at(now));
        match self.spend(taken, now) {
            Some(()) => taken,
            None => Tokens::ZERO,
        }
    }

    /// Takes `n` tokens even if they are not there: a cost that was only known afterwards. Returns `None`,
    /// and changes nothing, if the bucket would owe more than [`Bucket::BURST_MAX`].
    #[must_use]
    pub fn spend(&mut self, n: Tokens, now: Tick) -> Option<()> {
        if self.is_unlimited() {
            return Some(());
        }
        let made = self.advance(now);
        let debt = self.debt.checked_add(n.grains())?;
        let missing = Tokens::from_grains(debt.saturating_sub(made.whole));
        if missing.minus_or_zero(self.burst) > Self::BURST_MAX {
            return None;
        }
        self.book(debt, made);
        Some(())
    }

    /// Adds up to `n` tokens, as far as there is room. Returns how many were added.
    pub fn refund(&mut self, n: Tokens, now: Tick) -> Tokens {
        if self.is_unlimited() {
            return Tokens::ZERO;
        }
        let made = self.advance(now);
        let missing = Tokens::from_grains(self.debt.saturating_sub(made.whole));
        let kept = n.min(missing);
        self.debt = self.debt.saturating_sub(kept.grains());
        // If that filled the bucket, the unfinished part of a grain no longer fits.
        self.advance(now);
        kept
    }

    /// Moves the base to now. Returns the amount missing to a full bucket.
    fn settle(&mut self, now: Tick) -> Tokens {
        let made = self.advance(now);
        self.rebase(made);
        Tokens::from_grains(self.debt)
    }

    /// Continues from [`Bucket::settle`] with other parameters.
    fn resume(&mut self, rate: Rate, burst: Tokens, missing: Tokens) {
        self.rate = rate;
        self.accrual = Accrual::of(rate);
        self.burst = burst;
        self.debt = missing.grains();
        if missing.is_zero() && !planted::is(Bug::FullKeepsFraction) {
            self.phase = 0;
        }
        debug_assert!(self.holds_its_invariants(), "{self:?}");
    }
}
