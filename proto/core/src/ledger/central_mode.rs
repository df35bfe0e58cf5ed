//! Central mode: of budgets that are too scarce for shares, and of single children with small parts.

use crate::central::SMALL_BURST;
use crate::planted::{self, Bug};
use crate::unit::{Span, Tick};

/// Treatment of a budget in central mode, by level of the parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CentralPlacement {
    /// The parent grants nothing but floors, and decides the requests itself. For the parent of clients.
    Here,
    /// The parent grants everything to one child, the key's home: the one that holds most of it already. For
    /// the parent of nodes.
    Home,
}

impl CentralPlacement {
    /// Returns the number of whole tokens of burst per claimant below which a rate budget is in central mode.
    ///
    /// A client with one token can serve a waiting request without loss. A node serves many clients, each at
    /// its own time. With a single token it would lose the tokens made while no client asks (a quarter, at
    /// three times the rate). With four it loses next to nothing.
    #[must_use]
    pub const fn least_burst(self) -> u64 {
        match self {
            Self::Here => 1,
            Self::Home => 4,
        }
    }
}

/// Central mode of one budget, with hysteresis. `is_central` is true in central mode.
///
/// ```text
///             whole < needed = least · claimants, and two claim it
///   divided ──────────────────────────────────────────────────────► central
///      ▲                                                               │
///      └────── divisible for a second, or twice as much as needed ─────┘
/// ```
///
/// A cost that waits is a part that its claimant needs at least, until none has waited for two seconds. If
/// the burst was moved from one such cost to the next instead, most of what the rate makes would be lost on
/// the way, and claimants of little would get nothing meanwhile.
///
/// A whole of zero changes nothing: the budget is being moved here or elsewhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Hash)]
pub(super) struct CentralMode {
    is_central: bool,
    divisible: Option<Tick>,
    /// The largest cost that waited lately and is too large for equal parts, and when one waited last.
    large: Option<(u64, Tick)>,
}

/// The claims on a budget, as far as they decide about central mode.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Claims {
    /// Number of claimants that want some.
    pub(super) wanting: u64,
    /// The least number of tokens or permits that a part is of use with.
    pub(super) least: u64,
    /// The largest cost that waits; zero if it does not matter here.
    pub(super) waiting: u64,
}

impl CentralMode {
    /// Time for which a budget must have been divisible before it is divided again. Claimants that come and
    /// go within it move nothing.
    const EASE: Span = Span::from_secs(1);

    /// Time for which a large cost counts after it was served: the next one may come as soon.
    const LARGE: Span = Span::from_secs(2);

    /// Updates the mode for `whole` units (tokens or permits). Returns true in central mode.
    pub(super) fn look(&mut self, whole: u64, claims: Claims, now: Tick) -> bool {
        if whole == 0 {
            return self.is_central;
        }
        let lately = self.large.filter(|(_, at)| now.since(*at) < Self::LARGE);
        let before = lately.map_or(0, |(cost, _)| cost);
        // A cost above the whole is never served.
        let waits =
            claims.waiting <= whole && claims.waiting.saturating_mul(claims.wanting) > whole;
        self.large = match waits && !planted::is(Bug::LargeCostsChased) {
            true => Some((claims.waiting.max(before), now)),
            false => lately,
        };
        let large = self.large.map_or(0, |(cost, _)| cost);
        let needed = claims.least.max(large).saturating_mul(claims.wanting);
        if claims.wanting >= 2 && whole < needed && !planted::is(Bug::SmallBudgetDealt) {
            self.is_central = true;
            self.divisible = None;
        } else if self.is_central {
            let since = *self.divisible.get_or_insert(now);
            if whole >= needed.saturating_mul(2) || now.since(since) >= Self::EASE {
                *self = Self::default();
            }
        } else {
            self.large = None;
        }
        self.is_central
    }

    /// Returns true in central mode.
    pub(super) const fn is_central(&self) -> bool {
        self.is_central
    }

    /// Returns true if time alone will end central mode.
    pub(super) const fn is_easing(&self) -> bool {
        self.is_central && (self.divisible.is_some() || self.large.is_some())
    }
}

/// Rule for a child's part of a rate that is too small to serve requests that come by chance.
///
/// A part of few tokens of burst overflows whenever its callers pause: with one token, and half as much again
/// wanted as the part makes, two fifths of it are lost. Parts that stay together at the parent overflow only
/// if all callers pause. A child whose callers may wait for a round trip shows that by asking, and its part
/// then stays at the parent. The part of a child that does not ask is left alone. A part is small, too, for a
/// cost that waits and exceeds it: what is collected for that cost stays at the parent, which can serve the
/// next one from there. A parent that has nothing yet changes nothing: the budget is being moved to it, and its
/// children wait for their parts instead of asking a parent that can only refuse.
///
/// ```text
///             asked, and the part is small, and another child asks too
///   held by the child ─────────────────────────────────────────────────► at the parent
///          ▲                                                                   │
///          └────── not asked for five seconds, or the part is twice as large ──┘
/// ```
#[derive(Clone, Copy, Debug)]
pub(super) struct SmallPart {
    /// The planned burst, in whole tokens.
    pub(super) burst: u64,
    /// True if the parent has any burst to divide.
    pub(super) has_whole: bool,
    /// The largest cost that waits at the child, in whole tokens.
    pub(super) waiting: u64,
    /// True if the part is at the parent now.
    pub(super) is_central: bool,
    /// Time at which the child last asked.
    pub(super) asked: Option<Tick>,
}

impl SmallPart {
    /// Time for which a child counts as one that asks: several gaps between requests of a child with a small part.
    pub(super) const RECENT: Span = Span::from_secs(5);

    /// Interval at which it is noted that a child goes on asking.
    pub(super) const NOTED: Span = Span::from_secs(1);

    /// Returns true if the child asked lately.
    pub(super) fn is_recent(asked: Option<Tick>, now: Tick) -> bool {
        asked.is_some_and(|at| now.since(at) < Self::RECENT)
    }

    /// Returns true if the part stays at the parent, where `requesters` children have asked lately.
    pub(super) fn stays(self, requesters: usize, now: Tick) -> bool {
        let most = match self.is_central {
            true => SMALL_BURST.saturating_mul(2),
            false => SMALL_BURST,
        };
        let small = self.burst < most && requesters >= 2 && !planted::is(Bug::SmallPartsDealt);
        let large = self.waiting > self.burst && !planted::is(Bug::LargeCostsChased);
        let stays = match self.has_whole {
            true => small || large,
            false => self.is_central,
        };
        stays && Self::is_recent(self.asked, now)
    }
}

#[cfg(test)]
#[path = "../../tests/unit/ledger/central_mode.rs"]
mod tests;
