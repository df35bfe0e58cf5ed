//! A local limit beside the simplest bucket possible, which counts in 10⁻⁹ tokens and nanoseconds and rounds
//! nothing: for any operations, through any handle, and wherever the clock steps.

mod bucket {
    use aliquot_client::clock::Tick;

    pub(super) const TOKEN: u128 = 1_000_000_000;

    /// The generic cell rate algorithm, with the debt since a base.
    pub(super) struct Bucket {
        pub(super) rate: u128,
        pub(super) burst: u128,
        base: Tick,
        debt: u128,
    }

    impl Bucket {
        pub(super) const fn full(rate: u128, burst: u128, base: Tick) -> Self {
            let debt = 0;
            Self {
                rate,
                burst,
                base,
                debt,
            }
        }

        /// The supply since the base. A clock that steps back adds nothing, and takes back what it added.
        fn made(&self, now: Tick) -> u128 {
            self.rate * u128::from(now.since(self.base).nanos())
        }

        pub(super) fn level(&self, now: Tick) -> i128 {
            let missing = self.debt.saturating_sub(self.made(now));
            self.burst.cast_signed() - missing.cast_signed()
        }

        /// Returns the wait for `n` tokens, in nanoseconds; `None` if they never come.
        pub(super) fn wait(&self, n: u128, now: Tick) -> Option<u128> {
            let due = (self.debt.max(self.made(now)) + n * TOKEN).checked_sub(self.burst);
            let Some(due) = due.filter(|due| *due > self.made(now)) else {
                return Some(0);
            };
            let since_base = (self.rate > 0).then(|| due.div_ceil(self.rate))?;
            let base = u128::from(self.base.nanos());
            Some(base + since_base - u128::from(now.nanos()))
        }

        pub(super) fn take(&mut self, n: u128, now: Tick) {
            self.debt = self.debt.max(self.made(now)) + n * TOKEN;
        }

        /// Sets the level at `now`.
        pub(super) fn set_level(&mut self, level: i128, now: Tick) {
            let missing = self.burst.cast_signed() - level;
            self.debt = self.made(now) + missing.cast_unsigned();
        }

        /// Changes the parameters at `now`; the level stays, and what no longer fits is cut off.
        pub(super) fn set(&mut self, rate: u128, burst: u128, now: Tick) {
            let base = now.max(self.base);
            let level = self.level(base);
            *self = Self::full(rate, burst, base);
            self.set_level(level.min(burst.cast_signed()), base);
        }
    }
}

use aliquot_client::clock::{Span, Tick};
use aliquot_client::observe::{Mode, ModeStats};
use aliquot_client::{Limit, Limiter, ManualClock, Reason, Refused, Reservation};
use bucket::{Bucket, TOKEN};
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use std::sync::Arc;
use std::time::Duration;

const START: Tick = Tick::from_nanos(1 << 50);

#[derive(Clone, Copy, Debug)]
enum Op {
    /// Moves the clock by this many milliseconds, forwards or back.
    Step(i64),
    Acquire(u64),
    /// Takes for later, within this many milliseconds.
    Reserve(u64, u64),
    /// Cancels the held reservation with this number.
    Cancel(usize),
    Settle(usize, u64),
    /// Sets the rate in tokens per second; `None` for no limit.
    Limit(Option<u64>),
    Burst(u64),
    Mode(Mode),
}

fn ops() -> impl Strategy<Value = Vec<(usize, Op)>> {
    let step = prop_oneof![5 => 0..900_i64, 1 => -2_000..0_i64];
    let op = prop_oneof![
        5 => step.prop_map(Op::Step),
        5 => (0..8_u64).prop_map(Op::Acquire),
        3 => (0..8_u64, prop_oneof![Just(0), 0..3_000_u64]).prop_map(|(n, ms)| Op::Reserve(n, ms)),
        2 => any::<usize>().prop_map(Op::Cancel),
        2 => (any::<usize>(), 0..8_u64).prop_map(|(which, actual)| Op::Settle(which, actual)),
        1 => prop::option::weighted(0.8, 0..21_u64).prop_map(Op::Limit),
        1 => (0..12_u64).prop_map(Op::Burst),
        1 => prop::sample::select(&[Mode::Enforce, Mode::Enforce, Mode::DryRun, Mode::Bypass, Mode::Freeze][..])
            .prop_map(Op::Mode),
    ];
    prop::collection::vec((0..3_usize, op), 1..80)
}

/// A limiter and the expected bucket.
struct Pair {
    clock: ManualClock,
    now: Tick,
    handles: [Limiter; 3],
    held: Vec<(Reservation, Tick)>,
    bucket: Bucket,
    unlimited: bool,
    mode: Mode,
    mode_stats: ModeStats,
}

impl Pair {
    fn new(rate: u64, burst: u64) -> Self {
        let clock = ManualClock::new();
        clock.set(START);
        let limiter = Limiter::local_with(Limit::per_sec(rate), burst, Arc::new(clock.clone()))
            .expect("a limit");
        Self {
            clock,
            now: START,
            handles: [limiter.clone(), limiter.clone().unbatched(), limiter],
            held: Vec::new(),
            bucket: Bucket::full(rate.into(), u128::from(burst) * TOKEN, START),
            unlimited: false,
            mode: Mode::Enforce,
            mode_stats: ModeStats::default(),
        }
    }

    /// Returns the expected decision on `n` with a wait of at most `most`: the wait, or the refusal.
    fn decision(&self, n: u64, most: u128) -> Result<u128, Refused> {
        if self.unlimited {
            return Ok(0);
        }
        if u128::from(n) * TOKEN > self.bucket.burst {
            let burst = u64::try_from(self.bucket.burst / TOKEN).expect("a burst of at most 2^64");
            return Err(Refused::exceeds(n, burst));
        }
        let n = u128::from(n);
        let wait = self.bucket.wait(n, self.now);
        wait.filter(|wait| *wait <= most).ok_or(Refused {
            reason: Reason::Throttled,
            retry_after: wait.map(|nanos| Duration::from_nanos(nanos as u64)),
            excess: None,
        })
    }

    /// Applies the mode to a decision; `None` means that it is let through.
    fn ruled<T>(&self, decision: Result<T, Refused>) -> Result<Option<T>, Refused> {
        match (self.mode, decision) {
            (Mode::Freeze, _) => Err(Refused::from(Reason::Frozen)),
            (_, Ok(answer)) => Ok(Some(answer)),
            (Mode::Enforce, Err(refused)) => Err(refused),
            (Mode::DryRun | Mode::Bypass, Err(_)) => Ok(None),
        }
    }

    /// Applies a decision to the bucket. Returns from when on the tokens may be used.
    fn take(&mut self, n: u64, decision: Result<u128, Refused>) -> Result<Tick, Refused> {
        let ruled = self.ruled(decision);
        match ruled {
            Err(refused) => self.mode_stats.frozen += u64::from(refused.reason == Reason::Frozen),
            Ok(Some(_)) if self.unlimited => {}
            Ok(Some(_)) => self.bucket.take(n.into(), self.now),
            Ok(None) => {
                self.mode_stats.let_through += 1;
                self.mode_stats.tokens += n;
            }
        }
        let wait = ruled?.unwrap_or(0);
        Ok(self.now.after(Span::from_nanos(wait as u64)))
    }

    fn act(&mut self, limiter: &Limiter, op: Op) -> TestCaseResult {
        match op {
            Op::Step(ms) => {
                let nanos = self.now.nanos().saturating_add_signed(ms * 1_000_000);
                self.now = Tick::from_nanos(nanos);
                self.clock.set(self.now);
            }
            Op::Acquire(n) => {
                let would = self.ruled(self.decision(n, 0)).map(drop);
                prop_assert_eq!(limiter.would_admit(n), would);
                let taken = self.take(n, self.decision(n, 0)).map(drop);
                prop_assert_eq!(limiter.try_acquire(n).map(drop), taken);
            }
            Op::Reserve(n, ms) => {
                let most = Duration::from_millis(ms);
                let reserved = limiter.reserve_within(n, most);
                // A caller that the mode lets through does not wait.
                let most = match self.mode {
                    Mode::DryRun | Mode::Bypass => Duration::ZERO,
                    Mode::Enforce | Mode::Freeze => most,
                };
                let act_at = self.take(n, self.decision(n, most.as_nanos()));
                let reserved_at = reserved.as_ref().map(Reservation::act_at);
                prop_assert_eq!(reserved_at.map_err(|refused| *refused), act_at);
                self.held
                    .extend(reserved.ok().map(|taken| (taken, self.now)));
            }
            Op::Cancel(which) => {
                if let Some(at) = which.checked_rem(self.held.len()) {
                    let (taken, _) = self.held.swap_remove(at);
                    let (n, late) = (taken.tokens(), taken.act_at() < self.now);
                    let most = if late { 0 } else { n };
                    self.put_back(limiter, most, |now| taken.cancel_at(now))?;
                }
            }
            Op::Settle(which, actual) => {
                if let Some(at) = which.checked_rem(self.held.len()) {
                    let (taken, since) = self.held.swap_remove(at);
                    self.settle(limiter, (taken, since), actual)?;
                }
            }
            Op::Limit(per_sec) => self.set_limit(limiter, per_sec),
            Op::Burst(burst) => {
                limiter.set_burst(burst).expect("a burst");
                let burst = u128::from(burst) * TOKEN;
                self.bucket.set(self.bucket.rate, burst, self.now);
            }
            Op::Mode(mode) => {
                limiter.set_mode(mode);
                self.mode = mode;
                let Bucket { rate, burst, .. } = self.bucket;
                self.bucket.set(rate, burst, self.now);
            }
        }
        Ok(())
    }

    fn set_limit(&mut self, limiter: &Limiter, per_sec: Option<u64>) {
        let limit = per_sec.map_or(Limit::UNLIMITED, Limit::per_sec);
        limiter.set_limit(limit).expect("a limit");
        let rate = per_sec.map_or(0, u128::from);
        if self.unlimited {
            let level = self.bucket.burst.cast_signed();
            self.bucket.set_level(level, self.now);
        }
        self.bucket.set(rate, self.bucket.burst, self.now);
        self.unlimited = per_sec.is_none();
    }

    /// Other tests state how much a refund may return. Here the level must rise by the amount that the
    /// limiter reports, and no further than there is room for.
    fn put_back(
        &mut self,
        limiter: &Limiter,
        most: u64,
        back: impl FnOnce(Tick) -> u64,
    ) -> TestCaseResult {
        let before = self.bucket.level(self.now);
        let restored = i128::from(back(self.now));
        let level = level_of(limiter, self.now);
        if self.unlimited {
            prop_assert!(restored <= most.into());
            return Ok(());
        }
        let (rise, token) = (level - before, TOKEN.cast_signed());
        prop_assert!(rise >= 0 && rise <= i128::from(most) * token);
        prop_assert_eq!(restored, rise / token, "{} were {}", before, level);
        if rise > 0 {
            self.bucket.set_level(level, self.now);
        }
        Ok(())
    }

    fn settle(
        &mut self,
        limiter: &Limiter,
        (taken, since): (Reservation, Tick),
        actual: u64,
    ) -> TestCaseResult {
        let n = taken.tokens();
        if let Some(less) = n.checked_sub(actual) {
            return self.put_back(limiter, less, |now| taken.settle_at(actual, now).restored);
        }
        let settled = taken.settle_at(actual, self.now);
        prop_assert!(settled.restored == 0 && [0, actual - n].contains(&settled.taken));
        if settled.taken > 0 && !self.unlimited {
            // Tokens taken at a later tick than the present one seems were not taken before it.
            let now = self.now.max(since);
            self.bucket.take(settled.taken.into(), now);
        }
        Ok(())
    }

    fn compare(&self, limiter: &Limiter) -> TestCaseResult {
        prop_assert_eq!(limiter.mode_stats(), self.mode_stats);
        prop_assert_eq!(limiter.mode(), self.mode);
        if self.unlimited {
            return Ok(());
        }
        let level = self.bucket.level(self.now);
        prop_assert_eq!(level_of(limiter, self.now), level);
        let (seen, whole) = (limiter.peek(), level.max(0).cast_unsigned() / TOKEN);
        prop_assert_eq!(u128::from(seen.level), whole);
        prop_assert_eq!(u128::from(seen.burst) * TOKEN, self.bucket.burst);
        prop_assert_eq!(u128::from(seen.rate), self.bucket.rate);
        Ok(())
    }
}

/// Returns the level in the bucket's own unit; rounding to whole ones is precise enough.
fn level_of(limiter: &Limiter, now: Tick) -> i128 {
    (limiter.tokens_at(now) * TOKEN as f64).round() as i128
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// With these initial rates the limiter counts in 10⁻⁹ tokens, so that it rounds nothing at any whole rate that
    /// is set later.
    #[test]
    fn a_local_limit_is_the_plain_bucket(
        ops in ops(), rate in prop::sample::select(&[1_u64, 3, 7, 9, 11, 13, 17, 19][..]), burst in 0..12_u64,
    ) {
        let mut pair = Pair::new(rate, burst);
        for (which, op) in ops {
            let limiter = pair.handles[which].clone();
            pair.act(&limiter, op)?;
            pair.compare(&limiter)?;
        }
    }
}
