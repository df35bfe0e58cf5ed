//! A link that is being closed.

use crate::session::transport::Link;
use aliquot_core::unit::{Edge, Tick};

/// A link that was given up before it was in use, until the session that it opened is closed.
#[derive(Debug)]
pub(super) struct ClosingLink {
    pub(super) link: Link,
    pub(super) edge: Option<Edge>,
    pub(super) until: Tick,
}
