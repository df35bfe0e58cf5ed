//! The debouncer's task: a state machine with a clock.

use super::{Batch, Debounce, Rules};
use crate::clock::{HostClock, SharedClock};
use aliquot_core::unit::Tick;
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// Passes batches of values to an action, one at a time, when a flurry fires.
///
/// While the action runs, further values are collected for the next batch. Cloning is cheap, and all clones
/// share one task. When the last clone is dropped, the pending batch is still passed on; call
/// [`Debouncer::stop`] to wait until that is done. All futures here may be dropped: a push that was not
/// complete has added nothing, and a flush or a stop completes in the background.
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

/// The reason why a value was not accepted, with the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PushError<V> {
    /// The batch is full, and the action is still running.
    #[error("the batch is full, and the previous batch is still being processed")]
    Full(V),
    /// The debouncer was stopped, or its action panicked.
    #[error("the debouncer has stopped")]
    Stopped(V),
}

/// Owner of the task, which stops when the last clone is dropped.
struct Handle<B> {
    shared: Arc<Shared<B>>,
}

struct Shared<B> {
    state: Mutex<State<B>>,
    clock: SharedClock,
    /// Wakes the task.
    wake: Notify,
    /// Notified when a batch was taken, a flush is done, or the task has ended.
    changed: Notify,
}

struct State<B> {
    machine: Debounce<B>,
    /// Number of flushes requested, and the number up to which all are done.
    asked: u64,
    done: u64,
    stopping: bool,
    ended: bool,
}

/// Next action of the task.
enum Step<B> {
    /// Pass on a batch. All flushes up to this number wait for it.
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
    /// Starts the task, with the host's clock.
    ///
    /// # Panics
    ///
    /// If called outside of a tokio runtime.
    pub fn spawn<A, R>(rules: Rules, action: A) -> Self
    where
        A: FnMut(B) -> R + Send + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        Self::spawn_with(rules, Arc::new(HostClock), action)
    }

    /// Like [`Debouncer::spawn`], with another clock.
    ///
    /// # Panics
    ///
    /// If called outside of a tokio runtime.
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

    /// Adds a value, if there is room for it.
    ///
    /// # Errors
    ///
    /// [`PushError`] with the value.
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

    /// Adds a value, waiting for room if the batch is full. If the future is dropped before it is complete,
    /// nothing is added.
    ///
    /// # Errors
    ///
    /// [`PushError::Stopped`] with the value.
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

    /// Passes on the pending batch at once, and waits until the action has handled everything pushed before.
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

    /// Accepts no more values, passes on the pending batch, and waits until the action has handled
    /// everything.
    pub async fn stop(&self) {
        self.handle.shared.stop();
        self.handle.shared.until(|_| false).await;
    }

    /// Drops the pending batch.
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
    /// A panic leaves nothing half-written.
    fn lock(&self) -> MutexGuard<'_, State<B>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stop(&self) {
        self.lock().stopping = true;
        self.wake.notify_one();
        self.changed.notify_waiters();
    }

    /// Waits until `holds` returns true or the task has ended.
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

/// Held by the task: however the task ends, waiting callers are notified.
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
