//! The ways in which the services of a run can ask for a decision.

use super::cluster::PREFIX as NODE;
use clap::ValueEnum;

/// The way in which the services of a run ask for a decision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Via {
    /// The embedded client, which decides in the service itself
    #[default]
    Client,
    /// The HTTP face of the nodes, POST /v1/check
    Http,
    /// The gRPC face of the nodes, aliquot.v1.Limits
    Grpc,
    /// The Redis face of the nodes, CL.THROTTLE
    Resp,
    /// Envoy's rate limit service, ShouldRateLimit, from an `aliquot rls` beside each node
    Rls,
    /// An `aliquot agent` beside each service, over HTTP
    Agent,
}

/// Process that has a face.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host {
    /// A node itself.
    Node,
    /// A process beside each node, which is killed and started again with it.
    BesideNode,
    /// A process beside each service.
    BesideService,
}

impl Via {
    /// Returns its name, as the command line has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Http => "http",
            Self::Grpc => "grpc",
            Self::Resp => "resp",
            Self::Rls => "rls",
            Self::Agent => "agent",
        }
    }

    /// Returns the process that has the face, or `None` if there is no face.
    #[must_use]
    pub const fn host(self) -> Option<Host> {
        match self {
            Self::Client => None,
            Self::Http | Self::Grpc | Self::Resp => Some(Host::Node),
            Self::Rls => Some(Host::BesideNode),
            Self::Agent => Some(Host::BesideService),
        }
    }

    /// Returns the beginning of the names of the processes that have the face.
    #[must_use]
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::Rls => "rls-",
            Self::Agent => "agent-",
            _ => NODE,
        }
    }

    /// Describes in a few words what the services ask.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Client => "each decides with the embedded client",
            Self::Http => "each asks the nodes over HTTP",
            Self::Grpc => "each asks the nodes over gRPC",
            Self::Resp => "each asks the nodes with CL.THROTTLE of Redis",
            Self::Rls => "each asks Envoy's rate limit service, which runs beside each node",
            Self::Agent => "each asks an agent beside it over HTTP",
        }
    }
}
