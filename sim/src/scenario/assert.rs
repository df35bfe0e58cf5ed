//! `[[assert]]`: assertions in addition to the invariants.

use super::fields::{Bound, Fields};
use super::format::{METRICS, PARTS, RATES, SECONDS};

/// The subject of an assertion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// An invariant, by name, which must not be broken in the window.
    Never(String),
    /// A figure at the end of the healing phase.
    AfterHeal(&'static str),
    /// A figure over the window.
    Metric(&'static str),
    /// A mark, which some seed must hit.
    Sometimes(String),
}

/// One assertion.
#[derive(Clone, Debug, PartialEq)]
pub struct Assert {
    /// The subject.
    pub what: What,
    /// The lower bound, inclusive.
    pub at_least: Option<Bound>,
    /// The upper bound, inclusive.
    pub at_most: Option<Bound>,
    /// Begin of the window, in nanoseconds of true time.
    pub from: u64,
    /// End of the window.
    pub to: u64,
    /// Name of a client group; if set, only its clients count.
    pub group: Option<String>,
    /// The key whose figures count; the first budget's if `None`.
    pub key: Option<String>,
    /// The assertion in words, for messages.
    pub says: String,
}

impl Assert {
    pub(super) fn read(fields: &Fields<'_>, duration: u64, marks: &[&str]) -> Option<Self> {
        let named = ["never", "after_heal", "metric", "sometimes"];
        let written: Vec<&str> = named.into_iter().filter(|name| fields.has(name)).collect();
        let [name] = written[..] else {
            fields.refuse(
                "metric",
                format!("exactly one of {} is required", named.join(", ")),
            );
            return None;
        };
        let word = fields.maybe_word(name)?;
        let metric = || METRICS.iter().find(|known| **known == word).copied();
        let what = match name {
            "never" => What::Never(word.clone()),
            "after_heal" => What::AfterHeal(metric()?),
            "metric" => What::Metric(metric()?),
            _ if marks.contains(&word.as_str()) => What::Sometimes(word.clone()),
            _ => {
                let near = aliquot_budgets::nearest(&word, marks.iter().copied());
                let near = near.map_or(String::new(), |near| format!("; did you mean {near:?}?"));
                fields.refuse(name, format!("there is no such mark{near}"));
                return None;
            }
        };
        let all = ["at_least", "at_most", "from", "to", "group", "key"];
        let used: &[&str] = match name {
            "metric" => &all,
            "after_heal" => &["at_least", "at_most", "group", "key"],
            "never" => &["from", "to"],
            _ => &[],
        };
        fields.refuse_unused(name, &all, used);
        let (at_least, at_most) = (fields.bound("at_least"), fields.bound("at_most"));
        let figure = matches!(what, What::AfterHeal(_) | What::Metric(_));
        if let What::AfterHeal(metric) | What::Metric(metric) = what {
            check_bounds(fields, metric, [at_least, at_most]);
        }
        if figure && !fields.has("at_least") && !fields.has("at_most") {
            fields.refuse("at_least", "a figure needs at_least, at_most or both");
            return None;
        }
        let (from, to) = (
            fields.nanos("from"),
            fields.maybe_nanos("to").unwrap_or(duration),
        );
        if from >= to {
            fields.refuse("from", "must be before the window's end");
        }
        Some(Self {
            says: said(name, &word, fields),
            what,
            at_least,
            at_most,
            from,
            to,
            group: fields.maybe_word("group"),
            key: fields.maybe_word("key"),
        })
    }
}

fn said(name: &str, word: &str, fields: &Fields<'_>) -> String {
    let mut said = match name {
        "metric" => word.to_owned(),
        name => format!("{name} {word}"),
    };
    for key in ["at_least", "at_most", "from", "to", "group", "key"] {
        let Some(text) = fields.as_written(key) else {
            continue;
        };
        match key {
            "from" | "to" => {
                let nanos = fields.nanos(key) as f64 / 1e9;
                said.push_str(&format!(" {key} {nanos}s"));
            }
            _ => said.push_str(&format!(" {} {text}", key.replace('_', " "))),
        }
    }
    said
}

/// Reports bounds of another kind than the figure, and bounds that contradict each other.
fn check_bounds(fields: &Fields<'_>, metric: &str, bounds: [Option<Bound>; 2]) {
    let is_part = PARTS.contains(&metric);
    let is_span = SECONDS.contains(&metric);
    let is_rate = RATES.contains(&metric);
    let allowed = match () {
        () if is_part => "a part from \"0%\" to \"100%\", or a number from 0 to 1",
        () if is_span => "a span such as \"3s\", or a number of seconds",
        () if is_rate => "a number, or times the rate such as \"0.99 R\"",
        () => "a number",
    };
    for (name, bound) in ["at_least", "at_most"].into_iter().zip(bounds) {
        let fits = match bound {
            None => true,
            Some(Bound::Plain(number)) => !is_part || (0.0..=1.0).contains(&number),
            Some(Bound::Part(_)) => is_part,
            Some(Bound::Seconds(_)) => is_span,
            Some(Bound::OfRate(_)) => is_rate,
        };
        if !fits {
            fields.refuse(name, format!("must be {allowed} for {metric}"));
        }
    }
    let value = |bound: Bound| match bound {
        Bound::Plain(value) | Bound::Part(value) | Bound::Seconds(value) => (value, false),
        Bound::OfRate(value) => (value, true),
    };
    if let [Some(least), Some(most)] = bounds.map(|bound| bound.map(value))
        && least.1 == most.1
        && least.0 > most.0
    {
        fields.refuse("at_least", "must not be more than at_most");
    }
}
