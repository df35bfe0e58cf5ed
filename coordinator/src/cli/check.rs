//! `aliquot check`: one request, decided as a request of a service is.

use super::connect::Connection;
use super::{Failure, Out};
use aliquot_client::limiter::{Kind, LimiterState};
use aliquot_client::{Client, Limiter, Reason, Refused};
use aliquot_core::budget::Key;
use serde_json::json;
use std::process::ExitCode;
use std::time::Duration;

const EXAMPLES: &str = "\
A check is a request like any other: if it is admitted, its tokens are spent.
A permit is returned at once.

Examples:
  aliquot check tenant/42/reads
  aliquot check checkout/charge -n 20 --json
  aliquot check jobs && run-the-job

Exit codes:
  0  admitted
  1  refused, or no node could decide
  2  the command line is wrong; nothing was sent
  3  no node opened a session; nothing was taken";

/// Maximum wait for a session and for the terms of the key.
const SESSION_WAIT: Duration = Duration::from_secs(2);

/// Interval at which both are polled.
const LOOK_EVERY: Duration = Duration::from_millis(5);

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The key
    #[arg(value_parser = exact)]
    key: Key,
    /// Number of tokens; must be 1 if the key limits concurrency
    #[arg(short = 'n', long = "tokens", value_name = "N", default_value_t = 1, value_parser = tokens)]
    tokens: u64,
    #[command(flatten)]
    connection: Connection,
}

fn tokens(text: &str) -> Result<u64, String> {
    let tokens = text.parse().ok().filter(|tokens| *tokens > 0);
    tokens.ok_or_else(|| "must be a whole number, at least 1".to_owned())
}

fn exact(text: &str) -> Result<Key, String> {
    Key::try_from(text).map_err(|error| format!("a key {error}"))
}

impl Args {
    /// Runs the check. Returns exit code 0 if the request was admitted, 1 if it was refused.
    pub(super) async fn run(self, out: Out) -> Result<ExitCode, Failure> {
        let client = self.connection.client()?.connect();
        let client = client.map_err(|error| Failure::Usage(error.to_string()))?;
        let checked = self.check(&client).await;
        client.close().await;
        let outcome = checked?;
        out.answer(|| self.to_json(&outcome), || self.to_text(&outcome));
        Ok(match outcome {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::from(1),
        })
    }

    async fn check(&self, client: &Client) -> Result<Result<(), Refused>, Failure> {
        let limiter = client.limiter(self.key.as_str());
        let limiter = limiter.map_err(|error| Failure::Usage(error.to_string()))?;
        if tokio::time::timeout(SESSION_WAIT, known(client, &limiter))
            .await
            .is_err()
            && client.status().lease.is_zero()
        {
            let why = client.status().failure;
            let why = why.map_or_else(String::new, |why| format!("\n  {why}"));
            return Err(Failure::Unreachable(format!(
                "no node gave a session within {SESSION_WAIT:?}; nothing was taken; is one running, \
                 and is --endpoint right?{why}"
            )));
        }
        if limiter.peek().kind != Kind::Concurrency {
            return Ok(limiter.check(self.tokens).await.map(drop));
        }
        match self.tokens {
            1 => Ok(limiter.permit().await.map(drop)),
            more => Err(Failure::Usage(format!(
                "-n = {more}: must be 1, because {} limits concurrency",
                self.key
            ))),
        }
    }

    fn to_json(&self, outcome: &Result<(), Refused>) -> serde_json::Value {
        let mut json = json!({
            "key": self.key.to_string(),
            "tokens": self.tokens,
            "admitted": outcome.is_ok(),
        });
        if let Err(refused) = outcome {
            json["reason"] = refused.reason.word().into();
            let wait = refused.retry_after.map(|wait| wait.as_secs_f64());
            json["retry_after_s"] = wait.into();
        }
        json
    }

    fn to_text(&self, outcome: &Result<(), Refused>) -> String {
        let (key, tokens) = (&self.key, self.tokens);
        match outcome {
            Ok(()) => format!("{key}: admitted, {tokens}"),
            Err(refused) => {
                let when = match (refused.retry_after, refused.reason) {
                    (Some(wait), _) => format!("; try again in {wait:.3?}"),
                    (None, Reason::NoBudget) => String::new(),
                    (None, _) => "; waiting does not help".to_owned(),
                };
                format!(
                    "{key}: refused, {} ({}){when}",
                    refused.reason.word(),
                    refused.reason
                )
            }
        }
    }
}

/// Waits until the session has a lease and the key's terms, or the key is known to have no budget.
async fn known(client: &Client, limiter: &Limiter) {
    let mut looks = tokio::time::interval(LOOK_EVERY);
    loop {
        looks.tick().await;
        let leased = !client.status().lease.is_zero();
        match limiter.peek().right {
            LimiterState::NoBudget | LimiterState::NoRoom | LimiterState::MaxKeys => return,
            LimiterState::Cold => {}
            _ if leased => return,
            _ => {}
        }
    }
}
