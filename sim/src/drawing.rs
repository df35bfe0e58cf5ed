//! Draws a seed, or many, as one self-contained HTML file, readable in light and in dark mode.

mod events;
mod plot;
mod seeds;
#[cfg(feature = "network")]
mod sizes;

#[cfg(feature = "network")]
pub use sizes::sizes;

pub use events::part_of as events_of;
pub use seeds::{Page, Seeds, seeds, worst};

use crate::observer::RunResult;
use crate::plan::Plan;
use crate::scenario::Scenario;
use crate::timeline::{BIN, KeyTimeline, Timeline};
use plot::{Line, Plot, escaped};
use std::fmt::Write;

const STYLE: &str = include_str!("drawing/style.css");

/// Maximum number of clients that are drawn as lines of their own.
const CLIENTS: usize = 8;

/// Draws a seed that was run.
#[must_use]
pub fn html(scenario: &Scenario, plan: &Plan, result: &RunResult) -> String {
    let timeline = &result.timeline;
    let mut body = String::new();
    let drift = f64::from(plan.scenario.lease.drift.ppm()) / 1e6;
    heading(&mut body, scenario, plan, result);
    for key in &timeline.keys {
        admitted(&mut body, key, timeline);
        // Several keys have an envelope each.
        if !key.is_many() {
            envelope(&mut body, key, timeline, drift);
        }
        shares(&mut body, key, timeline, &plan.scenario);
    }
    events::draw(&mut body, timeline, plan.scenario.topology.nodes);
    skews(&mut body, timeline);
    faults(&mut body, timeline);
    page(&format!("{} seed {}", scenario.name, plan.seed), &body)
}

/// Wraps a body in a page that needs nothing from elsewhere.
fn page(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<link rel=\"icon\" href=\"data:,\">\n\
         <title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n{body}</main>\n</body>\n</html>\n",
        escaped(title),
    )
}

fn heading(body: &mut String, scenario: &Scenario, plan: &Plan, result: &RunResult) {
    let says = scenario.run.says.as_deref().unwrap_or_default();
    let _ = writeln!(
        body,
        "<h1>{} <small>seed {}</small></h1>\n<p>{}</p>",
        escaped(&scenario.name),
        plan.seed,
        escaped(says)
    );
    let (class, word) = if result.breaches.is_empty() {
        ("pass", "no invariant was broken")
    } else {
        ("fail", "broken")
    };
    let _ = writeln!(body, "<p class=\"{class}\">{word}</p>\n<ul>");
    for breach in result.breaches.iter().chain(&result.allowed) {
        let _ = writeln!(body, "<li>{}</li>", escaped(&breach.to_string()));
    }
    let slack = result
        .slack
        .map_or_else(|| "none".to_owned(), |slack| format!("{slack:.3} tokens"));
    let recovery = result.recovery.map_or_else(
        || "-".to_owned(),
        |nanos| format!("{:.2} s", nanos as f64 / 1e9),
    );
    let _ = writeln!(
        body,
        "<li>least slack under the envelope: {slack}</li>\n<li>recovered after: {recovery}</li>\n\
         <li>{} events, {} messages, {} entries of the log, {} faults that took effect</li>\n</ul>",
        result.events,
        result.timeline.traffic.messages,
        result.timeline.traffic.entries,
        result.timeline.faults.len(),
    );
}

/// Returns a quantity of the bins as rates per second, averaged over half a second.
fn rates(key: &KeyTimeline, of: impl Fn(&crate::timeline::Bin) -> f64) -> Vec<(f64, f64)> {
    const BINS: usize = 5;
    let per_second = 1e9 / BIN as f64 / BINS as f64;
    let chunks = key.bins.chunks(BINS).enumerate();
    chunks
        .map(|(index, bins)| {
            let at = (index * BINS) as f64 * BIN as f64 / 1e9;
            (at, bins.iter().map(&of).sum::<f64>() * per_second)
        })
        .collect()
}

fn admitted(body: &mut String, key: &KeyTimeline, timeline: &Timeline) {
    let mut plot = Plot::of(
        &format!("{}: what was asked for, and what was admitted", key.key),
        "per second",
        timeline,
    );
    plot.line(Line::new("demand", 2, rates(key, |bin| bin.offered as f64)));
    plot.line(Line::new(
        "one ideal bucket",
        3,
        rates(key, |bin| bin.ideal),
    ));
    plot.line(Line::new(
        "admitted",
        0,
        rates(key, |bin| bin.admitted as f64),
    ));
    let limit = key.bins.iter().step_by(5).enumerate();
    let limit = limit.map(|(index, bin)| (index as f64 / 2.0, bin.rate));
    plot.line(Line::new("limit", 1, limit.collect()).dashed());
    plot.draw(body);
}

/// Plots the tokens left under the envelope at the end of each bin.
///
/// This is the level of a bucket that is filled at `(1 + ρ) · R` and charged by every admission. A negative
/// level means that the envelope is broken.
fn envelope(body: &mut String, key: &KeyTimeline, timeline: &Timeline, drift: f64) {
    if !key.is_rate {
        return;
    }
    let mut level = key.bins.first().map_or(0.0, |bin| bin.burst);
    let (mut left, mut most) = (Vec::new(), Vec::new());
    for (index, bin) in key.bins.iter().enumerate() {
        let made = (1.0 + drift) * bin.rate * BIN as f64 / 1e9;
        level = (level + made - bin.admitted as f64).min(bin.burst);
        let at = (index + 1) as f64 * BIN as f64 / 1e9;
        left.push((at, level));
        most.push((at, bin.burst));
    }
    let mut plot = Plot::of(
        &format!("{}: what was left under the envelope", key.key),
        "tokens, in steps of 100 ms",
        timeline,
    );
    plot.line(Line::new("the burst", 1, most).dashed());
    plot.line(Line::new("left", 0, left));
    plot.draw(body);
}

fn shares(body: &mut String, key: &KeyTimeline, timeline: &Timeline, scenario: &Scenario) {
    let index = timeline.keys.iter().position(|known| known.key == key.key);
    let mut names = scenario
        .clients
        .iter()
        .flat_map(|group| (1..=group.count).map(move |number| format!("{}-{number}", group.name)));
    let mut plot = Plot::of(
        &format!(
            "{}: what each client was given (the first {CLIENTS})",
            key.key
        ),
        "per second",
        timeline,
    );
    let mut drawn = 0;
    for (client, of) in timeline.clients.iter().enumerate() {
        let name = names.next().unwrap_or_default();
        if timeline.key_of.get(client).copied() != index || drawn == CLIENTS {
            continue;
        }
        let points = of
            .iter()
            .enumerate()
            .map(|(second, (_, admitted))| (second as f64 + 0.5, f64::from(*admitted)));
        plot.line(Line::new(&name, drawn, points.collect()));
        drawn += 1;
    }
    plot.draw(body);
}

fn skews(body: &mut String, timeline: &Timeline) {
    let mut plot = Plot::of("Drift of the clocks since the first second", "ms", timeline);
    for (index, (name, skews)) in timeline.skews.iter().enumerate().take(CLIENTS) {
        let points = skews
            .iter()
            .enumerate()
            .map(|(second, nanos)| (second as f64 + 1.0, *nanos as f64 / 1e6));
        plot.line(Line::new(name, index, points.collect()));
    }
    plot.draw(body);
}

fn faults(body: &mut String, timeline: &Timeline) {
    if timeline.faults.is_empty() {
        return;
    }
    let _ = writeln!(
        body,
        "<h2>Faults that took effect</h2>\n<table>\n<tr><th>from</th><th>to</th><th>what</th></tr>"
    );
    for (from, to, what) in &timeline.faults {
        let (from, to) = (*from as f64 / 1e9, *to as f64 / 1e9);
        let _ = writeln!(
            body,
            "<tr><td>{from:.2} s</td><td>{to:.2} s</td><td>{}</td></tr>",
            escaped(what)
        );
    }
    body.push_str("</table>\n");
}
