//! `aliquot rls`: Envoy's rate limit service, in place of envoyproxy/ratelimit.

use super::Failure;
use super::budget::apply;
use super::connect::Connection;
use super::node::{fatal, log_to_stderr, until_signal};
use crate::config::{LogConfig, LogFormat};
use crate::serve;
use aliquot_budgets::Found;
use aliquot_core::budget::BudgetDraft;
use aliquot_faces::rls::load::Budgets;
use aliquot_faces::rls::settings::Compat;
use futures_util::future::LocalBoxFuture;
use std::process::ExitCode;

const EXAMPLES: &str = "\
It replaces envoyproxy/ratelimit: it has the same service, files and environment variables, and needs no Redis. It \
is a client of the cluster. At the start, and when the files change, it writes the rules to the cluster as budgets.

Variables, with their defaults: RUNTIME_ROOT (/srv/runtime_data/current), RUNTIME_SUBDIRECTORY, RUNTIME_APPDIRECTORY \
(config), RUNTIME_IGNOREDOTFILES; GRPC_HOST, GRPC_PORT (8081), GRPC_SERVER_USE_TLS, GRPC_SERVER_TLS_CERT, \
GRPC_SERVER_TLS_KEY, GRPC_CLIENT_TLS_CACERT; HOST, PORT (8080); DEBUG_HOST, DEBUG_PORT (6070); PROMETHEUS_ADDR (:19001), \
PROMETHEUS_PATH; MERGE_DOMAIN_CONFIG, SHADOW_MODE, QUOTA_MODE, RESPONSE_DYNAMIC_METADATA, \
LIMIT_RESPONSE_HEADERS_ENABLED, LIMIT_LIMIT_HEADER, LIMIT_REMAINING_HEADER, LIMIT_RESET_HEADER, \
HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED, FORCE_START_WITHOUT_INITIAL_CONFIG; LOG_LEVEL (info), LOG_FORMAT. Three \
more are its own: ALIQUOT_RLS_CALENDAR=true turns limits per minute or longer into calendar quotas, \
ALIQUOT_RLS_MAX_KEYS (100000, at most 10000000) is the maximum number of keys of each rule without a fixed value, \
and ALIQUOT_RLS_KEYS (16384, at least 64) is the maximum number of keys in memory.

If the program is started under the name `ratelimit`, it runs `aliquot rls --compat`.

With CONFIG_TYPE=GRPC_XDS_SOTW the rules come from a management server, such as Envoy Gateway, and not from files:
CONFIG_GRPC_XDS_SERVER_URL (localhost:18000), CONFIG_GRPC_XDS_NODE_ID (default), CONFIG_GRPC_XDS_NODE_METADATA, \
CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS, XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES; CONFIG_GRPC_XDS_SERVER_USE_TLS, \
CONFIG_GRPC_XDS_SERVER_TLS_CACERT, CONFIG_GRPC_XDS_SERVER_TLS_SAN, CONFIG_GRPC_XDS_CLIENT_TLS_CERT, \
CONFIG_GRPC_XDS_CLIENT_TLS_KEY.

Examples:
  RUNTIME_ROOT=/srv/ratelimit aliquot rls --compat --endpoint node-1:7001
  aliquot import envoy /srv/ratelimit/config     show the budgets that it would write

Exit codes: 0 stopped by SIGTERM or SIGINT; 129 stopped by SIGHUP in a terminal; 1 it could not start for a \
temporary reason, such as a port in use; 2 a variable or \
a rule is wrong";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Read the environment variables of envoyproxy/ratelimit, and listen on its ports
    #[arg(long, required = true)]
    compat: bool,
    #[command(flatten)]
    connection: Connection,
}

/// The budgets of the cluster, over the operators' service.
struct Cluster(Connection);

impl Budgets for Cluster {
    fn apply(&self, drafts: Vec<BudgetDraft>) -> LocalBoxFuture<'_, Result<(), String>> {
        let found = |draft| Found::new("rules", 0, draft);
        let found: Vec<Found> = drafts.into_iter().map(found).collect();
        Box::pin(async move {
            let applied = apply::apply_quietly(&self.0, &found).await;
            applied.map_err(|failure| failure.to_string())
        })
    }
}

impl Args {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        debug_assert!(self.compat, "the flag is required");
        let variables = std::env::vars_os();
        let variables = variables
            .filter_map(|(name, text)| Some((name.into_string().ok()?, text.into_string().ok()?)));
        let variables: Vec<(String, String)> = variables.collect();
        match self.start(&variables) {
            Ok(()) => Ok(ExitCode::SUCCESS),
            // A wrong format is itself an error, which is then for people.
            Err(failure) => fatal(format(&variables).unwrap_or(LogFormat::Pretty), failure),
        }
    }

    /// Runs the service until a signal stops it.
    fn start(self, variables: &[(String, String)]) -> Result<(), Failure> {
        let compat = Compat::read(variables);
        let compat = compat.map_err(|problems| Failure::Usage(problems.join("\n")))?;
        let log = log(variables)?;
        let client = self.connection.client()?;
        let runtime = tokio::runtime::Runtime::new();
        let failed = |error| Failure::Refused(format!("the service cannot start: {error}"));
        runtime.map_err(failed)?.block_on(async {
            log_to_stderr(&log).map_err(Failure::Usage)?;
            let served = async |shutdown| {
                let cluster = Cluster(self.connection);
                let ended = serve::rls(compat, client, cluster, shutdown).await;
                ended.map_err(|error| match error.may_pass() {
                    true => Failure::Refused(error.to_string()),
                    false => Failure::Usage(error.to_string()),
                })
            };
            until_signal("", served).await
        })
    }
}

/// Returns level and format of the log, by the reference server's names.
fn log(variables: &[(String, String)]) -> Result<LogConfig, Failure> {
    let filter = match value(variables, "LOG_LEVEL").as_deref() {
        None | Some("info") => "info",
        Some("trace") => "trace",
        Some("debug") => "debug",
        Some("warn" | "warning") => "warn",
        Some("error" | "fatal" | "panic") => "error",
        Some(level) => {
            return Err(wrong(
                "LOG_LEVEL",
                level,
                "trace, debug, info, warn or error",
            ));
        }
    };
    Ok(LogConfig {
        format: format(variables)?,
        filter: filter.to_owned(),
    })
}

fn format(variables: &[(String, String)]) -> Result<LogFormat, Failure> {
    match value(variables, "LOG_FORMAT").as_deref() {
        None | Some("text") => Ok(LogFormat::Pretty),
        Some("json") => Ok(LogFormat::Json),
        Some(format) => Err(wrong("LOG_FORMAT", format, "text or json")),
    }
}

/// Returns the value of a variable in small letters, unless it is empty.
fn value(variables: &[(String, String)], name: &str) -> Option<String> {
    let mut all = variables.iter();
    let found = all.find(|(known, value)| known == name && !value.is_empty());
    found.map(|(_, value)| value.to_ascii_lowercase())
}

fn wrong(name: &str, value: &str, allowed: &str) -> Failure {
    Failure::Usage(format!("{name} = {value:?}: must be {allowed}"))
}
