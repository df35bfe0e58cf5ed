//! Central mode of budgets that are too scarce for shares.

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
///             whole < least · claimants, and two claim it
///   divided ──────────────────────────────────────────────► central
///      ▲                                                       │
///      └── divisible for a second, or twice as much as needed ─┘
/// ```
///
/// A whole of zero changes nothing: the budget is being moved here or elsewhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Hash)]
pub(super) struct CentralMode {
    is_central: bool,
    divisible: Option<Tick>,
}

impl CentralMode {
    /// Time for which a budget must have been divisible before it is divided again. Claimants that come and
    /// go within it move nothing.
    const EASE: Span = Span::from_secs(1);

    /// Updates the mode for `whole` units (tokens or permits) that `claimants` want parts of, `least` units
    /// each. Returns true in central mode.
    pub(super) fn look(&mut self, whole: u64, least: u64, claimants: u64, now: Tick) -> bool {
        if whole == 0 {
            return self.is_central;
        }
        let needed = least.saturating_mul(claimants);
        if claimants >= 2 && whole < needed && !planted::is(Bug::SmallBudgetDealt) {
            *self = Self {
                is_central: true,
                divisible: None,
            };
        } else if self.is_central {
            let since = *self.divisible.get_or_insert(now);
            if whole >= needed.saturating_mul(2) || now.since(since) >= Self::EASE {
                *self = Self::default();
            }
        }
        self.is_central
    }

    /// Returns true in central mode.
    pub(super) const fn is_central(&self) -> bool {
        self.is_central
    }

    /// Returns true if time alone will end central mode.
    pub(super) const fn is_easing(&self) -> bool {
        self.is_central && self.divisible.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Tick {
        Tick::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn central_mode_lasts_until_there_was_enough_for_a_second() {
        let mut central_mode = CentralMode::default();
        let steps = [
            (0, 3, 2, false),
            (10, 3, 40, true),
            (20, 3, 3, true),
            (900, 3, 3, true),
            (950, 3, 4, true),
            (1_100, 3, 3, true),
            (2_099, 3, 3, true),
            (2_100, 3, 3, false),
        ];
        for (now, whole, claimants, is_central) in steps {
            assert_eq!(
                central_mode.look(whole, 1, claimants, at(now)),
                is_central,
                "{now}"
            );
        }
    }

    #[test]
    fn a_single_claimant_gets_what_there_is_and_plenty_is_divided_at_once() {
        let mut central_mode = CentralMode::default();
        assert!(!central_mode.look(1, 4, 1, at(0)));
        assert!(central_mode.look(7, 4, 2, at(0)));
        assert!(central_mode.look(0, 4, 0, at(1)));
        assert!(!central_mode.look(16, 4, 2, at(2)));
    }
}
