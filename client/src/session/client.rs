//! The client of a process.

use crate::limiter::Limiter;
use crate::limiter::key_refused::KeyRefused;
use crate::limiter::registry::Past;
use crate::limiter::shared::{Command, Handle, Status};
use crate::local::breaker::Breaker;
use crate::observe::counters::Counters;
use crate::observe::switch::Mode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::oneshot;

/// The client of a process: one session with the coordinator, and one limiter per key.
///
/// Cloning is cheap, and all clones share one session. When the last clone and the last limiter are dropped,
/// the session hands back what it holds.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use aliquot_client::Client;
///
/// let client = Client::connect(["a:7001", "b:7001"])?;
/// let reads = client.limiter("tenant/42/reads")?;
/// if reads.check(1).await.is_ok() {
///     println!("admitted");
/// }
/// client.close().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Client {
    handle: Handle,
}

impl Client {
    /// Maximum time that [`Client::close`] waits for the node's answer: the usual length of a lease.
    pub const CLOSE_WAIT: Duration = Duration::from_secs(3);

    pub(crate) const fn new(handle: Handle) -> Self {
        Self { handle }
    }

    /// Returns the limiter of a key, such as `tenant/42/reads`.
    ///
    /// A key without limiters that is not asked for is forgotten after a minute. Its tokens go back, and a
    /// later call finds the key in its initial state. If the client has its maximum number of keys, the keys
    /// that have been unused for the longest are forgotten at once to make room.
    ///
    /// A key is not forgotten while it has a mode of its own, while it admits without a lease, or while it
    /// owes tokens under [`DefaultRule::Local`](crate::DefaultRule::Local).
    ///
    /// # Errors
    ///
    /// [`KeyRefused`] if the text is not a valid key, if the client has its maximum number of keys and all of
    /// them are in use, or if the client is closed.
    pub fn limiter(&self, key: &str) -> Result<Limiter, KeyRefused> {
        let key_state = self.handle.shared.key_state(key)?;
        Ok(Limiter::new(key_state, self.handle.clone()))
    }

    /// Returns the limiters of all keys, ordered by key: keys with a limiter, and keys that are not forgotten
    /// yet.
    #[must_use]
    pub fn limiters(&self) -> Vec<Limiter> {
        let key_states = self.handle.shared.key_states();
        let limiters = key_states.into_iter();
        limiters
            .map(|key_state| Limiter::new(key_state, self.handle.clone()))
            .collect()
    }

    /// Returns true if the client was closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.handle.shared.is_closed()
    }

    /// Returns the circuit breaker for central decisions: requests that [`Limiter::check`] and the methods
    /// that wait send to the home node of a budget in central mode.
    ///
    /// It opens after eight requests in a row without an answer, for 200 ms; each trial that fails doubles
    /// that time, up to 2 s. While it is open, such requests are refused at once as
    /// [`Reason::Undecided`](crate::Reason::Undecided).
    ///
    /// A request counts as unanswered if no answer arrives within 0.7 s. A request whose caller gave up earlier
    /// also counts if the client has received no answer at all for 0.7 s.
    ///
    /// The breaker is watched with the client ([`Watch::client`](crate::observe::Watch::client)), and has a [`Mode`]
    /// like any other.
    #[must_use]
    pub fn breaker(&self) -> Breaker {
        self.handle.shared.breaker.clone()
    }

    /// Returns the totals of keys that were forgotten.
    pub(crate) fn past(&self) -> Past {
        self.handle.shared.past()
    }

    pub(crate) fn watch(&self, counters: &Arc<Counters>) {
        self.handle.shared.watch(counters);
    }

    /// Returns the state of the session.
    #[must_use]
    pub fn status(&self) -> Status {
        self.handle.shared.status()
    }

    /// Returns the mode of the client. Unless it is [`Mode::Enforce`], it overrides the modes of all its
    /// limiters.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.handle.shared.mode()
    }

    /// Sets the mode of all limiters of this client, including those made later.
    ///
    /// With [`Mode::Enforce`] each limiter follows its own mode again. See [`Limiter::set_mode`] for when the
    /// change takes effect.
    pub fn set_mode(&self, mode: Mode) {
        self.handle.shared.set_mode(mode);
    }

    /// Hands everything back, and waits up to [`Client::CLOSE_WAIT`] for the node's answer.
    ///
    /// Nothing is admitted once the client's task has seen the request, which is before this method returns.
    /// Returns true if the node confirmed that it took back what the client held. Otherwise this becomes free when
    /// the client's lease has ended.
    pub async fn close(&self) -> bool {
        self.handle.shared.close();
        let (reply, answer) = oneshot::channel();
        let command = Command::Close(Self::CLOSE_WAIT, reply);
        let sent = self.handle.commands.send(command).await;
        let answered = match sent {
            Ok(()) => answer.await.ok(),
            Err(_) => None,
        };
        // Another call has closed the client already.
        answered.unwrap_or_else(|| !self.handle.shared.untaken.load(Ordering::Acquire))
    }
}
