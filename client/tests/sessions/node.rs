//! A coordinator node in this process: the core's own state machine behind a real gRPC server, with a leader
//! that grants what the test says.

use aliquot_client::clock::{HostClock, SharedClock};
use aliquot_core::budget::{Budget, BudgetDraft, Key};
use aliquot_core::central::{DecisionReply, DecisionRequest};
use aliquot_core::command::Command;
use aliquot_core::edge::Vector;
use aliquot_core::message::{Answer, AnswerLine, Heard, Intent, Report, Terms, Verdict};
use aliquot_core::node::{Node, NodeOutput, RequestAction};
use aliquot_core::share::Kind;
use aliquot_core::state::State;
use aliquot_core::unit::{
    BudgetId, Drift, Incarnation, NodeId, Number, PeriodId, RequestId, Span, Term, Tokens,
};
use aliquot_wire::Wire;
use aliquot_wire::pb;
use aliquot_wire::session::{
    ClientMessage, Interned, KeyRefusal, NodeMessage, SessionOpen, SessionOpened,
};
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tokio_stream::{Stream, StreamExt};
use tonic::transport::server::Connected;
use tonic::{Request, Response, Status, Streaming};

type Outgoing = mpsc::Sender<Result<pb::NodeMessage, Status>>;

/// The node's behaviour, and what it observed.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) node: Node,
    clock: SharedClock,
    budgets: BTreeMap<Key, (BudgetId, Budget)>,
    sessions: BTreeMap<Incarnation, Outgoing>,
    answers: u64,
    /// True if the leader renews the node's lease.
    pub(crate) renewing: bool,
    /// True if streams are refused.
    pub(crate) down: bool,
    /// True if no report is answered.
    pub(crate) mute: bool,
    /// True if answers stay under way: in `under_way`, in their order.
    pub(crate) slow: bool,
    under_way: Vec<Answer>,
    /// Set while new streams wait for the reply to their open.
    pub(crate) opens_late: bool,
    /// Number of streams that have waited for it.
    pub(crate) late: u64,
    pub(crate) lease: Span,
    /// Number of reports.
    pub(crate) reports: u64,
    /// The latest report.
    pub(crate) last: Option<Report>,
    pub(crate) leaves: u64,
    pub(crate) opens: Vec<SessionOpen>,
    /// Content of the log: all budgets belong to this node.
    state: State,
    /// True if verdicts are kept back in `kept`.
    pub(crate) silent: bool,
    kept: Vec<DecisionReply>,
    /// Questions, including repeated ones.
    pub(crate) asked: Vec<DecisionRequest>,
    pub(crate) releases: u64,
    /// Set while all budgets are still being made.
    pub(crate) unmade: bool,
    /// The reason for which keys are refused, if they are.
    pub(crate) refuses: Option<KeyRefusal>,
    /// The addresses of the cluster's members.
    members: Vec<String>,
    /// The keys whose names it was asked for, one list per message.
    pub(crate) interned: Vec<Vec<Key>>,
}

/// A node in this process.
#[derive(Clone, Debug)]
pub(crate) struct FakeNode {
    pub(crate) address: String,
    pub(crate) inner: Arc<Mutex<Inner>>,
}

pub(crate) fn budget(key: &str, fill: impl FnOnce(&mut BudgetDraft)) -> Budget {
    let mut draft = BudgetDraft {
        key: key.into(),
        ..BudgetDraft::default()
    };
    fill(&mut draft);
    draft.validate().expect("a valid budget")
}

/// A rate with a burst of the same size.
pub(crate) fn rate(key: &str, per_sec: u64) -> Budget {
    budget(key, |draft| {
        draft.rate = Some(format!("{per_sec}/s").into());
        draft.burst = Some(per_sec.to_string().into());
    })
}

impl FakeNode {
    /// Starts a node of this incarnation that serves these budgets, all of them its own.
    pub(crate) async fn start(incarnation: u64, budgets: Vec<Budget>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address").to_string();
        let node = Self::new(address, incarnation, budgets, Arc::new(HostClock));
        node.serve(TcpListenerStream::new(listener), Duration::from_millis(5));
        node
    }

    /// Makes a node of this incarnation that serves these budgets, by this clock.
    pub(crate) fn new(
        address: String,
        incarnation: u64,
        budgets: Vec<Budget>,
        clock: SharedClock,
    ) -> Self {
        let state = log(incarnation, &budgets);
        let budgets = budgets.into_iter().map(|budget| {
            let key = Key::try_from(budget.key().as_str()).expect("an exact key");
            let id = state.budget_of(&key).expect("a budget of the log");
            (key, (id, budget))
        });
        let inner = Inner {
            node: Node::new(Incarnation::new(incarnation), Drift::default()),
            clock,
            budgets: budgets.collect::<BTreeMap<_, _>>(),
            sessions: BTreeMap::new(),
            answers: 0,
            renewing: true,
            down: false,
            mute: false,
            slow: false,
            under_way: Vec::new(),
            opens_late: false,
            late: 0,
            lease: Span::from_millis(1_500),
            reports: 0,
            last: None,
            leaves: 0,
            opens: Vec::new(),
            state,
            silent: false,
            kept: Vec::new(),
            asked: Vec::new(),
            releases: 0,
            unmade: false,
            refuses: None,
            members: Vec::new(),
            interned: Vec::new(),
        };
        Self {
            address,
            inner: Arc::new(Mutex::new(inner)),
        }
    }

    /// Serves these connections, and acts by itself at this interval.
    pub(crate) fn serve<S, C>(&self, incoming: S, every: Duration)
    where
        S: Stream<Item = std::io::Result<C>> + Send + 'static,
        C: Connected + tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin + 'static,
    {
        let service = pb::session_server::SessionServer::new(self.clone());
        tokio::spawn(
            tonic::transport::Server::builder()
                .add_service(service)
                .serve_with_incoming(incoming),
        );
        let pumped = self.clone();
        tokio::spawn(async move {
            loop {
                pumped.with(Inner::pump);
                tokio::time::sleep(every).await;
            }
        });
    }

    pub(crate) fn with<R>(&self, act: impl FnOnce(&mut Inner) -> R) -> R {
        act(&mut self.inner.lock().expect("no test panics in here"))
    }

    /// Ends all streams, and refuses new ones while it is down.
    pub(crate) fn cut(&self, down: bool) {
        self.with(|inner| {
            inner.down = down;
            inner.sessions.clear();
        });
    }

    /// Tells all clients to move to another node.
    pub(crate) fn send_away(&self, address: &str) {
        self.with(|inner| {
            for outgoing in inner.sessions.values() {
                let message = NodeMessage::Move(address.into()).to_message();
                let _ = outgoing.try_send(Ok(message));
            }
        });
    }
}

impl Inner {
    /// Tells the clients that want it the members of the cluster, now and when they open a session.
    pub(crate) fn set_members(&mut self, addresses: &[&str]) {
        self.members = addresses
            .iter()
            .map(|&address| address.to_owned())
            .collect();
        for outgoing in self.sessions.values() {
            let message = NodeMessage::Members(self.members.clone()).to_message();
            let _ = outgoing.try_send(Ok(message));
        }
    }

    /// Passes messages between the leader and the node, and between the node and its clients.
    fn pump(&mut self) {
        let now = self.clock.now();
        if self.renewing
            && let Some(report) = self.node.report(now, self.clock.wall_ms())
        {
            self.answers += 1;
            // Returned capacity is granted again.
            let returned = |id: &BudgetId| {
                let line = report.lines.iter().find(|line| line.budget == *id);
                line.map_or(Vector::ZERO, |line| Vector {
                    spent: Tokens::ZERO,
                    ..line.returned
                })
            };
            let lines = self.budgets.values().map(|(id, budget)| AnswerLine {
                budget: *id,
                period: PeriodId::new(u64::from(budget.kind() == Kind::Quota)),
                given: whole(budget).plus(returned(id)).expect("a few lapses"),
                target: Vector::ZERO,
                terms: Terms::from(budget),
                rest: None,
            });
            let answer = Answer {
                edge: report.edge,
                number: Heard {
                    term: Term::new(1),
                    number: Number::new(self.answers),
                },
                answers: report.seq,
                taken: report.seq,
                lease: self.lease,
                verdict: Verdict::Open,
                lines: lines.collect(),
            };
            self.node.handle_answer(&answer, now);
        }
        self.node.tick(now);
        self.deliver();
    }

    fn deliver(&mut self) {
        for output in self.node.poll_outputs() {
            let NodeOutput::Answer(answer) = output else {
                continue;
            };
            self.under_way.push(answer);
        }
        if self.slow {
            return;
        }
        for answer in std::mem::take(&mut self.under_way) {
            let to = self.sessions.get(&answer.edge.child);
            if let Some(outgoing) = to.filter(|_| !self.mute) {
                let _ = outgoing.try_send(Ok(NodeMessage::Answer(answer).to_message()));
            }
        }
    }

    fn names(&self, keys: &[Key]) -> Vec<Interned> {
        let name = |key: &Key| Interned {
            key: key.clone(),
            budget: match (self.budgets.get(key), self.refuses) {
                _ if self.unmade => Err(KeyRefusal::NotYet),
                (_, Some(reason)) => Err(reason),
                (Some((id, _)), None) => Ok(*id),
                (None, None) => Err(KeyRefusal::NoRule),
            },
        };
        keys.iter().map(name).collect()
    }

    fn open(&mut self, open: SessionOpen, outgoing: Outgoing) -> Option<Incarnation> {
        let now = self.clock.now();
        self.node.tick(now);
        let held = open.resume.filter(|edge| {
            edge.parent == self.node.incarnation() && self.node.ledger().child(edge.child).is_some()
        });
        let edge = match held {
            Some(edge) => edge,
            None => self.node.open_session(now)?,
        };
        let opened = SessionOpened {
            edge,
            drift: Drift::default(),
            report_every: Span::from_millis(50),
            keys: self.names(&open.keys),
        };
        let _ = outgoing.try_send(Ok(NodeMessage::Opened(opened).to_message()));
        if open.wants_members && !self.members.is_empty() {
            let message = NodeMessage::Members(self.members.clone()).to_message();
            let _ = outgoing.try_send(Ok(message));
        }
        self.opens.push(open);
        self.sessions.insert(edge.child, outgoing);
        Some(edge.child)
    }

    fn hear(&mut self, client: Incarnation, message: ClientMessage) {
        match message {
            ClientMessage::Open(_) => panic!("a session is opened once"),
            ClientMessage::Intern(keys) => {
                let names = NodeMessage::Interned(self.names(&keys)).to_message();
                self.interned.push(keys);
                if let Some(outgoing) = self.sessions.get(&client) {
                    let _ = outgoing.try_send(Ok(names));
                }
            }
            ClientMessage::Report(report) => {
                self.reports += 1;
                self.last = Some(report.clone());
                self.leaves += u64::from(report.intent == Intent::Leave);
                self.node.handle_report(&report, self.clock.now());
                self.pump();
            }
            ClientMessage::DecisionRequest(ask) => {
                self.asked.push(ask);
                match self.node.handle_ask(&ask, &self.state, self.clock.now()) {
                    RequestAction::Reply(reply) if self.silent => self.kept.push(reply),
                    RequestAction::Reply(reply) => self.tell(reply),
                    RequestAction::Forward { .. } => panic!("this node is the home of all"),
                }
            }
            ClientMessage::Release(release) => {
                self.releases += 1;
                self.node.handle_release(&release, self.clock.now());
            }
        }
    }

    fn tell(&self, reply: DecisionReply) {
        if let Some(outgoing) = self.sessions.get(&reply.edge.child) {
            let _ = outgoing.try_send(Ok(NodeMessage::DecisionReply(reply).to_message()));
        }
    }

    /// Sends the verdicts that were kept back.
    pub(crate) fn speak(&mut self) {
        self.silent = false;
        for reply in std::mem::take(&mut self.kept) {
            self.tell(reply);
        }
    }

    /// Returns true if a client holds a part of a key's budget by the node's book.
    pub(crate) fn has_given(&self, key: &str) -> bool {
        let account = self.node.account(self.id(key));
        account.is_some_and(|account| !account.held().is_zero())
    }

    /// Returns the id of a key's budget.
    pub(crate) fn id(&self, key: &str) -> BudgetId {
        self.budgets[&Key::try_from(key).expect("a key")].0
    }
}

/// Returns a log in which the node of this incarnation holds all of these budgets.
fn log(incarnation: u64, budgets: &[Budget]) -> State {
    let mut state = State::new();
    let joins = (1..=incarnation).map(|id| Command::Join {
        node: NodeId::new(id),
        request: RequestId::new(id),
    });
    let rules = budgets
        .iter()
        .zip(incarnation + 1..)
        .map(|(budget, id)| Command::PutRule {
            request: RequestId::new(id),
            budget: budget.clone(),
            creator: Some(Incarnation::new(incarnation)),
        });
    for (command, index) in joins.chain(rules).zip(1..) {
        state.apply(index, Some(&command));
    }
    state
}

/// Returns the whole of a budget, full, with its floor as often as it fits.
fn whole(budget: &Budget) -> Vector {
    let limit = budget.whole();
    let mut given = Vector::of(limit);
    if budget.kind() == Kind::Rate && !budget.floor().is_empty() {
        given.floor_rate = limit.rate;
        given.floor_burst = limit.burst;
    }
    if budget.kind() == Kind::Rate {
        given.tokens = limit.burst;
    }
    given
}

#[tonic::async_trait]
impl pb::session_server::Session for FakeNode {
    type OpenStream = Pin<Box<dyn Stream<Item = Result<pb::NodeMessage, Status>> + Send>>;

    async fn open(
        &self,
        request: Request<Streaming<pb::ClientMessage>>,
    ) -> Result<Response<Self::OpenStream>, Status> {
        if self.with(|inner| inner.down) {
            return Err(Status::unavailable("down"));
        }
        let mut incoming = request.into_inner();
        let first = incoming.next().await;
        let first = first.ok_or_else(|| Status::invalid_argument("no open"))??;
        let Ok(ClientMessage::Open(open)) = ClientMessage::from_message(first) else {
            return Err(Status::invalid_argument("no open"));
        };
        let is_late = |inner: &mut Inner| inner.opens_late;
        self.with(|inner| inner.late += u64::from(inner.opens_late));
        while self.with(is_late) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let (outgoing, stream) = mpsc::channel(1_024);
        let client = self.with(|inner| inner.open(open, outgoing));
        let client = client.ok_or_else(|| Status::resource_exhausted("no lives"))?;
        let node = self.clone();
        tokio::spawn(async move {
            while let Some(Ok(message)) = incoming.next().await {
                let message = ClientMessage::from_message(message).expect("an honest client");
                node.with(|inner| inner.hear(client, message));
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(stream))))
    }
}
