//! The process at the other end of a connection on this machine.

use std::fs;
use std::net::SocketAddr;
use std::time::Duration;

/// An end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Who {
    /// A node, by its index.
    Node(usize),
    /// Any other process: a client or an operator.
    Outside,
}

impl Who {
    /// Finds the process whose socket is connected from `from` to `to`, among the nodes' processes.
    ///
    /// A host with many connections uses a port for several of them, and may leave a socket out of its table while
    /// others come and go. So both ends must match, and the table is read again if it lacks the socket.
    pub(super) async fn behind(from: SocketAddr, to: SocketAddr, pids: &[Option<u32>]) -> Self {
        const TRIES: u32 = 100;
        let mut inode = None;
        for _ in 0..TRIES {
            inode = inode_of(from.port(), to.port());
            if inode.is_some() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let Some(inode) = inode else {
            return Self::Outside;
        };
        let link = format!("socket:[{inode}]");
        let place = pids
            .iter()
            .position(|pid| pid.is_some_and(|pid| has(pid, &link)));
        place.map_or(Self::Outside, Self::Node)
    }
}

/// Returns the inode of the connected socket with these ports.
fn inode_of(local: u16, remote: u16) -> Option<String> {
    let (local, remote) = (format!(":{local:04X}"), format!(":{remote:04X}"));
    let table = fs::read_to_string("/proc/net/tcp").ok()?;
    table.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let inode = *fields.get(9)?;
        let ends = fields.get(1)?.ends_with(&local) && fields.get(2)?.ends_with(&remote);
        (ends && inode != "0").then(|| inode.to_owned())
    })
}

fn has(pid: u32, link: &str) -> bool {
    let Ok(files) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        return false;
    };
    let mut links = files
        .flatten()
        .filter_map(|file| fs::read_link(file.path()).ok());
    links.any(|found| found.as_os_str() == link)
}
