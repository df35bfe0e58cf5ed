//! A worker that takes jobs from a queue. Its concurrency adapts to the database, and the results are written
//! in batches.
//!
//! ```sh
//! cargo run -p aliquot-client --example batch
//! ```

#![expect(clippy::print_stdout, reason = "an example says what it does")]

use aliquot_client::adaptive::{Adaptive, Aimd, Bounds};
use aliquot_client::debounce::{Debouncer, Rules};
use std::error::Error;
use std::time::Duration;
use tokio::task::JoinSet;

/// The database of this example: every query takes ten milliseconds, and one in 97 fails.
async fn query(job: u64) -> Result<u64, &'static str> {
    tokio::time::sleep(Duration::from_millis(10)).await;
    match job % 97 {
        0 => Err("overloaded"),
        _ => Ok(job * job),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // Between 2 and 64 queries at once: one more while all goes well, fewer after failures.
    let database = Adaptive::new(Aimd::new(Bounds::new(2, 64)?.start(8)))?;
    // Write after 50 ms without a result, after half a second at the latest, and at 100 results.
    let rules = Rules::quiet(Duration::from_millis(50))
        .at_most_every(Duration::from_millis(500))
        .max_batch(100);
    let results = Debouncer::spawn(rules, async |batch: Vec<u64>| {
        println!("{} written", batch.len())
    });
    let mut under_way = JoinSet::new();
    for job in 1..=1_000 {
        let call = database.call().await?;
        let results = results.clone();
        under_way.spawn(async move {
            match query(job).await {
                Ok(result) => {
                    call.success();
                    let _ = results.push(result).await;
                }
                Err(_) => call.failure(),
            }
        });
    }
    under_way.join_all().await;
    results.stop().await;
    println!("{} may be in flight now", database.limit());
    Ok(())
}
