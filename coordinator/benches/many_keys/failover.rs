//! A killed leader, with keys in use.

use crate::fleet::{Fleet, NodeWatch, held, print_progress, template, use_first};
use crate::load::Load;
use crate::options::Options;
use crate::rows::Rows;
use crate::table::ms;
use crate::test_bed::{TestBed, now, pass, rate};
use crate::{Failed, fleet};
use aliquot_client::Limiter;
use aliquot_client::clock::{Span, Tick};
use aliquot_coordinator::demo::cluster::NODES;
use aliquot_coordinator::demo::verdict::Admissions;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const FULL: [u64; 5] = [1_000, 10_000, 30_000, 100_000, 1_000_000];
const QUICK: [u64; 1] = [2_000];
const AT_ONCE: usize = 64;
const CLIENTS: usize = 30;
const KEYS_A_CLIENT: u64 = 3_000;

/// One key that eight clients want three times of.
const PER_SECOND: u64 = 1_000;
const OFFERED: [u64; 8] = [1_500, 215, 215, 214, 214, 214, 214, 214];

/// Of the keys, so many are tried each 100 ms, in turn.
const TRIED: usize = 200;

/// The columns.
pub(crate) fn rows() -> Rows {
    Rows::new(
        "SIGKILL of the leader while clients hold keys, and share one under three times its limit",
        "keys",
        &[
            ("held", 0),
            ("missing", 0),
            ("keys: second before, %", 1),
            ("keys: worst second, %", 1),
            ("keys: 99 % after, s", 1),
            ("shared: worst second, %", 1),
            ("shared: 99 % after, s", 1),
            ("clients' leases lost", 0),
            ("other nodes' leases lost", 0),
            fleet::TURN_COLUMNS[0],
            fleet::TURN_COLUMNS[1],
        ],
    )
}

/// A cluster of its own for each size.
pub(crate) async fn run(options: &Options, rows: &mut Rows) -> Result<(), Failed> {
    for size in options.sizes(&QUICK, &FULL) {
        let shared = rate("shared", PER_SECOND, 200);
        let mut bed = TestBed::start(&[template("many/*", 1_000, 1_000), shared]).await?;
        let mut fleet = Fleet::default();
        let clients = usize::try_from(size / KEYS_A_CLIENT)?.max(CLIENTS);
        fleet.grow(&bed, clients).await?;
        let used = use_first(&fleet, 0..size, AT_ONCE, options.pick(30, 600)).await?;
        let missing = used.missing as f64;
        let limiters = Arc::new(used.limiters);
        let load = Load::begin(&bed.addresses(), "shared", &OFFERED)?;
        pass(options.pick(3_000, 5_000)).await;
        let count = held(&limiters);
        let stop = Arc::new(AtomicBool::new(false));
        let trying = tokio::spawn(try_in_turn(Arc::clone(&limiters), Arc::clone(&stop)));
        pass(2_000).await;
        let leader = bed.leader().await?;
        let watch = NodeWatch::begin(&bed);
        let (at, lost) = (now(), fleet.lost());
        bed.kill(leader).await?;
        print_progress(format_args!("node {leader}, which led, is killed"));
        let seen_ms = options.pick(10_000, 40_000);
        pass(seen_ms).await;
        stop.store(true, Ordering::Relaxed);
        let tried = Tried {
            at,
            tries: trying.await?,
        };
        let admissions = Admissions::new(load.end().await.into_iter().map(|at| (at, 1)));
        let of_shared = |from: u64| {
            let part = admissions.utilisation(
                PER_SECOND as f64,
                at.after(Span::from_millis(from)),
                at.after(Span::from_millis(from + 1_000)),
            );
            100.0 * part.unwrap_or(f64::NAN)
        };
        let (worst, back) = around(seen_ms, |from| tried.share(from as f64));
        let (shared_worst, shared_back) = around(seen_ms, of_shared);
        // The killed one stops serving, too.
        let nodes = (watch.lost() - 1.0).max(0.0);
        let [turn, work] = fleet::longest_turn_ms(&bed, 0..NODES).await;
        rows.row(
            size.to_string(),
            [
                count,
                missing,
                tried.share(-1_000.0),
                worst,
                back,
                shared_worst,
                shared_back,
                fleet.lost() - lost,
                nodes,
                turn,
                work,
            ],
        );
        fleet.close().await;
    }
    Ok(())
}

/// The worst second of the first five, and the end, in seconds after the kill and in steps of 100 ms, of the last
/// second in which less than 99 % were admitted; not a number if that is the last that was seen.
fn around(seen_ms: u64, part: impl Fn(u64) -> f64) -> (f64, f64) {
    let worst = (0..50)
        .map(|step| part(step * 100))
        .fold(f64::NAN, f64::min);
    let last = seen_ms / 100 - 10;
    let poor = (0..last).rev().find(|step| part(step * 100) < 99.0);
    let back = match poor {
        None => 0.0,
        Some(step) if step + 1 == last => f64::NAN,
        Some(step) => (step + 11) as f64 / 10.0,
    };
    (worst, back)
}

/// When which part of the keys that were tried was admitted.
struct Tried {
    at: Tick,
    tries: Vec<(Tick, f64)>,
}

impl Tried {
    /// Of all tries within a second from so many milliseconds after the kill, in percent.
    fn share(&self, from: f64) -> f64 {
        let after = |tick: Tick| ms(tick.since(self.at)) - ms(self.at.since(tick));
        let within = |tick: Tick| (from..from + 1_000.0).contains(&after(tick));
        let tries = self.tries.iter().filter(|(tick, _)| within(*tick));
        let shares: Vec<f64> = tries.map(|(_, share)| *share).collect();
        100.0 * fleet::mean(&shares)
    }
}

async fn try_in_turn(limiters: Arc<Vec<Limiter>>, stop: Arc<AtomicBool>) -> Vec<(Tick, f64)> {
    let (mut tries, mut next) = (Vec::new(), 0);
    let mut rounds = tokio::time::interval(Duration::from_millis(100));
    while !stop.load(Ordering::Relaxed) && !limiters.is_empty() {
        rounds.tick().await;
        let at = now();
        let count = TRIED.min(limiters.len());
        let admitted = (0..count).filter(|step| {
            // Neighbours are other clients': a prime goes round all of them.
            let index = (next + step * 7_919) % limiters.len();
            limiters[index].try_acquire(1).is_ok()
        });
        tries.push((at, admitted.count() as f64 / count as f64));
        next += 104_729;
    }
    tries
}
