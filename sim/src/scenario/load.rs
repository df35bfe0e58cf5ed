//! `[[clients]]`: who asks, when, and how much.

use super::fields::{Fields, rate};
use std::path::Path;

/// How the load of a client changes over time. Rates are requests per second,
/// instants and spans nanoseconds of true time.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// Always the same.
    Constant,
    /// From the rate to `to` between `at` and `at + over`.
    Ramp {
        /// Where it goes.
        to: f64,
        /// When it begins.
        at: u64,
        /// How long it takes.
        over: u64,
    },
    /// The rate until `at`, then `to`.
    Step {
        /// What it becomes.
        to: f64,
        /// When.
        at: u64,
    },
    /// `to` from `at` for `over`, else the rate.
    Spike {
        /// What it becomes.
        to: f64,
        /// When.
        at: u64,
        /// How long.
        over: u64,
    },
    /// Around the rate, by `swing` of it, in periods of `over`.
    Sine {
        /// The part of the rate that it moves by.
        swing: f64,
        /// The period.
        over: u64,
    },
    /// The rate for `on`, nothing for `off`, from `at` on.
    OnOff {
        /// How long it is on.
        on: u64,
        /// How long it is off.
        off: u64,
        /// When it is first on.
        at: u64,
    },
    /// A jump from the rate to `to` at `at` that dies down with the time `over`.
    FlashCrowd {
        /// The peak.
        to: f64,
        /// When.
        at: u64,
        /// The time in which it falls to 37 %.
        over: u64,
    },
    /// The rate on average, with gaps of a heavy tail.
    Pareto {
        /// The tail's exponent, above 1.
        alpha: f64,
    },
    /// Every `over` it moves by up to `swing` of itself, up or down.
    Walk {
        /// The part of itself that it moves by.
        swing: f64,
        /// How often.
        over: u64,
    },
    /// The rate from each instant on.
    Trace(Vec<(u64, f64)>),
}

/// A group of service instances.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Its name; its clients are `name-1`, `name-2`, …
    pub name: String,
    /// How many.
    pub count: usize,
    /// Their zone, if one is named.
    pub zone: Option<String>,
    /// The node they go to first, from 0, if one is named.
    pub home: Option<usize>,
    /// The key they ask for, if it is not the first budget's.
    pub key: Option<String>,
    /// How the load changes.
    pub shape: Shape,
    /// Requests per second and client.
    pub rate: f64,
    /// Every rate is so many times what is written.
    pub times: f64,
    /// Whether requests come in step.
    pub in_step: bool,
    /// How much later the first one comes.
    pub phase: u64,
    /// Callers of a closed loop; `None` for an open one.
    pub flows: Option<u64>,
    /// So many wait at each client.
    pub waiting: u64,
    /// Tokens per request.
    pub cost: u64,
    /// How long permits are held, on average.
    pub hold: u64,
    /// When the processes start.
    pub start: u64,
    /// When callers stop.
    pub stop: u64,
}

impl Group {
    pub(super) fn read(fields: &Fields<'_>, index: usize, beside: Option<&Path>) -> Self {
        let usual = || match index {
            0 => "c".to_owned(),
            _ => format!("c{}", index + 1),
        };
        let home = fields.maybe_word("home");
        let number = home.as_deref().map(node_number);
        if number == Some(None) {
            fields.refuse("home", "must be a node, such as n1");
        }
        Self {
            name: fields.maybe_word("name").unwrap_or_else(usual),
            count: fields.whole("count") as usize,
            zone: fields.maybe_word("zone"),
            home: number.flatten(),
            key: fields.maybe_word("key"),
            shape: Shape::read(fields, beside),
            rate: fields.number("rate"),
            times: fields.number("times"),
            in_step: fields.word("arrivals") == "constant",
            phase: fields.nanos("phase"),
            flows: (fields.word("loop") == "closed").then(|| fields.whole("flows")),
            waiting: fields.whole("waiting"),
            cost: fields.whole("cost").max(1),
            hold: fields.nanos("hold"),
            start: fields.nanos("start"),
            stop: fields.maybe_nanos("stop").unwrap_or(u64::MAX),
        }
    }
}

impl Group {
    /// Until when nobody asks, if that is known.
    pub(crate) const fn silent_until(&self, now: u64) -> Option<u64> {
        match self.shape {
            Shape::OnOff { at, .. } if now < at => Some(at),
            Shape::OnOff { on, off, at } => {
                let turn = on + off;
                let within = (now - at) % if turn == 0 { 1 } else { turn };
                if within < on {
                    None
                } else {
                    Some(now - within + turn)
                }
            }
            _ => None,
        }
    }
}

impl Shape {
    fn read(fields: &Fields<'_>, beside: Option<&Path>) -> Self {
        let word = fields.word("shape");
        let rate = fields.number("rate");
        let to = fields.maybe_number("to").unwrap_or(rate);
        let (at, over) = (fields.nanos("at"), fields.nanos("over"));
        let swing = fields.number("swing");
        if matches!(word.as_str(), "ramp" | "step" | "spike" | "flash_crowd") && !fields.has("to") {
            fields.refuse(
                "to",
                format!("is missing: where a {word} goes, such as \"1000/s\""),
            );
        }
        if matches!(word.as_str(), "sine" | "walk" | "flash_crowd" | "ramp") && over == 0 {
            fields.refuse("over", format!("must be more than 0s for a {word}"));
        }
        match word.as_str() {
            "ramp" => Self::Ramp { to, at, over },
            "step" => Self::Step { to, at },
            "spike" => Self::Spike { to, at, over },
            "sine" => Self::Sine { swing, over },
            "on_off" => Self::OnOff {
                on: fields.nanos("on"),
                off: fields.nanos("off"),
                at,
            },
            "flash_crowd" => Self::FlashCrowd { to, at, over },
            "pareto" => Self::Pareto {
                alpha: fields.number("alpha"),
            },
            "walk" => Self::Walk { swing, over },
            "trace" => Self::Trace(trace(fields, beside)),
            _ => Self::Constant,
        }
    }
}

fn trace(fields: &Fields<'_>, beside: Option<&Path>) -> Vec<(u64, f64)> {
    let Some(file) = fields.maybe_word("trace") else {
        let points = fields.points("points");
        if points.is_empty() && !fields.has("points") {
            fields.refuse(
                "points",
                "is missing: a trace needs `points`, or a file as `trace`",
            );
        }
        return points;
    };
    let Some(path) = beside.map(|beside| beside.join(&file)) else {
        fields.refuse(
            "trace",
            "must be written as `points`: this scenario has no folder",
        );
        return Vec::new();
    };
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) => {
            fields.refuse("trace", format!("cannot be read: {error}"));
            return Vec::new();
        }
    };
    let points: Option<Vec<_>> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .map(point)
        .collect();
    let rising = |points: &Vec<(u64, f64)>| points.windows(2).all(|pair| pair[0].0 < pair[1].0);
    match points.filter(rising) {
        Some(points) if !points.is_empty() => points,
        _ => {
            fields.refuse(
                "trace",
                "must have lines of `seconds,rate`, times rising, such as `1.5,300`",
            );
            Vec::new()
        }
    }
}

fn point(line: &str) -> Option<(u64, f64)> {
    let (at, per_second) = line.split_once(',')?;
    let at: f64 = at.trim().parse().ok()?;
    let per_second = match per_second.trim().parse::<f64>() {
        Ok(number) => number,
        Err(_) => rate(per_second.trim())?,
    };
    let fits = (0.0..=86_400.0).contains(&at) && (0.0..=1e7).contains(&per_second);
    fits.then_some(((at * 1e9) as u64, per_second))
}

/// The number from 0 of the node `n1`, `n2`, …
pub(super) fn node_number(name: &str) -> Option<usize> {
    let number: usize = name.strip_prefix('n')?.parse().ok()?;
    number.checked_sub(1)
}
