//! Observing limiters.

use aliquot_client::breaker::{Breaker, Circuit};
use aliquot_client::limiter::LimiterState;
use aliquot_client::observe::{ComponentState, Health, Mode, Waits, Watch};
use aliquot_client::{Client, Limit, Limiter, ManualClock, Reason};
use std::sync::Arc;
use std::time::Duration;

fn limiter(clock: &ManualClock, burst: u64) -> Limiter {
    Limiter::local_with(Limit::per_sec(1), burst, Arc::new(clock.clone())).expect("a limit")
}

#[test]
fn lines_show_the_state_of_each_limiter() {
    let watch = Watch::new();
    let clock = ManualClock::new();
    let before = limiter(&clock, 5);
    let watched = watch.limiter("mails", before.clone());
    assert!(watched.try_acquire(2).is_ok());
    // The limiter from before is not counted separately, but refuses alike.
    assert!(before.try_acquire(1).is_ok());
    let permits = watch.limiter("workers", Limiter::local_permits(2).expect("permits"));
    let _held = permits.try_permit().expect("one");
    permits.set_mode(Mode::DryRun);
    let lines = watch.lines();
    assert_eq!(lines.len(), 2);
    assert_eq!(
        (&*lines[0].name, lines[0].admitted, lines[0].held.level),
        ("mails", 2, 2)
    );
    assert_eq!(
        (&*lines[1].name, lines[1].admitted, lines[1].mode),
        ("workers", 1, Mode::DryRun)
    );
    let table = watch.to_string();
    assert_eq!(table.lines().count(), 3);
    let cells = |row: usize| {
        table
            .lines()
            .nth(row)
            .map(|row| row.split_whitespace().collect())
    };
    let mails: Vec<&str> = cells(1).expect("a row");
    assert_eq!(
        mails,
        ["mails", "enforce", "Forever", "1", "5", "2", "2", "0", "0"]
    );
    // Columns are aligned with their headings.
    let at = |row: usize, text: &str| table.lines().nth(row).and_then(|row| row.find(text));
    assert_eq!(at(0, "MODE"), at(1, "enforce"));
    assert_eq!(at(0, "MODE"), at(2, "dry_run"));
}

#[test]
fn admissions_from_a_thread_cache_are_counted() {
    let watch = Watch::new();
    let own = || Limiter::local(Limit::per_sec(0), 10_000).expect("a limit");
    let dealt = watch.limiter("dealt", own());
    let single = watch.limiter("single", own().unbatched());
    for limiter in [&dealt, &single] {
        let admitted = (0..1_000).filter(|_| limiter.try_acquire(1).is_ok());
        assert_eq!(admitted.count(), 1_000);
    }
    let admitted: Vec<_> = watch.lines().iter().map(|line| line.admitted).collect();
    // Tokens spent from a thread cache, a 64th of the burst, are counted when it is filled next.
    assert!((1_000 - 156..=1_000).contains(&admitted[0]), "{admitted:?}");
    assert_eq!(admitted[1], 1_000);
}

#[tokio::test]
async fn waits_are_counted_by_their_length() {
    let watch = Watch::new();
    let clock = ManualClock::new();
    let limiter = watch.limiter("mails", limiter(&clock, 1));
    // A caller that need not wait is not counted as waiting.
    limiter.acquire(1).await.expect("one");
    for _ in 0..2 {
        let waiter = limiter.clone();
        let waiting = tokio::spawn(async move { waiter.acquire(1).await });
        while limiter.tokens() > -1.0 {
            tokio::task::yield_now().await;
        }
        clock.advance(Duration::from_secs(1));
        waiting.await.expect("no panic").expect("it was made");
    }
    let waits = watch.figures()[0].waits;
    assert_eq!((waits.count(), waits.total), (2, Duration::from_secs(2)));
    assert_eq!(waits.bound_of(500), Some(Duration::from_secs(1)));
    assert_eq!(Waits::default().bound_of(500), None);
}

#[tokio::test]
async fn limiters_of_one_name_are_counted_together() {
    let watch = Watch::new();
    let clock = ManualClock::new();
    let [a, other, b] =
        ["mails", "other", "mails"].map(|name| watch.limiter(name, limiter(&clock, 1)));
    for limiter in [&a, &b, &other] {
        assert!(limiter.try_acquire(1).is_ok());
        assert!(limiter.try_acquire(1).is_err());
    }
    assert!(b.try_acquire(2).is_err());
    b.set_mode(Mode::Freeze);
    assert!(b.try_acquire(1).is_err());
    let figures = watch.figures();
    let names: Vec<&str> = figures.iter().map(|figures| &*figures.name).collect();
    assert_eq!(names, ["mails", "other"]);
    let mails = &figures[0];
    assert_eq!((mails.limiters, mails.admitted), (2, 2));
    assert_eq!(mails.mode_stats.frozen, 1);
    let counts = mails.states.iter().map(|(_, limiters)| limiters);
    assert_eq!(counts.sum::<usize>(), 2);
    let counted = |reason| mails.reasons.iter().find(|(of, _)| *of == reason);
    assert_eq!(
        counted(Reason::Throttled),
        Some(&(Reason::Throttled, 2)),
        "{mails:?}"
    );
    assert_eq!(
        counted(Reason::ExceedsBurst),
        Some(&(Reason::ExceedsBurst, 1))
    );
    assert_eq!(mails.reasons.len(), 3);
    // Waits are counted as well.
    b.set_mode(Mode::Enforce);
    clock.advance(Duration::from_secs(1));
    for limiter in [&a, &b] {
        assert!(limiter.try_acquire(1).is_ok());
    }
    let [first, second] =
        [a.clone(), b.clone()].map(|waiter| tokio::spawn(async move { waiter.acquire(1).await }));
    for _ in 0..8 {
        tokio::task::yield_now().await;
    }
    clock.advance(Duration::from_secs(1));
    for waiting in [first, second] {
        waiting.await.expect("no panic").expect("it was made");
    }
    let waits = watch.figures()[0].waits;
    assert_eq!((waits.count(), waits.total), (2, Duration::from_secs(2)));
}

#[tokio::test]
async fn a_client_says_how_it_does() {
    let client = Client::connect(["127.0.0.1:9"]).expect("a client");
    let watch = Watch::new();
    let before = client.limiter("a").expect("a key");
    watch.client("fleet", &client);
    let after = client.limiter("b").expect("a key");
    assert_eq!(client.health(), Health::Unleased);
    for limiter in [&before, &after] {
        assert!(limiter.try_acquire(3).is_err());
    }
    let figures = &watch.figures()[0];
    assert_eq!((figures.limiters, figures.refused), (2, 6));
    assert_eq!(figures.states[0], (LimiterState::Cold, 2));
    assert_eq!(figures.reasons, [(Reason::Cold, 2)]);
    let keys: Vec<_> = watch.lines().iter().map(|line| line.key.clone()).collect();
    assert_eq!(keys, ["a".into(), Box::<str>::from("b")]);
    client.set_mode(Mode::Bypass);
    assert_eq!(client.health(), Health::Overridden(Mode::Bypass));
    assert!(!client.health().is_healthy());
    client.close().await;
    assert_eq!(client.health(), Health::Closed);
    let idle = Client::connect(["127.0.0.1:9"]).expect("a client");
    assert!(idle.health().is_healthy());
}

#[tokio::test]
async fn a_clients_breaker_is_watched_with_it() {
    let client = Client::connect(["127.0.0.1:9"]).expect("a client");
    let watch = Watch::new();
    watch.client("fleet", &client);
    let circuit = || {
        let [component] = &watch.components()[..] else {
            panic!("one, {:?}", watch.components());
        };
        assert_eq!(&*component.name, "fleet/homes");
        let ComponentState::Breaker { circuit, openings } = component.state else {
            panic!("a breaker, {component:?}");
        };
        (component.mode, circuit, openings, component.reasons.clone())
    };
    assert_eq!(circuit(), (Mode::Enforce, Circuit::Closed, 0, Vec::new()));
    let breaker = client.breaker();
    breaker.set_mode(Mode::Freeze);
    assert!(breaker.try_call().is_err());
    let (mode, _, _, reasons) = circuit();
    assert_eq!(
        (mode, &reasons[..]),
        (Mode::Freeze, &[(Reason::Frozen, 1)][..])
    );
    breaker.set_mode(Mode::Enforce);
    while let Ok(tried) = breaker.try_call() {
        tried.failure();
    }
    let (_, open, openings, _) = circuit();
    assert!(
        matches!(open, Circuit::Open(_)) && openings == 1,
        "{open:?}"
    );
    assert!(watch.to_string().contains("fleet/homes"), "{watch}");
}

#[test]
fn a_breaker_is_a_row_of_its_own() {
    let watch = Watch::new();
    let clock = Arc::new(ManualClock::new());
    let breaker = Breaker::with_clock(1, Duration::from_secs(1), clock.clone());
    watch.register("search", &breaker);
    breaker.try_call().expect("it is closed").failure();
    assert!(breaker.try_call().is_err());
    breaker.set_mode(Mode::DryRun);
    assert!(breaker.try_call().is_ok());
    let component = &watch.components()[0];
    assert_eq!(
        (
            &*component.name,
            component.mode,
            component.mode_stats.let_through
        ),
        ("search", Mode::DryRun, 1)
    );
    assert_eq!(component.reasons, [(Reason::Broken, 1)]);
    let circuit = Circuit::Open(Duration::from_secs(1));
    assert_eq!(
        component.state,
        ComponentState::Breaker {
            circuit,
            openings: 1
        }
    );
    // It is no limiter, and hides none.
    assert!(watch.lines().is_empty() && watch.figures().is_empty());
    assert_eq!(watch.to_string().lines().count(), 2);
    let _mails = watch.limiter("mails", limiter(&clock, 1));
    let table = watch.to_string();
    let rows: Vec<_> = table.lines().collect();
    assert_eq!(rows.len(), 5);
    let cells: Vec<_> = rows[4].split_whitespace().collect();
    let wanted = ["search", "dry_run", "open,", "1", "openings", "1", "1", "0"];
    assert_eq!(cells, wanted);
}
