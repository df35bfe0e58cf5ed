//! Tokens for later: a reservation takes the level below zero and has a time from which it may be used.

use super::{Bucket, Refusal, Short};
use crate::planted::{self, Bug};
use crate::unit::{Span, Tick, Tokens};

/// Tokens taken now, to be used at [`Reservation::act_at`].
///
/// It cannot be copied. Its holder uses it, or returns it once to the bucket that it came from
/// ([`Bucket::cancel`]).
#[derive(Debug, PartialEq, Eq)]
#[must_use = "the tokens are taken: act at `act_at`, or cancel"]
pub struct Reservation {
    tokens: Tokens,
    act_at: Tick,
    /// The tokens of it that were not there when it was made.
    promised: u64,
    /// The bucket's total of promised tokens just after it was made.
    promised_until: u128,
    /// Number of the reservation in its bucket, from 1; 0 for an unlimited bucket.
    serial: u64,
}

impl Reservation {
    /// Returns the reserved tokens.
    #[must_use]
    pub const fn tokens(&self) -> Tokens {
        self.tokens
    }

    /// Returns the tick from which its holder may act: the first one at which its tokens are made. A later
    /// change of the bucket's rate does not move it.
    ///
    /// Later reservations do not wait for this one's holder. If it acts later than the exact instant, even by
    /// the part of a nanosecond that was rounded up, it acts that much closer to those that follow.
    #[must_use]
    pub const fn act_at(&self) -> Tick {
        self.act_at
    }

    /// Returns the time that its holder still has to wait.
    #[must_use]
    pub const fn delay(&self, now: Tick) -> Span {
        self.act_at.since(now)
    }
}

impl Bucket {
    /// Takes `n` tokens now for use within `max_wait`, even if they are still to be made.
    ///
    /// # Errors
    ///
    /// [`Refusal`], and nothing was taken. `NotYet` has the wait that would have been needed, or the bucket
    /// already owes its maximum.
    pub fn reserve(
        &mut self,
        n: Tokens,
        now: Tick,
        max_wait: Span,
    ) -> Result<Reservation, Refusal> {
        if self.is_unlimited() {
            return Ok(Reservation {
                tokens: n,
                act_at: now,
                promised: 0,
                promised_until: 0,
                serial: 0,
            });
        }
        let made = self.advance(now);
        if n > self.burst {
            return Err(Refusal::ExceedsBurst { burst: self.burst });
        }
        let debt = self.debt.checked_add(n.grains()).ok_or(Refusal::Never)?;
        let due = debt.saturating_sub(self.burst.grains());
        let act_at = if due <= made.whole {
            now
        } else {
            let act_at = self.tick_of(due).ok_or(Refusal::Never)?;
            let owed = due.saturating_sub(made.whole);
            if act_at.since(now) > max_wait || owed > Self::BURST_MAX.grains() {
                return Err(self.refusal(Short::Until(due), now));
            }
            act_at
        };
        let promised = self.book(debt, made);
        self.reservations = self.reservations.saturating_add(1);
        Ok(Reservation {
            tokens: n,
            act_at,
            promised,
            promised_until: self.promised,
            serial: self.reservations,
        })
    }

    /// Cancels a reservation. Returns the tokens restored.
    ///
    /// A reservation whose tick has passed may have been used, and restores nothing. Tokens that were
    /// promised to later reservations are not restored either. Those wait for ticks that this one's tokens
    /// delayed. If its tokens were given to newcomers, both would act at once. As in
    /// `golang.org/x/time/rate`:
    ///
    /// > restored `= max(0, n − tokens promised after it)`
    pub fn cancel(&mut self, reservation: Reservation, now: Tick) -> Tokens {
        if self.is_unlimited() {
            return Tokens::ZERO;
        }
        self.advance(now);
        if reservation.act_at < self.latest {
            return Tokens::ZERO;
        }
        let since = self.promised.saturating_sub(reservation.promised_until);
        let since = u64::try_from(since).unwrap_or(u64::MAX);
        if since == 0 && reservation.serial == self.reservations {
            // The last one is undone completely, so that earlier ones need not make room for it.
            self.promised = self.promised.saturating_sub(reservation.promised.into());
            self.reservations = self.reservations.saturating_sub(1);
        }
        if planted::is(Bug::CancelRefundsAll) {
            return self.refund(reservation.tokens, now);
        }
        let restored = reservation.tokens.minus_or_zero(Tokens::from_grains(since));
        self.refund(restored, now)
    }
}

#[cfg(test)]
#[path = "../../tests/unit/bucket/reserve.rs"]
mod tests;
