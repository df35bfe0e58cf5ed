//! One plot: axes, lines or lanes, and bands behind them.

use crate::timeline::Timeline;
use std::fmt::Write;

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 200.0;
const LEFT: f64 = 64.0;
const BOTTOM: f64 = 20.0;
const LANE: f64 = 18.0;

/// Escapes a text for HTML.
pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// A line through points of seconds and values.
#[derive(Debug)]
pub(super) struct Line {
    name: String,
    colour: usize,
    points: Vec<(f64, f64)>,
    dashed: bool,
    filled: bool,
}

impl Line {
    pub(super) fn new(name: &str, colour: usize, points: Vec<(f64, f64)>) -> Self {
        Self {
            name: name.to_owned(),
            colour: colour % 8,
            points,
            dashed: false,
            filled: false,
        }
    }

    pub(super) const fn dashed(mut self) -> Self {
        self.dashed = true;
        self
    }

    /// Fills the area under the line.
    pub(super) const fn filled(mut self) -> Self {
        self.filled = true;
        self
    }

    fn class(&self) -> String {
        let dashed = if self.dashed { " dashed" } else { "" };
        let filled = if self.filled { " filled" } else { "" };
        format!("mark c{}{dashed}{filled}", self.colour)
    }
}

/// A plot, usually over time.
#[derive(Debug)]
pub(super) struct Plot {
    title: String,
    unit: &'static str,
    /// Unit of the horizontal axis.
    across: &'static str,
    begin: f64,
    end: f64,
    bands: Vec<(f64, f64, String)>,
    lines: Vec<Line>,
    lanes: Vec<(String, Vec<(f64, f64)>)>,
}

impl Plot {
    pub(super) fn new(
        title: &str,
        unit: &'static str,
        end: f64,
        bands: Vec<(f64, f64, String)>,
    ) -> Self {
        Self {
            title: title.to_owned(),
            unit,
            across: "s",
            begin: 0.0,
            end: end.max(1e-9),
            bands,
            lines: Vec::new(),
            lanes: Vec::new(),
        }
    }

    /// Returns an empty plot over the time of a run, with its faults as bands.
    pub(super) fn of(title: &str, unit: &'static str, timeline: &Timeline) -> Self {
        let seconds = |nanos: u64| nanos as f64 / 1e9;
        let faults = timeline.faults.iter();
        let bands = faults.map(|(from, to, what)| (seconds(*from), seconds(*to), what.clone()));
        Self::new(title, unit, seconds(timeline.ends.1), bands.collect())
    }

    /// Sets the unit of the horizontal axis, which is seconds otherwise.
    pub(super) const fn across(mut self, unit: &'static str) -> Self {
        self.across = unit;
        self
    }

    /// Sets the begin of the horizontal axis, which is 0 otherwise. It must be below the end.
    pub(super) const fn from(mut self, begin: f64) -> Self {
        self.begin = begin;
        self
    }

    pub(super) fn line(&mut self, line: Line) {
        self.lines.push(line);
    }

    pub(super) fn lane(&mut self, name: &str, spans: Vec<(f64, f64)>) {
        self.lanes.push((name.to_owned(), spans));
    }

    fn x(&self, at: f64) -> f64 {
        let part = (at - self.begin) / (self.end - self.begin);
        LEFT + (WIDTH - LEFT) * part.clamp(0.0, 1.0)
    }

    fn height(&self) -> f64 {
        if self.lanes.is_empty() {
            HEIGHT
        } else {
            LANE * self.lanes.len() as f64
        }
    }

    pub(super) fn draw(&self, body: &mut String) {
        let height = self.height();
        let (title, unit) = (escaped(&self.title), self.unit);
        let _ = writeln!(body, "<h2>{title} <small>{unit}</small></h2>");
        self.legend(body);
        let _ = writeln!(
            body,
            "<svg class=\"plot\" viewBox=\"0 0 {WIDTH} {}\" role=\"img\" aria-label=\"{}\">",
            height + BOTTOM,
            escaped(&self.title)
        );
        for (from, to, what) in &self.bands {
            let (from, width) = (self.x(*from), (self.x(*to) - self.x(*from)).max(1.5));
            let _ = writeln!(
                body,
                "<rect class=\"band\" x=\"{from:.1}\" y=\"0\" width=\"{width:.1}\" height=\"{height}\"><title>{}</title></rect>",
                escaped(what)
            );
        }
        for at in round_steps(self.begin, self.end, 8.0) {
            let (x, y) = (self.x(at), height + 14.0);
            let anchor = if x > WIDTH - 20.0 { "end" } else { "middle" };
            let _ = writeln!(
                body,
                "<text x=\"{x:.1}\" y=\"{y}\" text-anchor=\"{anchor}\">{} {}</text>",
                shown(at),
                self.across
            );
        }
        if self.lanes.is_empty() {
            self.draw_lines(body, height);
        }
        for (index, (name, spans)) in self.lanes.iter().enumerate() {
            let y = index as f64 * LANE;
            let _ = writeln!(
                body,
                "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 8.0,
                y + 13.0,
                escaped(name)
            );
            for (from, to) in spans {
                let (from, width) = (self.x(*from), (self.x(*to) - self.x(*from)).max(1.0));
                let _ = writeln!(
                    body,
                    "<rect class=\"lane\" x=\"{from:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"{:.1}\"/>",
                    y + 3.0,
                    LANE - 6.0
                );
            }
        }
        body.push_str("</svg>\n");
    }

    fn legend(&self, body: &mut String) {
        if self.lines.is_empty() {
            return;
        }
        body.push_str("<p class=\"legend\">");
        for line in &self.lines {
            let _ = write!(
                body,
                "<span><svg viewBox=\"0 0 24 10\"><path class=\"{}\" d=\"M0 5H24\"/></svg> {}</span>",
                line.class(),
                escaped(&line.name)
            );
        }
        body.push_str("</p>\n");
    }

    fn draw_lines(&self, body: &mut String, height: f64) {
        let values = || {
            self.lines
                .iter()
                .flat_map(|line| line.points.iter().map(|(_, value)| *value))
        };
        let (low, high) = (values().fold(0.0, f64::min), values().fold(0.0, f64::max));
        let range = if high > low { high - low } else { 1.0 };
        let y = |value: f64| height - (value - low) / range * (height - 8.0);
        for value in round_steps(low, low + range, 4.0) {
            let at = y(value);
            let _ = writeln!(
                body,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{WIDTH}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>"
            );
            let _ = writeln!(
                body,
                "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 8.0,
                at + 4.0,
                shown(value)
            );
        }
        for line in &self.lines {
            let mut path = String::new();
            for (index, (at, value)) in line.points.iter().enumerate() {
                let verb = if index == 0 { 'M' } else { 'L' };
                let _ = write!(path, "{verb}{:.1} {:.1}", self.x(*at), y(*value));
            }
            let _ = writeln!(body, "<path class=\"{}\" d=\"{path}\"/>", line.class());
        }
    }
}

/// Returns about `about` round numbers from `low` to `high`, at a step of 1, 2, 5 or 10 times a power of ten.
fn round_steps(low: f64, high: f64, about: f64) -> impl Iterator<Item = f64> {
    let rough = ((high - low) / about).max(1e-9);
    let ten = 10_f64.powf(rough.log10().floor());
    let factors = [1.0, 2.0, 5.0, 10.0];
    let factor = factors.into_iter().find(|factor| factor * ten >= rough);
    let step = factor.unwrap_or(10.0) * ten;
    let (first, last) = (
        (low / step).ceil() as i64,
        (high / step + 1e-9).floor() as i64,
    );
    (first..=last).map(move |index| index as f64 * step)
}

/// Formats a number with few digits and without trailing zeros.
fn shown(value: f64) -> String {
    match value.abs() {
        large if large >= 10_000.0 => format!("{}k", (value / 100.0).round() / 10.0),
        _ => format!("{}", (value * 1e3).round() / 1e3),
    }
}
