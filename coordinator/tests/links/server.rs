//! Servers on the loopback address, and an actor that answers every report.

use aliquot_coordinator::api::session::SessionApi;
use aliquot_coordinator::session::{
    BACKLOG, Caller, Event, Gate, GateLimits, Name, Opening, Registry, StreamEnd,
};
use aliquot_core::budget::Key;
use aliquot_core::message::{Answer, Heard, Intent, Report, Verdict};
use aliquot_core::unit::{BudgetId, Drift, Edge, Incarnation, Number, Seq, Span, Term, Tick};
use aliquot_wire::Wire;
use aliquot_wire::pb;
use aliquot_wire::pb::session_client::SessionClient;
use aliquot_wire::session::{
    ClientMessage, Interned, KeyRefusal, NodeMessage, SessionOpen, SessionOpened,
};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpSocket;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::transport::server::Router;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Code, Status, Streaming};

/// Maximum time for a condition.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    let done = tokio::time::timeout(DEADLINE, future).await;
    done.expect("the condition within its deadline")
}

/// A server that stops when this is dropped.
pub(crate) struct Serving {
    pub(crate) address: SocketAddr,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Serving {
    /// Listens at this address, or at a free one.
    pub(crate) async fn start(router: Router, at: Option<SocketAddr>) -> Self {
        let at = at.unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 0)));
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        socket.bind(at).unwrap();
        let listener = socket.listen(BACKLOG).unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let stopped = async { drop(stopped.await) };
        let incoming = TcpListenerStream::new(listener);
        let serve = router.serve_with_incoming_shutdown(incoming, stopped);
        let task = tokio::spawn(async move { serve.await.unwrap() });
        Self {
            address,
            stop,
            task,
        }
    }

    /// Stops, and waits until every stream has ended.
    pub(crate) async fn stop(self) {
        drop(self.stop);
        within(self.task).await.unwrap();
    }
}

pub(crate) fn channel(address: SocketAddr) -> Channel {
    Endpoint::from_shared(format!("http://{address}"))
        .unwrap()
        .connect_lazy()
}

/// A node with an actor that names keys by the number in them and answers every report. Its events are
/// read from `heard`.
pub(crate) struct Node {
    pub(crate) address: SocketAddr,
    pub(crate) gate: Gate,
    _serving: Serving,
    pub(crate) heard: mpsc::UnboundedReceiver<String>,
}

impl Node {
    pub(crate) async fn start(limits: GateLimits) -> Self {
        let (events, inbox) = mpsc::channel(64);
        let (tell, heard) = mpsc::unbounded_channel();
        let gate = Gate::new(events, limits);
        let service = SessionApi::new(gate.clone());
        let serving = Serving::start(Server::builder().add_service(service), None).await;
        tokio::spawn(
            Actor {
                registry: Registry::new(3),
                tell,
                incarnations: 0,
            }
            .run(inbox),
        );
        Self {
            address: serving.address,
            gate,
            _serving: serving,
            heard,
        }
    }

    pub(crate) async fn heard(&mut self) -> String {
        within(self.heard.recv()).await.unwrap()
    }
}

struct Actor {
    registry: Registry,
    tell: mpsc::UnboundedSender<String>,
    incarnations: u64,
}

pub(crate) fn named(key: &Key) -> Name {
    let digits = key
        .as_str()
        .trim_start_matches(|c: char| !c.is_ascii_digit());
    digits
        .parse()
        .map(BudgetId::new)
        .map_err(|_| KeyRefusal::NoRule)
}

impl Actor {
    async fn run(mut self, mut inbox: mpsc::Receiver<Event>) {
        while let Some(event) = inbox.recv().await {
            let receiver = match event {
                Event::Opening(opening) => self.open(*opening),
                Event::Intern { caller, keys } => {
                    let names = keys
                        .into_iter()
                        .map(|key| self.registry.intern(caller.edge.child, key, named));
                    if let Ok(names) = names.collect::<Result<Vec<Interned>, StreamEnd>>() {
                        self.registry
                            .send(caller.edge.child, NodeMessage::Interned(names));
                    }
                    "intern".into()
                }
                Event::Report { caller, report } => {
                    self.answer(&caller, &report);
                    "report".into()
                }
                Event::DecisionRequest { .. } => "ask".into(),
                Event::Release { .. } => "release".into(),
                Event::Gone { caller } => {
                    let was = self.registry.is_current(&caller);
                    self.registry.gone(&caller);
                    format!("gone {was}")
                }
            };
            let _ = self.tell.send(receiver);
        }
    }

    fn open(&mut self, opening: Opening) -> String {
        let Opening {
            stream,
            open,
            remote,
            outbox,
            reply,
        } = opening;
        let resumed = open.resume.filter(|edge| {
            let caller = Caller {
                edge: *edge,
                stream,
            };
            self.registry.resume(caller, outbox.clone(), remote.clone())
        });
        let edge = resumed.unwrap_or_else(|| {
            self.incarnations += 1;
            let edge = Edge {
                parent: Incarnation::new(1),
                child: Incarnation::new(self.incarnations),
            };
            let caller = Caller { edge, stream };
            self.registry.open(
                caller,
                outbox,
                remote,
                open.labels,
                Tick::from_nanos(self.incarnations),
            );
            edge
        });
        let keys = open
            .keys
            .into_iter()
            .filter_map(|key| self.registry.intern(edge.child, key, named).ok());
        let opened = SessionOpened {
            edge,
            drift: Drift::from_ppm(1_000).unwrap(),
            report_every: Span::from_secs(1),
            keys: keys.collect(),
        };
        reply.send(Ok(opened)).unwrap();
        format!("open {}", if resumed.is_some() { "resumed" } else { "new" })
    }

    fn answer(&self, caller: &Caller, report: &Report) {
        let answer = Answer {
            edge: caller.edge,
            number: Heard {
                term: Term::new(0),
                number: Number::new(report.seq.get()),
            },
            answers: report.seq,
            taken: report.seq,
            lease: Span::from_secs(1),
            verdict: Verdict::Open,
            lines: Vec::new(),
        };
        self.registry
            .send(caller.edge.child, NodeMessage::Answer(answer));
    }
}

/// The client's end of a session.
pub(crate) struct Peer {
    pub(crate) say: mpsc::Sender<pb::ClientMessage>,
    pub(crate) hear: Streaming<pb::NodeMessage>,
}

impl Peer {
    pub(crate) async fn call(channel: Channel) -> Result<Self, Status> {
        let (say, receiver) = mpsc::channel(4);
        let mut client = SessionClient::new(channel);
        let hear = within(client.open(ReceiverStream::new(receiver)))
            .await?
            .into_inner();
        Ok(Self { say, hear })
    }

    pub(crate) async fn open(channel: Channel, open: SessionOpen) -> (Self, SessionOpened) {
        let mut peer = Self::call(channel).await.unwrap();
        peer.say(&ClientMessage::Open(open)).await;
        let NodeMessage::Opened(opened) = peer.hear().await.unwrap() else {
            panic!("no answer to the open");
        };
        (peer, opened)
    }

    pub(crate) async fn say(&self, message: &ClientMessage) {
        self.say.send(message.to_message()).await.unwrap();
    }

    pub(crate) async fn hear(&mut self) -> Result<NodeMessage, Status> {
        let message = within(self.hear.message()).await?;
        let message = message.ok_or_else(|| Status::ok("the end"))?;
        Ok(NodeMessage::from_message(message).unwrap())
    }

    /// Reads until the stream ends, and returns its status.
    pub(crate) async fn end(&mut self) -> (Code, String) {
        loop {
            if let Err(status) = self.hear().await {
                return (status.code(), status.message().to_owned());
            }
        }
    }
}

pub(crate) fn report(edge: Edge, seq: u64) -> ClientMessage {
    ClientMessage::Report(Report {
        edge,
        seq: Seq::new(seq),
        basis: Seq::new(0),
        heard: Heard::default(),
        seen: Heard::default(),
        wall_ms: 0,
        intent: Intent::Stay,
        lines: Vec::new(),
        floors: Vec::new(),
    })
}

pub(crate) fn keys(keys: &[&str]) -> Vec<Key> {
    keys.iter()
        .map(|key| Key::try_from(*key).unwrap())
        .collect()
}
