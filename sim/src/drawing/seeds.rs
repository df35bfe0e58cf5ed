//! Draws many seeds as one page: the distribution of the figures, and the worst seeds.

use super::page;
use super::plot::{Line, Plot, escaped};
use crate::judge::{SeedResult, Verdict};
use crate::runner::Summary;
use std::fmt::Write;

/// Maximum number of seeds of a scenario that are drawn by themselves.
const WORST: usize = 5;

/// A scenario with the seeds that are drawn.
#[derive(Clone, Debug)]
pub struct Seeds<'a> {
    /// The results of all seeds.
    pub summary: &'a Summary,
    /// The worst seeds.
    pub worst: Vec<Page>,
}

/// The page of one seed.
#[derive(Clone, Debug)]
pub struct Page {
    /// The seed.
    pub seed: u64,
    /// Name of the page's file, which lies in the folder of the page of all seeds.
    pub file: String,
    /// Drawing of leases, holdings and leaders.
    pub events: String,
}

/// Figures in which a seed may be the worst: name, true if the greatest is, heading.
const FIGURES: [(&str, bool, &str); 5] = [
    ("utilisation", false, "used"),
    ("loss_against_ideal", true, "lost"),
    ("availability", false, "kept"),
    ("recovery", true, "healed"),
    ("slack", false, "slack"),
];

/// Returns the worst seeds: those that failed, those that were not judged, and the worst in each figure.
#[must_use]
pub fn worst(summary: &Summary) -> Vec<u64> {
    let of = |verdict: Verdict| {
        let seeds = summary.seeds.iter();
        seeds
            .filter(move |seed| seed.verdict == verdict)
            .map(|seed| seed.seed)
    };
    let figures = FIGURES.iter();
    let figures = figures.filter_map(|(name, greatest, _)| Some(summary.worst(name, *greatest)?.1));
    let mut worst: Vec<u64> = Vec::new();
    for seed in of(Verdict::Fail).chain(of(Verdict::Unknown)).chain(figures) {
        if worst.len() < WORST && !worst.contains(&seed) {
            worst.push(seed);
        }
    }
    worst
}

/// Draws all seeds of some scenarios.
#[must_use]
pub fn seeds(all: &[Seeds<'_>]) -> String {
    let mut body = String::new();
    let count: usize = all.iter().map(|of| of.summary.seeds.len()).sum();
    let title = match all {
        [one] => one.summary.name.clone(),
        _ => format!("{} scenarios", all.len()),
    };
    let _ = writeln!(
        body,
        "<h1>{} <small>{count} seeds</small></h1>",
        escaped(&title)
    );
    for of in all {
        scenario(&mut body, of, all.len() > 1);
    }
    page(&format!("{title}, {count} seeds"), &body)
}

fn scenario(body: &mut String, of: &Seeds<'_>, named: bool) {
    let summary = of.summary;
    if named {
        let _ = writeln!(body, "<h1>{}</h1>", escaped(&summary.name));
    }
    let _ = writeln!(body, "<p>{}</p>", escaped(&summary.says));
    let verdict = summary.verdict();
    let class = match verdict {
        Verdict::Pass => "pass",
        Verdict::Unknown => "unknown",
        Verdict::Fail => "fail",
    };
    let count = |verdict: Verdict| {
        let seeds = summary.seeds.iter();
        seeds.filter(|seed| seed.verdict == verdict).count()
    };
    let _ = writeln!(
        body,
        "<p><span class=\"{class}\">{}</span>: {} seeds passed, {} failed, {} could not be judged</p>",
        verdict.word(),
        count(Verdict::Pass),
        count(Verdict::Fail),
        count(Verdict::Unknown),
    );
    for missed in &summary.missed {
        let _ = writeln!(body, "<p class=\"fail\">{}</p>", escaped(missed));
    }
    distribution(
        body,
        summary,
        "utilisation",
        "Used: part of the limit that was used",
    );
    distribution(
        body,
        summary,
        "loss_against_ideal",
        "Lost: part of what one ideal limiter would have admitted in addition",
    );
    table(body, of);
    for page in &of.worst {
        let _ = writeln!(
            body,
            "<h2 id=\"{}\">Seed <a href=\"{}\">{}</a></h2>\n{}",
            escaped(&page.file),
            escaped(&page.file),
            page.seed,
            page.events
        );
    }
}

/// Plots the number of seeds over the value of a figure, in per cent.
fn distribution(body: &mut String, summary: &Summary, name: &str, title: &str) {
    const BINS: usize = 20;
    let values = summary.seeds.iter();
    let values: Vec<f64> = values
        .filter_map(|seed| Some(100.0 * seed.figures.get(name)?))
        .collect();
    let least = values.iter().copied().reduce(f64::min);
    let most = values.iter().copied().reduce(f64::max);
    let (Some(least), Some(most)) = (least, most) else {
        return;
    };
    let (begin, end) = (least.floor(), most.ceil().max(least.floor() + 1.0));
    let width = (end - begin) / BINS as f64;
    let mut bins = [0_u32; BINS];
    for value in &values {
        let bin = ((value - begin) / width) as usize;
        bins[bin.min(BINS - 1)] += 1;
    }
    let mut outline = vec![(begin, 0.0)];
    for (index, seeds) in bins.iter().enumerate() {
        let (from, seeds) = (begin + index as f64 * width, f64::from(*seeds));
        outline.extend([(from, seeds), (from + width, seeds)]);
    }
    outline.push((end, 0.0));
    let highest = f64::from(bins.iter().copied().max().unwrap_or(0));
    let mut plot = Plot::new(title, "seeds", end, Vec::new())
        .across("%")
        .from(begin);
    plot.line(Line::new("seeds", 0, outline).filled());
    if let Some(median) = summary.median(name).map(|median| 100.0 * median) {
        let name = format!("median {median:.2} %, from {least:.2} % to {most:.2} %");
        plot.line(Line::new(&name, 1, vec![(median, 0.0), (median, highest)]).dashed());
    }
    plot.draw(body);
}

fn table(body: &mut String, of: &Seeds<'_>) {
    let seeds = of.summary.seeds.iter();
    let page = |seed: &SeedResult| of.worst.iter().find(|page| page.seed == seed.seed);
    let mut drawn: Vec<(&SeedResult, &Page)> =
        seeds.filter_map(|seed| Some((seed, page(seed)?))).collect();
    // As they were chosen: the worst first.
    drawn.sort_by_key(|(seed, _)| of.worst.iter().position(|page| page.seed == seed.seed));
    body.push_str("<h2>The worst seeds</h2>\n<table>\n<tr><th>seed</th><th>verdict</th>");
    for (.., heading) in FIGURES {
        let _ = write!(body, "<th>{heading}</th>");
    }
    body.push_str("<th>first failure</th></tr>\n");
    for (seed, page) in drawn {
        let _ = write!(
            body,
            "<tr><td><a href=\"{}\">{}</a></td><td>{}</td>",
            escaped(&page.file),
            seed.seed,
            seed.verdict.word()
        );
        for (name, ..) in FIGURES {
            let worst = is_worst(of.summary, name, seed.seed);
            let text = seed.figures.get(name).map(|value| shown(name, *value));
            let text = text.unwrap_or_else(|| "-".to_owned());
            let _ = match worst {
                true => write!(body, "<td><strong>{text}</strong></td>"),
                false => write!(body, "<td>{text}</td>"),
            };
        }
        let problem = seed.failures.iter().chain(&seed.doubts).next();
        let problem = problem.map_or("", String::as_str);
        let _ = writeln!(body, "<td>{}</td></tr>", escaped(problem));
    }
    body.push_str("</table>\n<p>Bold: the worst of all seeds. Each number of a seed leads to its own page.</p>\n");
}

fn is_worst(summary: &Summary, name: &str, seed: u64) -> bool {
    let figure = FIGURES.iter().find(|(known, ..)| *known == name);
    let worst = figure.and_then(|(name, greatest, _)| summary.worst(name, *greatest));
    worst.is_some_and(|(_, worst)| worst == seed) && summary.seeds.len() > 1
}

fn shown(name: &str, value: f64) -> String {
    match name {
        "recovery" => format!("{value:.2} s"),
        "slack" => format!("{value:.2}"),
        _ => format!("{:.2} %", 100.0 * value),
    }
}
