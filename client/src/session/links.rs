//! Which node a session talks to.

use super::{Next, Session};
use aliquot_core::unit::{Span, Tick};
use aliquot_wire::session::{SessionOpen, SessionOpened};
use rand::RngExt;

impl Session {
    /// Between two attempts to connect lies at least this, doubled with each that fails.
    const BACKOFF_LEAST: Span = Span::from_millis(10);
    const BACKOFF_MOST: Span = Span::from_secs(1);
    /// A link that says nothing for so long after it was dialled is given up.
    pub(super) const OPEN_WAIT: Span = Span::from_secs(2);
    /// A move begins within this, so that not all clients move at once.
    const MOVE_SPREAD_MS: u64 = 200;

    /// Dials, if there is no link and none is being opened.
    pub(super) fn dial_if_due(&mut self, now: Tick) {
        if self.closing {
            return;
        }
        if let Some((address, when)) = self.wish.take() {
            if now >= when && self.next.is_none() && self.leaving.is_none() {
                self.dial(address, true);
                self.dial_at = now.after(Self::OPEN_WAIT);
            } else {
                self.wish = Some((address, when));
            }
        }
        if self.next.is_some() {
            if now >= self.dial_at && self.next.as_ref().is_some_and(|next| next.opened.is_none()) {
                self.next = None;
                self.back_off(now);
            }
            return;
        }
        if self.link.is_none() && now >= self.dial_at {
            let address = self.choose();
            self.dial(address, false);
            self.dial_at = now.after(Self::OPEN_WAIT);
        }
    }

    /// The node of the edge in use first, if its connection was just lost; then any.
    fn choose(&mut self) -> String {
        if self.failures == 0
            && let Some(address) = self.last_address.take()
        {
            return address;
        }
        let avoid = self.avoid.take();
        let useful = |address: &&String| Some(*address) != avoid.as_ref();
        let others: Vec<_> = self.config.addresses.iter().filter(useful).collect();
        let all: Vec<_> = self.config.addresses.iter().collect();
        let from = if others.is_empty() { all } else { others };
        from[self.rng.random_range(0..from.len())].clone()
    }

    fn dial(&mut self, address: String, wished: bool) {
        self.dials += 1;
        let open = SessionOpen {
            labels: self.config.labels.clone(),
            keys: self.keys.names(),
            former: Vec::new(),
            resume: self.machine.edge().filter(|_| !wished),
        };
        let link = self
            .dialer
            .dial(self.dials, address, open, self.outlet.clone());
        self.next = Some(Next {
            link,
            opened: None,
            wished,
        });
    }

    /// A node has opened a session on the next link.
    pub(super) fn opened(&mut self, opened: SessionOpened, now: Tick) {
        self.failures = 0;
        self.machine.set_drift(opened.drift);
        self.questions.set_drift(opened.drift);
        self.learn(opened.keys.clone(), now);
        let Some(next) = &mut self.next else { return };
        let wished = next.wished;
        next.opened = Some(opened);
        if wished && self.may_report() {
            self.leave(now, Self::LEAVE_WAIT, None);
            self.report(now);
            return;
        }
        self.switch_if_due(now);
    }

    /// Goes on with the next link once the edge in use has nothing left, or is the same one.
    pub(super) fn switch_if_due(&mut self, now: Tick) {
        let Some(opened) = self.next.as_ref().and_then(|next| next.opened.as_ref()) else {
            return;
        };
        let same = self.machine.edge() == Some(opened.edge);
        let done = !self.machine.is_leased(now) && self.leaving.is_none();
        if same || done {
            self.switch(now);
        }
    }

    pub(super) fn switch(&mut self, now: Tick) {
        let opened = self.next.as_mut().and_then(|next| next.opened.take());
        let (Some(opened), Some(next)) = (opened, self.next.take()) else {
            return;
        };
        if self.machine.edge() != Some(opened.edge) {
            self.shared.set_lease(Tick::from_nanos(0));
            self.machine.open(opened.edge, now);
            self.questions.end_session();
        }
        self.questions.repeat();
        tracing::debug!(node = next.link.address, edge = %opened.edge, "session in use");
        self.report_every = opened.report_every;
        self.link = Some(next.link);
        (self.heard, self.leased) = (now, now);
        self.keys.forget_asked();
        // What there is to say is said at once.
        self.report_at = now;
    }

    /// A stream is over.
    pub(super) fn lost(&mut self, id: u64, reason: &str, now: Tick) {
        if self.next.as_ref().is_some_and(|next| next.link.id == id) {
            tracing::debug!(reason, "a node could not be reached");
            self.next = None;
            self.back_off(now);
        } else if self.link.as_ref().is_some_and(|link| link.id == id) {
            tracing::debug!(reason, "the connection is lost");
            self.last_address = self.link.take().map(|link| link.address.clone());
            if self.leaving.is_some() {
                self.left(false, now);
            }
            self.dial_at = now.after(self.jitter(Self::BACKOFF_LEAST));
        }
    }

    fn back_off(&mut self, now: Tick) {
        let span = Self::BACKOFF_LEAST.times_or_max(1 << self.failures.min(10));
        self.failures = self.failures.saturating_add(1);
        self.dial_at = now.after(self.jitter(span.min(Self::BACKOFF_MOST)));
    }

    /// Between half of the span and all of it.
    fn jitter(&mut self, span: Span) -> Span {
        let nanos = span.nanos();
        Span::from_nanos(self.rng.random_range(nanos / 2..=nanos))
    }

    /// The node closed the edge in use.
    pub(super) fn closed(&mut self, now: Tick) {
        if self.leaving.is_some() {
            self.left(true, now);
        }
        if self.machine.edge().is_none() {
            self.questions.end_session();
            self.last_address = self.link.take().map(|link| link.address.clone());
            self.dial_at = now;
            self.switch_if_due(now);
        }
    }

    /// The node would rather see this client elsewhere.
    pub(super) fn wished(&mut self, address: String, now: Tick) {
        let here = self
            .link
            .as_ref()
            .is_some_and(|link| link.address == address);
        if here || self.wish.is_some() || self.closing {
            return;
        }
        let spread = self.rng.random_range(0..=Self::MOVE_SPREAD_MS);
        self.wish = Some((address, now.after(Span::from_millis(spread))));
    }
}
