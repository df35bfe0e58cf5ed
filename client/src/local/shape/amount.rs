//! The limit of a window: a number, or the usable part of a leased share.

use super::ShapeError;
use crate::limiter::Limiter;
use crate::limiter::combined::combine::Receipt;
use crate::limiter::key_state::parts::Part;
use crate::limiter::refused::{Reason, Refused};
use crate::sync::{AtomicU64, Ordering};
use aliquot_core::unit::{Span, Tick};
use std::sync::Arc;

/// Limit of a window.
#[derive(Debug)]
pub(super) enum Amount {
    Own(AtomicU64),
    Shared {
        limiter: Limiter,
        part: Arc<Part>,
        most: u64,
    },
}

impl Amount {
    pub(super) const fn own(limit: u64) -> Self {
        Self::Own(AtomicU64::new(limit))
    }

    /// Returns the part of this limiter's share that was held for a whole window, at most `most`.
    pub(super) fn of_share(limiter: &Limiter, length: u64, most: u64) -> Result<Self, ShapeError> {
        let part = limiter.follow(Span::from_nanos(length));
        Ok(Self::Shared {
            part: part.ok_or(ShapeError::NotLeased)?,
            limiter: limiter.clone(),
            most,
        })
    }

    /// Returns the limit at `now`.
    pub(super) fn at(&self, now: Tick) -> Result<u64, Refused> {
        match self {
            Self::Own(limit) => Ok(limit.load(Ordering::Acquire)),
            Self::Shared {
                limiter,
                part,
                most,
            } => {
                limiter.may_use_at(now)?;
                match part.limit().min(*most) {
                    0 => Err(Refused::from(Reason::NoShare)),
                    limit => Ok(limit),
                }
            }
        }
    }

    /// Checks the lease, if there is one, against the limiter's own clock: a caller that asks several limits
    /// at once may pass a reading of another clock.
    pub(super) fn in_time(&self) -> Result<(), Refused> {
        match self {
            Self::Own(_) => Ok(()),
            Self::Shared { limiter, .. } => limiter.may_use_at(limiter.now()),
        }
    }

    /// Returns true if a request with this receipt may take more now: it was counted here, and was not let through by a
    /// mode.
    pub(super) fn may_take_more(&self, receipt: &Receipt) -> bool {
        let counted = receipt.window().is_some_and(|window| window > 0);
        (counted || receipt.tokens() > 0) && self.in_time().is_ok()
    }

    /// Returns the refusal of a cost above the limit. Over a share, more of the budget may be moved here.
    pub(super) fn exceeds(&self, n: u64, limit: u64) -> Refused {
        match self {
            Self::Own(_) => Refused::exceeds(n, limit),
            Self::Shared { limiter, .. } => limiter.exceeds(n),
        }
    }

    /// Sets the limit.
    pub(super) fn set(&self, limit: u64) -> Result<(), ShapeError> {
        match self {
            Self::Own(own) => own.store(limit, Ordering::Release),
            Self::Shared { .. } => return Err(ShapeError::Shared),
        }
        Ok(())
    }

    /// Completes a request: over a share it is counted, and the limiter's mode is applied. The receipt of a
    /// request that the mode let through is for no tokens.
    pub(super) fn rule(&self, n: u64, taken: Result<u64, Refused>) -> Result<Receipt, Refused> {
        let window = match self {
            Self::Own(_) => Some(taken?),
            Self::Shared { limiter, .. } => limiter.rule(n, taken)?,
        };
        Ok(window.map_or(Receipt::of_window(0, 0), |window| {
            Receipt::of_window(n, window)
        }))
    }

    /// Returns the outcome that [`Amount::rule`] would have; counts nothing.
    pub(super) fn would_rule(&self, room: Result<(), Refused>) -> Result<(), Refused> {
        room.or_else(|refused| match self {
            Self::Own(_) => Err(refused),
            Self::Shared { limiter, .. } => limiter.would_rule(refused),
        })
    }
}
