//! `replay`: prints the events of one seed and the hash of its trace.

use super::command::{Usage, say, scenario};
use super::progress::Progress;
use crate::hosts::Hosts;
use crate::judge::Verdict;
use crate::plan::Plan;
use crate::tier::{self, Observe};
use crate::trace::{Trace, TraceEvent, Tracer};
use serde_json::json;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::Write;
use std::rc::Rc;

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
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
    /// Print only events of these kinds and hosts, such as `admitted,fault,c-3` or `messages`. Without a kind, all but
    /// messages, pieces and books, and the state of each host once a second
    #[arg(long, value_name = "KIND|HOST", value_delimiter = ',')]
    only: Vec<String>,
    /// Print only events from this true time on
    #[arg(long, value_name = "SPAN", default_value = "0s", value_parser = span)]
    from: u64,
    /// Print only events before this true time
    #[arg(long, value_name = "SPAN", value_parser = span)]
    to: Option<u64>,
}

const AFTER_HELP: &str = "\
Kinds of events:
  admitted   a request is admitted, by its client or, with `from`, centrally by a node
  applied    a node applies an entry of the log
  fault      a fault takes effect
  over       a fault is over
  ready      a node is the ready leader (network tier)
  failed     a node failed (network tier)
  state      the state of a host: once a second, or with --only state after each of its messages
  messages   a message arrives (kernel tier); only with --only
  pieces     bytes arrive (network tier); only with --only
  books      all that a node has booked, once a second; only with --only

Examples:
  aliquot-sim replay mine.toml --seed 7                                     most events, in few megabytes
  aliquot-sim replay mine.toml --seed 7 --only admitted,c-3 --from 20s      what c-3 was admitted
  aliquot-sim replay mine.toml --seed 7 --only messages,n1 --to 5s          what n1 sent and received
  aliquot-sim replay mine.toml --seed 7 --hash                              the hash of all of it, printed or not

The last line has the hash of the trace, and how many events of each kind were left out.";

/// Every kind of event.
const KINDS: &[&str] = &[
    "admitted", "applied", "books", "failed", "fault", "message", "over", "piece", "ready", "state",
];

/// Kinds of which there are too many, or too large ones, to be printed unless they are asked for.
const ON_REQUEST: &[&str] = &["books", "message", "piece"];

/// Returns the kind of a word, which may be a plural.
fn kind(word: &str) -> Option<&'static str> {
    let is = |kind: &&&str| **kind == word || word.strip_suffix('s') == Some(**kind);
    KINDS.iter().find(is).copied()
}

fn span(text: &str) -> Result<u64, String> {
    let span = aliquot_core::budget::grammar::span(text).map(|span| span.nanos());
    span.ok_or_else(|| format!("{text:?}: must be a span with its unit, such as 10s or 500ms"))
}

/// The events that are printed.
#[derive(Debug)]
struct Filter {
    kinds: Vec<&'static str>,
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
        let only = args.only.iter().map(|word| word.trim());
        let (kinds, hosts): (Vec<&str>, Vec<&str>) = only.partition(|word| kind(word).is_some());
        let kinds = kinds.into_iter().filter_map(kind).collect();
        let hosts: Vec<String> = hosts.into_iter().map(str::to_owned).collect();
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
        let hosts = &self.hosts;
        let is_of = |host: &str| hosts.iter().any(|known| known == host);
        let is_kind = match self.kinds.is_empty() {
            true => !ON_REQUEST.contains(&event.kind),
            false => self.kinds.contains(&event.kind),
        };
        let wanted = (self.from..self.to).contains(&event.at)
            && is_kind
            && (hosts.is_empty()
                || event.host.is_empty()
                || is_of(event.host)
                || is_of(event.from));
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
struct EventPrinter {
    trace: Trace,
    filter: Filter,
    out: Option<std::io::BufWriter<std::io::Stdout>>,
    /// Number of events of each kind that were not printed.
    left_out: Rc<RefCell<BTreeMap<&'static str, u64>>>,
}

impl Tracer for EventPrinter {
    fn record(&mut self, event: &TraceEvent<'_>) {
        self.trace.record(event);
        self.note(event);
    }

    fn note(&mut self, event: &TraceEvent<'_>) {
        let Some(out) = &mut self.out else { return };
        if self.filter.takes(event) {
            let line = json!({
                "at": event.at as f64 / 1e9,
                "kind": event.kind,
                "host": event.host,
                "from": event.from,
                "text": event.what.to_string(),
            });
            // It is no error if the reader has closed the pipe.
            let _ = writeln!(out, "{line}");
        } else {
            *self.left_out.borrow_mut().entry(event.kind).or_default() += 1;
        }
    }
}

pub(super) fn run(args: &Args) -> Result<Verdict, Usage> {
    let scenario = scenario(&args.scenario)?;
    let plan = Plan::draw(&scenario, args.seed);
    let filter = Filter::new(args, &plan)?;
    let trace = Trace::default();
    let left_out = Rc::default();
    let teller = EventPrinter {
        trace: trace.clone(),
        filter,
        out: (!args.hash).then(|| std::io::BufWriter::new(std::io::stdout())),
        left_out: Rc::clone(&left_out),
    };
    let progress = Progress::new(&scenario.name, 1);
    let observe = Observe {
        reached: Some(progress.of_seed(args.seed, scenario.run.duration)),
        tracer: Some(Box::new(teller)),
        bytes: false,
    };
    let result = tier::live(plan, observe);
    progress.end();
    let breaches: Vec<String> = result.breaches.iter().map(ToString::to_string).collect();
    let mut last = json!({
        "trace": trace.hash(),
        "seed": args.seed,
        "sights": trace.events(),
        "events": result.events,
        "breaches": breaches,
    });
    if !args.hash {
        last["left_out"] = json!(*left_out.borrow());
    }
    say(&last.to_string());
    Ok(if breaches.is_empty() {
        Verdict::Pass
    } else {
        Verdict::Fail
    })
}
