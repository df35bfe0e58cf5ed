use super::*;
use proptest::prelude::*;

const PASS: Duration = Duration::from_millis(100);

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A budget: a token bucket that starts full, in millionths.
#[derive(Clone, Debug)]
struct Whole {
    rate: u64,
    burst: u64,
    level: u64,
}

impl Whole {
    const fn new(rate: u64, burst: u64) -> Self {
        Self {
            rate: rate * MICRO,
            burst: burst * MICRO,
            level: burst * MICRO,
        }
    }

    fn step(&mut self, span: Duration) {
        let made = u128::from(self.rate) * span.as_nanos() / 1_000_000_000;
        self.level = (self.level + made as u64).min(self.burst);
    }

    fn take(&mut self, asked: u64) -> u64 {
        let got = asked.min(self.level / MICRO);
        self.level -= got * MICRO;
        got
    }
}

/// A bucket as Envoy keeps it: a new one is full, a changed one keeps the ratio, and it fills continuously.
#[derive(Clone, Debug, Default)]
struct Envoy {
    assigned: Option<Assignment>,
    until: Duration,
    level: u128,
    admitted: u64,
}

impl Envoy {
    fn receive(&mut self, assignment: Assignment, now: Duration) {
        let former = self.assigned.filter(|_| now < self.until);
        match (former, assignment) {
            (Some(Assignment::Fill(old)), Assignment::Fill(new)) => {
                let same = (old.max, old.tokens) == (new.max, new.tokens);
                assert!(!same || old == new, "a change of the interval alone");
                self.level = self.level * u128::from(new.max) / u128::from(old.max);
            }
            (_, Assignment::Fill(new)) => self.level = u128::from(new.max * MICRO),
            _ => {}
        }
        (self.assigned, self.until) = (Some(assignment), now + TTL);
    }

    /// Refills the bucket for `span`, then admits up to `wanted` requests. Admits none if no token bucket is assigned.
    fn serve(&mut self, wanted: u64, span: Duration, now: Duration) -> u64 {
        let Some(Assignment::Fill(fill)) = self.assigned.filter(|_| now < self.until) else {
            return 0;
        };
        let made = u128::from(fill.tokens) * u128::from(MICRO) * span.as_nanos();
        self.level += made / u128::from(fill.interval_s) / 1_000_000_000;
        self.level = self.level.min(u128::from(fill.max * MICRO));
        let admitted = wanted.min(u64::try_from(self.level).unwrap() / MICRO);
        self.level -= u128::from(admitted * MICRO);
        self.admitted += admitted;
        admitted
    }
}

/// One budget, its pool, and the Envoys that share it.
struct World {
    now: Duration,
    whole: Whole,
    pool: Pool,
    envoys: BTreeMap<PartId, Envoy>,
    taken: u64,
    /// Admissions of all, those that are gone included.
    admitted: u64,
}

impl World {
    fn new(rate: u64, burst: u64) -> Self {
        let mut pool = Pool::new(Duration::ZERO);
        pool.learn(Budget::Known {
            limit: rate * MICRO,
        });
        Self {
            now: Duration::ZERO,
            whole: Whole::new(rate, burst),
            pool,
            envoys: BTreeMap::new(),
            taken: 0,
            admitted: 0,
        }
    }

    fn join(&mut self, id: PartId) {
        self.pool.join(id, 1, self.now);
        self.envoys.insert(id, Envoy::default());
    }

    /// One pass: asks, pays, plans if that is due, and lets each Envoy serve what it wants per second.
    fn pass(&mut self, wants: impl Fn(PartId) -> u64, reports: bool) {
        self.now += PASS;
        self.whole.step(PASS);
        let asked = self.pool.ask(self.now);
        if asked.tokens > 0 {
            let got = self.whole.take(asked.tokens);
            self.taken += got;
            self.pool.paid(asked, got, self.now);
        }
        for (id, envoy) in &mut self.envoys {
            let wanted = wants(*id) / 10;
            self.admitted += envoy.serve(wanted, PASS, self.now);
            if reports {
                self.pool.report(*id, wanted * 50, self.now);
            }
        }
        if self.pool.is_due(self.now) {
            for id in self.pool.plan(self.now) {
                let assignment = self.pool.assignment(id).unwrap();
                self.envoys
                    .get_mut(&id)
                    .unwrap()
                    .receive(assignment, self.now);
            }
        }
    }

    /// All that was ever admitted was taken before, except for a debt that the account knows.
    #[track_caller]
    fn check(&self) {
        let paid = self.taken * MICRO;
        assert!(
            self.admitted * MICRO <= paid.saturating_add_signed(-self.pool.credit()),
            "{} admitted, {} taken, credit {}",
            self.admitted,
            self.taken,
            self.pool.credit()
        );
    }

    /// Runs for some seconds with reports every five, and returns what each Envoy admitted in the second half.
    fn run(&mut self, seconds: u64, wants: impl Fn(PartId) -> u64 + Copy) -> BTreeMap<PartId, u64> {
        let mut half = BTreeMap::new();
        for pass in 1..=seconds * 10 {
            self.pass(wants, pass % 50 == 0);
            self.check();
            if pass == seconds * 5 {
                half = self
                    .envoys
                    .iter()
                    .map(|(id, it)| (*id, it.admitted))
                    .collect();
            }
        }
        let since = |(id, it): (&PartId, &Envoy)| (*id, it.admitted - half.get(id).unwrap_or(&0));
        self.envoys.iter().map(since).collect()
    }
}

#[test]
fn a_new_part_is_assigned_at_once_what_can_be_taken() {
    let mut world = World::new(100, 50);
    world.join((1, 0));
    world.pass(|_| 300, false);
    let Some(Assignment::Fill(fill)) = world.pool.assignment((1, 0)) else {
        panic!("{:?}", world.pool)
    };
    assert!(fill.max >= 1 && fill.max <= 50, "{fill:?}");
    assert!(fill.interval_s >= 1);
}

#[test]
fn a_limit_is_used_and_divided_by_demand() {
    let mut world = World::new(1_000, 500);
    for stream in 1..=4 {
        world.join((stream, 0));
    }
    // Three want three times the limit together, and one wants a twentieth of it.
    let admitted = world.run(60, |(stream, _)| if stream == 4 { 50 } else { 1_000 });
    let sum: u64 = admitted.values().sum();
    println!("{admitted:?}");
    assert!((28_000..=32_000).contains(&sum), "{sum} of 30000");
    assert!(admitted[&(4, 0)] >= 1_450, "{admitted:?}");
    for stream in 1..=3 {
        let part = admitted[&(stream, 0)];
        assert!(part.abs_diff(9_500) < 600, "{admitted:?}");
    }
}

#[test]
fn a_scarce_limit_is_used() {
    for (rate, envoys) in [(1, 1), (1, 4), (3, 2), (10, 8)] {
        let mut world = World::new(rate, rate);
        for stream in 1..=envoys {
            world.join((stream, 0));
        }
        let admitted = world.run(600, |_| 10);
        let sum: u64 = admitted.values().sum();
        println!("{rate}/s and {envoys} Envoys: {sum} of {}", rate * 300);
        assert!(sum * 10 >= rate * 300 * 8, "{rate}: {admitted:?}");
    }
}

/// Those that ended want nothing. With one part there is nothing to divide.
#[test]
fn the_demands_of_several_parts_are_told() {
    let mut world = World::new(400, 100);
    assert_eq!(world.pool.callers(), None);
    world.join((1, 0));
    world.join((2, 0));
    world.join((3, 0));
    world.run(20, |(stream, _)| 80 * stream);
    // With a quarter more, and no more than the limit and a quarter of it.
    assert_eq!(world.pool.callers(), Some(vec![100, 200, 300]));
    world.run(40, |(stream, _)| if stream == 3 { 900 } else { 80 });
    assert_eq!(world.pool.callers().unwrap()[2], 500);
    world.pool.end((3, 0), world.now);
    assert_eq!(world.pool.callers().unwrap().len(), 2);
    world.pool.end((2, 0), world.now);
    assert_eq!(world.pool.callers(), None);
}

/// The data plane keeps what it has: the part of a stream that ended is paid for until it expires.
#[test]
fn an_ended_part_is_charged_until_it_expires() {
    let mut world = World::new(100, 50);
    world.join((1, 0));
    world.run(20, |_| 300);
    let charged = world.pool.charged();
    assert!(charged >= 90 * MICRO, "{charged}");
    world.pool.end((1, 0), world.now);
    assert!(world.pool.charged() >= charged);
    let ended = world.now;
    while world.now < ended + TTL - secs(5) - PASS {
        world.pass(|_| 300, false);
        assert!(world.pool.charged() >= charged, "{:?}", world.now - ended);
        world.check();
    }
    while world.now < ended + CHARGED_FOR + secs(1) {
        world.pass(|_| 300, false);
    }
    assert!(world.pool.is_empty());
    assert_eq!(world.pool.charged(), 0);
}

/// If nothing can be taken any more, the credit pays until the assignments are cut. The second that is allowed for a cut
/// to arrive is owed.
#[test]
fn a_budget_that_gives_nothing_is_cut_before_the_credit_is_used_up() {
    let mut world = World::new(1_000, 500);
    world.join((1, 0));
    world.join((2, 0));
    world.run(20, |_| 2_000);
    (world.whole.rate, world.whole.level) = (0, 0);
    for _ in 0..100 {
        world.pass(|_| 2_000, false);
        world.check();
        let credit = world.pool.credit();
        assert!(credit >= -(1_100 * MICRO as i64), "{credit}");
    }
    assert!(
        world.pool.charged() <= 10 * MICRO,
        "{}",
        world.pool.charged()
    );
}

#[test]
fn an_idle_part_is_told_from_one_that_has_just_reported() {
    let mut pool = Pool::new(Duration::ZERO);
    pool.join((1, 0), 1, Duration::ZERO);
    assert!(!pool.report((1, 0), 0, PASS));
    assert!(pool.report((1, 0), 0, secs(5)));
    assert!(!pool.report((1, 0), 1, secs(10)));
    assert!(!pool.report((2, 0), 0, secs(10)));
    assert!(pool.abandon((1, 0), secs(10)).is_some());
    assert!(pool.is_empty() && pool.charged() == 0);
}

#[test]
fn no_budget_is_answered_as_the_operator_chose_and_renewed() {
    let mut pool = Pool::new(Duration::ZERO);
    pool.join((1, 0), 1, Duration::ZERO);
    assert_eq!(pool.plan(Duration::ZERO), []);
    assert!(pool.is_fresh());
    pool.learn(Budget::Instead(Assignment::Allow));
    assert_eq!(pool.plan(PASS), [(1, 0)]);
    assert_eq!(pool.assignment((1, 0)), Some(Assignment::Allow));
    assert_eq!(pool.plan(secs(1)), []);
    assert_eq!(pool.plan(secs(6)), [(1, 0)]);
    assert_eq!(pool.ask(secs(7)), Asked::default());
}

#[test]
fn a_change_of_the_interval_changes_the_size_as_well() {
    let fill = |max, tokens, interval_s| Fill {
        max,
        tokens,
        interval_s,
    };
    let former = Some(Assignment::Fill(fill(5, 5, 1)));
    let grown = |target, mut tokens| grown(former, target, &mut tokens);
    assert_eq!(grown(fill(5, 5, 2), 9), Assignment::Fill(fill(4, 5, 2)));
    assert_eq!(grown(fill(9, 9, 1), 2), Assignment::Fill(fill(7, 9, 1)));
    assert_eq!(grown(fill(4, 4, 1), 0), Assignment::Fill(fill(5, 4, 1)));
    assert_eq!(grown(fill(2, 2, 1), 0), Assignment::Fill(fill(2, 2, 1)));
    assert_eq!(grown(fill(0, 0, 1), 9), Assignment::Deny);
}

/// After a pause no data plane has a token left, so no more is owed than it could use before, and its next bucket is a
/// new one.
#[test]
fn a_pause_owes_what_could_be_used_and_a_bucket_after_it_is_charged_in_full() {
    let mut world = World::new(100, 50);
    world.join((1, 0));
    world.run(20, |_| 300);
    let (charged, credit, at) = (world.pool.charged(), world.pool.credit(), world.now);
    let later = at + secs(60);
    world.pool.ask(later);
    let owed = credit - world.pool.credit();
    assert!(owed <= (charged * CHARGED_FOR.as_secs()) as i64, "{owed}");
    world.pool.credit = 400 * MICRO as i64;
    world.pool.plan(later);
    let Some(Assignment::Fill(fill)) = world.pool.assignment((1, 0)) else {
        panic!("{:?}", world.pool)
    };
    let expect = (400 - fill.max) * MICRO;
    assert!(world.pool.credit() <= expect as i64, "{fill:?}");
}

/// An expired bucket is no part of the next one: that is no larger than what pays for it.
#[test]
fn an_expired_bucket_is_not_grown() {
    let mut pool = Pool::new(Duration::ZERO);
    pool.learn(Budget::Known { limit: 100 * MICRO });
    pool.join((1, 0), 1, Duration::ZERO);
    let asked = Asked {
        tokens: 200,
        new: 200,
    };
    pool.paid(asked, 200, Duration::ZERO);
    pool.plan(Duration::ZERO);
    assert!(matches!(pool.assignment((1, 0)), Some(Assignment::Fill(fill)) if fill.max > 10));
    pool.paid(asked, 200, secs(20));
    pool.credit = 20 * MICRO as i64;
    pool.plan(secs(20));
    let Some(Assignment::Fill(fill)) = pool.assignment((1, 0)) else {
        panic!("{pool:?}")
    };
    assert!(fill.max <= 10 && fill.tokens > 10, "{fill:?}");
}

#[test]
fn a_cut_is_charged_for_a_second_more() {
    let mut pool = Pool::new(Duration::ZERO);
    pool.join((1, 0), 1, Duration::ZERO);
    let fill = |tokens| {
        Assignment::Fill(Fill {
            max: 50,
            tokens,
            interval_s: 1,
        })
    };
    pool.assign((1, 0), fill(50), Duration::ZERO);
    let credit = pool.credit();
    pool.assign((1, 0), fill(20), secs(1));
    assert_eq!(pool.credit() - credit, -30 * MICRO as i64);
}

/// Input of one pass of a random run.
#[derive(Clone, Debug)]
enum Event {
    Join(u64),
    End(u64),
    Report(u64, u64),
    Rate(u64),
    Nothing,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        1 => (0..6_u64).prop_map(Event::Join),
        1 => (0..6_u64).prop_map(Event::End),
        2 => (0..6_u64, 0..5_000_u64).prop_map(|(stream, n)| Event::Report(stream, n)),
        1 => (0..300_u64).prop_map(Event::Rate),
        10 => Just(Event::Nothing),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 200, ..ProptestConfig::default() })]

    /// Parts join, end and report, and the budget gives more or less: greedy Envoys admit no more than was taken. A debt
    /// is never more than what ended parts are charged until they expire, 2.4 s of the rate, and 40 tokens of each stream.
    #[test]
    fn nothing_is_admitted_that_was_not_taken(
        events in proptest::collection::vec(event(), 1..400),
        rate in 0..300_u64,
        burst in 1..500_u64,
    ) {
        let mut world = World::new(rate, burst);
        let (mut lost, mut largest) = (0, 0);
        for event in events {
            if let Event::End(stream) = event
                && let Some(part) = world.pool.parts.get(&(stream, 0))
                && !part.ended
            {
                lost += part.rate().max(part.peak) * CHARGED_FOR.as_secs();
            }
            match event {
                Event::Join(stream) if !world.envoys.contains_key(&(stream, 0)) => world.join((stream, 0)),
                Event::End(stream) => world.pool.end((stream, 0), world.now),
                Event::Report(stream, n) => drop(world.pool.report((stream, 0), n, world.now)),
                Event::Rate(rate) => world.whole.rate = rate * MICRO,
                _ => {}
            }
            world.pass(|_| u64::MAX / MICRO, false);
            world.check();
            largest = largest.max(world.pool.charged());
            let bound = lost + largest * 12 / 5 + 40 * MICRO * world.envoys.len() as u64;
            prop_assert!(world.pool.credit() >= -(bound as i64), "{} of {bound}", world.pool.credit());
            for envoy in world.envoys.values() {
                if let Some(Assignment::Fill(fill)) = envoy.assigned {
                    prop_assert!(fill.interval_s >= 1 && fill.max >= 1 && fill.tokens >= 1);
                }
            }
        }
    }
}
