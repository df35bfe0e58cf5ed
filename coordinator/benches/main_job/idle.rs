//! Cost of an idle cluster, and the log entries that steady demand causes.

use crate::load::Load;
use crate::table::{Table, tenths};
use crate::test_bed::{TestBed, Used, now, pass, rate};
use crate::{Failed, Outcome};
use aliquot_client::Client;
use aliquot_coordinator::demo::cluster::NODES;
use std::io;

const KEYS: usize = 1_000;
const CLIENTS: usize = 3;
const PER_SECOND: u64 = 1_000;

/// Long enough for 2 % of a core to be 40 ticks of the kernel's accounting.
const WATCH_MS: u64 = 20_000;

/// Time until changes have settled.
const SETTLE_MS: u64 = 10_000;

/// Measurements of a cluster's nodes over some time.
struct Watched {
    cores: Vec<f64>,
    entries_per_s: f64,
    reports_per_s: f64,
}

async fn watch(bed: &TestBed, millis: u64) -> io::Result<Watched> {
    let used = |index| bed.used(index);
    let before: Vec<Used> = (0..NODES).map(used).collect::<io::Result<_>>()?;
    let (entries, reports, begun) = (bed.entries(0).await, reports(bed).await, now());
    pass(millis).await;
    let after: Vec<Used> = (0..NODES).map(used).collect::<io::Result<_>>()?;
    let (entries_now, reports_now) = (bed.entries(0).await, self::reports(bed).await);
    let secs = now().since(begun).nanos() as f64 / 1e9;
    let pairs = before.into_iter().zip(after);
    Ok(Watched {
        cores: pairs
            .map(|(before, after)| before.cores_until(after))
            .collect(),
        entries_per_s: (entries_now - entries) / secs,
        reports_per_s: (reports_now - reports) / secs,
    })
}

async fn reports(bed: &TestBed) -> f64 {
    let mut sum = 0.0;
    for index in 0..NODES {
        let reports = bed.figure(index, "aliquot_reports_total").await;
        sum += reports.unwrap_or(f64::NAN);
    }
    sum
}

impl Watched {
    fn row(&self, what: String, leader: usize) -> Vec<String> {
        let core = |index: usize| format!("{:.2}", 100.0 * self.cores[index]);
        let leads = core(leader);
        let others = (1..NODES).map(|step| core((leader + step) % NODES));
        let rates = [self.entries_per_s, self.reports_per_s].map(tenths);
        [what, leads]
            .into_iter()
            .chain(others)
            .chain(rates)
            .collect()
    }
}

const COLUMNS: [&str; 6] = [
    "what",
    "leader, % of a core",
    "follower",
    "follower",
    "entries/s",
    "clients' reports/s",
];

pub(crate) async fn run() -> Outcome {
    idle().await?;
    steady().await
}

async fn idle() -> Outcome {
    let bed = TestBed::start(&[rate("idle/*", PER_SECOND, 100)]).await?;
    let leader = bed.leader().await?;
    let mut table = Table::new(&COLUMNS);
    pass(SETTLE_MS).await;
    table.row(
        watch(&bed, WATCH_MS)
            .await?
            .row("no client".to_owned(), leader),
    );
    let clients = hold(&bed).await?;
    pass(SETTLE_MS).await;
    let watched = watch(&bed, WATCH_MS).await?;
    let limiters = clients.iter().flat_map(|(_, limiters)| limiters);
    let held = limiters.filter(|limiter| limiter.peek().rate > 0).count();
    let what = format!("{CLIENTS} clients, {held} keys leased");
    table.row(watched.row(what, leader));
    for (client, _) in &clients {
        client.close().await;
    }
    table.show("idle: no demand, over 20 s");
    Ok(())
}

type Holder = (Client, Vec<aliquot_client::Limiter>);

/// Opens a client at each node. Together they hold a part of every key.
async fn hold(bed: &TestBed) -> Result<Vec<Holder>, Failed> {
    let mut clients = Vec::new();
    for number in 0..CLIENTS {
        let client = bed.client([bed.address(number % NODES)]).await?;
        let mut limiters = Vec::new();
        for key in (number..KEYS).step_by(CLIENTS) {
            limiters.push(client.limiter(&format!("idle/{key}"))?);
        }
        clients.push((client, limiters));
    }
    for (_, limiters) in &clients {
        for limiter in limiters {
            while limiter.acquire(1).await.is_err() {}
        }
    }
    Ok(clients)
}

async fn steady() -> Outcome {
    let bed = TestBed::start(&[rate("steady", PER_SECOND, 200)]).await?;
    let leader = bed.leader().await?;
    let mut table = Table::new(&COLUMNS);
    for clients in [10, 50, 200] {
        let each = 3 * PER_SECOND / clients;
        let rates: Vec<u64> = (0..clients).map(|_| each).collect();
        let load = Load::begin(&bed.addresses(), "steady", &rates)?;
        pass(SETTLE_MS).await;
        let watched = watch(&bed, WATCH_MS).await?;
        let admitted = load.end().await.len() as f64 / (SETTLE_MS + WATCH_MS) as f64 * 1e3;
        let what = format!("{clients} clients, {admitted:.0}/s admitted");
        table.row(watched.row(what, leader));
    }
    table.show("steady: three times 1,000/s, burst 200, over 20 s");
    Ok(())
}
