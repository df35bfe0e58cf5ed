use super::*;
use rand::SeedableRng;

fn key(number: usize) -> Key {
    Key::try_from(format!("k/{number}").as_str()).unwrap()
}

fn wanted(count: usize) -> Wanted {
    let mut wanted = Wanted::default();
    (0..count).for_each(|number| {
        wanted.want(&key(number));
    });
    wanted
}

fn at(ms: u64) -> Tick {
    Tick::ZERO.after(Span::from_millis(ms))
}

#[test]
fn a_burst_is_a_few_batches_at_a_time() {
    let mut wanted = wanted(30_000);
    let mut rng = StdRng::seed_from_u64(1);
    let (mut batches, mut keys) = (0, BTreeSet::new());
    loop {
        let mut under_way = Vec::new();
        while let Some(batch) = wanted.take(at(0), |_| true) {
            under_way.push(batch.number);
            keys.extend(batch.keys.iter().cloned());
        }
        assert!(under_way.len() <= Wanted::FLIGHTS_MAX);
        if under_way.is_empty() {
            break;
        }
        batches += under_way.len();
        for number in under_way {
            wanted.landed(number, at(0), &mut rng);
        }
    }
    assert_eq!(batches, 30_000_usize.div_ceil(Wanted::BATCH_MAX));
    assert_eq!(keys.len(), 30_000);
    // All keys exist by the time at which they would be requested again.
    assert!(wanted.take(at(10_000), |_| false).is_none());
    assert!(wanted.is_empty());
}

#[test]
fn what_is_not_made_is_asked_for_again_ever_more_rarely() {
    let mut wanted = wanted(3);
    let mut rng = StdRng::seed_from_u64(1);
    let (mut now, mut pauses) = (0, Vec::new());
    for _ in 0..8 {
        let batch = wanted.take(at(now), |_| true).unwrap();
        let (number, keys) = (batch.number, batch.keys.len());
        assert_eq!(keys, 3);
        wanted.landed(number, at(now), &mut rng);
        let begun = now;
        while !wanted.later.keys().any(|(due, _)| *due <= at(now)) {
            assert!(wanted.take(at(now), |_| true).is_none());
            now += 1;
        }
        pauses.push(now - begun);
    }
    for (nth, pause) in pauses.iter().enumerate() {
        let least = 500 << nth.min(3);
        assert!((least..=least * 3 / 2 + 1).contains(pause), "{pauses:?}");
    }
}

#[test]
fn keys_beyond_the_bound_are_not_remembered() {
    let mut wanted = wanted(Wanted::KEYS_MAX);
    assert!(!wanted.want(&key(Wanted::KEYS_MAX)));
    assert!(wanted.want(&key(0)), "it waits already");
    assert_eq!(wanted.len(), Wanted::KEYS_MAX);
    // Keys that were created have made room.
    let mut rng = StdRng::seed_from_u64(1);
    let number = wanted.take(at(0), |_| true).unwrap().number;
    wanted.landed(number, at(0), &mut rng);
    wanted.take(at(1_000), |_| false);
    assert!(wanted.want(&key(Wanted::KEYS_MAX)));
}
