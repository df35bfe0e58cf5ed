//! Sends scheduled requests over real connections, and counts the answers.

use super::{Latencies, Shot, Shots};
use crate::clock::SharedClock;
use crate::demo::verdict::AnswerCounts;
use aliquot_core::unit::{Span, Tick};
use bytes::Bytes;
use http::{StatusCode, Uri};
use http_body_util::{BodyExt, Empty};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Maximum number of connections to one service. Further requests wait for one, which is part of their
/// latency.
const CONNECTIONS_MAX: usize = 64;

/// Time after which a request without an answer counts as lost.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// A key of the load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The key that the service decides for.
    pub key: String,
    /// The path for this key, without a query.
    pub path: String,
}

/// Sends the load.
#[derive(Debug)]
pub struct Generator {
    services: Vec<(String, SocketAddr)>,
    targets: Vec<Target>,
    clock: SharedClock,
    tally: Arc<Tally>,
}

impl Generator {
    /// Creates a generator for these services (a name and an address each) and keys.
    #[must_use]
    pub fn new(
        services: Vec<(String, SocketAddr)>,
        targets: Vec<Target>,
        clock: SharedClock,
    ) -> Self {
        let tally = Arc::new(Tally::new(services.len(), targets.len()));
        Self {
            services,
            targets,
            clock,
            tally,
        }
    }

    /// Returns the counts of requests and answers so far.
    #[must_use]
    pub fn tally(&self) -> Arc<Tally> {
        Arc::clone(&self.tally)
    }

    /// Sends every request when it is due, counted from `start`. Returns once each has been answered or
    /// is lost.
    ///
    /// Requests with an unknown service or key are left out.
    pub async fn send(&self, shots: Shots, start: Tick) {
        let lanes: Vec<Arc<Semaphore>> = self
            .services
            .iter()
            .map(|_| Arc::new(Semaphore::new(CONNECTIONS_MAX)))
            .collect();
        let client = http_client();
        let mut flying = JoinSet::new();
        for shot in shots {
            let Some(uri) = self.uri(&shot) else { continue };
            let Some(lane) = lanes.get(shot.service).cloned() else {
                continue;
            };
            self.wait_until(start.after(shot.at)).await;
            while flying.try_join_next().is_some() {}
            let (client, tally) = (client.clone(), self.tally());
            let clock = Arc::clone(&self.clock);
            tally.sent(&shot);
            flying.spawn(async move {
                let answer = tokio::time::timeout(ANSWER_WITHIN, get(&client, uri, &lane)).await;
                let latency = clock.now().since(start.after(shot.at));
                tally.answered(&shot, answer.ok().flatten(), latency);
            });
        }
        while flying.join_next().await.is_some() {}
    }

    /// Waits until a request is due. A timer fires up to a millisecond late, and then all requests that
    /// are due are sent at once.
    async fn wait_until(&self, due: Tick) {
        let left = due.since(self.clock.now());
        if !left.is_zero() {
            tokio::time::sleep(Duration::from_nanos(left.nanos())).await;
        }
    }

    fn uri(&self, shot: &Shot) -> Option<Uri> {
        let (_, address) = self.services.get(shot.service)?;
        let path = &self.targets.get(shot.key)?.path;
        let query = match shot.cost {
            1 => String::new(),
            cost => format!("?cost={cost}"),
        };
        let uri = Uri::builder().scheme("http").authority(address.to_string());
        uri.path_and_query(format!("{path}{query}")).build().ok()
    }

    /// Returns the counts of answers by the service's name and the key.
    #[must_use]
    pub fn answers(&self) -> BTreeMap<(String, String), AnswerCounts> {
        let counts = self.tally.lock();
        let names = self.services.iter().flat_map(|(name, _)| {
            let keys = self.targets.iter().map(|target| target.key.clone());
            keys.map(move |key| (name.clone(), key))
        });
        let all = names.zip(counts.answers.iter().copied());
        all.filter(|(_, answers)| answers.sent > 0).collect()
    }
}

type HttpClient = Client<HttpConnector, Empty<Bytes>>;

fn http_client() -> HttpClient {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    Client::builder(TokioExecutor::new())
        .pool_max_idle_per_host(CONNECTIONS_MAX)
        .build(connector)
}

/// Returns the status of an answer that was received completely.
async fn get(client: &HttpClient, uri: Uri, lane: &Semaphore) -> Option<StatusCode> {
    let _connection = lane.acquire().await.ok()?;
    let answer = client.get(uri).await.ok()?;
    let status = answer.status();
    // The body is read to its end, so that the connection can be reused.
    answer.into_body().collect().await.ok()?;
    Some(status)
}

/// Counts of requests and answers.
#[derive(Debug)]
pub struct Tally {
    keys: usize,
    counts: Mutex<Counts>,
}

#[derive(Debug)]
struct Counts {
    /// By service, then by key.
    answers: Vec<AnswerCounts>,
    latencies: Latencies,
}

/// Counts of all services together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Counts of all keys.
    pub all: AnswerCounts,
    /// Counts of the first key only.
    pub first_key: AnswerCounts,
}

impl Tally {
    fn new(services: usize, keys: usize) -> Self {
        let counts = Counts {
            answers: vec![AnswerCounts::default(); services * keys],
            latencies: Latencies::default(),
        };
        Self {
            keys,
            counts: Mutex::new(counts),
        }
    }

    /// Returns the counts so far.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for (index, answers) in self.lock().answers.iter().enumerate() {
            totals.all.add(answers);
            if index % self.keys == 0 {
                totals.first_key.add(answers);
            }
        }
        totals
    }

    /// Returns the latencies, counted from the time at which each request was due.
    #[must_use]
    pub fn latencies(&self) -> Latencies {
        self.lock().latencies.clone()
    }

    fn sent(&self, shot: &Shot) {
        self.with(shot, |answers| {
            answers.sent += 1;
            answers.cost += shot.cost;
        });
    }

    fn answered(&self, shot: &Shot, status: Option<StatusCode>, latency: Span) {
        self.with(shot, |answers| match status {
            Some(StatusCode::OK) => answers.admitted += 1,
            Some(StatusCode::TOO_MANY_REQUESTS) => answers.limited += 1,
            _ => answers.other += 1,
        });
        self.lock().latencies.add(latency);
    }

    fn with(&self, shot: &Shot, change: impl FnOnce(&mut AnswerCounts)) {
        let index = shot.service * self.keys + shot.key;
        if let Some(answers) = self.lock().answers.get_mut(index) {
            change(answers);
        }
    }

    /// The counts are consistent between any two statements, so a poisoned lock can be ignored.
    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AnswerCounts {
    fn add(&mut self, other: &Self) {
        self.sent += other.sent;
        self.cost += other.cost;
        self.admitted += other.admitted;
        self.limited += other.limited;
        self.other += other.other;
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/demo/load/send.rs"]
mod tests;
