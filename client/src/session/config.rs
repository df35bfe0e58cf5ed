//! The settings of a session.

use crate::bucket::AdmissionMode;
use crate::bucket::limit::Limit;
use aliquot_core::budget::Labels;
use aliquot_core::share::Share;
use aliquot_core::unit::{Scale, Span};

/// Decides requests for keys without a budget: those that no budget matches
/// ([`ClientBuilder::default_rule`](crate::ClientBuilder::default_rule)), and those of a process that has not had a
/// lease yet ([`ClientBuilder::outage_rule`](crate::ClientBuilder::outage_rule)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DefaultRule {
    /// Refuses them, as [`NoBudget`](crate::Reason::NoBudget) if a node said that no budget matches, and as
    /// [`Cold`](crate::Reason::Cold) while no node has said anything.
    #[default]
    Deny,
    /// Admits all of them.
    Allow,
    /// Admits up to a limit of this process, whatever other processes admit. Each key has its own bucket.
    ///
    /// It is not known whether the key counts permits. So a permit costs one token, which is not returned when the
    /// permit is dropped.
    Local {
        /// Tokens per time span.
        limit: Limit,
        /// Maximum number of tokens at once; the bucket starts full.
        burst: u64,
    },
}

/// A rule of this process as deciders apply it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnRule {
    pub(crate) mode: AdmissionMode,
    pub(crate) scale: Scale,
    /// All tokens of a local limit; empty otherwise.
    pub(crate) share: Share,
}

impl OwnRule {
    /// Returns a rule without a limit of its own.
    pub(crate) const fn without_limit(mode: AdmissionMode) -> Self {
        Self {
            mode,
            scale: Scale::WHOLE,
            share: Share::EMPTY,
        }
    }
}

impl DefaultRule {
    /// Returns the rule in its own fixed point, or the reason why it is invalid. `denied` is the mode of
    /// [`DefaultRule::Deny`].
    pub(crate) fn own_rule(self, denied: AdmissionMode) -> Result<OwnRule, String> {
        let (limit, burst) = match self {
            Self::Deny => return Ok(OwnRule::without_limit(denied)),
            Self::Allow => return Ok(OwnRule::without_limit(AdmissionMode::Open)),
            Self::Local { limit, burst } => (limit, burst),
        };
        if limit.per_span().is_none() {
            return Err("a local rule needs a rate; `DefaultRule::Allow` admits everything".into());
        }
        // As exact as a limiter of this process: rounding could cost a full bucket one of its few tokens.
        let fitted = limit.fit(burst, None).map_err(|error| error.to_string())?;
        Ok(OwnRule {
            mode: AdmissionMode::Forever,
            scale: fitted.scale,
            share: fitted.share(),
        })
    }
}

/// Settings of a session.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) addresses: Vec<String>,
    pub(crate) labels: Labels,
    /// The rule for keys that no budget matches.
    pub(crate) default_rule: OwnRule,
    /// The rule while there was no lease, and the time from the start after which it applies; `None` refuses.
    pub(crate) outage_rule: Option<(OwnRule, Span)>,
    /// True if the session asks its node for the addresses of the cluster's members.
    pub(crate) wants_members: bool,
}

/// Report interval until a node sets another one.
pub(crate) const REPORT_EVERY: Span = Span::from_millis(200);

/// Checks that a text is `host:port`. Returns the reason why it is not.
pub(super) fn is_address(text: &str) -> Result<(), String> {
    let parsed = text.parse::<http::uri::Authority>();
    let parsed = parsed.map_err(|error| error.to_string())?;
    match parsed.port() {
        Some(_) => Ok(()),
        None => Err("it has no port".into()),
    }
}
