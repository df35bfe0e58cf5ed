//! Recovers from faults.

use super::World;
use super::clock::quantised;

impl World {
    pub(super) fn recover(&mut self, index: usize) {
        let Some(affected) = self.active.remove(&index) else {
            return;
        };
        let fault = self.plan.faults[index].clone();
        self.show("over", affected.first().copied(), || fault.kind.to_owned());
        self.net.recover(index as u64);
        if fault.kind == "budget_delete" {
            self.change_budget(&fault);
        }
        let now = self.now;
        for host in affected {
            match fault.kind {
                "crash" | "restart" | "client_churn" if self.process(host).is_none() => {
                    match self.hosts.is_node(host) {
                        true if self.nodes[host].departs => {}
                        true => self.start_node(host),
                        false => self.start_service(host - self.hosts.nodes),
                    }
                }
                "suspend" => self.clock_mut(host).wake(now),
                "vm_pause" => {
                    let paused = quantised(fault.lasts);
                    self.clock_mut(host).thaw(now, paused);
                }
                "clock_rate" => {
                    let usual = self.clock_mut(host).usual();
                    self.clock_mut(host).run_at(now, usual);
                }
                "store_error" => self.nodes[host].log.broken = false,
                "clone_client" => {
                    self.crash(host);
                }
                _ => {}
            }
        }
    }

    /// Ends the safety phase: recovers all active faults. Pauses are left to end by themselves.
    pub(super) fn calm(&mut self) {
        let lasting: Vec<usize> = self.active.keys().copied().collect();
        for index in lasting {
            let pauses = matches!(
                self.plan.faults[index].kind,
                "pause" | "suspend" | "vm_pause"
            );
            if !pauses {
                self.recover(index);
            }
        }
    }
}
