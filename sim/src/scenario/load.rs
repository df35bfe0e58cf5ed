//! `[[clients]]`: groups of clients and their load.

use super::fields::{Fields, rate};
use super::format::LOADS;
use super::skew::ManyKeys;
use aliquot_core::budget::{Key, Labels};
use std::path::Path;
use std::sync::Arc;

/// The load of a client over time.
///
/// Rates are in requests per second, instants and durations in nanoseconds of true time. "The rate" is
/// [`Group::rate`].
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// The rate, always.
    Constant,
    /// From the rate to `to`, linearly, between `at` and `at + over`.
    Ramp {
        /// The final rate.
        to: f64,
        /// Begin of the ramp.
        at: u64,
        /// Duration of the ramp.
        over: u64,
    },
    /// The rate until `at`, then `to`.
    Step {
        /// The rate after the step.
        to: f64,
        /// Time of the step.
        at: u64,
    },
    /// `to` from `at` for `over`, otherwise the rate.
    Spike {
        /// The rate during the spike.
        to: f64,
        /// Begin of the spike.
        at: u64,
        /// Duration of the spike.
        over: u64,
    },
    /// A sine wave around the rate, with the amplitude `swing` and the period `over`.
    Sine {
        /// The amplitude, as a fraction of the rate.
        swing: f64,
        /// The period.
        over: u64,
    },
    /// The rate for `on`, then nothing for `off`, in turns from `at` on. Nothing before `at`.
    OnOff {
        /// Duration of the load in each turn.
        on: u64,
        /// Duration of the silence in each turn.
        off: u64,
        /// Begin of the first turn.
        at: u64,
    },
    /// A jump from the rate to `to` at `at`, which decays exponentially.
    FlashCrowd {
        /// The peak.
        to: f64,
        /// Time of the jump.
        at: u64,
        /// Time constant: after it, 37 % of the jump is left.
        over: u64,
    },
    /// The rate on average, with heavy-tailed gaps between requests.
    Pareto {
        /// Exponent of the tail, above 1.
        alpha: f64,
    },
    /// A random walk: every `over`, the rate changes by up to the fraction `swing` of itself.
    Walk {
        /// Maximum change, as a fraction of the present rate.
        swing: f64,
        /// Interval between changes.
        over: u64,
    },
    /// A sequence of times, each with the rate from then on.
    Trace(Vec<(u64, f64)>),
    /// The times of recorded requests, in order, of which the clients of the group take each the next. No scenario
    /// file has it, and only the kernel tier runs it.
    Arrivals(Arc<[u64]>),
}

/// The call by which callers ask their client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// The client decides alone.
    TryAcquire,
    /// If the client has no tokens, a node may decide.
    Check,
    /// The same, and the caller waits until it is admitted.
    Acquire,
}

impl Verb {
    /// Returns the verb as a scenario file writes it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::TryAcquire => "try_acquire",
            Self::Check => "check",
            Self::Acquire => "acquire",
        }
    }

    fn read(fields: &Fields<'_>, closed: bool) -> Self {
        match fields.maybe_word("verb").as_deref() {
            Some("try_acquire") => Self::TryAcquire,
            Some("acquire") => Self::Acquire,
            None if closed => Self::Acquire,
            _ => Self::Check,
        }
    }
}

/// A group of service instances.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Name of the group; its clients are `name-1`, `name-2`, …
    pub name: String,
    /// Number of clients.
    pub count: usize,
    /// Zone of the clients, if the file names one.
    pub zone: Option<String>,
    /// The node that the clients connect to first, numbered from 0, if the file names one.
    pub home: Option<usize>,
    /// The key that the clients use, or the pattern of their keys; the first budget's if `None`.
    pub key: Option<String>,
    /// The keys of that pattern, if the clients use many.
    pub keys: Option<ManyKeys>,
    /// The key of another budget of which each request needs as much, if the file names one.
    pub also: Option<String>,
    /// Labels of the clients, by which budgets give them weights and bands.
    pub labels: Labels,
    /// The shape of the load.
    pub shape: Shape,
    /// Requests per second and client.
    pub rate: f64,
    /// Factor that is applied to all rates of the load.
    pub times: f64,
    /// If true, requests arrive at regular intervals; otherwise at random.
    pub in_step: bool,
    /// Delay of the first request.
    pub phase: u64,
    /// Number of callers of a closed loop, per client; `None` for an open loop.
    pub flows: Option<u64>,
    /// The call by which callers ask.
    pub verb: Verb,
    /// Maximum number of callers of an open loop that wait at each client; 0 unless they `acquire`.
    pub waiting: u64,
    /// Tokens per request.
    pub cost: u64,
    /// Mean time for which a permit is held.
    pub hold: u64,
    /// True time at which the processes start.
    pub start: u64,
    /// True time at which callers stop.
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
        let word = fields.word("loop");
        let closed = word == "closed";
        match word.as_str() {
            "closed" => fields.refuse_unused("a closed loop", &["waiting"], &["flows"]),
            "open" => fields.refuse_unused("an open loop", &["flows"], &["verb", "waiting"]),
            _ => {}
        }
        let verb = Verb::read(fields, closed);
        if closed && verb != Verb::Acquire {
            fields.refuse(
                "verb",
                "must be acquire in a closed loop: its callers wait until they are admitted",
            );
        }
        if !closed && verb != Verb::Acquire {
            fields.refuse_unused("a caller that does not `acquire`", &["waiting"], &["verb"]);
        }
        let flows = closed.then(|| fields.whole("flows"));
        Self {
            name: fields.maybe_word("name").unwrap_or_else(usual),
            count: fields.whole("count") as usize,
            zone: fields.maybe_word("zone"),
            home: number.flatten(),
            key: fields.maybe_word("key"),
            keys: ManyKeys::read(fields),
            also: fields.maybe_word("also"),
            labels: fields.labels("labels"),
            shape: Shape::read(fields, beside),
            rate: fields.number("rate"),
            times: fields.number("times"),
            in_step: fields.word("arrivals") == "constant",
            phase: fields.nanos("phase"),
            flows,
            verb,
            waiting: match verb {
                Verb::Acquire if !closed => fields.whole("waiting"),
                _ => 0,
            },
            cost: fields.whole("cost").max(1),
            hold: fields.nanos("hold"),
            start: fields.nanos("start"),
            stop: fields.maybe_nanos("stop").unwrap_or(u64::MAX),
        }
    }
}

impl Group {
    /// Returns the first key of a group. `pattern` is its key, or the pattern of its keys.
    pub(crate) fn first_key(&self, pattern: &str) -> Option<Key> {
        let text = match self.keys {
            Some(_) => pattern.replacen('*', "0", 1),
            None => pattern.to_owned(),
        };
        Key::try_from(text.as_str()).ok()
    }

    /// Returns the time until which the group sends no requests, if it is silent now and that time is known.
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

/// The keys of a load that have an effect on some shapes only.
pub(crate) const KEYS: &[&str] = &[
    "to", "at", "over", "on", "off", "swing", "alpha", "points", "trace",
];

/// Returns those of a shape.
fn keys(shape: &str) -> &'static [&'static str] {
    match shape {
        "ramp" | "spike" | "flash_crowd" => &["to", "at", "over"],
        "step" => &["to", "at"],
        "sine" | "walk" => &["swing", "over"],
        "pareto" => &["alpha"],
        "on_off" => &["on", "off", "at"],
        "trace" => &["points", "trace"],
        _ => &[],
    }
}

impl Shape {
    fn read(fields: &Fields<'_>, beside: Option<&Path>) -> Self {
        let word = fields.word("shape");
        if LOADS.contains(&word.as_str()) {
            fields.refuse_unused(&word, KEYS, keys(&word));
        }
        let rate = fields.number("rate");
        let to = fields.maybe_number("to").unwrap_or(rate);
        let (at, over) = (fields.nanos("at"), fields.nanos("over"));
        let swing = fields.number("swing");
        if matches!(word.as_str(), "ramp" | "step" | "spike" | "flash_crowd") && !fields.has("to") {
            fields.refuse(
                "to",
                format!("is missing: the rate that a {word} reaches, such as \"1000/s\""),
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
    let mut points: Vec<(u64, f64)> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let next = point(line).filter(|next| points.last().is_none_or(|last| last.0 < next.0));
        let Some(next) = next else {
            let number = index + 1;
            fields.refuse(
                "trace",
                format!(
                    "line {number} of the file is {:?}: must be `seconds,rate` such as `1.5,300`, up to 86400 seconds \
                     and 10M a second, times rising",
                    line.trim()
                ),
            );
            return Vec::new();
        };
        points.push(next);
    }
    if points.is_empty() {
        fields.refuse(
            "trace",
            "must have lines of `seconds,rate`, such as `1.5,300`",
        );
    }
    points
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

/// Returns the number of the node `n1`, `n2`, …, counted from 0.
pub(super) fn node_number(name: &str) -> Option<usize> {
    let number: usize = name.strip_prefix('n')?.parse().ok()?;
    number.checked_sub(1)
}
