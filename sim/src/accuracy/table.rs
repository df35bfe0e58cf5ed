//! The parts of a table: columns, rows, windows and goals.

use std::collections::BTreeMap;

/// The goal of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Goal {
    /// No goal: the figure is printed and not judged.
    Reported,
    AtLeast(f64),
    AtMost(f64),
}

/// The unit in which a figure is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// A multiple of the limit, with two digits.
    OfLimit,
    /// Per cent, with one digit.
    PerCent,
    /// Seconds, with one digit.
    Seconds,
    /// A whole number.
    Count,
    /// A number with three digits.
    Index,
    /// Bytes per second and client, printed as KB/s.
    PerClient,
}

/// A column of a table: one figure for every row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    pub(super) heading: &'static str,
    /// The figure's name, as `Figures::figure` takes it.
    pub(super) name: &'static str,
    pub(super) unit: Unit,
    /// The window and the goal, in rows that do not override them.
    pub(super) look: Look,
}

/// The window of a figure, in seconds, and its goal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    pub(super) from: f64,
    pub(super) to: Option<f64>,
    pub(super) goal: Goal,
}

/// One scenario of the document.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) scenario: &'static str,
    pub(super) says: &'static str,
    pub(super) published: &'static str,
    /// A remark on the row; if a goal is missed, the reason.
    pub(super) short: &'static str,
    /// Overrides of a column's window and goal, by the column's heading.
    pub(super) but: &'static [(&'static str, Look)],
}

/// A table of the document: heading, introduction, columns and rows.
pub(super) struct Table {
    pub(super) heading: &'static str,
    pub(super) says: &'static str,
    /// Every row runs with the seeds `0..seeds`.
    pub(super) seeds: u64,
    /// True if the rows run on the network tier too, for the first column: they have few hosts.
    pub(super) real: bool,
    pub(super) columns: &'static [Column],
    pub(super) rows: &'static [Row],
}

impl Table {
    /// Returns the columns; the first one is the last one too if the rows run on the network tier.
    pub(super) fn all_columns(&self) -> impl Iterator<Item = &'static Column> + use<> {
        let again = self.columns.first().filter(|_| self.real);
        self.columns.iter().chain(again)
    }

    /// Returns the window and the goal of each column in this row.
    pub(super) fn windows<'a>(&'a self, row: &'a Row) -> impl Iterator<Item = Look> + 'a {
        self.all_columns().map(|column| {
            let other = row.but.iter().find(|(of, _)| *of == column.heading);
            other.map_or(column.look, |(_, look)| *look)
        })
    }
}

/// The worst value of every figure, by scenario. `None` if some seed had no such value.
pub(super) type Results = BTreeMap<&'static str, Vec<Option<f64>>>;

impl Goal {
    /// Returns the figure as text, and whether it reaches the goal. The rounded text is what is compared,
    /// since the published figures are rounded as well.
    pub(super) fn judge(self, unit: Unit, value: Option<f64>) -> (String, bool) {
        let Some(value) = value else {
            return ("-".into(), self == Self::Reported);
        };
        let (scale, digits, name) = match unit {
            Unit::OfLimit => (1.0, 2, " R"),
            Unit::PerCent => (100.0, 1, " %"),
            Unit::Seconds => (1.0, 1, " s"),
            Unit::Count => (1.0, 0, ""),
            Unit::Index => (1.0, 3, ""),
            Unit::PerClient => (1e-3, 2, " KB/s"),
        };
        let text = format!("{:.digits$}", value * scale);
        // Adding 0.0 turns -0.0 into 0.0, so that a zero is printed without a sign.
        let rounded = text.parse::<f64>().unwrap_or(f64::NAN) + 0.0;
        let text = format!("{rounded:.digits$}");
        let holds = match self {
            Self::Reported => true,
            Self::AtLeast(least) => rounded >= least * scale - 1e-9,
            Self::AtMost(most) => rounded <= most * scale + 1e-9,
        };
        (format!("{text}{name}"), holds)
    }
}

pub(super) const REPORTED: Goal = Goal::Reported;

pub(super) const fn at_least(value: f64) -> Goal {
    Goal::AtLeast(value)
}

pub(super) const fn at_most(value: f64) -> Goal {
    Goal::AtMost(value)
}

/// From `from` seconds to the end of the run.
pub(super) const fn from(from: f64, goal: Goal) -> Look {
    Look {
        from,
        to: None,
        goal,
    }
}

/// From `from` to `to`, in seconds.
pub(super) const fn within(from: f64, to: f64, goal: Goal) -> Look {
    Look {
        from,
        to: Some(to),
        goal,
    }
}

pub(super) const fn column(
    heading: &'static str,
    name: &'static str,
    unit: Unit,
    look: Look,
) -> Column {
    Column {
        heading,
        name,
        unit,
        look,
    }
}

/// Tokens above the envelope in the whole run; always 0.
pub(super) const EXCESS: Column = column("excess", "excess", Unit::Count, from(0.0, at_most(0.0)));
pub(super) const MESSAGES: Column =
    column("messages", "messages", Unit::Count, from(0.0, REPORTED));
pub(super) const LOG: Column = column("log", "entries", Unit::Index, from(0.0, REPORTED));

/// A row without overrides and without a remark.
pub(super) const fn row(
    scenario: &'static str,
    says: &'static str,
    published: &'static str,
) -> Row {
    Row {
        scenario,
        says,
        published,
        short: "",
        but: &[],
    }
}

impl Row {
    pub(super) const fn but(self, but: &'static [(&'static str, Look)]) -> Self {
        Self { but, ..self }
    }

    pub(super) const fn note(self, short: &'static str) -> Self {
        Self { short, ..self }
    }
}
