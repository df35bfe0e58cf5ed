//! Messages under way: lost, held, delayed or doubled as the script says.

use aliquot_core::message::{Answer, Report, Verdict};
use std::collections::BTreeMap;

#[derive(Clone)]
pub(super) enum Body {
    Report(Report),
    Answer(Answer),
}

impl Body {
    fn text(&self) -> String {
        match self {
            Self::Report(report) => format!("report {} of {}", report.seq, report.edge),
            Self::Answer(answer) if answer.verdict == Verdict::Closed => {
                format!("closed, to {}", answer.edge)
            }
            Self::Answer(answer) => format!("answer to {} of {}", answer.answers, answer.edge),
        }
    }
}

/// Rule for the messages of a link.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Rule {
    Cut,
    Hold,
    Delay(u64),
}

#[derive(Default)]
pub(super) struct Wire {
    rules: Vec<(String, Rule)>,
    queue: Vec<(u64, String, String, Body)>,
    pub(super) held: BTreeMap<u64, (String, String, Body)>,
    counter: u64,
}

fn glob(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => pattern == name,
    }
}

fn matches(pattern: &str, from: &str, to: &str) -> bool {
    pattern
        .split_once('>')
        .is_some_and(|(left, right)| glob(left, from) && glob(right, to))
}

impl Wire {
    pub(super) fn set(&mut self, pattern: &str, rule: Rule) {
        self.rules.insert(0, (pattern.into(), rule));
    }

    pub(super) fn clear(&mut self, pattern: Option<&str>) {
        self.rules
            .retain(|(of, _)| pattern.is_some_and(|pattern| of != pattern));
    }

    fn rule(&self, from: &str, to: &str) -> Option<Rule> {
        let found = self.rules.iter().find(|(of, _)| matches(of, from, to));
        found.map(|(_, rule)| *rule).filter(|_| from != to)
    }

    /// Returns true if a session can be opened over this link.
    pub(super) fn is_open(&self, from: &str, to: &str) -> bool {
        !matches!(self.rule(from, to), Some(Rule::Cut | Rule::Hold))
            && !matches!(self.rule(to, from), Some(Rule::Cut))
    }

    /// Takes a message. Returns a line of output if it is held.
    pub(super) fn send(&mut self, now: u64, from: &str, to: &str, body: Body) -> Option<String> {
        match self.rule(from, to) {
            Some(Rule::Cut) => None,
            Some(Rule::Hold) => {
                self.counter += 1;
                let text = format!("m{} held: {} ({from}>{to})", self.counter, body.text());
                let message = (from.into(), to.into(), body);
                self.held.insert(self.counter, message);
                Some(text)
            }
            Some(Rule::Delay(by)) => {
                self.queue.push((now + by, from.into(), to.into(), body));
                None
            }
            None => {
                self.queue.push((now, from.into(), to.into(), body));
                None
            }
        }
    }

    /// Returns the messages that are due, in the order in which they were sent.
    pub(super) fn due(&mut self, now: u64) -> Vec<(String, String, Body)> {
        let (due, later) = std::mem::take(&mut self.queue)
            .into_iter()
            .partition(|(at, ..)| *at <= now);
        self.queue = later;
        let due: Vec<(u64, String, String, Body)> = due;
        due.into_iter()
            .map(|(_, from, to, body)| (from, to, body))
            .collect()
    }
}
