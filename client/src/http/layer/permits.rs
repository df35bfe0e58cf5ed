//! A tower layer that limits how many requests are in flight.

use super::answer::{Plain, Problems, RefusalBody};
use super::body::PermitBody;
use super::options::Options;
use super::outcome::Refusal;
use crate::bucket::described::LimitInfo;
use crate::limiter::Limiter;
use crate::limiter::decision::Decision;
use crate::limiter::permit::Permit;
use crate::limiter::refused::Refused;
use http::{Request, Response};
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tower_layer::Layer;
use tower_service::Service;

/// A tower layer that takes a permit for each request and holds it until the body of the response has been sent
/// or is dropped.
///
/// The limiter counts permits: [`Limiter::local_permits`], or a leased concurrency budget. A request that finds
/// none waits in line for one ([`PermitLayer::wait`]), and is then refused as
/// [`RateLimitLayer`](crate::RateLimitLayer) refuses. That layer takes permits too, and does not wait in line.
///
/// ```
/// use aliquot_client::http::PermitLayer;
/// use aliquot_client::Limiter;
///
/// let layer = PermitLayer::new(Limiter::local_permits(100)?).problems();
/// # Ok::<(), aliquot_client::LimitError>(())
/// ```
pub struct PermitLayer<A = Plain> {
    rules: Arc<Rules>,
    answers: PhantomData<fn() -> A>,
}

#[derive(Clone, Debug)]
struct Rules {
    limiter: Limiter,
    wait: Duration,
    options: Options,
}

impl<A> Clone for PermitLayer<A> {
    fn clone(&self) -> Self {
        Self::of(Arc::clone(&self.rules))
    }
}

impl<A> fmt::Debug for PermitLayer<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("PermitLayer");
        shown.field("rules", &self.rules).finish_non_exhaustive()
    }
}

impl PermitLayer {
    /// Takes the permits of this limiter.
    #[must_use]
    pub fn new(limiter: Limiter) -> Self {
        Self::of(Arc::new(Rules {
            limiter,
            wait: Duration::from_millis(250),
            options: Options::default(),
        }))
    }

    /// Answers refusals with a body of type `application/problem+json`, as
    /// [`RateLimitLayer::problems`](crate::RateLimitLayer::problems) does.
    #[must_use]
    pub fn problems(self) -> PermitLayer<Problems> {
        PermitLayer::of(self.rules)
    }
}

impl<A> PermitLayer<A> {
    const fn of(rules: Arc<Rules>) -> Self {
        Self {
            rules,
            answers: PhantomData,
        }
    }

    /// Sets the maximum time that a request waits for a permit; zero refuses at once. The default is 250 ms, in
    /// which a node can bring a permit of a leased budget.
    #[must_use]
    pub fn wait(mut self, most: Duration) -> Self {
        Arc::make_mut(&mut self.rules).wait = most;
        self
    }
}

impl<A, S> Layer<S> for PermitLayer<A> {
    type Service = PermitService<S, A>;

    fn layer(&self, inner: S) -> PermitService<S, A> {
        PermitService {
            inner,
            rules: Arc::clone(&self.rules),
            answers: PhantomData,
        }
    }
}

/// The service behind a [`PermitLayer`].
pub struct PermitService<S, A = Plain> {
    inner: S,
    rules: Arc<Rules>,
    answers: PhantomData<fn() -> A>,
}

impl<S: Clone, A> Clone for PermitService<S, A> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            rules: Arc::clone(&self.rules),
            answers: PhantomData,
        }
    }
}

impl<S: fmt::Debug, A> fmt::Debug for PermitService<S, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("PermitService");
        shown.field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl Rules {
    async fn permit(&self) -> Result<Permit, Refusal<'_>> {
        let Decision { outcome, info } = self.limiter.decide_permit();
        let refused = match outcome {
            Ok(permit) => return Ok(permit),
            Err(refused) if self.wait.is_zero() => return Err(self.refusal(refused, info)),
            Err(refused) => refused,
        };
        let waited = tokio::select! {
            biased;
            permit = self.limiter.permit() => permit,
            () = self.limiter.clock().sleep(self.wait) => Err(refused),
        };
        // The figures of the first decision are out of date by now.
        waited.map_err(|refused| self.refusal(refused, self.limiter.describe()))
    }

    fn refusal(&self, refused: Refused, info: Option<LimitInfo>) -> Refusal<'_> {
        // Logs a limiter that counts no permits.
        self.options.admits_misconfigured(None, refused);
        Refusal {
            name: None,
            refused,
            info,
        }
    }
}

impl<S, A, B, R> Service<Request<B>> for PermitService<S, A>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    A: RefusalBody<R> + 'static,
    B: Send + 'static,
    R: Send,
{
    type Response = Response<PermitBody<R>>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // Call the instance that was polled to readiness, and keep the clone.
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        let rules = Arc::clone(&self.rules);
        Box::pin(async move {
            let (response, permits) = match rules.permit().await {
                Ok(permit) => (inner.call(request).await?, vec![permit]),
                Err(refusal) => {
                    let (parts, _) = request.into_parts();
                    (refusal.answer::<A, R>(&parts, &rules.options), Vec::new())
                }
            };
            Ok(response.map(|body| PermitBody::new(body, permits)))
        })
    }
}
