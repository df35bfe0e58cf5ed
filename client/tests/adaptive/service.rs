//! A simulated service with workers and a queue, and its callers.

use aliquot_client::adaptive::{Controller, Sample};
use aliquot_client::clock::{Span, Tick};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

/// Distribution of the time that a worker needs for a call, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Times {
    Fixed(u64),
    /// The median, and the standard deviation of the logarithm.
    LogNormal(u64, f64),
    /// The second time with this probability, and otherwise the first.
    Either(u64, u64, f64),
}

impl Times {
    fn draw(self, rng: &mut Pcg64) -> Span {
        match self {
            Self::Fixed(ms) => Span::from_millis(ms),
            Self::LogNormal(ms, sigma) => {
                // Box and Muller's method.
                let (a, b): (f64, f64) = (rng.random(), rng.random());
                let normal = (-2.0 * (1.0 - a).ln()).sqrt() * (std::f64::consts::TAU * b).cos();
                Span::from_nanos((ms as f64 * 1e6 * (sigma * normal).exp()) as u64 + 1)
            }
            Self::Either(usual, other, part) => {
                Span::from_millis(if rng.random_bool(part) { other } else { usual })
            }
        }
    }

    fn mean(self) -> f64 {
        let ms = match self {
            Self::Fixed(ms) => ms as f64,
            Self::LogNormal(ms, sigma) => ms as f64 * (sigma * sigma / 2.0).exp(),
            Self::Either(usual, other, part) => usual as f64 * (1.0 - part) + other as f64 * part,
        };
        ms * 1e6
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Arrival,
    Served,
    Rejected,
}

/// An event to come, ordered by time, then by number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Event {
    at: Tick,
    number: u64,
    what: What,
    began: Tick,
    in_flight: u64,
}

/// A service with this many workers, and a queue. It rejects calls after a millisecond while the queue is
/// full.
pub(crate) struct Service {
    workers: u64,
    times: Times,
    queue: u64,
    /// Callers arrive at random, this many times as fast as the service can serve them. If none, there are
    /// always callers waiting.
    load: Option<f64>,
    now: Tick,
    rng: Pcg64,
    busy: u64,
    in_flight: u64,
    events: BinaryHeap<Reverse<Event>>,
    number: u64,
    waiting: VecDeque<(Tick, u64)>,
}

impl Service {
    pub(crate) fn new(queue: u64, load: Option<f64>) -> Self {
        Self {
            workers: 1,
            times: Times::Fixed(1),
            queue,
            load,
            now: Tick::from_nanos(1_000_000_000),
            rng: Pcg64::seed_from_u64(7),
            busy: 0,
            in_flight: 0,
            events: BinaryHeap::new(),
            number: 0,
            waiting: VecDeque::new(),
        }
    }

    /// Serves this many calls with these workers, as many at once as the controller allows. Returns the limit
    /// after each call of the second half, sorted.
    pub(crate) fn run(
        &mut self,
        (workers, times): (u64, Times),
        controller: &mut dyn Controller,
        calls: usize,
    ) -> Vec<u64> {
        (self.workers, self.times) = (workers, times);
        if self.load.is_some() && self.events.is_empty() {
            self.arrive(controller.limit());
        }
        let (mut limits, mut ended) = (Vec::with_capacity(calls), 0);
        while ended < calls {
            while self.load.is_none() && self.in_flight < controller.limit() {
                self.begin();
            }
            let Reverse(event) = self.events.pop().expect("calls are in flight");
            self.now = event.at;
            if event.what == What::Arrival {
                self.arrive(controller.limit());
                continue;
            }
            self.end(event.what);
            controller.sample(Sample {
                now: event.at,
                latency: Duration::from_nanos(event.at.since(event.began).nanos()),
                in_flight: event.in_flight,
                failed: event.what == What::Rejected,
            });
            ended += 1;
            if ended > calls / 2 {
                limits.push(controller.limit());
            }
        }
        limits.sort_unstable();
        limits
    }

    /// A caller arrives, and gives up if it may not call.
    fn arrive(&mut self, limit: u64) {
        if self.in_flight < limit {
            self.begin();
        }
        let part: f64 = self.rng.random();
        let gap = self.times.mean() / self.workers as f64 / self.load.expect("they arrive");
        let gap = Span::from_nanos((-(1.0 - part).ln() * gap) as u64);
        self.push(self.now.after(gap), What::Arrival, self.now, 0);
    }

    fn begin(&mut self) {
        self.in_flight += 1;
        let (now, in_flight) = (self.now, self.in_flight);
        if self.busy < self.workers {
            self.serve(now, in_flight);
        } else if (self.waiting.len() as u64) < self.queue {
            self.waiting.push_back((now, in_flight));
        } else {
            let end = now.after(Span::from_millis(1));
            self.push(end, What::Rejected, now, in_flight);
        }
    }

    fn end(&mut self, what: What) {
        self.in_flight -= 1;
        if what == What::Served {
            self.busy -= 1;
        }
        while self.busy < self.workers {
            let Some((began, in_flight)) = self.waiting.pop_front() else {
                break;
            };
            self.serve(began, in_flight);
        }
    }

    fn serve(&mut self, began: Tick, in_flight: u64) {
        self.busy += 1;
        let end = self.now.after(self.times.draw(&mut self.rng));
        self.push(end, What::Served, began, in_flight);
    }

    fn push(&mut self, at: Tick, what: What, began: Tick, in_flight: u64) {
        self.number += 1;
        self.events.push(Reverse(Event {
            at,
            number: self.number,
            what,
            began,
            in_flight,
        }));
    }
}
