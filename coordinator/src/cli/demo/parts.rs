//! The processes of a run that are this program itself.

use super::exit::{FAILED, NO_RUN, complain};
use crate::clock::HostClock;
use crate::demo::service::{InjectedFaults, ServicePlan, holding_reader, limit, serve};
use crate::demo::supervisor::die_with_parent;
use aliquot_client::Client;
use clap::{Args, Subcommand};
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

/// Role of a process of a run.
#[derive(Debug, Subcommand)]
pub(super) enum Part {
    /// Become this program with other arguments, and end with the parent
    #[command(hide = true)]
    Exec {
        /// Id of the parent process
        #[arg(long)]
        parent: u32,
        /// The arguments
        #[arg(last = true, required = true)]
        args: Vec<OsString>,
    },
    /// One service
    #[command(hide = true)]
    Service(ServiceArgs),
}

/// Arguments of a service of a run.
#[derive(Args, Debug)]
pub(super) struct ServiceArgs {
    /// The key of the path `/`
    #[arg(long)]
    pub(super) key: String,
    /// Nodes of the cluster
    #[arg(long, value_delimiter = ',', required = true)]
    pub(super) endpoints: Vec<String>,
    /// Address to listen on
    #[arg(long, default_value = "127.0.0.1:0")]
    pub(super) listen: SocketAddr,
    /// File for its decisions
    #[arg(long)]
    pub(super) record: PathBuf,
    /// File for the address it listens on
    #[arg(long)]
    pub(super) address: PathBuf,
    /// Number of refused requests that it serves anyway
    #[arg(long, default_value_t = 0)]
    pub(super) serve_refused: u64,
    /// Number of admissions that it does not record
    #[arg(long, default_value_t = 0)]
    pub(super) forget: u64,
}

pub(super) async fn run(part: Part) -> ExitCode {
    match part {
        Part::Exec { parent, args } => {
            complain(&die_with_parent(parent, &args).to_string());
            ExitCode::from(NO_RUN)
        }
        Part::Service(service) => serve_one(service).await,
    }
}

async fn serve_one(args: ServiceArgs) -> ExitCode {
    let client = match Client::connect(args.endpoints) {
        Ok(client) => client,
        Err(error) => {
            complain(&error.to_string());
            return ExitCode::from(NO_RUN);
        }
    };
    let held = holding_reader(&client, &args.key);
    let plan = ServicePlan {
        key: args.key,
        listen: args.listen,
        record: args.record,
        address: args.address,
        faults: InjectedFaults {
            serve_refused: args.serve_refused,
            forget: args.forget,
        },
    };
    let limited = |routes, audit: &Arc<_>| limit(routes, audit, &client);
    let served = serve(plan, Arc::new(HostClock), limited, held).await;
    // Nothing is admitted any more: return the rest of the allotment at once.
    client.close().await;
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&error.to_string());
            ExitCode::from(FAILED)
        }
    }
}
