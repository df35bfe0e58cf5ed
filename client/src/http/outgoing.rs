//! Outgoing calls that wait when a server says so.

use super::retry::retry_after;
use crate::clock::{HostClock, SharedClock};
use crate::limiter::Limiter;
use crate::limiter::permit::Permit;
use crate::limiter::refused::Refused;
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

/// A tower layer that makes outgoing calls wait when the server has asked for it.
///
/// When an answer says how long to wait ([`retry_after`]), later calls to that host wait until then, or fail
/// at once if the wait is too long. The answer itself is passed on unchanged. With a limiter, each call also
/// takes a token first, so that the server need not refuse anything.
///
/// The layer wraps reqwest's client (with the feature `reqwest`), hyper's, and tonic's channels. It does not
/// retry. Put tower's `retry` layer *around* it, and each retry waits as the server asked.
///
/// ```
/// use aliquot_client::http::RetryAfterLayer;
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

/// Hosts that asked not to be called, each with the end of that time.
#[derive(Debug, Default)]
struct Held {
    hosts: Mutex<BTreeMap<Box<str>, Tick>>,
}

/// The client behind a [`RetryAfterLayer`].
#[derive(Clone, Debug)]
pub struct RetryAfterService<S> {
    inner: S,
    manners: Manners,
    held: Arc<Held>,
}

/// A call that was not sent, or that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OutgoingError<E> {
    /// The server asked for a longer wait than a call may wait; the field is the time that is left. Nothing
    /// was sent.
    #[error("the server asked not to be called for another {0:?}")]
    Held(Duration),
    /// The limiter refused the call. Nothing was sent.
    #[error(transparent)]
    Refused(Refused),
    /// The call was sent and failed.
    #[error(transparent)]
    Inner(E),
}

/// A request that can be sent through [`RetryAfterService`].
pub trait Outgoing {
    /// Returns the host, with its port if the request names one, in upper or lower case. `None` if all
    /// requests go to one server, as on a tonic channel.
    fn host(&self) -> Option<&str>;
}

/// An answer that [`RetryAfterService`] can read.
pub trait Answered {
    /// Returns the status.
    fn status(&self) -> StatusCode;

    /// Returns the headers. For a gRPC call that failed before it began they are the whole answer.
    fn headers(&self) -> &HeaderMap;
}

impl<B> Outgoing for http::Request<B> {
    fn host(&self) -> Option<&str> {
        let authority = self.uri().authority()?.as_str();
        // Without the user's name and password.
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
        // Without the user's name and password.
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
    /// Makes a layer whose calls wait at most 30 seconds, and that honours a server's `Retry-After` for at most an
    /// hour.
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

    /// Sets the maximum time that a call waits: for the server, and for the limiter. Zero never waits.
    #[must_use]
    pub const fn wait(mut self, most: Duration) -> Self {
        self.manners.wait = most;
        self
    }

    /// Sets the maximum `Retry-After` that is honoured. A server that asks for more is called again after this
    /// time.
    #[must_use]
    pub const fn max_retry_after(mut self, most: Duration) -> Self {
        self.manners.most = most;
        self
    }

    /// Takes a token of this limiter before each call. If the limiter counts permits, each call holds one until the
    /// head of its answer is there.
    #[must_use]
    pub fn limiter(mut self, limiter: Limiter) -> Self {
        self.manners.limiter = Some(limiter);
        self
    }

    /// Sets the clock for waits. The default is the [`HostClock`].
    #[must_use]
    pub fn clock(mut self, clock: SharedClock) -> Self {
        self.manners.clock = clock;
        self
    }
}

impl<S> Layer<S> for RetryAfterLayer {
    type Service = RetryAfterService<S>;

    fn layer(&self, inner: S) -> RetryAfterService<S> {
        RetryAfterService {
            inner,
            manners: self.manners.clone(),
            held: Arc::clone(&self.held),
        }
    }
}

impl Held {
    /// Maximum number of hosts; beyond it those whose time ends first are forgotten first.
    const HOSTS_MAX: usize = 1_024;

    fn until(&self, host: &str, now: Tick) -> Option<Span> {
        let hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        let left = hosts.get(host)?.since(now);
        (!left.is_zero()).then_some(left)
    }

    /// Delays calls to a host until `until`. Of several answers the latest time counts.
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
    /// Waits until the host may be called, and for a token of the limiter, or for the permit that is returned.
    async fn permit<E>(&self, held: &Held, host: &str) -> Result<Option<Permit>, OutgoingError<E>> {
        let (mut limiter, mut permit) = (self.limiter.as_ref(), None);
        // Time waited for the server; the limiter has a time of its own.
        let mut waited = Duration::ZERO;
        loop {
            let now = self.clock.now();
            let Some(left) = held.until(host, now) else {
                // Another answer may arrive while the limiter makes this call wait, so check the host again
                // after it.
                let Some(limiter) = limiter.take() else {
                    return Ok(permit);
                };
                let taken = self.take(limiter).await;
                permit = taken.map_err(OutgoingError::Refused)?;
                continue;
            };
            let left = Duration::from_nanos(left.nanos());
            if waited.saturating_add(left) > self.wait {
                return Err(OutgoingError::Held(left));
            }
            // Calls to other hosts may use the permit meanwhile.
            if permit.take().is_some() {
                limiter = self.limiter.as_ref();
            }
            self.clock.sleep(left).await;
            let slept = self.clock.now().since(now);
            waited = waited.saturating_add(Duration::from_nanos(slept.nanos()));
        }
    }

    /// Takes a token or, of a limiter of permits, the permit that is returned.
    async fn take(&self, limiter: &Limiter) -> Result<Option<Permit>, Refused> {
        if !limiter.counts_permits() {
            match limiter.acquire_within(1, self.wait).await {
                // The kind of a leased limit is known only once a node has told it.
                Err(_) if limiter.counts_permits() => {}
                taken => return taken.map(|_| None),
            }
        }
        let permit = tokio::select! {
            biased;
            permit = limiter.permit() => permit,
            () = limiter.clock().sleep(self.wait) => limiter.try_permit(),
        };
        permit.map(Some)
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

impl<S, Q> Service<Q> for RetryAfterService<S>
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
        // Call the instance that was polled to readiness, and keep the clone.
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        let (manners, held) = (self.manners.clone(), Arc::clone(&self.held));
        Box::pin(async move {
            let host = request.host().unwrap_or_default().to_ascii_lowercase();
            let _permit = manners.permit::<S::Error>(&held, &host).await?;
            let answer = inner.call(request).await.map_err(OutgoingError::Inner)?;
            manners.heed(&held, &host, &answer);
            Ok(answer)
        })
    }
}
