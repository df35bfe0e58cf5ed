//! The process at the other end of a connection on this machine.

use std::fs;

/// An end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Who {
    /// A node, by its index.
    Node(usize),
    /// Any other process: a client or an operator.
    Outside,
}

impl Who {
    /// Finds the process whose socket has this local port, among the nodes' processes.
    pub(super) fn behind(port: u16, pids: &[Option<u32>]) -> Self {
        let Some(inode) = inode_of(port) else {
            return Self::Outside;
        };
        let link = format!("socket:[{inode}]");
        let place = pids
            .iter()
            .position(|pid| pid.is_some_and(|pid| has(pid, &link)));
        place.map_or(Self::Outside, Self::Node)
    }
}

/// Returns the inode of the connected socket with this local port.
fn inode_of(port: u16) -> Option<String> {
    let local = format!(":{port:04X}");
    let table = fs::read_to_string("/proc/net/tcp").ok()?;
    table.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let inode = *fields.get(9)?;
        (fields.get(1)?.ends_with(&local) && inode != "0").then(|| inode.to_owned())
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
