//! A service in its own process, which can be killed.

use super::Fleet;
use super::load::now;
use aliquot_client::Client;
use aliquot_client::clock::Tick;
use rustix::process::{Pid, Signal, kill_process};
use std::io::Write;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;

/// A service in its own process, which sends requests and prints its admissions.
#[derive(Debug)]
pub struct Service {
    child: Child,
    admitted: Arc<Mutex<Vec<Tick>>>,
    listens: JoinHandle<()>,
}

impl Service {
    /// Returns the number of admissions so far.
    #[must_use]
    pub fn admitted(&self) -> Vec<Tick> {
        let admitted = self.admitted.lock();
        admitted.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sends it a signal.
    ///
    /// # Panics
    ///
    /// If it has ended.
    pub fn signal(&self, signal: Signal) {
        let pid = self.child.id().and_then(|pid| i32::try_from(pid).ok());
        let pid = pid.and_then(Pid::from_raw).expect("a service that runs");
        kill_process(pid, signal).expect("a child can be signalled");
    }

    /// Kills it and returns all its admissions.
    ///
    /// # Panics
    ///
    /// If it has ended by itself.
    pub async fn kill(mut self) -> Vec<Tick> {
        self.child.kill().await.expect("a service that runs");
        // Its earlier output is still in the pipe.
        let _ = (&mut self.listens).await;
        self.admitted()
    }
}

impl Fleet {
    /// Starts a service that asks for `key` `per_second` times a second.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    #[must_use]
    pub fn service(&self, key: &str, per_second: u32) -> Service {
        let mut command = Command::new(self.program());
        command.args(["ask", &self.addresses().join(","), key]);
        command.arg(per_second.to_string()).kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("a service can be started");
        let output = child.stdout.take();
        let mut output = BufReader::new(output.expect("its standard output was asked for")).lines();
        let admitted = Arc::new(Mutex::new(Vec::new()));
        let list = Arc::clone(&admitted);
        let listens = tokio::spawn(async move {
            while let Ok(Some(line)) = output.next_line().await {
                if let Ok(nanos) = line.parse() {
                    let mut list = list.lock().unwrap_or_else(PoisonError::into_inner);
                    list.push(Tick::from_nanos(nanos));
                }
            }
        });
        Service {
            child,
            admitted,
            listens,
        }
    }
}

/// Time between rounds of requests.
const ROUND: Duration = Duration::from_millis(4);

/// Runs the service itself: it sends requests for ever, and prints the time of each admission.
///
/// # Panics
///
/// If an argument is invalid.
pub fn ask_aloud(addresses: &str, key: &str, per_second: &str) {
    let per_second: u64 = per_second.parse().expect("a number of requests a second");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(async {
        let client = Client::connect(addresses.split(',')).expect("addresses");
        let limiter = client.limiter(key).expect("a key");
        let mut out = std::io::stdout();
        let (begun, mut asked) = (now(), 0);
        loop {
            tokio::time::sleep(ROUND).await;
            let due = now().since(begun).nanos() / 1_000 * per_second / 1_000_000;
            let mut lines = String::new();
            while asked < due {
                asked += 1;
                if let Ok(admission) = limiter.try_acquire(1) {
                    lines += &format!("{}\n", admission.decided_at.nanos());
                }
            }
            // The other end of the pipe is closed: the test is over.
            if out
                .write_all(lines.as_bytes())
                .and_then(|()| out.flush())
                .is_err()
            {
                return;
            }
        }
    });
}
