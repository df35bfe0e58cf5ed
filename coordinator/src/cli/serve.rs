//! `aliquot serve`: runs a node.

use super::{Failure, Out};
use crate::config::{Config, Flags, Loaded, LogFormat, Sources};
use futures_util::future::BoxFuture;
use std::path::PathBuf;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Every setting can be given in the file, by an environment variable and by a flag. A flag overrides a
variable, and a variable overrides the file. `--print-config` prints the settings in force and where
each value comes from.

Exit code 1: the node failed for a reason that may pass, such as a port in use or a full disk; it
may be started again. Exit code 2: the configuration, a file or the data directory is wrong;
starting it again does not help. Exit code 4: this version cannot read an entry or a snapshot of the
log; the message says what to do. SIGTERM, SIGINT and SIGHUP stop a node gracefully: exit code 0.

Examples:
  aliquot serve                                        one node, for trying out
  aliquot serve --config /etc/aliquot/node.toml        as a service
  aliquot serve --config node.toml --print-config      check, and show what is in force

A file:
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
        let print = self.print_config;
        let loaded = self.load()?;
        for warning in &loaded.warnings {
            out.complain(&format!("warning: {warning}"));
        }
        if print {
            out.answer(|| loaded.to_json(), || loaded.to_string());
            return Ok(ExitCode::SUCCESS);
        }
        let format = loaded.config.log.format;
        let runtime = tokio::runtime::Runtime::new();
        let failed = |error| Failure::Refused(format!("the node cannot start: {error}"));
        match runtime.map_err(failed)?.block_on(serve(loaded)) {
            Ok(()) => Ok(ExitCode::SUCCESS),
            // The last line of a log in JSON must be JSON, too.
            Err(failure) if format == LogFormat::Json && tracing::dispatcher::has_been_set() => {
                tracing::error!("{failure}");
                Ok(failure.exit_code())
            }
            Err(failure) => Err(failure),
        }
    }

    fn load(self) -> Result<Loaded, Failure> {
        let sources = sources(self.config, self.flags)?;
        Config::load(&sources).map_err(|problems| Failure::Usage(problems.to_string()))
    }
}

/// Reads the file and the variables, beside the flags.
pub(super) fn sources(config: Option<PathBuf>, flags: Flags) -> Result<Sources, Failure> {
    let mut sources = Sources::default();
    if let Some(path) = config {
        let text = std::fs::read_to_string(&path).map_err(|error| {
            let path = path.display();
            Failure::Usage(format!("--config {path} cannot be read: {error}"))
        })?;
        sources.file(path, text);
    }
    let readable = |(name, text): (_, std::ffi::OsString)| {
        let name: std::ffi::OsString = name;
        Some((name.into_string().ok()?, text.into_string().ok()?))
    };
    sources.env(std::env::vars_os().filter_map(readable));
    sources.flags(flags);
    Ok(sources)
}
