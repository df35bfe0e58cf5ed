//! Keys that many clients share, and moves of their demand.

use crate::Failed;
use crate::fleet::{
    Fleet, NodeWatch, TURN_COLUMNS, Usage, longest_turn_ms, resident, secs_since, template,
    until_all_admit,
};
use crate::options::Options;
use crate::rows::Rows;
use crate::table::{Samples, ms};
use crate::test_bed::{TestBed, now, pass};
use aliquot_client::Limiter;
use aliquot_client::clock::Span;
use aliquot_coordinator::demo::cluster::NODES;
use std::time::Duration;

const FULL: [u64; 6] = [500, 700, 1_000, 3_000, 5_000, 10_000];
const QUICK: [u64; 1] = [200];

/// The limit of each key.
const PER_SECOND: u64 = 1_000;

/// All demand of a key moves so often, and stays so long.
const MOVES: usize = 10;
const PHASE: Span = Span::from_secs(2);

/// Keys whose demand moves at a time.
const MOVING: usize = 20;

/// The columns.
pub(crate) fn rows() -> Rows {
    Rows::new(
        "keys that 100 clients share (20 in the short run); demand of 20 keys then moves from client to client, ten times",
        "keys",
        &[
            ("half known, s", 2),
            ("99 %, s", 2),
            ("all, s", 2),
            ("at rest, % of a core a node", 1),
            ("of each client's key in all, B", 0),
            ("a move: 80 % of the limit after, p50, ms", 0),
            ("max, ms", 0),
            ("clients' leases lost", 0),
            ("nodes' leases lost", 0),
            TURN_COLUMNS[0],
            TURN_COLUMNS[1],
        ],
    )
}

/// A cluster of its own for each size.
pub(crate) async fn run(options: &Options, rows: &mut Rows) -> Result<(), Failed> {
    let clients = usize::try_from(options.pick(20, 100))?;
    for size in options.sizes(&QUICK, &FULL) {
        let bed = TestBed::start(&[template("many/*", PER_SECOND, PER_SECOND)]).await?;
        let watch = NodeWatch::begin(&bed);
        let mut fleet = Fleet::default();
        fleet.grow(&bed, clients).await?;
        let before = resident(&bed)?;
        let mut limiters = Vec::new();
        for client in &fleet.clients {
            for key in 0..size {
                limiters.push(client.limiter(&format!("many/{key}"))?);
            }
        }
        let times = until_all_admit(&fleet, &limiters, options.pick(30, 120)).await;
        pass(options.pick(2_000, 5_000)).await;
        let usage = Usage::now(&bed);
        pass(options.pick(3_000, 10_000)).await;
        let rest = 100.0 * usage.mean_cores(&bed);
        let grown = (resident(&bed)? - before) * NODES as f64 / limiters.len() as f64;
        let moves = moves(&limiters, usize::try_from(size)?).await;
        let moved = [moves.percentile(50), moves.percentile(100)];
        let lost = [fleet.lost(), watch.lost()];
        let turns = longest_turn_ms(&bed, 0..NODES).await;
        let figures = times
            .into_iter()
            .chain([rest, grown])
            .chain(moved)
            .chain(lost)
            .chain(turns);
        rows.row(size.to_string(), figures);
    }
    Ok(())
}

/// From when on, in milliseconds, the client that the demand of a key moved to holds 80 % of it; as
/// long as the demand stayed if it never did.
async fn moves(limiters: &[Limiter], keys: usize) -> Samples {
    let clients = limiters.len() / keys;
    let mut after = Samples::new();
    for turn in 0..=MOVES {
        let client = turn * 7 % clients;
        let moved: Vec<&Limiter> = (0..MOVING.min(keys))
            .map(|key| &limiters[client * keys + key])
            .collect();
        let times = phase(&moved).await;
        // The first finds everything free.
        if turn > 0 {
            times.into_iter().for_each(|time| after.add(time));
        }
    }
    after
}

async fn phase(limiters: &[&Limiter]) -> Vec<f64> {
    let begun = now();
    let mut rounds = tokio::time::interval(Duration::from_millis(10));
    let mut since = vec![None; limiters.len()];
    let mut asked = 0;
    loop {
        rounds.tick().await;
        let at = now();
        if at.since(begun) >= PHASE {
            let last = secs_since(begun) * 1e3;
            return since.into_iter().map(|time| time.unwrap_or(last)).collect();
        }
        let due = at.since(begun).nanos() / 1_000 * (3 * PER_SECOND) / 1_000_000;
        for (limiter, since) in limiters.iter().zip(&mut since) {
            for _ in asked..due {
                let _ = limiter.try_acquire(1);
            }
            let has = limiter.peek().rate >= PER_SECOND * 80 / 100;
            *since = has.then(|| since.unwrap_or_else(|| ms(at.since(begun))));
        }
        asked = due;
    }
}
