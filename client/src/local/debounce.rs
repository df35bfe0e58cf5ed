//! Debouncing: many events in a short time, acted on once.
//!
//! A **flurry** is a run of values in quick succession. It ends after no value came and no batch was fired
//! for [`Rules::quiet`]. The rules decide when it fires:
//!
//! | edge | fires |
//! |---|---|
//! | [`Edge::Trailing`] | the values, at the end of the flurry |
//! | [`Edge::Leading`] | the first value at once; the rest of the flurry is dropped |
//! | [`Edge::Both`] | the first value at once, and the later values at the end |
//!
//! With [`Rules::at_most_every`], a flurry that does not end also fires that long after it began, or after it
//! last fired. Values are collected in a [`Batch`]: [`Last`] keeps the last value, a `Vec` all values, a
//! `BTreeMap` the last value of each key. A batch of [`Rules::max_batch`] values fires at once.
//!
//! Except for flushes and full batches:
//!
//! - The time between two firings is at least the quiet time, or that of `at_most_every` if it is less.
//! - A value waits no longer than `at_most_every`, nor longer than a quiet time after the last value of the
//!   flurry.
//! - With a trailing edge, every value is in exactly one batch, or was replaced in it by a later value.
//!
//! [`Debounce`] is the pure state machine: it reads no clock, and fires when it is polled. [`Debouncer`] runs
//! one in a task of its own.

mod machine;
mod task;

pub use machine::{Batch, Debounce, Edge, Last, Rules};
pub use task::{Debouncer, PushError};
