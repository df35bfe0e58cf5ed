//! One run, from the first process to the verdict.

mod watch;

use super::cluster::{ClusterStatus, NODES, Nodes, PREFIX as NODE_PREFIX};
use super::error::DemoError;
use super::fleet::{Fleet, Orders, PREFIX as SERVICE_PREFIX};
use super::hosts::FaceHosts;
use super::load::{Generator, Shots};
use super::machine::{Lateness, MachineWatch};
use super::plan::{DemoPlan, Fault, Kill, Load, Prepared, RESTART_AFTER, SHARED_KEY};
use super::report::{Asked, Report};
use super::service::{Faces, Status};
use super::supervisor::{Supervisor, WorkDir, parent_args};
use super::table::Screen;
use super::verdict::{Deciders, Evidence, RunVerdict, Timeline, show};
use super::via::{Host, Via};
use super::waits::{WaitWatch, Waits};
use crate::clock::SharedClock;
use aliquot_core::budget::Budget;
use aliquot_core::unit::{Span, Tick};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use watch::{Seen, Watch};

/// Maximum time each for the cluster and the services to become ready.
const READY_WITHIN: Span = Span::from_secs(30);

/// Time from the end of the preparations to the start of the load.
const START_IN: Span = Span::from_millis(200);

/// Maximum time to find the leader that is to be killed.
const TARGET_WITHIN: Span = Span::from_secs(5);

const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Time between two looks at how long the processes waited for a processor.
const WAITS_EVERY: Span = Span::from_millis(500);

/// The processes and the state of a run.
#[derive(Debug)]
pub(super) struct Runner {
    plan: DemoPlan,
    clock: SharedClock,
    screen: Screen,
    supervisor: Supervisor,
    nodes: Arc<Nodes>,
    faces: FaceHosts,
    events: Vec<(Span, String)>,
    // The last field: it is dropped, and with it the directory, once no process writes there any more.
    dir: WorkDir,
}

impl Runner {
    pub(super) fn new(
        plan: DemoPlan,
        clock: SharedClock,
        screen: Screen,
    ) -> Result<Self, DemoError> {
        let dir = WorkDir::new(plan.data.as_deref());
        let dir = dir.map_err(DemoError::io("a directory for the run"))?;
        let program = std::env::current_exe().map_err(DemoError::io("this program's file"))?;
        let supervisor = Supervisor::new(dir.path().to_owned(), program, parent_args());
        let faces = FaceHosts::plan(plan.via, plan.services, &plan.rates())?;
        Ok(Self {
            plan,
            clock,
            screen,
            supervisor,
            nodes: Arc::new(Nodes::plan()?),
            faces,
            events: Vec::new(),
            dir,
        })
    }

    /// Runs until there is a verdict. The processes are not stopped.
    pub(super) async fn run(&mut self, prepared: Prepared) -> Result<Report, DemoError> {
        let Prepared {
            drafts,
            budgets,
            load,
        } = prepared;
        let sentence = self.plan.sentence(&load);
        self.screen.print_line(&sentence);
        if let Some(first) = &load.skipped.first {
            let lines = load.skipped.lines;
            self.screen.print_line(&format!(
                "lines of the file that are no requests are left out: {lines}; the first: {first}"
            ));
        }

        for index in 0..NODES {
            self.start_node(index)?;
        }
        self.leader_elected().await?;
        if self.plan.via != Via::Rls {
            // A rate limit service writes the budgets of its rules itself.
            self.nodes.apply(&drafts).await?;
        }
        let endpoints = self.nodes.endpoints();
        self.faces
            .start_beside_services(&endpoints, &mut self.supervisor)?;
        self.faces_decide(&load).await?;
        let orders = Orders {
            services: self.plan.services,
            key: SHARED_KEY.to_owned(),
            endpoints: self.nodes.endpoints(),
            faults: self.plan.injected_faults(),
        };
        let mut fleet = Fleet::start(&orders, &self.faces, &mut self.supervisor)?;
        self.services_listen(&mut fleet).await?;
        self.screen
            .print_line("all processes are running; the load begins");

        let Load {
            targets,
            shots,
            duration,
            shared,
            ..
        } = load;
        let clock = Arc::clone(&self.clock);
        let generator = Arc::new(Generator::new(fleet.addresses(), targets, clock));
        let run = self.under_load(&generator, &fleet, shots, duration).await?;
        self.judge(&generator, &fleet, run, budgets, shared).await
    }

    /// Starts a node, or starts it again with its data, and the process with a face beside it.
    fn start_node(&mut self, index: usize) -> Result<(), DemoError> {
        let nodes = Arc::clone(&self.nodes);
        let Some(node) = nodes.list().get(index) else {
            return Ok(());
        };
        let flags = self.faces.node_flags(index);
        nodes.start_with(node, &mut self.supervisor, &flags)?;
        let endpoints = nodes.endpoints();
        self.faces
            .start_beside_node(index, &endpoints, &mut self.supervisor)
    }

    /// Waits until every face decides. Each takes a token for that, which is in no record. A cost of 0 would tell
    /// Envoy's rate limit service that costs come after the fact.
    async fn faces_decide(&mut self, load: &Load) -> Result<(), DemoError> {
        let late = self.clock.now().after(READY_WITHIN);
        let key = load
            .targets
            .first()
            .map_or(SHARED_KEY, |target| &target.key);
        for face in self.faces.list() {
            let clock = Arc::clone(&self.clock);
            let faces = Faces::new(self.plan.via, std::slice::from_ref(&face), clock);
            let unusable = |why| DemoError::io("the address of a face")(io::Error::other(why));
            let faces = faces.map_err(unusable)?;
            while faces.ask(key, 1).await.is_none() {
                let last = faces.failed().1.unwrap_or_default();
                self.wait("a decision of every face", late, last).await?;
            }
        }
        Ok(())
    }

    async fn leader_elected(&mut self) -> Result<(), DemoError> {
        let nodes = Arc::clone(&self.nodes);
        let late = self.clock.now().after(READY_WITHIN);
        loop {
            let cluster = nodes.look().await;
            let answering = cluster.nodes.iter().flatten().count();
            if cluster.leader.is_some() && answering == NODES && cluster.known >= NODES {
                return Ok(());
            }
            let known = cluster.known;
            let last = match cluster.leader {
                None => format!("{answering} of {NODES} nodes answer, and none knows a leader"),
                Some(_) => format!("{answering} of {NODES} nodes answer, {known} are members"),
            };
            self.wait("a cluster of three with a leader", late, last)
                .await?;
        }
    }

    async fn services_listen(&mut self, fleet: &mut Fleet) -> Result<(), DemoError> {
        let late = self.clock.now().after(READY_WITHIN);
        while let Err(last) = fleet.find(&self.supervisor) {
            self.wait("all services listening", late, last).await?;
        }
        Ok(())
    }

    /// Waits a moment. Returns an error if a child has ended, or if it is past `late`.
    async fn wait(&mut self, what: &str, late: Tick, last: String) -> Result<(), DemoError> {
        self.supervisor.check()?;
        if self.clock.now() >= late {
            return Err(DemoError::Late {
                what: what.to_owned(),
                within: Duration::from_nanos(READY_WITHIN.nanos()),
                last,
            });
        }
        self.screen.progress(&format!("waiting for {what}: {last}"));
        tokio::time::sleep(LOOK_EVERY).await;
        Ok(())
    }

    /// Offers the load, and kills and restarts a node meanwhile.
    async fn under_load(
        &mut self,
        generator: &Arc<Generator>,
        fleet: &Fleet,
        shots: Shots,
        duration: Span,
    ) -> Result<Run, DemoError> {
        let start = self.clock.now().after(START_IN);
        // Its tasks end when this function returns.
        let mut beside = JoinSet::new();
        let seen = Seen::keep_looking(&mut beside, &self.nodes, fleet);
        let mut sending = JoinSet::new();
        let sender = Arc::clone(generator);
        sending.spawn(async move { sender.send(shots, start).await });

        let limit = if self.plan.replay.is_none() {
            self.plan.limit
        } else {
            0
        };
        let mut watch = Watch::new(
            fleet,
            generator.tally(),
            seen,
            limit,
            duration,
            self.plan.via,
        );
        let mut run = Run {
            timeline: Timeline {
                start,
                end: start.after(duration),
                killed: None,
                restarted: None,
            },
            victim: None,
            lateness: Lateness::default(),
            waits: Waits::default(),
        };
        let machine = MachineWatch::start(Arc::clone(&self.clock));
        let half = start.after(Span::from_nanos(duration.nanos() / 2));
        let every = Span::from_millis(self.screen.every_ms());
        let mut show_at = start;
        let (mut waits, mut look_at) = (WaitWatch::default(), start);
        while sending.try_join_next().is_none() {
            self.supervisor.check()?;
            let now = self.clock.now();
            if now >= half {
                self.kill_and_restart(&mut run, &watch, half).await?;
            }
            if now >= show_at {
                let view = watch.view(now, now.since(start), &mut self.events);
                self.screen.show(&view);
                show_at = now.after(every);
            }
            if now >= look_at {
                let processes = self.supervisor.ids().chain([std::process::id()]);
                waits.look(now, processes);
                look_at = now.after(WAITS_EVERY);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        run.waits = waits.end();
        run.lateness = machine.end();
        Ok(run)
    }

    async fn kill_and_restart(
        &mut self,
        run: &mut Run,
        watch: &Watch,
        half: Tick,
    ) -> Result<(), DemoError> {
        let now = self.clock.now();
        let since = now.since(run.timeline.start);
        match (run.timeline.killed, run.timeline.restarted) {
            (None, _) if self.plan.kill != Kill::None => {
                let Some(index) = victim(self.plan.kill, &watch.cluster()) else {
                    return self.no_victim_yet(half);
                };
                let Some(node) = self.nodes.list().get(index).cloned() else {
                    return self.no_victim_yet(half);
                };
                run.timeline.killed = Some(now);
                run.victim = Some(index);
                self.supervisor.kill(&node.name).await?;
                let beside = self.faces.beside_node(index);
                if let Some(beside) = beside {
                    self.supervisor.kill(beside).await?;
                }
                let role = if self.plan.kill == Kill::Leader {
                    "the leader"
                } else {
                    "a follower"
                };
                let also = beside.map_or(String::new(), |name| format!(", and {name} beside it"));
                let event = format!("{}, {role}{also}, was killed with SIGKILL", node.name);
                self.events.push((since, event));
            }
            (Some(killed), None) if now.since(killed) >= RESTART_AFTER => {
                if let Some(index) = run.victim {
                    self.start_node(index)?;
                    let event = format!("node-{} was started again", index + 1);
                    self.events.push((since, event));
                }
                run.timeline.restarted = Some(now);
            }
            _ => {}
        }
        Ok(())
    }

    /// There may be no leader at this moment, but only briefly.
    fn no_victim_yet(&self, half: Tick) -> Result<(), DemoError> {
        if self.clock.now() < half.after(TARGET_WITHIN) {
            return Ok(());
        }
        Err(DemoError::Late {
            what: "a known leader at half time".to_owned(),
            within: Duration::from_nanos(TARGET_WITHIN.nanos()),
            last: "no node knows one".to_owned(),
        })
    }

    async fn judge(
        &mut self,
        generator: &Generator,
        fleet: &Fleet,
        run: Run,
        budgets: Vec<Budget>,
        shared: Option<String>,
    ) -> Result<Report, DemoError> {
        let cluster: ClusterStatus = self.nodes.look().await;
        let statuses = fleet.look().await;
        let asked = self.asked(&statuses);
        let messages = statuses.iter().map(|status| status.as_ref()?.held.messages);
        let reports = statuses.iter().map(|status| status.as_ref()?.held.reports);
        let mut recordings = fleet.recordings(&self.supervisor);
        if let Err(name) = fleet.flush().await {
            let why = "it did not write its record out".to_owned();
            recordings.insert(name, Err(why));
        } else {
            recordings = fleet.recordings(&self.supervisor);
        }
        let tally = generator.tally();
        let evidence = Evidence {
            lateness: run.lateness,
            waits: run.waits,
            recordings,
            answers: generator.answers(),
            timeline: run.timeline,
            budgets,
            drift: cluster.drift,
            deciders: match self.plan.via.host() {
                None | Some(Host::BesideService) => Deciders::Services,
                Some(Host::Node | Host::BesideNode) => Deciders::Nodes,
            },
            shared,
            messages: messages.sum(),
            reports: reports.sum(),
        };
        let verdict = RunVerdict::of(&evidence);
        let report = Report::new(&self.plan, verdict, &evidence, &tally, &self.events, asked);
        self.screen.print_line(&format!(
            "\n{}{}{}",
            report.load_line(),
            report.faces_line(),
            show(&report.verdict)
        ));
        if self.plan.fault != Fault::None {
            self.screen
                .print_line("a fault was injected: this run must not pass");
        }
        Ok(report)
    }

    /// Returns how often faces were asked in vain, or `None` if the services ask none.
    fn asked(&self, statuses: &[Option<Status>]) -> Option<Asked> {
        let held = statuses.iter().flatten().map(|status| &status.held);
        (self.plan.via != Via::Client).then(|| Asked {
            failed: held.clone().filter_map(|held| held.failed).sum(),
            last_failure: held.filter_map(|held| held.last_failure.clone()).next(),
        })
    }

    /// Shows the addresses of all processes that keep running.
    pub(super) fn say_how_to_talk(&mut self) {
        let mut text = String::from("\nthe cluster goes on; interrupt with Ctrl-C to end it\n");
        for node in self.nodes.list() {
            let (name, listen, metrics) = (&node.name, node.listen, node.metrics_listen);
            text.push_str(&format!(
                "  {name}: {listen}, metrics http://{metrics}/metrics\n"
            ));
        }
        for (name, address) in self.faces.list() {
            let face = self.plan.via.name();
            text.push_str(&format!("  face {face} of {name}: {address}\n"));
        }
        let services = (1..=self.plan.services).filter_map(|number| {
            let name = format!("{SERVICE_PREFIX}{number}");
            let path = self.supervisor.dir_of(&name).join("address");
            Some(format!(
                "  {name}: http://{}/\n",
                std::fs::read_to_string(path).ok()?
            ))
        });
        text.extend(services);
        text.push_str(&format!(
            "  files and logs: {}\n",
            self.dir.path().display()
        ));
        let endpoints = self.nodes.endpoints();
        text.push_str(&format!(
            "try: aliquot cluster status --endpoint {endpoints}\n"
        ));
        self.screen.print_line(&text);
    }

    /// Keeps the files of a run for inspection.
    pub(super) fn keep_files(&mut self) {
        self.dir.keep();
        let text = format!("files and logs stay in {}", self.dir.path().display());
        self.screen.print_line(&text);
    }

    /// Ends all processes: services and faces first, so that they hand back what they hold.
    pub(super) async fn stop(&mut self) {
        for prefix in [SERVICE_PREFIX, self.plan.via.prefix(), NODE_PREFIX] {
            for name in self.supervisor.stop(prefix).await {
                self.screen
                    .print_line(&format!("{name} did not stop by itself and was killed"));
            }
        }
    }
}

/// The main events under load.
struct Run {
    timeline: Timeline,
    victim: Option<usize>,
    /// Lateness of the machine meanwhile.
    lateness: Lateness,
    /// Time for which processes waited for a processor meanwhile.
    waits: Waits,
}

/// Returns the node to be killed, if the state of the cluster is known well enough.
fn victim(kill: Kill, cluster: &ClusterStatus) -> Option<usize> {
    let leader = cluster.leader?;
    if kill == Kill::Leader {
        return Some(leader);
    }
    let nodes = cluster.nodes.iter().enumerate();
    let others = nodes.filter_map(|(index, node)| Some(((*node)?, index)));
    let others = others.filter(|(_, index)| *index != leader);
    others.max().map(|(_, index)| index)
}

#[cfg(test)]
#[path = "../../tests/unit/demo/runner.rs"]
mod tests;
