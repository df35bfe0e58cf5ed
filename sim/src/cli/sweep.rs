//! `sweep`: runs a scenario with every combination of the values of some settings.

use super::command::{Usage, in_library_or_file, say, seeds, warn};
use super::progress::Progress;
use super::table;
use crate::judge::{SeedResult, Verdict};
use crate::runner::{self, Summary};
use crate::scenario::Scenario;
use crate::scenario::format::METRICS;
use crate::scenario::path::{self, Path};
use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Value as Json, json};
use std::num::NonZeroUsize;
use std::ops::Range;

const AFTER_HELP: &str = "\
A path is that of a setting in the scenario's file: SECTION.KEY. Where a section is written \
several times, all of them are set, or one with its number from 1: clients[2].rate. A value is \
written as in the file, without quotes; a list or a table is written with its brackets. \
`aliquot-sim explain-format` lists all settings.

Examples:
  aliquot-sim sweep leader-crash --set topology.nodes=3,5,7 --seeds 0..16
  aliquot-sim sweep mine.toml --set clients.count=10,50,200 --set budget.burst=100,1000 --seeds 0..4
  aliquot-sim sweep mine.toml --set lease.round_trip=50ms,150ms --set 'fault[1].target=n1,@leader' --csv > sweep.csv
  aliquot-sim sweep mine.toml --set run.tier=kernel,network --json

Exit codes:
  0  every seed of every combination was judged and passed
  1  an invariant, an assertion or another check failed
  2  the command line or a combination is wrong; nothing was run
  3  something could not be judged, and nothing failed";

/// Maximum number of combinations.
const MOST: usize = 10_000;

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Args {
    /// A file that ends in .toml, or the name of a scenario of the library
    #[arg(value_name = "FILE|NAME")]
    scenario: String,
    /// Setting and its values; several settings make a grid
    #[arg(long = "set", value_name = "PATH=VALUE,…", required = true, value_parser = setting)]
    settings: Vec<Setting>,
    /// Seeds of each combination, such as 0..16 (16 not included) or 7; by default those of the scenario
    #[arg(long, value_parser = seeds)]
    seeds: Option<Range<u64>>,
    /// Number of threads; by default one per processor
    #[arg(long)]
    jobs: Option<NonZeroUsize>,
    /// Print JSON instead of a table
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print CSV instead of a table: a line for each combination, with the median, the least and the most of each figure
    #[arg(long)]
    csv: bool,
}

/// A setting with its values, as the command line has them.
#[derive(Clone, Debug)]
struct Setting {
    path: Path,
    values: Vec<String>,
}

fn setting(text: &str) -> Result<Setting, String> {
    let wrong = || format!("{text:?}: must be PATH=VALUE,VALUE, such as topology.nodes=3,5");
    let (path, values) = text.split_once('=').ok_or_else(wrong)?;
    let values = path::split(values);
    if values.iter().any(String::is_empty) {
        return Err(wrong());
    }
    Ok(Setting {
        path: Path::parse(path.trim())?,
        values,
    })
}

/// One combination: the values in the order of the settings, and the scenario that has them.
struct Point {
    values: Vec<String>,
    scenario: Scenario,
}

/// Returns every combination, of which the last setting changes first.
fn grid(args: &Args) -> Result<Vec<Point>, Usage> {
    let count = args.settings.iter().try_fold(1_usize, |count, setting| {
        count.checked_mul(setting.values.len())
    });
    let Some(count) = count.filter(|count| *count <= MOST) else {
        return Err(Usage(format!("a sweep has at most {MOST} combinations")));
    };
    let file = in_library_or_file(&args.scenario)?;
    let root = file.table().map_err(Usage)?;
    let mut points = Vec::with_capacity(count);
    for number in 0..count {
        let mut rest = number;
        let mut values: Vec<String> = Vec::new();
        for setting in args.settings.iter().rev() {
            values.push(setting.values[rest % setting.values.len()].clone());
            rest /= setting.values.len();
        }
        values.reverse();
        let mut root = root.clone();
        for (setting, value) in args.settings.iter().zip(&values) {
            setting.path.set(&mut root, value).map_err(Usage)?;
        }
        let scenario = file.with(&root).map_err(|problems| {
            let which = named(&args.settings, &values);
            Usage(format!("with {which}: {problems}"))
        })?;
        points.push(Point { values, scenario });
    }
    Ok(points)
}

fn named(settings: &[Setting], values: &[String]) -> String {
    let pairs = settings.iter().zip(values);
    let pairs: Vec<String> = pairs
        .map(|(setting, value)| format!("{}={value}", setting.path))
        .collect();
    pairs.join(" ")
}

pub(super) fn run(args: &Args) -> Result<Verdict, Usage> {
    let points = grid(args)?;
    let usual = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let jobs = args.jobs.map_or(usual, NonZeroUsize::get);
    let of_point = |point: &Point| {
        let (from, to) = point.scenario.run.seeds;
        args.seeds.clone().unwrap_or(from..to)
    };
    let total = points.iter().map(of_point).map(|of| of.end - of.start);
    let progress = Progress::new("sweep", total.sum());
    let mut summaries: Vec<Summary> = Vec::new();
    for point in &points {
        let done = |seed: &SeedResult| progress.step(seed.verdict == Verdict::Fail);
        let reached = progress.reached(point.scenario.run.duration);
        let seeds = of_point(point);
        let mut summary = runner::run_watched(&point.scenario, seeds, jobs, &done, &reached);
        summary.name = named(&args.settings, &point.values);
        summaries.push(summary);
    }
    progress.end();
    for troubles in summaries.iter().map(table::troubles) {
        if !troubles.is_empty() {
            warn(&troubles);
        }
    }
    match (args.json, args.csv) {
        (true, _) => say(&as_json(args, &points, &summaries).to_string()),
        (_, true) => say(&as_csv(args, &points, &summaries)),
        _ => say(&format!(
            "{}\n{}",
            as_table(args, &points, &summaries),
            table::LEGEND
        )),
    };
    Ok(table::worst(&summaries))
}

fn as_table(args: &Args, points: &[Point], summaries: &[Summary]) -> String {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY);
    let paths = args.settings.iter().map(|setting| setting.path.to_string());
    let headings = table::headings().map(str::to_owned);
    table.set_header(paths.chain(headings));
    for (point, summary) in points.iter().zip(summaries) {
        let values = point.values.iter().cloned();
        table.add_row(values.chain(table::cells(summary)));
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        if index != args.settings.len() {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.to_string()
}

fn as_json(args: &Args, points: &[Point], summaries: &[Summary]) -> Json {
    let each = points.iter().zip(summaries).map(|(point, summary)| {
        let pairs = args.settings.iter().zip(&point.values);
        let set = pairs.map(|(setting, value)| (setting.path.to_string(), json!(value)));
        let mut all = table::as_json(summary);
        all["set"] = Json::Object(set.collect());
        all["scenario"] = json!(point.scenario.name);
        all
    });
    Json::Array(each.collect())
}

/// Encodes a field of CSV.
fn field(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

fn as_csv(args: &Args, points: &[Point], summaries: &[Summary]) -> String {
    let paths = args.settings.iter().map(|setting| setting.path.to_string());
    let figures = METRICS
        .iter()
        .flat_map(|name| ["median", "least", "most"].map(|what| format!("{name}_{what}")));
    let fixed = ["seeds", "verdict"].map(str::to_owned);
    let head: Vec<String> = paths.chain(fixed).chain(figures).collect();
    let mut lines = vec![head];
    for (point, summary) in points.iter().zip(summaries) {
        let mut line = point.values.clone();
        line.push(summary.seeds.len().to_string());
        line.push(summary.verdict().word().to_lowercase());
        for name in METRICS {
            for value in [
                summary.median(name),
                summary.least(name),
                summary.most(name),
            ] {
                line.push(value.map_or_else(String::new, |value| value.to_string()));
            }
        }
        lines.push(line);
    }
    let lines = lines.into_iter().map(|line| {
        let fields: Vec<String> = line.iter().map(|text| field(text)).collect();
        fields.join(",")
    });
    lines.collect::<Vec<_>>().join("\n")
}
