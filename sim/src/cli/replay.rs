//! `replay`: prints the events of one seed and the hash of its trace.

use super::command::{Usage, say, scenario};
use crate::hosts::Hosts;
use crate::judge::Verdict;
use crate::plan::Plan;
use crate::tier::{self, Observe};
use crate::trace::{Trace, TraceEvent, Tracer};
use serde_json::json;
use std::collections::BTreeMap;
use std::io::Write;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A file that ends in .toml, or the name of a scenario of the library
    #[arg(value_name = "FILE|NAME")]
    scenario: String,
    /// The seed
    #[arg(long)]
    seed: u64,
    /// Print only the hash of the trace
    #[arg(long)]
    hash: bool,
    /// Print only events of these kinds and hosts, such as `admitted,fault,c-3`; states are then printed all
    #[arg(long, value_name = "KIND|HOST", value_delimiter = ',')]
    only: Vec<String>,
    /// Print only events from this true time on
    #[arg(long, value_name = "SPAN", default_value = "0s", value_parser = span)]
    from: u64,
    /// Print only events before this true time
    #[arg(long, value_name = "SPAN", value_parser = span)]
    to: Option<u64>,
}

/// Every kind of event.
const KINDS: &[&str] = &[
    "admitted", "applied", "books", "failed", "fault", "message", "over", "piece", "ready", "state",
];

fn span(text: &str) -> Result<u64, String> {
    let span = aliquot_core::budget::grammar::span(text).map(|span| span.nanos());
    span.ok_or_else(|| format!("{text:?}: must be a span with its unit, such as 10s or 500ms"))
}

/// The events that are printed.
#[derive(Debug)]
struct Filter {
    kinds: Vec<String>,
    hosts: Vec<String>,
    from: u64,
    to: u64,
    /// True time of the latest state that was printed, by host.
    stated: BTreeMap<String, u64>,
}

impl Filter {
    fn new(args: &Args, plan: &Plan) -> Result<Self, Usage> {
        let known = Hosts::new(&plan.scenario, 0);
        let known: Vec<String> = (0..known.count())
            .map(|host| known.label(host).to_owned())
            .collect();
        let only = args.only.iter().map(|word| word.trim().to_owned());
        let (kinds, hosts): (Vec<String>, Vec<String>) =
            only.partition(|word| KINDS.contains(&word.as_str()));
        if let Some(wrong) = hosts.iter().find(|host| !known.contains(host)) {
            return Err(Usage(format!(
                "--only {wrong:?}: must be kinds of events ({}) or hosts, such as n1 or {}",
                KINDS.join(", "),
                known.last().map_or("c-1", String::as_str)
            )));
        }
        Ok(Self {
            kinds,
            hosts,
            from: args.from,
            to: args.to.unwrap_or(u64::MAX),
            stated: BTreeMap::new(),
        })
    }

    /// Returns true if an event is printed. The state of a host is printed once a second, unless states are
    /// asked for: it follows each message, and is most of what there is to print.
    fn takes(&mut self, event: &TraceEvent<'_>) -> bool {
        const EVERY: u64 = 1_000_000_000;
        let is_of =
            |of: &[String], word: &str| of.is_empty() || of.iter().any(|known| known == word);
        let wanted = (self.from..self.to).contains(&event.at)
            && is_of(&self.kinds, event.kind)
            && (event.host.is_empty()
                || is_of(&self.hosts, event.host)
                || is_of(&self.hosts, event.from));
        if !wanted || event.kind != "state" || !self.kinds.is_empty() {
            return wanted;
        }
        let before = self.stated.get(event.host);
        let due = before.is_none_or(|before| event.at >= before + EVERY);
        if due {
            self.stated.insert(event.host.to_owned(), event.at);
        }
        due
    }
}

/// Prints the events that a filter takes.
struct Teller {
    trace: Trace,
    filter: Filter,
    out: Option<std::io::BufWriter<std::io::Stdout>>,
}

impl Tracer for Teller {
    fn record(&mut self, event: &TraceEvent<'_>) {
        self.trace.record(event);
        if let Some(out) = &mut self.out
            && self.filter.takes(event)
        {
            let line = json!({
                "at": event.at as f64 / 1e9,
                "kind": event.kind,
                "host": event.host,
                "from": event.from,
                "text": event.what.to_string(),
            });
            // It is no error if the reader has closed the pipe.
            let _ = writeln!(out, "{line}");
        }
    }
}

pub(super) fn run(args: &Args) -> Result<Verdict, Usage> {
    let scenario = scenario(&args.scenario)?;
    let plan = Plan::draw(&scenario, args.seed);
    let filter = Filter::new(args, &plan)?;
    let trace = Trace::default();
    let teller = Teller {
        trace: trace.clone(),
        filter,
        out: (!args.hash).then(|| std::io::BufWriter::new(std::io::stdout())),
    };
    let observe = Observe {
        tracer: Some(Box::new(teller)),
        bytes: false,
    };
    let result = tier::live(plan, observe);
    let breaches: Vec<String> = result.breaches.iter().map(ToString::to_string).collect();
    say(&json!({
        "trace": trace.hash(),
        "seed": args.seed,
        "sights": trace.events(),
        "events": result.events,
        "breaches": breaches,
    })
    .to_string());
    Ok(if breaches.is_empty() {
        Verdict::Pass
    } else {
        Verdict::Fail
    })
}
