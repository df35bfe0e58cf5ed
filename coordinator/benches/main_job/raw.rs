//! Sessions without the client around them: the core's state machine and a stream. Thousands of them
//! fit beside the measured node.

use crate::Failed;
use crate::test_bed::now;
use aliquot_core::budget::{BudgetDraft, Claim, Key};
use aliquot_core::client::Client;
use aliquot_core::demand::DemandCurve;
use aliquot_core::message::{BandDemand, Report, ReportLine};
use aliquot_core::unit::{Band, BudgetId, Weight};
use aliquot_wire::Wire;
use aliquot_wire::limits::MESSAGE_BYTES_MAX;
use aliquot_wire::pb;
use aliquot_wire::pb::session_client::SessionClient;
use aliquot_wire::session::{ClientMessage, NodeMessage, SessionOpen};
use std::collections::BTreeMap;
use std::io;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::transport::{Channel, Endpoint};

/// Number of queued reports from which further ones are skipped.
const QUEUE: usize = 16;

/// One session.
pub(crate) struct Raw {
    pub(crate) machine: Client,
    pub(crate) sender: mpsc::Sender<pb::ClientMessage>,
    pub(crate) incoming: Streaming<pb::NodeMessage>,
    names: BTreeMap<Key, BudgetId>,
}

impl Raw {
    /// Opens a connection for one or more sessions.
    pub(crate) async fn connect(address: &str) -> Result<Channel, Failed> {
        let endpoint = Endpoint::from_shared(format!("http://{address}"))?;
        Ok(endpoint.tcp_nodelay(true).connect().await?)
    }

    /// Opens a session.
    pub(crate) async fn open(channel: Channel) -> Result<Self, Failed> {
        let (sender, outgoing) = mpsc::channel(QUEUE);
        let open = ClientMessage::Open(SessionOpen::default());
        sender.send(open.to_message()).await?;
        let mut client = SessionClient::new(channel)
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX);
        let response = client.open(ReceiverStream::new(outgoing)).await?;
        let mut incoming = response.into_inner();
        let NodeMessage::Opened(opened) = next(&mut incoming).await? else {
            return Err("the first answer must be to the open".into());
        };
        let mut machine = Client::new(opened.drift);
        machine.open(opened.edge, now());
        Ok(Self {
            machine,
            sender,
            incoming,
            names: BTreeMap::new(),
        })
    }

    /// Claims a key, once its budget exists.
    pub(crate) async fn intern(&mut self, key: &str) -> Result<BudgetId, Failed> {
        let budgets = self.intern_all([key.to_owned()]).await?;
        Ok(budgets[0])
    }

    /// Claims keys, once their budgets exist.
    pub(crate) async fn intern_all(
        &mut self,
        keys: impl IntoIterator<Item = String>,
    ) -> Result<Vec<BudgetId>, Failed> {
        let keys = self.ask_names(keys).await?;
        while !keys.iter().all(|key| self.names.contains_key(key)) {
            self.hear().await?;
        }
        Ok(keys.iter().map(|key| self.names[key]).collect())
    }

    /// Asks for the names of keys. Each key is claimed when it has a name.
    pub(crate) async fn ask_names(
        &mut self,
        keys: impl IntoIterator<Item = String>,
    ) -> Result<Vec<Key>, Failed> {
        let keys: Vec<Key> = keys
            .into_iter()
            .map(Key::try_from)
            .collect::<Result<_, _>>()?;
        self.sender
            .send(ClientMessage::Intern(keys.clone()).to_message())
            .await?;
        Ok(keys)
    }

    /// Takes the node's next message.
    pub(crate) async fn hear(&mut self) -> Result<(), Failed> {
        let message = next(&mut self.incoming).await?;
        self.take(message);
        Ok(())
    }

    /// Takes a message of the node. A request to move is ignored.
    pub(crate) fn take(&mut self, message: NodeMessage) {
        match message {
            NodeMessage::Answer(answer) => self.machine.handle_answer(&answer, now()),
            NodeMessage::Interned(names) => {
                for name in names {
                    if let Ok(budget) = name.budget {
                        self.machine.claim(budget, Claim::default(), now());
                        self.names.insert(name.key, budget);
                    }
                }
            }
            NodeMessage::Opened(_)
            | NodeMessage::Move(_)
            | NodeMessage::DecisionReply(_)
            | NodeMessage::Members(_) => {}
        }
    }

    /// Reports the session's demand.
    pub(crate) async fn report(&mut self) -> Result<(), Failed> {
        let report = self.make_report(|_| None)?;
        self.sender
            .send(ClientMessage::Report(report).to_message())
            .await?;
        Ok(())
    }

    /// Returns the next report. For each budget it has the demand of one claimant with a weight of one,
    /// in the budget's grains per second. `None` keeps the demand that the state machine observed.
    pub(crate) fn make_report(
        &mut self,
        mut demand: impl FnMut(BudgetId) -> Option<u64>,
    ) -> Result<Report, Failed> {
        let report = self.machine.report(now(), 0);
        let mut report = report.ok_or("the session's edge is closed")?;
        // The state machine sees no callers, so a line is added for every key, as if all were in use.
        for (budget, _) in self.machine.allotments() {
            let has_line = report.lines.iter().any(|line| line.budget == budget);
            if !has_line && demand(budget).is_some() {
                report.lines.push(ReportLine::empty(budget));
            }
        }
        for line in &mut report.lines {
            if let Some(demand) = demand(line.budget) {
                let curve = DemandCurve::of(demand, Weight::default());
                let band = Band::default();
                line.demand = vec![BandDemand { band, curve }];
            }
        }
        Ok(report)
    }

    /// Waits until the session holds a part of a budget.
    pub(crate) async fn is_given(&mut self, budget: BudgetId) -> Result<(), Failed> {
        while !self.holds(budget) {
            self.hear().await?;
        }
        Ok(())
    }

    /// Returns true if the session holds a part of a budget.
    pub(crate) fn holds(&self, budget: BudgetId) -> bool {
        let holder = self.machine.holder();
        holder.is_some_and(|holder| !holder.holding(budget).is_zero())
    }
}

/// Returns the node's next message.
pub(crate) async fn next(incoming: &mut Streaming<pb::NodeMessage>) -> Result<NodeMessage, Failed> {
    let message = incoming.message().await?;
    let message = message.ok_or_else(|| io::Error::other("the node ended the stream"))?;
    Ok(NodeMessage::from_message(message)?)
}

/// Converts tokens of a budget to grains.
pub(crate) fn grains(budget: &BudgetDraft, tokens: u64) -> u64 {
    let budget = budget.clone().validate();
    let budget = budget.unwrap_or_else(|errors| panic!("the bench's own budget: {errors:?}"));
    budget.scale().grains_per_token() * tokens
}
