//! The parameters of a seed: its budget, its load, its faults, all drawn before it begins.

use super::clock::{SEC, quantised};
use super::rng::Rng;
use aliquot_core::budget::{Budget, BudgetDraft, ExpiryDraft, PartDraft};
use aliquot_core::lease::parent_span;
use aliquot_core::share::Kind;
use aliquot_core::unit::{Drift, Span};

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) kind: Kind,
    pub(crate) rho: u32,
    pub(crate) lease_ms: u64,
    /// Tokens per second, and tokens.
    pub(crate) rate: u64,
    pub(crate) burst: u64,
    pub(crate) floors: bool,
    /// True if the burst is too small to divide, and clients send central requests.
    pub(crate) small: bool,
    /// True if callers wait for their tokens, up to a maximum number: small bursts then lose nothing.
    pub(crate) patient: bool,
    /// The greatest cost of a request, in tokens.
    pub(crate) cost: u64,
    /// No faults at all, for the control.
    pub(crate) calm: bool,
    /// Number of requests that come at once.
    pub(crate) batch: u64,
    /// Maximum time that a replica takes to apply an entry.
    pub(crate) apply_ms: u64,
    /// True if all faults affect leaders and the nodes that they depend on.
    pub(crate) palace: bool,
    /// True if a leader without a quorum continues for long.
    pub(crate) stubborn: bool,
    pub(crate) faults_from: u64,
    pub(crate) faults_to: u64,
}

impl Plan {
    pub(crate) const CLIENTS: usize = 50;
    pub(crate) const HEALED: u64 = 20 * SEC;
    /// The least part of R that is admitted once healed.
    pub(crate) const LEAST_HEALED: f64 = 0.99;
    /// Minimum number of faults that take effect.
    pub(crate) const LEAST_FAULTS: u64 = 12;
    /// Time for which a floor of a closed incarnation stays booked after its lease: the minimum, so that it
    /// is free again when everything else must be.
    const FORGET: &str = "1s";

    pub(crate) fn draw(seed: u64, calm: bool) -> Self {
        let mut rng = Rng::new(seed);
        let rate = rng.pick(&[100, 100, 120, 150, 150, 200, 200, 200, 300, 400, 600, 1_000]);
        let rate = if rng.chance(10) { 5_000 } else { rate };
        let patient = rng.chance(700);
        let cost = if rng.chance(50) { 3 } else { 1 };
        // At every client some part of a request's cost is always in the making. Fifty of these parts must be
        // little beside what 20 seconds make, and a client's demand more than a few requests per second.
        // Otherwise that noise is measured once healed.
        let rate = if cost == 1 { rate } else { rate.max(200) };
        // Every client's part must be able to hold what it is asked for at once.
        let least = match (patient, cost) {
            (_, 3) => 600,
            (true, _) => 60,
            (false, _) => 250,
        };
        // Bursts of many seconds show tokens that the silence of a lease would hide.
        let most = if rng.chance(250) { rate * 12 } else { rate };
        let burst = rng.range(least, most.max(least) + 50).max(rate / 10);
        let rho = match rng.range(0, 10) {
            0 => 0,
            1 | 2 => 50_000,
            _ => 1_000,
        };
        // All floors together are a quarter of the rate and a fifth of the burst: what floors of closed
        // incarnations pin cannot be given to others.
        let floors = rng.chance(250) && rate >= 200;
        let burst = if floors { burst.max(250) } else { burst };
        Self {
            seed,
            kind: Kind::Rate,
            rho,
            lease_ms: 3_000,
            rate,
            burst,
            floors,
            small: false,
            patient,
            cost,
            calm,
            batch: if patient && rng.chance(400) {
                rng.range(2, 8)
            } else {
                1
            },
            apply_ms: if rng.chance(150) || Self::is_palace(seed) {
                150
            } else {
                10
            },
            palace: Self::is_palace(seed),
            stubborn: rng.chance(500),
            faults_from: 4 * SEC,
            faults_to: 20 * SEC,
        }
    }

    /// Returns the same plan with a budget of another kind.
    pub(crate) fn counted(seed: u64, kind: Kind) -> Self {
        Self {
            kind,
            floors: false,
            patient: false,
            cost: 1,
            ..Self::draw(seed, false)
        }
    }

    /// Returns the same plan with a burst of a few tokens, for which clients send central requests.
    pub(crate) fn small(seed: u64) -> Self {
        let drawn = Self::draw(seed, false);
        Self {
            rate: drawn.rate.clamp(100, 300),
            burst: 6 + seed % 7,
            floors: false,
            small: true,
            patient: false,
            cost: 1,
            batch: 1,
            ..drawn
        }
    }

    /// Returns the time at which everything must be healed, if the last fault was over at `last`: a lease, as
    /// long as a parent waits for one, and a second later.
    pub(crate) fn healed_from(&self, last: u64) -> u64 {
        let lease = parent_span(Span::from_millis(self.lease_ms), self.drift());
        last + quantised(lease.nanos()) + SEC
    }

    pub(crate) fn drift(&self) -> Drift {
        Drift::from_ppm(self.rho).unwrap_or_default()
    }

    /// Returns the greatest limit of this world.
    pub(crate) fn greatest(&self) -> (u64, u64) {
        let times = if self.changes_limits() { 2 } else { 1 };
        (self.rate * times, self.burst * times)
    }

    /// One seed in eight.
    pub(crate) fn is_palace(seed: u64) -> bool {
        seed % 8 == 3
    }

    pub(crate) fn changes_limits(&self) -> bool {
        self.seed.is_multiple_of(2)
    }

    /// Returns true if it deletes its budget and makes it again, sometimes on the old books and sometimes,
    /// when these are clear, on new ones.
    pub(crate) fn deletes(&self) -> bool {
        self.seed % 8 == 5
    }

    /// Returns the budget at this percentage of its size.
    pub(crate) fn budget(&self, per_cent: u64) -> Budget {
        let (rate, burst) = (self.rate * per_cent / 100, self.burst * per_cent / 100);
        let mut draft = BudgetDraft {
            key: "world".into(),
            forget_after: Some(Self::FORGET.into()),
            ..BudgetDraft::default()
        };
        match self.kind {
            Kind::Rate => {
                draft.rate = Some(format!("{}/s", rate.max(1)).into());
                draft.burst = Some(burst.max(1).into());
            }
            // An eighth of the demand.
            Kind::Quota => draft.quota = Some(format!("{} per 10s", rate.max(1) * 5).into()),
            Kind::Concurrency => {
                // At least one for every client: callers of this world ask only their client.
                draft.concurrency = Some((rate / 5).clamp(100, 150).into());
                draft.max_hold = Some("1s".into());
            }
        }
        if self.floors {
            draft.floor = Some(PartDraft {
                rate: Some(format!("{}/s", (self.rate / 200).max(1)).into()),
                burst: Some(1.into()),
                ..PartDraft::default()
            });
            draft.on_lease_expiry = Some(ExpiryDraft::Word("floor".into()));
        }
        draft.validate().expect("a plan draws only valid budgets")
    }
}
