use super::*;
use crate::decider::testing::{ask, decider};
use crate::decider::{Cost, OnExpire, Reserve};
use crate::scope::Scope;
use std::time::Duration;

#[test]
fn outcomes_and_faces_are_in_the_order_of_their_numbers() {
    for (index, outcome) in Outcome::ALL.into_iter().enumerate() {
        assert_eq!(outcome as usize, index);
    }
    for (index, face) in Face::ALL.into_iter().enumerate() {
        assert_eq!(face as usize, index);
    }
}

#[tokio::test]
async fn each_answer_of_a_face_is_counted_once() {
    let (decider, _) = decider(64);
    let http = decider.of_face(Face::Http);
    http.decide(&ask("a", Cost::Take(4))).await;
    http.decide_each(&[ask("a", Cost::Take(4)), ask("a", Cost::Take(4))])
        .await;
    http.decide_all(&[ask("b", Cost::Take(1)), ask("b", Cost::Take(11))])
        .await;
    let reserve = Reserve {
        scope: Scope::ALL,
        parts: vec![("c".into(), 2)],
        ttl: Duration::from_secs(60),
        on_expire: OnExpire::Keep,
        within: Duration::from_millis(20),
        id: None,
    };
    http.reserve(&reserve).await.expect("a reservation");
    decider.decide(&ask("a", Cost::Peek)).await;
    let of = |face| Outcome::ALL.map(|outcome| decider.counts().of(face, outcome));
    assert_eq!(of(Face::Http), [4, 1, 1, 0, 0]);
    assert_eq!(of(Face::Grpc), [0; 5]);
}
