//! The faces of a run, and the processes that have them, as the demo sees them.

use super::cluster::NODES;
use super::error::DemoError;
use super::rules;
use super::supervisor::{ReservedPort, Supervisor};
use super::via::{Host, Via};
use std::ffi::OsString;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

/// The faces of a run, one for each host of faces.
#[derive(Debug)]
pub struct FaceHosts {
    via: Via,
    /// Rules of Envoy's rate limit service.
    rules: String,
    hosts: Vec<FaceHost>,
    _ports: Vec<ReservedPort>,
}

/// A process that has a face.
#[derive(Clone, Debug)]
struct FaceHost {
    name: String,
    face: SocketAddr,
    /// Other ports of the same process.
    others: Vec<SocketAddr>,
}

/// Ports of a rate limit service besides its face.
const RLS_OTHERS: usize = 3;

impl FaceHosts {
    /// Reserves ports for the faces of a run with this number of services, and starts none. `limits` are key
    /// patterns and their tokens per second.
    ///
    /// # Errors
    ///
    /// [`DemoError::Io`] if there are no free ports.
    pub fn plan(via: Via, services: usize, limits: &[(String, u64)]) -> Result<Self, DemoError> {
        let hosts = match via.host() {
            None => 0,
            Some(Host::Node | Host::BesideNode) => NODES,
            Some(Host::BesideService) => services,
        };
        let each = match via.host() {
            Some(Host::BesideNode) => 1 + RLS_OTHERS,
            _ => 1,
        };
        let ports = (0..hosts * each).map(|_| ReservedPort::reserve());
        let ports: Vec<ReservedPort> = ports
            .collect::<io::Result<_>>()
            .map_err(DemoError::io("free ports"))?;
        let addresses: Vec<SocketAddr> = ports.iter().map(ReservedPort::address).collect();
        let named = (1..).zip(addresses.chunks(each));
        let hosts = named.filter_map(|(number, own): (usize, _)| {
            let (face, others) = own.split_first()?;
            Some(FaceHost {
                name: format!("{}{number}", via.prefix()),
                face: *face,
                others: others.to_vec(),
            })
        });
        Ok(Self {
            via,
            rules: rules::file(limits),
            hosts: hosts.collect(),
            _ports: ports,
        })
    }

    /// Returns the way in which services ask.
    #[must_use]
    pub const fn via(&self) -> Via {
        self.via
    }

    /// Returns name and address of every face.
    #[must_use]
    pub fn list(&self) -> Vec<(String, SocketAddr)> {
        let all = self.hosts.iter();
        all.map(|host| (host.name.clone(), host.face)).collect()
    }

    /// Returns the faces that a service asks, in their order. Of faces of nodes, every service begins with
    /// another one, so that the load is spread.
    #[must_use]
    pub fn of_service(&self, index: usize) -> Vec<(String, SocketAddr)> {
        let mut all = self.list();
        match self.via.host() {
            Some(Host::BesideService) => all.drain(..).skip(index).take(1).collect(),
            _ => {
                let first = index % all.len().max(1);
                all.rotate_left(first);
                all
            }
        }
    }

    /// Returns the flags that open the face of a node.
    #[must_use]
    pub fn node_flags(&self, node: usize) -> Vec<OsString> {
        let flag = match self.via {
            Via::Http => "--faces-http-listen",
            Via::Grpc => "--faces-grpc-listen",
            Via::Resp => "--faces-redis-listen",
            Via::Client | Via::Rls | Via::Agent => return Vec::new(),
        };
        let host = self.hosts.get(node);
        host.map_or_else(Vec::new, |host| {
            vec![flag.into(), host.face.to_string().into()]
        })
    }

    /// Returns the name of the process that has a face beside a node, if there is one.
    #[must_use]
    pub fn beside_node(&self, node: usize) -> Option<&str> {
        let host = self.hosts.get(node);
        let host = host.filter(|_| self.via.host() == Some(Host::BesideNode));
        host.map(|host| host.name.as_str())
    }

    /// Starts the process beside a node, if there is one. `endpoints` are the nodes.
    ///
    /// # Errors
    ///
    /// [`DemoError::Io`] if its rules cannot be written. [`DemoError::Child`] if it cannot be started.
    pub fn start_beside_node(
        &self,
        node: usize,
        endpoints: &str,
        supervisor: &mut Supervisor,
    ) -> Result<(), DemoError> {
        let (Some(_), Some(host)) = (self.beside_node(node), self.hosts.get(node)) else {
            return Ok(());
        };
        let dir = supervisor.dir_of(&host.name);
        let written = write_rules(&dir, &self.rules);
        written.map_err(DemoError::io(format!("the rules of {}", host.name)))?;
        let args = ["rls", "--compat", "--endpoint", endpoints].map(OsString::from);
        let environment = rls_environment(&dir, host);
        Ok(supervisor.start_with(&host.name, &args, &environment)?)
    }

    /// Starts the process beside every service, if the services have one. `endpoints` are the nodes.
    ///
    /// # Errors
    ///
    /// [`DemoError::Child`] if one cannot be started.
    pub fn start_beside_services(
        &self,
        endpoints: &str,
        supervisor: &mut Supervisor,
    ) -> Result<(), DemoError> {
        if self.via.host() != Some(Host::BesideService) {
            return Ok(());
        }
        for host in &self.hosts {
            let face = host.face.to_string();
            let args = [
                "agent",
                "--endpoint",
                endpoints,
                "--faces-http-listen",
                &face,
            ];
            supervisor.start(&host.name, &args.map(OsString::from))?;
        }
        Ok(())
    }
}

fn write_rules(dir: &Path, rules: &str) -> io::Result<()> {
    let dir = dir.join("config");
    std::fs::create_dir_all(&dir)?;
    std::fs::write(dir.join("demo.yaml"), rules)
}

/// Returns the variables of a rate limit service: its directory of rules, and its ports.
fn rls_environment(dir: &Path, host: &FaceHost) -> Vec<(&'static str, OsString)> {
    let mut variables = vec![("RUNTIME_ROOT", dir.into()), ("LOG_LEVEL", "info".into())];
    let ports = std::iter::once(&host.face).chain(&host.others);
    let names = [
        ("GRPC_HOST", "GRPC_PORT"),
        ("HOST", "PORT"),
        ("DEBUG_HOST", "DEBUG_PORT"),
    ];
    let ip = |ip: IpAddr| OsString::from(ip.to_string());
    for ((host, port), address) in names.into_iter().zip(ports) {
        variables.push((host, ip(address.ip())));
        variables.push((port, address.port().to_string().into()));
    }
    if let Some(prometheus) = host.others.last() {
        variables.push(("PROMETHEUS_ADDR", prometheus.to_string().into()));
    }
    variables
}

#[cfg(test)]
#[path = "../../tests/unit/demo/hosts.rs"]
mod tests;
