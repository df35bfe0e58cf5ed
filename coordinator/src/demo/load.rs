//! The offered load: the time of each request, regardless of the answers.
//!
//! The load is open: the time of every request is fixed before the run begins, and late or missing
//! answers do not change it. A request that cannot be sent in time is sent late, and never skipped. Its
//! latency is counted from the time at which it was due.

mod latency;
mod schedule;
mod send;

pub use latency::Latencies;
pub use schedule::{BUSY_TENANTS, Flow, Shot, Shots, flows, skewed, spread, tenants};
pub use send::{Generator, Tally, Target, Totals};
