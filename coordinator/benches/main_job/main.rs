//! Benchmarks of the main use cases on real processes: three nodes with real sockets and disks, and
//! clients in this process.
//!
//! ```text
//! cargo bench -p aliquot-coordinator --bench main_job            # all of it
//! cargo bench -p aliquot-coordinator --bench main_job -- cold shift
//! ```
//!
//! Each benchmark prints a table with the conditions of the measurement. None asserts a time.
//! Properties that must hold on any machine are asserted, such as that nothing is admitted beyond a
//! limit.
//!
//! | module | measurement |
//! |---|---|
//! | [`cold`] | time from a key's first use to its first admission |
//! | [`shift`] | time for a limit to follow demand from one client to another |
//! | [`idle`] | cost of an idle cluster, and log entries that steady demand causes |
//! | [`sessions`] | time and memory that sessions which report each second cost one node |
//! | [`saturate`] | keys per second that one node can answer, compared with a bare echo |
//! | [`failover`] | admissions around a killed node |

#![expect(
    clippy::print_stdout,
    reason = "a benchmark shows its tables there, and nothing else does"
)]

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
#[expect(dead_code, reason = "`many_keys` needs more of it")]
mod test_bed;

use std::io;

/// Any error ends the benchmark.
type Failed = Box<dyn std::error::Error + Send + Sync>;
type Outcome = Result<(), Failed>;

const ALL: [&str; 6] = ["cold", "shift", "idle", "sessions", "saturate", "failover"];

/// Nodes are tied to the thread that starts them, which must be the main one.
#[tokio::main]
async fn main() -> Outcome {
    // Cargo adds flags of its own.
    let words = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with('-'));
    let words: Vec<String> = words.collect();
    if let [role, retry_policy, port] = &words[..]
        && role == echo::ROLE
    {
        return echo::serve(retry_policy, port.parse()?).await;
    }
    if let Some(word) = words.iter().find(|word| !ALL.contains(&word.as_str())) {
        let message = format!("{word}: must be one of {}", ALL.join(", "));
        return Err(io::Error::other(message).into());
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
