//! All demand moves from one client to another: time until the other one holds the limit.

use crate::table::{Samples, Table, ms, tenths};
use crate::test_bed::{TestBed, now, rate};
use crate::{Failed, Outcome};
use aliquot_client::clock::{Span, Tick};
use aliquot_client::{Client, Limiter};
use aliquot_coordinator::demo::cluster::NODES;
use std::time::Duration;

const SHIFTS: usize = 10;
const PER_SECOND: u64 = 1_000;
const OFFERED: u64 = 3 * PER_SECOND;

/// Time for which the demand stays with one client.
const PHASE: Span = Span::from_secs(3);

/// Samples of the client to which the demand moved: the times after which it held 90 % and 99 % of the
/// limit, its use in the first second, and the part that it held at the end.
#[derive(Default)]
struct Found {
    ninety: Samples,
    almost_all: Samples,
    first_second: Samples,
    held: Samples,
}

pub(crate) async fn run() -> Outcome {
    let bed =
        TestBed::start(&[rate("near", PER_SECOND, 200), rate("far", PER_SECOND, 200)]).await?;
    let leader = bed.leader().await?;
    let follower = (leader + 1) % NODES;
    let columns = [
        "clients",
        "goal, ms",
        "90 % of R: p50, ms",
        "max",
        "99 % of R: p50, ms",
        "max",
        "first second used: p50, %",
        "least",
        "held at the end, %",
    ];
    let mut table = Table::new(&columns);
    for (what, goal, key, at) in [
        ("both at a follower", "300", "near", [follower, follower]),
        ("leader and follower", "1000", "far", [leader, follower]),
    ] {
        // Equal numbers of clients at all nodes. Otherwise one of the two would be asked to move.
        let mut idle = Vec::new();
        for node in 0..NODES {
            let here = at.iter().filter(|place| **place == node).count();
            for _ in here..2 {
                idle.push(bed.client([bed.address(node)]).await?);
            }
        }
        let one = bed.client([bed.address(at[0])]).await?;
        let other = bed.client([bed.address(at[1])]).await?;
        let found = measure([&one, &other], key).await?;
        let mut row = vec![what.to_owned(), goal.to_owned()];
        for samples in [&found.ninety, &found.almost_all] {
            row.extend([50, 100].map(|of| tenths(samples.percentile(of))));
        }
        let used = [50, 0].map(|of| tenths(found.first_second.percentile(of)));
        row.extend(used);
        row.push(tenths(found.held.percentile(50)));
        table.row(row);
        one.close().await;
        other.close().await;
        for client in idle {
            client.close().await;
        }
    }
    table.show("shift: three times 1,000/s, burst 200, moves from one client to another; 10 times");
    Ok(())
}

async fn measure(clients: [&Client; 2], key: &str) -> Result<Found, Failed> {
    let limiters = [clients[0].limiter(key)?, clients[1].limiter(key)?];
    // The first phase starts with a limit that no client holds.
    phase(&limiters[1]).await;
    let mut found = Found::default();
    for shift in 0..SHIFTS {
        let seen = phase(&limiters[shift % 2]).await;
        found.ninety.add(seen.since_which(PER_SECOND * 90 / 100));
        found
            .almost_all
            .add(seen.since_which(PER_SECOND * 99 / 100));
        found.first_second.add(seen.used_in_first_second());
        let held = seen.held.last().map_or(0, |(_, rate)| *rate);
        found.held.add(100.0 * held as f64 / PER_SECOND as f64);
    }
    Ok(found)
}

/// Holding and admissions of a client while all demand was its own.
struct Seen {
    begun: Tick,
    held: Vec<(Tick, u64)>,
    admitted: Vec<Tick>,
}

async fn phase(limiter: &Limiter) -> Seen {
    let mut rounds = tokio::time::interval(Duration::from_millis(2));
    let (begun, mut asked) = (now(), 0);
    let mut seen = Seen {
        begun,
        held: Vec::new(),
        admitted: Vec::new(),
    };
    loop {
        rounds.tick().await;
        let at = now();
        if at.since(begun) >= PHASE {
            return seen;
        }
        let due = at.since(begun).nanos() / 1_000 * OFFERED / 1_000_000;
        for _ in asked..due {
            let admission = limiter.try_acquire(1);
            seen.admitted
                .extend(admission.map(|admission| admission.decided_at));
        }
        asked = due;
        seen.held.push((at, limiter.peek().rate));
    }
}

impl Seen {
    /// Returns the milliseconds from the shift after which the client held at least `rate` until the
    /// end, or infinity if it did not.
    fn since_which(&self, rate: u64) -> f64 {
        let poor = self.held.iter().rposition(|(_, held)| *held < rate);
        let first = poor.map_or(0, |poor| poor + 1);
        let found = self.held.get(first);
        found.map_or(f64::INFINITY, |(at, _)| ms(at.since(self.begun)))
    }

    fn used_in_first_second(&self) -> f64 {
        let end = self.begun.after(Span::from_secs(1));
        let count = self.admitted.partition_point(|at| *at < end);
        100.0 * count as f64 / PER_SECOND as f64
    }
}
