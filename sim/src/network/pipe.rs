//! Sockets for the real code: turmoil's sockets, with the faults of the network injected above them.

use super::fabric::{Connection, Delivery, Fabric};
use super::frames::{self, Frames, Piece};
use super::host::now;
use super::packets::Packets;
use crate::net::Message;
use bytes::{Buf, Bytes};
use std::collections::VecDeque;
use std::future::Future;
use std::io::{Error, ErrorKind, Result};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tonic::transport::server::Connected;
use turmoil::net::TcpStream;

/// One end of a connection.
pub(super) struct Pipe {
    fabric: Arc<Fabric>,
    socket: TcpStream,
    /// The host at this end.
    me: usize,
    /// The addresses of the opener and of the listener.
    addresses: (SocketAddr, SocketAddr),
    /// The shared connection. The listening end finds it once the opener has registered it.
    connection: Option<Arc<Connection>>,
    frames: Frames,
    /// Data that has arrived, with the true time from which it may be read.
    arrived: VecDeque<(u64, Bytes)>,
    packets: Packets,
    over: bool,
    nap: Option<Pin<Box<tokio::time::Sleep>>>,
}

impl Pipe {
    /// Wraps the opener's end.
    pub(super) fn opened(
        fabric: &Arc<Fabric>,
        socket: TcpStream,
        ends: [usize; 2],
    ) -> Result<Self> {
        let addresses = (socket.local_addr()?, socket.peer_addr()?);
        let connection = fabric.connected(ends, addresses);
        let mut pipe = Self::new(fabric, socket, ends[0], addresses);
        pipe.connection = Some(connection);
        Ok(pipe)
    }

    /// Wraps the listener's end.
    pub(super) fn accepted(fabric: &Arc<Fabric>, socket: TcpStream, me: usize) -> Result<Self> {
        let addresses = (socket.peer_addr()?, socket.local_addr()?);
        Ok(Self::new(fabric, socket, me, addresses))
    }

    fn new(
        fabric: &Arc<Fabric>,
        socket: TcpStream,
        me: usize,
        addresses: (SocketAddr, SocketAddr),
    ) -> Self {
        Self {
            fabric: Arc::clone(fabric),
            socket,
            me,
            addresses,
            connection: None,
            frames: Frames::default(),
            arrived: VecDeque::new(),
            packets: Packets::default(),
            over: false,
            nap: None,
        }
    }

    /// Returns the connection, and which of its two ends this is.
    fn connection(&mut self) -> Option<(&Arc<Connection>, usize)> {
        if self.connection.is_none() {
            self.connection = self.fabric.find(self.addresses);
        }
        let me = self.me;
        let connection = self.connection.as_ref()?;
        Some((connection, usize::from(connection.ends[0] != me)))
    }

    /// Returns the failure of the connection: an error if it was reset, pending forever if it was severed.
    fn broken(&mut self) -> Option<Poll<Error>> {
        let (connection, _) = self.connection()?;
        if connection.is_reset() {
            return Some(Poll::Ready(ErrorKind::ConnectionReset.into()));
        }
        connection.is_severed().then_some(Poll::Pending)
    }

    /// Wakes the task again after `span`.
    fn doze(&mut self, span: Duration, context: &mut Context<'_>) {
        let mut nap = Box::pin(tokio::time::sleep(span));
        if nap.as_mut().poll(context).is_ready() {
            context.waker().wake_by_ref();
        }
        self.nap = Some(nap);
    }

    /// Takes all data that the socket has.
    fn take_in(&mut self, context: &mut Context<'_>) -> Result<()> {
        let mut room = [0; 16 << 10];
        while !self.over {
            let mut buffer = ReadBuf::new(&mut room);
            match Pin::new(&mut self.socket).poll_read(context, &mut buffer) {
                Poll::Pending => break,
                Poll::Ready(read) => read?,
            }
            self.over = buffer.filled().is_empty();
            self.packets.end_write();
            self.frames.feed(buffer.filled());
            while let Some(piece) = self.frames.next() {
                self.place(piece);
            }
        }
        Ok(())
    }

    /// Decides when a piece may be read, and queues it. A piece that needs several packets is there with the last one.
    fn place(&mut self, piece: Piece) {
        let me = self.me;
        let Some((connection, end)) = self.connection() else {
            return;
        };
        let from = connection.ends[1 - end];
        let fabric = Arc::clone(&self.fabric);
        let len = piece.bytes().len();
        let due = self.packets.carry(len, || fabric.packet(from, me));
        let Piece::Messages { frame, later } = piece else {
            return self.arrive(due, piece.into_bytes());
        };
        match fabric.message(from, me) {
            Message::Gone => self.arrive(due, frames::lost(&frame)),
            Message::Twice(after) if later => {
                self.arrive(due, frames::doubled(&frame));
                self.arrive(due.max(now() + after), frame);
            }
            Message::Once | Message::Twice(_) => self.arrive(due, frame),
        }
    }

    /// Queues data that may be read from then on, and nothing behind it earlier.
    fn arrive(&mut self, due: u64, bytes: Bytes) {
        self.packets.hold(due);
        self.arrived.push_back((due, bytes));
    }

    /// Gives the reader the data that may be read now.
    fn give(&mut self, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        if let Some(left) = self.fabric.hosts[self.me].frozen() {
            self.doze(left, context);
            return Poll::Pending;
        }
        let me = self.me;
        let Some((connection, end)) = self.connection() else {
            return Poll::Pending;
        };
        let from = connection.ends[1 - end];
        connection.wait(end, context.waker());
        if !self.fabric.reaches(from, me) {
            return Poll::Pending;
        }
        let Some((due, bytes)) = self.arrived.front_mut() else {
            return if self.over {
                Poll::Ready(Ok(()))
            } else {
                Poll::Pending
            };
        };
        if *due > now() {
            let left = Duration::from_nanos(*due - now());
            self.doze(left, context);
            return Poll::Pending;
        }
        let len = bytes.len().min(buffer.remaining());
        buffer.put_slice(&bytes[..len]);
        self.fabric.delivered(Delivery {
            from,
            to: me,
            bytes: &bytes[..len],
            is_message: bytes.get(3) == Some(&0),
        });
        bytes.advance(len);
        if bytes.is_empty() {
            self.arrived.pop_front();
        }
        Poll::Ready(Ok(()))
    }

    /// Decides whether a write may go on: `true` if it is sent, `false` if it is silently dropped.
    fn writes(&mut self, context: &mut Context<'_>) -> Poll<Result<bool>> {
        match self.broken() {
            Some(Poll::Ready(error)) => return Poll::Ready(Err(error)),
            Some(Poll::Pending) => return Poll::Ready(Ok(false)),
            None => {}
        }
        if let Some(left) = self.fabric.hosts[self.me].frozen() {
            self.doze(left, context);
            return Poll::Pending;
        }
        Poll::Ready(Ok(true))
    }
}

impl AsyncRead for Pipe {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        match self.broken() {
            Some(broken) => {
                if let (Poll::Pending, Some((connection, end))) = (&broken, self.connection()) {
                    connection.wait(end, context.waker());
                }
                broken.map(Err)
            }
            None => {
                self.take_in(context)?;
                self.give(context, buffer)
            }
        }
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize>> {
        match ready!(self.writes(context))? {
            true => Pin::new(&mut self.socket).poll_write(context, bytes),
            false => Poll::Ready(Ok(bytes.len())),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        match ready!(self.writes(context))? {
            true => Pin::new(&mut self.socket).poll_flush(context),
            false => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        match ready!(self.writes(context))? {
            true => Pin::new(&mut self.socket).poll_shutdown(context),
            false => Poll::Ready(Ok(())),
        }
    }
}

/// No code asks for the peer's address: the fabric knows both ends.
impl Connected for Pipe {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

impl Drop for Pipe {
    fn drop(&mut self) {
        // The listener looks the connection up by the opener's entry, so only the opener's end removes it.
        if let Some(connection) = self.connection.take()
            && connection.ends[0] == self.me
            && self.over
        {
            self.fabric.forget(&connection);
        }
    }
}
