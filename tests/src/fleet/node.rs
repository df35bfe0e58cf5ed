//! One process of the cluster.

use super::http::{figure, get};
use aliquot_coordinator::demo::supervisor::ReservedPort;
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, prlimit};
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

/// The variable that sets the wall clock of the program under test ahead, in seconds.
pub const WALL_CLOCK_AHEAD: &str = "UNDER_TEST_WALL_CLOCK_AHEAD";

/// One process of the cluster, with its addresses.
#[derive(Debug)]
pub struct Node {
    /// Its index among the nodes.
    pub index: usize,
    /// Its address for clients and operators, possibly a proxy's.
    pub client: String,
    /// Its address for other nodes, possibly a proxy's.
    pub peer: String,
    /// The address on which it listens to clients itself.
    pub listen: String,
    /// The address on which it listens to other nodes itself.
    pub peer_listen: String,
    /// The address of its metrics.
    pub metrics_listen: String,
    /// Its data directory.
    pub data: PathBuf,
    log: PathBuf,
    args: Vec<String>,
    before: Vec<String>,
    child: Option<Child>,
    _ports: [ReservedPort; 3],
}

/// The end of a process, and its log.
#[derive(Clone, Debug)]
pub struct End {
    /// Its exit.
    pub status: ExitStatus,
    /// Its log, of all its starts.
    pub log: String,
}

impl Node {
    pub(super) fn plan(index: usize, dir: &Path) -> Self {
        let ports = [(); 3].map(|()| ReservedPort::reserve().expect("there is a free port"));
        let [listen, peer_listen, metrics_listen] =
            ports.each_ref().map(|port| port.address().to_string());
        Self {
            index,
            client: listen.clone(),
            peer: peer_listen.clone(),
            listen,
            peer_listen,
            metrics_listen,
            data: dir.join(format!("data-{index}")),
            log: dir.join(format!("node-{index}.log")),
            args: Vec::new(),
            before: Vec::new(),
            child: None,
            _ports: ports,
        }
    }

    pub(super) fn tell(&mut self, cluster: &str, peers: &[String], flags: &[String]) {
        let data = self.data.display().to_string();
        let settings = [
            ("--cluster-id", cluster),
            ("--listen", &self.listen),
            ("--peer-listen", &self.peer_listen),
            ("--metrics-listen", &self.metrics_listen),
            ("--advertise", &self.client),
            ("--peer-advertise", &self.peer),
            ("--data-dir", &data),
        ];
        let mut args = vec!["serve".to_owned()];
        for (flag, value) in settings {
            args.extend([flag.to_owned(), value.to_owned()]);
        }
        for peer in peers {
            args.extend(["--cluster-peers".to_owned(), peer.clone()]);
        }
        args.extend_from_slice(flags);
        self.args = args;
    }

    /// Adds an argument for this node alone.
    pub fn flag(&mut self, flag: impl Into<String>) {
        self.args.push(flag.into());
    }

    /// Replaces the value of one of its flags.
    ///
    /// # Panics
    ///
    /// If it does not have the flag.
    pub fn instead(&mut self, flag: &str, value: &str) {
        let place = self.args.iter().position(|arg| arg == flag);
        let place = place.expect("a flag that the node was given");
        value.clone_into(&mut self.args[place + 1]);
    }

    /// Removes one of its flags with the value.
    ///
    /// # Panics
    ///
    /// If it does not have the flag.
    pub fn without(&mut self, flag: &str) {
        let place = self.args.iter().position(|arg| arg == flag);
        let place = place.expect("a flag that the node was given");
        self.args.drain(place..place + 2);
    }

    /// Runs the node under another program, which gets the node's command line as its
    /// last arguments and replaces itself with the node.
    pub fn under(&mut self, words: &[&str]) {
        self.before = words.iter().map(|word| (*word).to_owned()).collect();
    }

    /// Lets it see a wall clock that is ahead of the machine's, from its next start on.
    pub fn wall_clock_ahead(&mut self, seconds: i64) {
        self.under(&["env", &format!("{WALL_CLOCK_AHEAD}={seconds}")]);
    }

    pub(super) fn start(&mut self, program: &Path) {
        assert!(self.child.is_none(), "node {} runs already", self.index);
        let log = OpenOptions::new().create(true).append(true).open(&self.log);
        let log = log.expect("the log of a node can be opened");
        let mut command = match self.before.split_first() {
            Some((first, rest)) => {
                let mut command = Command::new(first);
                command.args(rest).arg(program);
                command
            }
            None => Command::new(program),
        };
        // The environment of the test run must not change the results.
        let variables = std::env::vars_os().map(|(name, _)| name);
        for name in variables.filter(|name| name.to_string_lossy().starts_with("ALIQUOT_")) {
            command.env_remove(name);
        }
        command.args(&self.args).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(log);
        self.child = Some(command.spawn().expect("a node can be started"));
    }

    /// Returns true if it was started and has not ended.
    #[must_use]
    pub fn runs(&self) -> bool {
        self.child.is_some()
    }

    /// Returns the id of its process, if it runs.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    fn process(&self) -> Pid {
        let pid = self.pid().and_then(|pid| i32::try_from(pid).ok());
        pid.and_then(Pid::from_raw).expect("a node that runs")
    }

    pub(super) fn signal(&self, signal: Signal) {
        kill_process(self.process(), signal).expect("a child can be signalled");
    }

    pub(super) fn allow_files(&self, most: usize) {
        let limit = Rlimit {
            current: Some(most as u64),
            maximum: getrlimit(Resource::Nofile).maximum,
        };
        let allowed = prlimit(Some(self.process()), Resource::Nofile, limit);
        allowed.expect("a child can be limited");
    }

    pub(super) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // A process that ended by itself cannot be killed, and need not be.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Returns how it ended, once it has.
    ///
    /// # Panics
    ///
    /// If its state cannot be read.
    pub fn end(&mut self) -> Option<End> {
        let child = self.child.as_mut()?;
        let status = child.try_wait().expect("a child can be waited for")?;
        self.child = None;
        let log = self.log();
        Some(End { status, log })
    }

    /// Deletes its data directory.
    ///
    /// # Panics
    ///
    /// If it runs, or has no data directory.
    pub fn wipe(&self) {
        assert!(!self.runs(), "node {} runs", self.index);
        std::fs::remove_dir_all(&self.data).expect("the data of a node can be removed");
    }

    /// Returns its log, of all its starts.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Returns the number of its open files, where the system has it.
    #[must_use]
    pub fn open_files(&self) -> Option<usize> {
        let open = std::fs::read_dir(format!("/proc/{}/fd", self.pid()?));
        Some(open.ok()?.count())
    }

    /// Returns true if its probe says that it serves clients.
    pub async fn is_ready(&self) -> bool {
        let answer = get(&self.metrics_listen, "/readyz").await;
        matches!(answer, Some((200, _)))
    }

    /// Returns its metrics as Prometheus reads them; `None` if it does not answer.
    pub async fn metrics(&self) -> Option<String> {
        let (_, text) = get(&self.metrics_listen, "/metrics").await?;
        Some(text)
    }

    /// Returns a figure of its metrics; `None` if it does not answer or has no such figure.
    pub async fn figure(&self, name: &str) -> Option<f64> {
        figure(&self.metrics_listen, name).await
    }

    /// Prints the end of its log, for the reader of a failed test.
    pub(super) fn show_log(&self) {
        const LINES: usize = 40;
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        let tail = lines[lines.len().saturating_sub(LINES)..].join("\n");
        // An error of this output cannot be reported anywhere.
        let _ = writeln!(
            std::io::stderr(),
            "---- node {}, {}\n{tail}",
            self.index,
            self.client
        );
    }
}
