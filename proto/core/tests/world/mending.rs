//! How faults end.

use super::World;
use super::clock::MS;

/// How a fault ends.
#[derive(Clone, Debug)]
pub(crate) enum Mending {
    StartNode(usize),
    StartClient(usize),
    Links(Vec<(usize, usize)>),
    Loss(u64),
    Late(u64),
    /// The second half of a leader's going adrift.
    Adrift {
        node: usize,
        span: u64,
    },
    Limit,
    Calm,
}

impl World {
    pub(super) fn mend(&mut self, mending: Mending) {
        match mending {
            Mending::StartNode(node) => {
                let process = &mut self.nodes[node].process;
                process.up = true;
                process.number += 1;
                self.start_node(node);
            }
            Mending::StartClient(client) => {
                let process = &mut self.services[client].process;
                process.up = true;
                process.number += 1;
                self.start_service(client);
            }
            Mending::Links(links) => {
                for (from, to) in links {
                    self.net.mend(from, to);
                }
            }
            Mending::Loss(per_mille) => {
                self.net.loss -= per_mille;
                self.net.doubled -= per_mille;
            }
            Mending::Late(per_mille) => self.net.late -= per_mille,
            Mending::Adrift { node, span } => {
                self.net.adrift = None;
                self.isolate(node, span.saturating_sub(200 * MS));
            }
            Mending::Limit => {
                self.limit(100);
            }
            Mending::Calm => {
                self.load.shift(&self.plan, &mut self.rng, true);
                // Of R, measured in true time, a slow clock cannot give 99 %.
                self.tune_clocks(self.plan.rho.min(1_000));
            }
        }
    }
}
