//! Cost of 5,000 sessions for the node that serves them: processor time while each reports 20 keys a
//! second, and memory.

use crate::raw::{Raw, grains};
use crate::table::Table;
use crate::test_bed::{TestBed, now, own_use, pass, rate};
use crate::{Failed, Outcome};
use aliquot_coordinator::demo::cluster::NODES;
use aliquot_wire::Wire;
use aliquot_wire::session::{ClientMessage, NodeMessage};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Barrier, watch};
use tokio::task::JoinSet;
use tonic::transport::Channel;

const SESSIONS: usize = 5_000;
const CONNECTIONS: usize = 1_000;
const KEYS: usize = 20;

/// Number of keys. Each is used by 100 sessions.
const POOL: usize = 1_000;

/// Demand of each session for each of its keys, in tokens per second: 80 % of the limit in total, and
/// then 300 %.
const DEMANDS: [(u64, &str); 2] = [(8, "80 % of the limits"), (30, "300 % of the limits")];

const SETTLE_MS: u64 = 15_000;
const WATCH_MS: u64 = 15_000;
const PERIOD: Duration = Duration::from_secs(1);

/// Current activity of all sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Activity {
    /// They report no keys.
    Idle,
    /// They report their keys with a demand of this many tokens per second.
    Active(u64),
    /// They end.
    Over,
}

pub(crate) async fn run() -> Outcome {
    let budget = rate("pool/*", 1_000, 1_000);
    let token = grains(&budget, 1);
    let bed = TestBed::start(std::slice::from_ref(&budget)).await?;
    let leader = bed.leader().await?;
    let node = (leader + 1) % NODES;
    pass(2_000).await;
    let empty = bed.resident(node)?;
    let (activity, activities) = watch::channel(Activity::Idle);
    let mut tasks = open(&bed.address(node), token, &activities).await?;
    pass(SETTLE_MS).await;
    let open = bed.resident(node)?;
    let columns = [
        "sessions report",
        "reports/s",
        "answers/s",
        "node, cores",
        "leader",
        "other",
        "this process",
        "entries/s",
    ];
    let mut table = Table::new(&columns);
    table.row(watch_nodes(&bed, node, leader, "no key").await?);
    let mut held = open;
    for (tokens, what) in DEMANDS {
        activity.send_replace(Activity::Active(tokens));
        pass(SETTLE_MS).await;
        table.row(watch_nodes(&bed, node, leader, &format!("{KEYS} keys, {what}")).await?);
        if held == open {
            held = bed.resident(node)?;
        }
    }
    let mut ended = BTreeMap::new();
    while let Some(early) = tasks.try_join_next() {
        let reason = match early? {
            Ok(()) => "nothing".to_owned(),
            Err(error) => error.to_string(),
        };
        *ended.entry(reason).or_insert(0_usize) += 1;
    }
    activity.send_replace(Activity::Over);
    table.show(&format!(
        "sessions: {SESSIONS} over {CONNECTIONS} connections to one node, a report each second"
    ));
    println!(
        "\nmemory: {:.1} MiB without clients; {:.0} bytes a session without keys (its share of a connection included), \
         {:.0} bytes a key that a session holds",
        empty / f64::from(1 << 20),
        (open - empty) / SESSIONS as f64,
        (held - open) / (SESSIONS * KEYS) as f64,
    );
    for (reason, sessions) in ended {
        println!("{sessions} sessions ended early: {reason}");
    }
    while let Some(ended) = tasks.join_next().await {
        if let Err(error) = ended? {
            println!("a session ended: {error}");
        }
    }
    Ok(())
}

async fn watch_nodes(
    bed: &TestBed,
    node: usize,
    leader: usize,
    what: &str,
) -> Result<Vec<String>, Failed> {
    let order = [
        node,
        leader,
        (0..NODES)
            .find(|index| ![node, leader].contains(index))
            .unwrap_or(0),
    ];
    let before = order.map(|index| bed.used(index));
    let reports = async || {
        bed.figure(node, "aliquot_reports_total")
            .await
            .unwrap_or(f64::NAN)
    };
    let answers = async || {
        let answers = bed.figure(node, "aliquot_answers_total").await;
        answers.unwrap_or(f64::NAN)
    };
    let (own, entries, begun) = (own_use()?, bed.entries(node).await, now());
    let (reports_before, answers_before) = (reports().await, answers().await);
    pass(WATCH_MS).await;
    let secs = now().since(begun).nanos() as f64 / 1e9;
    let mut row = vec![
        what.to_owned(),
        format!("{:.0}", (reports().await - reports_before) / secs),
        format!("{:.0}", (answers().await - answers_before) / secs),
    ];
    for (index, before) in order.into_iter().zip(before) {
        row.push(format!("{:.2}", before?.cores_until(bed.used(index)?)));
    }
    row.push(format!("{:.2}", own.cores_until(own_use()?)));
    row.push(format!("{:.1}", (bed.entries(node).await - entries) / secs));
    Ok(row)
}

type Tasks = JoinSet<Result<(), Failed>>;

/// Opens all sessions, and returns once each has reported.
async fn open(
    address: &str,
    token: u64,
    activities: &watch::Receiver<Activity>,
) -> Result<Tasks, Failed> {
    let mut tasks = JoinSet::new();
    let each = SESSIONS / CONNECTIONS;
    for connection in 0..CONNECTIONS {
        let channel = Raw::connect(address).await?;
        let opened = Arc::new(Barrier::new(each + 1));
        for number in connection * each..(connection + 1) * each {
            let one = session(
                number,
                channel.clone(),
                token,
                activities.clone(),
                Arc::clone(&opened),
            );
            tasks.spawn(one);
        }
        opened.wait().await;
    }
    Ok(tasks)
}

async fn session(
    number: usize,
    channel: Channel,
    token: u64,
    mut activities: watch::Receiver<Activity>,
    opened: Arc<Barrier>,
) -> Result<(), Failed> {
    let raw = Raw::open(channel).await;
    opened.wait().await;
    let mut raw = raw?;
    let mut pace = tokio::time::interval(PERIOD);
    // Spread over the period, like the sessions of a real fleet.
    pace.reset_after(PERIOD.mul_f64((number * 7_919 % SESSIONS) as f64 / SESSIONS as f64));
    let mut interned = false;
    let mut turn = number as u64;
    loop {
        tokio::select! {
            message = raw.incoming.message() => {
                let message = message?.ok_or("the node ended the stream")?;
                raw.take(NodeMessage::from_message(message)?);
            }
            _ = pace.tick() => {
                let tokens = match *activities.borrow_and_update() {
                    Activity::Over => return Ok(()),
                    Activity::Idle => 0,
                    Activity::Active(tokens) => tokens,
                };
                if tokens > 0 && !interned {
                    interned = true;
                    raw.ask_names(keys(number)).await?;
                }
                // Demand varies by up to 5 % in both directions.
                turn = turn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let wobble = 95 + (turn >> 33) % 11;
                let report = raw.make_report(|_| Some(tokens * token * wobble / 100))?;
                // If the node is behind, a report is lost, as with a real client.
                let _ = raw.sender.try_send(ClientMessage::Report(report).to_message());
            }
        }
    }
}

/// Returns the keys of a session, which are consecutive in the pool.
fn keys(number: usize) -> impl Iterator<Item = String> {
    (0..KEYS).map(move |key| format!("pool/{}", (number * KEYS + key) % POOL))
}
