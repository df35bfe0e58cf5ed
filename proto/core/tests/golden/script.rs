//! The script's commands.
//!
//! | command | effect |
//! |---|---|
//! | `nodes n1 n2` | nodes join |
//! | `elect n1`, `elect n1 raw`, `depose n1` | a term begins with its own entry, or without it; a leader is deposed |
//! | `readiness` | the entry that begins the term is committed |
//! | `told 1s` | a quorum tells the leader for how long no earlier leader can have confirmed anything |
//! | `budget key=b rate=100/s …`, `delete b`, `instance t/a at n1` | a rule is written (`at=n1`: the node that gets the first burst), withdrawn, used |
//! | `client c1 at n1`, `move c1 n2`, `leave c1`, `crash c1`, `fork c1 c2` | processes |
//! | `restart n2`, `remove n2`, `alone n1`, `rejoin n1` | nodes: another incarnation; removal; cut off from the log, and back |
//! | `clock n2 +1000ppm`, `wall n1 +3650d` | clocks |
//! | `run 2s`, `load c1 10`, `load c1 10x400`, `wants c1 4000` | time; attempts per 100 ms; a cost that waits |
//! | `c1 acquire 5 x80`, `c1 permit x10`, `c1 done x2` | decisions |
//! | `cut A>B`, `hold A>B`, `delay A>B 700ms`, `heal` | links; `*` ends a prefix; `hold log`, `hold acks` |
//! | `deliver m1`, `deliver m1 to n3`, `drop m1`, `dup m1`, `commit e1`, `ack a1` | messages that were held |
//! | `report n2`, `route n2 n3`, `routes`, `deaf c1` | a report now; its receiver, or the leader again; a client that sees no recall |
//! | `entry …` | a hand-written entry |
//! | `show`, `check`, `expect …` | the state; the verdicts of the invariants; an expectation |

use super::stage::{Process, Stage};
use super::wire::Rule;
use aliquot_core::budget::{Labels, grammar};
use aliquot_core::client::Client;
use aliquot_core::command::Command;
use aliquot_core::node::Node;
use aliquot_core::unit::Term;

pub(super) type Done = Result<(), String>;

impl Stage {
    /// Carries out one line. Returns its output.
    pub(super) fn command(&mut self, line: &str) -> Vec<String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let Err(error) = self.carry_out(&words) {
            self.say(format!("cannot: {error}"));
        }
        if !matches!(words.first(), Some(&("show" | "check" | "expect"))) {
            self.pump();
            self.observe();
        }
        std::mem::take(&mut self.out)
    }

    fn carry_out(&mut self, words: &[&str]) -> Done {
        match words {
            ["nodes", names @ ..] => {
                for name in names {
                    self.add_node(name);
                }
            }
            ["elect", name, raw @ ..] => self.elect(name, !raw.is_empty())?,
            ["ready"] => self.append(Term::new(self.term), None),
            ["depose", name] => self.host(name)?.leader.deposed(),
            ["budget", fields @ ..] => super::entries::budget(self, fields)?,
            ["delete", key] => super::entries::delete(self, key)?,
            ["instance", key, "at", name] => super::entries::instance(self, key, name)?,
            ["entry", entry @ ..] => super::entries::raw(self, entry)?,
            ["client", name, "at", home] => self.add_client(name, home, false),
            ["client", name, "at", home, "young"] => self.add_client(name, home, true),
            ["run", span] => {
                let span = grammar::span(span).ok_or("no span")?;
                self.run(span.nanos());
            }
            ["load", name, load] => self.process(name)?.load = super::deeds::load_of(load),
            ["wants", name, n] => self.process(name)?.wants = n.parse().ok(),
            ["told", span] => self.told(span)?,
            ["hold", "log"] => self.hold_log = true,
            ["hold", "acks"] => self.hold_acks = true,
            ["cut", pattern] => self.wire.set(pattern, Rule::Cut),
            ["hold", pattern] => self.wire.set(pattern, Rule::Hold),
            ["delay", pattern, by] => {
                let by = grammar::span(by).ok_or("no span")?;
                self.wire.set(pattern, Rule::Delay(by.nanos()));
            }
            ["heal", rest @ ..] => {
                self.wire.clear(rest.first().copied());
                if rest.is_empty() {
                    (self.hold_log, self.hold_acks) = (false, false);
                }
            }
            ["deliver", message, to @ ..] => {
                self.deliver_held(message, to.get(1).copied(), true)?
            }
            ["dup", message] => self.deliver_held(message, None, false)?,
            ["drop", message] => {
                self.wire.held.remove(&number(message)?);
            }
            ["commit", entry] => {
                let found = self.proposals.remove(&number(entry)?);
                let (_, term, command) = found.ok_or("no such proposal")?;
                self.append(term, Some(command));
            }
            ["ack", name] => {
                let (leader, barrier) =
                    self.acks.remove(&number(name)?).ok_or("no such barrier")?;
                self.acknowledge(&leader, barrier);
            }
            ["report", name] if self.hosts.contains_key(*name) => self.node_report(name),
            ["report", name] => self.client_report(name),
            ["tick"] => self.tick_leaders(),
            ["routes"] => self.routes.clear(),
            ["route", name, to] => {
                self.routes.insert((*name).into(), (*to).into());
            }
            _ => return self.more(words),
        }
        Ok(())
    }

    fn more(&mut self, words: &[&str]) -> Done {
        match words {
            ["alone", name] => self.host(name)?.alone = true,
            ["rejoin", name] => {
                self.host(name)?.alone = false;
                self.catch_up(name, false);
            }
            ["restart", name] => {
                self.host(name)?.node = None;
                self.join(name);
            }
            ["remove", name] => self.remove(name)?,
            ["clock", name, ppm] => {
                let ppm = ppm.trim_end_matches("ppm").parse().map_err(|_| "no ppm")?;
                match self.hosts.get_mut(*name) {
                    Some(host) => host.clock.ppm = ppm,
                    None => self.process(name)?.clock.ppm = ppm,
                }
            }
            ["wall", name, days] => {
                let days: i64 = days.trim_end_matches('d').parse().map_err(|_| "no days")?;
                self.host(name)?.clock.wall_ms = days * 86_400_000;
            }
            ["move", name, home] => {
                let process = self.process(name)?;
                process.home = (*home).into();
                self.hang_up(name)?;
            }
            ["leave", name] => {
                let now = self.now;
                let process = self.process(name)?;
                (process.load, process.wants) = (None, None);
                process.client.leave(process.clock.at(now));
                self.client_report(name);
                self.process(name)?.home.clear();
            }
            ["crash", name] => {
                self.clients.remove(*name);
            }
            ["fork", name, copy] => self.fork(name, copy)?,
            ["deaf", name] => self.process(name)?.deaf_to_recalls = true,
            [name, "acquire", n, times @ ..] => self.acquire(name, n, times)?,
            [name, "permit", times @ ..] => self.permit(name, times)?,
            [name, "done", times @ ..] => self.done(name, times)?,
            ["show"] => self.show(),
            ["check"] => {
                for line in self.verdicts() {
                    self.say(line);
                }
            }
            ["expect", what @ ..] => super::expect::expect(self, what)?,
            _ => return Err("no such command".into()),
        }
        Ok(())
    }

    fn host(&mut self, name: &str) -> Result<&mut super::stage::Host, String> {
        self.hosts
            .get_mut(name)
            .ok_or_else(|| format!("no node {name}"))
    }

    pub(super) fn process(&mut self, name: &str) -> Result<&mut Process, String> {
        self.clients
            .get_mut(name)
            .ok_or_else(|| format!("no client {name}"))
    }

    fn elect(&mut self, name: &str, raw: bool) -> Done {
        self.term += 1;
        let (term, now) = (Term::new(self.term), self.now);
        let host = self.host(name)?;
        let tick = host.clock.at(now);
        host.leader.elected(term, &host.state, tick);
        self.lead = name.into();
        if !raw {
            self.append(term, None);
        }
        let readiness = if raw {
            "not ready to lead"
        } else {
            "ready to lead"
        };
        self.say(format!("{name} is elected in {term}, {readiness}"));
        Ok(())
    }

    /// A quorum tells the leader for how long no earlier leader can have confirmed anything.
    fn told(&mut self, span: &str) -> Done {
        let span = grammar::span(span).ok_or("no span")?;
        let (now, lead) = (self.now, self.lead.clone());
        let host = self.host(&lead)?;
        let until = host.clock.at(now).before(span);
        host.leader.learn_earlier(Some(until));
        Ok(())
    }

    fn remove(&mut self, name: &str) -> Done {
        let id = self.host(name)?.id;
        let lead = self.lead.clone();
        if !self.host(&lead)?.leader.is_ready() {
            return Err("not ready to lead".into());
        }
        let term = Term::new(self.term);
        self.hold_or_append(&lead, term, Command::Remove { node: id });
        Ok(())
    }

    fn hold_or_append(&mut self, lead: &str, term: Term, command: Command) {
        self.judge_proposal(lead, &command);
        if self.hold_log {
            self.counter += 1;
            let (number, what) = (self.counter, super::say::command(self, &command));
            self.say(format!("{lead} proposes e{number}: {what}; held"));
            self.proposals.insert(number, (lead.into(), term, command));
        } else {
            self.append(term, Some(command));
        }
    }

    fn add_client(&mut self, name: &str, home: &str, young: bool) {
        let mut client = Client::new(self.drift());
        if young {
            client.begin_process(aliquot_core::unit::Tick::from_nanos(self.now));
        }
        for watch in self.judge.watches.values() {
            for &id in &watch.ids {
                let claim = watch.budget.claim(&Labels::default());
                client.claim(id, claim, aliquot_core::unit::Tick::from_nanos(self.now));
            }
        }
        let process = Process {
            client,
            home: home.into(),
            clock: super::stage::Clock::default(),
            load: None,
            wants: None,
            permits: Vec::new(),
            admitted: 0,
            denied: 0,
            reason: String::new(),
            leased: false,
            deaf_to_recalls: false,
        };
        self.clients.insert(name.into(), process);
        self.client_report(name);
    }

    /// Makes a client give up its session and open another with its next report.
    fn hang_up(&mut self, name: &str) -> Done {
        let now = self.now;
        let home = self.process(name)?.home.clone();
        let tick = self.host(&home)?.clock.at(now);
        let node: Option<&mut Node> = self.host(&home)?.node.as_mut();
        let edge = node.and_then(|node| node.open_session(tick));
        let process = self.process(name)?;
        if let Some(edge) = edge {
            process.client.open(edge, process.clock.at(now));
        }
        Ok(())
    }

    fn fork(&mut self, name: &str, copy: &str) -> Done {
        let process = self.process(name)?;
        let mut client = process.client.clone();
        client.forked();
        let twin = Process {
            client,
            home: process.home.clone(),
            clock: process.clock,
            load: process.load,
            wants: None,
            permits: Vec::new(),
            admitted: 0,
            denied: 0,
            reason: String::new(),
            leased: false,
            deaf_to_recalls: false,
        };
        self.clients.insert(copy.into(), twin);
        Ok(())
    }

    fn deliver_held(&mut self, message: &str, to: Option<&str>, once: bool) -> Done {
        let number = number(message)?;
        let held = match once {
            true => self.wire.held.remove(&number),
            false => self.wire.held.get(&number).cloned(),
        };
        let (from, addressee, body) = held.ok_or("no such message")?;
        self.deliver(&from, to.unwrap_or(&addressee), body);
        self.tick_leaders();
        Ok(())
    }
}

/// Returns the number in `m7`, `e7` or `a7`.
pub(super) fn number(name: &str) -> Result<u64, String> {
    let digits = name.get(1..).unwrap_or_default();
    digits.parse().map_err(|_| format!("no number in {name}"))
}
