//! A budget of a model's tokens: taken by an estimate, and settled when the answer is there.
//!
//! ```sh
//! cargo run -p aliquot-client --example llm
//! ```
//!
//! A budget of the whole fleet is used in the same way: `client.limiter("model/large/tokens")` in place of
//! `Limiter::local`.

#![expect(clippy::print_stdout, reason = "an example says what it does")]

use aliquot_client::{Layers, Limit, Limiter};
use std::error::Error;
use std::time::Duration;

/// What the model is in this example: it answers with three tokens for each word.
fn ask(prompt: &str) -> (String, u64) {
    let words = prompt.split_whitespace().count() as u64;
    (format!("an answer to {prompt:?}"), 3 * words)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // What the provider allows: 60 requests and 6,000 tokens a minute; and what one tenant may take of it.
    let minute = Duration::from_secs(60);
    let requests = Limiter::local(Limit::per(60, minute), 5)?;
    let model = Limiter::local(Limit::per(6_000, minute), 300)?;
    let tenant = Limiter::local(Limit::per(1_000, minute), 100)?;
    for prompt in [
        "why is the sky blue",
        "and at night",
        "a poem about rate limits, please, and a long one",
    ] {
        let estimate = 2 * prompt.split_whitespace().count() as u64;
        requests.acquire_within(1, Duration::from_secs(5)).await?;
        // Both, or neither.
        let tokens = Layers::of([("tenant", &tenant), ("model", &model)]);
        match tokens.try_acquire(estimate) {
            Ok(charge) => {
                let (answer, used) = ask(prompt);
                // What it cost beyond the estimate is owed: later requests wait for it.
                let settled = charge.settle(used);
                println!(
                    "{answer}: {used} tokens, {} more than taken first",
                    settled.taken
                );
            }
            Err(refused) => println!(
                "{prompt:?}: {refused}, again in {:?}",
                refused.refused.retry_after
            ),
        }
        println!("  the tenant has {:.0} tokens left", tenant.tokens());
    }
    Ok(())
}
