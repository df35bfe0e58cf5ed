//! `aliquot check`: one request, decided as a request of a service is.

use super::connect::{Connection, SILENT_FOR};
use super::number::whole;
use super::{Failure, Out, show};
use aliquot_client::clock::{HostClock, Tick};
use aliquot_client::limiter::{Kind, LimiterState};
use aliquot_client::{Client, Clock, Limiter, Reason, Refused};
use aliquot_core::budget::Key;
use serde_json::json;
use std::fmt::Write;
use std::process::ExitCode;
use std::time::Duration;

const EXAMPLES: &str = "\
A check is a request like any other: if it is admitted, its tokens are spent. \
A permit is released at once. The command waits up to 2s for a session, but only 1s at an endpoint while there is \
another one to try. It waits up to 5s for the decision of a node, so a slow cluster answers late instead of not at \
all. --timeout limits both waits together.

Examples:
  aliquot check tenant/42/reads
  aliquot check checkout/charge -n 20 --json
  aliquot check jobs && run-the-job

Exit codes:
  0  admitted
  1  refused, or no node could decide
  2  the command line is wrong; nothing was sent
  3  no node opened a session; nothing was charged";

/// Maximum wait for a session and for the terms of the key, unless `--timeout` gives another for the whole check.
const SESSION_WAIT: Duration = Duration::from_secs(2);

/// Maximum wait for a decision, unless `--timeout` gives another for the whole check. It is much longer than what services
/// wait, since a person or a script asks, and has no fallback.
const DECISION_WAIT: Duration = Duration::from_secs(5);

/// Interval at which session and terms are polled.
const LOOK_EVERY: Duration = Duration::from_millis(5);

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The key
    #[arg(value_parser = exact)]
    key: Key,
    /// Number of tokens; must be 1 if the key limits concurrency
    #[arg(short = 'n', long = "tokens", value_name = "N", default_value_t = 1, value_parser = whole::<u64>(1..=u64::MAX))]
    tokens: u64,
    #[command(flatten)]
    connection: Connection,
}

/// Outcome of a check at one endpoint.
enum Checked {
    /// It was decided.
    Decided(Result<(), Refused>),
    /// There was no session, for this reason if it is known.
    NoSession(String),
}

fn exact(text: &str) -> Result<Key, String> {
    Key::try_from(text).map_err(|error| format!("a key {error}"))
}

impl Args {
    /// Runs the check. Returns exit code 0 if the request was admitted, 1 if it was refused.
    pub(super) async fn run(self, out: Out) -> Result<ExitCode, Failure> {
        let outcome = self.ask().await?;
        out.answer(|| self.to_json(&outcome), || self.to_text(&outcome));
        Ok(match outcome {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::from(1),
        })
    }

    /// Asks one endpoint after the other until one gives a session.
    async fn ask(&self) -> Result<Result<(), Refused>, Failure> {
        let (begun, timeout) = (HostClock.now(), self.connection.timeout());
        let mut tried = String::new();
        let mut endpoints = self.connection.apart().into_iter().peekable();
        while let Some((address, endpoint)) = endpoints.next() {
            // One time for all endpoints together, in whole milliseconds.
            let passed = passed_since(begun).as_millis();
            let passed = Duration::from_millis(u64::try_from(passed).unwrap_or(u64::MAX));
            let timeout = timeout.map(|timeout| timeout.saturating_sub(passed));
            let usual = timeout.unwrap_or(SESSION_WAIT);
            let session_wait = match endpoints.peek() {
                Some(_) => SILENT_FOR.min(usual),
                None => usual,
            };
            let client = endpoint.client()?;
            // Also the time for which a decision of another node is waited for.
            let client = client.cold_wait(timeout.unwrap_or(DECISION_WAIT)).connect();
            let client = client.map_err(|error| Failure::Usage(error.to_string()))?;
            let checked = self.check(&client, session_wait, timeout).await;
            client.close().await;
            match checked? {
                Checked::Decided(outcome) => return Ok(outcome),
                Checked::NoSession(why) => {
                    let _ = write!(
                        tried,
                        "\n  {address}: no session within {session_wait:?}{why}"
                    );
                }
            }
        }
        Err(Failure::Unreachable(format!(
            "no node opened a session; nothing was charged; is a node running, and is --endpoint correct?{tried}"
        )))
    }

    async fn check(
        &self,
        client: &Client,
        session_wait: Duration,
        timeout: Option<Duration>,
    ) -> Result<Checked, Failure> {
        let limiter = client.limiter(self.key.as_str());
        let limiter = limiter.map_err(|error| Failure::Usage(error.to_string()))?;
        let begun = HostClock.now();
        if tokio::time::timeout(session_wait, known(client, &limiter))
            .await
            .is_err()
            && client.status().lease.is_zero()
        {
            let why = client.status().failure;
            let why = why.map_or_else(String::new, |why| format!(": {why}"));
            return Ok(Checked::NoSession(why));
        }
        let rest = timeout.map_or(DECISION_WAIT, |timeout| {
            timeout.saturating_sub(passed_since(begun))
        });
        if limiter.peek().kind != Kind::Concurrency {
            let decide = async |most| limiter.decide_within(self.tokens, most).await.outcome;
            return Ok(Checked::Decided(decided(rest, decide).await.map(drop)));
        }
        match self.tokens {
            1 => {
                let decide = async |most| limiter.decide_permit_within(most).await.outcome;
                Ok(Checked::Decided(decided(rest, decide).await.map(drop)))
            }
            more => Err(Failure::Usage(format!(
                "-n = {more}: must be 1, because {} limits concurrency",
                self.key
            ))),
        }
    }

    fn to_json(&self, outcome: &Result<(), Refused>) -> serde_json::Value {
        let mut json = json!({
            "key": self.key.to_string(),
            "tokens": show::whole(self.tokens),
            "admitted": outcome.is_ok(),
        });
        if let Err(refused) = outcome {
            json["reason"] = refused.reason.as_str().into();
            let wait = refused.retry_after.map(|wait| wait.as_secs_f64());
            json["retry_after_s"] = wait.into();
            json["excess"] = refused.excess.map_or(serde_json::Value::Null, |excess| {
                json!({ "cost": show::whole(excess.cost()), "burst": show::whole(excess.burst()) })
            });
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
                let excess = refused.excess.map_or_else(String::new, |excess| {
                    let (cost, burst) = (excess.cost(), excess.burst());
                    format!(": the cost is {cost}, and the burst {burst}")
                });
                let (word, reason) = (refused.reason.as_str(), refused.reason);
                format!("{key}: refused, {word} ({reason}{excess}){when}")
            }
        }
    }
}

/// Asks until a node has decided, for at most `most`.
async fn decided<T>(
    most: Duration,
    decide: impl AsyncFn(Duration) -> Result<T, Refused>,
) -> Result<T, Refused> {
    let begun = HostClock.now();
    loop {
        let outcome = decide(most.saturating_sub(passed_since(begun))).await;
        let Err(refused) = &outcome else {
            return outcome;
        };
        let pause = refused.retry_after.unwrap_or(LOOK_EVERY);
        if refused.reason != Reason::Undecided || passed_since(begun) + pause >= most {
            return outcome;
        }
        tokio::time::sleep(pause).await;
    }
}

fn passed_since(begun: Tick) -> Duration {
    Duration::from_nanos(HostClock.now().since(begun).nanos())
}

/// Waits until the session has a lease and the key's terms, or the key is known to have no budget.
async fn known(client: &Client, limiter: &Limiter) {
    let mut looks = tokio::time::interval(LOOK_EVERY);
    loop {
        looks.tick().await;
        let leased = !client.status().lease.is_zero();
        match limiter.peek().state {
            LimiterState::NoBudget | LimiterState::NoRoom | LimiterState::MaxKeys => return,
            LimiterState::Cold => {}
            _ if leased => return,
            _ => {}
        }
    }
}
