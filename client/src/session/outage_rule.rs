//! The rule for the keys of a process that has not had a lease yet.

use crate::bucket::BucketDecider;
use crate::session::config::OwnRule;
use aliquot_core::unit::{Span, Tick};

/// Rule of a process that starts while no node can serve it, and whether it applies.
#[derive(Debug)]
pub(super) enum OutageRule {
    /// Applies from this tick on, unless there is a lease before.
    Due(OwnRule, Tick),
    InForce(OwnRule),
    /// There was a lease, or there is no such rule.
    Over,
}

impl OutageRule {
    /// Returns the rule of a session that begins at `now`.
    pub(super) fn of(setting: Option<(OwnRule, Span)>, now: Tick) -> Self {
        match setting {
            Some((rule, after)) => Self::Due(rule, now.after(after)),
            None => Self::Over,
        }
    }

    /// Returns when the rule comes into force, if it is not yet.
    pub(super) const fn due(&self) -> Option<Tick> {
        match self {
            Self::Due(_, at) => Some(*at),
            Self::InForce(_) | Self::Over => None,
        }
    }

    pub(super) const fn is_in_force(&self) -> bool {
        matches!(self, Self::InForce(_))
    }

    /// Brings the rule into force if it is due. Returns true if it was.
    pub(super) fn begins(&mut self, now: Tick) -> bool {
        match *self {
            Self::Due(rule, at) if now >= at => {
                *self = Self::InForce(rule);
                true
            }
            _ => false,
        }
    }

    /// Ends the rule for good. Returns true if it was in force.
    pub(super) const fn ends(&mut self) -> bool {
        let was = self.is_in_force();
        *self = Self::Over;
        was
    }

    /// Lets a decider go by the rule, if it is in force.
    pub(super) fn apply(&self, decider: &mut BucketDecider, now: Tick) {
        if let Self::InForce(rule) = self {
            decider.rule(rule.mode, rule.scale, rule.share, now);
        }
    }
}
