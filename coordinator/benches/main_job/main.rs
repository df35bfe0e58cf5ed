//! The main job, measured on real processes: three nodes with real sockets and
//! disks, and clients in this process.
//!
//! ```text
//! cargo bench -p aliquot-coordinator --bench main_job            # all of it
//! cargo bench -p aliquot-coordinator --bench main_job -- cold shift
//! ```
//!
//! Each measurement prints a table with the conditions that it was made under.
//! None asserts a time; what must hold whatever the machine does, such as that
//! nothing is admitted beyond a limit, is asserted.
//!
//! | module | what it measures |
//! |---|---|
//! | [`cold`] | from a key's first use to its first admission |
//! | [`shift`] | how fast a limit follows demand from one client to another |
//! | [`idle`] | what a cluster costs when nothing happens, and what steady demand writes to the log |
//! | [`sessions`] | what sessions that report each second cost one node, in time and memory |
//! | [`saturate`] | keys that one node takes and answers as fast as it goes, against a bare echo |
//! | [`failover`] | what is admitted around a killed node |

#![expect(
    clippy::print_stdout,
    reason = "a benchmark shows its tables there, and nothing else does"
)]

#[expect(dead_code, reason = "`many_keys` needs more of it")]
mod bed;
mod cold;
mod echo;
mod failover;
mod idle;
mod load;
mod raw;
mod saturate;
mod sessions;
mod shift;
#[expect(dead_code, reason = "`many_keys` needs more of it")]
mod table;

use std::io;

/// What goes wrong ends the measurement.
type Failed = Box<dyn std::error::Error + Send + Sync>;
type Outcome = Result<(), Failed>;

const ALL: [&str; 6] = ["cold", "shift", "idle", "sessions", "saturate", "failover"];

/// Nodes are tied to the thread that starts them, so the main one does.
#[tokio::main]
async fn main() -> Outcome {
    // Cargo adds flags of its own.
    let words = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with('-'));
    let words: Vec<String> = words.collect();
    if let [role, manner, port] = &words[..]
        && role == echo::ROLE
    {
        return echo::serve(manner, port.parse()?).await;
    }
    if let Some(word) = words.iter().find(|word| !ALL.contains(&word.as_str())) {
        let told = format!("{word}: must be one of {}", ALL.join(", "));
        return Err(io::Error::other(told).into());
    }
    for name in ALL {
        if !words.is_empty() && !words.iter().any(|word| word == name) {
            continue;
        }
        match name {
            "cold" => cold::run().await?,
            "shift" => shift::run().await?,
            "idle" => idle::run().await?,
            "sessions" => sessions::run().await?,
            "saturate" => saturate::run().await?,
            _ => failover::run().await?,
        }
    }
    Ok(())
}
