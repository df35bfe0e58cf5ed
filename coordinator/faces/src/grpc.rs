//! gRPC face: the service `aliquot.v1.Limits`.
//!
//! A refusal is a reply. An error status means that the request itself is wrong (`INVALID_ARGUMENT`, with the field,
//! its value and what is allowed), that the caller may not ask for the key (`PERMISSION_DENIED`), or that there is no
//! such reservation (`NOT_FOUND`).

use crate::decider::{
    Answer, Ask, Cost, Decider, OnExpire, Outcome, ReservationError, Reserve, SettledPart,
};
use crate::http::{BATCH_MAX, PARTS_MAX, TTL_S, WITHIN_MS, is_id};
use crate::rules::{Face, KeyProblem};
use crate::scope::Scope;
use aliquot_wire::pb;
use aliquot_wire::pb::limits_server::{Limits, LimitsServer};
use std::fmt::Display;
use std::pin::Pin;
use std::time::Duration;
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status, Streaming};

/// Maximum number of bytes of a message.
pub const MESSAGE_BYTES_MAX: usize = 1 << 18;

/// Returns the service of the face. Its port must check who is calling.
#[must_use]
pub fn service(decider: Decider) -> LimitsServer<impl Limits> {
    LimitsServer::new(Service(decider)).max_decoding_message_size(MESSAGE_BYTES_MAX)
}

#[derive(Clone, Debug)]
struct Service(Decider);

#[tonic::async_trait]
impl Limits for Service {
    async fn check(
        &self,
        request: Request<pb::CheckRequest>,
    ) -> Result<Response<pb::CheckReply>, Status> {
        let scope = scope(&request);
        let ask = self.ask(&scope, &request.into_inner(), "", None)?;
        Ok(Response::new(reply(&self.0.decide(&ask).await)))
    }

    async fn check_batch(
        &self,
        request: Request<pb::CheckBatchRequest>,
    ) -> Result<Response<pb::CheckBatchReply>, Status> {
        let scope = scope(&request);
        let request = request.into_inner();
        listed("checks", request.checks.len(), BATCH_MAX)?;
        let within = within(request.within_ms)?;
        let asks = request.checks.iter().enumerate();
        let asks = asks.map(|(index, check)| {
            self.ask(&scope, check, &format!("checks[{index}]."), Some(within))
        });
        let asks = asks.collect::<Result<Vec<_>, _>>()?;
        let answers = match request.all {
            true => self.0.decide_all(&asks).await,
            false => self.0.decide_each(&asks).await,
        };
        Ok(Response::new(pb::CheckBatchReply {
            allowed: answers
                .iter()
                .all(|answer| answer.outcome == Outcome::Allowed),
            answers: answers.iter().map(reply).collect(),
        }))
    }

    type CheckStreamStream = Pin<Box<dyn Stream<Item = Result<pb::CheckReply, Status>> + Send>>;

    /// Reads a request only when the answer to the one before is sent, so a slow reader is read slowly.
    async fn check_stream(
        &self,
        request: Request<Streaming<pb::CheckRequest>>,
    ) -> Result<Response<Self::CheckStreamStream>, Status> {
        let (service, scope) = (self.clone(), scope(&request));
        let answers = request.into_inner().then(move |request| {
            let (service, scope) = (service.clone(), scope.clone());
            async move {
                let ask = service.ask(&scope, &request?, "", None)?;
                Ok(reply(&service.0.decide(&ask).await))
            }
        });
        Ok(Response::new(Box::pin(answers)))
    }

    async fn reserve(
        &self,
        request: Request<pb::ReserveRequest>,
    ) -> Result<Response<pb::ReserveReply>, Status> {
        let scope = scope(&request);
        let request = request.into_inner();
        listed("parts", request.parts.len(), PARTS_MAX)?;
        let parts = request.parts.iter().enumerate().map(|(index, part)| {
            let key = self.key(&scope, &part.key, &format!("parts[{index}]."))?;
            match part.cost {
                Some(0) => Err(wrong(&format!("parts[{index}].cost"), 0, "at least 1")),
                cost => Ok((key, cost.unwrap_or(1))),
            }
        });
        let parts = parts.collect::<Result<Vec<_>, Status>>()?;
        let (usual, most) = TTL_S;
        let ttl = u64::from(request.ttl_s.unwrap_or(usual as u32));
        if !(1..=most).contains(&ttl) {
            return Err(wrong("ttl_s", ttl, &format!("from 1 to {most}")));
        }
        let id = Some(request.id).filter(|id| !id.is_empty());
        if let Some(id) = id.as_deref().filter(|id| !is_id(id)) {
            return Err(wrong("id", id, "up to 128 visible ASCII characters"));
        }
        let reserve = Reserve {
            scope: scope.clone(),
            parts,
            ttl: Duration::from_secs(ttl),
            on_expire: match request.put_back_on_expire {
                true => OnExpire::PutBack,
                false => OnExpire::Keep,
            },
            within: within(request.within_ms)?,
            id,
        };
        let reserved = self
            .0
            .reserve(&reserve)
            .await
            .map_err(|error| unusable(&error))?;
        Ok(Response::new(pb::ReserveReply {
            allowed: reserved.id.is_some(),
            id: reserved.id.unwrap_or_default(),
            answers: reserved.answers.iter().map(reply).collect(),
        }))
    }

    async fn settle(
        &self,
        request: Request<pb::SettleRequest>,
    ) -> Result<Response<pb::SettleReply>, Status> {
        let scope = scope(&request);
        let request = request.into_inner();
        settlement(self.0.settle(&scope, &request.id, &request.costs))
    }

    async fn release(
        &self,
        request: Request<pb::ReleaseRequest>,
    ) -> Result<Response<pb::SettleReply>, Status> {
        let scope = scope(&request);
        settlement(self.0.release(&scope, &request.into_inner().id))
    }

    async fn peek(
        &self,
        request: Request<pb::PeekRequest>,
    ) -> Result<Response<pb::CheckReply>, Status> {
        let scope = scope(&request);
        let request = request.into_inner();
        let ask = Ask {
            key: self.key(&scope, &request.key, "")?,
            cost: Cost::Peek,
            within: within(request.within_ms)?,
        };
        Ok(Response::new(reply(&self.0.decide(&ask).await)))
    }
}

impl Service {
    /// Translates a request. `within` is the deadline of a batch.
    fn ask(
        &self,
        scope: &Scope,
        request: &pb::CheckRequest,
        path: &str,
        of_batch: Option<Duration>,
    ) -> Result<Ask, Status> {
        Ok(Ask {
            key: self.key(scope, &request.key, path)?,
            cost: match request.cost {
                Some(0) => Cost::Peek,
                cost => Cost::Take(cost.unwrap_or(1)),
            },
            within: match of_batch {
                Some(within) => within,
                None => within(request.within_ms)?,
            },
        })
    }

    fn key(&self, scope: &Scope, key: &str, path: &str) -> Result<String, Status> {
        let mapped = self.0.budget_key(Face::Grpc, scope, key.as_bytes());
        let mapped = mapped.map_err(|problem| match problem {
            KeyProblem::Outside { .. } => Status::permission_denied(problem.to_string()),
            problem => wrong(
                &format!("{path}key"),
                format!("{key:?}"),
                &format!("mapped to a budget: {problem}"),
            ),
        })?;
        Ok(mapped.key)
    }
}

/// Returns the keys that a caller may ask for, as the port noted them.
fn scope<T>(request: &Request<T>) -> Scope {
    request.extensions().get().cloned().unwrap_or_default()
}

fn within(ms: Option<u32>) -> Result<Duration, Status> {
    let (usual, most) = WITHIN_MS;
    let ms = ms.map_or(usual, u64::from);
    match (1..=most).contains(&ms) {
        true => Ok(Duration::from_millis(ms)),
        false => Err(wrong("within_ms", ms, &format!("from 1 to {most}"))),
    }
}

fn listed(field: &str, length: usize, most: usize) -> Result<(), Status> {
    match (1..=most).contains(&length) {
        true => Ok(()),
        false => Err(wrong(
            field,
            format!("a list of {length}"),
            &format!("a list of 1 to {most}"),
        )),
    }
}

fn wrong(field: &str, value: impl Display, allowed: &str) -> Status {
    Status::invalid_argument(format!("{field} = {value}: must be {allowed}"))
}

fn unusable(error: &ReservationError) -> Status {
    let text = error.to_string();
    match error {
        ReservationError::Unknown => Status::not_found(text),
        ReservationError::Other => Status::already_exists(text),
        _ => Status::invalid_argument(text),
    }
}

fn settlement(
    settled: Result<Vec<SettledPart>, ReservationError>,
) -> Result<Response<pb::SettleReply>, Status> {
    let parts = settled.map_err(|error| unusable(&error))?;
    let parts = parts.into_iter().map(|part| pb::SettledPart {
        key: part.key,
        restored: part.restored,
        taken: part.taken,
    });
    Ok(Response::new(pb::SettleReply {
        parts: parts.collect(),
    }))
}

fn reply(answer: &Answer) -> pb::CheckReply {
    pb::CheckReply {
        allowed: answer.outcome == Outcome::Allowed,
        outcome: match answer.outcome {
            Outcome::Allowed => pb::LimitOutcome::Allowed,
            Outcome::OverLimit => pb::LimitOutcome::OverLimit,
            Outcome::Never => pb::LimitOutcome::Never,
            Outcome::NoBudget => pb::LimitOutcome::NoBudget,
            Outcome::Unavailable => pb::LimitOutcome::Unavailable,
        }
        .into(),
        reason: answer
            .reason
            .map_or_else(String::new, |reason| reason.as_str().to_owned()),
        limit: answer.limit,
        window_s: answer.window.map(|window| window.as_secs()),
        remaining: answer.remaining,
        reset_after_ms: millis(answer.reset_after),
        retry_after_ms: answer.retry_after.map(millis),
        excess: answer.excess.map(|excess| pb::Excess {
            cost: excess.cost(),
            burst: excess.burst(),
        }),
    }
}

/// Rounds up.
fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[path = "../tests/unit/grpc.rs"]
mod tests;
