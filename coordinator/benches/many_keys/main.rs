//! Many keys, measured on real processes: three nodes with real sockets and
//! disks, and clients of `aliquot-client` in this process.
//!
//! ```text
//! cargo bench -p aliquot-coordinator --bench many_keys                  # short, all rows
//! cargo bench -p aliquot-coordinator --bench many_keys -- keys burst    # short, these
//! cargo bench -p aliquot-coordinator --bench many_keys -- --full        # up to 100,000 keys
//! cargo bench -p aliquot-coordinator --bench many_keys -- --full --to 1000000 keys restart
//! cargo bench -p aliquot-coordinator --bench many_keys -- --full --runs 5 --json failover
//! ```
//!
//! Each measurement prints a table of growth, or with `--json` one object on one
//! line; what it is doing is told on the standard error. With `--runs` a figure
//! is the median of that many runs, each on a new cluster. None asserts a time.
//! Leases that were lost are counted in each row.
//!
//! | module | what it measures |
//! |---|---|
//! | [`keys`] | template keys in use at a time, as their number grows |
//! | [`burst`] | new keys of 30 sessions at once |
//! | [`shared`] | keys that 100 clients share, and moves of their demand |
//! | [`idle`] | what keys cost at rest, and after they were forgotten |
//! | [`failover`] | a killed leader, with keys in use |
//! | [`apply`] | `aliquot budget apply` of exact budgets |
//! | [`memory`] | bytes of a key, of a session's key, of a session, of a node |
//! | [`restart`] | a killed node that starts again from its snapshot and log |

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark shows its tables and its progress there, and nothing else does"
)]

mod apply;
mod burst;
mod failover;
mod fleet;
mod idle;
mod keys;
#[path = "../main_job/load.rs"]
#[expect(dead_code, reason = "`main_job` needs more of it")]
mod load;
mod memory;
mod options;
mod restart;
mod rows;
mod shared;
#[path = "../main_job/table.rs"]
#[expect(dead_code, reason = "`main_job` needs more of it")]
mod table;
#[path = "../main_job/test_bed.rs"]
#[expect(dead_code, reason = "`main_job` needs more of it")]
mod test_bed;

use options::Options;
use rows::{Rows, median};
use tikv_jemallocator::Jemalloc;
use tokio::time::timeout;

/// Hundreds of clients, each with thousands of keys, share this process and its memory. The program `aliquot`, whose
/// agents run clients as well, uses the same allocator.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// An error ends the measurement.
type Failed = Box<dyn std::error::Error + Send + Sync>;

/// The columns of a measurement.
fn columns(name: &str) -> Rows {
    match name {
        "keys" => keys::rows(),
        "burst" => burst::rows(),
        "shared" => shared::rows(),
        "idle" => idle::rows(),
        "failover" => failover::rows(),
        "apply" => apply::rows(),
        "memory" => memory::rows(),
        _ => restart::rows(),
    }
}

/// One measurement on new clusters. What was measured before something went wrong stays.
async fn measure(name: &str, options: &Options, rows: &mut Rows) -> Result<(), Failed> {
    match name {
        "keys" => keys::run(options, rows).await,
        "burst" => burst::run(options, rows).await,
        "shared" => shared::run(options, rows).await,
        "idle" => idle::run(options, rows).await,
        "failover" => failover::run(options, rows).await,
        "apply" => apply::run(options, rows).await,
        "memory" => memory::run(options, rows).await,
        _ => restart::run(options, rows).await,
    }
}

/// Tasks of clients with thousands of keys take milliseconds. After so many of them a worker looks at sockets and timers:
/// with the usual 61, renewals of leases would wait for a second.
const TASKS_BETWEEN_LOOKS: u32 = 4;

fn main() -> Result<(), Failed> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.enable_all().event_interval(TASKS_BETWEEN_LOOKS);
    // Nodes are tied to the thread that starts them, so the main one does.
    runtime.build()?.block_on(run())
}

async fn run() -> Result<(), Failed> {
    let options = Options::read(std::env::args().skip(1))?;
    let mut failed = false;
    for name in &options.names {
        let mut runs = Vec::new();
        for run in 1..=options.runs {
            eprintln!("{name}: run {run} of {}", options.runs);
            let mut rows = columns(name);
            let measured = measure(name, &options, &mut rows);
            let measured = timeout(options.at_most(), measured).await;
            // What goes wrong in one measurement says nothing of the next.
            if let Err(error) = measured.unwrap_or_else(|_| Err("it took too long".into())) {
                eprintln!("{name}: {error}");
                failed = true;
            }
            runs.push(rows);
        }
        if let Some(rows) = median(runs) {
            rows.show(name, &options);
        }
    }
    match failed {
        true => Err("not all of it could be measured".into()),
        false => Ok(()),
    }
}
