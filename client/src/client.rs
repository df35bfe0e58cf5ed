//! A process's client.

use crate::breaker::Breaker;
use crate::builder::ClientBuilder;
use crate::error::{BuildError, KeyRefused};
use crate::limiter::Limiter;
use crate::registry::Past;
use crate::shared::{Command, Handle, Status};
use crate::switch::Mode;
use crate::tap::Tap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::oneshot;

/// A process's client: one session with the coordinator, and a limiter per key.
///
/// Cheap to clone, and all clones are one. When the last clone and the last
/// limiter are dropped, what is held is handed back.
#[derive(Clone, Debug)]
pub struct Client {
    handle: Handle,
}

impl Client {
    /// How long [`Client::close`] waits for the answer: a lease, as long as it usually is.
    pub const CLOSE_WAIT: Duration = Duration::from_secs(3);

    pub(crate) const fn new(handle: Handle) -> Self {
        Self { handle }
    }

    /// A client of the cluster with these nodes, `host:port` each. It returns at once, even
    /// with no node up, and must be called within a tokio runtime.
    ///
    /// # Errors
    ///
    /// [`BuildError`], naming what is wrong.
    pub fn connect<A: Into<String>>(
        addresses: impl IntoIterator<Item = A>,
    ) -> Result<Self, BuildError> {
        Self::builder().addresses(addresses).connect()
    }

    /// A client with settings of its own.
    #[must_use]
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// The limiter of a key, such as `tenant/42/reads`.
    ///
    /// A key that nobody has a limiter of, or asks for, is forgotten after a minute: what is held of it goes
    /// back, and who asks for it later finds it as it was at first. Where there are as many keys
    /// as there may be, those go at once that are of no use the longest. A key stays that has a mode of
    /// its own, that lives on without a lease, or that owes something to a rule of this process's own.
    ///
    /// # Errors
    ///
    /// [`KeyRefused`]: the text is no key, as many are held as there may be, or the client is closed.
    pub fn limiter(&self, key: &str) -> Result<Limiter, KeyRefused> {
        let gate = self.handle.shared.gate(key)?;
        Ok(Limiter::new(gate, self.handle.clone()))
    }

    /// All limiters, by key: those that are held, and those that were asked for and are not forgotten yet.
    #[must_use]
    pub fn limiters(&self) -> Vec<Limiter> {
        let gates = self.handle.shared.gates();
        let limiters = gates.into_iter();
        limiters
            .map(|gate| Limiter::new(gate, self.handle.clone()))
            .collect()
    }

    /// Whether it was closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.handle.shared.is_closed()
    }

    /// What stands before the questions to the homes of budgets that are kept in one piece ([`Limiter::check`] and all that
    /// waits): after eight in a row without an answer none is asked for a fifth of a second, and twice that each time the one
    /// that tries has none either, up to two seconds. One whose caller has gone before is without an answer, too, where none at all was
    /// heard for 0.7 s, which is how long it is waited for. Meanwhile these are refused at once, as
    /// [`Reason::Undecided`](crate::Reason::Undecided). It is watched with
    /// the client ([`Watch::client`](crate::Watch::client)), and can be switched as any other.
    #[must_use]
    pub fn breaker(&self) -> Breaker {
        self.handle.shared.breaker.clone()
    }

    /// What was counted of keys that are forgotten.
    pub(crate) fn past(&self) -> Past {
        self.handle.shared.past()
    }

    pub(crate) fn watch(&self, tap: &Arc<Tap>) {
        self.handle.shared.watch(tap);
    }

    /// How the session stands.
    #[must_use]
    pub fn status(&self) -> Status {
        self.handle.shared.status()
    }

    /// What holds for all limiters whose own mode it overrules.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.handle.shared.mode()
    }

    /// Another mode for all limiters of this client, those that are made later too.
    /// With [`Mode::Enforce`] each goes by its own again. See
    /// [`Limiter::set_mode`] for when it holds.
    pub fn set_mode(&self, mode: Mode) {
        self.handle.shared.set_mode(mode);
    }

    /// Hands everything back, and waits up to [`Client::CLOSE_WAIT`] for the node to
    /// take it. Nothing is admitted from when the client's task has seen it, which is before this answers. Answers whether the node
    /// took it: if not, it is free when its lease has run out.
    pub async fn close(&self) -> bool {
        self.handle.shared.close();
        let (reply, answer) = oneshot::channel();
        let command = Command::Close(Self::CLOSE_WAIT, reply);
        let sent = self.handle.commands.send(command).await;
        let answered = match sent {
            Ok(()) => answer.await.ok(),
            Err(_) => None,
        };
        // Another one has closed it.
        answered.unwrap_or_else(|| !self.handle.shared.untaken.load(Ordering::Acquire))
    }
}
