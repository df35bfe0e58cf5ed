//! `replay`: prints the events of one seed and the hash of its trace.

use super::command::{Usage, say, scenario};
use crate::judge::Verdict;
use crate::plan::Plan;
use crate::tier::{self, Observe};
use crate::trace::{Trace, TraceEvent, Tracer};
use serde_json::json;
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
}

/// Prints each event.
struct Teller {
    trace: Trace,
    out: Option<std::io::BufWriter<std::io::Stdout>>,
}

impl Tracer for Teller {
    fn record(&mut self, event: &TraceEvent<'_>) {
        self.trace.record(event);
        if let Some(out) = &mut self.out {
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
    let trace = Trace::default();
    let teller = Teller {
        trace: trace.clone(),
        out: (!args.hash).then(|| std::io::BufWriter::new(std::io::stdout())),
    };
    let plan = Plan::draw(&scenario, args.seed);
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
