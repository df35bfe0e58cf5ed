//! Many events in a short time, acted on once.
//!
//! A **flurry** is a run of values that come one soon after the other: it ends when for
//! [`Rules::quiet`] nothing came and nothing was fired. The rules say what is made of it:
//!
//! | edge | fires |
//! |---|---|
//! | [`Edge::Trailing`] | what came, at the flurry's end |
//! | [`Edge::Leading`] | the first value at once; the rest of the flurry is dropped |
//! | [`Edge::Both`] | the first value at once, and what came after it at the end |
//!
//! With [`Rules::at_most_every`] a flurry that does not end fires meanwhile: so long after it
//! began, or after it fired last. What came is gathered in a [`Batch`]: [`Last`] keeps the last value,
//! a `Vec` all of them, a `BTreeMap` the last of each key. A batch of [`Rules::most`] values fires at once.
//!
//! So, flushing and full batches aside,
//!
//! - two firings are never closer than the quiet time, or the time of `at_most_every` where that is less;
//! - no value waits longer than the time of `at_most_every`, nor than a quiet time after the flurry's last;
//! - with a trailing edge every value is in exactly one batch, or was replaced in it by a later one.
//!
//! [`Debounce`] is the machine: it knows no clock, and fires when it is polled. [`Debouncer`]
//! drives one in a task of its own.

mod machine;
mod task;

pub use machine::{Batch, Debounce, Edge, Last, Rules};
pub use task::{Debouncer, PushError};
