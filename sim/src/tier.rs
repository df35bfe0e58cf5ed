//! Runs a seed on the tier that its scenario names.

use crate::observer::RunResult;
use crate::plan::Plan;
use crate::scenario::Tier;
use crate::trace::Tracer;
use crate::world::World;

/// Observations in addition to the verdict, each of which costs time.
#[derive(Default)]
pub(crate) struct Observe {
    /// Receives everything that happens.
    pub(crate) tracer: Option<Box<dyn Tracer>>,
    /// If set, bytes of messages are counted where that costs time.
    pub(crate) bytes: bool,
    /// Is called once in each second of true time.
    pub(crate) reached: Option<Box<dyn Fn(u64)>>,
}

pub(crate) fn live(plan: Plan, observe: Observe) -> RunResult {
    match plan.scenario.run.tier {
        Tier::Network => on_network(plan, observe),
        Tier::Kernel => in_kernel(plan, observe),
    }
}

fn in_kernel(plan: Plan, observe: Observe) -> RunResult {
    let mut world = World::new(plan);
    if let Some(tracer) = observe.tracer {
        world = world.traced_by(tracer);
    }
    if let Some(reached) = observe.reached {
        world = world.calling(reached);
    }
    if observe.bytes {
        world = world.measuring_bytes();
    }
    world.live()
}

#[cfg(feature = "network")]
fn on_network(plan: Plan, observe: Observe) -> RunResult {
    crate::network::live(plan, observe.tracer, observe.reached)
}

/// A scenario of the network tier is rejected when it is read. If one is constructed in another way, it runs
/// on the kernel tier and its verdict is at best unknown.
#[cfg(not(feature = "network"))]
fn on_network(plan: Plan, observe: Observe) -> RunResult {
    let mut result = in_kernel(plan, observe);
    let doubt = "this build has no network tier: it was lived through on the kernel tier";
    result.doubts.push(doubt.to_owned());
    result
}
