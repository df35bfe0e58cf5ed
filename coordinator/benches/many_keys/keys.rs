//! Template keys in use at a time: what the next ones take, as their number grows.

use crate::fleet::{Fleet, NodeWatch, Usage, held, resident, secs_since, template, use_first};
use crate::options::Options;
use crate::rows::Rows;
use crate::test_bed::{TestBed, pass};
use crate::{Failed, test_bed};

const FULL: [u64; 7] = [1_000, 4_000, 16_000, 40_000, 100_000, 400_000, 1_000_000];
const QUICK: [u64; 2] = [1_000, 4_000];

/// Callers that each wait for one key.
const AT_ONCE: usize = 64;

/// A client has no more keys than that on the average.
const KEYS_A_CLIENT: u64 = 3_000;

/// Time after which a cluster has settled, or has lost the leases that it is going to lose.
const SETTLE_MS: u64 = 5_000;

/// The columns.
pub(crate) fn rows() -> Rows {
    Rows::new(
        "template keys in use at a time, all held; 64 callers ask for new ones",
        "keys",
        &[
            ("held", 0),
            ("missing", 0),
            ("new keys/s", 0),
            ("first use p50, ms", 1),
            ("p99, ms", 1),
            ("processor a key and node, ms", 3),
            ("clients' leases lost", 0),
            ("nodes' leases lost", 0),
            ("memory a key and node, B", 0),
            ("at rest, % of a core a node", 1),
        ],
    )
}

/// The sizes are reached one after the other on one cluster; it ends with the first that is not.
pub(crate) async fn run(options: &Options, rows: &mut Rows) -> Result<(), Failed> {
    let bed = TestBed::start(&[template("many/*", 1_000, 1_000)]).await?;
    let watch = NodeWatch::begin(&bed);
    let (mut fleet, mut limiters) = (Fleet::default(), Vec::new());
    let mut from = 0;
    let within = options.pick(30, 600);
    // Clients and their connections are not keys.
    let mut without_keys = 0.0;
    for size in options.sizes(&QUICK, &FULL) {
        let clients = usize::try_from(size / KEYS_A_CLIENT)?.max(12);
        let before = resident(&bed)?;
        fleet.grow(&bed, clients).await?;
        pass(1_000).await;
        let grown = resident(&bed)? - before;
        without_keys += if from == 0 { before + grown } else { grown };
        let (usage, begun) = (Usage::now(&bed), test_bed::now());
        let used = use_first(&fleet, from..size, AT_ONCE, within).await?;
        let spent = usage.mean_cores(&bed) * secs_since(begun) * 1e3;
        let count = used.limiters.len() as f64;
        limiters.extend(used.limiters);
        pass(SETTLE_MS).await;
        let usage = Usage::now(&bed);
        pass(options.pick(3_000, 10_000)).await;
        rows.row(
            size.to_string(),
            [
                held(&limiters),
                used.missing as f64,
                count / used.secs,
                used.waits_ms.percentile(50),
                used.waits_ms.percentile(99),
                spent / count,
                fleet.lost(),
                watch.lost(),
                (resident(&bed)? - without_keys) / limiters.len() as f64,
                100.0 * usage.mean_cores(&bed),
            ],
        );
        from = size;
        if used.missing > 0 {
            break;
        }
    }
    Ok(())
}
