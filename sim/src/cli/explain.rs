//! `explain`: shows what led to a breach, from two leases before it.

use super::command::{Usage, say, scenario};
use crate::judge::Verdict;
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

/// Events around the breach.
#[derive(Debug, Default)]
struct Story {
    /// Faults and their ends, elections and entries of the log: time and text.
    events: Vec<(u64, String)>,
    /// Entries that are already listed: each counts when the first replica applies it.
    entries: BTreeSet<String>,
    /// Number of admissions of each host in the window of the breach.
    admitted: BTreeMap<String, u64>,
    /// Latest state of each client, up to the end of the window.
    states: BTreeMap<String, String>,
}

struct Listener {
    story: Rc<RefCell<Story>>,
    /// Time of the first event to keep.
    since: u64,
    /// Window of the breach.
    within: (u64, u64),
}

impl Tracer for Listener {
    fn record(&mut self, event: &TraceEvent<'_>) {
        if event.at < self.since || event.at > self.within.1 {
            return;
        }
        let mut story = self.story.borrow_mut();
        match event.kind {
            "fault" | "over" => {
                let text = format!("{:<8} {}", event.kind, event.what);
                story.events.push((event.at, text));
            }
            "applied" => {
                let entry = event.what.to_string();
                let text = format!("{:<8} {entry}", "log");
                if !entry.ends_with("[]") && story.entries.insert(entry) {
                    story.events.push((event.at, text));
                }
            }
            "admitted" if event.at >= self.within.0 => {
                *story.admitted.entry(event.host.to_owned()).or_default() += 1;
            }
            "state" if event.host.contains('-') => {
                story
                    .states
                    .insert(event.host.to_owned(), event.what.to_string());
            }
            _ => {}
        }
    }
}

/// Extracts the end of the lease and the client's own time from a client's state.
fn lease(state: &str) -> Option<String> {
    let now = state.split_whitespace().next()?;
    let until = state.split("until: ").nth(1)?.split([',', ' ']).next()?;
    Some(format!("lease until {until}, its clock shows {now}"))
}

fn told(scenario: &Scenario, breach: &Breach, story: &Story, leaders: &[(u64, usize)]) -> String {
    let mut text = format!("{breach}\n");
    let _ = writeln!(text, "\nevents, from two leases before the breach:");
    let mut events = story.events.clone();
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
    for (host, count) in &story.admitted {
        let lease = story
            .states
            .get(host)
            .and_then(|state| lease(state))
            .unwrap_or_default();
        let _ = writeln!(text, "  {host:<12} {count:>7}  {lease}");
    }
    text
}

pub(super) fn run(args: &Args) -> Result<Verdict, Usage> {
    let scenario = scenario(&args.scenario)?;
    let plan = Plan::draw(&scenario, args.seed);
    let result = tier::live(plan.clone(), Observe::default());
    let Some(breach) = result
        .breaches
        .iter()
        .chain(&result.allowed)
        .min_by_key(|breach| breach.within.1)
    else {
        say(&format!(
            "{} seed {}: no invariant was broken",
            scenario.name, args.seed
        ));
        return Ok(Verdict::Pass);
    };
    let story = Rc::new(RefCell::new(Story::default()));
    let before = 2 * scenario.lease.lease;
    let listener = Listener {
        story: Rc::clone(&story),
        since: breach.within.0.saturating_sub(before),
        // A breach at one instant gets a window of one second that ends there.
        within: (
            breach
                .within
                .0
                .min(breach.within.1.saturating_sub(1_000_000_000)),
            breach.within.1,
        ),
    };
    // Run the same seed again, with an observer.
    let observe = Observe {
        tracer: Some(Box::new(listener)),
        bytes: false,
    };
    let again = tier::live(plan, observe);
    say(&told(
        &scenario,
        breach,
        &story.borrow(),
        &again.timeline.ready_leaders,
    ));
    Ok(if result.breaches.is_empty() {
        Verdict::Pass
    } else {
        Verdict::Fail
    })
}
