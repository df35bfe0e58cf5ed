//! Aliquot from the outside: real processes, real signals, real sockets.
//!
//! | module | fault or operation |
//! |---|---|
//! | `durable` | everything is killed at once |
//! | `leader` | leaders are killed and stopped under load |
//! | `cut` | a node is cut off, under each policy |
//! | `kept` | two of three nodes die under the policy `keep` |
//! | `periods` | wall clocks were wrong and are right again |
//! | `alerts` | what should raise an alert shows in a figure |
//! | `clients` | clients are killed and closed, limits are lowered |
//! | `restart` | all nodes are restarted one by one |
//! | `spread` | clients are spread evenly over the running nodes |
//! | `faces` | services that embed no client, through nodes and an agent |
//! | `decisions` | decisions of faces need no log and no socket of their node, are in time, and give permits that end |
//! | `openapi` | the HTTP face gets whatever its description permits and forbids |
//! | `health` | nodes are watched by gRPC |
//! | `envoy` | a leader is killed behind an Envoy |
//! | `envoy_quotas` | a node is killed under four Envoys that share a limit |
//! | `quotas` | quota streams reach their bounds |
//! | `disk` | disks are full, or cannot be written |
//! | `hostile` | ports get invalid bytes |
//! | `members` | nodes are added, promoted, removed and replaced |
//! | `identity` | nodes are wiped, and clusters meet |
//! | `lost` | disks lose acknowledged data |
//! | `unreadable` | the log has an entry that this version cannot read |

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "the helpers of tests are tests as well, and tell their figures"
)]

mod alerts;
mod clients;
mod cut;
mod decisions;
mod disk;
mod durable;
mod envoy;
mod envoy_quotas;
mod faces;
mod health;
mod hostile;
mod identity;
mod kept;
mod leader;
mod lost;
mod members;
mod openapi;
mod periods;
mod quotas;
mod restart;
mod spread;
mod support;
mod unreadable;
