//! A pacer for mail: one every 200 ms, never two together, and at most ten waiting.
//!
//! ```sh
//! cargo run -p aliquot-client --example mail
//! ```

#![expect(clippy::print_stdout, reason = "an example says what it does")]

use aliquot_client::shape::Pacer;
use std::error::Error;
use std::time::Duration;

// A single thread, so that the tasks ask in the order of their numbers.
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let pacer = Pacer::new(Duration::from_millis(200), 10)?;
    let mut sent = Vec::new();
    for mail in 1..=15 {
        let pacer = pacer.clone();
        // Each task asks for its turn at once. The first eleven get one, in the order in which they asked.
        sent.push(tokio::spawn(async move {
            match pacer.turn().await {
                Ok(()) => println!("mail {mail} goes out"),
                Err(refused) => {
                    let again = refused.retry_after.unwrap_or_default();
                    println!("mail {mail}: the queue is full; again in {again:.0?}");
                }
            }
        }));
    }
    for mail in sent {
        mail.await?;
    }
    Ok(())
}
