//! Connections whose callers read nothing of what is sent to them.

use crate::timer::{self, Sleep};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A connection on which a write fails if the caller makes no room for it within a time.
pub(super) struct SlowReaderGuard<IO> {
    io: IO,
    patience: Option<Duration>,
    /// Runs while a write waits for room.
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<IO: Unpin> SlowReaderGuard<IO> {
    /// Limits the waits of a connection; `None` leaves them unlimited.
    pub(super) const fn new(io: IO, patience: Option<Duration>) -> Self {
        Self {
            io,
            patience,
            waiting: None,
        }
    }

    /// Carries out a write, or fails if writes have waited for too long.
    fn write<T>(
        &mut self,
        context: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut IO>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if let Poll::Ready(written) = write(Pin::new(&mut self.io), context) {
            self.waiting = None;
            return Poll::Ready(written);
        }
        let Some(patience) = self.patience else {
            return Poll::Pending;
        };
        let waiting = self
            .waiting
            .get_or_insert_with(|| Box::pin(timer::sleep(patience)));
        ready!(waiting.as_mut().poll(context));
        let what = format!("the caller read nothing for {patience:?}");
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, what)))
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for SlowReaderGuard<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(context, buffer)
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for SlowReaderGuard<IO> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.write(context, |io, context| io.poll_write(context, bytes))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.write(context, |io, context| io.poll_flush(context))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.write(context, |io, context| io.poll_shutdown(context))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.write(context, |io, context| {
            io.poll_write_vectored(context, slices)
        })
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/serve/port/slow_reader.rs"]
mod tests;
