//! Time from a key's first use to its first admission, for a client whose session is open: 300 keys,
//! one after the other.

use crate::raw::Raw;
use crate::table::{Samples, Table, ms, tenths};
use crate::test_bed::{TestBed, now, rate};
use crate::{Failed, Outcome};
use aliquot_coordinator::demo::cluster::NODES;

const SAMPLES: usize = 300;

/// The client is connected to the leader, or to another node.
const PLACES: [&str; 2] = ["leader", "follower"];

pub(crate) async fn run() -> Outcome {
    let exact = |place: &str| {
        let place = place.to_owned();
        (0..SAMPLES).map(move |key| rate(&format!("exact/{place}/{key}"), 1_000, 100))
    };
    let mut budgets = vec![rate("template/*/*", 1_000, 100)];
    budgets.extend(PLACES.iter().flat_map(|place| exact(place)));
    let bed = TestBed::start(&budgets).await?;
    let leader = bed.leader().await?;
    let mut table = Table::new(&[
        "key of",
        "client at",
        "p50, ms",
        "p90",
        "p99",
        "max",
        "under 10 ms",
        "entries a key",
    ]);
    for (place, index) in PLACES.into_iter().zip([leader, (leader + 1) % NODES]) {
        for kind in ["template", "exact"] {
            let before = bed.entries(leader).await;
            let samples = measure(&bed, index, &format!("{kind}/{place}")).await?;
            let entries = bed.entries(leader).await - before;
            let mut row = vec![kind.to_owned(), place.to_owned()];
            row.extend([50, 90, 99, 100].map(|of| tenths(samples.percentile(of))));
            row.push(format!("{} of {}", samples.below(10.0), samples.count()));
            row.push(tenths(entries / samples.count() as f64));
            table.row(row);
        }
    }
    table.show("cold: limiter(key) and acquire(1).await until admitted");
    steps(&bed, (leader + 1) % NODES).await
}

async fn measure(bed: &TestBed, index: usize, prefix: &str) -> Result<Samples, Failed> {
    let client = bed.client([bed.address(index)]).await?;
    let mut samples = Samples::default();
    for number in 0..SAMPLES {
        let begun = now();
        let limiter = client.limiter(&format!("{prefix}/{number}"))?;
        // A key may be refused after 50 ms. Then its caller asks again.
        while limiter.acquire(1).await.is_err() {}
        samples.add(ms(now().since(begun)));
    }
    client.close().await;
    Ok(samples)
}

/// Measures the same for keys of a template, message by message and without the client.
async fn steps(bed: &TestBed, index: usize) -> Outcome {
    let channel = Raw::connect(&bed.address(index)).await?;
    let mut raw = Raw::open(channel).await?;
    let mut parts = [const { Samples::new() }; 3];
    for number in 0..SAMPLES / 3 {
        let begun = now();
        let budget = raw.intern(&format!("template/steps/{number}")).await?;
        let named = now();
        raw.report().await?;
        raw.is_given(budget).await?;
        let given = now();
        for (part, span) in
            parts
                .iter_mut()
                .zip([named.since(begun), given.since(named), given.since(begun)])
        {
            part.add(ms(span));
        }
    }
    let mut table = Table::new(&["step", "p50, ms", "p90", "p99", "max"]);
    let names = [
        "the key has a name (its budget is in the log)",
        "a part of it is given",
        "both",
    ];
    for (name, part) in names.into_iter().zip(&parts) {
        let figures = [50, 90, 99, 100].map(|of| tenths(part.percentile(of)));
        table.row([name.to_owned()].into_iter().chain(figures));
    }
    table.show("cold, of a template's keys at a follower, step by step");
    Ok(())
}
