//! A tower layer: requests are limited before the service sees them.
//!
//! One layer serves HTTP (axum) and gRPC (tonic): both speak [`http`] types. A
//! refused HTTP request is answered with 429, `Retry-After` in seconds rounded
//! up, and the `RateLimit` fields of
//! [draft-ietf-httpapi-ratelimit-headers](https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/);
//! a refused gRPC call with the status `RESOURCE_EXHAUSTED` and the same fields.
//! The fields speak of this process's share, not of the whole limit.

mod answer;

use crate::client::Client;
use crate::error::KeyRefused;
use crate::limiter::Limiter;
use crate::refused::{Admission, Refused};
use http::request::Parts;
use http::{Request, Response};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tower_layer::Layer;
use tower_service::Service;

type Of<T> = Arc<dyn Fn(&Parts) -> T + Send + Sync>;
type Hook = Arc<dyn Fn(&Limiter, &Admission) + Send + Sync>;

/// Limits the requests of a service.
///
/// ```no_run
/// use aliquot_client::{Client, LimitLayer};
///
/// # fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect(["a:7001", "b:7001"])?;
/// // A limit for each tenant; requests without one are not limited.
/// let layer = LimitLayer::by_key(&client, |request| {
///     let tenant = request.headers.get("x-tenant")?.to_str().ok()?;
///     Some(format!("tenant/{tenant}/requests"))
/// })
/// .cost(|request| if request.method == "POST" { 5 } else { 1 });
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct LimitLayer {
    rules: Arc<Rules>,
}

#[derive(Clone)]
struct Rules {
    limiter: Of<Option<Result<Limiter, KeyRefused>>>,
    cost: Of<u64>,
    on_admit: Option<Hook>,
}

impl fmt::Debug for LimitLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LimitLayer").finish_non_exhaustive()
    }
}

impl LimitLayer {
    /// All requests against one limiter. No request takes a lock.
    #[must_use]
    pub fn new(limiter: Limiter) -> Self {
        Self::of(Arc::new(move |_| Some(Ok(limiter.clone()))))
    }

    /// Each request against the limiter of its key; `None` is not limited. Finding
    /// the limiter of a key takes a lock that is held for one lookup.
    #[must_use]
    pub fn by_key<F>(client: &Client, key: F) -> Self
    where
        F: Fn(&Parts) -> Option<String> + Send + Sync + 'static,
    {
        let client = client.clone();
        Self::of(Arc::new(move |parts| {
            key(parts).map(|key| client.limiter(&key))
        }))
    }

    fn of(limiter: Of<Option<Result<Limiter, KeyRefused>>>) -> Self {
        let rules = Rules {
            limiter,
            cost: Arc::new(|_| 1),
            on_admit: None,
        };
        Self {
            rules: Arc::new(rules),
        }
    }

    /// What a request costs, in tokens. The default is one.
    #[must_use]
    pub fn cost<F>(mut self, cost: F) -> Self
    where
        F: Fn(&Parts) -> u64 + Send + Sync + 'static,
    {
        Arc::make_mut(&mut self.rules).cost = Arc::new(cost);
        self
    }

    /// Is called with each admission, before the service is: to audit it.
    #[must_use]
    pub fn on_admit<F>(mut self, hook: F) -> Self
    where
        F: Fn(&Limiter, &Admission) + Send + Sync + 'static,
    {
        Arc::make_mut(&mut self.rules).on_admit = Some(Arc::new(hook));
        self
    }
}

impl<S> Layer<S> for LimitLayer {
    type Service = Limited<S>;

    fn layer(&self, inner: S) -> Limited<S> {
        let rules = Arc::clone(&self.rules);
        Limited { inner, rules }
    }
}

/// A service behind a [`LimitLayer`].
#[derive(Clone)]
pub struct Limited<S> {
    inner: S,
    rules: Arc<Rules>,
}

impl<S: fmt::Debug> fmt::Debug for Limited<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limited")
            .field("inner", &self.inner)
            .finish_non_exhaustive()
    }
}

/// How a request came out.
enum Outcome {
    /// Nothing limits it.
    Free,
    Admitted(Limiter),
    Refused(Limiter, Refused),
    /// Its key is none, or one too many.
    NoKey(KeyRefused),
}

impl Rules {
    async fn decide(&self, parts: &Parts) -> Outcome {
        let limiter = match (self.limiter)(parts) {
            None => return Outcome::Free,
            Some(Err(refused)) => return Outcome::NoKey(refused),
            Some(Ok(limiter)) => limiter,
        };
        match limiter.admit((self.cost)(parts)).await {
            Ok(admission) => {
                if let Some(hook) = &self.on_admit {
                    hook(&limiter, &admission);
                }
                Outcome::Admitted(limiter)
            }
            Err(refused) => Outcome::Refused(limiter, refused),
        }
    }
}

impl<S, B, R> Service<Request<B>> for Limited<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    B: Send + 'static,
    R: Default + Send,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<R>, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // The one that was polled to readiness is the one to call.
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        let rules = Arc::clone(&self.rules);
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            match rules.decide(&parts).await {
                Outcome::Free => inner.call(Request::from_parts(parts, body)).await,
                Outcome::Admitted(limiter) => {
                    let mut response = inner.call(Request::from_parts(parts, body)).await?;
                    answer::describe(response.headers_mut(), &limiter.peek());
                    Ok(response)
                }
                Outcome::Refused(limiter, refused) => {
                    Ok(answer::refuse(&parts, &limiter.peek(), refused))
                }
                Outcome::NoKey(refused) => Ok(answer::no_key(&parts, &refused)),
            }
        })
    }
}
