//! Modes of limits, counters of refusals, and figures for operators.

pub(crate) mod counters;
pub(crate) mod mode_guard;
pub(crate) mod switch;
pub(crate) mod switched;
pub(crate) mod watch;

pub use crate::limiter::shared::{SessionId, Status};
pub use counters::Waits;
pub use switch::{Mode, ModeStats};
pub use switched::Switched;
pub use watch::{Component, ComponentState, ComponentStatus, Figures, Health, Line, Watch};
