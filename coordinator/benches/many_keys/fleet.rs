//! Clients with keys, and a look-out for leases that are lost.

use crate::Failed;
use crate::table::{Samples, ms};
use crate::test_bed::{TestBed, Used, figure_at, now, pass};
use aliquot_client::clock::Tick;
use aliquot_client::{Client, Limiter};
use aliquot_coordinator::demo::cluster::NODES;
use aliquot_core::budget::{BudgetDraft, Written};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{MissedTickBehavior, timeout};

/// Time between two looks at the leases of clients and nodes.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A caller that hears nothing for so long asks again, or sees that time is up.
const ASKED_FOR: Duration = Duration::from_secs(2);

/// A limiter that refused is asked again after this time, and the limiters to ask are taken in parts.
const ASKED_AGAIN: Duration = Duration::from_secs(2);
const PART_EVERY: Duration = Duration::from_millis(10);

/// Seconds between two lines of progress.
const TOLD_EVERY_SECS: f64 = 3.0;

/// A template whose keys are never too many.
pub(crate) fn template(key: &str, per_second: u64, burst: u64) -> BudgetDraft {
    BudgetDraft {
        max_keys: Some(Written::Whole(10_000_000)),
        forget_after: Some("1s".into()),
        ..crate::test_bed::rate(key, per_second, burst)
    }
}

/// Clients that have leases.
#[derive(Default)]
pub(crate) struct Fleet {
    pub(crate) clients: Vec<Client>,
    losses: Arc<AtomicU64>,
    moves: Arc<AtomicU64>,
    looks: Vec<AbortHandle>,
}

impl Fleet {
    /// As many clients as that, evenly over the nodes.
    pub(crate) async fn grow(&mut self, bed: &TestBed, clients: usize) -> Result<(), Failed> {
        let mut opening = JoinSet::new();
        for number in self.clients.len()..clients {
            let mut addresses = bed.addresses();
            addresses.rotate_left(number % NODES);
            opening.spawn(async move { Client::connect(addresses) });
        }
        let mut opened = Vec::new();
        while let Some(client) = opening.join_next().await {
            opened.push(client??);
        }
        crate::test_bed::until("the clients have leases", async || {
            opened.iter().all(|it| !it.status().lease.is_zero())
        })
        .await?;
        for client in &opened {
            let (client, losses) = (client.clone(), Arc::clone(&self.losses));
            let moves = Arc::clone(&self.moves);
            let look = tokio::spawn(async move {
                let (mut look, mut node) = (Lookout::new(losses), client.status().node);
                loop {
                    tokio::time::sleep(LOOK_EVERY).await;
                    let (had, status) = (look.had, client.status());
                    look.see(!status.lease.is_zero());
                    if look.had {
                        let former = std::mem::replace(&mut node, status.node);
                        let moved = !had && former != node;
                        moves.fetch_add(u64::from(moved), Ordering::Relaxed);
                    }
                }
            });
            self.looks.push(look.abort_handle());
        }
        self.clients.extend(opened);
        Ok(())
    }

    /// Number of times that a client was without a lease after it had one.
    pub(crate) fn lost(&self) -> f64 {
        self.losses.load(Ordering::Relaxed) as f64
    }

    /// Number of these times after which the client had a lease of another node: its own was killed, or sent it away.
    pub(crate) fn moved(&self) -> f64 {
        self.moves.load(Ordering::Relaxed) as f64
    }

    /// Number of clients that have a lease now.
    pub(crate) fn leased(&self) -> usize {
        let clients = self.clients.iter();
        clients.filter(|it| !it.status().lease.is_zero()).count()
    }

    /// Ends all sessions.
    pub(crate) async fn close(self) {
        let mut closing = JoinSet::new();
        for client in self.clients.clone() {
            closing.spawn(async move { client.close().await });
        }
        closing.join_all().await;
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.looks.iter().for_each(AbortHandle::abort);
    }
}

/// Counts how often what was there is not.
struct Lookout {
    losses: Arc<AtomicU64>,
    had: bool,
}

impl Lookout {
    const fn new(losses: Arc<AtomicU64>) -> Self {
        Self { losses, had: true }
    }

    fn see(&mut self, has: bool) {
        if self.had && !has {
            self.losses.fetch_add(1, Ordering::Relaxed);
        }
        self.had = has;
    }
}

/// Counts how often a node stops serving its clients.
pub(crate) struct NodeWatch {
    losses: Arc<AtomicU64>,
    tasks: JoinSet<()>,
}

impl NodeWatch {
    /// Begins to look.
    pub(crate) fn begin(bed: &TestBed) -> Self {
        let losses = Arc::new(AtomicU64::new(0));
        let mut tasks = JoinSet::new();
        for node in bed.nodes.list() {
            let (address, losses) = (node.metrics_listen.to_string(), Arc::clone(&losses));
            tasks.spawn(async move {
                let mut look = Lookout::new(losses);
                loop {
                    // Figures are renewed each second.
                    tokio::time::sleep(Duration::from_millis(900)).await;
                    look.see(figure_at(&address, "aliquot_ready").await == Some(1.0));
                }
            });
        }
        Self { losses, tasks }
    }

    /// Number of nodes that stopped.
    pub(crate) fn lost(&self) -> f64 {
        self.losses.load(Ordering::Relaxed) as f64
    }
}

impl Drop for NodeWatch {
    fn drop(&mut self) {
        self.tasks.abort_all();
    }
}

/// Processor and memory that each node used over some time.
pub(crate) struct Usage(Vec<Option<Used>>);

impl Usage {
    /// As it is now; of a node that does not run, nothing.
    pub(crate) fn now(bed: &TestBed) -> Self {
        Self((0..NODES).map(|index| bed.used(index).ok()).collect())
    }

    /// Cores in use since then, of each node that runs.
    pub(crate) fn cores(&self, bed: &TestBed) -> Vec<f64> {
        let later = Self::now(bed);
        let pairs = self.0.iter().zip(&later.0);
        let cores = pairs.filter_map(|(then, now)| Some((*then)?.cores_until((*now)?)));
        cores.collect()
    }

    /// Their mean.
    pub(crate) fn mean_cores(&self, bed: &TestBed) -> f64 {
        mean(&self.cores(bed))
    }
}

/// The columns of [`longest_turn_ms`].
pub(crate) const TURN_COLUMNS: [(&str, usize); 2] = [
    ("longest turn of a node's loop by the clock, ms", 0),
    ("most processor time of a turn, ms", 0),
];

/// Longest time, in milliseconds, for which the loop that renews leases was held on one of these nodes in the last
/// minute or two, and the most processor time that a turn took. Nodes that do not run have none.
pub(crate) async fn longest_turn_ms(bed: &TestBed, nodes: impl Iterator<Item = usize>) -> [f64; 2] {
    let mut longest = [f64::NAN; 2];
    for node in nodes {
        for (longest, figure) in longest.iter_mut().zip(["held", "worked"]) {
            let figure = format!("aliquot_loop_{figure}_seconds_max");
            let secs = bed.figure(node, &figure).await;
            *longest = longest.max(1e3 * secs.unwrap_or(f64::NAN));
        }
    }
    longest
}

/// The mean, not a number of nothing.
pub(crate) fn mean(figures: &[f64]) -> f64 {
    figures.iter().sum::<f64>() / figures.len() as f64
}

/// The mean resident memory of the nodes, in bytes.
pub(crate) fn resident(bed: &TestBed) -> io::Result<f64> {
    let all: io::Result<Vec<f64>> = (0..NODES).map(|index| bed.resident(index)).collect();
    Ok(mean(&all?))
}

/// Tells what was reached.
pub(crate) fn print_progress(text: impl Display) {
    eprintln!("    {text}");
}

/// Seconds since then.
pub(crate) fn secs_since(then: Tick) -> f64 {
    ms(now().since(then)) / 1e3
}

/// Outcomes of the first uses of keys.
pub(crate) struct FirstUses {
    pub(crate) limiters: Vec<Limiter>,
    pub(crate) waits_ms: Samples,
    pub(crate) secs: f64,
    /// Keys that were not admitted before time was up.
    pub(crate) missing: u64,
}

/// Uses new keys, `at_once` at a time, until each was admitted once or `within_secs` are over. Key n is
/// client n's, modulo the clients.
pub(crate) async fn use_first(
    fleet: &Fleet,
    keys: std::ops::Range<u64>,
    at_once: usize,
    within_secs: u64,
) -> Result<FirstUses, Failed> {
    let next = Arc::new(AtomicU64::new(keys.start));
    let over = Arc::new(AtomicBool::new(false));
    let begun = now();
    let mut tasks = JoinSet::new();
    for _ in 0..at_once {
        let (next, over) = (Arc::clone(&next), Arc::clone(&over));
        let (clients, end) = (fleet.clients.clone(), keys.end);
        tasks.spawn(async move {
            let mut used = Vec::new();
            while !over.load(Ordering::Relaxed) {
                let key = next.fetch_add(1, Ordering::Relaxed);
                if key >= end {
                    break;
                }
                let client = &clients[usize::try_from(key).unwrap_or(0) % clients.len()];
                let Ok(limiter) = client.limiter(&format!("many/{key}")) else {
                    break;
                };
                let asked = now();
                let mut admitted = false;
                while !admitted && !over.load(Ordering::Relaxed) {
                    let asked = timeout(ASKED_FOR, limiter.acquire(1)).await;
                    admitted = asked.is_ok_and(|answer| answer.is_ok());
                    // A refusal may come at once, and callers that never wait leave no time to anybody.
                    if !admitted {
                        pass(5).await;
                    }
                }
                if admitted {
                    used.push((limiter, ms(now().since(asked))));
                }
            }
            used
        });
    }
    let mut used = Vec::new();
    let end = tokio::time::sleep(Duration::from_secs(within_secs));
    tokio::pin!(end);
    loop {
        tokio::select! {
            more = tasks.join_next() => match more {
                Some(more) => used.extend(more?),
                None => break,
            },
            // A late limiter returns the times that it has.
            () = &mut end, if !over.load(Ordering::Relaxed) => over.store(true, Ordering::Relaxed),
        }
    }
    let secs = secs_since(begun);
    print_progress(format_args!("{} new keys after {secs:.1} s", used.len()));
    let (limiters, waits): (Vec<Limiter>, Vec<f64>) = used.into_iter().unzip();
    Ok(FirstUses {
        missing: (keys.end - keys.start).saturating_sub(limiters.len() as u64),
        limiters,
        waits_ms: Samples::of(waits),
        secs,
    })
}

/// Asks each limiter for a token until it was given one, and says when half of them, 99 of a hundred and all were, in
/// seconds; not a number for what did not come in time.
///
/// All are asked at once, and one that refused is asked again after [`ASKED_AGAIN`]. These questions are spread evenly
/// over that time, as those of many callers are: a million questions without a pause would keep a core busy and all
/// sessions waiting.
pub(crate) async fn until_all_admit(
    fleet: &Fleet,
    limiters: &[Limiter],
    within_secs: u64,
) -> [f64; 3] {
    let parts = usize::try_from(ASKED_AGAIN.as_millis() / PART_EVERY.as_millis()).unwrap_or(1);
    let part = |number: usize| limiters.iter().skip(number).step_by(parts).collect();
    let mut waiting: Vec<Vec<&Limiter>> = (0..parts).map(part).collect();
    let mut left = limiters.len();
    let mut times = [f64::NAN; 3];
    let marks = [limiters.len() / 2, limiters.len() / 100, 0];
    let (begun, mut told) = (now(), 0.0);
    let mut every = tokio::time::interval(PART_EVERY);
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for (turn, number) in (0..parts).cycle().enumerate() {
        match turn < parts {
            true => tokio::task::yield_now().await,
            false => _ = every.tick().await,
        }
        let part = &mut waiting[number];
        let before = part.len();
        part.retain(|limiter| limiter.try_acquire(1).is_err());
        left -= before - part.len();
        let secs = secs_since(begun);
        for (time, mark) in times.iter_mut().zip(marks) {
            if time.is_nan() && left <= mark {
                *time = secs;
            }
        }
        let over = left == 0 || secs > within_secs as f64;
        if over || secs - told >= TOLD_EVERY_SECS {
            told = secs;
            let leased = fleet.leased();
            print_progress(format_args!(
                "{left} were not admitted after {secs:.1} s; {leased} of {} clients have leases",
                fleet.clients.len()
            ));
        }
        if over {
            break;
        }
    }
    if left > 0 {
        print_refusals(waiting.into_iter().flatten());
    }
    times
}

/// Tells of how many keys the limiters are that still refuse, and why they do.
fn print_refusals<'a>(limiters: impl Iterator<Item = &'a Limiter>) {
    let (mut keys, mut reasons) = (BTreeMap::new(), BTreeMap::new());
    for limiter in limiters {
        if let Err(refused) = limiter.try_acquire(1) {
            *reasons.entry(format!("{:?}", refused.reason)).or_insert(0) += 1;
            *keys.entry(limiter.key()).or_insert(0) += 1;
        }
    }
    let most = keys.values().max().copied().unwrap_or(0);
    print_progress(format_args!(
        "{} keys are refused, one of them to {most} clients",
        keys.len()
    ));
    for (reason, count) in reasons {
        print_progress(format_args!("{count} times: {reason}"));
    }
}

/// Limiters that hold something.
pub(crate) fn held(limiters: &[Limiter]) -> f64 {
    limiters.iter().filter(|it| it.peek().rate > 0).count() as f64
}
