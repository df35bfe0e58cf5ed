//! Limits as the rules write them: requests per unit of time.

use aliquot_core::budget::{BudgetDraft, Written, grammar};
use std::time::Duration;

/// Unit of time of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// One second.
    Second,
    /// 60 seconds.
    Minute,
    /// 60 minutes.
    Hour,
    /// 24 hours.
    Day,
    /// 7 days.
    Week,
    /// 30 days, as in the reference server.
    Month,
    /// 365 days, as in the reference server.
    Year,
}

impl Unit {
    /// Names, and the numbers of Envoy's messages.
    const ALL: [(Self, &'static str, i32); 7] = [
        (Self::Second, "second", 1),
        (Self::Minute, "minute", 2),
        (Self::Hour, "hour", 3),
        (Self::Day, "day", 4),
        (Self::Week, "week", 7),
        (Self::Month, "month", 5),
        (Self::Year, "year", 6),
    ];

    /// Returns the unit with that name, in small or capital letters.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let mut all = Self::ALL.iter();
        let found = all.find(|(_, known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(unit, _, _)| *unit)
    }

    /// Returns the unit of a number in a message.
    #[must_use]
    pub fn numbered(number: i32) -> Option<Self> {
        let mut all = Self::ALL.iter();
        let found = all.find(|(_, _, known)| *known == number);
        found.map(|(unit, _, _)| *unit)
    }

    /// Returns the name.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.entry().1
    }

    /// Returns the number in a message.
    #[must_use]
    pub fn number(self) -> i32 {
        self.entry().2
    }

    /// Returns the length.
    #[must_use]
    pub const fn length(self) -> Duration {
        Duration::from_secs(match self {
            Self::Second => 1,
            Self::Minute => 60,
            Self::Hour => 3_600,
            Self::Day => 86_400,
            Self::Week => 7 * 86_400,
            Self::Month => 30 * 86_400,
            Self::Year => 365 * 86_400,
        })
    }

    fn entry(self) -> (Self, &'static str, i32) {
        let mut all = Self::ALL.iter();
        *all.find(|(unit, _, _)| *unit == self)
            .unwrap_or(&Self::ALL[0])
    }
}

/// Requests per unit of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitLimit {
    /// Number of requests; 0 admits none.
    pub requests: u32,
    /// Unit.
    pub unit: Unit,
    /// Number of units that make one window; at least 1.
    pub units: u32,
}

impl UnitLimit {
    /// Returns the length of a window.
    #[must_use]
    pub const fn window(self) -> Duration {
        self.unit.length().saturating_mul(self.units)
    }

    /// Returns the unit of the quotas that this limit is, or `None` if it is a rate. What is too slow for a rate is a
    /// quota.
    pub(super) fn quota_per(self, counting: Counting) -> Option<Unit> {
        let fast_enough = grammar::frequency(&self.rate()).is_some();
        let calendar = counting == Counting::Calendar && self.unit != Unit::Second;
        (calendar || !fast_enough).then_some(self.unit)
    }

    /// Returns the budget of this limit under a key.
    pub(super) fn draft(self, key: String, counting: Counting) -> BudgetDraft {
        let mut draft = BudgetDraft {
            key,
            ..BudgetDraft::default()
        };
        match self.quota_per(counting) {
            Some(unit) => {
                let quota = format!("{} per {}", self.requests, unit.name());
                draft.quota = Some(Written::Text(quota));
            }
            None => {
                draft.rate = Some(Written::Text(self.rate()));
                draft.burst = Some(Written::Whole(self.requests.into()));
            }
        }
        draft
    }

    fn rate(self) -> String {
        let per = match self.unit {
            _ if self.units > 1 => format!("{}s", self.window().as_secs()),
            Unit::Second => "s".into(),
            Unit::Minute => "m".into(),
            Unit::Hour => "h".into(),
            unit => match unit.length().as_secs() / 86_400 {
                1 => "d".into(),
                days => format!("{days}d"),
            },
        };
        format!("{}/{per}", self.requests)
    }
}

/// Meaning of a limit per unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Counting {
    /// A rate, of which one unit's worth can be saved: in any window of one unit, at most twice the limit, and in the
    /// long run never more than the limit.
    #[default]
    Rate,
    /// A quota of each minute, hour, day, week, month or year of the calendar, in UTC. Limits per second stay rates.
    Calendar,
}

#[cfg(test)]
#[path = "../../../tests/unit/rls/rules/limit.rs"]
mod tests;
