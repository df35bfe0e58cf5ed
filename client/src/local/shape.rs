//! Limits other than a token bucket.
//!
//! | shape | admits, over any window of length `W`, at most | cost |
//! |---|---|---|
//! | [`Limiter`](crate::Limiter), a token bucket | `burst + rate · W` | – |
//! | [`Meter`], a leaky bucket as a meter | `capacity + leak · W` | the same algorithm, seen from the other side |
//! | [`Pacer`], a leaky bucket as a queue | one per interval | callers wait, in a queue of a fixed length |
//! | [`FixedWindow`] | `limit` in each window of the clock's grid, `2 · limit` in any | – |
//! | [`SlidingLog`] | `limit`, exactly | 16 bytes of memory times `limit` |
//! | [`SlidingCounter`] | `limit + prev · f`, where a part `f` of the present window has passed and `prev` were admitted in the last one; so less than `2 · limit` | assumes that the admissions of the last window were spread evenly |
//! | [`Permits`](crate::Limiter::local_permits) | `limit` in flight at any instant, plus what is released in the window | callers must release |
//!
//! No decision takes a lock or allocates. Each method has a twin that takes the time as an argument. A
//! reading behind an earlier one admits nothing that the earlier one would not.
//!
//! # Over a share
//!
//! Buckets, meters, windows and pacers are [`Combine`](crate::combined::Combine)s: combined with a leased limiter
//! in [`Combined`](crate::Combined), both must admit, so that the fleet keeps to the budget and each process to the
//! shape. Among others a [`Pacer`] admits only what is due now, because combined limits do not wait. Permits cannot
//! be combined, because they are held rather than taken: there a limiter of permits refuses with
//! [`Reason::WrongKind`].
//!
//! A window can apply to the whole fleet ([`FixedWindow::over`], [`SlidingCounter::over`],
//! [`SlidingLog::over`]). With `N` the burst of a rate budget, all processes together admit in any window, on
//! whichever clocks, what the table says for `limit = N`. A process may use the part of its share that it has
//! held for a whole window, so that what another process has used is not used again. The price is that a new
//! process waits for one window before it admits anything. Windows are measured by the processes' clocks. A
//! window on the calendar's grid is a budget of the kind *quota* and needs no shape.
//!
//! A [`Meter`] over a leased limiter applies to the fleet as it is. So do permits, as a budget of the kind
//! *concurrency*.
//!
//! A [`Pacer`] over a leased limiter ([`Pacer::over`]) spaces the turns of this process by its part of the
//! rate. The fleet keeps to the rate in the long run. But turns of two processes may coincide, and turns that
//! are booked keep their ticks when the rate moves to another process. So over any `t` there are at most
//! `R · t` turns, plus one for each process, plus `queue + 1` for each time that the part of a process was
//! reduced.

mod amount;
mod counter;
mod fixed;
mod log;
mod meter;
mod pacer;
#[cfg(test)]
#[path = "../../tests/unit/local/shape/tests.rs"]
mod tests;

pub use counter::SlidingCounter;
pub use fixed::FixedWindow;
pub use log::SlidingLog;
pub use meter::Meter;
pub use pacer::{Pacer, Turn};

#[cfg(doc)]
use crate::limiter::refused::Reason;
use std::time::Duration;

/// The reason why a shape cannot be created or changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShapeError {
    /// The limit is out of range.
    #[error("limit: {limit}; 1 to {most} are allowed")]
    Limit {
        /// The value given.
        limit: u64,
        /// Maximum value.
        most: u64,
    },
    /// The window, or the interval, is out of range.
    #[error("{what}: {span:?}; {least:?} to a year are allowed")]
    Span {
        /// Name of the setting.
        what: &'static str,
        /// The value given.
        span: Duration,
        /// Minimum value.
        least: Duration,
    },
    /// The shape was to follow a share, but the limiter is local.
    #[error("a shape over a share needs a leased limiter; this one is local")]
    NotLeased,
    /// The limit is a share of a budget; it is changed at the coordinator.
    #[error("this shape follows a leased limit: change its budget at the coordinator")]
    Shared,
}

const YEAR: Duration = Duration::from_secs(366 * 86_400);

/// Checks that a limit is between one and `most`.
const fn limit_of(limit: u64, most: u64) -> Result<u64, ShapeError> {
    if limit == 0 || limit > most {
        return Err(ShapeError::Limit { limit, most });
    }
    Ok(limit)
}

/// Converts a span between `least` and a year to nanoseconds.
pub(crate) fn span_of(
    what: &'static str,
    span: Duration,
    least: Duration,
) -> Result<u64, ShapeError> {
    let nanos = u64::try_from(span.as_nanos()).ok();
    let nanos = nanos.filter(|_| (least..=YEAR).contains(&span));
    nanos.ok_or(ShapeError::Span { what, span, least })
}

/// Takes as many of `n` as `left` says that there are, and returns how many. Another thread may take them first; a
/// few tries are enough, because what it took is less to take here.
fn take_what_is_left(n: u64, left: impl Fn() -> u64, take: impl Fn(u64) -> bool) -> u64 {
    const TRIES: usize = 8;
    for _ in 0..TRIES {
        let part = n.min(left());
        if part == 0 || take(part) {
            return part;
        }
    }
    0
}
