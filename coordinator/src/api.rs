//! The API of a node: the services of its ports, access control, and metrics.
//!
//! | module | contents |
//! |---|---|
//! | [`auth`] | roles of callers, and what each role may do |
//! | [`tls`] | certificates |
//! | [`backend`] | the interface of the node, as the services use it |
//! | [`actor`] | the backend of a running node |
//! | [`admin`] | queries and changes of operators |
//! | [`central`] | central requests that peers forward to a key's home node |
//! | [`gossip`] | records of peers |
//! | [`health`] | gRPC health checks |
//! | [`metrics`] | figures for Prometheus, and probes |
//! | [`session`] | sessions of clients |
//! | [`connections`] | the open connections of a port, and their maxima |
//!
//! Services check the caller and the message, and pass the message to the node's actor. They decide
//! nothing.

pub mod auth;
pub mod backend;
pub mod tls;

pub mod actor;
pub mod admin;
pub mod central;
pub mod connections;
mod framing;
pub mod gossip;
pub mod health;
pub mod metrics;
pub mod session;
pub mod watch;
