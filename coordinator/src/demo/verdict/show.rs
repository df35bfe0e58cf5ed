//! A verdict as text.

use super::ruling::{Ruling, percent};
use super::{Audit, RunVerdict};
use std::fmt::Write;

/// Returns the verdict as text of several lines. The last one is the outcome.
#[must_use]
pub fn show(verdict: &RunVerdict) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write_all(&mut text, verdict);
    text
}

fn write_all(text: &mut String, verdict: &RunVerdict) -> std::fmt::Result {
    for criterion in &verdict.criteria {
        let ruling = word(criterion.ruling);
        let (name, found, wanted) = (criterion.name, &criterion.found, criterion.wanted);
        writeln!(text, "{ruling:<10} {name}: {found} (must be {wanted})")?;
    }
    let (shared, others) = verdict.keys.split_at(verdict.keys.len().min(1));
    if let Some(audit) = shared.first() {
        writeln!(text, "{:<10} {}", "key", line(audit))?;
    }
    if let Some(tightest) = others.iter().min_by(|a, b| a.slack.total_cmp(&b.slack)) {
        let (many, closest) = (others.len(), line(tightest));
        writeln!(text, "{:<10} {many} more; the closest: {closest}", "keys")?;
    }
    if let Some(jain) = verdict.jain {
        let parts = verdict.portions.iter().map(|p| p.admitted / p.expected);
        let least = parts.clone().fold(f64::INFINITY, f64::min);
        let most = parts.fold(0.0, f64::max);
        writeln!(
            text,
            "{:<10} Jain {jain:.4} over {} services; each got {} to {} of its max-min share",
            "fairness",
            verdict.portions.len(),
            percent(least),
            percent(most),
        )?;
    }
    let traffic = verdict
        .requests_per_round_trip
        .zip(verdict.requests_per_message);
    if let Some((round_trip, message)) = traffic {
        writeln!(
            text,
            "{:<10} {round_trip:.1} requests per round trip to the coordinator (a report and its answer), \
             {message:.1} per message of a session, either way",
            "traffic"
        )?;
    }
    writeln!(text, "verdict: {}", word(verdict.outcome))
}

fn line(audit: &Audit) -> String {
    let window = audit
        .window
        .map_or_else(String::new, |window| format!(" over {window:.3} s"));
    format!(
        "{}: {} admitted, {} refused, worst-window slack {:.3} tokens{window}, \
         one bucket that sees all requests: {}",
        audit.key, audit.admitted, audit.refused, audit.slack, audit.omniscient,
    )
}

fn word(ruling: Ruling) -> &'static str {
    match ruling {
        Ruling::Pass => "pass",
        Ruling::Fail => "FAIL",
        Ruling::Unknown => "UNKNOWN",
        Ruling::NotJudged => "not judged",
    }
}
