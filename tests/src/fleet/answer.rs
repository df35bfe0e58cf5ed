//! An operator's view of the cluster, through the command line.

use super::wait::until;
use super::{Fleet, SOON};
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::time::Duration;
use tokio::io::AsyncWriteExt;

/// The result of a command.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Its exit code; -1 if it was killed.
    pub code: i32,
    /// Its output; null if that is not JSON.
    pub json: Value,
    /// Its error output.
    pub message: String,
}

/// A node as the cluster knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its id.
    pub id: u64,
    /// `leader`, `voter`, `learner` or `removed`.
    pub role: String,
    /// Its address for other nodes.
    pub peer: String,
    /// Its clients' sessions.
    pub sessions: u64,
}

/// The cluster as one node knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterView {
    /// The term.
    pub term: u64,
    /// The leader's id, if that node knows it.
    pub leader: Option<u64>,
    /// All nodes.
    pub members: Vec<Member>,
}

/// Time after which a command is given up.
const WITHIN: Duration = Duration::from_secs(40);

/// An operator at a command line.
#[derive(Clone, Debug)]
pub struct Operator {
    program: PathBuf,
    endpoints: String,
}

impl Operator {
    /// Runs a command with JSON output and `input` on its standard input.
    ///
    /// # Panics
    ///
    /// If it cannot be run.
    pub async fn run(&self, words: &[&str], input: &str) -> Answer {
        let mut command = tokio::process::Command::new(&self.program);
        command
            .args(words)
            .args(["--json", "--endpoint", &self.endpoints]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().expect("the program can be run");
        let stdin = child.stdin.take();
        let mut stdin = stdin.expect("its standard input was asked for");
        // A command that reads no input may have ended already.
        let _ = stdin.write_all(input.as_bytes()).await;
        drop(stdin);
        let output = tokio::time::timeout(WITHIN, child.wait_with_output()).await;
        match output {
            Ok(output) => Answer::of(&output.expect("a command's output can be read")),
            Err(_) => Answer {
                code: -1,
                json: Value::Null,
                message: format!("no answer within {WITHIN:?}"),
            },
        }
    }
}

impl Fleet {
    /// Returns an operator who asks all nodes in turn.
    #[must_use]
    pub fn operator(&self) -> Operator {
        Operator {
            program: self.program().to_owned(),
            endpoints: self.addresses().join(","),
        }
    }

    /// Returns an operator who asks one node.
    ///
    /// # Panics
    ///
    /// If there is no such node.
    #[must_use]
    pub fn operator_at(&self, index: usize) -> Operator {
        Operator {
            program: self.program().to_owned(),
            endpoints: self.nodes()[index].client.clone(),
        }
    }

    /// Runs a command with JSON output that asks all nodes in turn.
    ///
    /// # Panics
    ///
    /// If it cannot be run.
    pub async fn cli(&self, words: &[&str]) -> Answer {
        self.operator().run(words, "").await
    }

    /// Writes budgets, in YAML.
    ///
    /// # Panics
    ///
    /// If they are refused, or no node accepts them.
    pub async fn apply(&self, budgets: &str) {
        let answer = self
            .operator()
            .run(&["budget", "apply", "-"], budgets)
            .await;
        assert_eq!(answer.code, 0, "{answer:?}");
    }

    /// Returns the cluster as one node knows it; `None` if the node does not answer.
    pub async fn view(&self, index: usize) -> Option<ClusterView> {
        let operator = self.operator_at(index);
        let asked = operator.run(&["cluster", "status"], "");
        let answer = tokio::time::timeout(Duration::from_secs(5), asked).await;
        answer.ok()?.view()
    }

    /// Waits until the running nodes agree on a leader, and returns it.
    ///
    /// # Panics
    ///
    /// If they do not within [`SOON`].
    pub async fn leader(&self) -> usize {
        self.leader_of(&self.running()).await
    }

    /// Waits until these nodes agree that one of them is the leader, and returns it.
    ///
    /// # Panics
    ///
    /// If they do not within [`SOON`].
    pub async fn leader_of(&self, nodes: &[usize]) -> usize {
        until("the nodes agree on a leader", SOON, async || {
            let mut known = Vec::new();
            for index in nodes {
                let view = self.view(*index).await?;
                known.push((view.term, view.leader?, view));
            }
            let (term, leader, view) = known.first()?;
            let agree = known.iter().all(|(t, l, _)| (t, l) == (term, leader));
            let member = view.members.iter().find(|member| member.id == *leader)?;
            let index = self
                .nodes()
                .iter()
                .position(|node| node.peer == member.peer)?;
            (agree && nodes.contains(&index)).then_some(index)
        })
        .await
    }

    /// Returns the running nodes.
    #[must_use]
    pub fn running(&self) -> Vec<usize> {
        let nodes = self.nodes().iter().filter(|node| node.runs());
        nodes.map(|node| node.index).collect()
    }
}

impl Answer {
    fn of(output: &Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            json: serde_json::from_slice(&output.stdout).unwrap_or_default(),
            message: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    fn view(&self) -> Option<ClusterView> {
        let members = self.json["nodes"].as_array()?.iter();
        let members = members.map(|node| Member {
            id: id(&node["node"]).unwrap_or_default(),
            role: node["role"].as_str().unwrap_or_default().to_owned(),
            peer: node["peer_address"].as_str().unwrap_or_default().to_owned(),
            sessions: node["sessions"].as_u64().unwrap_or_default(),
        });
        Some(ClusterView {
            term: self.json["term"].as_u64()?,
            leader: id(&self.json["leader"]),
            members: members.collect(),
        })
    }
}

/// Reads the id of a node.
fn id(value: &Value) -> Option<u64> {
    value.as_str()?.parse().ok()
}
