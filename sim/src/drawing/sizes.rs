//! Draws the limits that fit recorded requests.

use super::page;
use super::plot::{Line, Plot, escaped};
use crate::sizing::Sized;
use std::fmt::Write;

/// Maximum number of keys that are drawn.
const KEYS: usize = 50;

/// Draws the limits of every key, as one page.
#[must_use]
pub fn sizes(title: &str, says: &str, sized: &[Sized]) -> String {
    let mut body = format!("<h1>{}</h1>\n<p>{}</p>\n", escaped(title), escaped(says));
    for of in sized.iter().take(KEYS) {
        load(&mut body, of);
        front(&mut body, of);
    }
    if sized.len() > KEYS {
        let _ = writeln!(
            body,
            "<p>The busiest {KEYS} of {} keys are drawn.</p>",
            sized.len()
        );
    }
    page(title, &body)
}

/// Plots the tokens asked for per second, and the rate.
fn load(body: &mut String, of: &Sized) {
    const BINS: u64 = 240;
    let length = of.recorded.length();
    let width = (length / BINS).max(1_000_000_000);
    let mut bins = vec![0_u64; (length / width + 1) as usize];
    for request in &of.recorded.requests {
        bins[(request.at / width) as usize] += request.cost;
    }
    let seconds = width as f64 / 1e9;
    let points = bins.iter().enumerate();
    let points = points.map(|(index, tokens)| (index as f64 * seconds, *tokens as f64 / seconds));
    let title = format!("{}: what was asked for", of.recorded.key);
    let mut plot = Plot::new(&title, "tokens per second", length as f64 / 1e9, Vec::new());
    plot.line(Line::new("asked for", 2, points.collect()));
    let rate = of.chosen.rate.tokens_per_second();
    let rate = vec![(0.0, rate), (length as f64 / 1e9, rate)];
    plot.line(Line::new("rate", 1, rate).dashed());
    plot.draw(body);
}

/// Plots the least burst over the rate, and the limit that was chosen.
fn front(body: &mut String, of: &Sized) {
    let points = of.front.iter();
    let points: Vec<(f64, f64)> = points
        .map(|limit| (limit.rate.tokens_per_second(), limit.burst as f64))
        .collect();
    let end = points.last().map_or(1.0, |(rate, _)| rate * 1.05);
    let title = format!("{}: the least burst for each rate", of.recorded.key);
    let mut plot = Plot::new(&title, "tokens", end, Vec::new()).across("/s");
    plot.line(Line::new("least burst of one bucket", 0, points));
    let (rate, burst) = (of.chosen.rate, of.chosen.burst as f64);
    let at = rate.tokens_per_second();
    let name = format!("chosen: {rate} with a burst of {burst}");
    plot.line(Line::new(&name, 3, vec![(at, 0.0), (at, burst)]).dashed());
    plot.draw(body);
}
