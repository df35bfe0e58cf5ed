//! New keys of 30 sessions, all at once.

use crate::fleet::{Fleet, NodeWatch, Usage, held, secs_since, template, until_all_admit};
use crate::options::Options;
use crate::rows::Rows;
use crate::test_bed::{TestBed, now};
use crate::{Failed, test_bed};

const FULL: [u64; 3] = [10_000, 30_000, 100_000];
const QUICK: [u64; 1] = [3_000];
const SESSIONS: u64 = 30;

/// The columns.
pub(crate) fn rows() -> Rows {
    Rows::new(
        "new keys of 30 sessions at once, until each was admitted once",
        "keys",
        &[
            ("half of them, s", 2),
            ("99 %, s", 2),
            ("all, s", 2),
            ("held 3 s later", 0),
            ("processor a key and node, ms", 3),
            ("clients' leases lost", 0),
            ("nodes' leases lost", 0),
        ],
    )
}

/// A cluster of its own for each size.
pub(crate) async fn run(options: &Options, rows: &mut Rows) -> Result<(), Failed> {
    for size in options.sizes(&QUICK, &FULL) {
        let bed = TestBed::start(&[template("many/*", 1_000, 1_000)]).await?;
        let watch = NodeWatch::begin(&bed);
        let mut fleet = Fleet::default();
        fleet.grow(&bed, usize::try_from(SESSIONS)?).await?;
        let (usage, begun) = (Usage::now(&bed), now());
        let mut limiters = Vec::new();
        for (number, client) in (0..).zip(&fleet.clients) {
            for key in 0..size / SESSIONS {
                limiters.push(client.limiter(&format!("many/{number}-{key}"))?);
            }
        }
        let times = until_all_admit(&fleet, &limiters, options.pick(30, 120)).await;
        let spent = usage.mean_cores(&bed) * secs_since(begun) * 1e3;
        test_bed::pass(3_000).await;
        let spent = spent / limiters.len() as f64;
        let rest = [held(&limiters), spent, fleet.lost(), watch.lost()];
        rows.row(size.to_string(), times.into_iter().chain(rest));
    }
    Ok(())
}
