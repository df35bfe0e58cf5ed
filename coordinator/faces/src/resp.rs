//! Redis face: RESP2 and RESP3, so that rate-limit libraries for Redis work when their address is changed.
//!
//! A command becomes one operation on a limit, and the decision becomes the reply that the client expects. Nothing
//! is stored, and no script is run.
//!
//! ```text
//! bytes ─ request ─► command ─ session ─► operation ─ server ─► decision ─ operation ─► reply ─► bytes
//! ```
//!
//! **Keys.** A rule of the face maps the keys of clients to keys of budgets. If the budget's key ends in `/{limit}`,
//! the limit that the command names takes that place:
//!
//! | rule | command | budget's key |
//! |---|---|---|
//! | `redis:cl/* -> cl/*/{limit}` | `CL.THROTTLE cl/user1 14 30 60` | `cl/user1/30-per-1m-burst-15` |
//! | `redis:login:* -> login/*` | `INCR login:user1` | `login/user1` |
//!
//! The first kind needs a template with `named_limits: yes`, such as `cl/*/*`, whose own rate and burst bound what a
//! command may name. With the second kind, the limit is the budget's, and one that the command names is ignored.
//!
//! **Windows.** A library's limit of `n` in a window becomes a rate of `n` per window with a burst of `n`. A full
//! bucket admits up to `2n` within one window, as counters of fixed windows do, and then `n` per window. Libraries
//! with sliding windows admit no more than `n` in any window; where that matters, name half of it.
//!
//! **Not like Redis.** A refused request costs nothing. Commands of a transaction are not atomic together. Figures
//! of what is left are those of this process's share of the budget, and may be lower than what is left in the
//! cluster.

mod counters;
mod limits;
mod operation;
mod reply;
mod request;
mod scripts;
mod server;
mod session;
mod throttle;
mod words;

pub use server::{Caller, Options, Server};
