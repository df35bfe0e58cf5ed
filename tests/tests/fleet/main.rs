//! Aliquot from the outside: real processes, real signals, real sockets.
//!
//! | module | what is done to the cluster |
//! |---|---|
//! | `durable` | everything is killed at once |
//! | `leader` | leaders are killed and stopped under load |
//! | `cut` | a node is cut off, and each policy is held to its word |
//! | `clients` | clients are killed and closed, limits are lowered |
//! | `restart` | all nodes are restarted one by one |
//! | `spread` | clients are spread evenly over whoever is there |
//! | `health` | nodes are watched by gRPC |
//! | `disk` | disks are full, or cannot be written |
//! | `hostile` | ports are told nonsense |
//! | `members` | nodes are added, promoted, removed and replaced |
//! | `identity` | nodes are wiped, and clusters meet |
//! | `lost` | disks forget what was promised |
//! | `unreadable` | the log says what this version cannot read |

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "the helpers of tests are tests as well, and tell their figures"
)]

mod clients;
mod cut;
mod disk;
mod durable;
mod health;
mod hostile;
mod identity;
mod leader;
mod lost;
mod members;
mod restart;
mod spread;
mod support;
mod unreadable;
