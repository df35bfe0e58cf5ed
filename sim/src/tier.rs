//! Runs a seed on the tier that its scenario names.

use crate::plan::Plan;
use crate::scenario::Tier;
use crate::world::{Lived, Witness, World};

/// Observations in addition to the verdict, each of which costs time ("looks").
#[derive(Default)]
pub(crate) struct Looks {
    /// Receives everything that happens.
    pub(crate) witness: Option<Box<dyn Witness>>,
    /// If set, bytes of messages are counted where that costs time.
    pub(crate) bytes: bool,
}

pub(crate) fn live(plan: Plan, looks: Looks) -> Lived {
    match plan.scenario.run.tier {
        Tier::Network => on_network(plan, looks),
        Tier::Kernel => in_kernel(plan, looks),
    }
}

fn in_kernel(plan: Plan, looks: Looks) -> Lived {
    let mut world = World::new(plan);
    if let Some(witness) = looks.witness {
        world = world.witnessed_by(witness);
    }
    if looks.bytes {
        world = world.measuring_bytes();
    }
    world.live()
}

#[cfg(feature = "network")]
fn on_network(plan: Plan, looks: Looks) -> Lived {
    crate::network::live(plan, looks.witness)
}

/// A scenario of the network tier is rejected when it is read. If one is constructed in another way, it runs
/// on the kernel tier and its verdict is at best unknown.
#[cfg(not(feature = "network"))]
fn on_network(plan: Plan, looks: Looks) -> Lived {
    let mut lived = in_kernel(plan, looks);
    let doubt = "this build has no network tier: it was lived through on the kernel tier";
    lived.doubts.push(doubt.to_owned());
    lived
}
