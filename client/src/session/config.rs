//! The settings of a session.

use crate::bucket::limit::Limit;
use aliquot_core::budget::Labels;
use aliquot_core::share::Share;
use aliquot_core::unit::{Scale, Span};

/// Decides requests for keys that no budget matches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DefaultRule {
    /// Refuses them as [`NoBudget`](crate::Reason::NoBudget).
    #[default]
    Deny,
    /// Admits all of them.
    Allow,
    /// Admits up to a limit of this process, whatever other processes admit.
    Local {
        /// Tokens per time span.
        limit: Limit,
        /// Maximum number of tokens at once; the bucket starts full.
        burst: u64,
    },
}

/// Settings of a session.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) addresses: Vec<String>,
    pub(crate) labels: Labels,
    pub(crate) default_rule: DefaultRule,
    /// True if the session asks its node for the addresses of the cluster's members.
    pub(crate) wants_members: bool,
    /// The local share of the default rule, if it has one.
    pub(crate) local: (Scale, Share),
}

/// Report interval until a node sets another one.
pub(crate) const REPORT_EVERY: Span = Span::from_millis(200);
