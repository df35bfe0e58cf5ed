//! The protocol of Redis on a connection.

use super::exchange::{Exchange, GRACE};
use super::until::until;
use crate::api::auth::FaceGuard;
use crate::api::connections::{Connection, OpenRequest};
use crate::timer;
use ::http::Extensions;
use aliquot_faces::Scope;
use aliquot_faces::resp::{Caller, Server};
use std::pin::pin;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;

/// Commands of Redis, answered by the Redis face.
pub(in crate::serve) struct Redis {
    pub(in crate::serve) server: Server,
    pub(in crate::serve) guard: FaceGuard,
    pub(in crate::serve) stopping: watch::Receiver<bool>,
}

/// The caller of one connection.
struct Known<'a> {
    guard: &'a FaceGuard,
    /// Keys that it may ask for by its certificate, or because callers need no role.
    without_password: Option<Scope>,
    connection: &'a Connection,
}

impl Caller for Known<'_> {
    type Open = OpenRequest;

    fn begin(&self) -> OpenRequest {
        self.connection.begin()
    }

    fn without_password(&self) -> Option<Scope> {
        self.without_password.clone()
    }

    fn scope(&self, password: &[u8]) -> Option<Scope> {
        self.guard.scope_of(password)
    }
}

impl Exchange for Redis {
    /// Clients of Redis keep connections open that they do not use, so none is closed for being idle. When the port
    /// is full, the one that has waited longest makes way.
    async fn run<IO>(&self, io: IO, caller: Extensions, connection: &Connection)
    where
        IO: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let caller = Known {
            guard: &self.guard,
            without_password: self.guard.scope_without_token(caller),
            connection,
        };
        let (mut stop, mut cut) = (self.stopping.clone(), self.stopping.clone());
        let stopping = async move {
            let _ = stop.wait_for(|stop| *stop).await;
        };
        let late = async move {
            let _ = cut.wait_for(|stop| *stop).await;
            timer::sleep(GRACE).await;
        };
        let conversation = pin!(async {
            if let Err(error) = self.server.serve(io, &caller, stopping).await {
                tracing::debug!(%error, "a connection ended");
            }
        });
        until(late, conversation).await;
    }

    fn refusal(&self, _: &[u8; 3], text: &str) -> Vec<u8> {
        format!("-ERR {text}\r\n").into_bytes()
    }
}
