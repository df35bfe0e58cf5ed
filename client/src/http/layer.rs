//! A tower layer that limits requests before the service sees them.
//!
//! One layer serves HTTP (axum) and gRPC (tonic), because both use [`http`] types.
//!
//! A refused HTTP request is answered with status 429, with `Retry-After` in seconds, rounded up, and with
//! fields that describe the limit ([`Fields`]). [`RateLimitLayer::problems`] adds a body.
//!
//! A refused gRPC call is answered with the status `RESOURCE_EXHAUSTED`, with the same fields, and with the
//! wait in milliseconds as `grpc-retry-pushback-ms`, which gRPC's own retries obey
//! ([gRFC A6](https://github.com/grpc/proposal/blob/master/A6-client-retries.md)).
//!
//! For a leased limit the fields tell the limit and the window of the whole budget, and what remains of this
//! process's share.

mod acquired;
mod answer;
mod body;
mod decide;
mod fields;
mod meter;
mod options;
mod outcome;
mod permits;
mod request_limits;

pub use answer::{Plain, Problems, RefusalBody};
pub use body::PermitBody;
pub use fields::{Fields, LimitFields, Reset};
pub use options::{Misconfigured, NoKey};
pub use permits::{PermitLayer, PermitService};
pub use request_limits::{RequestLimits, RequestLimitsError};

use crate::clock::SharedClock;
use crate::limiter::Limiter;
use crate::limiter::refused::Admission;
use crate::local::keyed::Keyed;
use crate::observe::switched::Switched;
#[cfg(feature = "cluster")]
use crate::session::client::Client;
use decide::{Limits, Rules};
use http::request::Parts;
use http::{Request, Response, StatusCode};
use meter::Which;
use options::Options;
use outcome::Outcome;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tower_layer::Layer;
use tower_service::Service;

/// A tower layer that limits the requests of a service.
///
/// A refused request is answered with status 429. If the caller is not to blame, the answer is 503: no node
/// has answered yet ([`Reason::Cold`](crate::Reason::Cold)), the lease is over
/// ([`Reason::Lapsed`](crate::Reason::Lapsed)), no node decided
/// ([`Reason::Undecided`](crate::Reason::Undecided)), or the reason is
/// [`Reason::Closed`](crate::Reason::Closed), [`Reason::Frozen`](crate::Reason::Frozen),
/// [`Reason::Broken`](crate::Reason::Broken) or [`Reason::Shed`](crate::Reason::Shed). A gRPC call is
/// answered with `RESOURCE_EXHAUSTED` or `UNAVAILABLE`. A request whose key is missing or not valid is answered
/// with 400 or `INVALID_ARGUMENT` ([`RateLimitLayer::without_key`]). If the limit is not set up, because no budget
/// matches the key or a window is of the wrong kind, the answer is 500 or `INTERNAL`
/// ([`RateLimitLayer::misconfigured`]).
///
/// A limiter of permits ([`Limiter::local_permits`], or a leased concurrency budget) works here as one of tokens
/// does: each request takes one permit, whatever its cost, and holds it until the body of the response has been sent
/// or is dropped ([`PermitBody`]). A request that finds none free is refused, unless a node may still grant one;
/// then it waits for that. For requests that wait in line, use [`PermitLayer`].
///
/// ```no_run
/// use aliquot_client::http::{Fields, key};
/// use aliquot_client::{Client, RateLimitLayer};
///
/// # fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect(["a:7001", "b:7001"])?;
/// // A limit for each tenant; requests without one are refused.
/// let tenant = key::all((key::text("tenant"), key::header("x-tenant"), key::text("requests")));
/// let layer = RateLimitLayer::by_key(&client, tenant)
///     .cost(|request| if request.method == "POST" { 5 } else { 1 })
///     .except(["/health", "/metrics", "/static/*"])
///     .fields(Fields::Both)
///     .problems();
/// # Ok(())
/// # }
/// ```
pub struct RateLimitLayer<A = Plain> {
    rules: Arc<Rules>,
    answers: PhantomData<fn() -> A>,
}

impl<A> Clone for RateLimitLayer<A> {
    fn clone(&self) -> Self {
        Self::of(Arc::clone(&self.rules))
    }
}

impl<A> fmt::Debug for RateLimitLayer<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimitLayer")
            .field("except", &self.rules.except)
            .field("options", &self.rules.options)
            .finish_non_exhaustive()
    }
}

impl RateLimitLayer {
    /// Counts all requests against one limiter. No request takes a lock.
    ///
    /// ```
    /// use aliquot_client::{Limit, Limiter, RateLimitLayer};
    ///
    /// let per_second = RateLimitLayer::new(Limiter::local(Limit::per_sec(100), 20)?);
    /// // At most 50 requests at a time, each until its response has been sent.
    /// let in_flight = RateLimitLayer::new(Limiter::local_permits(50)?);
    /// # Ok::<(), aliquot_client::LimitError>(())
    /// ```
    #[must_use]
    pub fn new(limiter: Limiter) -> Self {
        Self::with_limits(Limits::One(Which::Limiter(limiter)))
    }

    /// Counts each request against the limiter of its key. A request without a key (`None`) is refused, unless
    /// [`RateLimitLayer::without_key`] says otherwise. Finding the limiter takes a lock for one lookup. [`key`](crate::http::key) has functions that make
    /// keys.
    #[must_use]
    #[cfg(feature = "cluster")]
    pub fn by_key<F>(client: &Client, key: F) -> Self
    where
        F: Fn(&Parts) -> Option<String> + Send + Sync + 'static,
    {
        Self::with_limits(Limits::One(Which::of_keys(client, key)))
    }

    /// Counts each request against its key's bucket in a store of this process. A request without a key
    /// (`None`) is refused, unless [`RateLimitLayer::without_key`] says otherwise. The store may have a mode:
    /// [`Switched`].
    ///
    /// ```
    /// use aliquot_client::http::{Proxies, key};
    /// use aliquot_client::{Keyed, Limit, RateLimitLayer};
    /// use std::sync::Arc;
    ///
    /// let addresses = Arc::new(Keyed::new(Limit::per_sec(5), 10, 100_000)?);
    /// let layer = RateLimitLayer::in_store(addresses, key::ip(key::peer, Proxies::none()));
    /// # Ok::<(), aliquot_client::LimitError>(())
    /// ```
    #[must_use]
    pub fn in_store<F>(store: impl Into<Switched<Arc<Keyed>>>, key: F) -> Self
    where
        F: Fn(&Parts) -> Option<String> + Send + Sync + 'static,
    {
        Self::with_limits(Limits::One(Which::Store(store.into(), Arc::new(key))))
    }

    /// Counts each request against several limits: all of them admit, or nothing is taken. See [`RequestLimits`].
    ///
    /// # Errors
    ///
    /// [`RequestLimitsError`] if there are no limits, or if a name is invalid or used twice.
    pub fn combined(limits: RequestLimits) -> Result<Self, RequestLimitsError> {
        Ok(Self::with_limits(Limits::All(limits.checked()?)))
    }

    fn with_limits(limits: Limits) -> Self {
        Self::of(Arc::new(Rules {
            limits,
            cost: Arc::new(|_| 1),
            except: Vec::new(),
            options: Options::default(),
            on_admit: None,
        }))
    }

    /// Answers refusals with a body of type `application/problem+json`
    /// ([RFC 9457](https://www.rfc-editor.org/rfc/rfc9457)). The service's body type must implement `From<String>`.
    /// Answers to gRPC calls have no body.
    #[must_use]
    pub fn problems(self) -> RateLimitLayer<Problems> {
        RateLimitLayer::of(self.rules)
    }
}

impl<A> RateLimitLayer<A> {
    const fn of(rules: Arc<Rules>) -> Self {
        Self {
            rules,
            answers: PhantomData,
        }
    }

    /// Sets the cost of a request, in tokens. The default is one. It does not count for permits.
    #[must_use]
    pub fn cost<F>(mut self, cost: F) -> Self
    where
        F: Fn(&Parts) -> u64 + Send + Sync + 'static,
    {
        Arc::make_mut(&mut self.rules).cost = Arc::new(cost);
        self
    }

    /// Adds paths that are not limited, such as health checks and metrics. A path that ends in `/*` matches
    /// everything below it. The paths of several calls add up.
    ///
    /// The exemption applies only to these paths: neither percent-encoding nor `..` can be used to avoid a limit.
    #[must_use]
    pub fn except<P: Into<String>>(mut self, paths: impl IntoIterator<Item = P>) -> Self {
        let paths = paths.into_iter().map(|path| path.into().into_boxed_str());
        Arc::make_mut(&mut self.rules).except.extend(paths);
        self
    }

    /// Sets the fields that answers carry. The default is [`Fields::Standard`].
    #[must_use]
    pub fn fields(mut self, fields: Fields) -> Self {
        self.options().fields.fields = fields;
        self
    }

    /// Sets the form of `X-RateLimit-Reset`. The default is [`Reset::Delta`].
    #[must_use]
    pub fn reset(mut self, reset: Reset) -> Self {
        self.options().fields.reset = reset;
        self
    }

    /// Adds a random time up to `most` to each `Retry-After` and to gRPC's pushback, so that callers that were
    /// refused together do not return together. The default is zero.
    #[must_use]
    pub fn jitter(mut self, most: Duration) -> Self {
        self.options().fields.jitter = most;
        self
    }

    /// Sets the treatment of a request without a key. The default is [`NoKey::Refuse`]. Among several limits
    /// each has a setting of its own: [`RequestLimits::without_key`].
    #[must_use]
    pub fn without_key(mut self, no_key: NoKey) -> Self {
        self.options().no_key = no_key;
        self
    }

    /// Sets the treatment of a request whose limit is not set up. The default is [`Misconfigured::Refuse`]. Both
    /// treatments are logged.
    #[must_use]
    pub fn misconfigured(mut self, misconfigured: Misconfigured) -> Self {
        self.options().misconfigured = misconfigured;
        self
    }

    /// Sets the status of a request whose cost can never be served, such as 413 or 422. The default is 429.
    /// Such an answer has no `Retry-After`, and no field says that anything remains.
    #[must_use]
    pub fn never(mut self, status: StatusCode) -> Self {
        self.options().never = status;
        self
    }

    /// Sets the clock that [`Reset::Epoch`] is computed with. The default is the
    /// [`HostClock`](crate::clock::HostClock).
    #[must_use]
    pub fn clock(mut self, clock: SharedClock) -> Self {
        self.options().clock = clock;
        self
    }

    fn options(&mut self) -> &mut Options {
        &mut Arc::make_mut(&mut self.rules).options
    }

    /// Calls `hook` with each admission, before the service is called, for audits. With several limits it is
    /// called once for each limiter. A permit is an admission of one token. Stores have no admissions, and the hook is
    /// not called for them.
    #[must_use]
    pub fn on_admit<F>(mut self, hook: F) -> Self
    where
        F: Fn(&Limiter, &Admission) + Send + Sync + 'static,
    {
        Arc::make_mut(&mut self.rules).on_admit = Some(Arc::new(hook));
        self
    }
}

impl<A, S> Layer<S> for RateLimitLayer<A> {
    type Service = RateLimitService<S, A>;

    fn layer(&self, inner: S) -> RateLimitService<S, A> {
        RateLimitService {
            inner,
            rules: Arc::clone(&self.rules),
            answers: PhantomData,
        }
    }
}

/// The service behind a [`RateLimitLayer`].
pub struct RateLimitService<S, A = Plain> {
    inner: S,
    rules: Arc<Rules>,
    answers: PhantomData<fn() -> A>,
}

impl<S: Clone, A> Clone for RateLimitService<S, A> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            rules: Arc::clone(&self.rules),
            answers: PhantomData,
        }
    }
}

impl<S: fmt::Debug, A> fmt::Debug for RateLimitService<S, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimitService")
            .field("inner", &self.inner)
            .finish_non_exhaustive()
    }
}

impl<S, A, B, R> Service<Request<B>> for RateLimitService<S, A>
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
            let (parts, body) = request.into_parts();
            let options = &rules.options;
            let mut held = Vec::new();
            let response = match rules.decide(&parts).await {
                Outcome::Free => inner.call(Request::from_parts(parts, body)).await?,
                Outcome::Admitted { tightest, permits } => {
                    held = permits;
                    let mut response = inner.call(Request::from_parts(parts, body)).await?;
                    if let Some((name, info)) = tightest {
                        options.describe(response.headers_mut(), name, &info);
                    }
                    response
                }
                Outcome::Refused(refusal) => refusal.answer::<A, R>(&parts, options),
                Outcome::NoKey(refused) => answer::no_key::<A, R>(&parts, &refused),
                Outcome::Missing(name) => answer::missing_key::<A, R>(&parts, name),
            };
            Ok(response.map(|body| PermitBody::new(body, held)))
        })
    }
}
