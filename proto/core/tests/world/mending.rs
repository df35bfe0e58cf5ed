//! The end of faults, and of the last of them.

use super::clock::{MS, SEC, quantised};
use super::{Event, World};

/// The end of a fault.
#[derive(Clone, Debug)]
pub(crate) enum Mending {
    StartNode(usize),
    StartClient(usize),
    Links(Vec<(usize, usize)>),
    Loss(u64),
    Late(u64),
    /// The second half of a leader's fault `Adrift`.
    Adrift {
        node: usize,
        span: u64,
    },
    Limit,
}

impl World {
    /// Four election timeouts at their longest: time for a vote to be split twice.
    const ELECTED: u64 = 2 * SEC;

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
        }
    }

    pub(super) fn mend_after(&mut self, span: u64, mending: Mending) {
        let at = quantised(self.now + span);
        self.lasts = self.lasts.max(at);
        self.at(at, Event::Mend(mending));
    }

    /// Runs until no fault lasts: all hosts are up, every link works, and late messages have arrived.
    pub(super) fn run_storm(&mut self) -> Option<()> {
        self.lasts = self.lasts.max(self.plan.faults_to);
        while self.now < self.lasts {
            self.run_until(quantised(self.lasts))?;
        }
        self.trap = false;
        (self.net.slow_log, self.net.open) = (0, Default::default());
        self.limit(100);
        self.load.shift(&self.plan, &mut self.rng, true);
        // Of R, measured in true time, a slow clock cannot give 99 %.
        self.tune_clocks(self.plan.rho.min(1_000));
        Some(())
    }

    /// Returns the time at which the last fault was over. A missing leader is an effect of losing one, so
    /// that lasts until the next one is ready. Every election that faults caused ends within
    /// [`Self::ELECTED`] of the last of them, and a leader that becomes ready later is not caused by them.
    pub(super) fn run_to_last_fault(&mut self) -> Option<u64> {
        let calm = self.now;
        self.run_until(calm + Self::ELECTED)?;
        Some(self.ready_since.max(calm))
    }
}
