//! The command line: `aliquot serve` runs a node, `aliquot agent` its faces alone, every other command talks to a node.
//!
//! | exit code | meaning |
//! |---|---|
//! | 0 | done |
//! | 1 | refused or failed; the message says whether anything was changed |
//! | 2 | the command line, a file or a data directory is wrong; nothing was sent, and a retry does not help |
//! | 3 | no node could be reached; nothing was changed |
//! | 4 | the log holds an entry or a snapshot that this version of `aliquot serve` cannot read; the message says what to do |
//! | 129 | the terminal of a service was closed |

/// Builds the end of the help of a command without subcommands: its examples and exit codes.
macro_rules! leaf {
    ($($line:literal),+) => {
        concat!(
            "Examples:\n",
            $("  ", $line, "\n",)+
            "\nExit codes: 0 done; 1 refused or failed, and the message says whether anything was changed; \
             2 the command line or a file is wrong, and nothing was sent; 3 no node could be reached"
        )
    };
}

mod agent;
mod budget;
mod check;
mod cluster;
mod connect;
mod demo;
mod explain_key;
mod failure;
mod import;
mod keys;
mod member;
mod node;
mod number;
mod out;
mod rls;
mod serve;
mod show;
mod top;

pub use failure::Failure;
pub use node::node;
pub(crate) use out::Out;
pub use serve::Serve;

use clap::builder::styling::{AnsiColor, Styles};
use clap::{CommandFactory, Parser, Subcommand};
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

/// One global rate limit across a whole fleet.
///
/// `aliquot serve` runs a node of the coordinator, and `aliquot agent` runs faces beside a service. Every other
/// command talks to any node of a running cluster.
#[derive(Debug, Parser)]
#[command(
    name = "aliquot",
    version,
    styles = STYLES,
    max_term_width = 100,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = AFTER_HELP
)]
struct Cli {
    /// Print JSON instead of text
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

const AFTER_HELP: &str = "\
Examples:
  aliquot serve --config node.toml          run a node
  aliquot agent --faces-http-listen 127.0.0.1:7301    answer services that embed no client
  aliquot budget apply budgets.yaml         write budgets
  aliquot budget usage tenant/42/reads      the limit in force and its usage
  aliquot check tenant/42/reads             decide one request, as a service does
  aliquot cluster status                    the leader and the size of the cluster
  aliquot import envoy ratelimit/config     convert rules for Envoy into budgets
  aliquot rls --compat                      Envoy's rate limit service
  aliquot top                               the busiest keys, live

Exit codes:
  0  done
  1  refused or failed; the message says whether anything was changed
  2  the command line, a file or a data directory is wrong; nothing was sent, and a retry
     does not help
  3  no node could be reached; nothing was changed
  4  `aliquot serve`: this version cannot read an entry or a snapshot of the log; the message says
     what to do. `aliquot demo`: inconclusive, because the machine was too busy";

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a node of the coordinator
    Serve(Box<serve::Args>),
    /// Run an agent: faces beside a service, as a client of the cluster
    Agent(Box<agent::Args>),
    /// Write, read and compare budgets
    Budget(budget::Args),
    /// Show the cluster and change its members
    Cluster(cluster::Args),
    /// Decide one request, and spend its tokens if it is admitted
    Check(check::Args),
    /// Show which rule and which budget a face applies to a key
    ExplainKey(Box<explain_key::Args>),
    /// Convert the rules of another rate limiter into budgets
    Import(import::Args),
    /// Run Envoy's rate limit service, in place of envoyproxy/ratelimit
    Rls(rls::Args),
    /// Show the busiest keys, live
    Top(top::Args),
    Demo(Box<demo::DemoArgs>),
    /// Print a completion script for a shell
    #[command(after_help = "Example:\n  aliquot completions bash > /etc/bash_completion.d/aliquot")]
    Completions {
        /// Shell to print the script for
        shell: clap_complete::Shell,
    },
}

/// Parses the arguments, of which the first is the program's name, and runs the command.
/// Calls `serve` to run a node.
#[must_use]
pub fn run(arguments: impl IntoIterator<Item = OsString>, serve: Serve) -> ExitCode {
    let cli = match Cli::try_parse_from(by_name(arguments)) {
        Ok(cli) => cli,
        Err(error) => {
            // If this fails there is no other place to report it.
            drop(error.print());
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    let out = Out { json: cli.json };
    match dispatch(cli, out, serve) {
        Ok(code) => code,
        Err(failure) => {
            out.complain(failure.message());
            failure.exit_code()
        }
    }
}

/// Name of the reference server's program, by which orchestrators such as Envoy Gateway start it, without arguments.
const REFERENCE: &str = "ratelimit";

/// Returns the arguments of `aliquot rls --compat` if the program is started by the name of the reference server.
fn by_name(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = arguments.into_iter().collect();
    let name = arguments
        .first()
        .and_then(|name| Path::new(name).file_name());
    if name.is_some_and(|name| name == REFERENCE) {
        let instead = ["aliquot", "rls", "--compat"].map(OsString::from);
        drop(arguments.splice(..1, instead));
    }
    arguments
}

fn dispatch(cli: Cli, out: Out, serve: Serve) -> Result<ExitCode, Failure> {
    let done = match cli.command {
        Command::Serve(args) => return args.run(out, serve),
        Command::Agent(args) => return args.run(out),
        Command::ExplainKey(args) => block_on(args.run(out)),
        Command::Budget(args) => block_on(args.run(out)),
        Command::Cluster(args) => block_on(args.run(out)),
        Command::Import(args) => block_on(args.run(out)),
        Command::Rls(args) => return args.run(),
        Command::Top(args) => block_on(args.run(out)),
        Command::Check(args) => return block_on(args.run(out)),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "aliquot", &mut script);
            out.print(String::from_utf8_lossy(&script).trim_end());
            Ok(())
        }
        // `demo` has exit codes of its own, which report its verdict.
        Command::Demo(args) => return Ok(demo::start(*args, out.json)),
    };
    done.map(|()| ExitCode::SUCCESS)
}

fn block_on<T>(command: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let failed = |error| Failure::Refused(format!("this program cannot start: {error}"));
    runtime.map_err(failed)?.block_on(command)
}

#[cfg(test)]
#[path = "../tests/unit/cli.rs"]
mod tests;
