//! Modes of limits, counters of refusals, and figures for operators.

pub(crate) mod counters;
pub(crate) mod mode_guard;
pub(crate) mod switch;
pub(crate) mod switched;
pub(crate) mod watch;
