//! What a node shows to the outside: the services of its ports, who may call
//! them, and metrics.
//!
//! | module | what it is |
//! |---|---|
//! | [`auth`] | who calls, and what that role may do |
//! | [`tls`] | certificates |
//! | [`backend`] | what the faces ask of the node behind them |
//! | [`actor`] | the backend of a running node |
//! | [`admin`] | operators ask and order |
//! | [`central`] | peers pass questions on to a key's home |
//! | [`gossip`] | peers say what they know |
//! | [`metrics`] | what is watched, for Prometheus and for probes |
//! | [`session`] | clients come for their allotments |
//!
//! Services check who calls and what they say, and pass it to the node's actor;
//! they decide nothing.

pub mod auth;
pub mod backend;
pub mod tls;

pub mod actor;
pub mod admin;
pub mod central;
pub mod gossip;
pub mod metrics;
pub mod session;
pub mod watch;
