//! Injects the faults of a plan, and ends them, on both tiers.
//!
//! The table `scenario/kinds.rs` states what a kind of fault does and when it is over. The functions here carry that
//! out on a [`Fleet`], which each tier implements for its hosts. A fault counts only if it took effect.
//!
//! The tiers differ in six points:
//!
//! | | kernel | network |
//! |---|---|---|
//! | a fault begins, ends or steps clocks | at an event of its queue | at the first step of true time that is due |
//! | a crash and a restart | connections are reset | a crash leaves connections open and silent, a restart resets them |
//! | a black hole | only cuts links | connections that cross it are never read again |
//! | a slow disk | entries are applied later | writes are flushed later: entries, votes and snapshots |
//! | a damaged disk | the node ends at once | the node ends once it reads what is damaged |
//! | a failed disk | refuses writes until the fault is over | the node stops at its next write, and is started when the fault is over |

use crate::clock::{Clock, QUANTUM, quantised};
use crate::draw::{Draw, Of};
use crate::hosts::{HostSet, Hosts};
use crate::ideal::amounts;
use crate::mark::Mark;
use crate::net::{Harm, Harmed, Net};
use crate::observer::Observer;
use crate::plan::Plan;
use crate::scenario::kinds::{End, FaultEffect, FaultKind, OnHost, OnLinks};
use crate::scenario::{DamagedPart, Fault, MemberChange, Target};
use aliquot_core::budget::Budget;
use aliquot_core::command::Command;
use aliquot_core::state::State;
use aliquot_core::unit::RequestId;
use std::collections::BTreeMap;

/// The way in which a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Its machine loses power.
    PowerLoss,
    /// It exits, and its machine runs on.
    Exit,
}

/// The faults that last at an instant.
#[derive(Debug, Default)]
pub(crate) struct Lasting {
    /// By index in the plan: true time of the end, and the affected hosts.
    active: BTreeMap<usize, (u64, Vec<usize>)>,
    /// True time until which hosts that are paused wait at least.
    pauses_end: u64,
    /// The latest limit of each key that an operator has submitted, see [`amounts`].
    limits: Vec<(f64, f64)>,
    /// Set once the safety phase is over.
    calmed: bool,
}

impl Lasting {
    /// Returns the state before the first fault. `claims` are the budgets of the keys that clients use.
    pub(crate) fn new(claims: &[Budget]) -> Self {
        Self {
            limits: claims.iter().map(amounts).collect(),
            ..Self::default()
        }
    }

    /// Returns true time until which paused hosts wait, or a past time.
    pub(crate) const fn pauses_end(&self) -> u64 {
        self.pauses_end
    }

    /// Returns the faults that are over at `now`.
    #[cfg(feature = "network")]
    pub(crate) fn over(&self, now: u64) -> Vec<usize> {
        let over = self.active.iter().filter(|(_, (until, _))| *until <= now);
        over.map(|(index, _)| *index).collect()
    }

    /// Iterates over the faults that last.
    #[cfg(feature = "network")]
    pub(crate) fn indices(&self) -> impl Iterator<Item = usize> {
        self.active.keys().copied()
    }
}

/// The hosts, links and budgets of a tier, as faults affect them.
pub(crate) trait Fleet {
    /// Returns the true time.
    fn now(&self) -> u64;
    /// Returns the plan, with its faults.
    fn plan(&self) -> &Plan;
    /// Returns the hosts.
    fn hosts(&self) -> &Hosts;
    /// Returns the latest replicated state.
    fn state(&self) -> &State;
    /// Returns the ready leader; of several, the one of the latest term.
    fn leader(&self) -> Option<usize>;
    /// Returns true if a process runs on a host, paused or not.
    fn is_up(&self, host: usize) -> bool;
    /// Returns true if the process of a host is paused.
    fn is_paused(&self, host: usize) -> bool;
    /// Returns true if a client has a lease.
    fn is_leased(&self, client: usize) -> bool;

    /// Returns the faults that last.
    fn lasting(&mut self) -> &mut Lasting;
    /// Returns the observer of the run.
    fn observer(&mut self) -> &mut Observer;

    /// Takes note that a fault is over after `span`, if the tier keeps a queue of events.
    fn ends_after(&mut self, index: usize, span: u64);
    /// Begins to step the clocks of a strobe.
    fn begin_strobe(&mut self, index: usize);
    /// Changes the faults of links.
    fn with_net<T>(&mut self, change: impl FnOnce(&mut Net) -> T) -> T;
    /// Ends the connections between two sets of hosts silently, if the tier has connections.
    fn swallow(&mut self, from: &[usize], to: &[usize]);
    /// Lets whatever waits for a link look again.
    fn wake_links(&mut self);
    /// Changes a host's clock.
    fn with_clock<T>(&mut self, host: usize, change: impl FnOnce(&mut Clock) -> T) -> T;
    /// Ends the process of a host. Returns false if none runs.
    fn stop(&mut self, host: usize, how: Stop) -> bool;
    /// Starts a process on a host on which none runs.
    fn start(&mut self, host: usize);
    /// Pauses the process of a host. Returns false if none runs, or if it is paused already.
    fn pause(&mut self, host: usize, until: u64) -> bool;
    /// Lets all writes of a node fail.
    fn break_disk(&mut self, node: usize) -> bool;
    /// Lets the writes of a node succeed again.
    fn repair_disk(&mut self, node: usize);
    /// Damages a part of the disk of a node, which never runs again once it reads it. Returns false if the disk has no
    /// such part.
    fn damage_disk(&mut self, node: usize, part: DamagedPart) -> bool;
    /// Makes the disk of a node take longer by this to make its writes durable. At 0 it is as fast as usual.
    fn slow_disk(&mut self, node: usize, by: u64);
    /// Resets the connections of some hosts. Returns false if there are none.
    fn reset(&mut self, hosts: &[usize]) -> bool;
    /// Asks the leader to hand its lead to another node.
    fn transfer(&mut self, leader: usize, heir: usize) -> bool;
    /// Lets a node join or leave, or removes it. Returns false if that changes nothing.
    fn change_members(&mut self, node: usize, change: MemberChange) -> bool;
    /// Copies a client. Returns the host of the copy.
    fn clone_client(&mut self, index: usize, targets: &[usize]) -> Option<usize>;
    /// Returns the number of an operator's next request.
    fn next_request(&mut self) -> RequestId;
    /// Submits a command of an operator until it is applied.
    fn submit(&mut self, command: Command);
}

/// Injects a fault of the plan, unless the safety phase is over.
pub(crate) fn inject(fleet: &mut impl Fleet, index: usize) {
    if fleet.lasting().calmed {
        return;
    }
    let fault = fleet.plan().faults[index].clone();
    let Some(kind) = FaultKind::named(fault.kind) else {
        return;
    };
    let leader = fleet.leader();
    let targets = match fault.target.is_empty() {
        true if kind.effect == FaultEffect::TransferLead => Vec::new(),
        true => found(fleet, &[Target::All], index),
        false => found(fleet, &fault.target, index),
    };
    let took = begin(fleet, index, (kind, &fault), &targets);
    let began = fleet.now();
    let over = began + kind.duration(fault.lasts) + kind.lag(fault.by);
    fleet.observer().oracle.availability.disturbed(began, over);
    let names: Vec<String> = targets
        .iter()
        .take(6)
        .map(|&host| fleet.hosts().name(host))
        .collect();
    let what = format!("{} {}", fault.kind, names.join(" "));
    let now = fleet.now();
    fleet
        .observer()
        .show(now, "fault", targets.first().copied(), || {
            format!("{what}{}", if took { "" } else { ": no effect" })
        });
    if took {
        let leads = leader.is_some_and(|leader| targets.contains(&leader));
        mark(fleet, kind, leads);
        let until = now + kind.duration(fault.lasts);
        fleet.observer().timeline.faults.push((now, until, what));
    }
}

/// Returns the hosts that targets denote at this instant.
fn found(fleet: &impl Fleet, targets: &[Target], index: usize) -> Vec<usize> {
    let leader = fleet.leader();
    let mut draw = Draw::of(fleet.plan().seed, Of::Fault, 1 << 40, index as u64);
    let mut found: Vec<usize> = targets
        .iter()
        .flat_map(|target| fleet.hosts().find(target, leader, &mut draw))
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// Counts marks of a fault that took effect.
fn mark(fleet: &mut impl Fleet, kind: &FaultKind, leads: bool) {
    let nodes = fleet.hosts().nodes;
    let down = (0..nodes).filter(|&node| !fleet.is_up(node) || fleet.is_paused(node));
    let no_quorum = 2 * down.count() >= nodes;
    let none_up = (0..nodes).all(|node| !fleet.is_up(node));
    let many = fleet.lasting().active.len() >= 5;
    let marks = &mut fleet.observer().marks;
    marks.hit_if(no_quorum, Mark::NoQuorum);
    marks.hit_if(none_up, Mark::AllNodesDown);
    marks.hit_if(many, Mark::FaultsAtOnce);
    if !leads {
        return;
    }
    marks.hit(Mark::FaultAtLeader);
    if let FaultEffect::Host(effect) = kind.effect {
        match effect {
            OnHost::Crash | OnHost::Restart => marks.hit(Mark::LeaderCrashed),
            OnHost::Pause | OnHost::Suspend | OnHost::PauseMachine => {
                marks.hit(Mark::LeaderPaused);
            }
            OnHost::BreakDisk => marks.hit(Mark::LeaderStoreBroken),
            OnHost::RestartClient | OnHost::ClockRate | OnHost::SlowDisk | OnHost::DamageDisk => {}
        }
    }
}

/// Begins a fault. Returns true if it took effect.
fn begin(
    fleet: &mut impl Fleet,
    index: usize,
    (kind, fault): (&FaultKind, &Fault),
    targets: &[usize],
) -> bool {
    let span = kind.duration(fault.lasts);
    match kind.effect {
        FaultEffect::Links(effect) => harm_links(fleet, index, (effect, fault), targets),
        FaultEffect::Slow => {
            let set = HostSet::of(targets.iter().copied());
            let by = quantised(fault.by.unsigned_abs());
            fleet.with_net(|net| net.slow.insert(index as u64, (set, by)));
            lasts(fleet, index, span, targets.to_vec());
            true
        }
        FaultEffect::Host(effect) => {
            let affected: Vec<usize> = targets
                .iter()
                .copied()
                .filter(|&host| begin_on(fleet, effect, fault, host))
                .collect();
            let took = !affected.is_empty();
            if took {
                lasts(fleet, index, span, affected);
            }
            took
        }
        FaultEffect::StepClocks => {
            targets
                .iter()
                .for_each(|&host| step_clock(fleet, host, fault, fault.by));
            !targets.is_empty()
        }
        FaultEffect::Strobe => {
            lasts(fleet, index, span, targets.to_vec());
            fleet.begin_strobe(index);
            true
        }
        FaultEffect::Reset => fleet.reset(targets),
        FaultEffect::TransferLead => transfer(fleet, targets),
        FaultEffect::Membership => {
            let nodes = targets.iter().copied();
            let nodes: Vec<usize> = nodes.filter(|&host| fleet.hosts().is_node(host)).collect();
            let changed = nodes
                .into_iter()
                .filter(|&node| fleet.change_members(node, fault.change));
            changed.count() > 0
        }
        FaultEffect::ChangeBudget => write_budget(fleet, fault),
        FaultEffect::DeleteBudget => {
            let took = delete_budget(fleet, fault);
            if took {
                lasts(fleet, index, span, Vec::new());
            }
            took
        }
        FaultEffect::CloneClient => {
            let copy = fleet.clone_client(index, targets);
            if let Some(copy) = copy {
                lasts(fleet, index, span, vec![copy]);
            }
            copy.is_some()
        }
    }
}

/// Begins a fault on one host. Returns true if it took effect.
fn begin_on(fleet: &mut impl Fleet, effect: OnHost, fault: &Fault, host: usize) -> bool {
    let (now, is_node) = (fleet.now(), fleet.hosts().is_node(host));
    match effect {
        OnHost::Crash => fleet.stop(host, Stop::PowerLoss),
        OnHost::Restart => fleet.stop(host, Stop::Exit),
        OnHost::RestartClient => !is_node && fleet.stop(host, Stop::Exit),
        OnHost::Pause => pause(fleet, host, fault.lasts),
        OnHost::Suspend => {
            let took = pause(fleet, host, fault.lasts);
            if took {
                let leased = !is_node && fleet.is_leased(host - fleet.hosts().nodes);
                fleet
                    .observer()
                    .marks
                    .hit_if(leased, Mark::SuspendedUnderLease);
                fleet.with_clock(host, |clock| clock.suspend(now));
            }
            took
        }
        OnHost::PauseMachine => {
            let took = pause(fleet, host, fault.lasts);
            if took {
                fleet.with_clock(host, |clock| clock.freeze(now));
            }
            took
        }
        OnHost::ClockRate => {
            fleet.with_clock(host, |clock| clock.run_at(now, fault.ppm));
            true
        }
        OnHost::BreakDisk => is_node && fleet.break_disk(host),
        OnHost::DamageDisk => is_node && fleet.damage_disk(host, fault.part),
        OnHost::SlowDisk => {
            if is_node {
                fleet.slow_disk(host, quantised(fault.by.unsigned_abs()));
            }
            is_node
        }
    }
}

/// Marks a fault as lasting for `span`.
fn lasts(fleet: &mut impl Fleet, index: usize, span: u64, affected: Vec<usize>) {
    let until = fleet.now() + span;
    fleet.lasting().active.insert(index, (until, affected));
    fleet.ends_after(index, span);
}

fn pause(fleet: &mut impl Fleet, host: usize, span: u64) -> bool {
    let until = quantised(fleet.now() + span);
    let long = span > fleet.plan().scenario.lease.lease;
    fleet.observer().marks.hit_if(long, Mark::PausedPastLease);
    let took = fleet.pause(host, until);
    if took {
        let lasting = fleet.lasting();
        lasting.pauses_end = lasting.pauses_end.max(until);
    }
    took
}

fn harm_links(
    fleet: &mut impl Fleet,
    index: usize,
    (effect, fault): (OnLinks, &Fault),
    targets: &[usize],
) -> bool {
    let (mut side, nodes) = (targets.to_vec(), fleet.hosts().nodes);
    if fault.with_clients && !matches!(effect, OnLinks::CutOneWay | OnLinks::Swallow) {
        let homes = fleet.hosts().homes.iter().enumerate();
        let theirs = homes.filter(|(_, home)| targets.contains(home));
        side.extend(theirs.map(|(client, _)| nodes + client));
    }
    // Clones of clients are not on the network.
    let last = nodes + fleet.hosts().clients.len();
    let to: Vec<usize> = match fault.to.is_empty() {
        false => found(fleet, &fault.to, index),
        true if side.len() >= last => (0..last).collect(),
        true => (0..last).filter(|host| !side.contains(host)).collect(),
    };
    let by = quantised(fault.by.unsigned_abs());
    let harm = match effect {
        OnLinks::Cut | OnLinks::CutOneWay | OnLinks::Swallow => Harm::Cut,
        OnLinks::Delay => Harm::Delay(fault.amount, by),
        OnLinks::Lose => Harm::Loss(fault.amount),
        OnLinks::LoseMessages => Harm::MessageLoss(fault.amount),
        OnLinks::Duplicate => Harm::Duplicate(fault.amount),
        OnLinks::Reorder => Harm::Reorder(fault.amount, by),
    };
    if effect == OnLinks::Swallow {
        fleet.swallow(&side, &to);
    }
    let harmed = Harmed {
        harm,
        from: HostSet::of(side.iter().copied()),
        to: HostSet::of(to.iter().copied()),
        both: effect != OnLinks::CutOneWay,
    };
    let took = fleet.with_net(|net| {
        let reaches = |&from: &usize| to.iter().any(|&to| from != to && net.reaches(from, to));
        let took = match harm {
            Harm::Cut => side.iter().any(reaches),
            _ => !side.is_empty() && !to.is_empty(),
        };
        net.harm(index as u64, harmed);
        took
    });
    lasts(fleet, index, fault.lasts, side);
    took
}

/// Steps one of a host's clocks, by whole quanta, so that readings stay exact.
fn step_clock(fleet: &mut impl Fleet, host: usize, fault: &Fault, by: i64) {
    let (now, wall) = (fleet.now(), fault.wall);
    let by = by / QUANTUM as i64 * QUANTUM as i64;
    fleet
        .observer()
        .marks
        .hit_if(wall && by < 0, Mark::WallSteppedBack);
    fleet.with_clock(host, |clock| match wall {
        true => clock.step_wall(now, by),
        false => clock.step_boot(now, by),
    });
}

/// Steps the clocks of a strobe, for the time number `count`. Returns the time until the next step, or `None` once
/// the strobe is over.
pub(crate) fn strobe(fleet: &mut impl Fleet, index: usize, count: u64) -> Option<u64> {
    let (_, hosts) = fleet.lasting().active.get(&index)?.clone();
    let fault = fleet.plan().faults[index].clone();
    let by = match count.is_multiple_of(2) {
        true => fault.by,
        false => -fault.by,
    };
    hosts
        .iter()
        .for_each(|&host| step_clock(fleet, host, &fault, by));
    Some(fault.period)
}

fn transfer(fleet: &mut impl Fleet, targets: &[usize]) -> bool {
    let Some(leader) = fleet.leader() else {
        return false;
    };
    let nodes = fleet.hosts().nodes;
    let mut all = targets.iter().copied().chain(0..nodes);
    let heir = all.find(|&node| node < nodes && node != leader && fleet.is_up(node));
    let took = heir.is_some_and(|heir| fleet.transfer(leader, heir));
    fleet.observer().marks.hit_if(took, Mark::LeadHandedOver);
    took
}

/// Submits the version of a budget that a fault writes.
fn write_budget(fleet: &mut impl Fleet, fault: &Fault) -> bool {
    let Ok((_, budget)) = fleet.plan().scenario.changed(&fault.set) else {
        return false;
    };
    let now = fleet.now();
    for index in 0..fleet.observer().keys().keys.len() {
        if !budget.key().matches(&fleet.observer().keys().keys[index]) {
            continue;
        }
        fleet.observer().changed(now, index, &budget);
        let new = amounts(&budget);
        let old = std::mem::replace(&mut fleet.lasting().limits[index], new);
        let lowered = new.0 < old.0 || new.1 < old.1;
        let raised = new.0 > old.0 || new.1 > old.1;
        fleet.observer().marks.hit_if(lowered, Mark::LimitLowered);
        fleet.observer().marks.hit_if(raised, Mark::LimitRaised);
    }
    fleet.observer().marks.hit(Mark::LimitChanged);
    let request = fleet.next_request();
    fleet.submit(Command::PutRule {
        request,
        budget,
        creator: None,
    });
    true
}

/// Submits the deletion of a budget. Returns false if no entry has made it.
fn delete_budget(fleet: &mut impl Fleet, fault: &Fault) -> bool {
    let Ok((_, budget)) = fleet.plan().scenario.changed(&fault.set) else {
        return false;
    };
    let Some((rule, _)) = fleet.state().rule_named(budget.key()) else {
        return false;
    };
    fleet.observer().marks.hit(Mark::BudgetDeleted);
    let request = fleet.next_request();
    fleet.submit(Command::DeleteRule { request, rule });
    true
}

/// Ends a fault, unless it is over.
pub(crate) fn recover(fleet: &mut impl Fleet, index: usize) {
    let Some((_, affected)) = fleet.lasting().active.remove(&index) else {
        return;
    };
    let fault = fleet.plan().faults[index].clone();
    let Some(kind) = FaultKind::named(fault.kind) else {
        return;
    };
    let now = fleet.now();
    fleet
        .observer()
        .show(now, "over", affected.first().copied(), || {
            fault.kind.to_owned()
        });
    fleet.with_net(|net| net.recover(index as u64));
    fleet.wake_links();
    match kind.effect {
        FaultEffect::DeleteBudget => {
            write_budget(fleet, &fault);
        }
        FaultEffect::CloneClient => {
            for copy in affected {
                fleet.stop(copy, Stop::Exit);
            }
        }
        FaultEffect::Host(effect) => {
            for host in affected {
                recover_on(fleet, effect, &fault, host);
            }
        }
        _ => {}
    }
}

fn recover_on(fleet: &mut impl Fleet, effect: OnHost, fault: &Fault, host: usize) {
    let now = fleet.now();
    match effect {
        OnHost::Crash | OnHost::Restart | OnHost::RestartClient => fleet.start(host),
        OnHost::Pause => {}
        OnHost::Suspend => fleet.with_clock(host, |clock| clock.wake(now)),
        OnHost::PauseMachine => {
            let paused = quantised(fault.lasts);
            fleet.with_clock(host, |clock| clock.thaw(now, paused));
        }
        OnHost::ClockRate => fleet.with_clock(host, |clock| {
            let usual = clock.usual();
            clock.run_at(now, usual);
        }),
        OnHost::BreakDisk => fleet.repair_disk(host),
        OnHost::SlowDisk => fleet.slow_disk(host, 0),
        OnHost::DamageDisk => {}
    }
}

/// Ends the safety phase: no more faults begin, and those that last are over. Pauses end by themselves.
pub(crate) fn calm(fleet: &mut impl Fleet) {
    fleet.lasting().calmed = true;
    let lasting: Vec<usize> = fleet.lasting().active.keys().copied().collect();
    for index in lasting {
        let kind = FaultKind::named(fleet.plan().faults[index].kind);
        if kind.is_some_and(|kind| kind.end != End::ForByItself) {
            recover(fleet, index);
        }
    }
}
