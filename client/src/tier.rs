//! What several limits at once are made of.

use crate::cell::book::Taken;
use crate::keyed::Charged;
use crate::refused::{Admission, Refused};
use aliquot_core::unit::Tick;
use std::fmt;

/// One limit among several: it takes, and puts back what it took.
///
/// Limiters and shapes are tiers. One's own must be exact in the same sense: what was
/// put back at the tick that it was taken at is as if it had never been taken, unless
/// somebody else rests on it.
///
/// Each verb takes a reading of the tier's own clock. A tier under a lease believes that of nobody: whether the lease
/// is over it asks its clock as well, before it admits.
pub trait Tier: fmt::Debug + Send + Sync {
    /// A reading of the clock that it decides by.
    fn now(&self) -> Tick;

    /// Takes `n` if they are there.
    ///
    /// # Errors
    ///
    /// [`Refused`]; nothing was taken.
    fn take_at(&self, n: u64, now: Tick) -> Result<Slip, Refused>;

    /// What [`Tier::take_at`] would answer; nothing is taken.
    ///
    /// # Errors
    ///
    /// As [`Tier::take_at`].
    fn peek_at(&self, n: u64, now: Tick) -> Result<(), Refused>;

    /// Puts up to `n` of what was taken back, and answers how many others can have.
    fn put_back_at(&self, slip: &Slip, n: u64, now: Tick) -> u64;

    /// [`Tier::put_back_at`] now. A tier whose answer depends on the time looks at its clock when it has seen what others took: who is
    /// held up in between must not put back at a reading that is behind theirs.
    fn put_back(&self, slip: &Slip, n: u64) -> u64 {
        self.put_back_at(slip, n, self.now())
    }

    /// Takes `n` more than was asked for, whether they are there or not, and answers how many: what a cost that is
    /// known only afterwards was above its estimate. Later requests wait for it. A tier that cannot owe,
    /// as a window, takes none.
    fn owe_at(&self, slip: &Slip, n: u64, now: Tick) -> u64 {
        let _ = (slip, n, now);
        0
    }
}

/// What a [`Tier`] took, so that it can put it back.
#[derive(Clone, Copy, Debug)]
pub struct Slip {
    tokens: u64,
    from: From,
}

#[derive(Clone, Copy, Debug)]
enum From {
    Cell(Taken),
    Key(Charged),
    /// A number of its own choice: which window it was.
    Window(u64),
}

impl Slip {
    /// Nothing taken, nowhere.
    pub(crate) const NOTHING: Self = Self::of_window(0, 0);

    /// The slip of a tier of one's own: `tokens` taken, and a number that says where.
    #[must_use]
    pub const fn of_window(tokens: u64, window: u64) -> Self {
        Self {
            tokens,
            from: From::Window(window),
        }
    }

    pub(crate) const fn of_cell(tokens: u64, taken: Taken) -> Self {
        Self {
            tokens,
            from: From::Cell(taken),
        }
    }

    pub(crate) const fn of_key(tokens: u64, charged: Charged) -> Self {
        Self {
            tokens,
            from: From::Key(charged),
        }
    }

    /// The tokens taken.
    #[must_use]
    pub const fn tokens(&self) -> u64 {
        self.tokens
    }

    /// The number that [`Slip::of_window`] was given; `None` for a limiter's or a key's slip.
    #[must_use]
    pub const fn window(&self) -> Option<u64> {
        match self.from {
            From::Window(window) => Some(window),
            From::Cell(_) | From::Key(_) => None,
        }
    }

    pub(crate) const fn taken(&self) -> Option<&Taken> {
        match &self.from {
            From::Cell(taken) => Some(taken),
            From::Window(_) | From::Key(_) => None,
        }
    }

    /// The same as an admission, if a limiter took it.
    pub(crate) fn admission(&self) -> Option<Admission> {
        let taken = self.taken()?;
        Some(Admission::of(self.tokens, taken))
    }

    pub(crate) const fn charged(&self) -> Option<&Charged> {
        match &self.from {
            From::Key(charged) => Some(charged),
            From::Cell(_) | From::Window(_) => None,
        }
    }
}
