//! Clients that request more than the limit, and a record of their admissions.

use crate::Failed;
use crate::test_bed::now;
use aliquot_client::Client;
use aliquot_client::clock::Tick;
use aliquot_core::budget::BudgetDraft;
use aliquot_core::check::{Envelope, Limit};
use aliquot_core::unit::Drift;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Clients that make requests until they are stopped.
pub(crate) struct Load {
    asking: JoinSet<Vec<Tick>>,
    stop: watch::Sender<bool>,
}

impl Load {
    /// Starts one client for each of `rates`. It requests one token of `key` that many times a second,
    /// whatever the answers.
    pub(crate) fn begin(addresses: &[String], key: &str, rates: &[u64]) -> Result<Self, Failed> {
        let (stop, stopping) = watch::channel(false);
        let mut asking = JoinSet::new();
        for &rate in rates {
            let client = Client::connect(addresses.to_vec())?;
            asking.spawn(ask(client, key.to_owned(), rate, stopping.clone()));
        }
        Ok(Self { asking, stop })
    }

    /// Stops the clients. Returns the times at which all admissions were decided, in order.
    pub(crate) async fn end(self) -> Vec<Tick> {
        self.stop.send_replace(true);
        let mut admitted = self.asking.join_all().await.concat();
        admitted.sort_unstable();
        admitted
    }
}

async fn ask(client: Client, key: String, rate: u64, stop: watch::Receiver<bool>) -> Vec<Tick> {
    let Ok(limiter) = client.limiter(&key) else {
        return Vec::new();
    };
    // Rare requests are made one at a time, and the task never wakes more than 250 times a second.
    let pause = (1_000_000 / rate.max(1)).clamp(4_000, 1_000_000);
    let mut rounds = tokio::time::interval(Duration::from_micros(pause));
    let (begun, mut asked, mut admitted) = (now(), 0, Vec::new());
    while !*stop.borrow() {
        rounds.tick().await;
        let due = now().since(begun).nanos() / 1_000 * rate / 1_000_000;
        for _ in asked..due {
            let admission = limiter.try_acquire(1);
            admitted.extend(admission.map(|admission| admission.decided_at));
        }
        asked = asked.max(due);
    }
    client.close().await;
    admitted
}

/// Returns the tokens by which the worst of all windows is below its bound. Negative if it is above.
pub(crate) fn slack(budget: &BudgetDraft, admitted: &[Tick]) -> f64 {
    let budget = budget.clone().validate();
    let budget = budget.unwrap_or_else(|errors| panic!("the bench's own budget: {errors:?}"));
    let whole = budget.whole();
    let limit = Limit::new(whole.rate, whole.burst);
    let mut envelope = Envelope::new(limit, Drift::default());
    let token = budget.scale().tokens(1);
    let token = token.unwrap_or_else(|error| panic!("one token: {error}"));
    for at in admitted {
        envelope.admit(*at, token);
    }
    envelope.report().slack as f64 / budget.scale().grains_per_token() as f64
}
