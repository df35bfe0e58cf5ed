//! What nobody holds: the part of a rate that is not dealt.
//!
//! A leader has one per budget for the length of its term, a node one per
//! budget for the length of its lease. It is a bucket like any other: time
//! refills it, grants draw on it, and what comes back is credited to it, with
//! the tokens that fill the capacity they came with.

use crate::bucket::{Bucket, Refusal};
use crate::planted::{self, Bug};
use crate::share::Share;
use crate::unit::{Rate, Tick, Tokens};

/// The undealt part of one rate budget.
///
/// State invariant: rate and burst are at most what the book says is free and
/// not proposed to be granted.
#[derive(Clone, Debug, Hash)]
pub struct Pool(Bucket);

impl Pool {
    /// A pool of this much capacity, without a token in it.
    #[must_use]
    pub fn empty(free: Share, now: Tick) -> Self {
        let tokens = Tokens::ZERO;
        Self(Bucket::new(Share { tokens, ..free }, now))
    }

    /// Takes in what came back, or what was given.
    pub fn credit(&mut self, part: Share, now: Tick) {
        // Out of range means more than any whole: not taking it in is the safe side.
        let _ = self.0.deposit(part, now);
    }

    /// Makes the capacity what the book says is free. What is added arrives
    /// empty; what no longer fits is lost.
    pub fn fit(&mut self, free: Share, now: Tick) {
        let _ = self.0.reconfigure(free.rate, free.burst, now);
    }

    /// Takes out capacity, as much as there is, with as many tokens as fill it.
    pub fn draw(&mut self, rate: Rate, burst: Tokens, now: Tick) -> Share {
        let cut = self.0.withdraw(rate, burst, now);
        let room = cut.burst.minus_or_zero(cut.tokens);
        let more = self.0.take_up_to(room, now);
        let tokens = if planted::is(Bug::GrantStartsFull) {
            cut.burst
        } else {
            cut.tokens.plus(more).unwrap_or(cut.tokens)
        };
        Share { tokens, ..cut }
    }

    /// Takes `n` tokens for a request that is decided here, if `n + spared` are there.
    ///
    /// # Errors
    ///
    /// [`Refusal`]; nothing was taken.
    pub fn try_acquire(&mut self, n: Tokens, spared: Tokens, now: Tick) -> Result<(), Refusal> {
        if !spared.is_zero() {
            self.0.peek(n.plus(spared).unwrap_or(Tokens::MAX), now)?;
        }
        self.0.try_acquire_at(n, now)
    }

    /// Capacity and level at `now`.
    #[must_use]
    pub fn share_at(&self, now: Tick) -> Share {
        self.0.share_at(now)
    }
}
