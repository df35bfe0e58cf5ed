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

/// Maximum number of seeds by which a difference is judged. One seed may differ by chance: where a first difference
/// is too great, three times as many seeds are run, and again.
const SEEDS_MOST: u64 = 9;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Scenarios: files that end in .toml, names of the library, PREFIX/* or `all`; NAME@0..4 sets the seeds of
    /// one
    #[arg(required = true, value_name = "FILE|NAME")]
    scenarios: Vec<String>,
    /// Seeds, such as 0..4 (4 not included) or 7; figures are the means over them, and over up to nine if they differ
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
    /// The reason for which the other tier does not run it, or the stated reason of a difference.
    why: Option<String>,
    /// Number of seeds.
    seeds: u64,
    troubles: Vec<String>,
}

/// Findings in one tier.
#[derive(Default)]
struct Troubles {
    /// Broken invariants but the ninth, and seeds that were not judged.
    broken: Vec<String>,
    /// Assertions that failed, and invariant 9.
    failed: Vec<String>,
}

impl Compared {
    /// Compares a scenario. Marks that some seed must hit are left out: that may take more seeds.
    fn of(scenario: &Scenario, seeds: Range<u64>) -> Self {
        let mut compared = Self {
            name: scenario.name.clone(),
            figures: Default::default(),
            difference: None,
            why: scenario.run.tiers_differ.clone(),
            seeds: seeds.end - seeds.start,
            troubles: Vec::new(),
        };
        let on = |tier| scenario.on(tier);
        let (kernel, network) = match (on(Tier::Kernel), on(Tier::Network)) {
            (Ok(kernel), Ok(network)) => (kernel, network),
            (_, Err(problems)) | (Err(problems), _) => {
                compared.why = Some(problems.to_string().replace('\n', "; "));
                return compared;
            }
        };
        let mut ran = [&kernel, &network].map(|of| runner::run(of, seeds.clone(), 1, &|_| {}));
        compared.compare(&ran);
        while compared.is_unlikely() && compared.seeds < SEEDS_MOST {
            let next = seeds.start + compared.seeds;
            let end = seeds.start + (3 * compared.seeds).min(SEEDS_MOST);
            for (ran, of) in ran.iter_mut().zip([&kernel, &network]) {
                ran.seeds
                    .extend(runner::run(of, next..end, 1, &|_| {}).seeds);
            }
            compared.seeds = end - seeds.start;
            compared.compare(&ran);
        }
        let [kernel, network] = &ran;
        let troubles = [troubles("kernel", kernel), troubles("network", network)];
        match scenario.run.tier {
            Tier::Kernel => compared.judge(troubles),
            Tier::Network => {
                let [kernel, network] = troubles;
                compared.judge([network, kernel]);
            }
        }
        compared
    }

    /// Computes the figures, and which of them differs most.
    fn compare(&mut self, ran: &[Summary; 2]) {
        self.figures = [figures(&ran[0]), figures(&ran[1])];
        let [left, right] = &self.figures;
        let difference = left.iter().filter_map(|(of, left)| {
            let difference = (left - right.get(of)?).abs();
            Some((difference, format!("{} {}", of.0, of.1)))
        });
        self.difference = difference.max_by(|a, b| a.0.total_cmp(&b.0));
    }

    /// Returns true if the difference is not as expected, which may be chance.
    fn is_unlikely(&self) -> bool {
        let most = self.difference.as_ref().map_or(0.0, |of| of.0);
        match self.why {
            None => most > MOST,
            Some(_) => most <= LEAST,
        }
    }

    /// Decides whether the tiers agree, with what is wrong in the scenario's own tier and in the other one. A stated
    /// difference must be there. It excuses assertions that fail in the other tier, and nothing else.
    fn judge(&mut self, [own, other]: [Troubles; 2]) {
        let (most, figure) = self.difference.clone().unwrap_or_default();
        let differs = format!("{figure}: the tiers differ by {:.1} points", 100.0 * most);
        let agree = most <= LEAST && other.failed.is_empty();
        let wrong = [own.broken, own.failed, other.broken].into_iter().flatten();
        self.troubles.extend(wrong);
        match self.why {
            None => {
                self.troubles.extend(other.failed);
                self.troubles.extend((most > MOST).then_some(differs));
            }
            Some(_) if agree => {
                let what = "the tiers agree: remove run.tiers_differ";
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

fn troubles(tier: &str, summary: &Summary) -> Troubles {
    let mut troubles = Troubles::default();
    for seed in &summary.seeds {
        let problem = seed.failures.iter().chain(&seed.doubts);
        let number = seed.seed;
        let problem = problem.map(|problem| format!("{tier} tier, seed {number}: {problem}"));
        match is_broken(seed) {
            true => troubles.broken.extend(problem),
            false => troubles.failed.extend(problem),
        }
    }
    troubles
}

/// Returns true if an invariant is broken that must hold, or if the seed has no figures. That little is used breaks
/// invariant 9, which is as good as an assertion.
fn is_broken(seed: &SeedResult) -> bool {
    let unused = |problem: &&String| problem.starts_with("invariant 9 ");
    let unused = seed.failures.iter().filter(unused).count();
    let breaches = seed.figures.get("breaches");
    breaches.is_none_or(|breaches| *breaches as usize > seed.broke.len() + unused)
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
        "{table}\ndifference: the greatest difference between the tiers in what is used or lost of a key, in points; at most\n{:.0}, unless the scenario states why",
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
