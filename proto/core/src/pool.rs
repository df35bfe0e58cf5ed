//! The ungranted part of a rate budget.
//!
//! The leader has one pool for each budget during its term, and a node one for each budget during its lease.
//! A pool is a bucket: time refills it, grants draw on it, and returned parts are credited to it, with at
//! most the tokens that fill their capacity.

use crate::bucket::{Bucket, PackedBucket, Refusal};
use crate::planted::{self, Bug};
use crate::share::Share;
use crate::unit::{Rate, Tick, Tokens};

/// The ungranted part of one rate budget.
///
/// State invariant: rate and burst are at most what the book has free and no proposal has granted.
///
/// There is one for each key, and it is seldom used. So it is kept packed.
#[derive(Clone, Debug, Hash)]
pub struct Pool(PackedBucket);

impl Pool {
    /// Returns a pool of this capacity, without tokens.
    #[must_use]
    pub fn empty(free: Share, now: Tick) -> Self {
        let tokens = Tokens::ZERO;
        Self(Bucket::new(Share { tokens, ..free }, now).into())
    }

    /// Changes the bucket.
    fn change<T>(&mut self, change: impl FnOnce(&mut Bucket) -> T) -> T {
        let mut bucket = Bucket::from(&self.0);
        let result = change(&mut bucket);
        self.0 = bucket.into();
        result
    }

    /// Adds a returned or granted part.
    pub fn credit(&mut self, part: Share, now: Tick) {
        // A sum out of range is more than any whole. Dropping the part is safe.
        let _ = self.change(|bucket| bucket.deposit(part, now));
    }

    /// Sets the capacity to the free part in the book. Added capacity is empty. Tokens that no longer fit are
    /// lost.
    pub fn fit(&mut self, free: Share, now: Tick) {
        let _ = self.change(|bucket| bucket.reconfigure(free.rate, free.burst, now));
    }

    /// Removes capacity, at most what there is, with as many tokens as fill it.
    pub fn draw(&mut self, rate: Rate, burst: Tokens, now: Tick) -> Share {
        let (cut, more) = self.change(|bucket| {
            let cut = bucket.withdraw(rate, burst, now);
            let room = cut.burst.minus_or_zero(cut.tokens);
            (cut, bucket.take_up_to(room, now))
        });
        let tokens = if planted::is(Bug::GrantStartsFull) {
            cut.burst
        } else {
            cut.tokens.plus(more).unwrap_or(cut.tokens)
        };
        Share { tokens, ..cut }
    }

    /// Takes `n` tokens for a request that is decided here, if the pool has `n + spared`.
    ///
    /// # Errors
    ///
    /// [`Refusal`]; nothing was taken.
    pub fn try_acquire(&mut self, n: Tokens, spared: Tokens, now: Tick) -> Result<(), Refusal> {
        self.change(|bucket| {
            if !spared.is_zero() {
                bucket.peek(n.plus(spared).unwrap_or(Tokens::MAX), now)?;
            }
            bucket.try_acquire_at(n, now)
        })
    }

    /// Returns the result that taking `n` tokens would have. Nothing is taken.
    ///
    /// # Errors
    ///
    /// [`Refusal`].
    pub fn peek(&self, n: Tokens, now: Tick) -> Result<(), Refusal> {
        Bucket::from(&self.0).peek(n, now)
    }

    /// Returns capacity and level at `now`.
    #[must_use]
    pub fn share_at(&self, now: Tick) -> Share {
        Bucket::from(&self.0).share_at(now)
    }
}
