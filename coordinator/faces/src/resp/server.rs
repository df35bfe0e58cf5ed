//! The loop of a connection: requests in, decisions, replies out.

use super::limits::Limits;
use super::operation::{Operation, Verb};
use super::reply::{Reply, Version};
use super::request::Parser;
use super::session::{Host, Session, Step};
use crate::decider::{Answer, Ask, Cost, Decider, Outcome};
use crate::rules::{Face, KeyProblem};
use crate::scope::Scope;
use bytes::BytesMut;
use futures_util::future::{FutureExt, join_all};
use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

/// The client of one connection.
pub trait Caller: Send + Sync {
    /// Mark of a request in progress.
    type Open: Send;

    /// Notes the beginning of a request, which lasts until the result is dropped.
    fn begin(&self) -> Self::Open;

    /// Returns the keys that the client may ask for before it gives a password; `None` if it must give one.
    fn without_password(&self) -> Option<Scope>;

    /// Returns the keys that a client with this password may ask for; `None` if the password is not known.
    fn scope(&self, password: &[u8]) -> Option<Scope>;
}

/// Settings of a [`Server`].
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Time within which a decision must arrive.
    pub within: Duration,
    /// Time within which a client must read replies. A slower one is disconnected.
    pub write_timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            within: Duration::from_millis(500),
            write_timeout: Duration::from_secs(10),
        }
    }
}

/// The Redis face over one decider. All connections of a process share one.
#[derive(Debug)]
pub struct Server {
    decider: Decider,
    options: Options,
    limits: Limits,
    connections: AtomicU64,
}

/// End of a key that a limit replaces.
const LIMIT: &str = "/{limit}";

impl Server {
    /// Number of bytes of replies after which they are sent, although more requests are there. A client that does
    /// not read gets no more than these and what its system buffers.
    const REPLIES: usize = 64 * 1_024;

    /// Number of bytes that are read at once.
    const READ: usize = 16 * 1_024;

    /// Creates a server that asks a decider.
    #[must_use]
    pub fn new(decider: Decider, options: Options) -> Self {
        Self {
            decider,
            options,
            limits: Limits::default(),
            connections: AtomicU64::new(1),
        }
    }

    /// Serves one connection until the client ends it, or until `stopping` completes and the requests that have
    /// arrived are answered.
    ///
    /// Requests are answered in the order in which they arrive. While a client does not read its replies, nothing
    /// more is read from it.
    ///
    /// # Errors
    ///
    /// The error of the connection; [`io::ErrorKind::TimedOut`] if the client did not read its replies in time, and
    /// [`io::ErrorKind::InvalidData`] if it does not speak the protocol.
    pub async fn serve<C: Caller>(
        &self,
        stream: impl AsyncRead + AsyncWrite + Send,
        caller: &C,
        stopping: impl Future<Output = ()> + Send,
    ) -> io::Result<()> {
        let mut stopping = pin!(stopping);
        // It is read or written, and never both at once.
        let mut stream = pin!(stream);
        let id = self.connections.fetch_add(1, Ordering::Relaxed);
        let mut session = Session::new(id, caller.without_password());
        let (mut parser, mut input, mut output) =
            (Parser::default(), BytesMut::new(), BytesMut::new());
        // The requests that have arrived, which are answered together.
        let mut open = None;
        loop {
            match parser.next(&mut input) {
                Ok(Some(parts)) if parts.is_empty() => {}
                Ok(Some(parts)) => {
                    open.get_or_insert_with(|| caller.begin());
                    let step = session.command(&parts, &Here(caller));
                    let closes = matches!(step, Step::Close(_));
                    let reply = self.carry_out(session.scope(), step).await;
                    reply.write(session.version(), &mut output);
                    if closes || output.len() >= Self::REPLIES {
                        self.send(&mut stream, &mut output).await?;
                    }
                    if closes {
                        return stream.shutdown().await;
                    }
                }
                Ok(None) => {
                    open = None;
                    self.send(&mut stream, &mut output).await?;
                    input.reserve(Self::READ);
                    tokio::select! {
                        read = stream.read_buf(&mut input) => if read? == 0 {
                            return Ok(());
                        },
                        () = &mut stopping => return stream.shutdown().await,
                    }
                }
                Err(error) => {
                    Reply::err(error).write(Version::Resp2, &mut output);
                    self.send(&mut stream, &mut output).await?;
                    return Err(io::Error::new(io::ErrorKind::InvalidData, error));
                }
            }
        }
    }

    /// Sends all replies.
    async fn send(
        &self,
        writer: &mut (impl AsyncWrite + Unpin),
        output: &mut BytesMut,
    ) -> io::Result<()> {
        if output.is_empty() {
            return Ok(());
        }
        let mut sent = pin!(async {
            writer.write_all(output).await?;
            writer.flush().await
        });
        // Nearly always the system has room for all of them, and no timer is needed.
        let sent = match sent.as_mut().now_or_never() {
            Some(sent) => sent,
            None => timeout(self.options.write_timeout, sent)
                .await
                .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())),
        };
        output.clear();
        sent
    }

    async fn carry_out(&self, scope: &Scope, step: Step) -> Reply {
        match step {
            Step::Reply(reply) | Step::Close(reply) => reply,
            Step::Run(operation) => self.run(scope, operation).await,
            Step::RunSum(operations) => self.sum(scope, operations).await,
            Step::RunAll(steps) => {
                let mut replies = Vec::with_capacity(steps.len());
                for step in steps {
                    replies.push(match step {
                        Step::Run(operation) => self.run(scope, operation).await,
                        Step::RunSum(operations) => self.sum(scope, operations).await,
                        Step::Reply(reply) | Step::Close(reply) => reply,
                        Step::RunAll(_) => Reply::err("EXEC in EXEC"),
                    });
                }
                Reply::Array(replies)
            }
        }
    }

    /// Adds the replies to several operations. Returns the first that is no number.
    async fn sum(&self, scope: &Scope, operations: Vec<Operation>) -> Reply {
        let replies = operations.into_iter().map(|it| self.run(scope, it));
        let mut sum = 0;
        for reply in join_all(replies).await {
            match reply {
                Reply::Int(number) => sum += number,
                other => return other,
            }
        }
        Reply::Int(sum)
    }

    /// Decides an operation.
    async fn run(&self, scope: &Scope, mut operation: Operation) -> Reply {
        let mapped = self.decider.budget_key(Face::Redis, scope, &operation.key);
        let mapped = match mapped {
            Ok(mapped) => mapped,
            Err(problem @ KeyProblem::Outside { .. }) => {
                return Reply::Error(format!("NOPERM {problem}"));
            }
            Err(problem) => return Reply::err(problem),
        };
        // Only a rule can ask for a limit: a client's own key may end in anything.
        let names = mapped.rule.is_some_and(|rule| rule.ends_with(LIMIT));
        let key = match mapped.key.strip_suffix(LIMIT).filter(|_| names) {
            None => {
                operation.limit = None;
                mapped.key
            }
            Some(stem) => {
                match operation.limit {
                    Some(limit) => self.limits.named(&operation.key, limit),
                    None => operation.limit = self.limits.of(&operation.key),
                }
                match operation.limit {
                    Some(limit) => format!("{stem}/{limit}"),
                    None => return operation.unknown(),
                }
            }
        };
        let (answer, asked) = self.decide(key, operation.verb).await;
        operation.reply(&answer, asked)
    }

    /// Returns the answer, and the number of tokens that were asked for last.
    async fn decide(&self, key: String, verb: Verb) -> (Answer, u64) {
        let mut ask = Ask {
            key,
            cost: Cost::Peek,
            within: self.options.within,
        };
        let most = match verb {
            Verb::Peek => return (self.decider.decide(&ask).await, 0),
            Verb::Refund(n) => {
                ask.cost = Cost::Refund(n);
                return (self.decider.decide(&ask).await, 0);
            }
            Verb::Take(n) => {
                ask.cost = Cost::Take(n);
                return (self.decider.decide(&ask).await, n);
            }
            Verb::AtMost(most) => most,
        };
        // Another caller may take some in between, so the rest is asked for again, a bounded number of times.
        let mut asked = most;
        for _ in 0..4 {
            ask.cost = Cost::Take(asked);
            let answer = self.decider.decide(&ask).await;
            let refused = matches!(answer.outcome, Outcome::OverLimit | Outcome::Never);
            if !refused || asked <= 1 {
                return (answer, asked);
            }
            asked = answer.remaining.unwrap_or_default().clamp(1, asked - 1);
        }
        ask.cost = Cost::Take(1);
        (self.decider.decide(&ask).await, 1)
    }
}

/// The surroundings of a session: its client, and the time of day.
struct Here<'a, C>(&'a C);

impl<C: Caller> Host for Here<'_, C> {
    fn without_password(&self) -> Option<Scope> {
        self.0.without_password()
    }

    fn scope(&self, password: &[u8]) -> Option<Scope> {
        self.0.scope(password)
    }

    fn unix_time(&self) -> Duration {
        #[expect(
            clippy::disallowed_methods,
            reason = "the command TIME tells the time of day, and nothing is decided by it"
        )]
        let now = SystemTime::now();
        now.duration_since(UNIX_EPOCH).unwrap_or_default()
    }
}

#[cfg(test)]
#[path = "../../tests/unit/resp/server.rs"]
mod tests;
