//! `aliquot serve`: runs a node.

use super::node::{fatal, warn};
use super::{Failure, Out};
use crate::config::{Config, Flags, Loaded, LogFormat, Sources};
use futures_util::future::BoxFuture;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Every setting can be given in the file, by an environment variable and by a flag. A flag overrides a \
variable, and a variable overrides the file. `--print-config` prints the settings in force and where \
each value comes from.

Exit code 1: the node failed for a temporary reason, such as a port in use or a full disk; starting it again may \
help. Exit code 2: the configuration, a file or the data directory is wrong; \
starting it again does not help. Exit code 4: this version cannot read an entry or a snapshot of the \
log; the message says what to do. SIGTERM and SIGINT stop a node gracefully, with exit code 0. In a terminal, \
SIGHUP does the same with exit code 129; without a terminal it is logged and has no effect.

Examples:
  aliquot serve                                        one node, for trying out
  aliquot serve --config /etc/aliquot/node.toml        as a service
  aliquot serve --config node.toml --print-config      check, and show what is in force

Example of a configuration file:
  listen = \"0.0.0.0:7001\"
  advertise = \"node-1.example:7001\"
  peer_listen = \"0.0.0.0:7101\"
  peer_advertise = \"node-1.example:7101\"
  data_dir = \"/var/lib/aliquot\"
  [cluster]
  id = \"shop\"
  peers = [\"node-1.example:7101\", \"node-2.example:7101\", \"node-3.example:7101\"]
  [tls]
  cert = \"/etc/aliquot/node-1.pem\"
  key = \"/etc/aliquot/node-1.key\"
  ca = \"/etc/aliquot/ca.pem\"
  admins = [\"ops.example\"]";

/// Runs a node until it ends. Fails if the node could not start or could not go on.
pub type Serve = fn(Loaded) -> BoxFuture<'static, Result<(), Failure>>;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Configuration file (TOML)
    #[arg(long, value_name = "FILE", env = "ALIQUOT_CONFIG")]
    config: Option<PathBuf>,
    /// Print the effective configuration with the origin of each value, and exit
    #[arg(long)]
    print_config: bool,
    #[command(flatten)]
    flags: Flags,
}

impl Args {
    pub(super) fn run(self, out: Out, serve: Serve) -> Result<ExitCode, Failure> {
        let (format, loaded) = load(self.config, self.flags, &[]);
        if self.print_config {
            let loaded = loaded?;
            for warning in &loaded.warnings {
                out.complain(&format!("warning: {warning}"));
            }
            out.answer(|| loaded.to_json(), || loaded.to_string());
            return Ok(ExitCode::SUCCESS);
        }
        let run = |loaded: Loaded| {
            for warning in &loaded.warnings {
                warn(format, out, warning);
            }
            let runtime = tokio::runtime::Runtime::new();
            let failed = |error| Failure::Refused(format!("the node cannot start: {error}"));
            runtime.map_err(failed)?.block_on(serve(loaded))
        };
        match loaded.and_then(run) {
            Ok(()) => Ok(ExitCode::SUCCESS),
            Err(failure) => fatal(format, failure),
        }
    }
}

/// Reads the configuration from the file, the variables and the flags. Returns also the format of the log, which the
/// error about another setting has, too. `defaults` are those that differ from a node's.
pub(super) fn load(
    config: Option<PathBuf>,
    flags: Flags,
    defaults: &[(&'static str, &'static str)],
) -> (LogFormat, Result<Loaded, Failure>) {
    let mut sources = Sources::default();
    for (key, text) in defaults {
        sources.default_of(key, text);
    }
    let readable = |(name, text): (OsString, OsString)| {
        Some((name.into_string().ok()?, text.into_string().ok()?))
    };
    sources.env(std::env::vars_os().filter_map(readable));
    sources.flags(flags);
    if let Some(path) = config {
        match std::fs::read_to_string(&path) {
            Ok(text) => sources.file(path, text),
            Err(error) => {
                let path = path.display();
                let message = format!("--config {path} cannot be read: {error}");
                return (LogFormat::of(&sources), Err(Failure::Usage(message)));
            }
        }
    }
    let loaded = Config::load(&sources);
    let loaded = loaded.map_err(|problems| Failure::Usage(problems.to_string()));
    (LogFormat::of(&sources), loaded)
}
