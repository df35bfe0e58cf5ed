//! A service instance: the session of its client, as the real client handles it.
//!
//! An edge with a valid lease stays in use until the lease ends, even if its connection is lost. Meanwhile
//! the client opens the next edge.

use super::World;
use super::event::{Message, Timer};
use super::host::Service;
use super::lease_diff::LeaseBefore;
use crate::clock::MS;
use crate::draw::{Draw, Of};
use crate::mark::Mark;
use aliquot_core::unit::{Span, Tick};

impl World {
    const URGENT_GAP: Span = Span::from_millis(5);
    const LOOK_AGAIN: Span = Span::from_millis(20);
    const LOOK_EVERY: Span = Span::from_millis(250);
    const NAME_AGAIN: Span = Span::from_millis(20);
    const ASK_AGAIN: Span = Span::from_millis(600);
    const JUMP_MS: i64 = 1_000;

    /// Starts a new process, which holds nothing and knows nothing.
    pub(super) fn start_service(&mut self, of: usize) {
        self.end_flights(of);
        let now = self.now;
        let service = &mut self.services[of];
        let leased = service.client.is_leased(service.clock.read(now));
        self.observer
            .marks
            .hit_if(leased, Mark::RestartedUnderLease);
        self.observer
            .marks
            .hit_if(service.process.number > 0, Mark::ClientRestarted);
        let callers = service.callers.reborn();
        let fresh = Service::new(
            service.clock.clone(),
            service.group,
            service.key,
            &self.plan.scenario.lease,
            callers,
        );
        let (process, choices) = (service.process, service.choices);
        *service = Service {
            process,
            choices,
            ..fresh
        };
        service.process.start();
        let local = service.clock.read(now);
        service.client.begin_process(local);
        service.selection.forked(local);
        let jitter = self.choice(of).range(0, 50 * MS);
        self.look_within(of, jitter);
        self.begin_callers(of);
    }

    /// Returns the client's next source of random numbers for its choices.
    pub(super) fn choice(&mut self, of: usize) -> Draw {
        let service = &mut self.services[of];
        service.choices += 1;
        Draw::of(self.seed, Of::Choice, of as u64, service.choices)
    }

    /// Schedules a look after this true time, unless an earlier one is scheduled.
    pub(super) fn look_within(&mut self, of: usize, span: u64) {
        let at = crate::clock::quantised(self.now + span);
        let service = &mut self.services[of];
        if service.look_at <= self.now || at < service.look_at {
            service.look_at = at;
            self.set(self.hosts.nodes + of, span, Timer::Look);
        }
    }

    /// Records that a request was refused, and schedules an early report of it.
    pub(super) fn want(&mut self, of: usize) {
        let service = &mut self.services[of];
        if !service.wanted {
            service.wanted = true;
            let now = service.clock.read(self.now);
            let soonest = service.reported.after(Self::URGENT_GAP).since(now);
            let span = service.clock.true_span(soonest.nanos());
            self.look_within(of, span);
        }
    }

    /// Wakes the session's task.
    pub(super) fn look_at_session(&mut self, of: usize) {
        // The valid look is later: this timer belongs to an earlier schedule.
        if self.now < self.services[of].look_at {
            return;
        }
        self.go_on(of);
    }

    pub(super) fn go_on(&mut self, of: usize) {
        self.events += 1;
        let now = self.look_at_clocks(of);
        self.roam(of, now);
        self.name_keys(of, now);
        self.report_session_if_due(of, now);
        self.repeat_requests(of, now);
        let service = &mut self.services[of];
        let mut at = now.after(Self::LOOK_EVERY);
        if service.link().is_some() {
            at = at.min(service.report_at);
            if service.wanted {
                at = at.min(
                    service
                        .reported
                        .after(Self::URGENT_GAP)
                        .max(now.after(Self::LOOK_AGAIN)),
                );
            }
        }
        if !service.unnamed.is_empty() && service.link().is_some() {
            at = at.min(now.after(Self::NAME_AGAIN));
        }
        if let Some(due) = service.selection.due() {
            at = at.min(due.max(now));
        }
        if let Some(moves) = service.moves_at {
            at = at.min(moves);
        }
        if let Some(holder) = service.client.holder()
            && service.client.is_leased(now)
        {
            at = at.min(holder.lease().until());
        }
        let span = at.max(now.after(Span::from_millis(1))).since(now);
        let span = service.clock.true_span(span.nanos());
        service.look_at = 0;
        self.look_within(of, span);
    }

    /// Reads the clocks. If they show that the process was paused, the lease ends.
    fn look_at_clocks(&mut self, of: usize) -> Tick {
        let service = &mut self.services[of];
        let (now, wall) = (
            service.clock.read(self.now),
            service.clock.wall_ms(self.now),
        );
        let before = service.clocks;
        if let Some((then, wall_then)) = service.clocks.replace((now, wall)) {
            let passed = (now.since(then).nanos() / MS) as i64;
            if wall - wall_then > passed + Self::JUMP_MS {
                self.observer.marks.hit(Mark::ClientClockJumped);
                service.client.clock_jumped(now);
                self.end_requests(of);
            }
        }
        let service = &mut self.services[of];
        service.client.tick(now);
        let leased = service.client.is_leased(now);
        if service.had_lease && !leased {
            self.observer.marks.hit(Mark::ClientLapsed);
            service.lapsed = service.client.edge();
            let slept =
                before.is_some_and(|(then, _)| now.since(then) > Self::LOOK_EVERY.times_or_max(4));
            if slept {
                self.observer.marks.hit(Mark::LapsedInPause);
            }
            let host = self.hosts.nodes + of;
            let edge = service.client.edge();
            let node = edge.and_then(|edge| self.incarnations.get(&edge.parent).copied());
            let cut = |node| !self.net.reaches(host, node) || !self.net.reaches(node, host);
            if node.is_some_and(cut) {
                self.observer.marks.hit(Mark::LapsedWhileCut);
            }
        }
        service.had_lease = leased;
        now
    }

    /// Asks the node for the budgets of keys that are not known yet.
    pub(super) fn name_keys(&mut self, of: usize, now: Tick) {
        let service = &mut self.services[of];
        let Some(node) = service.link().filter(|_| !service.unnamed.is_empty()) else {
            return;
        };
        let unnamed = service.unnamed.iter_mut();
        let due = unnamed.filter(|(_, named)| now.since(**named) >= Self::NAME_AGAIN);
        let due: Vec<usize> = due
            .map(|(&key, named)| {
                *named = now;
                key
            })
            .collect();
        for key in due {
            self.send(self.hosts.nodes + of, node, Message::Name { key });
        }
    }

    fn report_session_if_due(&mut self, of: usize, now: Tick) {
        let wall = self.services[of].clock.wall_ms(self.now);
        let usual = Span::from_nanos(self.plan.scenario.lease.client_report_every);
        let service = &mut self.services[of];
        let Some(node) = service.link() else { return };
        if now < service.report_at && service.client.is_urgent(now) {
            let soonest = service.reported.after(Self::URGENT_GAP).max(now);
            service.report_at = service.report_at.min(soonest);
        }
        if now < service.report_at {
            return;
        }
        service.wanted = false;
        if let Some(report) = service.client.report(now, wall) {
            let pause = service.client.report_within(usual, usual, now);
            (service.reported, service.report_at) = (now, now.after(pause));
            self.send(self.hosts.nodes + of, node, Message::ClientReport(report));
        } else if service.client.edge().is_none() {
            self.lose_link(of, now);
        }
    }

    fn repeat_requests(&mut self, of: usize, now: Tick) {
        let service = &mut self.services[of];
        if let Some(node) = service.link() {
            for release in service.requests.take_overheld(now) {
                self.send(self.hosts.nodes + of, node, Message::Release(release));
            }
        }
        let service = &mut self.services[of];
        if service.requests.pending() == 0 {
            return;
        }
        let void = service.requests.expire(now);
        let repeats = service.requests.repeats(Self::ASK_AGAIN, now);
        self.requests_void(of, &void);
        if let Some(node) = self.services[of].link() {
            for ask in repeats {
                self.observer.marks.hit(Mark::CentralRequestRepeated);
                self.send(self.hosts.nodes + of, node, Message::DecisionRequest(ask));
            }
        }
    }

    pub(super) fn service_receives(&mut self, from: usize, of: usize, message: Message) {
        let now = self.services[of].clock.read(self.now);
        let service = &mut self.services[of];
        match message {
            Message::Opened { nonce, edge } => {
                self.session_opened((from, of), (nonce, edge), now);
            }
            Message::Named { key, budget, scale }
                if service.budget(key).is_none_or(|(known, _)| known != budget) =>
            {
                service.unnamed.remove(&key);
                if let Some((former, _)) = service.budgets.insert(key, (budget, scale)) {
                    service.keys.remove(&former);
                }
                service.keys.insert(budget, key);
                let labels = &self.plan.scenario.clients[service.group].labels;
                let claim = self.keys.budgets[key].claim(labels);
                service.client.claim(budget, claim, now);
                self.go_on(of);
            }
            Message::ClientAnswer(answer) => {
                let former = service.client.edge() != Some(answer.edge);
                self.observer.marks.hit_if(former, Mark::AnswerOfFormerEdge);
                if service.link() != Some(from) && former {
                    return;
                }
                service.selection.heard(now);
                let before = LeaseBefore::of(service, now);
                service.client.handle_answer(&answer, now);
                before.compare(service, &answer, now, &mut self.observer.marks);
                if service.client.edge().is_none() {
                    self.observer.marks.hit(Mark::SessionClosed);
                    self.end_requests(of);
                    self.lose_link(of, now);
                    self.services[of].selection.dial_at(now);
                    self.switch_over(of, now);
                }
                let urgent = self.services[of].client.is_urgent(now);
                if self.report_sooner(of, now) || urgent {
                    self.go_on(of);
                }
            }
            Message::Move { to: None } if service.link() == Some(from) => {
                self.send_away(of, from, now);
            }
            Message::Move { to: Some(to) } if service.link() == Some(from) => {
                self.redirected(of, to, now);
            }
            Message::Reset if service.link() == Some(from) => {
                self.observer.marks.hit(Mark::ConnectionReset);
                self.lose_link(of, now);
            }
            Message::Reset => self.lose_attempt(of, from, now),
            Message::DecisionReply(reply) => self.receive_reply(of, &reply, now),
            _ => {}
        }
    }

    /// Brings the next report forward if the lease is short. Returns true if it was later.
    fn report_sooner(&mut self, of: usize, now: Tick) -> bool {
        let usual = Span::from_nanos(self.plan.scenario.lease.client_report_every);
        let service = &mut self.services[of];
        let pause = service.report_at.since(now);
        let due = now.after(service.client.report_within(usual, pause, now));
        let sooner = due < service.report_at;
        service.report_at = service.report_at.min(due);
        sooner
    }

    /// Sends a report at once.
    pub(super) fn report_now(&mut self, of: usize, node: usize, now: Tick) {
        let wall = self.services[of].clock.wall_ms(self.now);
        if let Some(report) = self.services[of].client.report(now, wall) {
            self.send(self.hosts.nodes + of, node, Message::ClientReport(report));
        }
    }
}
