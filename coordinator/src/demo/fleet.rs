//! The services of a run, as the demo sees them.

use super::error::DemoError;
use super::hosts::FaceHosts;
use super::record::Recording;
use super::service::{InjectedFaults, Status};
use super::supervisor::Supervisor;
use bytes::Bytes;
use futures_util::future::join_all;
use http::{StatusCode, Uri};
use http_body_util::{BodyExt, Empty};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Prefix of the names of their processes.
pub const PREFIX: &str = "service-";

const ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// The services of a run.
#[derive(Clone, Debug)]
pub struct Fleet {
    names: Vec<String>,
    addresses: Vec<SocketAddr>,
    client: Client<HttpConnector, Empty<Bytes>>,
}

/// Arguments of all services of a run.
#[derive(Clone, Debug)]
pub struct Orders {
    /// Number of services.
    pub services: usize,
    /// The key of the path `/`.
    pub key: String,
    /// Addresses that their clients connect to, separated by commas.
    pub endpoints: String,
    /// Fault of the first service.
    pub faults: InjectedFaults,
}

impl Fleet {
    /// Starts the services. None is ready yet.
    ///
    /// # Errors
    ///
    /// [`DemoError::Child`] if a process cannot be started.
    pub fn start(
        orders: &Orders,
        faces: &FaceHosts,
        supervisor: &mut Supervisor,
    ) -> Result<Self, DemoError> {
        let mut names = Vec::new();
        for number in 1..=orders.services {
            let name = format!("{PREFIX}{number}");
            let faults = if number == 1 {
                orders.faults
            } else {
                InjectedFaults::default()
            };
            let dir = supervisor.dir_of(&name);
            let args = args(orders, (faces, number - 1), faults, &dir);
            supervisor.start(&name, &args)?;
            names.push(name);
        }
        Ok(Self {
            names,
            addresses: Vec::new(),
            client: Client::builder(TokioExecutor::new()).build(HttpConnector::new()),
        })
    }

    /// Returns the names and addresses of the services. The list is empty before [`Fleet::find`]
    /// succeeds.
    #[must_use]
    pub fn addresses(&self) -> Vec<(String, SocketAddr)> {
        let addresses = self.addresses.iter().copied();
        self.names.iter().cloned().zip(addresses).collect()
    }

    /// Reads the addresses that the services have announced.
    ///
    /// # Errors
    ///
    /// The number of services that listen, if not all of them do.
    pub fn find(&mut self, supervisor: &Supervisor) -> Result<(), String> {
        let announced = self.names.iter().filter_map(|name| {
            let path = address_path(&supervisor.dir_of(name));
            std::fs::read_to_string(path).ok()?.parse().ok()
        });
        self.addresses = announced.collect();
        if self.addresses.len() == self.names.len() {
            return Ok(());
        }
        let (found, all) = (self.addresses.len(), self.names.len());
        Err(format!("{found} of {all} services listen"))
    }

    /// Queries the status of each service. `None` if it does not answer.
    pub async fn look(&self) -> Vec<Option<Status>> {
        let asked = self.addresses.iter().map(|address| async move {
            let body = self.get(*address, "/__status").await?;
            serde_json::from_slice(&body).ok()
        });
        join_all(asked).await
    }

    /// Makes every service write all of its decisions to its record.
    ///
    /// # Errors
    ///
    /// The name of a service that did not.
    pub async fn flush(&self) -> Result<(), String> {
        for (name, address) in self.addresses() {
            if self.get(address, "/__flush").await.is_none() {
                return Err(name);
            }
        }
        Ok(())
    }

    async fn get(&self, address: SocketAddr, path: &str) -> Option<Bytes> {
        let uri = Uri::builder().scheme("http").authority(address.to_string());
        let uri = uri.path_and_query(path).build().ok()?;
        let whole = async {
            let answer = self.client.get(uri).await.ok()?;
            let ok = answer.status() == StatusCode::OK;
            let body = answer.into_body().collect().await.ok()?;
            ok.then(|| body.to_bytes())
        };
        tokio::time::timeout(ANSWER_WITHIN, whole).await.ok()?
    }

    /// Reads the records of the services.
    #[must_use]
    pub fn recordings(
        &self,
        supervisor: &Supervisor,
    ) -> BTreeMap<String, Result<Recording, String>> {
        let read = |name: &String| {
            let path = record_path(&supervisor.dir_of(name));
            let bytes = std::fs::read(&path).map_err(|error| error.to_string())?;
            Recording::read(&bytes).map_err(|error| error.to_string())
        };
        let all = self.names.iter().map(|name| (name.clone(), read(name)));
        all.collect()
    }
}

fn args(
    orders: &Orders,
    (faces, index): (&FaceHosts, usize),
    faults: InjectedFaults,
    dir: &Path,
) -> Vec<OsString> {
    let mut args: Vec<OsString> = vec!["demo".into(), "service".into()];
    let mut flag = |flag: &str, value: OsString| args.extend([flag.into(), value]);
    flag("--key", orders.key.clone().into());
    flag("--endpoints", orders.endpoints.clone().into());
    flag("--via", faces.via().name().into());
    for (name, address) in faces.of_service(index) {
        flag("--face", format!("{name}={address}").into());
    }
    flag("--listen", "127.0.0.1:0".into());
    flag("--record", record_path(dir).into());
    flag("--address", address_path(dir).into());
    flag("--serve-refused", faults.serve_refused.to_string().into());
    flag("--forget", faults.forget.to_string().into());
    args
}

fn record_path(dir: &Path) -> PathBuf {
    dir.join("record")
}

fn address_path(dir: &Path) -> PathBuf {
    dir.join("address")
}
