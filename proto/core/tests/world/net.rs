//! Links: reachability, delay, duplication.

use super::clock::{MS, quantised};
use super::rng::Rng;

/// Hosts `0..NODES` are coordinator nodes, the others clients.
pub(crate) const NODES: usize = 3;

#[derive(Debug)]
pub(crate) struct Net {
    hosts: usize,
    /// Number of faults that cut the link from one host to another.
    cuts: Vec<u16>,
    /// Per mille of messages lost, doubled, and late by seconds.
    pub(crate) loss: u64,
    pub(crate) doubled: u64,
    pub(crate) late: u64,
    /// Time at which the last late message arrives.
    pub(crate) late_until: u64,
    /// The usual one-way delay, in nanoseconds.
    delay: u64,
    /// The host whose incoming messages arrive seconds late.
    pub(crate) adrift: Option<usize>,
    /// True time until which no cut holds up a host's messages, and true time until which the log's messages
    /// are slow.
    pub(crate) open: [u64; NODES],
    pub(crate) slow_log: u64,
}

impl Net {
    pub(crate) fn new(hosts: usize, rng: &mut Rng) -> Self {
        Self {
            hosts,
            cuts: vec![0; hosts * hosts],
            loss: 0,
            doubled: 0,
            late: 0,
            late_until: 0,
            delay: rng.range(1, 15) * MS,
            adrift: None,
            open: [0; NODES],
            slow_log: 0,
        }
    }

    pub(crate) fn cut(&mut self, from: usize, to: usize) {
        self.cuts[from * self.hosts + to] += 1;
    }

    pub(crate) fn mend(&mut self, from: usize, to: usize) {
        self.cuts[from * self.hosts + to] -= 1;
    }

    pub(crate) fn reaches(&self, from: usize, to: usize) -> bool {
        self.cuts[from * self.hosts + to] == 0
    }

    /// Returns the delay of each copy of a message; none if it is lost.
    pub(crate) fn send(
        &mut self,
        from: usize,
        to: usize,
        now: u64,
        rng: &mut Rng,
    ) -> [Option<u64>; 2] {
        if from == to {
            return [Some(quantised(1)), None];
        }
        let open = |host: usize| self.open.get(host).is_some_and(|&until| now < until);
        if open(from) && open(to) {
            return [Some(self.delay(now, rng)), None];
        }
        let passes = self.reaches(from, to) || open(from) || open(to);
        if !passes || rng.chance(self.loss) {
            return [None, None];
        }
        if self.adrift == Some(to) {
            let delay = rng.range(1_000, 2_900) * MS;
            self.late_until = self.late_until.max(now + delay);
            return [Some(delay), None];
        }
        let second = rng.chance(self.doubled).then(|| self.delay(now, rng));
        [Some(self.delay(now, rng)), second]
    }

    /// Draws a delay for each copy, so that copies overtake each other.
    fn delay(&mut self, now: u64, rng: &mut Rng) -> u64 {
        let mut delay = self.delay / 2 + rng.range(0, self.delay);
        if rng.chance(20) {
            delay += rng.range(0, 100 * MS);
        }
        if rng.chance(self.late) {
            delay += rng.range(100 * MS, 2_500 * MS);
            self.late_until = self.late_until.max(now + delay);
        }
        quantised(delay)
    }
}
