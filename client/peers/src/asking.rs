//! One load generator for all servers: connections that each keep a number of requests in flight.

use aliquot_client::Clock;
use aliquot_client::clock::{HostClock, Span, Tick};
use bytes::{Buf, BufMut};
use std::path::PathBuf;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::JoinSet;
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};

/// Number of keys that are asked for in turn.
pub const KEYS: u64 = 1_000;

/// Protocol and address of a server, and the requests that it gets.
#[derive(Clone)]
pub enum Way {
    /// A line of RESP for each key, and the number of lines of a reply.
    Resp(u16, fn(u64) -> String, usize),
    /// The target and the body for each key.
    Http(u16, &'static str, fn(u64) -> String),
    /// The same through a Unix socket.
    HttpUnix(PathBuf, &'static str, fn(u64) -> String),
    /// The path of a unary call, and the bytes of its message for each key.
    Grpc(u16, &'static str, fn(u64) -> Vec<u8>),
}

/// The answers to a load.
#[derive(Default)]
pub struct LoadAnswers {
    pub count: u64,
    /// Time of each answer in microseconds, where one request was in flight on a connection.
    pub micros: Vec<u32>,
}

/// Asks for a while.
pub async fn ask(
    way: &Way,
    connections: u64,
    in_flight: u64,
    during: Duration,
) -> Result<LoadAnswers, String> {
    let until = HostClock
        .now()
        .after(Span::from_nanos(during.as_nanos() as u64));
    let mut tasks = JoinSet::new();
    for connection in 0..connections {
        let way = way.clone();
        tasks.spawn(async move { one(&way, connection, in_flight, until).await });
    }
    let mut all = LoadAnswers::default();
    while let Some(answers) = tasks.join_next().await {
        let answers = answers.map_err(|error| error.to_string())??;
        all.count += answers.count;
        all.micros.extend(answers.micros);
    }
    Ok(all)
}

async fn one(way: &Way, connection: u64, in_flight: u64, until: Tick) -> Result<LoadAnswers, String> {
    let failed = |error: std::io::Error| error.to_string();
    match way {
        Way::Resp(port, request, lines) => {
            let stream = connect(*port).await.map_err(failed)?;
            let request = |number| request(number).into_bytes();
            let whole = |bytes: &[u8]| lines_of(bytes, *lines);
            exchange(stream, request, whole, (connection, in_flight, until))
                .await
                .map_err(failed)
        }
        Way::Http(port, target, body) => {
            let stream = connect(*port).await.map_err(failed)?;
            let request = |number| post(target, &body(number));
            exchange(stream, request, response, (connection, in_flight, until))
                .await
                .map_err(failed)
        }
        Way::HttpUnix(path, target, body) => {
            let stream = UnixStream::connect(path).await.map_err(failed)?;
            let request = |number| post(target, &body(number));
            exchange(stream, request, response, (connection, in_flight, until))
                .await
                .map_err(failed)
        }
        Way::Grpc(port, path, message) => {
            let endpoint = Endpoint::from_shared(format!("http://127.0.0.1:{port}"));
            let endpoint = endpoint.map_err(|error| error.to_string())?;
            let channel = endpoint
                .connect()
                .await
                .map_err(|error| error.to_string())?;
            let mut tasks = JoinSet::new();
            for stream in 0..in_flight {
                let (channel, message, path) = (channel.clone(), *message, *path);
                let first = connection * in_flight + stream;
                tasks.spawn(async move { calls(channel, path, message, first, until).await });
            }
            let mut all = LoadAnswers::default();
            while let Some(answers) = tasks.join_next().await {
                let answers = answers.map_err(|error| error.to_string())??;
                all.count += answers.count;
                all.micros.extend(answers.micros);
            }
            Ok(all)
        }
    }
}

async fn connect(port: u16) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect(("127.0.0.1", port)).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

fn post(target: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    let head = "Host: a\r\nContent-Type: application/json";
    format!("POST {target} HTTP/1.1\r\n{head}\r\nContent-Length: {length}\r\n\r\n{body}")
        .into_bytes()
}

fn micros_since(began: Tick) -> u32 {
    (HostClock.now().since(began).nanos() / 1_000) as u32
}

/// Returns the length of the first reply of RESP if it is whole.
fn lines_of(bytes: &[u8], lines: usize) -> Option<usize> {
    assert_ne!(bytes.first(), Some(&b'-'), "{}", bytes.escape_ascii());
    let mut ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
    ends.nth(lines - 1).map(|(end, _)| end + 1)
}

/// Returns the length of the first response of HTTP if it is whole.
fn response(bytes: &[u8]) -> Option<usize> {
    let end = bytes.windows(4).position(|part| part == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&bytes[..end])
        .expect("a head of text")
        .to_ascii_lowercase();
    assert!(head.starts_with("http/1.1 200"), "{head}");
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    let length: usize = length
        .and_then(|length| length.parse().ok())
        .expect("a length");
    (bytes.len() >= end + 4 + length).then_some(end + 4 + length)
}

/// Keeps requests in flight on a connection, and counts the replies.
async fn exchange(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    request: impl Fn(u64) -> Vec<u8>,
    whole: impl Fn(&[u8]) -> Option<usize>,
    (connection, in_flight, until): (u64, u64, Tick),
) -> std::io::Result<LoadAnswers> {
    let (mut number, mut answers) = (connection * 37, LoadAnswers::default());
    let mut input = Vec::with_capacity(1 << 16);
    while HostClock.now() < until {
        let mut output = Vec::new();
        for _ in 0..in_flight {
            output.extend(request(number % KEYS));
            number += 1;
        }
        let began = HostClock.now();
        stream.write_all(&output).await?;
        let mut left = in_flight;
        while left > 0 {
            if stream.read_buf(&mut input).await? == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            while let Some(length) = whole(&input) {
                input.drain(..length);
                left -= 1;
            }
        }
        answers.count += in_flight;
        if in_flight == 1 {
            answers.micros.push(micros_since(began));
        }
    }
    Ok(answers)
}

async fn calls(
    channel: Channel,
    path: &'static str,
    message: fn(u64) -> Vec<u8>,
    first: u64,
    until: Tick,
) -> Result<LoadAnswers, String> {
    let (mut number, mut answers) = (first * 37, LoadAnswers::default());
    let mut grpc = Grpc::new(channel);
    while HostClock.now() < until {
        let began = HostClock.now();
        grpc.ready().await.map_err(|error| error.to_string())?;
        let request = tonic::Request::new(message(number % KEYS));
        let answer = grpc
            .unary(request, PathAndQuery::from_static(path), Raw)
            .await;
        answer.map_err(|status| status.to_string())?;
        answers.count += 1;
        answers.micros.push(micros_since(began));
        number += 1;
    }
    Ok(answers)
}

/// Messages as bytes. Answers are not read.
#[derive(Clone, Copy, Debug)]
struct Raw;

impl Codec for Raw {
    type Encode = Vec<u8>;
    type Decode = ();
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Vec<u8>;
    type Error = tonic::Status;

    fn encode(&mut self, item: Vec<u8>, to: &mut EncodeBuf<'_>) -> Result<(), tonic::Status> {
        to.put_slice(&item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = ();
    type Error = tonic::Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<()>, tonic::Status> {
        from.advance(from.remaining());
        Ok(Some(()))
    }
}
