//! `tiers`: runs scenarios on both tiers, and compares what they use and lose.

use super::command::{Usage, say, scenario, seeds, warn};
use super::progress::Progress;
use super::run::named;
use crate::judge::{SeedResult, Verdict};
use crate::runner::{self, Summary};
use crate::scenario::{Scenario, Tier};
use comfy_table::{CellAlignment, Table, presets};
use serde_json::json;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Maximum difference of a figure: three points, as a part.
const MOST: f64 = 0.03;

/// Difference up to which a stated reason is out of date.
const LEAST: f64 = 0.01;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Scenarios: files that end in .toml, names of the library, PREFIX/* or `all`; NAME@0..4 sets the seeds of
    /// one
    #[arg(required = true, value_name = "FILE|NAME")]
    scenarios: Vec<String>,
    /// Seeds, such as 0..4 (4 not included) or 7; figures are the means over them
    #[arg(long, value_parser = seeds, default_value = "0")]
    seeds: Range<u64>,
    /// Number of threads; by default one per processor
    #[arg(long)]
    jobs: Option<NonZeroUsize>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// Figures `used` and `lost` of each key, in the mean of the seeds.
type Figures = BTreeMap<(String, &'static str), f64>;

/// A scenario on both tiers.
struct Compared {
    name: String,
    /// Figures in the kernel tier and in the network tier.
    figures: [Figures; 2],
    /// The greatest difference, and its figure.
    difference: Option<(f64, String)>,
    /// The reason for which the network tier does not run it, or the stated reason of a difference.
    why: Option<String>,
    troubles: Vec<String>,
}

impl Compared {
    /// Compares a scenario. Marks that some seed must hit are left out: that may take more seeds.
    fn of(scenario: &Scenario, seeds: Range<u64>) -> Self {
        let mut compared = Self {
            name: scenario.name.clone(),
            figures: Default::default(),
            difference: None,
            why: scenario.run.tiers_differ.clone(),
            troubles: Vec::new(),
        };
        let on = |tier| scenario.on(tier);
        let (kernel, network) = match (on(Tier::Kernel), on(Tier::Network)) {
            (Ok(kernel), Ok(network)) => (kernel, network),
            (_, Err(problems)) => {
                compared.why = Some(problems.to_string().replace('\n', "; "));
                return compared;
            }
            (Err(problems), _) => {
                compared.troubles.push(problems.to_string());
                return compared;
            }
        };
        let [kernel, network] =
            [kernel, network].map(|of| runner::run(&of, seeds.clone(), 1, &|_| {}));
        compared.figures = [figures(&kernel), figures(&network)];
        let [left, right] = &compared.figures;
        let difference = left.iter().filter_map(|(of, left)| {
            let difference = (left - right.get(of)?).abs();
            Some((difference, format!("{} {}", of.0, of.1)))
        });
        compared.difference = difference.max_by(|a, b| a.0.total_cmp(&b.0));
        let both = [("kernel", &kernel), ("network", &network)];
        let troubles = both
            .into_iter()
            .flat_map(|(tier, of)| troubles(tier, of))
            .collect();
        compared.judge(troubles);
        compared
    }

    /// Decides whether the tiers agree. A stated difference must be there.
    fn judge(&mut self, troubles: Vec<String>) {
        let (most, figure) = self.difference.clone().unwrap_or_default();
        let differs = format!("{figure}: the tiers differ by {:.1} points", 100.0 * most);
        match self.why {
            None => {
                self.troubles = troubles;
                self.troubles.extend((most > MOST).then_some(differs));
            }
            Some(_) if troubles.is_empty() && most <= LEAST => {
                let what = "the tiers agree: leave out run.tiers_differ";
                self.troubles.push(what.to_owned());
            }
            Some(_) => {}
        }
    }
}

fn figures(summary: &Summary) -> Figures {
    let mut sums: BTreeMap<(String, &'static str), (f64, f64)> = BTreeMap::new();
    for key in summary.seeds.iter().flat_map(|seed| &seed.keys) {
        for (name, value) in [("used", key.used), ("lost", key.lost)] {
            if let Some(value) = value {
                let (sum, count) = sums.entry((key.key.clone(), name)).or_default();
                (*sum, *count) = (*sum + value, *count + 1.0);
            }
        }
    }
    let means = sums.into_iter();
    means.map(|(of, (sum, count))| (of, sum / count)).collect()
}

fn troubles(tier: &str, summary: &Summary) -> Vec<String> {
    let said = |seed: &SeedResult| {
        let said = seed.failures.iter().chain(&seed.doubts);
        let number = seed.seed;
        said.map(|said| format!("{tier} tier, seed {number}: {said}"))
            .collect::<Vec<_>>()
    };
    summary.seeds.iter().flat_map(said).collect()
}

pub(super) fn run(args: &Args) -> Result<Verdict, Usage> {
    let wanted = named(&args.scenarios)?;
    let scenarios = wanted
        .into_iter()
        .map(|(name, own)| Ok((scenario(&name)?, own.unwrap_or(args.seeds.clone()))))
        .collect::<Result<Vec<_>, Usage>>()?;
    let usual = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let jobs = args.jobs.map_or(usual, NonZeroUsize::get);
    let progress = Progress::new("both tiers", scenarios.len() as u64);
    let next = AtomicUsize::new(0);
    let work = || {
        let mut compared = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some((scenario, seeds)) = scenarios.get(index) else {
                return compared;
            };
            let one = Compared::of(scenario, seeds.clone());
            progress.step(!one.troubles.is_empty());
            compared.push((index, one));
        }
    };
    let mut all = std::thread::scope(|scope| {
        let threads: Vec<_> = (1..jobs).map(|_| scope.spawn(work)).collect();
        let mut all = work();
        for thread in threads {
            match thread.join() {
                Ok(more) => all.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        all
    });
    progress.end();
    all.sort_by_key(|(index, _)| *index);
    let all: Vec<Compared> = all.into_iter().map(|(_, one)| one).collect();
    match args.json {
        true => say(&as_json(&all)),
        false => say(&table(&all)),
    };
    for one in &all {
        let lines = one.troubles.iter();
        lines.for_each(|line| warn(&format!("{}: {line}", one.name)));
    }
    Ok(match all.iter().all(|one| one.troubles.is_empty()) {
        true => Verdict::Pass,
        false => Verdict::Fail,
    })
}

fn table(all: &[Compared]) -> String {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY);
    table.set_header([
        "scenario",
        "verdict",
        "difference",
        "of",
        "kernel",
        "network",
        "why",
    ]);
    for one in all {
        let (difference, figure) = match &one.difference {
            Some((difference, figure)) => (format!("{:.1}", 100.0 * difference), figure.clone()),
            None => ("-".to_owned(), String::new()),
        };
        let [kernel, network] = [0, 1].map(|tier| {
            let found = one.figures[tier]
                .iter()
                .find(|(of, _)| format!("{} {}", of.0, of.1) == figure);
            found.map_or("-".to_owned(), |(_, value)| {
                format!("{:.1}%", 100.0 * value)
            })
        });
        let verdict = match (one.troubles.is_empty(), one.difference.is_some()) {
            (false, _) => "FAIL",
            (true, true) => "pass",
            (true, false) => "kernel only",
        };
        let why = one.why.clone().unwrap_or_default();
        table.add_row([
            one.name.clone(),
            verdict.to_owned(),
            difference,
            figure,
            kernel,
            network,
            why,
        ]);
    }
    for column in table.column_iter_mut().skip(2).take(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    format!(
        "{table}\ndifference: the greatest between the tiers of what is used or lost of a key, in points; at most {:.0}, unless\nthe scenario states why",
        100.0 * MOST
    )
}

fn as_json(all: &[Compared]) -> String {
    let each = all.iter().map(|one| {
        let [kernel, network] = &one.figures;
        let figures = kernel.iter().map(|(of, value)| {
            json!({ "key": of.0, "figure": of.1, "kernel": value, "network": network.get(of) })
        });
        json!({
            "scenario": one.name,
            "troubles": one.troubles,
            "why": one.why,
            "difference": one.difference.as_ref().map(|(difference, _)| difference),
            "figures": figures.collect::<Vec<_>>(),
        })
    });
    serde_json::Value::Array(each.collect()).to_string()
}
