//! Clients with more demand than the limit, and a record of all their admissions.

mod record;

pub use record::{Judged, Record};

use aliquot_client::clock::{HostClock, Tick};
use aliquot_client::{Client, Clock};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// A load: its key, and the number and rate of its clients.
#[derive(Clone, Debug)]
pub struct Offer {
    /// The key.
    pub key: String,
    /// Number of clients, each with its own session.
    pub clients: u32,
    /// Requests a second of each client, whatever the answers.
    pub per_second: u32,
}

/// Returns a reading of the machine's clock, by which clients decide too.
#[must_use]
pub fn now() -> Tick {
    HostClock.now()
}

/// Clients that send requests.
#[derive(Debug)]
pub struct Load {
    clients: Vec<JoinHandle<Record>>,
    stop: watch::Sender<bool>,
    admitted: Arc<AtomicU64>,
}

impl Load {
    /// Time between rounds of requests.
    const ROUND: Duration = Duration::from_millis(4);

    /// Starts clients of the nodes at `addresses`.
    #[must_use]
    pub fn begin(addresses: &[String], offer: &Offer) -> Self {
        let (stop, stopping) = watch::channel(false);
        let admitted = Arc::new(AtomicU64::new(0));
        let one = |_| {
            let asking = ask(
                addresses.to_vec(),
                offer.clone(),
                stopping.clone(),
                Arc::clone(&admitted),
            );
            tokio::spawn(asking)
        };
        Self {
            clients: (0..offer.clients).map(one).collect(),
            stop,
            admitted,
        }
    }

    /// Returns the number of admissions so far.
    #[must_use]
    pub fn admitted(&self) -> u64 {
        self.admitted.load(Ordering::Relaxed)
    }

    /// Stops the clients and returns the record of all requests and admissions.
    ///
    /// # Panics
    ///
    /// If a client could not be made.
    pub async fn end(self) -> Record {
        let _ = self.stop.send(true);
        let mut all = Record::default();
        for client in self.clients {
            all.add(client.await.expect("a client asks to the end"));
        }
        all.sort();
        all
    }
}

async fn ask(
    addresses: Vec<String>,
    offer: Offer,
    stopping: watch::Receiver<bool>,
    admitted: Arc<AtomicU64>,
) -> Record {
    let client = Client::connect(addresses).expect("the addresses are good");
    let limiter = client.limiter(&offer.key).expect("the key is good");
    let mut record = Record::default();
    let mut rounds = tokio::time::interval(Load::ROUND);
    let (begun, mut asked) = (now(), 0);
    while !*stopping.borrow() {
        rounds.tick().await;
        let at = now();
        let due = at.since(begun).nanos() / 1_000 * u64::from(offer.per_second) / 1_000_000;
        while asked < due {
            asked += 1;
            record.offered.push(at);
            match limiter.try_acquire(1) {
                Ok(admission) => {
                    admitted.fetch_add(1, Ordering::Relaxed);
                    record.admitted.push(admission.decided_at);
                }
                Err(refused) => record.refused(refused.reason),
            }
        }
    }
    client.close().await;
    record
}
