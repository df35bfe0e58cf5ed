//! `explain`: what led to a breach, as far back as it can matter.

use super::{Usage, say, scenario};
use crate::judge::Verdict;
use crate::oracle::Breach;
use crate::plan::Plan;
use crate::scenario::Scenario;
use crate::world::{Sight, Witness, World};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::rc::Rc;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A file that ends in .toml, or a name of the library
    #[arg(value_name = "FILE|NAME")]
    scenario: String,
    /// The seed that fails
    #[arg(long)]
    seed: u64,
}

/// What is kept of what happened.
#[derive(Debug, Default)]
struct Story {
    /// Faults and their ends, elections and entries: time and text.
    events: Vec<(u64, String)>,
    /// Entries that were told of already: the first replica's word counts.
    entries: BTreeSet<String>,
    /// Admissions of each host in the window.
    admitted: BTreeMap<String, u64>,
    /// The latest state of each host that admitted, at the window's end.
    states: BTreeMap<String, String>,
}

struct Listener {
    story: Rc<RefCell<Story>>,
    /// What matters begins here, and the window of the breach.
    since: u64,
    within: (u64, u64),
}

impl Witness for Listener {
    fn saw(&mut self, sight: &Sight<'_>) {
        if sight.at < self.since || sight.at > self.within.1 {
            return;
        }
        let mut story = self.story.borrow_mut();
        match sight.kind {
            "fault" | "over" => {
                let text = format!("{:<8} {}", sight.kind, sight.what);
                story.events.push((sight.at, text));
            }
            "applied" => {
                let entry = sight.what.to_string();
                let text = format!("{:<8} {entry}", "log");
                if !entry.ends_with("[]") && story.entries.insert(entry) {
                    story.events.push((sight.at, text));
                }
            }
            "admitted" if sight.at >= self.within.0 => {
                *story.admitted.entry(sight.host.to_owned()).or_default() += 1;
            }
            "state" if sight.host.contains('-') => {
                story
                    .states
                    .insert(sight.host.to_owned(), sight.what.to_string());
            }
            _ => {}
        }
    }
}

/// What a client's state says of its lease: the end, and its own time.
fn lease(state: &str) -> Option<String> {
    let now = state.split_whitespace().next()?;
    let until = state.split("until: ").nth(1)?.split([',', ' ']).next()?;
    Some(format!("lease until {until}, its clock shows {now}"))
}

fn told(scenario: &Scenario, breach: &Breach, story: &Story, leaders: &[(u64, usize)]) -> String {
    let mut text = format!("{breach}\n");
    let _ = writeln!(text, "\nwhat happened from two leases before it on:");
    let mut events = story.events.clone();
    let offices = leaders
        .iter()
        .map(|(at, node)| (*at, format!("{:<8} n{} in office", "leader", node + 1)));
    events.extend(offices);
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
        "\nwho admitted in the window, and on which lease when it was last heard of:"
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
    let lived = World::new(plan.clone()).live();
    let Some(breach) = lived
        .breaches
        .iter()
        .chain(&lived.allowed)
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
        // A breach at one instant is of a window that ends there.
        within: (
            breach
                .within
                .0
                .min(breach.within.1.saturating_sub(1_000_000_000)),
            breach.within.1,
        ),
    };
    // The same seed again, with somebody who looks on.
    let again = World::new(plan).witnessed_by(Box::new(listener)).live();
    say(&told(
        &scenario,
        breach,
        &story.borrow(),
        &again.course.offices,
    ));
    Ok(if lived.breaches.is_empty() {
        Verdict::Pass
    } else {
        Verdict::Fail
    })
}
