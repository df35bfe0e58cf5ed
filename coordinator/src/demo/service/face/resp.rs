//! Commands to the Redis face.

use crate::demo::service::failover::Failure;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// Connections to one Redis face. Each has one command at a time.
#[derive(Debug)]
pub(super) struct Line {
    address: SocketAddr,
    idle: Mutex<Vec<BufReader<TcpStream>>>,
}

impl Line {
    pub(super) fn new(address: SocketAddr) -> Self {
        Self {
            address,
            idle: Mutex::new(Vec::new()),
        }
    }

    pub(super) async fn admits(&self, key: &str, cost: u64) -> Result<bool, Failure> {
        let admitted = self.ask(key, cost).await;
        admitted.map_err(|error| match error.kind() {
            ErrorKind::Other => Failure::Undecided(error.to_string()),
            _ => Failure::Unreachable(error.to_string()),
        })
    }

    /// Asks on a connection. An error of the kind `Other` is an answer.
    async fn ask(&self, key: &str, cost: u64) -> io::Result<bool> {
        let idle = self.idle().pop();
        let mut stream = match idle {
            Some(stream) => stream,
            None => self.connect().await?,
        };
        let admitted = throttle(&mut stream, key, cost).await;
        match &admitted {
            Ok(_) => self.idle().push(stream),
            Err(error) if error.kind() == ErrorKind::Other => self.idle().push(stream),
            // The others are of the same process, which is gone.
            Err(_) => self.idle().clear(),
        }
        admitted
    }

    async fn connect(&self) -> io::Result<BufReader<TcpStream>> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        Ok(BufReader::new(stream))
    }

    fn idle(&self) -> MutexGuard<'_, Vec<BufReader<TcpStream>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Limit that the command must name. Without a rule with `{limit}`, the face takes that of the budget.
const NAMED: [&str; 3] = ["15", "30", "60"];

async fn throttle(stream: &mut BufReader<TcpStream>, key: &str, cost: u64) -> io::Result<bool> {
    let [burst, count, period] = NAMED;
    let cost = cost.to_string();
    let parts = ["CL.THROTTLE", key, burst, count, period, &cost];
    let mut command = format!("*{}\r\n", parts.len());
    for part in parts {
        command.push_str(&format!("${}\r\n{part}\r\n", part.len()));
    }
    stream.get_mut().write_all(command.as_bytes()).await?;
    let head = line(stream).await?;
    if head != "*5" {
        return Err(io::Error::other(head));
    }
    let limited = line(stream).await?;
    // Limit, remaining, retry after and reset after.
    for _ in 1..5 {
        line(stream).await?;
    }
    match limited.as_str() {
        ":0" => Ok(true),
        ":1" => Ok(false),
        _ => Err(io::Error::other(limited)),
    }
}

/// Reads a line, without its end.
async fn line(stream: &mut BufReader<TcpStream>) -> io::Result<String> {
    let mut line = String::new();
    match stream.read_line(&mut line).await? {
        0 => Err(ErrorKind::UnexpectedEof.into()),
        _ => Ok(line.trim_end().to_owned()),
    }
}
