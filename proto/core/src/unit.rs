//! Units as types, with checked arithmetic.
//!
//! Nothing here wraps, and nothing saturates upwards, except waits. An operation that would leave the range
//! returns `None` or [`UnitError`], because a saturated sum would create tokens somewhere else.

mod amount;
mod band;
mod name;
mod scale;
mod time;
mod weight;

pub use amount::{Rate, Tokens};
pub use band::Band;
pub use name::{
    BudgetId, Edge, Incarnation, NodeId, Number, PeriodId, RequestId, Round, RuleId, Seq, Term,
};
pub use scale::{Frequency, Scale};
pub use time::{Drift, Span, Tick};
pub use weight::Weight;

pub(crate) use scale::time_to_make;
pub(crate) use time::NANOS_PER_SEC;

use core::fmt;

/// Reason why a quantity could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum UnitError {
    /// The result would not fit the unit's range. Nothing was changed.
    OutOfRange {
        /// The quantity that would have left its range.
        what: &'static str,
    },
    /// A value that must be at least one was zero.
    Zero {
        /// The quantity that was zero.
        what: &'static str,
    },
}

impl fmt::Display for UnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfRange { what } => write!(f, "{what} is out of range"),
            Self::Zero { what } => write!(f, "{what} must be at least 1"),
        }
    }
}

impl core::error::Error for UnitError {}

/// Divides wide integers, rounding up. `divisor` must not be zero.
pub(crate) const fn div_ceil(dividend: u128, divisor: u128) -> u128 {
    dividend.div_ceil(divisor)
}

/// Returns `a · b ÷ c`, rounded down, if it fits 64 bits.
pub(crate) fn mul_div_floor(a: u64, b: u64, c: u64) -> Option<u64> {
    let product = u128::from(a).checked_mul(u128::from(b))?;
    u64::try_from(product.checked_div(u128::from(c))?).ok()
}

/// Returns `a · b ÷ c`, rounded up, if it fits 64 bits.
pub(crate) fn mul_div_ceil(a: u64, b: u64, c: u64) -> Option<u64> {
    if c == 0 {
        return None;
    }
    let product = u128::from(a).checked_mul(u128::from(b))?;
    u64::try_from(div_ceil(product, u128::from(c))).ok()
}
