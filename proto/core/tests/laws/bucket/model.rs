//! The bucket equals a reference in plain rational arithmetic: a level in billionths of a grain, in 128 bits,
//! that is updated at every event.

use super::*;

#[derive(Clone, Debug)]
pub(crate) struct Model {
    rate: i128,
    burst: i128,
    /// Billionths of a grain; below zero after reservations.
    level: i128,
    latest: Tick,
    promised: i128,
    reservations: u64,
}

impl Model {
    pub(crate) fn new(share: Share, now: Tick) -> Self {
        Self {
            rate: share.rate.grains().into(),
            burst: share.burst.grains().into(),
            level: i128::from(share.tokens.min(share.burst).grains()) * BILLION,
            latest: now,
            promised: 0,
            reservations: 0,
        }
    }

    fn advance(&mut self, now: Tick) {
        let made = self.rate * i128::from(now.since(self.latest).nanos());
        self.latest = self.latest.max(now);
        self.level = (self.level + made).min(self.burst * BILLION);
    }

    fn whole(&self) -> i128 {
        self.level.div_euclid(BILLION)
    }

    fn take(&mut self, n: i128) -> i128 {
        let owed = (-self.whole()).max(0);
        self.level -= n * BILLION;
        let promised = (-self.whole()).max(0) - owed;
        self.promised += promised;
        promised
    }

    fn put(&mut self, n: i128) {
        self.level = (self.level + n * BILLION).min(self.burst * BILLION);
    }

    /// Returns the tick to act at, if there is one.
    fn reserve(&self, n: i128) -> Option<u64> {
        let latest = self.latest.nanos();
        let missing = n * BILLION - self.level;
        if missing <= 0 {
            return Some(latest);
        }
        (self.rate > 0).then(|| {
            let wait = (missing + self.rate - 1) / self.rate;
            latest + u64::try_from(wait).expect("rates and costs of these tests")
        })
    }

    fn reconfigure(&mut self, rate: i128, burst: i128) -> i128 {
        let cut = (self.whole() - burst).max(0);
        self.rate = rate;
        self.burst = burst;
        self.level = self.level.min(burst * BILLION);
        cut
    }
}

#[derive(Clone, Debug)]
enum Op {
    Step(i64),
    Acquire(u64),
    Reserve(u64),
    Cancel(usize),
    Spend(u64),
    Refund(u64),
    TakeUpTo(u64),
    Reconfigure(u64, u64),
    Deposit(u64, u64, u64),
    Withdraw(u64, u64),
}

fn any_ops() -> impl Strategy<Value = Vec<Op>> {
    let n = 0..20_u64;
    let op = prop_oneof![
        6 => any_step().prop_map(Op::Step),
        6 => n.clone().prop_map(Op::Acquire),
        3 => n.clone().prop_map(Op::Reserve),
        2 => any::<usize>().prop_map(Op::Cancel),
        1 => n.clone().prop_map(Op::Spend),
        1 => n.clone().prop_map(Op::Refund),
        1 => n.clone().prop_map(Op::TakeUpTo),
        2 => (any_rate(), n.clone()).prop_map(|(rate, burst)| Op::Reconfigure(rate, burst)),
        2 => (any_rate(), n.clone(), n.clone()).prop_map(|(r, b, t)| Op::Deposit(r, b, t)),
        2 => (any_rate(), n).prop_map(|(rate, burst)| Op::Withdraw(rate, burst)),
    ];
    prop::collection::vec(op, 1..80)
}

struct Held {
    reservation: Reservation,
    promised: i128,
    until: i128,
    serial: u64,
}

/// Both sides of the comparison, and the reservations of both.
struct Pair {
    bucket: Bucket,
    model: Model,
    now: Tick,
    held: Vec<Held>,
}

impl Pair {
    fn run(&mut self, op: &Op) -> TestCaseResult {
        if let Op::Step(step) = *op {
            // Only a method that changes something shows the bucket the clock.
            self.now = stepped(self.now, step);
            return Ok(());
        }
        if matches!(op, Op::Cancel(_)) && self.held.is_empty() {
            return Ok(());
        }
        self.model.advance(self.now);
        let (bucket, model, now) = (&mut self.bucket, &mut self.model, self.now);
        match *op {
            Op::Acquire(n) => {
                let fits = i128::from(n) <= model.burst && model.whole() >= n.into();
                prop_assert_eq!(bucket.peek(grains(n), now).is_ok(), fits);
                prop_assert_eq!(bucket.try_acquire_at(grains(n), now).is_ok(), fits);
                if fits {
                    model.take(n.into());
                }
            }
            Op::Reserve(n) => self.reserve(n)?,
            Op::Cancel(which) => self.cancel(which)?,
            Op::Step(_) => {}
            Op::Spend(n) => {
                prop_assert_eq!(bucket.spend(grains(n), now), Some(()));
                model.take(n.into());
            }
            Op::Refund(n) => {
                let kept = i128::from(n).min(model.burst - model.whole());
                prop_assert_eq!(i128::from(bucket.refund(grains(n), now).grains()), kept);
                model.put(kept);
            }
            Op::TakeUpTo(n) => {
                let taken = i128::from(n).min(model.whole().max(0));
                prop_assert_eq!(
                    i128::from(bucket.take_up_to(grains(n), now).grains()),
                    taken
                );
                model.take(taken);
            }
            Op::Reconfigure(..) | Op::Deposit(..) | Op::Withdraw(..) => self.reshape(op)?,
        }
        Ok(())
    }

    fn reshape(&mut self, op: &Op) -> TestCaseResult {
        let (bucket, model, now) = (&mut self.bucket, &mut self.model, self.now);
        match *op {
            Op::Reconfigure(rate, burst) => {
                let cut = bucket.reconfigure(Rate::from_grains(rate), grains(burst), now);
                let expect = model.reconfigure(rate.into(), burst.into());
                prop_assert_eq!(i128::from(cut.grains()), expect);
            }
            Op::Deposit(rate, burst, tokens) => {
                prop_assert_eq!(bucket.deposit(share(rate, burst, tokens), now), Ok(()));
                let rate = model.rate + i128::from(rate);
                model.reconfigure(rate, model.burst + i128::from(burst));
                model.put(tokens.min(burst).into());
            }
            Op::Withdraw(rate, burst) => {
                let part = bucket.withdraw(Rate::from_grains(rate), grains(burst), now);
                let (rate, burst) = (
                    i128::from(part.rate.grains()),
                    i128::from(part.burst.grains()),
                );
                let cut = model.reconfigure(model.rate - rate, model.burst - burst);
                prop_assert_eq!(i128::from(part.tokens.grains()), cut);
                prop_assert!(part.tokens <= part.burst);
            }
            _ => {}
        }
        Ok(())
    }

    fn reserve(&mut self, n: u64) -> TestCaseResult {
        let held = self.bucket.reserve(grains(n), self.now, Span::MAX);
        let expect = (i128::from(n) <= self.model.burst)
            .then(|| self.model.reserve(n.into()))
            .flatten();
        let latest = self.model.latest;
        let act = held.as_ref().ok().map(|held| held.act_at().max(latest));
        prop_assert_eq!(act.map(Tick::nanos), expect);
        if let Ok(held) = held {
            let promised = self.model.take(n.into());
            self.model.reservations += 1;
            self.held.push(Held {
                reservation: held,
                promised,
                until: self.model.promised,
                serial: self.model.reservations,
            });
        }
        Ok(())
    }

    fn cancel(&mut self, which: usize) -> TestCaseResult {
        let held = self.held.swap_remove(which % self.held.len());
        let n = i128::from(held.reservation.tokens().grains());
        let in_time = held.reservation.act_at() >= self.model.latest;
        let after = self.model.promised - held.until;
        prop_assert!(after >= 0);
        let room = self.model.burst - self.model.whole();
        let restored = if in_time {
            (n - after).clamp(0, room)
        } else {
            0
        };
        if in_time && after == 0 && held.serial == self.model.reservations {
            self.model.promised -= held.promised;
            self.model.reservations -= 1;
        }
        let answer = self.bucket.cancel(held.reservation, self.now);
        prop_assert_eq!(i128::from(answer.grains()), restored);
        self.model.put(restored);
        Ok(())
    }

    fn agree(&self) -> TestCaseResult {
        let mut model = self.model.clone();
        model.advance(self.now);
        let level = i128::from(self.bucket.level_at(self.now).grains());
        let owed = i128::from(self.bucket.owed_at(self.now).grains());
        prop_assert_eq!(level - owed, model.whole());
        prop_assert!(level == 0 || owed == 0);
        let share = self.bucket.share_at(self.now);
        prop_assert_eq!(i128::from(share.rate.grains()), model.rate);
        prop_assert_eq!(i128::from(share.burst.grains()), model.burst);
        Ok(())
    }
}

fn bucket_and_model_agree(start: Share, ops: &[Op]) -> TestCaseResult {
    let mut pair = Pair {
        bucket: Bucket::new(start, START),
        model: Model::new(start, START),
        now: START,
        held: Vec::new(),
    };
    for op in ops {
        pair.run(op)?;
        pair.agree()?;
    }
    Ok(())
}

proptest! {
    #![proptest_config(config())]

    /// Invariants 2 and 12, and the level across any reconfiguration: nothing appears, and nothing is lost,
    /// not a billionth of a grain.
    #[test]
    fn any_sequence_of_verbs_answers_as_the_rational_reference_does(
        rate in any_rate(), burst in 0..20_u64, tokens in 0..25_u64, ops in any_ops(),
    ) {
        bucket_and_model_agree(share(rate, burst, tokens), &ops)?;
    }
}

#[test]
fn the_reference_catches_what_it_should() {
    for bug in [
        Bug::ElapsedAfterStepBack,
        Bug::RaiseArrivesFull,
        Bug::SupplyRoundsUp,
        Bug::CancelRefundsAll,
        Bug::WithdrawLeavesFull,
        Bug::FullKeepsFraction,
    ] {
        let law = |(rate, burst, ops): (_, _, Vec<_>)| {
            bucket_and_model_agree(share(rate, burst, burst), &ops)
        };
        let caught = first_caught((any_rate(), 0..20_u64, any_ops()), law, bug);
        assert!(caught.is_some(), "{bug:?}");
        eprintln!("{bug:?}: caught by the reference in case {caught:?}");
    }
}
