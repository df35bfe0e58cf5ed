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
//!
//! The actor keeps the loop. Everything else is owned by a part, one file each, that knows neither the
//! actor nor the other parts. A part is lent the input, the state and the `Context` (time, options, status
//! of Raft, counters), and returns what others must do. The field table of the actor says which part owns
//! what.
//!
//! A turn of the loop is one input, or a few of one kind, and then the outputs that follow, in this order:
//!
//! 1. Names of keys go to sessions, and budgets for new keys are requested.
//! 2. The leader makes its rounds, barriers and answers.
//! 3. The node distributes tokens, and its answers go to sessions.
//! 4. This node reports to the leader, if a report is due. If that made the leader's work urgent, steps 2
//!    and 3 are repeated.
//! 5. Records go to peers.
//!
//! A client's messages pass in one direction: its stream, the sessions, the node's state machine, and the
//! outbox of its session.

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
mod member_addresses;
mod options;
mod own_node;
mod peers;
mod presence;
mod replica;
mod report_coalescer;
mod reporting;
mod round_trips;
mod sessions;
mod spawn;
mod ticks;
mod traffic;
mod view;
mod waiting_reports;
mod wanted;
mod writes;

pub use counts::Counts;
pub use handle::{NodeHandle, Stopped};
pub use longest_turn::TurnTime;
pub use options::{DecisionObserver, InitialContents, Options};
pub use round_trips::RoundTrips;
pub use spawn::{ActorControl, Spawned, spawn};
pub use traffic::{Rates, Traffic};
pub use view::View;
