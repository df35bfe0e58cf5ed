//! Shared pieces of the tests that look at Aliquot from the outside, and the tidy rules.

pub mod fleet;
pub mod tidy;
