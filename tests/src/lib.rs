//! Shared pieces of the tests that look at Aliquot from the outside.

pub mod fleet;
pub mod tidy;
