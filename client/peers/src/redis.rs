//! A GCRA script in a Redis server of its own, over the loopback.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// GCRA with the server's clock: the value of the key is the TAT.
pub const SCRIPT: &str = "\
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local tat = math.max(tonumber(redis.call('GET', KEYS[1]) or now), now) + ARGV[1]
if tat - now > ARGV[1] * ARGV[2] then return 0 end
redis.call('SET', KEYS[1], string.format('%.0f', tat), 'PX', math.ceil((tat - now) / 1000) + 1)
return 1";

/// A server that ends when this is dropped, and a connection to it.
pub struct Redis {
    server: Child,
    stream: BufReader<TcpStream>,
    sha: String,
}

impl Redis {
    /// Starts a server; `None` if there is no `redis-server`.
    pub fn start() -> Option<Self> {
        let free = TcpListener::bind("127.0.0.1:0").ok()?.local_addr().ok()?;
        let server = Command::new("redis-server")
            .args([
                "--port",
                &free.port().to_string(),
                "--save",
                "",
                "--appendonly",
                "no",
            ])
            .stdout(Stdio::null())
            .spawn()
            .ok()?;
        let stream = (0..500).find_map(|_| {
            std::thread::park_timeout(Duration::from_millis(10));
            TcpStream::connect(free).ok()
        })?;
        stream.set_nodelay(true).ok()?;
        let mut redis = Self {
            server,
            stream: BufReader::new(stream),
            sha: String::new(),
        };
        redis.send(&["SCRIPT", "LOAD", SCRIPT], 1);
        redis.sha = redis.answer();
        Some(redis)
    }

    fn send(&mut self, words: &[&str], times: usize) {
        let mut text = format!("*{}\r\n", words.len());
        for word in words {
            text += &format!("${}\r\n{word}\r\n", word.len());
        }
        let text = text.repeat(times);
        self.stream
            .get_mut()
            .write_all(text.as_bytes())
            .expect("it listens");
    }

    /// Reads one answer: a number, or a text.
    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).expect("it answers");
        let (kind, rest) = line.trim_end().split_at(1);
        match kind {
            ":" => rest.to_owned(),
            "$" => {
                let mut bytes = vec![0; rest.parse::<usize>().expect("a length") + 2];
                self.stream.read_exact(&mut bytes).expect("so many bytes");
                String::from_utf8_lossy(&bytes).trim_end().to_owned()
            }
            _ => panic!("Redis: {line}"),
        }
    }

    /// Sends `times` requests at once. Returns how many were admitted, with a limit of one per microsecond
    /// and a burst of a million.
    pub fn ask(&mut self, times: usize) -> usize {
        let sha = std::mem::take(&mut self.sha);
        self.send(&["EVALSHA", &sha, "1", "a", "1", "1000000"], times);
        self.sha = sha;
        (0..times).filter(|_| self.answer() == "1").count()
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
