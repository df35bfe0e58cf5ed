//! The part of a budget that a limiter may use.

/// The part of a budget that a limiter may use, in grains, the smallest unit in which the budget is counted.
///
/// All parts of one budget have the same grain, so their sum is exact. [`Snapshot`](super::Snapshot) has the
/// same amounts in whole tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allotment {
    /// Grains per second; zero for kinds other than rates.
    pub rate: u64,
    /// Grains of burst, or the number of permits.
    pub burst: u64,
    /// Grains that are available now.
    pub tokens: u64,
}
