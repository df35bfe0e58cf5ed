//! Other shapes of a limit than a bucket of tokens.
//!
//! | shape | over any window of its length `W` it admits at most | price |
//! |---|---|---|
//! | [`Limiter`](crate::Limiter), a token bucket | `burst + rate · W` | – |
//! | [`Meter`], a leaky bucket as a meter | `capacity + leak · W` | the same, told from the other side |
//! | [`Pacer`], a leaky bucket as a queue | one each interval | callers wait, in a queue of a stated length |
//! | [`FixedWindow`] | `limit` in each window of the clock's grid, `2 · limit` in any | – |
//! | [`SlidingLog`] | `limit`, exactly | 16 bytes for each of the limit |
//! | [`SlidingCounter`] | `limit + prev · f`, where a part `f` of the present window has passed and `prev` were admitted in the last; so less than `2 · limit` | it takes what came in the last window for even |
//! | [`Permits`](crate::Limiter::local_permits) | whatever is released in it, and `limit` in flight at each instant | callers release |
//!
//! None of them takes a lock or allocates to decide. Each verb has a twin that takes
//! the time as an argument; a reading behind an earlier one admits nothing that the
//! earlier one would not.
//!
//! # Over a share
//!
//! Buckets, meters and windows are [`Tier`](crate::Tier)s: in [`Layers`](crate::Layers) with a leased limiter both
//! must admit, so that the fleet keeps to the budget and each process to the shape. A [`Pacer`] is none: what it answers is a
//! tick to wait for, and whoever booked after a turn keeps it from being given back. Nor are permits, which are not taken but held:
//! among layers a limiter of permits refuses as [`Reason::WrongKind`].
//!
//! Windows can be the fleet's ([`FixedWindow::over`], [`SlidingCounter::over`], [`SlidingLog::over`]): with `N` the
//! burst of a budget of a rate, all processes together admit in any window, by whatever clocks, what the rows above say
//! for `limit = N`. A process may use of its share what it has held for a whole window, so that what another has used
//! up is not used again; that is the price, and that a new process waits for a window before it admits
//! anything. A window is as long as the clocks say that it is measured by. A window on the calendar's grid is a budget of
//! the kind *quota*, and needs no shape.
//!
//! A [`Meter`] over a leased limiter is the fleet's as that is. Permits are, as a budget of the kind *concurrency*. A [`Pacer`]
//! over a leased limiter ([`Pacer::over`]) spaces this process's turns by its part of the rate: the fleet's keep to the
//! rate in the long run, but two processes' turns may coincide, and those that are booked keep their ticks when the rate goes
//! to another. So over any `t` there are at most `R · t` turns, one more for each process, and `queue + 1` more for each time
//! that a process's part of the rate became less.

mod amount;
mod counter;
mod fixed;
mod log;
mod meter;
#[cfg(test)]
mod over;
mod pacer;

pub use counter::SlidingCounter;
pub use fixed::FixedWindow;
pub use log::SlidingLog;
pub use meter::Meter;
pub use pacer::{Pacer, Turn};

use crate::refused::{Reason, Refused};
use aliquot_core::unit::Span;
use std::time::Duration;

/// Why a shape cannot be that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShapeError {
    /// The limit is out of range.
    #[error("limit: {limit}; 1 to {most} are allowed")]
    Limit {
        /// What stood there.
        limit: u64,
        /// The most that it may be.
        most: u64,
    },
    /// The window, or the interval, is out of range.
    #[error("{what}: {span:?}; {least:?} to a year are allowed")]
    Span {
        /// Which one.
        what: &'static str,
        /// What stood there.
        span: Duration,
        /// The least that it may be.
        least: Duration,
    },
    /// It was to follow a share, and the limiter is of a limit of this process's own.
    #[error("the limiter is of a limit of this process's own: there is no share to follow")]
    NotLeased,
    /// Its limit is a share's, and changed where that is dealt.
    #[error("its limit is a share's: it is changed at the coordinator")]
    Shared,
}

const YEAR: Duration = Duration::from_secs(366 * 86_400);

/// A limit between one and `most`.
const fn limit_of(limit: u64, most: u64) -> Result<u64, ShapeError> {
    if limit == 0 || limit > most {
        return Err(ShapeError::Limit { limit, most });
    }
    Ok(limit)
}

/// A span in nanoseconds, between `least` and a year.
pub(crate) fn span_of(
    what: &'static str,
    span: Duration,
    least: Duration,
) -> Result<u64, ShapeError> {
    let nanos = u64::try_from(span.as_nanos()).ok();
    let nanos = nanos.filter(|_| (least..=YEAR).contains(&span));
    nanos.ok_or(ShapeError::Span { what, span, least })
}

const fn throttled(wait: Span) -> Refused {
    Refused {
        reason: Reason::Throttled,
        retry_after: Some(Duration::from_nanos(wait.nanos())),
    }
}

const EXCEEDS: Refused = Refused {
    reason: Reason::ExceedsBurst,
    retry_after: None,
};
