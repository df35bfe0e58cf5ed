//! `plan`: sizes limits by the requests of a log.

use super::command::{Usage, say, warn};
use crate::drawing;
use crate::judge::Verdict;
use crate::sizing::{Confirmed, Fleet, Limit, Recorded, Request, Sized};
use aliquot_client::http::key;
use aliquot_coordinator::demo::replay::{BadLines, Reading, Replay};
use aliquot_core::budget::{Key, grammar};
use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

const AFTER_HELP: &str = "\
The log may be
  an access log of nginx or Apache, common or combined: the key is the path without its query
  CSV: lines of time,key,cost, or with a header that names the columns; the cost may be left out
  JSON lines: an object each, with time, key (or path, uri, request_uri) and perhaps cost
Times are seconds, or timestamps such as 2024-05-01T12:00:00.5+02:00. Those of access logs are whole seconds:
the requests of one second are spread evenly over it. A path becomes the key that the client library's layer gives it \
(/a/b is a/b, and / is -); other text is escaped where it must be.

For each key and each rate of a grid (two digits, in steps of about a tenth, from the mean rate on), the least burst \
is computed with which one token bucket refuses at most the part --refuse of the requests. Rates that need no smaller \
burst than a lower one are left out. Of the rest, the lowest rate is chosen whose burst is made again within --refill. \
Then the busiest --window is simulated: its requests are dealt in turn to the clients of a fleet, whose leader crashes \
at the busiest second. If the fleet refuses more than it may, the burst grows by a quarter, until it does not.

Examples:
  aliquot-sim plan access.log                              key by path, refuse nothing
  aliquot-sim plan access.log --refuse 0.1% --key host     key by the client's address
  aliquot-sim plan calls.jsonl --key tenant --refill 60s   key by a field, with larger bursts
  aliquot-sim plan calls.csv --json --fleet 0              for scripts, without the fleet
  aliquot budget apply budgets.yaml --dry-run              what the written budgets would change

A key of which the fleet still refuses more than it may has no limit that is known to be enough. It is left out of the \
budgets: its limit is a comment in the file, with the reason.

Exit codes:
  0  the fleet refuses no more requests of any key than --refuse allows: the file has all of them
  1  it does of some, which are left out of the file, or an invariant was broken
  2  the command line or a line of the log is wrong; nothing was written";

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Args {
    /// Access log, CSV or JSON lines; `-` is standard input
    #[arg(value_name = "LOG")]
    log: PathBuf,
    /// Part of each key's requests that may be refused
    #[arg(long, value_name = "PART", default_value = "0%", value_parser = part)]
    refuse: f64,
    /// Field of the key: in an access log path, host, user, method, status or agent; otherwise the name of a
    /// column or of a field
    #[arg(long, value_name = "FIELD")]
    key: Option<String>,
    /// Prefix of each key, such as `web/`
    #[arg(long, value_name = "TEXT", default_value = "")]
    prefix: String,
    /// Skip lines that cannot be read, and print their number; otherwise the first such line is an error
    #[arg(long)]
    skip_bad_lines: bool,
    /// Maximum time in which the chosen rate refills the burst
    #[arg(long, value_name = "SPAN", default_value = "10s", value_parser = span)]
    refill: u64,
    /// Number of keys that are simulated, the busiest first
    #[arg(long, value_name = "N", default_value_t = 20)]
    fleet: usize,
    /// Number of clients of each key in the simulated fleet
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    clients: u16,
    /// Number of coordinator nodes in the simulated fleet
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=9))]
    nodes: u8,
    /// Longest part of the log that is simulated
    #[arg(long, value_name = "SPAN", default_value = "10m", value_parser = span)]
    window: u64,
    /// Seed of the simulation
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// File for the budgets
    #[arg(long, value_name = "FILE", default_value = "budgets.yaml")]
    out: PathBuf,
    /// File for the plots
    #[arg(long, value_name = "FILE", default_value = "plan.html")]
    plot: PathBuf,
    /// Replace existing files
    #[arg(long)]
    force: bool,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

fn part(text: &str) -> Result<f64, String> {
    let read = match text.strip_suffix('%') {
        Some(per_cent) => per_cent.trim().parse().map(|part: f64| part / 100.0),
        None => text.parse(),
    };
    let within = read.ok().filter(|part| (0.0..1.0).contains(part));
    within.ok_or_else(|| format!("{text:?}: must be a part below 100%, such as 0.1% or 0.001"))
}

fn span(text: &str) -> Result<u64, String> {
    let span = grammar::span(text).filter(|span| span.nanos() >= 1_000_000_000);
    let wrong = || format!("{text:?}: must be a span of at least 1s, such as 10s or 5m");
    span.map(|span| span.nanos()).ok_or_else(wrong)
}

pub(super) fn run(args: &Args) -> Result<Verdict, Usage> {
    for file in [&args.out, &args.plot] {
        if file.exists() && !args.force {
            let file = file.display();
            return Err(Usage(format!("{file} already exists; --force replaces it")));
        }
    }
    let replay = read(args)?;
    let recorded = recorded(&replay, &args.prefix)?;
    let mut sized: Vec<Sized> = recorded
        .into_iter()
        .map(|of| of.size(args.refuse, args.refill))
        .collect();
    // The busiest keys first; of two alike, the one that the log has first.
    sized.sort_by_key(|of| std::cmp::Reverse(of.recorded.requests.len()));
    let one_bucket: Vec<Limit> = sized.iter().map(|of| of.chosen).collect();
    let simulated = args.fleet.min(sized.len());
    let fleet = Fleet {
        nodes: args.nodes.into(),
        clients: args.clients.into(),
        window: args.window,
        seed: args.seed,
    };
    let breaches = match simulated {
        0 => Vec::new(),
        _ => fleet.confirm(&mut sized[..simulated]).map_err(Usage)?,
    };
    let all: Vec<(Sized, Limit)> = sized.into_iter().zip(one_bucket).collect();
    write(args, &all)?;
    let failed = !all.iter().all(|(of, _)| is_enough(of));
    let verdict = match failed || !breaches.is_empty() {
        true => Verdict::Fail,
        false => Verdict::Pass,
    };
    if args.json {
        say(&as_json(&replay, &all, &breaches, verdict).to_string());
    } else {
        say(&text(args, &replay, &all));
    }
    for breach in &breaches {
        warn(&format!("the simulated fleet broke an invariant: {breach}"));
    }
    let left_out = all.iter().filter(|(of, _)| !is_enough(of));
    let left_out: Vec<String> = left_out.map(|(of, _)| too_small(of)).collect();
    if !left_out.is_empty() {
        warn(&format!(
            "left out of {}, as the simulated fleet refuses more than it may: choose a longer --refill or a larger \
             --refuse\n  {}",
            args.out.display(),
            left_out.join("\n  ")
        ));
    }
    Ok(verdict)
}

fn read(args: &Args) -> Result<Replay, Usage> {
    let shown = args.log.display();
    let text = match args.log.as_os_str() == "-" {
        true => std::io::read_to_string(std::io::stdin()),
        false => std::fs::read_to_string(&args.log),
    };
    let text = text.map_err(|error| Usage(format!("{shown} cannot be read: {error}")))?;
    let reading = Reading {
        key: args.key.clone(),
        bad_lines: match args.skip_bad_lines {
            true => BadLines::Skip,
            false => BadLines::Refuse,
        },
    };
    Replay::read_as(&text, &reading).map_err(|error| {
        let hint = match args.skip_bad_lines {
            true => "",
            false => "; --skip-bad-lines leaves such lines out",
        };
        Usage(format!("{shown}: {error}{hint}"))
    })
}

/// Returns the requests of each budget's key, the first in the log first.
fn recorded(replay: &Replay, prefix: &str) -> Result<Vec<Recorded>, Usage> {
    let mut recorded: Vec<Recorded> = Vec::new();
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    let mut place_of = Vec::new();
    for name in &replay.keys {
        let key = format!("{prefix}{}", budget_key(name));
        if let Err(error) = Key::try_from(key.as_str()) {
            let what = "cannot be the key of a budget";
            return Err(Usage(format!("{key:?} {what}: {error}")));
        }
        let place = *places.entry(key.clone()).or_insert(recorded.len());
        if place == recorded.len() {
            recorded.push(Recorded {
                key,
                requests: Vec::new(),
            });
        }
        place_of.push(place);
    }
    for (at, key, cost) in &replay.arrivals {
        recorded[place_of[*key]].requests.push(Request {
            at: at.nanos(),
            cost: *cost,
        });
    }
    Ok(recorded)
}

/// Returns the key of a text in a log: of a path, as the client library's layer makes it; any other text that
/// cannot be a key is escaped as one segment, as there.
fn budget_key(name: &str) -> String {
    if Key::try_from(name).is_ok() {
        return name.to_owned();
    }
    let parts = |request: http::Result<http::Request<()>>| Some(request.ok()?.into_parts().0);
    let path = name.starts_with('/').then(|| {
        let parts = parts(http::Request::builder().uri(name).body(()))?;
        key::path()(&parts)
    });
    let segment = || {
        let parts = parts(http::Request::builder().header("key", name).body(()))?;
        key::header("key")(&parts)
    };
    path.flatten()
        .or_else(segment)
        .unwrap_or_else(|| name.to_owned())
}

/// Writes the budgets and the plots.
fn write(args: &Args, all: &[(Sized, Limit)]) -> Result<(), Usage> {
    let says = format!(
        "The limits of {}: at most {:.4}% of the requests of each key are refused.",
        args.log.display(),
        100.0 * args.refuse
    );
    let sized: Vec<Sized> = all.iter().map(|(of, _)| of.clone()).collect();
    let title = format!("Plan from {}", args.log.display());
    let html = drawing::sizes(&title, &says, &sized);
    for (file, text) in [(&args.out, budgets(&says, &sized)), (&args.plot, html)] {
        create(file, &text, args.force)
            .map_err(|error| Usage(format!("{} cannot be written: {error}", file.display())))?;
    }
    Ok(())
}

fn create(file: &Path, text: &str, force: bool) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).truncate(true);
    let mut file = match force {
        true => options.create(true).open(file)?,
        false => options.create_new(true).open(file)?,
    };
    file.write_all(text.as_bytes())
}

/// Returns true unless the fleet refused more requests of the key than it may.
fn is_enough(of: &Sized) -> bool {
    of.fleet.is_none_or(|fleet| fleet.holds())
}

/// Says by how much a key's limit is too small.
fn too_small(of: &Sized) -> String {
    // A JSON string is a YAML string.
    let key = Value::String(of.recorded.key.clone());
    let Limit { rate, burst } = of.chosen;
    let (refused, requests, allowed) = of.fleet.map_or((0, 0, 0), |fleet| {
        (fleet.refused, fleet.requests, fleet.allowed)
    });
    format!(
        "{key}: with rate {rate} and burst {burst} the fleet refuses {refused} of {requests} requests, and may refuse {allowed}"
    )
}

/// Writes the budgets as `aliquot budget apply` reads them. Limits that are not enough are comments.
fn budgets(says: &str, sized: &[Sized]) -> String {
    let (enough, others): (Vec<&Sized>, Vec<&Sized>) = sized.iter().partition(|of| is_enough(of));
    let list = if enough.is_empty() { " []" } else { "" };
    let mut text = format!("# {}\n", says.replace('\n', " "));
    for of in others {
        let _ = writeln!(text, "# Left out: {}", too_small(of));
    }
    let _ = writeln!(text, "budgets:{list}");
    for of in enough {
        let Limit { rate, burst } = of.chosen;
        let key = Value::String(of.recorded.key.clone());
        let _ = writeln!(text, "  - key: {key}\n    rate: {rate}\n    burst: {burst}");
    }
    text
}

fn per_cent(part: u64, of: u64) -> String {
    format!("{:.3}%", 100.0 * part as f64 / of.max(1) as f64)
}

fn text(args: &Args, replay: &Replay, all: &[(Sized, Limit)]) -> String {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY);
    table.set_header([
        "key",
        "requests",
        "mean/s",
        "rate",
        "burst",
        "one bucket needs",
        "it refuses",
        "fleet refuses",
        "allowed",
        "written",
    ]);
    for (of, one_bucket) in all {
        let requests = of.recorded.requests.len() as u64;
        let seconds = of.recorded.length() as f64 / 1e9;
        let fleet = |show: fn(Confirmed) -> String| of.fleet.map_or_else(|| "-".to_owned(), show);
        table.add_row([
            of.recorded.key.clone(),
            requests.to_string(),
            format!("{:.3}", of.recorded.tokens() as f64 / seconds),
            of.chosen.rate.to_string(),
            of.chosen.burst.to_string(),
            one_bucket.burst.to_string(),
            per_cent(of.refused(), requests),
            fleet(|fleet| format!("{} of {}", fleet.refused, fleet.requests)),
            fleet(|fleet| fleet.allowed.to_string()),
            if is_enough(of) { "yes" } else { "NO" }.to_owned(),
        ]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let mut text = format!("{table}\n");
    for (of, _) in all.iter().filter(|(of, _)| of.fleet.is_some()) {
        let limits = of.front.iter();
        let limits: Vec<String> = limits
            .map(|limit| format!("{} burst {}", limit.rate, limit.burst))
            .collect();
        let _ = writeln!(text, "\n{}: any of {}", of.recorded.key, limits.join(", "));
    }
    if let (skipped @ 1.., Some(first)) = (replay.skipped.lines, &replay.skipped.first) {
        let _ = writeln!(text, "\n{skipped} lines were left out, the first: {first}");
    }
    let _ = write!(
        text,
        "\nwritten: {} and {}",
        args.out.display(),
        args.plot.display()
    );
    text
}

fn as_json(
    replay: &Replay,
    all: &[(Sized, Limit)],
    breaches: &[String],
    verdict: Verdict,
) -> Value {
    let limit = |limit: &Limit| json!({ "rate": limit.rate.to_string(), "burst": limit.burst });
    let keys = all.iter().map(|(of, one_bucket)| {
        json!({
            "key": of.recorded.key,
            "requests": of.recorded.requests.len(),
            "tokens": of.recorded.tokens(),
            "seconds": of.recorded.length() as f64 / 1e9,
            "rate": of.chosen.rate.to_string(),
            "burst": of.chosen.burst,
            "one_bucket": limit(one_bucket),
            "refused_by_one_bucket": of.refused(),
            "written": is_enough(of),
            "front": of.front.iter().map(limit).collect::<Vec<_>>(),
            "fleet": of.fleet.map(|fleet| json!({
                "requests": fleet.requests,
                "refused": fleet.refused,
                "allowed": fleet.allowed,
                "holds": fleet.holds(),
            })),
        })
    });
    json!({
        "verdict": verdict.word().to_lowercase(),
        "breaches": breaches,
        "skipped_lines": replay.skipped.lines,
        "keys": keys.collect::<Vec<_>>(),
    })
}
