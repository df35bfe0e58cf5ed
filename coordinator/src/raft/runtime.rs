//! The runtime of openraft: tasks, timers, instants and randomness. They are tokio's, or in a
//! simulation those of the simulated host that runs at the moment.

use crate::timer::{self, Elapsed, Sleep};
use futures_util::TryFutureExt;
use futures_util::future::{Either, MapErr};
use openraft::{AsyncRuntime, OptionalSend};
use openraft_rt_tokio::{
    TokioInstant, TokioMpsc, TokioMutex, TokioOneshot, TokioRuntime, TokioWatch,
};
use rand::TryRng;
use rand::rngs::ThreadRng;
use std::convert::Infallible;
use std::future::Future;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll};
use std::time::Duration;

/// The runtime of openraft.
#[derive(Debug)]
pub(super) struct HostRuntime(TokioRuntime);

impl AsyncRuntime for HostRuntime {
    type JoinError = tokio::task::JoinError;
    type JoinHandle<T: OptionalSend + 'static> = tokio::task::JoinHandle<T>;
    type Sleep = Sleep;
    type Instant = HostInstant;
    type TimeoutError = Elapsed;
    type Timeout<R, T: Future<Output = R> + OptionalSend> = Bounded<T>;
    type ThreadLocalRng = HostRng;
    type Mpsc = TokioMpsc;
    type Watch = TokioWatch;
    type Oneshot = TokioOneshot;
    type Mutex<T: OptionalSend + 'static> = TokioMutex<T>;

    fn spawn<T>(future: T) -> Self::JoinHandle<T::Output>
    where
        T: Future + OptionalSend + 'static,
        T::Output: OptionalSend + 'static,
    {
        tokio::spawn(future)
    }

    fn sleep(span: Duration) -> Sleep {
        timer::sleep(span)
    }

    fn sleep_until(deadline: HostInstant) -> Sleep {
        match timer::host() {
            None => Either::Left(TokioRuntime::sleep_until(deadline.0)),
            Some(_) => timer::sleep(deadline.left()),
        }
    }

    fn timeout<R, F: Future<Output = R> + OptionalSend>(span: Duration, future: F) -> Bounded<F> {
        match timer::host() {
            None => by_tokio(TokioRuntime::timeout(span, future)),
            Some(_) => Either::Right(Counted::new(span, future)),
        }
    }

    fn timeout_at<R, F: Future<Output = R> + OptionalSend>(
        deadline: HostInstant,
        future: F,
    ) -> Bounded<F> {
        match timer::host() {
            None => by_tokio(TokioRuntime::timeout_at(deadline.0, future)),
            Some(_) => Either::Right(Counted::new(deadline.left(), future)),
        }
    }

    fn is_panic(error: &Self::JoinError) -> bool {
        error.is_panic()
    }

    fn thread_rng() -> HostRng {
        match timer::host() {
            None => HostRng::Thread(rand::rng()),
            Some(host) => HostRng::Simulated(host),
        }
    }

    fn new(threads: usize) -> Self {
        Self(TokioRuntime::new(threads))
    }

    fn block_on<F, T>(&mut self, future: F) -> T
    where
        F: Future<Output = T>,
    {
        self.0.block_on(future)
    }
}

/// An instant on the host's clock. A simulated clock starts from a large value, because openraft
/// subtracts leases from instants, and it never goes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct HostInstant(TokioInstant);

/// Origin of the clocks of simulated hosts. Only differences of instants are used.
static ORIGIN: LazyLock<TokioInstant> = LazyLock::new(by_tokio_now);

impl HostInstant {
    fn left(self) -> Duration {
        let now = <Self as openraft::Instant>::now();
        openraft::Instant::saturating_duration_since(&self, now)
    }
}

fn by_tokio_now() -> TokioInstant {
    <TokioInstant as openraft::Instant>::now()
}

impl openraft::Instant for HostInstant {
    fn now() -> Self {
        match timer::host() {
            None => Self(by_tokio_now()),
            Some(host) => Self(*ORIGIN + host.uptime()),
        }
    }
}

impl Add<Duration> for HostInstant {
    type Output = Self;

    fn add(self, span: Duration) -> Self {
        Self(self.0 + span)
    }
}

impl AddAssign<Duration> for HostInstant {
    fn add_assign(&mut self, span: Duration) {
        self.0 += span;
    }
}

impl Sub<Duration> for HostInstant {
    type Output = Self;

    fn sub(self, span: Duration) -> Self {
        Self(self.0 - span)
    }
}

impl Sub for HostInstant {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        self.0 - earlier.0
    }
}

impl SubAssign<Duration> for HostInstant {
    fn sub_assign(&mut self, span: Duration) {
        self.0 -= span;
    }
}

type ByTokio<F> = MapErr<tokio::time::Timeout<F>, fn(tokio::time::error::Elapsed) -> Elapsed>;

/// A future with a time limit.
pub(super) type Bounded<F> = Either<ByTokio<F>, Counted<F>>;

fn by_tokio<F: Future>(bounded: tokio::time::Timeout<F>) -> Bounded<F> {
    Either::Left(bounded.map_err(|_| Elapsed))
}

/// A future whose time limit is counted by the clock of a simulated host.
pub(super) struct Counted<F> {
    future: Pin<Box<F>>,
    end: Pin<Box<Sleep>>,
}

impl<F> Counted<F> {
    fn new(span: Duration, future: F) -> Self {
        Self {
            future: Box::pin(future),
            end: Box::pin(timer::sleep(span)),
        }
    }
}

impl<F: Future> Future for Counted<F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Poll::Ready(output) = self.future.as_mut().poll(context) {
            return Poll::Ready(Ok(output));
        }
        self.end.as_mut().poll(context).map(|()| Err(Elapsed))
    }
}

/// Source of openraft's random pauses.
pub(super) enum HostRng {
    /// The source of the thread.
    Thread(ThreadRng),
    /// The source of a simulated host.
    Simulated(Arc<dyn timer::Host>),
}

impl TryRng for HostRng {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        match self {
            Self::Thread(rng) => rng.try_next_u32(),
            Self::Simulated(host) => Ok((host.random() >> 32) as u32),
        }
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        match self {
            Self::Thread(rng) => rng.try_next_u64(),
            Self::Simulated(host) => Ok(host.random()),
        }
    }

    fn try_fill_bytes(&mut self, to: &mut [u8]) -> Result<(), Infallible> {
        match self {
            Self::Thread(rng) => rng.try_fill_bytes(to),
            Self::Simulated(host) => {
                for chunk in to.chunks_mut(8) {
                    let bytes = host.random().to_le_bytes();
                    chunk.copy_from_slice(&bytes[..chunk.len()]);
                }
                Ok(())
            }
        }
    }
}
