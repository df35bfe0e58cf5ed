//! The faces that a service asks, and the time that it knows of each decision.

mod http;
mod resp;

use super::failover::{Failover, Failure};
use crate::clock::SharedClock;
use crate::demo::rules::{DOMAIN, entry};
use crate::demo::via::Via;
use aliquot_core::unit::Tick;
use aliquot_faces::rls::pb as envoy;
use aliquot_wire::pb;
use envoy::rate_limit_response::Code;
use envoy::rate_limit_service_client::RateLimitServiceClient;
use pb::limits_client::LimitsClient;
use std::error::Error;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tonic::transport::{Channel, Endpoint};

/// Time after which a face without an answer has failed. Faces themselves wait at most half of it for tokens
/// or for another node.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// Time after which an attempt to connect has failed.
const CONNECT_WITHIN: Duration = Duration::from_millis(300);

/// Faces with the same protocol and the same limits.
#[derive(Debug)]
pub struct Faces {
    faces: Vec<(String, Line)>,
    failover: Failover,
    clock: SharedClock,
    failed: AtomicU64,
    last_failure: Mutex<Option<String>>,
}

/// A decision of a face.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// True if the tokens were taken.
    pub admitted: bool,
    /// Clock reading before the face that decided was asked. A face that was asked earlier and failed did not
    /// make this decision.
    pub asked: Tick,
    /// Clock reading after its answer.
    pub heard: Tick,
}

/// Connections to a face.
#[derive(Debug)]
enum Line {
    Http(Box<http::Line>),
    Grpc(LimitsClient<Channel>),
    Resp(resp::Line),
    Rls(RateLimitServiceClient<Channel>),
}

impl Faces {
    /// Creates connections to faces, given by name and address in the order in which they are asked. None is
    /// opened yet.
    ///
    /// # Errors
    ///
    /// The address that is not usable, or `via` if it has no face.
    pub fn new(
        via: Via,
        faces: &[(String, SocketAddr)],
        clock: SharedClock,
    ) -> Result<Self, String> {
        let lines = faces
            .iter()
            .map(|(name, address)| Ok((name.clone(), Line::new(via, *address)?)));
        Ok(Self {
            failover: Failover::new(faces.len()),
            faces: lines.collect::<Result<_, String>>()?,
            clock,
            failed: AtomicU64::new(0),
            last_failure: Mutex::new(None),
        })
    }

    /// Asks for tokens, one face after the other until one answers. Returns `None` if none does, or if the
    /// answer is that there is no decision.
    pub async fn ask(&self, key: &str, cost: u64) -> Option<Decision> {
        for index in self.failover.order() {
            let (name, line) = self.faces.get(index)?;
            let asked = self.clock.now();
            let answer = tokio::time::timeout(ANSWER_WITHIN, line.admits(key, cost)).await;
            let late = || Failure::Unreachable(format!("no answer within {ANSWER_WITHIN:?}"));
            match answer.unwrap_or_else(|_| Err(late())) {
                Ok(admitted) => {
                    self.failover.decided(index);
                    return Some(Decision {
                        admitted,
                        asked,
                        heard: self.clock.now(),
                    });
                }
                Err(failure) => {
                    self.note(index, name, &failure);
                    // It has waited as long as a request may. Another one would wait for the same home.
                    if let Failure::Undecided(_) = failure {
                        return None;
                    }
                }
            }
        }
        None
    }

    fn note(&self, index: usize, name: &str, failure: &Failure) {
        self.failed.fetch_add(1, Ordering::Relaxed);
        self.failover.failed(index, failure);
        let (Failure::Unreachable(why) | Failure::Undecided(why)) = failure;
        let mut last = self
            .last_failure
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *last = Some(format!("{name}: {why}"));
    }

    /// Returns how often a face that was asked did not decide, and the reason of the last time.
    #[must_use]
    pub fn failed(&self) -> (u64, Option<String>) {
        let last = self.last_failure.lock();
        let last = last.unwrap_or_else(PoisonError::into_inner).clone();
        (self.failed.load(Ordering::Relaxed), last)
    }

    /// Returns the name of the face that the next request asks first.
    #[must_use]
    pub fn current(&self) -> Option<String> {
        let face = self.faces.get(self.failover.current());
        face.map(|(name, _)| name.clone())
    }
}

impl Line {
    fn new(via: Via, address: SocketAddr) -> Result<Self, String> {
        let channel = || {
            let endpoint = Endpoint::from_shared(format!("http://{address}"));
            let endpoint = endpoint.map_err(|error| format!("{address}: {error}"))?;
            Ok::<_, String>(endpoint.connect_timeout(CONNECT_WITHIN).connect_lazy())
        };
        Ok(match via {
            Via::Client => return Err("the embedded client asks no face".to_owned()),
            Via::Http | Via::Agent => {
                Self::Http(Box::new(http::Line::new(address, CONNECT_WITHIN)?))
            }
            Via::Grpc => Self::Grpc(LimitsClient::new(channel()?)),
            Via::Resp => Self::Resp(resp::Line::new(address)),
            Via::Rls => Self::Rls(RateLimitServiceClient::new(channel()?)),
        })
    }

    /// Asks for tokens. Returns true if they were taken, or the reason why there is no decision.
    async fn admits(&self, key: &str, cost: u64) -> Result<bool, Failure> {
        match self {
            Self::Http(line) => line.admits(key, cost).await,
            Self::Resp(line) => line.admits(key, cost).await,
            Self::Grpc(client) => grpc(client.clone(), key, cost).await,
            Self::Rls(client) => rls(client.clone(), key, cost).await,
        }
    }
}

async fn grpc(mut client: LimitsClient<Channel>, key: &str, cost: u64) -> Result<bool, Failure> {
    let check = pb::CheckRequest {
        key: key.to_owned(),
        cost: Some(cost),
        within_ms: None,
    };
    let answer = client
        .check(check)
        .await
        .map_err(|status| failure(&status))?;
    let answer = answer.into_inner();
    match answer.outcome() {
        pb::LimitOutcome::Allowed => Ok(true),
        pb::LimitOutcome::OverLimit | pb::LimitOutcome::Never => Ok(false),
        outcome => {
            let why = format!("{} {}", outcome.as_str_name(), answer.reason);
            Err(Failure::Undecided(why))
        }
    }
}

async fn rls(
    mut client: RateLimitServiceClient<Channel>,
    key: &str,
    cost: u64,
) -> Result<bool, Failure> {
    let (key, value) = entry(key);
    let entry = envoy::rate_limit_descriptor::Entry {
        key: key.to_owned().into(),
        value: value.to_owned().into(),
    };
    let descriptor = envoy::RateLimitDescriptor {
        entries: vec![entry],
        hits_addend: Some(envoy::UInt64Value { value: cost }),
        ..envoy::RateLimitDescriptor::default()
    };
    let request = envoy::RateLimitRequest {
        domain: DOMAIN.into(),
        descriptors: vec![descriptor],
        hits_addend: 0,
    };
    let answer = client.should_rate_limit(request).await;
    match answer
        .map_err(|status| failure(&status))?
        .into_inner()
        .overall_code()
    {
        Code::Ok => Ok(true),
        Code::OverLimit => Ok(false),
        Code::Unknown => Err(Failure::Undecided("an answer without a code".to_owned())),
    }
}

/// Tells an answer from an error of the connection, which has a cause on this side.
fn failure(status: &tonic::Status) -> Failure {
    let why = format!("{:?}: {}", status.code(), status.message());
    match status.source() {
        None => Failure::Undecided(why),
        Some(_) => Failure::Unreachable(why),
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/demo/service/face.rs"]
mod tests;
