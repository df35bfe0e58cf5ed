//! A machine with a clock and a task of its own.

use super::{Batch, Debounce, Rules};
use crate::clock::{HostClock, SharedClock};
use aliquot_core::unit::Tick;
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// Hands batches of values to an action, one at a time, when a flurry fires.
///
/// While the action runs, what comes is gathered for the next time. Cheap to clone, and all clones
/// are one. When the last one is dropped, what is pending is still handed over; who wants to
/// know when that is done calls [`Debouncer::stop`]. Any of the futures here may be dropped: a
/// push that was not over pushed nothing, and a flush or a stop goes on by itself.
///
/// ```
/// use aliquot_client::debounce::{Debouncer, Last, Rules};
/// use std::time::Duration;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let rules = Rules::quiet(Duration::from_millis(200)).at_most_every(Duration::from_secs(2));
/// let saver = Debouncer::spawn(rules, async |Last(draft): Last<String>| println!("{draft}"));
/// saver.push("draft 1".to_owned()).await.expect("it runs");
/// saver.push("draft 2".to_owned()).await.expect("it runs");
/// saver.stop().await; // prints the second alone
/// # }
/// ```
pub struct Debouncer<B> {
    handle: Arc<Handle<B>>,
}

/// Why a value was not taken in. It is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PushError<V> {
    /// The batch is full, and the action still runs.
    #[error("the batch is full, and the one before it is still being acted on")]
    Full(V),
    /// It was stopped, or its action panicked.
    #[error("the debouncer has stopped")]
    Stopped(V),
}

/// The task goes on for as long as there is one.
struct Handle<B> {
    shared: Arc<Shared<B>>,
}

struct Shared<B> {
    state: Mutex<State<B>>,
    clock: SharedClock,
    /// Wakes the task.
    wake: Notify,
    /// A batch was taken, a flush is done, or the task has ended.
    changed: Notify,
}

struct State<B> {
    machine: Debounce<B>,
    /// How many flushes were asked for, and up to which all is done.
    asked: u64,
    done: u64,
    stopping: bool,
    ended: bool,
}

/// What the task does next.
enum Step<B> {
    /// Hands over a batch, which all flushes up to this one wait for.
    Act(B, u64),
    Nap(Option<Tick>),
    End,
}

impl<B> Clone for Debouncer<B> {
    fn clone(&self) -> Self {
        let handle = Arc::clone(&self.handle);
        Self { handle }
    }
}

impl<B> fmt::Debug for Debouncer<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.handle.shared.lock();
        f.debug_struct("Debouncer")
            .field("machine", &state.machine)
            .field("stopping", &state.stopping)
            .finish_non_exhaustive()
    }
}

impl<B: Send + 'static> Debouncer<B> {
    /// Starts the task, by the host's clock.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn spawn<A, R>(rules: Rules, action: A) -> Self
    where
        A: FnMut(B) -> R + Send + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        Self::spawn_with(rules, Arc::new(HostClock), action)
    }

    /// [`Debouncer::spawn`] by another clock.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn spawn_with<A, R>(rules: Rules, clock: SharedClock, action: A) -> Self
    where
        A: FnMut(B) -> R + Send + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        let state = State {
            machine: Debounce::new(rules),
            asked: 0,
            done: 0,
            stopping: false,
            ended: false,
        };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            clock,
            wake: Notify::new(),
            changed: Notify::new(),
        });
        tokio::spawn(run(Running(Arc::clone(&shared)), action));
        Self {
            handle: Arc::new(Handle { shared }),
        }
    }

    /// Takes a value in, if there is room for it.
    ///
    /// # Errors
    ///
    /// [`PushError`], with the value.
    pub fn try_push<V>(&self, value: V) -> Result<(), PushError<V>>
    where
        B: Batch<V>,
    {
        let shared = &self.handle.shared;
        let now = shared.clock.now();
        let mut state = shared.lock();
        if state.stopping || state.ended {
            return Err(PushError::Stopped(value));
        }
        state.machine.push(value, now).map_err(PushError::Full)?;
        drop(state);
        shared.wake.notify_one();
        Ok(())
    }

    /// Takes a value in, waiting for room where a batch is full. Dropping the
    /// future before it is done takes nothing in.
    ///
    /// # Errors
    ///
    /// [`PushError::Stopped`], with the value.
    pub async fn push<V>(&self, value: V) -> Result<(), PushError<V>>
    where
        B: Batch<V>,
    {
        let mut value = value;
        loop {
            let changed = self.handle.shared.changed.notified();
            let mut changed = std::pin::pin!(changed);
            changed.as_mut().enable();
            match self.try_push(value) {
                Err(PushError::Full(back)) => value = back,
                other => return other,
            }
            changed.await;
        }
    }

    /// Hands over what is pending without waiting for its time, and waits until all that was
    /// pushed before has been acted on.
    pub async fn flush(&self) {
        let shared = &self.handle.shared;
        let mine = {
            let mut state = shared.lock();
            state.asked += 1;
            state.asked
        };
        shared.wake.notify_one();
        shared.until(|state| state.done >= mine).await;
    }

    /// Takes nothing more in, hands over what is pending, and waits until all has been acted on.
    pub async fn stop(&self) {
        self.handle.shared.stop();
        self.handle.shared.until(|_| false).await;
    }

    /// Drops what is pending.
    pub fn discard(&self) {
        self.handle.shared.lock().machine.clear();
        self.handle.shared.changed.notify_waiters();
    }
}

impl<B> Drop for Handle<B> {
    fn drop(&mut self) {
        self.shared.stop();
    }
}

impl<B> Shared<B> {
    /// None of what this guards is left half-done by a panic.
    fn lock(&self) -> MutexGuard<'_, State<B>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stop(&self) {
        self.lock().stopping = true;
        self.wake.notify_one();
        self.changed.notify_waiters();
    }

    /// Waits until that holds, or the task has ended.
    async fn until(&self, holds: impl Fn(&State<B>) -> bool) {
        loop {
            let changed = self.changed.notified();
            let mut changed = std::pin::pin!(changed);
            changed.as_mut().enable();
            if Some(self.lock()).is_some_and(|state| state.ended || holds(&state)) {
                return;
            }
            changed.await;
        }
    }

    fn next(&self) -> Step<B> {
        let now = self.clock.now();
        let mut state = self.lock();
        let asked = state.asked;
        let batch = match state.stopping || asked > state.done {
            true => state.machine.flush(now),
            false => state.machine.poll(now),
        };
        match batch {
            Some(batch) => Step::Act(batch, asked),
            None if state.stopping => Step::End,
            None => {
                state.done = asked;
                Step::Nap(state.machine.due())
            }
        }
    }
}

/// The task's own hold: however it ends, those who wait are told.
struct Running<B>(Arc<Shared<B>>);

impl<B> Drop for Running<B> {
    fn drop(&mut self) {
        self.0.lock().ended = true;
        self.0.changed.notify_waiters();
    }
}

async fn run<B, A, R>(running: Running<B>, mut action: A)
where
    A: FnMut(B) -> R,
    R: Future<Output = ()>,
{
    let shared = &running.0;
    loop {
        match shared.next() {
            Step::Act(batch, asked) => {
                shared.changed.notify_waiters();
                action(batch).await;
                shared.lock().done = asked;
            }
            Step::Nap(due) => {
                shared.changed.notify_waiters();
                let nap = async {
                    match due {
                        Some(due) => {
                            let wait = due.since(shared.clock.now()).nanos();
                            shared.clock.sleep(Duration::from_nanos(wait)).await;
                        }
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    () = nap => {}
                    () = shared.wake.notified() => {}
                }
            }
            Step::End => return,
        }
    }
}
