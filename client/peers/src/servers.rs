//! Servers of rate limits in processes of their own, all on the first processor.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A process that is ended when this is dropped.
pub struct Server {
    child: Child,
}

/// Processor time of a process so far.
pub fn processor_time(pid: u32) -> Duration {
    /// The kernel counts a hundred of these in a second on every Linux.
    const TICK: Duration = Duration::from_millis(10);
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name of the program, in brackets, may contain spaces. User and system time are fields 14 and 15.
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let ticks = fields.split_whitespace().skip(11).take(2);
    let ticks: u32 = ticks.filter_map(|ticks| ticks.parse::<u32>().ok()).sum();
    TICK * ticks
}

/// Returns a port that was free a moment ago.
pub fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

impl Server {
    /// Starts a program on the first processor. Returns once it accepts connections on `port`.
    pub fn start(
        program: &Path,
        args: &[String],
        env: &[(&str, String)],
        port: u16,
    ) -> Result<Self, String> {
        let mut command = Command::new("taskset");
        command.args(["-c", "0"]).arg(program).args(args);
        command.envs(env.iter().map(|(name, value)| (name, value)));
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let server = Self {
            child: child.map_err(|error| format!("taskset: {error}"))?,
        };
        for _ in 0..1_000 {
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return Ok(server);
            }
            std::thread::park_timeout(Duration::from_millis(10));
        }
        Err(format!("{} does not listen", program.display()))
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A node of this tree with all its faces, an agent on a Unix socket, and its Envoy rate limit service.
pub struct Aliquot {
    pub node: Server,
    pub agent: Server,
    pub rls: Server,
    pub http: u16,
    pub grpc: u16,
    pub redis: u16,
    pub rls_port: u16,
    pub agent_socket: PathBuf,
}

impl Aliquot {
    pub fn start(program: &Path, dir: &Path) -> Result<Self, String> {
        let mut ports = [0; 6];
        for port in &mut ports {
            *port = free_port().map_err(|error| error.to_string())?;
        }
        let [clients, http, grpc, redis, rls_port, agent_port] = ports;
        let peers = free_port().map_err(|error| error.to_string())?;
        let node = [
            ("--listen", at(clients)),
            ("--peer-listen", at(peers)),
            ("--metrics-listen", "off".to_owned()),
            ("--faces-http-listen", at(http)),
            ("--faces-grpc-listen", at(grpc)),
            ("--faces-redis-listen", at(redis)),
            ("--data-dir", dir.join("data").display().to_string()),
        ];
        let flags = |(flag, value): (&str, String)| [flag.to_owned(), value];
        let mut args = vec!["serve".to_owned()];
        args.extend(node.into_iter().flat_map(flags));
        let node = Server::start(program, &args, &[], redis)?;
        let budgets = dir.join("budgets.yaml");
        write(
            &budgets,
            "- { key: bench/*, rate: 1000000/s, burst: 1000000 }\n",
        )?;
        let file = budgets.display().to_string();
        run(
            program,
            &["budget", "apply", &file, "--endpoint", &at(clients)],
        )?;
        let socket = dir.join("agent.sock");
        let agent = [
            ("--endpoint", at(clients)),
            ("--faces-http-listen", format!("unix:{}", socket.display())),
            ("--faces-redis-listen", at(agent_port)),
        ];
        let mut args = vec!["agent".to_owned()];
        args.extend(agent.into_iter().flat_map(flags));
        let agent = Server::start(program, &args, &[], agent_port)?;
        Ok(Self {
            node,
            agent,
            rls: rls(program, dir, clients, rls_port)?,
            http,
            grpc,
            redis,
            rls_port,
            agent_socket: socket,
        })
    }
}

fn at(port: u16) -> String {
    format!("127.0.0.1:{port}")
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

/// Starts Envoy's rate limit service for a node.
fn rls(program: &Path, dir: &Path, node: u16, port: u16) -> Result<Server, String> {
    let rules = dir.join("config");
    std::fs::create_dir_all(&rules).map_err(|error| error.to_string())?;
    let text = "domain: bench\ndescriptors:\n  - key: key\n    rate_limit: { unit: second, requests_per_unit: 1000000 }\n";
    write(&rules.join("bench.yaml"), text)?;
    let mut ports = [0; 3];
    for port in &mut ports {
        *port = free_port().map_err(|error| error.to_string())?;
    }
    let [health, debug, metrics] = ports;
    let env = [
        ("RUNTIME_ROOT", dir.display().to_string()),
        ("GRPC_PORT", port.to_string()),
        ("PORT", health.to_string()),
        ("DEBUG_PORT", debug.to_string()),
        ("PROMETHEUS_ADDR", at(metrics)),
    ];
    let args = ["rls", "--compat", "--endpoint", &at(node)].map(str::to_owned);
    Server::start(program, &args, &env, port)
}

/// Runs a command of the program until it succeeds: a node that has just started may not lead yet.
fn run(program: &Path, args: &[&str]) -> Result<(), String> {
    let mut message = String::new();
    for _ in 0..20 {
        let output = Command::new(program).args(args).output();
        let output = output.map_err(|error| error.to_string())?;
        if output.status.success() {
            return Ok(());
        }
        message = String::from_utf8_lossy(&output.stderr).into_owned();
        std::thread::park_timeout(Duration::from_millis(250));
    }
    Err(format!("{args:?}: {message}"))
}
