//! A seed lived through, on the tier that its scenario names.

use crate::plan::Plan;
use crate::scenario::Tier;
use crate::world::{Lived, Witness, World};

/// What is looked at besides the verdict, at a price.
#[derive(Default)]
pub(crate) struct Looks {
    /// Whoever sees all that happens.
    pub(crate) witness: Option<Box<dyn Witness>>,
    /// Whether bytes of messages are counted, where that is not free.
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

/// Scenarios of that tier are refused when they are read; one that is made otherwise is not judged.
#[cfg(not(feature = "network"))]
fn on_network(plan: Plan, looks: Looks) -> Lived {
    let mut lived = in_kernel(plan, looks);
    let doubt = "this build has no network tier: it was lived through on the kernel tier";
    lived.doubts.push(doubt.to_owned());
    lived
}
