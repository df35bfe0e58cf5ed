use super::*;
use crate::decider::testing::{decider, remaining};
use crate::decider::{Limiters, Options};
use aliquot_client::{KeyRefused, Limiter, ManualClock};
use std::time::Duration;

fn of(scope: &Scope, key: &str, id: Option<&str>) -> Reserve {
    Reserve {
        scope: scope.clone(),
        parts: vec![(key.to_owned(), 4)],
        ttl: Duration::from_secs(60),
        on_expire: OnExpire::PutBack,
        within: Duration::from_millis(20),
        id: id.map(str::to_owned),
    }
}

async fn reserve(decider: &Decider, key: &str) -> Reserved {
    decider.reserve(&of(&Scope::ALL, key, None)).await.unwrap()
}

#[tokio::test]
async fn open_reservations_keep_an_eighth_of_the_keys_and_no_more() {
    let (decider, _) = decider(64);
    let mut ids = Vec::new();
    for made_up in 0..8 {
        ids.extend(reserve(&decider, &format!("x/{made_up}")).await.id);
    }
    assert_eq!((ids.len(), decider.reservations_open()), (8, 8));
    let refused = reserve(&decider, "x/8").await;
    assert_eq!(
        (refused.id, refused.answers[0].reason),
        (None, Some(Reason::NoRoom))
    );
    assert_eq!(remaining(&decider, "x/8").await, 10);
    // A further reservation of a key takes no place among the keys, and a settled one gives its place back.
    assert!(reserve(&decider, "x/0").await.id.is_some());
    decider.settle(&Scope::ALL, &ids[1], &[4]).unwrap();
    assert!(reserve(&decider, "x/8").await.id.is_some());
    assert_eq!(decider.reservations_open(), 9);
}

#[tokio::test]
async fn a_confined_caller_has_half_of_the_room() {
    let (decider, _) = decider(64);
    let mine = Scope::under(["x".to_owned()]);
    let mut made = 0;
    for number in 0..8 {
        let reserve = of(&mine, &format!("x/{number}"), None);
        made += usize::from(decider.reserve(&reserve).await.unwrap().id.is_some());
    }
    assert_eq!(made, 4);
    assert!(reserve(&decider, "y").await.id.is_some());
}

#[tokio::test]
async fn callers_that_may_ask_for_other_keys_have_names_of_their_own() {
    let (decider, _) = decider(64);
    let (one, other) = (
        Scope::under(["a".to_owned()]),
        Scope::under(["b".to_owned()]),
    );
    for (scope, key) in [(&one, "a"), (&other, "b")] {
        let reserved = decider.reserve(&of(scope, key, Some("job-1"))).await;
        assert!(reserved.unwrap().id.is_some(), "{key}");
    }
    let of_all = decider.release(&Scope::ALL, "job-1");
    assert_eq!(of_all, Err(ReservationError::Unknown));
    let settled = decider.release(&other, "job-1").unwrap();
    assert_eq!(settled[0].key, "b");
    assert_eq!(
        (
            remaining(&decider, "a").await,
            remaining(&decider, "b").await
        ),
        (6, 10)
    );
}

#[tokio::test(start_paused = true)]
async fn the_oldest_settled_reservations_make_room_for_others() {
    let (decider, clock) = decider(64);
    let mut ids = Vec::new();
    for _ in 0..Decider::PARTS_MAX + 2 {
        clock.advance(Duration::from_secs(1));
        let id = reserve(&decider, "a").await.id.expect("room");
        decider.settle(&Scope::ALL, &id, &[4]).unwrap();
        ids.push(id);
    }
    let again = |id: &str| decider.settle(&Scope::ALL, id, &[4]).is_ok();
    assert!(!again(&ids[0]) && !again(&ids[1]) && again(&ids[2]));
    let table = decider.reservations.lock();
    assert_eq!(
        (table.parts, table.open_parts, table.open_keys),
        (Decider::PARTS_MAX, 0, 0)
    );
    assert!(table.open.is_empty());
}

/// Reserves ten parts at a time, and settles each for this cost, until one reservation of one part has no room beside
/// them. Returns the names.
async fn flood(decider: &Decider, clock: &ManualClock, scope: &Scope, cost: u64) -> Vec<String> {
    let mut ids = Vec::new();
    for _ in 0..=Decider::PARTS_MAX / 10 {
        clock.advance(Duration::from_secs(1));
        let reserve = Reserve {
            parts: vec![("b".to_owned(), 1); 10],
            ..of(scope, "b", None)
        };
        let id = decider.reserve(&reserve).await.unwrap().id.expect("room");
        decider.settle(scope, &id, &[cost; 10]).unwrap();
        ids.push(id);
    }
    ids
}

/// The callers may be the same, or different ones that may all ask for all keys.
#[tokio::test(start_paused = true)]
async fn reservations_that_charge_nothing_displace_no_others() {
    let (decider, clock) = decider(64);
    let charged = reserve(&decider, "a").await.id.unwrap();
    let reported = decider.settle(&Scope::ALL, &charged, &[3]).unwrap();
    let free = flood(&decider, &clock, &Scope::ALL, 0).await;
    let again = |id: &str, costs: &[u64]| decider.settle(&Scope::ALL, id, costs);
    assert_eq!(again(&charged, &[9]), Ok(reported));
    assert_eq!(again(&free[0], &[0; 10]), Err(ReservationError::Unknown));
    assert!(again(&free[1], &[0; 10]).is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_scope_with_many_reservations_displaces_none_of_a_scope_with_few() {
    let scope = |prefix: &str| Scope::under([prefix.to_owned()]);
    // Neither is the first by its name alone.
    for (few, many) in [("a", "b"), ("b", "b/c")] {
        let (decider, clock) = decider(64);
        let (few, many) = (scope(few), scope(many));
        let reserved = decider.reserve(&of(&few, "a", Some("job-1"))).await;
        assert!(reserved.unwrap().id.is_some());
        decider.settle(&few, "job-1", &[3]).unwrap();
        let ids = flood(&decider, &clock, &many, 1).await;
        assert!(decider.settle(&few, "job-1", &[3]).is_ok(), "{few}");
        let oldest = decider.settle(&many, &ids[0], &[1; 10]);
        assert_eq!(oldest, Err(ReservationError::Unknown), "{few}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_over_leaves_nothing_behind() {
    let (decider, _) = decider(64);
    let settled = reserve(&decider, "a").await.id.unwrap();
    decider.release(&Scope::ALL, &settled).unwrap();
    assert!(reserve(&decider, "a").await.id.is_some());
    sleep(Duration::from_secs(61)).await;
    assert_eq!(remaining(&decider, "a").await, 10);
    let table = decider.reservations.lock();
    assert_eq!((table.parts, table.open_parts, table.open_keys), (0, 0, 0));
    assert!(table.entries.is_empty() && table.settled.len() == 0 && table.open.is_empty());
}

/// Three permits of each key.
#[derive(Debug)]
struct Permits;

impl Limiters for Permits {
    fn limiter(&self, _: &str) -> Result<Limiter, KeyRefused> {
        Ok(Limiter::local_permits(3).unwrap())
    }
}

#[tokio::test]
async fn several_permits_of_a_key_are_refused_by_a_reason_of_their_own() {
    let decider = Decider::of(Permits, Options::default());
    let mut reserve = of(&Scope::ALL, "jobs", None);
    reserve.parts = vec![("jobs".to_owned(), 1), ("more".to_owned(), 2)];
    let refused = decider.reserve(&reserve).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "cost = 2: must be 1, because \"more\" limits concurrency: a reservation takes one permit of a key"
    );
    // The part before it was put back, and nothing is open.
    assert_eq!(decider.reservations_open(), 0);
    reserve.parts = vec![("jobs".to_owned(), 1); 3];
    assert!(decider.reserve(&reserve).await.unwrap().id.is_some());
}

/// Reserves a permit of the key, for as long as `ttl`.
async fn permit(decider: &Decider, ttl: u64, on_expire: OnExpire) -> Option<String> {
    let reserve = Reserve {
        parts: vec![("jobs".to_owned(), 1)],
        ttl: Duration::from_secs(ttl),
        on_expire,
        ..of(&Scope::ALL, "jobs", None)
    };
    decider.reserve(&reserve).await.unwrap().id
}

#[tokio::test(start_paused = true)]
async fn a_permit_that_is_never_released_is_free_when_its_reservation_is_over() {
    for on_expire in [OnExpire::Keep, OnExpire::PutBack] {
        let decider = Decider::of(Permits, Options::default());
        for _ in 0..3 {
            assert!(permit(&decider, 60, on_expire).await.is_some());
        }
        sleep(Duration::from_secs(59)).await;
        assert_eq!(permit(&decider, 60, on_expire).await, None, "{on_expire:?}");
        sleep(Duration::from_secs(2)).await;
        for _ in 0..3 {
            assert!(
                permit(&decider, 60, on_expire).await.is_some(),
                "{on_expire:?}"
            );
        }
        assert_eq!(permit(&decider, 60, on_expire).await, None, "{on_expire:?}");
    }
}
