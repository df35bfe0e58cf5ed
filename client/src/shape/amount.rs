//! How much a window may hold: a number, or the part of a leased share that counts.

use super::ShapeError;
use crate::key::parts::Part;
use crate::limiter::Limiter;
use crate::refused::{Reason, Refused};
use crate::sync::{AtomicU64, Ordering};
use aliquot_core::unit::{Span, Tick};
use std::sync::Arc;

/// How much a window may hold.
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

    /// The part of this limiter's share that was held for a whole window, and at most so much.
    pub(super) fn of_share(limiter: &Limiter, length: u64, most: u64) -> Result<Self, ShapeError> {
        let part = limiter.follow(Span::from_nanos(length));
        Ok(Self::Shared {
            part: part.ok_or(ShapeError::NotLeased)?,
            limiter: limiter.clone(),
            most,
        })
    }

    /// How much it is at `now`.
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

    /// Whether it may be used by its own clock, where it is under a lease: who asks several limits at once may bring another
    /// one's reading.
    pub(super) fn in_time(&self) -> Result<(), Refused> {
        match self {
            Self::Own(_) => Ok(()),
            Self::Shared { limiter, .. } => limiter.may_use_at(limiter.now()),
        }
    }

    /// Another one.
    pub(super) fn set(&self, limit: u64) -> Result<(), ShapeError> {
        match self {
            Self::Own(own) => own.store(limit, Ordering::Release),
            Self::Shared { .. } => return Err(ShapeError::Shared),
        }
        Ok(())
    }

    /// Counts what became of a request, where those who deal want to know.
    pub(super) fn tell<T>(&self, n: u64, outcome: Result<T, Refused>) -> Result<T, Refused> {
        if let Self::Shared { limiter, .. } = self {
            limiter.wanted(n, outcome.is_ok());
        }
        outcome
    }
}
