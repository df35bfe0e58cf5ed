//! The processes of a run that are this program itself.

use super::exit::{FAILED, NO_RUN, complain};
use crate::clock::HostClock;
use crate::demo::Via;
use crate::demo::service::{
    Faces, InjectedFaults, ServicePlan, ask_faces, faces_reader, holding_reader, limit, serve,
};
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
    /// The way in which it asks for decisions
    #[arg(long, default_value = "client")]
    pub(super) via: Via,
    /// Name and address of a face; repeat it to name several
    #[arg(long = "face", value_name = "NAME=ADDRESS", value_parser = face)]
    pub(super) faces: Vec<(String, SocketAddr)>,
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

fn face(text: &str) -> Result<(String, SocketAddr), String> {
    let parts = text.split_once('=');
    let face = parts.and_then(|(name, address)| Some((name.to_owned(), address.parse().ok()?)));
    face.ok_or_else(|| "must be a name and an address, such as node-1=127.0.0.1:7301".to_owned())
}

async fn serve_one(args: ServiceArgs) -> ExitCode {
    let served = match args.via {
        Via::Client => with_client(args).await,
        _ => with_faces(args).await,
    };
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err((code, why)) => {
            complain(&why);
            ExitCode::from(code)
        }
    }
}

/// Serves what the embedded client admits.
async fn with_client(args: ServiceArgs) -> Result<(), (u8, String)> {
    let client = Client::connect(args.endpoints.clone());
    let client = client.map_err(|error| (NO_RUN, error.to_string()))?;
    let held = holding_reader(&client, &args.key);
    let limited = |routes, audit: &Arc<_>| limit(routes, audit, &client);
    let served = serve(args.plan(), Arc::new(HostClock), limited, held).await;
    // Nothing is admitted any more: return the rest of the allotment at once.
    client.close().await;
    served.map_err(|error| (FAILED, error.to_string()))
}

/// Serves what the faces admit.
async fn with_faces(args: ServiceArgs) -> Result<(), (u8, String)> {
    let faces = Faces::new(args.via, &args.faces, Arc::new(HostClock));
    let faces = Arc::new(faces.map_err(|why| (NO_RUN, why))?);
    let held = faces_reader(&faces);
    let limited = |routes, audit: &Arc<_>| ask_faces(routes, audit, &faces);
    let served = serve(args.plan(), Arc::new(HostClock), limited, held).await;
    served.map_err(|error| (FAILED, error.to_string()))
}

impl ServiceArgs {
    fn plan(self) -> ServicePlan {
        ServicePlan {
            key: self.key,
            listen: self.listen,
            record: self.record,
            address: self.address,
            faults: InjectedFaults {
                serve_refused: self.serve_refused,
                forget: self.forget,
            },
        }
    }
}
