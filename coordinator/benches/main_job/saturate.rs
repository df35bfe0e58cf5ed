//! Throughput of reports with 1,000 keys at one node, compared with an echo of the same messages in the
//! same run.

use crate::echo::{Echo, RetryPolicy};
use crate::raw::{Raw, grains};
use crate::table::{Samples, Table, tenths};
use crate::test_bed::{TestBed, now, own_use, rate};
use crate::{Failed, Outcome};
use aliquot_coordinator::demo::cluster::NODES;
use aliquot_core::unit::{Span, Tick};
use aliquot_wire::Wire;
use aliquot_wire::pb;
use aliquot_wire::pb::client_message::Kind;
use bytes::Bytes;
use prost::Message;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tonic::Streaming;

const KEYS: usize = 1_000;
const SESSIONS: usize = 4;

/// Demand of each session for each key, in tokens per second: less than the limit.
const DEMAND: u64 = 100;

/// Number of reports under way: one travels while another is answered.
const WINDOW: u64 = 2;

/// Number of reports, each followed by this much silence, after which every session has the tokens that
/// it wants.
const WARM_UP: u64 = 30;
const SILENCE: Duration = Duration::from_millis(100);

/// Length of a run. These sessions return nothing. If demand varies, a node tolerates that for a lease,
/// which is longer than this.
const RUN: Span = Span::from_secs(2);
const RUNS: usize = 5;

/// Messages of one session. Only the head changes.
struct Stream {
    sender: mpsc::Sender<pb::ClientMessage>,
    incoming: Streaming<pb::NodeMessage>,
    head: pb::Report,
    /// Encoded lines, and the same lines with another demand.
    lines: [Bytes; 2],
}

/// Demand in successive messages: always the same, or alternating between two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Steady {
    Same,
    Wobble,
}

/// The server that answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Node,
    Echo,
}

/// The fields that are decoded from an answer.
#[derive(Clone, PartialEq, Message)]
struct Head {
    #[prost(message, optional, tag = "2")]
    number: Option<pb::Heard>,
    #[prost(uint64, tag = "3")]
    answers: u64,
    #[prost(uint64, tag = "4")]
    lease_ns: u64,
}

#[derive(Clone, PartialEq, Message)]
struct Echoed {
    #[prost(uint64, tag = "2")]
    seq: u64,
}

pub(crate) async fn run() -> Outcome {
    let budget = rate("full/*", 1_000, 1_000);
    let bed = TestBed::start(std::slice::from_ref(&budget)).await?;
    let follower = (bed.leader().await? + 1) % NODES;
    let echoes = [
        Echo::start(RetryPolicy::Bytes).await?,
        Echo::start(RetryPolicy::Lines).await?,
    ];
    let want = grains(&budget, DEMAND);
    let mut bytes = 0;
    let mut rates = [const { Samples::new() }; 4];
    let (mut cores, mut own) = (Samples::new(), Samples::new());
    for _ in 0..RUNS {
        // Opened for each run and used at once, because their leases end while an echo is measured.
        let mut streams = Vec::new();
        for raw in warm(&bed.address(follower), want).await? {
            streams.push(Stream::of(raw, want)?);
        }
        bytes = streams[0].lines[0].len();
        for (steady, rates) in [Steady::Same, Steady::Wobble]
            .into_iter()
            .zip(&mut rates[2..])
        {
            let (used, mine) = (bed.used(follower)?, own_use()?);
            let (back, keys) = pump(streams, steady, Who::Node).await?;
            streams = back;
            rates.add(keys);
            cores.add(used.cores_until(bed.used(follower)?));
            own.add(mine.cores_until(own_use()?));
        }
        for (echo, rates) in echoes.iter().zip(&mut rates) {
            let echoed = echoing(&echo.address, &streams[0]).await?;
            let (echoed, keys) = pump(echoed, Steady::Same, Who::Echo).await?;
            drop(echoed);
            rates.add(keys);
        }
    }
    show(&rates, bytes);
    println!(
        "\nthe node used {:.2} cores, this process {:.2}, medians",
        cores.percentile(50),
        own.percentile(50)
    );
    Ok(())
}

fn show(rates: &[Samples], bytes: usize) {
    let columns = [
        "who",
        "keys/s: median",
        "least",
        "most",
        "of the echo, bytes",
        "of the echo, lines",
    ];
    let mut table = Table::new(&columns);
    let names = [
        "echo, bytes",
        "echo, lines",
        "node, same demand",
        "node, demand wobbles",
    ];
    for (name, samples) in names.into_iter().zip(rates) {
        let keys = [50, 0, 100].map(|of| format!("{:.0}", samples.percentile(of)));
        let ratio = |echo: &Samples| format!("{:.3}", samples.percentile(50) / echo.percentile(50));
        let ratios = [ratio(&rates[0]), ratio(&rates[1])];
        table.row([name.to_owned()].into_iter().chain(keys).chain(ratios));
    }
    table.show(&format!(
        "saturate: {SESSIONS} sessions, {KEYS} keys and {} bytes a message",
        tenths(bytes as f64)
    ));
}

/// Opens sessions that hold the tokens they want, so that no grants move later.
async fn warm(address: &str, want: u64) -> Result<Vec<Raw>, Failed> {
    let mut tasks = JoinSet::new();
    for _ in 0..SESSIONS {
        let channel = Raw::connect(address).await?;
        tasks.spawn(async move {
            let mut raw = Raw::open(channel).await?;
            raw.intern_all((0..KEYS).map(|key| format!("full/{key}")))
                .await?;
            for _ in 0..WARM_UP {
                let report = raw.make_report(|_| Some(want))?;
                let kind = Some(Kind::Report(report.to_bytes()));
                raw.sender.send(pb::ClientMessage { kind }).await?;
                // Takes all messages: a node sends more than answers while earlier sessions end.
                while let Ok(heard) = timeout(SILENCE, raw.hear()).await {
                    heard?;
                }
            }
            Ok::<Raw, Failed>(raw)
        });
    }
    tasks.join_all().await.into_iter().collect()
}

impl Stream {
    /// Continues a session with reports whose lines stay the same.
    fn of(mut raw: Raw, want: u64) -> Result<Self, Failed> {
        let wobbled = raw.make_report(|_| Some(want + want / 100))?;
        let report = raw.make_report(|_| Some(want))?;
        let mut head = pb::Report::from(&report);
        head.lines.clear();
        // Omitted, so that the last answer that was heard counts as seen.
        head.seen = None;
        let (sender, incoming) = (raw.sender, raw.incoming);
        Ok(Self {
            sender,
            incoming,
            head,
            lines: [&report, &wobbled].map(|report| lines(&pb::Report::from(report))),
        })
    }

    fn next(&mut self, steady: Steady) -> pb::ClientMessage {
        self.head.seq += 1;
        let wobbles = steady == Steady::Wobble && self.head.seq.is_multiple_of(2);
        let mut report = self.head.encode_to_vec();
        // The fields of a message may be in any order. These follow those of the head.
        report.extend_from_slice(&self.lines[usize::from(wobbles)]);
        let kind = Some(Kind::Report(report.into()));
        pb::ClientMessage { kind }
    }

    /// Takes an answer. Returns the number of the report that it answers.
    fn take(&mut self, message: pb::NodeMessage, who: Who) -> Result<Option<u64>, Failed> {
        let Some(pb::node_message::Kind::Answer(answer)) = message.kind else {
            return Ok(None);
        };
        if who == Who::Echo {
            return Ok(Some(Echoed::decode(answer)?.seq));
        }
        let answer = Head::decode(answer)?;
        if answer.lease_ns == 0 {
            return Err("the node gives a session no lease any more".into());
        }
        self.head.heard = answer.number;
        Ok(Some(answer.answers))
    }

    /// Sends reports and takes answers until `end`, and then waits for the answers under way. Returns
    /// the number of reports that were answered.
    async fn pump(&mut self, steady: Steady, who: Who, end: Tick) -> Result<u64, Failed> {
        let (first, mut answered) = (self.head.seq, self.head.seq);
        while now() < end || answered < self.head.seq {
            while now() < end && self.head.seq < answered + WINDOW {
                let message = self.next(steady);
                self.sender.send(message).await?;
            }
            let message = self.incoming.message().await?;
            let message = message.ok_or("a stream ended")?;
            answered = self.take(message, who)?.unwrap_or(answered).max(answered);
        }
        Ok(answered - first)
    }
}

/// Encodes only the lines of a report.
fn lines(report: &pb::Report) -> Bytes {
    let alone = pb::Report {
        lines: report.lines.clone(),
        ..pb::Report::default()
    };
    alone.encode_to_vec().into()
}

/// Opens streams with the same messages to an echo server.
async fn echoing(address: &str, like: &Stream) -> Result<Vec<Stream>, Failed> {
    let mut streams = Vec::new();
    for _ in 0..SESSIONS {
        let raw = Raw::open(Raw::connect(address).await?).await?;
        streams.push(Stream {
            sender: raw.sender,
            incoming: raw.incoming,
            head: like.head.clone(),
            lines: like.lines.clone(),
        });
    }
    Ok(streams)
}

/// Runs all streams at once. Returns the keys answered per second.
async fn pump(
    streams: Vec<Stream>,
    steady: Steady,
    who: Who,
) -> Result<(Vec<Stream>, f64), Failed> {
    let begun = now();
    let mut tasks = JoinSet::new();
    for mut stream in streams {
        tasks.spawn(async move {
            let answered = stream.pump(steady, who, begun.after(RUN)).await?;
            Ok::<_, Failed>((stream, answered))
        });
    }
    let (mut streams, mut sum) = (Vec::new(), 0);
    for ended in tasks.join_all().await {
        let (stream, answered) = ended?;
        streams.push(stream);
        sum += answered;
    }
    let secs = now().since(begun).nanos() as f64 / 1e9;
    Ok((streams, (sum * KEYS as u64) as f64 / secs))
}
