//! One limit among several.

use crate::bucket::described::LimitInfo;
use crate::bucket::reserve::BucketCharge;
use crate::limiter::decision::Decision;
use crate::limiter::refused::{Admission, Refused};
use aliquot_core::unit::Tick;
use std::fmt;

/// One of several limits that a request must all pass: it takes tokens, and puts back what it took.
///
/// Limiters, buckets, meters, windows and pacers are limits. An implementation of your own must be as exact as they
/// are: tokens put back at the tick at which they were taken leave no trace, unless another caller was
/// decided on them.
///
/// Each method takes a reading of the limit's own clock. A limit under a lease does not rely on that reading:
/// before it admits it also checks the lease against its own clock.
///
/// ```
/// use aliquot_client::combined::Combine;
/// use aliquot_client::{Limit, Limiter};
/// use std::sync::Arc;
///
/// let per_second: Arc<dyn Combine> = Arc::new(Limiter::local(Limit::per_sec(10), 10)?);
/// let now = per_second.now();
/// assert!(per_second.peek_at(10, now).is_ok());
/// assert!(per_second.peek_at(11, now).is_err());
/// # Ok::<(), aliquot_client::LimitError>(())
/// ```
pub trait Combine: fmt::Debug + Send + Sync {
    /// Returns a reading of the clock that the limit decides by.
    fn now(&self) -> Tick;

    /// Takes `n` tokens if they are available.
    ///
    /// # Errors
    ///
    /// [`Refused`]; nothing was taken.
    fn take_at(&self, n: u64, now: Tick) -> Result<Receipt, Refused>;

    /// Decides as [`Combine::take_at`] does, and returns the state of the limit together with the outcome.
    ///
    /// A limit whose state other threads change should override this, so that the state is the one that this
    /// decision left. Otherwise it is read afterwards, by [`Combine::info_at`].
    fn decide_at(&self, n: u64, now: Tick) -> Decision<Receipt> {
        let outcome = self.take_at(n, now);
        Decision {
            outcome,
            info: self.info_at(now),
        }
    }

    /// Answers as [`Combine::take_at`] would, but takes nothing.
    ///
    /// # Errors
    ///
    /// As [`Combine::take_at`].
    fn peek_at(&self, n: u64, now: Tick) -> Result<(), Refused>;

    /// Returns the limit, what is left of it, and when it is full again; `None` if that is not known or no limit is
    /// in force. Header fields are made from it ([`RateLimitLayer`](crate::RateLimitLayer)).
    fn info_at(&self, now: Tick) -> Option<LimitInfo> {
        let _ = now;
        None
    }

    /// Puts back up to `n` of the tokens taken, and returns how many of them other callers can have.
    fn put_back_at(&self, receipt: &Receipt, n: u64, now: Tick) -> u64;

    /// [`Combine::put_back_at`] now.
    ///
    /// A limit whose answer depends on the time should override this and read its clock after it has seen what
    /// other callers took. Otherwise, a thread that is delayed in between puts tokens back at an earlier reading
    /// than those callers used.
    fn put_back(&self, receipt: &Receipt, n: u64) -> u64 {
        self.put_back_at(receipt, n, self.now())
    }

    /// Takes `n` more tokens, whether they are available or not, and returns how many it took. For a cost that
    /// turned out higher than its estimate; later requests wait for these tokens.
    ///
    /// A window cannot owe tokens, and takes what is left of it. A limit that does not override this takes none and
    /// returns 0.
    fn owe_at(&self, receipt: &Receipt, n: u64, now: Tick) -> u64 {
        let _ = (receipt, n, now);
        0
    }
}

/// Record of what a [`Combine`] took, needed to put it back.
#[derive(Clone, Copy, Debug)]
pub struct Receipt {
    tokens: u64,
    from: From,
}

/// Tokens that were taken from a key, and its slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyCharge {
    pub(crate) place: usize,
    pub(crate) owner: u64,
    /// Cost in units of the key's class, as are all amounts here.
    pub(crate) cost: u64,
    /// Debt just after the charge.
    pub(crate) debt: u64,
    /// Tokens put back before that, by all keys that share the counter; it wraps.
    pub(crate) back: u64,
    pub(crate) at: Tick,
}

#[derive(Clone, Copy, Debug)]
enum From {
    Bucket(BucketCharge),
    Key(KeyCharge),
    /// A number that the limit chose: for example, which window it was.
    Window(u64),
    /// Turns of a pacer: the tick of the first, and the first tick after them.
    Turns(Tick, u64),
}

impl Receipt {
    /// The receipt of nothing.
    pub(crate) const NOTHING: Self = Self::of_window(0, 0);

    /// Makes the receipt of a limit of your own: the tokens taken, and a number that says where.
    #[must_use]
    pub const fn of_window(tokens: u64, window: u64) -> Self {
        Self {
            tokens,
            from: From::Window(window),
        }
    }

    pub(crate) const fn of_bucket(tokens: u64, charge: BucketCharge) -> Self {
        Self {
            tokens,
            from: From::Bucket(charge),
        }
    }

    pub(crate) const fn of_key(tokens: u64, charged: KeyCharge) -> Self {
        Self {
            tokens,
            from: From::Key(charged),
        }
    }

    pub(crate) const fn of_turns(tokens: u64, at: Tick, end: u64) -> Self {
        Self {
            tokens,
            from: From::Turns(at, end),
        }
    }

    /// Returns the tick of the first turn, and the first tick after the last, if a pacer took them.
    pub(crate) const fn turns(&self) -> Option<(Tick, u64)> {
        match self.from {
            From::Turns(at, end) => Some((at, end)),
            From::Bucket(_) | From::Key(_) | From::Window(_) => None,
        }
    }

    /// Returns the number of tokens taken.
    #[must_use]
    pub const fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Returns the number given to [`Receipt::of_window`]; `None` for the receipt of a limiter, a key
    /// or a pacer.
    #[must_use]
    pub const fn window(&self) -> Option<u64> {
        match self.from {
            From::Window(window) => Some(window),
            From::Bucket(_) | From::Key(_) | From::Turns(..) => None,
        }
    }

    pub(crate) const fn charge(&self) -> Option<&BucketCharge> {
        match &self.from {
            From::Bucket(charge) => Some(charge),
            From::Window(_) | From::Key(_) | From::Turns(..) => None,
        }
    }

    /// Returns the receipt as an admission, if a limiter took the tokens.
    pub(crate) fn admission(&self) -> Option<Admission> {
        let charge = self.charge()?;
        Some(Admission::of(self.tokens, charge))
    }

    pub(crate) const fn charged(&self) -> Option<&KeyCharge> {
        match &self.from {
            From::Key(charged) => Some(charged),
            From::Bucket(_) | From::Window(_) | From::Turns(..) => None,
        }
    }
}
