//! A budget of a model's tokens: each call waits for its estimate, and is settled when the answer arrives.
//!
//! ```sh
//! cargo run -p aliquot-client --example llm
//! ```
//!
//! A budget of the whole fleet is used in the same way: take `client.limiter("model/large/tokens")` in place
//! of `Limiter::local`.

#![expect(clippy::print_stdout, reason = "an example says what it does")]

use aliquot_client::{Limit, Limiter};
use std::error::Error;
use std::time::Duration;

/// The model of this example: it answers with three tokens for each word.
fn ask(prompt: &str) -> (String, u64) {
    let words = prompt.split_whitespace().count() as u64;
    (format!("an answer to {prompt:?}"), 3 * words)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // The provider's limits: 60 requests and 6,000 tokens per minute.
    let (minute, patience) = (Duration::from_secs(60), Duration::from_secs(5));
    let requests = Limiter::local(Limit::per(60, minute), 5)?;
    let tokens = Limiter::local(Limit::per(6_000, minute), 30)?;
    for prompt in [
        "why is the sky blue",
        "and at night",
        "a poem about rate limits, please, and a long one",
        "a shorter one",
    ] {
        let estimate = 2 * prompt.split_whitespace().count() as u64;
        requests.acquire_within(1, patience).await?;
        match tokens.acquire_to_settle_within(estimate, patience).await {
            Ok(call) => {
                let (answer, used) = ask(prompt);
                // A cost beyond the estimate is owed: later requests wait for it.
                let settled = call.settle(used);
                println!(
                    "{answer}: {used} tokens, {} more than taken first",
                    settled.taken
                );
            }
            Err(refused) => println!("{prompt:?}: {refused}, again in {:?}", refused.retry_after),
        }
        println!("  {:.0} tokens are left", tokens.tokens());
    }
    Ok(())
}
