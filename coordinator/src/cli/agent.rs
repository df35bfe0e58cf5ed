//! `aliquot agent`: faces beside a service.

use super::connect::Connection;
use super::node::{fatal, log_to_stderr, until_signal, warn};
use super::serve::load;
use super::{Failure, Out};
use crate::config::{Config, FaceFlags, Loaded};
use crate::serve;
use std::path::PathBuf;
use std::process::ExitCode;

const EXAMPLES: &str = "\
An agent is a client of the cluster that decides for services without an embedded client. Run it as a sidecar, or \
run one on each host. It answers on loopback or on a Unix socket, and decides with tokens that were leased to it in \
advance. It has the settings of a node's faces, read from the same file, variables and flags. --metrics-listen \
127.0.0.1:7202 serves /metrics, \
/healthz and /readyz.

Examples:
  aliquot agent --endpoint node-1:7001 --faces-http-listen 127.0.0.1:7301
  aliquot agent --faces-http-listen unix:/run/aliquot/http.sock --faces-grpc-listen 127.0.0.1:7302
  curl -s http://127.0.0.1:7301/v1/check -H 'content-type: application/json' -d '{\"key\": \"tenant/42/reads\"}'

Exit codes: 0 stopped by SIGTERM or SIGINT; 129 stopped by SIGHUP in a terminal; 1 it could not start for a \
temporary reason, such as a port in use; 2 the command \
line or a file is wrong";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Configuration file (TOML) with the settings of faces; other settings of a node have no effect
    #[arg(long, value_name = "FILE", env = "ALIQUOT_CONFIG")]
    config: Option<PathBuf>,
    #[command(flatten)]
    flags: FaceFlags,
    #[command(flatten)]
    connection: Connection,
}

impl Args {
    pub(super) fn run(self, out: Out) -> Result<ExitCode, Failure> {
        let (format, loaded) = load(self.config, self.flags.0, &FaceFlags::DEFAULTS);
        let run = |loaded: Loaded| {
            for warning in &loaded.warnings {
                warn(format, out, warning);
            }
            start(loaded.config, &self.connection)
        };
        match loaded.and_then(run) {
            Ok(()) => Ok(ExitCode::SUCCESS),
            Err(failure) => fatal(format, failure),
        }
    }
}

/// Runs an agent until a signal stops it.
fn start(config: Config, connection: &Connection) -> Result<(), Failure> {
    if config.faces.listen.is_empty() {
        let what = "no face is on: set an address with --faces-http-listen, --faces-grpc-listen, \
                    --faces-redis-listen or --faces-rlqs-listen";
        return Err(Failure::Usage(what.to_owned()));
    }
    let client = connection.client()?;
    let runtime = tokio::runtime::Runtime::new();
    let failed = |error| Failure::Refused(format!("the agent cannot start: {error}"));
    runtime.map_err(failed)?.block_on(async {
        log_to_stderr(&config.log).map_err(Failure::Usage)?;
        let served = async |shutdown| {
            let ended = serve::agent(config, client, shutdown).await;
            ended.map_err(|error| match error.may_pass() {
                true => Failure::Refused(error.to_string()),
                false => Failure::Usage(error.to_string()),
            })
        };
        until_signal("", served).await
    })
}
