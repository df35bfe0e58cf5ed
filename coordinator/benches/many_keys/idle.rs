//! Cost of keys at rest, and the part of it that stays after they were forgotten.

use crate::Failed;
use crate::fleet::{
    Fleet, NodeWatch, Usage, held, print_progress, resident, secs_since, template, use_first,
};
use crate::options::Options;
use crate::rows::Rows;
use crate::test_bed::{TestBed, now, pass};
use aliquot_coordinator::demo::cluster::NODES;
use std::ops::Range;
use std::process::Command;

const FULL: [u64; 6] = [0, 1_000, 10_000, 40_000, 100_000, 1_000_000];
const QUICK: [u64; 2] = [0, 2_000];
const AT_ONCE: usize = 64;
const KEYS_A_CLIENT: u64 = 3_000;

/// The columns.
pub(crate) fn rows() -> Rows {
    Rows::new(
        "at rest, with keys that clients hold and do not use, and after all were forgotten",
        "keys",
        &[
            ("held", 0),
            ("missing", 0),
            ("% of a core a node", 2),
            ("of the busiest", 2),
            ("between nodes, kB/s", 1),
            ("leases lost", 0),
            ("forgotten after, s", 1),
            ("then % of a core a node", 2),
            ("then kB/s", 1),
            ("then memory a node beyond none, MB", 1),
            ("after as many other keys, MB", 1),
        ],
    )
}

/// A cluster of its own for each size.
pub(crate) async fn run(options: &Options, rows: &mut Rows) -> Result<(), Failed> {
    for size in options.sizes(&QUICK, &FULL) {
        let bed = TestBed::start(&[template("many/*", 1_000, 1_000)]).await?;
        pass(2_000).await;
        let empty = resident(&bed)?;
        let watch = NodeWatch::begin(&bed);
        let first = hold_and_forget(&bed, 0..size, options).await?;
        pass(options.pick(2_000, 10_000)).await;
        let forgotten = at_rest(&bed, options).await;
        let beyond = (resident(&bed)? - empty) / 1e6;
        // Memory that is lost, instead of kept for the next keys, is lost once more by as many other keys.
        let again = size..size.saturating_mul(2);
        let second = hold_and_forget(&bed, again, options).await?;
        pass(options.pick(6_000, 30_000)).await;
        let beyond_again = (resident(&bed)? - empty) / 1e6;
        rows.row(
            size.to_string(),
            [
                first.held,
                first.missing + second.missing,
                first.live.mean,
                first.live.busiest,
                first.live.bytes,
                first.lost + second.lost + watch.lost(),
                first.after,
                forgotten.mean,
                forgotten.bytes,
                beyond,
                beyond_again,
            ],
        );
    }
    Ok(())
}

/// Figures of keys that were held, and then forgotten.
struct Round {
    held: f64,
    missing: f64,
    lost: f64,
    live: Rest,
    /// Seconds after which no node had any of them.
    after: f64,
}

/// Has new sessions use each of these keys once and hold it, and closes them.
async fn hold_and_forget(
    bed: &TestBed,
    keys: Range<u64>,
    options: &Options,
) -> Result<Round, Failed> {
    let mut fleet = Fleet::default();
    let count = keys.end.saturating_sub(keys.start);
    let clients = usize::try_from(count / KEYS_A_CLIENT)?.max(3);
    fleet.grow(bed, clients).await?;
    let within = options.pick(30, 600);
    let used = use_first(&fleet, keys, AT_ONCE, within).await?;
    pass(options.pick(2_000, 10_000)).await;
    let live = at_rest(bed, options).await;
    let (missing, held, lost) = (used.missing as f64, held(&used.limiters), fleet.lost());
    drop(used);
    fleet.close().await;
    print_progress("all sessions are closed");
    let begun = now();
    // Every node has what the log has.
    let deadline = options.pick(30, 300) as f64;
    let mut after = f64::NAN;
    while after.is_nan() && secs_since(begun) < deadline {
        pass(200).await;
        let mut none = true;
        for index in 0..NODES {
            none &= bed.figure(index, "aliquot_budgets").await == Some(0.0);
        }
        if none {
            after = secs_since(begun);
        }
    }
    Ok(Round {
        held,
        missing,
        lost,
        live,
        after,
    })
}

struct Rest {
    mean: f64,
    busiest: f64,
    bytes: f64,
}

/// Percents of a core, and kilobytes a second between the nodes.
async fn at_rest(bed: &TestBed, options: &Options) -> Rest {
    let (usage, bytes, begun) = (Usage::now(bed), peer_bytes(bed), now());
    pass(options.pick(4_000, 20_000)).await;
    let cores = usage.cores(bed);
    let bytes = peer_bytes(bed) - bytes;
    Rest {
        mean: 100.0 * crate::fleet::mean(&cores),
        busiest: 100.0 * cores.into_iter().fold(f64::NAN, f64::max),
        bytes: bytes / secs_since(begun) / 1e3,
    }
}

/// Bytes that connections between the nodes have carried, both ways, as `ss` tells it; not a number
/// where there is no `ss`.
fn peer_bytes(bed: &TestBed) -> f64 {
    let ports = bed.nodes.list().iter().map(|node| node.peer_listen.port());
    let mut all = 0.0;
    for port in ports {
        let filter = format!("( sport = :{port} )");
        let output = Command::new("ss").args(["-tinOH", &filter]).output();
        let Ok(output) = output else { return f64::NAN };
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let words = text.split_whitespace();
        let counted = words.filter_map(|word| {
            let (name, bytes) = word.split_once(':')?;
            let counts = ["bytes_acked", "bytes_received"].contains(&name);
            counts.then(|| bytes.parse::<f64>().ok())?
        });
        all += counted.sum::<f64>();
    }
    all
}
