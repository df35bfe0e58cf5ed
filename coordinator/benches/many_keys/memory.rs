//! Growth of the nodes' resident memory per session, per key, and per key of a session.

use crate::Failed;
use crate::fleet::{Fleet, resident, template, until_all_admit, use_first};
use crate::options::Options;
use crate::rows::Rows;
use crate::test_bed::{TestBed, pass};
use aliquot_coordinator::demo::cluster::NODES;

const AT_ONCE: usize = 64;

/// The columns.
pub(crate) fn rows() -> Rows {
    Rows::new(
        "resident memory",
        "what",
        &[("of each", 0), ("MB a node in all", 1)],
    )
}

/// One cluster, on which one after the other is added.
pub(crate) async fn run(options: &Options, rows: &mut Rows) -> Result<(), Failed> {
    let settle = options.pick(3_000, 10_000);
    let bed = TestBed::start(&[template("many/*", 1_000, 1_000)]).await?;
    pass(settle).await;
    let idle = resident(&bed)?;
    rows.row("an idle node, B", [idle, idle / 1e6]);
    let sessions = usize::try_from(options.pick(60, 600))?;
    let mut fleet = Fleet::default();
    fleet.grow(&bed, sessions).await?;
    pass(settle).await;
    let open = resident(&bed)?;
    let a_session = (open - idle) * NODES as f64 / sessions as f64;
    rows.row(
        format!("a session, of {sessions}, B"),
        [a_session, open / 1e6],
    );
    let keys = options.pick(2_000, 50_000);
    let used = use_first(&fleet, 0..keys, AT_ONCE, 300).await?;
    pass(settle).await;
    let keyed = resident(&bed)?;
    let a_key = (keyed - open) / used.limiters.len() as f64;
    rows.row(
        format!("a key and node, of {keys} in one session each, B"),
        [a_key, keyed / 1e6],
    );
    // Keys that are there, in sessions that are there.
    let (sharing, shared) = (sessions.min(100), options.pick(100, 500));
    let mut limiters = Vec::new();
    for client in fleet.clients.iter().take(sharing) {
        for key in 0..shared {
            limiters.push(client.limiter(&format!("many/{key}"))?);
        }
    }
    until_all_admit(&fleet, &limiters, 60).await;
    pass(settle).await;
    let all = resident(&bed)?;
    let a_pair = (all - keyed) * NODES as f64 / limiters.len() as f64;
    rows.row(
        format!("a session's key, of {sharing} sessions that share {shared}, B"),
        [a_pair, all / 1e6],
    );
    Ok(())
}
