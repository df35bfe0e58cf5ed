//! Network interfaces of Aliquot, for services that embed no client.
//!
//! A *face* speaks a protocol that services know already. It translates: a request becomes keys with costs, one
//! decision is asked for, and the answer is translated back. All decisions are made by the [`Decider`], which is a
//! client of the cluster with a session of its own: attached in process in a node, over the network in an agent.
//! A face never decides by itself.
//!
//! ```text
//!   HTTP/JSON ─┐
//!   gRPC ──────┤  keys, costs, deadline      ┌─ limiter of the key (in memory)
//!   Redis ─────┼───────────────▶ decider ────┤
//!   Envoy ─────┘ ◀── answers                 └─ home of the budget, within the deadline
//! ```
//!
//! This crate opens no port: the coordinator owns ports, TLS, tokens and connections, and passes requests on.
//!
//! The modules are listed from the bottom layer to the top.

pub mod scope;

pub mod rules;

pub mod decider;

pub mod http;

pub mod grpc;
pub mod resp;
pub mod rls;

pub mod rlqs;

pub use decider::{Answer, Ask, Cost, Decider, Outcome};
pub use rlqs::Rlqs;
pub use rlqs::service::Uncovered;
pub use rules::{Face, KeyRules};
pub use scope::Scope;
