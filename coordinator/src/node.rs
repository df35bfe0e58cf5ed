//! The actor of one coordinator node: the only loop, and the only clock.
//!
//! All decisions are made by pure state machines of `aliquot-core`: the replicated
//! [`State`](aliquot_core::state::State), the [`Leader`](aliquot_core::leader::Leader), which is idle
//! until this node is elected, and the [`Node`](aliquot_core::node::Node), which distributes tokens to
//! clients. One task, the actor, owns all of them. Nothing is locked, and all inputs are handled in one
//! order. The actor reads the clock once for each batch of inputs.
//!
//! ```text
//!   raft ──committed entries──► ┌───────────────────────┐ ──proposals, barriers──► raft
//!  peers ──records────────────► │ actor                 │ ──records──────────────► peers
//! streams ─open, keys, reports─►│  state · leader · node│ ──names, answers───────► streams
//!    API ──queries────────────► └───────────────────────┘ ──a view───────────────► API
//! ```

mod actor;
mod balance;
mod central;
mod clock_jump;
mod context;
mod counts;
mod handle;
mod inbox;
mod initial_contents;
mod joining;
mod key_names;
mod leadership;
mod leaving;
mod longest_turn;
mod machine;
mod options;
mod own_node;
mod peers;
mod presence;
mod replica;
mod report_coalescer;
mod reporting;
mod sessions;
mod spawn;
mod ticks;
mod traffic;
mod view;
mod wanted;
mod writes;

pub use counts::Counts;
pub use handle::{NodeHandle, Stopped};
pub use options::{InitialContents, Options};
pub use spawn::{ActorControl, Spawned, spawn};
pub use traffic::{Rates, Traffic};
pub use view::View;
