//! A node that is killed and starts again from its snapshot and its log.

use crate::Failed;
use crate::fleet::{
    Fleet, NodeWatch, TURN_COLUMNS, held, longest_turn_ms, print_progress, secs_since, template,
    use_first,
};
use crate::options::Options;
use crate::rows::Rows;
use crate::test_bed::{TestBed, now, pass, until};
use aliquot_coordinator::demo::cluster::NODES;
use std::path::Path;

const FULL: [u64; 5] = [1_000, 10_000, 40_000, 100_000, 1_000_000];
const QUICK: [u64; 1] = [2_000];
const AT_ONCE: usize = 64;
const CLIENTS: usize = 30;
const KEYS_A_CLIENT: u64 = 3_000;

/// A snapshot is made after one entry for this many keys, within these limits: each size has some, and none spends most
/// of its time on them.
const KEYS_FOR_EACH_ENTRY: u64 = 100;
const ENTRIES: std::ops::RangeInclusive<u64> = 500..=20_000;

/// The columns.
pub(crate) fn rows() -> Rows {
    Rows::new(
        "SIGKILL of a follower, which starts again; a snapshot each 500 entries, with many keys each hundredth of their number",
        "keys",
        &[
            ("held", 0),
            ("missing", 0),
            ("on its disk, MB", 1),
            ("leases lost while keys were made", 0),
            ("ready again after, s", 2),
            ("has applied the log after, s", 2),
            ("clients that changed nodes", 0),
            ("leases lost by other clients", 0),
            ("other nodes' leases lost", 0),
            TURN_COLUMNS[0],
            TURN_COLUMNS[1],
        ],
    )
}

/// A cluster of its own for each size.
pub(crate) async fn run(options: &Options, rows: &mut Rows) -> Result<(), Failed> {
    for size in options.sizes(&QUICK, &FULL) {
        let budgets = [template("many/*", 1_000, 1_000)];
        let entries = (size / KEYS_FOR_EACH_ENTRY).clamp(*ENTRIES.start(), *ENTRIES.end());
        let flags = ["--snapshot-every", &entries.to_string()];
        let mut bed = TestBed::start_with(&budgets, &flags).await?;
        let watch = NodeWatch::begin(&bed);
        let mut fleet = Fleet::default();
        let clients = usize::try_from(size / KEYS_A_CLIENT)?.max(CLIENTS);
        fleet.grow(&bed, clients).await?;
        let used = use_first(&fleet, 0..size, AT_ONCE, options.pick(30, 600)).await?;
        pass(options.pick(2_000, 5_000)).await;
        let (count, making) = (held(&used.limiters), fleet.lost() + watch.lost());
        let follower = (bed.leader().await? + 1) % NODES;
        let disk = bytes_under(&bed.dir().join(&bed.nodes.list()[follower].name));
        let (lost, moved) = ((fleet.lost(), watch.lost()), fleet.moved());
        bed.kill(follower).await?;
        // Long enough for it to be seen to be gone.
        pass(2_000).await;
        let begun = now();
        bed.start_node(follower)?;
        print_progress(format_args!("node {follower} is started again"));
        until("the node is ready again", async || {
            bed.figure(follower, "aliquot_ready").await == Some(1.0)
        })
        .await?;
        let ready = secs_since(begun);
        let other = (follower + 1) % NODES;
        until("the node has the log", async || {
            let index = async |node| bed.figure(node, "aliquot_applied_index").await;
            let (here, there) = (index(follower).await, index(other).await);
            here.zip(there).is_some_and(|(here, there)| here >= there)
        })
        .await?;
        let has_all = secs_since(begun);
        pass(options.pick(2_000, 5_000)).await;
        let others = (0..NODES).filter(|node| *node != follower);
        let [turn, work] = longest_turn_ms(&bed, others).await;
        rows.row(
            size.to_string(),
            [
                count,
                used.missing as f64,
                disk / 1e6,
                making,
                ready,
                has_all,
                fleet.moved() - moved,
                // Each move is a lease that ended, too.
                fleet.lost() - lost.0 - (fleet.moved() - moved),
                // The killed one stops serving, too.
                (watch.lost() - lost.1 - 1.0).max(0.0),
                turn,
                work,
            ],
        );
    }
    Ok(())
}

fn bytes_under(path: &Path) -> f64 {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    let sizes = entries.map(|entry| match entry.metadata() {
        Ok(it) if it.is_dir() => bytes_under(&entry.path()),
        Ok(it) => it.len() as f64,
        Err(_) => 0.0,
    });
    sizes.sum()
}
