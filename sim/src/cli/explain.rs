//! `explain`: shows what led to a breach, from two leases before it.

use super::command::{Usage, say, scenario};
use super::progress::Progress;
use crate::figure::Figures;
use crate::judge::{Ruling, Verdict};
use crate::oracle::Breach;
use crate::plan::Plan;
use crate::scenario::Scenario;
use crate::tier::{self, Observe};
use crate::trace::{TraceEvent, Tracer};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::rc::Rc;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A file that ends in .toml, or the name of a scenario of the library
    #[arg(value_name = "FILE|NAME")]
    scenario: String,
    /// The seed that fails
    #[arg(long)]
    seed: u64,
}

/// Events of a run, as far as an explanation needs them.
#[derive(Debug, Default)]
struct Causes {
    /// Faults and their ends, and entries of the log: time and text.
    events: Vec<(u64, String)>,
    /// Entries that are already listed: each counts when the first replica applies it.
    entries: BTreeSet<String>,
    /// Admissions: time, host, and the lease of the host by its latest state.
    admitted: Vec<(u64, String, Rc<str>)>,
    /// The lease of each client by its latest state.
    leases: BTreeMap<String, Rc<str>>,
}

struct Listener(Rc<RefCell<Causes>>);

impl Tracer for Listener {
    fn record(&mut self, event: &TraceEvent<'_>) {
        let mut causes = self.0.borrow_mut();
        match event.kind {
            "fault" | "over" => {
                let text = format!("{:<8} {}", event.kind, event.what);
                causes.events.push((event.at, text));
            }
            "applied" => {
                let entry = event.what.to_string();
                let text = format!("{:<8} {entry}", "log");
                if !entry.ends_with("[]") && causes.entries.insert(entry) {
                    causes.events.push((event.at, text));
                }
            }
            "admitted" => {
                let host = event.host.to_owned();
                let lease = causes.leases.get(&host).cloned().unwrap_or_default();
                causes.admitted.push((event.at, host, lease));
            }
            "state" if event.host.contains('-') => {
                let lease = lease(&event.what.to_string()).unwrap_or_default();
                causes.leases.insert(event.host.to_owned(), lease.into());
            }
            _ => {}
        }
    }
}

/// Extracts the lease from a client's state: its end by the client's own clock, or in the network tier the time
/// until then.
fn lease(state: &str) -> Option<String> {
    let word = |text: &str| text.split([',', ' ']).next().map(str::to_owned);
    if let Some(until) = state.split("until: ").nth(1).and_then(word) {
        let now = state.split_whitespace().next()?;
        return Some(format!("lease until {until}, its clock shows {now}"));
    }
    let left = state.split("lease: ").nth(1).and_then(word)?;
    Some(format!("lease for {left}"))
}

fn explanation(
    scenario: &Scenario,
    breach: &Breach,
    causes: &Causes,
    leaders: &[(u64, usize)],
) -> String {
    let mut text = format!("{breach}\n");
    let _ = writeln!(text, "\nevents, from two leases before the breach:");
    let mut events = causes.events.clone();
    let ready_leaders = leaders
        .iter()
        .map(|(at, node)| (*at, format!("{:<8} n{} is ready", "leader", node + 1)));
    events.extend(ready_leaders);
    events.sort();
    let since = breach.within.0.saturating_sub(2 * scenario.lease.lease);
    for (at, what) in events
        .iter()
        .filter(|(at, _)| *at >= since && *at <= breach.within.1)
    {
        let _ = writeln!(text, "{:>10.4} s  {what:.160}", *at as f64 / 1e9);
    }
    let _ = writeln!(
        text,
        "\nadmissions in the window of the breach, by host, with its last known lease:"
    );
    // A breach at one instant gets a window of one second that ends there.
    let (from, to) = breach.within;
    let from = from.min(to.saturating_sub(1_000_000_000));
    let mut hosts: BTreeMap<&str, (u64, &str)> = BTreeMap::new();
    let admitted = causes.admitted.iter();
    for (_, host, lease) in admitted.filter(|(at, ..)| (from..=to).contains(at)) {
        let (count, last) = hosts.entry(host).or_default();
        (*count, *last) = (*count + 1, &**lease);
    }
    for (host, (count, lease)) in hosts {
        let _ = writeln!(text, "  {host:<12} {count:>7}  {lease}");
    }
    text
}

pub(super) fn run(args: &Args) -> Result<Verdict, Usage> {
    let scenario = scenario(&args.scenario)?;
    let causes = Rc::new(RefCell::new(Causes::default()));
    let progress = Progress::new(&scenario.name, 1);
    let observe = Observe {
        reached: Some(progress.of_seed(args.seed, scenario.run.duration)),
        tracer: Some(Box::new(Listener(Rc::clone(&causes)))),
        bytes: false,
    };
    let plan = Plan::draw(&scenario, args.seed);
    let (drawn, heals) = (plan.scenario.clone(), plan.heal());
    let result = tier::live(plan, observe);
    progress.end();
    let figures = Figures {
        scenario: &drawn,
        result: &result,
    };
    let ruling = Ruling::of(&scenario.asserts, &figures, heals);
    let Some(breach) = result
        .breaches
        .iter()
        .chain(&result.allowed)
        .min_by_key(|breach| breach.within.1)
    else {
        let reasons = ruling.failures.iter().chain(&ruling.doubts);
        let reasons = reasons.map(|reason| format!("\n  {reason}"));
        say(&format!(
            "{} seed {}: no invariant was broken{}",
            scenario.name,
            args.seed,
            reasons.collect::<String>()
        ));
        return Ok(ruling.verdict);
    };
    say(&explanation(
        &scenario,
        breach,
        &causes.borrow(),
        &result.timeline.ready_leaders,
    ));
    Ok(ruling.verdict)
}
