//! A service instance: the real client library, and its callers.

use super::event_log::{Admitted, Decided, EventLog, Flight, Happened, What};
use super::host::{Host, HostClock, STEP, now};
use super::reach::{CLIENTS, Reach, name};
use crate::clock::{MS, SEC};
use crate::draw::{Draw, Of};
use crate::scenario::{Group, Shape, Verb};
use crate::world::host::Callers;
use aliquot_client::limiter::LimiterState;
use aliquot_client::{Client, Combined, Limiter, Permit, Refused};
use aliquot_core::share::{Kind, Share};
use aliquot_core::unit::{Edge, Incarnation, PeriodId, Rate, Span, Tokens};
use futures_util::FutureExt;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::task::JoinSet;

/// Interval at which a load is evaluated again if it varies or is zero at present.
const LOOK: f64 = 50.0 * MS as f64;

/// One stream of requests: all requests of an open loop, or those of one caller of a closed loop.
#[derive(Clone, Copy, Debug)]
struct Flow {
    /// Arrival of the next request, in nanoseconds of true time.
    next: f64,
    /// The key that the flow waits for, by its place among the client's, while it waits for its answer.
    busy: Option<usize>,
    /// If set, the next event sends no request and only evaluates the load again.
    rechecks: bool,
    /// The part of a regular gap that is left.
    rest: f64,
}

impl Flow {
    /// Sets the next arrival to `gap` after `from`. A long gap at a low rate must not skip over a later, higher
    /// rate: while the load varies, it ends early, and the rest is drawn again. The exponential distribution has
    /// no memory, so this does not change the arrivals; of a regular gap the rest is kept as a part.
    fn advance(&mut self, group: &Group, from: f64, gap: f64) {
        let moves = !matches!(group.shape, Shape::Constant | Shape::Pareto { .. });
        self.rechecks = moves && gap > 4.0 * LOOK;
        self.rest = match self.rechecks {
            true => self.rest * (1.0 - 4.0 * LOOK / gap),
            false => 1.0,
        };
        self.next = from + if self.rechecks { 4.0 * LOOK } else { gap };
    }
}

/// The part of a client host that changes as processes start and stop.
#[derive(Debug, Default)]
pub(super) struct Inner {
    pub(super) process: u32,
    pub(super) up: bool,
    /// The limiters of the keys that were used, by the indices of their keys.
    pub(super) limiters: BTreeMap<usize, Limiter>,
    flows: Vec<Flow>,
    tasks: JoinSet<()>,
    callers: Callers,
    waiting: u64,
}

/// A key that a client uses.
#[derive(Debug)]
pub(super) struct UsedKey {
    /// Index among the keys that clients use.
    pub(super) index: usize,
    pub(super) name: String,
    pub(super) kind: Kind,
}

/// A client host: the part of a client that outlives its processes.
#[derive(Debug)]
pub(super) struct ClientHost {
    /// Its number among the clients.
    pub(super) number: usize,
    /// Its place among the clients of its group, from 0 to below 1.
    pub(super) part: f64,
    pub(super) host: Arc<Host>,
    pub(super) reach: Reach,
    pub(super) nodes: usize,
    pub(super) home: usize,
    pub(super) seed: u64,
    /// Its keys: one, or those of its group's template.
    pub(super) keys: Vec<UsedKey>,
    /// The other key of which each request needs as much.
    pub(super) also: Option<UsedKey>,
    pub(super) group: Group,
    pub(super) event_log: EventLog,
    pub(super) inner: Mutex<Inner>,
    pub(super) session: Mutex<Option<Client>>,
    /// Process and flow of each request that was answered since the last step.
    pub(super) done: Mutex<Vec<(u32, usize)>>,
}

/// The session of a client at an inspection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Session {
    pub(super) process: u32,
    pub(super) edge: Option<Edge>,
    pub(super) leased: bool,
}

/// Runs all client hosts of one simulated machine.
pub(super) async fn machine(client_hosts: Vec<Arc<ClientHost>>) -> turmoil::Result {
    loop {
        for client_host in &client_hosts {
            client_host.step();
        }
        tokio::time::sleep(STEP).await;
    }
}

impl ClientHost {
    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a new process, which begins to work in its next step.
    pub(super) fn start(&self) {
        let mut inner = self.lock();
        inner.process += 1;
        inner.up = true;
    }

    /// Kills the process and everything that belongs to it. Returns false if there was none.
    pub(super) fn kill(&self) -> bool {
        let gone = {
            let mut inner = self.lock();
            let up = std::mem::replace(&mut inner.up, false);
            let gone = (self.session().take(), std::mem::take(&mut inner.limiters));
            (up, gone, std::mem::take(&mut inner.tasks))
        };
        self.event_log.crashes(self.number);
        gone.0
    }

    /// Returns the edge of the current session, and the time until its lease ends.
    pub(super) fn edge(&self) -> (Option<Edge>, Span) {
        let session = self.session();
        let status = session.as_ref().map(Client::status);
        let nanos = |lease: Duration| u64::try_from(lease.as_nanos()).unwrap_or(u64::MAX);
        status.map_or((None, Span::ZERO), |status| {
            let edge = status.session.map(|id| Edge {
                parent: Incarnation::new(id.node),
                child: Incarnation::new(id.client),
            });
            (edge, Span::from_nanos(nanos(status.lease)))
        })
    }

    /// Locks the client. It has a lock of its own, because a step holds the lock of [`Inner`] while it
    /// decides requests.
    pub(super) fn session(&self) -> MutexGuard<'_, Option<Client>> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn step(self: &Arc<Self>) {
        let mut inner = self.lock();
        if !inner.up {
            return;
        }
        if self.host.frozen().is_some() {
            // No caller comes while the process stands still, and none comes for that time later.
            let flows = inner.flows.iter_mut();
            flows.for_each(|flow| flow.next = flow.next.max(now() as f64));
            return;
        }
        if self.session().is_none() {
            self.begin(&mut inner);
        }
        while inner.tasks.try_join_next().is_some() {}
        self.take_back(&mut inner);
        if now() >= self.group.stop {
            return;
        }
        for flow in 0..inner.flows.len() {
            while inner.flows[flow].busy.is_none() && inner.flows[flow].next <= now() as f64 {
                self.come(&mut inner, flow);
            }
        }
    }

    /// Begins a process: builds the client, the limiter of an only key, and the callers.
    fn begin(&self, inner: &mut Inner) {
        // The configuration of a service that knows its nearest node, and learns of the others there. Only if that
        // node is down does it name all of them: a client that no node has answered knows no other.
        let others = match self.reach.is_up(self.home) {
            true => 0,
            false => self.nodes - 1,
        };
        let nodes = (0..=others).map(|node| name((self.home + node) % self.nodes, CLIENTS));
        let reach = self.reach.clone();
        let labels = self.group.labels.clone().into_iter();
        let builder = labels.fold(Client::builder(), |builder, (name, text)| {
            builder.label(name, text)
        });
        let built = builder
            .addresses(nodes)
            .clock(Arc::new(HostClock(Arc::clone(&self.host))))
            .seed(self.host.boot())
            .connector(move |address| reach.clone().session(address))
            .connect();
        // Cannot fail: the settings are fixed and valid.
        let Ok(client) = built else {
            return self.write((inner.process, 0), What::NotMade);
        };
        *self.session() = Some(client);
        if let [key] = self.keys.as_slice() {
            self.limiter(inner, key);
        }
        let begin = now().max(self.group.start) as f64 + self.group.phase as f64;
        let rate = self.rate(inner);
        let gap = if rate > 0.0 { SEC as f64 / rate } else { LOOK };
        let flows = self.group.flows.unwrap_or(1);
        (inner.waiting, inner.flows) = (0, Vec::new());
        for number in 0..flows {
            let part = match self.group.in_step {
                true => self.part + number as f64 / flows as f64,
                false => Draw::of(self.seed, Of::Arrival, self.number as u64, number).unit(),
            };
            let part = part.fract();
            let mut flow = Flow {
                next: begin,
                busy: None,
                rechecks: false,
                rest: part,
            };
            flow.advance(&self.group, begin, gap * part);
            inner.flows.push(flow);
        }
    }

    /// Returns the limiter of a key. It is made at the first use. `None` if there is no client.
    fn limiter(&self, inner: &mut Inner, key: &UsedKey) -> Option<Limiter> {
        if let Some(known) = inner.limiters.get(&key.index) {
            return Some(known.clone());
        }
        let made = self.session().as_ref()?.limiter(&key.name).ok()?;
        inner.limiters.insert(key.index, made.clone());
        Some(made)
    }

    /// Returns the number of a closed loop's callers that wait for their answer, by the index of their key.
    pub(super) fn waiting(&self) -> BTreeMap<usize, u64> {
        let inner = self.lock();
        let closed = self.group.flows.is_some() && inner.up;
        let mut waiting = BTreeMap::new();
        for place in inner.flows.iter().filter_map(|flow| flow.busy) {
            if closed {
                *waiting.entry(self.keys[place].index).or_default() += 1;
            }
        }
        waiting
    }

    fn rate(&self, inner: &mut Inner) -> f64 {
        inner
            .callers
            .rate(&self.group, now(), self.seed, self.number as u64)
    }

    fn take_back(&self, inner: &mut Inner) {
        let done = std::mem::take(&mut *self.done.lock().unwrap_or_else(PoisonError::into_inner));
        for (process, flow) in done {
            if process != inner.process {
                continue;
            }
            match self.group.flows {
                Some(_) => {
                    inner.flows[flow].busy = None;
                    self.come_again(inner, flow);
                }
                None => inner.waiting = inner.waiting.saturating_sub(1),
            }
        }
    }

    /// Handles an arrival: sends a request, unless the load is zero or was only to be evaluated.
    fn come(self: &Arc<Self>, inner: &mut Inner, flow: usize) {
        let rate = self.rate(inner);
        if rate <= 0.0 {
            let silent = self.group.silent_until(now()).unwrap_or(0) as f64;
            inner.flows[flow].next = silent.max(now() as f64 + LOOK);
            return;
        }
        let rechecks = inner.flows[flow].rechecks;
        if !rechecks {
            self.ask(inner, flow);
        }
        // In a closed loop the next request waits for the answer to this one.
        if rechecks || self.group.flows.is_none() {
            self.come_again(inner, flow);
        }
    }

    fn come_again(&self, inner: &mut Inner, flow: usize) {
        let rate = self.rate(inner).max(1e-3);
        let count = inner.callers.come();
        let mean = SEC as f64 / rate;
        let mut draw = Draw::of(self.seed, Of::Arrival, self.number as u64, count);
        let flow = &mut inner.flows[flow];
        let gap = match self.group.shape {
            Shape::Pareto { alpha } => draw.pareto(mean, alpha),
            _ if self.group.in_step => mean * flow.rest,
            _ => draw.exponential(mean),
        };
        let from = match self.group.flows {
            Some(_) => now() as f64,
            // However many requests fall into a step, all of them are made.
            None => flow.next,
        };
        flow.advance(&self.group, from, gap);
    }

    /// Sends one request. If it cannot be served at once, its caller may wait.
    fn ask(self: &Arc<Self>, inner: &mut Inner, flow: usize) {
        let (cost, closed) = (self.group.cost, self.group.flows.is_some());
        let place = inner
            .callers
            .pick_key(&self.group, self.seed, self.number as u64);
        let key = self.keys[place].index;
        let also = self.also.as_ref();
        self.write(
            (inner.process, key),
            What::Offered(also.map(|also| also.index)),
        );
        let Some(limiter) = self.limiter(inner, &self.keys[place]) else {
            return self.write((inner.process, key), What::NotMade);
        };
        if let Some(also) = also {
            return self.ask_for_both(inner, (&self.keys[place], limiter), also);
        }
        let waits = closed || inner.waiting < self.group.waiting;
        let number = inner.callers.come();
        let request = Request {
            client_host: Arc::clone(self),
            limiter,
            process: inner.process,
            place,
            flow,
            number,
        };
        let alone = self.group.verb == Verb::TryAcquire;
        if !waits && alone && request.key().kind != Kind::Concurrency {
            let outcome = request.limiter.try_acquire(cost);
            request.record_outcome(
                outcome.map(|admission| {
                    (admission.asked_at != admission.decided_at, admission.period)
                }),
            );
            return;
        }
        inner.flows[flow].busy = closed.then_some(place);
        inner.waiting += u64::from(!closed && waits);
        let mut asked = Box::pin(request.run(waits));
        if asked.as_mut().now_or_never().is_none() {
            if waits {
                self.write((inner.process, key), What::Waits);
            }
            inner.tasks.spawn(asked);
        }
    }

    /// Asks for the tokens of two budgets, or of none.
    fn ask_for_both(&self, inner: &mut Inner, first: (&UsedKey, Limiter), also: &UsedKey) {
        let process = inner.process;
        let Some(other) = self.limiter(inner, also) else {
            return self.write((process, also.index), What::NotMade);
        };
        let both = [first, (also, other)];
        let cost = self.group.cost;
        let limits = both.each_ref().map(|(key, limiter)| (&*key.name, limiter));
        match Combined::of(limits).try_acquire(cost) {
            // Periods are those of quotas.
            Ok(_) => both.iter().for_each(|(key, limiter)| {
                let admitted = self.admitted_of(limiter, PeriodId::default());
                self.write((process, key.index), What::Admitted(admitted));
            }),
            Err(refused) => self.write((process, both[refused.index].0.index), What::Refused(cost)),
        }
    }

    /// Returns what is recorded of an admission by the client itself.
    fn admitted_of(&self, limiter: &Limiter, period: PeriodId) -> Admitted {
        let (edge, lease) = self.edge();
        Admitted {
            cost: self.group.cost,
            period,
            state: limiter.peek().state,
            share: share_of(limiter),
            edge,
            lease,
        }
    }

    fn write(&self, (process, key): (u32, usize), what: What) {
        self.event_log.write([Happened::Decided(Decided {
            at: now(),
            client: self.number,
            process,
            key,
            what,
        })]);
    }
}

/// A request in progress.
struct Request {
    client_host: Arc<ClientHost>,
    limiter: Limiter,
    process: u32,
    /// Place of the key among the client's.
    place: usize,
    flow: usize,
    number: u64,
}

impl Request {
    async fn run(self, waits: bool) {
        let client_host = Arc::clone(&self.client_host);
        if self.key().kind == Kind::Concurrency {
            let permit = match (waits, client_host.group.verb) {
                (true, _) => self.limiter.permit().await,
                (false, Verb::TryAcquire) => self.limiter.try_permit(),
                (false, _) => {
                    let decision = self.limiter.decide_permit_within(Duration::MAX);
                    decision.await.outcome
                }
            };
            // A caller of a closed loop comes again at its rate, as soon as it has its permit.
            self.answered(waits);
            match permit {
                Ok(permit) => self.hold(permit).await,
                Err(refused) => self.refused(&refused),
            }
        } else {
            let cost = client_host.group.cost;
            let outcome = match waits {
                true => self.limiter.acquire(cost).await,
                false => self.limiter.check(cost).await,
            };
            self.record_outcome(
                outcome.map(|admission| {
                    (admission.asked_at != admission.decided_at, admission.period)
                }),
            );
            self.answered(waits);
        }
    }

    fn key(&self) -> &UsedKey {
        &self.client_host.keys[self.place]
    }

    fn write(&self, what: What) {
        let of = (self.process, self.key().index);
        self.client_host.write(of, what);
    }

    /// Lets the flow of a caller that waited go on.
    fn answered(&self, waited: bool) {
        if waited {
            let done = &self.client_host.done;
            let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
            done.push((self.process, self.flow));
        }
    }

    fn refused(&self, _: &Refused) {
        self.write(What::Refused(self.client_host.group.cost));
    }

    fn record_outcome(&self, outcome: Result<(bool, u64), Refused>) {
        let cost = self.client_host.group.cost;
        let what = match outcome {
            Err(refused) => return self.refused(&refused),
            Ok((true, _)) => What::Central(cost),
            Ok((false, period)) => {
                let period = PeriodId::new(period);
                What::Admitted(self.client_host.admitted_of(&self.limiter, period))
            }
        };
        self.write(what);
    }

    /// Holds a permit for a random time.
    async fn hold(&self, permit: Permit) {
        let client_host = &self.client_host;
        let permit = Arc::new(permit);
        self.write(What::Taken(self.number));
        client_host.event_log.flies(Flight {
            client: client_host.number,
            process: self.process,
            number: self.number,
            key: self.key().index,
            permit: Arc::clone(&permit),
        });
        let mean = client_host.group.hold as f64;
        let drawn = Draw::of(
            client_host.seed,
            Of::Hold,
            client_host.number as u64,
            self.number,
        );
        let span = drawn.clone().exponential(mean) as u64 + MS / 10;
        aliquot_client::Clock::sleep(
            &HostClock(Arc::clone(&client_host.host)),
            Duration::from_nanos(span),
        )
        .await;
        let cut = !permit.is_valid();
        client_host
            .event_log
            .lands(client_host.number, self.process, self.number);
        self.write(What::Landed { cut });
    }
}

/// Returns true if an admission has the right of a lease or of a floor.
pub(super) const fn is_booked(state: LimiterState) -> bool {
    matches!(state, LimiterState::Leased | LimiterState::Floor)
}

/// Returns the part that a limiter may use, as the oracle counts it.
pub(super) fn share_of(limiter: &Limiter) -> Share {
    let part = limiter.allotment();
    Share {
        rate: Rate::from_grains(part.rate),
        burst: Tokens::from_grains(part.burst),
        tokens: Tokens::from_grains(part.tokens),
    }
}
