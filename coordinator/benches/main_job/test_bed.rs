//! A cluster of real processes, and measurements of them.

use crate::Failed;
use aliquot_client::clock::{HostClock, Span, Tick};
use aliquot_client::{Client, Clock};
use aliquot_coordinator::demo::cluster::{NODES, Nodes};
use aliquot_coordinator::demo::supervisor::{Supervisor, parent_args};
use aliquot_core::budget::{BudgetDraft, Written};
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Maximum time for a condition that should take a moment.
const SOON: Duration = Duration::from_secs(30);

/// Three nodes.
pub(crate) struct TestBed {
    pub(crate) nodes: Nodes,
    supervisor: Supervisor,
    flags: Vec<OsString>,
    /// Removed after the nodes have ended: fields are dropped in this order.
    dir: TempDir,
}

/// Resources that a process has used since it started.
#[derive(Clone, Copy)]
pub(crate) struct Used {
    at: Tick,
    cpu: Span,
}

impl TestBed {
    /// Starts a cluster with these budgets, and waits until it serves clients.
    pub(crate) async fn start(budgets: &[BudgetDraft]) -> Result<Self, Failed> {
        Self::start_with(budgets, &[]).await
    }

    /// Does the same with additional flags for each node.
    pub(crate) async fn start_with(
        budgets: &[BudgetDraft],
        flags: &[&str],
    ) -> Result<Self, Failed> {
        let dir = tempfile::tempdir()?;
        let program = env!("CARGO_BIN_EXE_aliquot").into();
        let supervisor = Supervisor::new(dir.path().to_owned(), program, parent_args());
        let mut bed = Self {
            nodes: Nodes::plan()?,
            supervisor,
            flags: flags.iter().map(|flag| (*flag).into()).collect(),
            dir,
        };
        for index in 0..NODES {
            bed.start_node(index)?;
        }
        bed.serves().await?;
        bed.nodes.apply(budgets).await?;
        Ok(bed)
    }

    /// Starts a node with its existing data.
    pub(crate) fn start_node(&mut self, index: usize) -> Result<(), Failed> {
        let node = &self.nodes.list()[index];
        Ok(self
            .nodes
            .start_with(node, &mut self.supervisor, &self.flags)?)
    }

    /// Kills a node without a warning.
    pub(crate) async fn kill(&mut self, index: usize) -> Result<(), Failed> {
        let name = &self.nodes.list()[index].name;
        Ok(self.supervisor.kill(name).await?)
    }

    /// Returns the directory of its files.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Waits until all nodes serve clients under one leader.
    pub(crate) async fn serves(&self) -> io::Result<()> {
        until("all nodes serve", async || {
            let mut ready = self.nodes.look().await.leader.is_some();
            for index in 0..NODES {
                ready &= self.figure(index, "aliquot_ready").await == Some(1.0);
            }
            ready
        })
        .await
    }

    /// Returns the index of the leader.
    pub(crate) async fn leader(&self) -> io::Result<usize> {
        let mut found = None;
        until("a leader is known", async || {
            found = self.nodes.look().await.leader;
            found.is_some()
        })
        .await?;
        found.ok_or_else(|| io::Error::other("no leader"))
    }

    /// Returns the address of a node for clients.
    pub(crate) fn address(&self, index: usize) -> String {
        self.nodes.list()[index].listen.to_string()
    }

    /// Returns the addresses of all nodes for clients.
    pub(crate) fn addresses(&self) -> Vec<String> {
        (0..NODES).map(|index| self.address(index)).collect()
    }

    /// Creates a client that has a lease from one of these nodes.
    pub(crate) async fn client(
        &self,
        addresses: impl IntoIterator<Item = String>,
    ) -> Result<Client, Failed> {
        let client = Client::connect(addresses)?;
        until("the client has a lease", async || {
            !client.status().lease.is_zero()
        })
        .await?;
        Ok(client)
    }

    /// Reads a figure from a node's metrics.
    pub(crate) async fn figure(&self, index: usize, name: &str) -> Option<f64> {
        figure_at(&self.nodes.list()[index].metrics_listen.to_string(), name).await
    }

    /// Returns the number of entries that a node has applied.
    pub(crate) async fn entries(&self, index: usize) -> f64 {
        let entries = self.figure(index, "aliquot_applied_entries_total").await;
        entries.unwrap_or(f64::NAN)
    }

    fn proc(&self, index: usize, file: &str) -> io::Result<String> {
        let name = &self.nodes.list()[index].name;
        let id = self.supervisor.id(name);
        let id = id.ok_or_else(|| io::Error::other(format!("{name} does not run")))?;
        std::fs::read_to_string(format!("/proc/{id}/{file}"))
    }

    /// Returns the processor time that a node has used.
    pub(crate) fn used(&self, index: usize) -> io::Result<Used> {
        Ok(Used {
            at: now(),
            cpu: cpu_of(&self.proc(index, "stat")?),
        })
    }

    /// Returns the resident memory of a node in bytes.
    pub(crate) fn resident(&self, index: usize) -> io::Result<f64> {
        let status = self.proc(index, "status")?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib: Option<f64> = line.and_then(|line| line.trim().split(' ').next()?.parse().ok());
        Ok(kib.unwrap_or(f64::NAN) * 1024.0)
    }
}

impl Used {
    /// Returns the average number of cores in use between two readings: 0.02 is 2 % of one core.
    pub(crate) fn cores_until(self, later: Self) -> f64 {
        let (cpu, passed) = (later.cpu.minus_or_zero(self.cpu), later.at.since(self.at));
        cpu.nanos() as f64 / passed.nanos().max(1) as f64
    }
}

/// Returns the processor time that this process has used.
pub(crate) fn own_use() -> io::Result<Used> {
    Ok(Used {
        at: now(),
        cpu: cpu_of(&std::fs::read_to_string("/proc/self/stat")?),
    })
}

/// Returns the user and system time from the fields of proc(5) after the name in parentheses. They are
/// in hundredths of a second, whatever the kernel's own tick is.
fn cpu_of(stat: &str) -> Span {
    const HUNDREDTH: Span = Span::from_millis(10);
    let rest = stat.rsplit(") ").next().unwrap_or_default();
    let fields = rest.split(' ').skip(11).take(2);
    let ticks = fields.filter_map(|field| field.parse::<u64>().ok()).sum();
    HUNDREDTH.times_or_max(ticks)
}

/// Returns the time of the clock that clients also use for their decisions.
pub(crate) fn now() -> Tick {
    HostClock.now()
}

/// Returns a rate budget.
pub(crate) fn rate(key: &str, per_second: u64, burst: u64) -> BudgetDraft {
    BudgetDraft {
        key: key.to_owned(),
        rate: Some(format!("{per_second}/s").into()),
        burst: Some(Written::Whole(burst)),
        ..BudgetDraft::default()
    }
}

/// Waits for a condition.
pub(crate) async fn until(what: &str, mut look: impl AsyncFnMut() -> bool) -> io::Result<()> {
    let looking = async {
        while !look().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let waited = tokio::time::timeout(SOON, looking).await;
    waited.map_err(|_| io::Error::other(format!("not within {SOON:?}: {what}")))
}

/// Waits for the time over which something is measured.
pub(crate) async fn pass(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis)).await;
}

/// Reads a figure from the metrics at an address.
pub(crate) async fn figure_at(address: &str, name: &str) -> Option<f64> {
    let text = get(address).await?;
    let mut lines = text.lines();
    let line = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    line.trim().parse().ok()
}

async fn get(address: &str) -> Option<String> {
    let ask = async {
        let mut stream = TcpStream::connect(address).await.ok()?;
        let request = format!("GET /metrics HTTP/1.0\r\nHost: {address}\r\n\r\n");
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.ok()?;
        Some(String::from_utf8_lossy(&answer).into_owned())
    };
    tokio::time::timeout(SOON, ask).await.ok()?
}
