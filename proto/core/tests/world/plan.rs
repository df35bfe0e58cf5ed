//! What a seed is: its budget, its load, its faults, all drawn before it begins.

use super::clock::{MS, SEC};
use super::rng::Rng;
use aliquot_core::budget::{Budget, BudgetDraft, ExpiryDraft, PartDraft};
use aliquot_core::unit::Drift;

#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub rho: u32,
    pub lease_ms: u64,
    /// Tokens per second, and tokens.
    pub rate: u64,
    pub burst: u64,
    pub floors: bool,
    /// One caller in each client waits for its token: small bursts then lose nothing.
    pub patient: bool,
    /// The greatest cost of a request, in tokens.
    pub cost: u64,
    /// No faults at all, for the control.
    pub calm: bool,
    /// How many requests come at once.
    pub batch: u64,
    pub faults_from: u64,
    pub faults_to: u64,
}

impl Plan {
    pub const CLIENTS: usize = 50;
    pub const HEALED: u64 = 20 * SEC;

    pub fn draw(seed: u64, calm: bool) -> Self {
        let mut rng = Rng::new(seed);
        let rate = rng.pick(&[50, 60, 80, 100, 100, 150, 200, 200, 300, 400, 600, 1_000]);
        let rate = if rng.chance(10) { 5_000 } else { rate };
        let patient = rng.chance(700);
        let least = if patient { 60 } else { 250 };
        let burst = rng.range(least, rate.max(least) + 50).max(rate / 10);
        let rho = match rng.range(0, 10) {
            0 => 0,
            1 | 2 => 50_000,
            _ => 1_000,
        };
        Self {
            seed,
            rho,
            lease_ms: 3_000,
            rate,
            burst,
            floors: rng.chance(200),
            patient,
            cost: if rng.chance(50) { 3 } else { 1 },
            calm,
            batch: if rng.chance(300) { rng.range(2, 8) } else { 1 },
            faults_from: 4 * SEC,
            faults_to: 20 * SEC,
        }
    }

    pub fn drift(&self) -> Drift {
        Drift::from_ppm(self.rho).unwrap_or_default()
    }

    /// When everything must be well again, and when the world ends.
    pub fn healed_from(&self) -> u64 {
        self.faults_to + self.lease_ms * MS + SEC
    }

    pub fn end(&self) -> u64 {
        self.healed_from() + Self::HEALED
    }

    /// No limit of this world is greater.
    pub fn greatest(&self) -> (u64, u64) {
        (self.rate * 2, self.burst * 2)
    }

    /// The budget at so many per cent of its size.
    pub fn budget(&self, per_cent: u64) -> Budget {
        let (rate, burst) = (self.rate * per_cent / 100, self.burst * per_cent / 100);
        let mut draft = BudgetDraft {
            key: "world".into(),
            rate: Some(format!("{}/s", rate.max(1)).into()),
            burst: Some(burst.max(1).into()),
            forget_after: Some("2s".into()),
            ..BudgetDraft::default()
        };
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
