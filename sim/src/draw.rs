//! Random numbers, derived from the seed and the purpose of each draw.
//!
//! There is no shared stream of random numbers. A draw is named by its purpose, its owner and a counter of
//! that owner. If one client or one fault is removed, all others still draw the same numbers. Therefore a
//! shrunk scenario still shows what the full one showed.

/// The purpose of a draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Of {
    /// The seed's plan: sizes, fault classes, gaps.
    Plan = 1,
    /// A fault, by its number.
    Fault,
    /// A host's clock.
    Clock,
    /// A message on a link.
    Message,
    /// An arrival at a client.
    Arrival,
    /// A step of a client's random walk of load.
    Walk,
    /// A timer of a host.
    Timer,
    /// The time for which a permit is held.
    Hold,
    /// The node that a client connects to.
    Choice,
    /// A candidate of a hunt.
    Hunt,
    /// The hold of a permit of the ideal limiter.
    IdealHold,
    /// The key of a request.
    Key,
}

/// A source of random numbers; the same name gives the same numbers on every machine.
#[derive(Clone, Debug)]
pub struct Draw(u64);

impl Draw {
    /// Returns the source for `owner`'s draw number `count` for this purpose.
    #[must_use]
    pub const fn of(seed: u64, of: Of, owner: u64, count: u64) -> Self {
        let named = mix(seed ^ 0x5851_f42d_4c95_7f2d) ^ mix(owner ^ ((of as u64) << 56));
        Self(mix(named).wrapping_add(count.wrapping_mul(0xd134_2543_de82_ef95)))
    }

    /// Returns 64 random bits.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// Returns a number in `from..to`, or `from` if the range is empty.
    pub const fn range(&mut self, from: u64, to: u64) -> u64 {
        if to <= from {
            return from;
        }
        from + self.next() % (to - from)
    }

    /// Returns an index in `0..len`, or 0 if `len` is 0.
    pub const fn index(&mut self, len: usize) -> usize {
        self.range(0, len as u64) as usize
    }

    /// Returns a number in `0.0..1.0`.
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns true with this probability.
    pub fn chance(&mut self, likelihood: f64) -> bool {
        likelihood > 0.0 && self.unit() < likelihood
    }

    /// Returns an exponential variate with this mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }

    /// Returns a Pareto variate with this mean and the tail exponent `alpha`.
    pub fn pareto(&mut self, mean: f64, alpha: f64) -> f64 {
        let least = mean * (alpha - 1.0) / alpha;
        least / (1.0 - self.unit()).powf(1.0 / alpha)
    }
}

/// The finalizer of SplitMix64.
const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
