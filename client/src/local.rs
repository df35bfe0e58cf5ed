//! Limits of this process that are more than a bucket: many keys, windows and spacing, adaptive limits, circuit
//! breakers, and debouncing.

pub mod adaptive;
pub mod breaker;
pub mod debounce;
pub mod keyed;
pub mod shape;
