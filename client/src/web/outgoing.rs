//! Calls to others, who may say when to come again.

use super::retry::retry_after;
use crate::clock::{HostClock, SharedClock};
use crate::limiter::Limiter;
use crate::refused::Refused;
use aliquot_core::unit::{Span, Tick};
use http::{HeaderMap, StatusCode};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tower_layer::Layer;
use tower_service::Service;

/// Makes calls wait when the server that they go to has said so.
///
/// When an answer says when to come again ([`retry_after`]), no call goes to that host before:
/// it waits, or fails at once if it would have to wait too long. The answer itself is handed on as it
/// came. With a limiter, every call also takes a token of it first, so that the server need not say anything.
///
/// It serves reqwest's client (with the feature `reqwest`), hyper's, and tonic's channels. It does not call again by itself:
/// with tower's `retry` layer *around* it, each further try waits as it was told.
///
/// ```
/// use aliquot_client::web::RetryAfterLayer;
/// use aliquot_client::{Limit, Limiter};
/// use std::time::Duration;
///
/// let layer = RetryAfterLayer::new()
///     .wait(Duration::from_secs(10))
///     .limiter(Limiter::local(Limit::per_sec(20), 5)?);
/// # Ok::<(), aliquot_client::LimitError>(())
/// ```
#[derive(Clone, Debug)]
pub struct RetryAfterLayer {
    manners: Manners,
    held: Arc<Held>,
}

#[derive(Clone, Debug)]
struct Manners {
    wait: Duration,
    most: Duration,
    limiter: Option<Limiter>,
    clock: SharedClock,
}

/// The hosts that asked for silence, and until when.
#[derive(Debug, Default)]
struct Held {
    hosts: Mutex<BTreeMap<Box<str>, Tick>>,
}

/// A client that waits when it is told to.
#[derive(Clone, Debug)]
pub struct Obeying<S> {
    inner: S,
    manners: Manners,
    held: Arc<Held>,
}

/// Why a call was not made, or how it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OutgoingError<E> {
    /// The server asked for a longer silence than a call waits. Nothing was sent.
    #[error("the server asked not to be called for another {0:?}")]
    Held(Duration),
    /// Its limiter refused it. Nothing was sent.
    #[error(transparent)]
    Refused(Refused),
    /// It failed by itself.
    #[error(transparent)]
    Inner(E),
}

/// What can be called.
pub trait Outgoing {
    /// The host, with its port if it was named; in letters of either case. `None` where it is all one: a channel to one server.
    fn host(&self) -> Option<&str>;
}

/// What comes back.
pub trait Answered {
    /// The status.
    fn status(&self) -> StatusCode;

    /// The headers; of a gRPC call that failed before it began they are all there is.
    fn headers(&self) -> &HeaderMap;
}

impl<B> Outgoing for http::Request<B> {
    fn host(&self) -> Option<&str> {
        let authority = self.uri().authority()?.as_str();
        // Without a user's name and password.
        authority.rsplit('@').next()
    }
}

impl<B> Answered for http::Response<B> {
    fn status(&self) -> StatusCode {
        self.status()
    }

    fn headers(&self) -> &HeaderMap {
        self.headers()
    }
}

#[cfg(feature = "reqwest")]
impl Outgoing for reqwest::Request {
    fn host(&self) -> Option<&str> {
        // Without a user's name and password.
        self.url().authority().rsplit('@').next()
    }
}

#[cfg(feature = "reqwest")]
impl Answered for reqwest::Response {
    fn status(&self) -> StatusCode {
        self.status()
    }

    fn headers(&self) -> &HeaderMap {
        self.headers()
    }
}

impl Default for RetryAfterLayer {
    fn default() -> Self {
        Self::new()
    }
}

impl RetryAfterLayer {
    /// A call waits for at most 30 seconds, and a server is believed for at most an hour.
    #[must_use]
    pub fn new() -> Self {
        let manners = Manners {
            wait: Duration::from_secs(30),
            most: Duration::from_secs(3_600),
            limiter: None,
            clock: Arc::new(HostClock),
        };
        Self {
            manners,
            held: Arc::default(),
        }
    }

    /// How long a call waits at most, for the server and for its limiter each. Zero for not at all.
    #[must_use]
    pub const fn wait(mut self, most: Duration) -> Self {
        self.manners.wait = most;
        self
    }

    /// For how long a server is believed: one that asks for more is called after this.
    #[must_use]
    pub const fn most(mut self, most: Duration) -> Self {
        self.manners.most = most;
        self
    }

    /// Each call takes a token of this first.
    #[must_use]
    pub fn limiter(mut self, limiter: Limiter) -> Self {
        self.manners.limiter = Some(limiter);
        self
    }

    /// The clock that it waits by.
    #[must_use]
    pub fn clock(mut self, clock: SharedClock) -> Self {
        self.manners.clock = clock;
        self
    }
}

impl<S> Layer<S> for RetryAfterLayer {
    type Service = Obeying<S>;

    fn layer(&self, inner: S) -> Obeying<S> {
        Obeying {
            inner,
            manners: self.manners.clone(),
            held: Arc::clone(&self.held),
        }
    }
}

impl Held {
    /// No more hosts than this: those whose time comes first are forgotten first.
    const HOSTS_MAX: usize = 1_024;

    fn until(&self, host: &str, now: Tick) -> Option<Span> {
        let hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        let left = hosts.get(host)?.since(now);
        (!left.is_zero()).then_some(left)
    }

    /// Nobody calls it before that. Of several answers the longest wait counts.
    fn hold(&self, host: &str, until: Tick, now: Tick) {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = hosts.get_mut(host) {
            *known = until.max(*known);
            return;
        }
        if hosts.len() >= Self::HOSTS_MAX {
            hosts.retain(|_, until| *until > now);
        }
        if hosts.len() >= Self::HOSTS_MAX {
            let first = hosts.iter().min_by_key(|(_, until)| **until);
            if let Some(first) = first.map(|(host, _)| host.clone()) {
                hosts.remove(&first);
            }
        }
        hosts.insert(host.into(), until);
    }
}

impl Manners {
    /// Waits until the host may be called, and for a token.
    async fn permit<E>(&self, held: &Held, host: &str) -> Result<(), OutgoingError<E>> {
        let mut limiter = self.limiter.as_ref();
        // For the server alone.
        let mut waited = Duration::ZERO;
        loop {
            let now = self.clock.now();
            let Some(left) = held.until(host, now) else {
                // The server may speak up while the limiter makes it wait.
                let Some(limiter) = limiter.take() else {
                    return Ok(());
                };
                let taken = limiter.acquire_within(1, self.wait).await;
                taken.map_err(OutgoingError::Refused)?;
                continue;
            };
            let left = Duration::from_nanos(left.nanos());
            if waited.saturating_add(left) > self.wait {
                return Err(OutgoingError::Held(left));
            }
            self.clock.sleep(left).await;
            let slept = self.clock.now().since(now);
            waited = waited.saturating_add(Duration::from_nanos(slept.nanos()));
        }
    }

    fn heed(&self, held: &Held, host: &str, answer: &impl Answered) {
        let wall_ms = self.clock.wall_ms();
        let Some(wait) = retry_after(answer.status(), answer.headers(), wall_ms) else {
            return;
        };
        let nanos = u64::try_from(wait.min(self.most).as_nanos()).unwrap_or(u64::MAX);
        let now = self.clock.now();
        held.hold(host, now.after(Span::from_nanos(nanos)), now);
    }
}

type Answering<T, E> = Pin<Box<dyn Future<Output = Result<T, OutgoingError<E>>> + Send>>;

impl<S, Q> Service<Q> for Obeying<S>
where
    S: Service<Q> + Clone + Send + 'static,
    S::Response: Answered,
    S::Future: Send,
    Q: Outgoing + Send + 'static,
{
    type Response = S::Response;
    type Error = OutgoingError<S::Error>;
    type Future = Answering<S::Response, S::Error>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx).map_err(OutgoingError::Inner)
    }

    fn call(&mut self, request: Q) -> Self::Future {
        // The one that was polled to readiness is the one to call.
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        let (manners, held) = (self.manners.clone(), Arc::clone(&self.held));
        Box::pin(async move {
            let host = request.host().unwrap_or_default().to_ascii_lowercase();
            manners.permit::<S::Error>(&held, &host).await?;
            let answer = inner.call(request).await.map_err(OutgoingError::Inner)?;
            manners.heed(&held, &host, &answer);
            Ok(answer)
        })
    }
}
