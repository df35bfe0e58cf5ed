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
mod tests {
    use super::*;
    use crate::decider::testing::{decider, flood, remaining};

    fn check(key: &str, cost: u64) -> pb::CheckRequest {
        pb::CheckRequest {
            key: key.into(),
            cost: Some(cost),
            within_ms: None,
        }
    }

    #[tokio::test]
    async fn a_refusal_is_a_reply() {
        let (decider, _) = decider(64);
        let service = Service(decider);
        let reply = service
            .check(Request::new(check("a", 4)))
            .await
            .expect("a reply")
            .into_inner();
        assert!(reply.allowed);
        assert_eq!(
            (reply.limit, reply.window_s, reply.remaining),
            (Some(10), Some(1), Some(6))
        );
        assert_eq!(reply.reset_after_ms, 400);
        let reply = service
            .check(Request::new(check("a", 7)))
            .await
            .expect("a reply")
            .into_inner();
        assert_eq!(reply.outcome(), pb::LimitOutcome::OverLimit);
        assert_eq!(
            (reply.reason.as_str(), reply.retry_after_ms),
            ("throttled", Some(100))
        );
        assert_eq!(reply.excess, None);
        let reply = service
            .check(Request::new(check("a", 11)))
            .await
            .expect("a reply")
            .into_inner();
        assert_eq!(reply.outcome(), pb::LimitOutcome::Never);
        let excess = pb::Excess {
            cost: 11,
            burst: 10,
        };
        assert_eq!(reply.excess, Some(excess));
        let peek = pb::PeekRequest {
            key: "a".into(),
            within_ms: Some(5),
        };
        let reply = service
            .peek(Request::new(peek))
            .await
            .expect("a reply")
            .into_inner();
        assert_eq!((reply.allowed, reply.remaining), (true, Some(6)));
    }

    #[tokio::test]
    async fn a_wrong_field_is_named() {
        let (decider, _) = decider(64);
        let service = Service(decider);
        let status = service
            .check(Request::new(check("a//b", 1)))
            .await
            .expect_err("a status");
        assert!(
            status
                .message()
                .starts_with("key = \"a//b\": must be mapped"),
            "{status}"
        );
        let batch = pb::CheckBatchRequest::default();
        let status = service
            .check_batch(Request::new(batch))
            .await
            .expect_err("a status");
        assert_eq!(
            status.message(),
            "checks = a list of 0: must be a list of 1 to 1000"
        );
        let late = pb::CheckRequest {
            within_ms: Some(0),
            ..check("a", 1)
        };
        let status = service
            .check(Request::new(late))
            .await
            .expect_err("a status");
        assert_eq!(status.message(), "within_ms = 0: must be from 1 to 10000");
    }

    #[tokio::test]
    async fn a_batch_and_a_reservation_are_all_or_none() {
        let (decider, _) = decider(64);
        let service = Service(decider.clone());
        let batch = pb::CheckBatchRequest {
            checks: vec![check("a", 3), check("b", 11)],
            all: true,
            within_ms: None,
        };
        let reply = service
            .check_batch(Request::new(batch))
            .await
            .expect("a reply")
            .into_inner();
        assert_eq!((reply.allowed, reply.answers.len()), (false, 2));
        let part = |key: &str, cost| pb::ReservePart {
            key: key.into(),
            cost: Some(cost),
        };
        let reserve = pb::ReserveRequest {
            parts: vec![part("a", 3), part("b", 4)],
            ..Default::default()
        };
        let reply = service
            .reserve(Request::new(reserve))
            .await
            .expect("a reply")
            .into_inner();
        assert!(reply.allowed);
        let settle = pb::SettleRequest {
            id: reply.id.clone(),
            costs: vec![3, 1],
        };
        let settled = service
            .settle(Request::new(settle))
            .await
            .expect("a reply")
            .into_inner();
        assert_eq!(settled.parts[1].restored, 3);
        assert_eq!(
            (
                remaining(&decider, "a").await,
                remaining(&decider, "b").await
            ),
            (7, 9)
        );
        let release = pb::ReleaseRequest { id: "x".into() };
        let status = service
            .release(Request::new(release))
            .await
            .expect_err("a status");
        assert_eq!(status.code(), tonic::Code::NotFound);
    }

    #[tokio::test]
    async fn a_key_outside_of_what_a_caller_may_ask_for_is_denied() {
        let (decider, _) = decider(64);
        let service = Service(decider);
        let mut request = Request::new(check("b", 1));
        let scope = Scope::under(["a".to_owned()]);
        request.extensions_mut().insert(scope);
        let status = service.check(request).await.expect_err("a status");
        assert_eq!(status.code(), tonic::Code::PermissionDenied, "{status}");
        assert!(status.message().contains("keys under a"), "{status}");
    }

    #[tokio::test]
    async fn a_flood_of_made_up_keys_replaces_no_key_in_use() {
        let (decider, _) = decider(64);
        let service = Service(decider.clone());
        let ask = async |key: String| {
            let reply = service.check(Request::new(check(&key, 1))).await;
            assert!(reply.is_ok(), "{key}: {reply:?}");
        };
        flood(&decider, "real", ask).await;
    }
}
