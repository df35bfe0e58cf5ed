//! `aliquot demo`: a cluster under real load on this machine, and a verdict.

mod exit;
mod parts;

use super::number::whole;
use crate::clock::HostClock;
use crate::demo::{
    self, Afterwards, DemoError, DemoPlan, Device, Fault, Kill, Report, Screen, Via,
};
use aliquot_core::budget::grammar;
use aliquot_core::unit::Span;
use clap::{Args, ValueEnum};
use exit::{INTERRUPTED, NO_RUN, complain};
use parts::Part;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use tokio::runtime;
use tokio::signal::unix::{SignalKind, signal};

const EXIT_CODES: &str = "\
Examples:
  aliquot demo
  aliquot demo --kill follower --duration 1m
  aliquot demo --via http
  aliquot demo --json report.json
  aliquot demo --replay access.log --limit 20 --speed 10
  aliquot demo --keep --kill none

Exit codes:
  0    every check of the verdict passed
  1    a check failed
  2    the run could not be carried out
  3    the verdict is unknown: the records contradict each other, or the run was too short
  4    inconclusive: nothing was over-admitted, but the machine was too busy to judge the other checks
  130  interrupted";

/// Start a cluster and services on this machine, put them under load, kill a node, and check every decision
///
/// Three coordinators and the services are separate processes, with their
/// files in one directory. The services share one limit. The load is three
/// times that limit, and half of it goes to one service. At half time a node is
/// killed; it is started again two seconds later. Every decision is recorded
/// with the times before and after it, and the verdict is computed from these
/// records.
///
/// With --via, the services embed no client: for every request they ask a face,
/// and go to the next one if they cannot reach it. An admission then counts in a window only if it was both
/// requested and answered within that window.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, after_help = EXIT_CODES)]
pub(crate) struct DemoArgs {
    /// With --json: file for the report [default: standard output]
    #[arg(value_name = "FILE")]
    report: Option<PathBuf>,

    /// Duration of the load, 3s to 24h, and at least 13s with a kill [default: 30s, or as long as the replay]
    #[arg(long, value_name = "SPAN", value_parser = duration)]
    duration: Option<Span>,

    /// Number of services, 1 to 64
    #[arg(long, value_name = "N", default_value_t = 8,
        value_parser = whole::<u64>(1..=64))]
    services: u64,

    /// Rate of the shared limit, in requests per second, 1 to 100000
    #[arg(long, value_name = "N", default_value_t = 1_000,
        value_parser = whole::<u64>(1..=100_000))]
    limit: u64,

    /// Burst of the shared limit, in requests, 1 to 1000000 [default: 200; with --via rls always the limit]
    #[arg(long, value_name = "N",
        value_parser = whole::<u64>(1..=1_000_000))]
    burst: Option<u64>,

    /// Interface through which the services ask for decisions
    #[arg(long, value_name = "FACE", default_value = "client")]
    via: Via,

    /// Node to kill at half time
    #[arg(long, value_name = "NODE", default_value = "leader")]
    kill: KillChoice,

    /// Leave everything running after the verdict, until Ctrl-C, and print a command to try
    #[arg(long)]
    keep: bool,

    /// Empty directory for all files, which are kept [default: a temporary directory]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,

    /// Seed of the random load
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole::<u64>(0..=u64::MAX))]
    seed: u64,

    /// Replay the requests of a CSV file (time,key,cost), JSON lines or an access log as the load; each key then
    /// has a limit of its own
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,

    /// Speed of the replay as a factor, 0.001 to 10000
    #[arg(long, value_name = "X", default_value = "1", value_parser = speed, requires = "replay")]
    speed: u64,

    /// Let a service serve what its limiter refused: the run must fail
    #[arg(
        long = "plant-overadmission",
        hide = true,
        conflicts_with = "inject_miscount"
    )]
    inject_overadmission: bool,

    /// Let a service leave an admission out of its record: the verdict must be unknown
    #[arg(long = "plant-miscount", hide = true)]
    inject_miscount: bool,

    #[command(subcommand)]
    part: Option<Part>,
}

/// Burst of the shared limit, where it is not that of a rule.
const BURST_DEFAULT: u64 = 200;

#[derive(Clone, Copy, Debug, ValueEnum)]
enum KillChoice {
    /// The leader
    Leader,
    /// The follower with the most sessions
    Follower,
    /// No node
    None,
}

/// Runs `aliquot demo`. If `json` is set, the report is also written as JSON. Must be called on the
/// main thread, because all processes of a run end with the thread that started them.
pub(crate) fn start(args: DemoArgs, json: bool) -> ExitCode {
    // A service is one of many processes on this machine: one thread is enough for it.
    let mut runtime = match args.part {
        Some(_) => runtime::Builder::new_current_thread(),
        None => runtime::Builder::new_multi_thread(),
    };
    match runtime.enable_all().build() {
        Ok(runtime) => runtime.block_on(run(args, json)),
        Err(error) => {
            complain(&error.to_string());
            ExitCode::from(NO_RUN)
        }
    }
}

async fn run(mut args: DemoArgs, json: bool) -> ExitCode {
    match args.part.take() {
        Some(part) => parts::run(part).await,
        None => run_all(args, json).await,
    }
}

async fn run_all(mut args: DemoArgs, json: bool) -> ExitCode {
    let report = args.report.take();
    if report.is_some() && !json {
        complain("FILE requires --json: aliquot demo --json FILE");
        return ExitCode::from(NO_RUN);
    }
    let report = match report.map(ReportFile::open).transpose() {
        Ok(report) => report,
        Err(why) => {
            complain(&why);
            return ExitCode::from(NO_RUN);
        }
    };
    let interrupted = match interruption() {
        Ok(interrupted) => interrupted,
        Err(error) => {
            complain(&error.to_string());
            return ExitCode::from(NO_RUN);
        }
    };
    // If the report goes to standard output, progress goes to standard error.
    let screen = match (json, &report) {
        (true, None) => screen(io::stderr()),
        _ => screen(io::stdout()),
    };
    let mut written = Ok(());
    let on_report = |found: &Report| {
        if json {
            written = write_report(found, report.as_ref());
        }
    };
    let outcome = demo::run(
        plan(args),
        Arc::new(HostClock),
        screen,
        interrupted,
        on_report,
    )
    .await;
    if let Err(error) = written {
        complain(&format!("the report could not be written: {error}"));
        return ExitCode::from(NO_RUN);
    }
    match outcome {
        Ok(report) => ExitCode::from(exit::of(report.verdict.outcome, report.verdict.busy)),
        Err(error) => {
            complain(&error.to_string());
            let interrupted = matches!(error, DemoError::Interrupted);
            ExitCode::from(if interrupted { INTERRUPTED } else { NO_RUN })
        }
    }
}

fn plan(args: DemoArgs) -> DemoPlan {
    DemoPlan {
        services: usize::try_from(args.services).unwrap_or(usize::MAX),
        limit: args.limit,
        burst: args.burst.unwrap_or(match args.via {
            Via::Rls => args.limit,
            _ => BURST_DEFAULT,
        }),
        via: args.via,
        duration: args.duration,
        kill: match args.kill {
            KillChoice::Leader => Kill::Leader,
            KillChoice::Follower => Kill::Follower,
            KillChoice::None => Kill::None,
        },
        afterwards: match args.keep {
            true => Afterwards::Keep,
            false => Afterwards::Stop,
        },
        data: args.data,
        seed: args.seed,
        replay: args.replay.map(|path| (path, args.speed)),
        fault: match (args.inject_overadmission, args.inject_miscount) {
            (true, _) => Fault::OverAdmission,
            (_, true) => Fault::Miscount,
            _ => Fault::None,
        },
    }
}

/// Resolves when the process is asked to end, by Ctrl-C, SIGTERM or SIGHUP.
fn interruption() -> io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hangup.recv() => {}
        }
    })
}

fn screen(out: impl Write + IsTerminal + Send + 'static) -> Screen {
    let size = crossterm::terminal::size().ok();
    let device = match size.filter(|_| out.is_terminal()) {
        Some((columns, rows)) => Device::Terminal { columns, rows },
        None => Device::Lines,
    };
    Screen::new(Box::new(out), device)
}

/// File for the report, opened before the run so that a wrong path is found early.
struct ReportFile {
    path: PathBuf,
    file: File,
    is_new: bool,
}

impl ReportFile {
    fn open(path: PathBuf) -> Result<Self, String> {
        let is_new = !path.exists();
        let file = File::options()
            .create(true)
            .write(true)
            .truncate(false)
            .open(&path);
        match file {
            Ok(file) => Ok(Self { path, file, is_new }),
            Err(error) => {
                let path = path.display();
                Err(format!("the report cannot be written to {path}: {error}"))
            }
        }
    }

    fn write(&self, json: &str) -> io::Result<()> {
        self.file.set_len(0)?;
        (&self.file).write_all(json.as_bytes())
    }
}

impl Drop for ReportFile {
    fn drop(&mut self) {
        // A run without a report leaves no empty file, and does not damage an earlier report.
        let is_empty = self
            .file
            .metadata()
            .is_ok_and(|file| file.is_file() && file.len() == 0);
        if self.is_new && is_empty {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn write_report(report: &Report, file: Option<&ReportFile>) -> io::Result<()> {
    let mut json = serde_json::to_string_pretty(report)?;
    json.push('\n');
    match file {
        Some(file) => file.write(&json),
        None => io::stdout().write_all(json.as_bytes()),
    }
}

fn duration(text: &str) -> Result<Span, String> {
    let span = grammar::span(text);
    let allowed = Span::from_secs(3)..=Span::from_secs(86_400);
    let within = span.filter(|span| allowed.contains(span));
    within.ok_or_else(|| "must be a span from 3s to 24h, such as 30s or 5m".to_owned())
}

/// Parses a factor, in thousandths.
fn speed(text: &str) -> Result<u64, String> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let three: String = part.chars().chain("000".chars()).take(3).collect();
    let finer = part.bytes().skip(3).any(|byte| byte != b'0');
    let thousandths = (digits(whole) && digits(part) && !finer)
        .then(|| format!("{whole}{three}").parse().ok())
        .flatten();
    thousandths
        .filter(|thousandths| (1..=10_000_000).contains(thousandths))
        .ok_or_else(|| "must be a factor from 0.001 to 10000, such as 2 or 0.5".to_owned())
}

#[cfg(test)]
#[path = "../../tests/unit/cli/demo.rs"]
mod tests;
