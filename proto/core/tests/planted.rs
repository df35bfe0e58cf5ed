//! The test of the tests: every planted bug is caught, and most of them show
//! nothing as long as nothing goes wrong.

#[path = "world/kernel.rs"]
mod kernel;

use aliquot_core::planted::{self, Bug};
use kernel::{Plan, World};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// The first seed of a world in which the bug shows, and by what.
fn shows(bug: Bug, seeds: u64, calm: bool) -> Option<(u64, String)> {
    planted::with(Some(bug), || {
        (0..seeds).find_map(|seed| {
            let world = || World::new(Plan::draw(seed, calm)).run();
            let by = match std::panic::catch_unwind(world) {
                Ok(seen) => match seen.breach {
                    Some(breach) => Some(breach.by.into()),
                    // Every seed heals by itself: a bug that holds a budget up is no small bug.
                    None => (seen.healed < 0.9).then(|| "work conservation".into()),
                },
                Err(_) => Some("an assertion of the core".into()),
            };
            by.map(|by| (seed, by))
        })
    })
}

#[test]
#[ignore = "exploration"]
fn which_bugs_does_the_world_catch() {
    let seeds = number("ALIQUOT_SEEDS").unwrap_or(60);
    let next = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    let Some(&bug) = Bug::ALL.get(index) else {
                        return;
                    };
                    let storm = shows(bug, seeds, false);
                    let calm = storm.as_ref().and_then(|_| shows(bug, 6, true));
                    eprintln!("TABLE {bug:?} {storm:?} calm {calm:?}");
                }
            });
        }
    });
}
