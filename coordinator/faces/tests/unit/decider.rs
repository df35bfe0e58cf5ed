use super::testing::{ask, decider, remaining};
use super::*;

#[tokio::test]
async fn an_answer_tells_limit_rest_and_wait() {
    let (decider, _) = decider(64);
    let answer = decider.decide(&ask("a", Cost::Take(4))).await;
    assert_eq!(answer.outcome, Outcome::Allowed);
    assert_eq!(
        (answer.limit, answer.window),
        (Some(10), Some(Duration::from_secs(1)))
    );
    assert_eq!(
        (answer.remaining, answer.reset_after),
        (Some(6), Duration::from_millis(400))
    );
    let answer = decider.decide(&ask("a", Cost::Take(7))).await;
    assert_eq!(answer.outcome, Outcome::OverLimit);
    assert_eq!(answer.retry_after, Some(Duration::from_millis(100)));
    let answer = decider.decide(&ask("a", Cost::Take(11))).await;
    assert_eq!((answer.outcome, answer.retry_after), (Outcome::Never, None));
    let answer = decider.decide(&ask("a", Cost::Peek)).await;
    assert_eq!(
        (answer.outcome, answer.remaining),
        (Outcome::Allowed, Some(6))
    );
}

#[tokio::test]
async fn a_refund_gives_back_what_was_taken_and_no_more() {
    let (decider, clock) = decider(64);
    let refund = decider.decide(&ask("a", Cost::Refund(5))).await;
    assert_eq!(refund.remaining, Some(10));
    decider.decide(&ask("a", Cost::Take(3))).await;
    decider.decide(&ask("a", Cost::Take(5))).await;
    let refund = decider.decide(&ask("a", Cost::Refund(6))).await;
    assert_eq!(refund.remaining, Some(8));
    // The rest of a charge that was refunded in part is spent.
    let refund = decider.decide(&ask("a", Cost::Refund(6))).await;
    assert_eq!(refund.remaining, Some(8));
    // Tokens that were made again since are not put back: the bucket was full in between.
    decider.decide(&ask("a", Cost::Take(8))).await;
    clock.advance(Duration::from_secs(2));
    decider.decide(&ask("a", Cost::Take(10))).await;
    decider.decide(&ask("a", Cost::Refund(10))).await;
    let refund = decider.decide(&ask("a", Cost::Refund(8))).await;
    assert_eq!(refund.remaining, Some(10));
}

#[tokio::test]
async fn ten_charges_are_refunded_together() {
    let (decider, _) = decider(64);
    for _ in 0..10 {
        decider.decide(&ask("a", Cost::Take(1))).await;
    }
    let refund = decider.decide(&ask("a", Cost::Refund(u64::MAX))).await;
    assert_eq!(refund.remaining, Some(10));
}

#[tokio::test]
async fn a_refund_is_of_charges_through_faces_that_refund() {
    let (decider, _) = decider(64);
    let (http, redis) = (decider.of_face(Face::Http), decider.of_face(Face::Redis));
    for face in [&decider, &http, &redis] {
        face.decide(&ask("a", Cost::Take(2))).await;
        face.decide_all(&[ask("a", Cost::Take(1))]).await;
    }
    let refund = redis.decide(&ask("a", Cost::Refund(u64::MAX))).await;
    assert_eq!(refund.remaining, Some(7));
}

#[tokio::test]
async fn all_are_charged_or_none() {
    let (decider, _) = decider(64);
    let both = [ask("a", Cost::Take(6)), ask("b", Cost::Take(2))];
    let answers = decider.decide_all(&both).await;
    assert_eq!(
        (answers[0].remaining, answers[1].remaining),
        (Some(4), Some(8))
    );
    let both = [ask("b", Cost::Take(2)), ask("a", Cost::Take(6))];
    let answers = decider.decide_all(&both).await;
    assert_eq!(
        (answers[0].outcome, answers[0].remaining),
        (Outcome::Allowed, Some(8))
    );
    assert_eq!(
        (answers[1].outcome, answers[1].remaining),
        (Outcome::OverLimit, Some(4))
    );
    let each = decider.decide_each(&both).await;
    assert_eq!(
        (each[0].outcome, each[0].remaining),
        (Outcome::Allowed, Some(6))
    );
    assert_eq!(each[1].outcome, Outcome::OverLimit);
    // A key that is named twice is charged twice, or not at all.
    let twice = [ask("b", Cost::Take(4)), ask("b", Cost::Take(4))];
    let answers = decider.decide_all(&twice).await;
    assert_eq!(answers[1].outcome, Outcome::OverLimit);
    let peek = decider.decide(&ask("b", Cost::Peek)).await;
    assert_eq!(peek.remaining, Some(6));
}

#[tokio::test]
async fn a_flood_of_made_up_keys_replaces_no_key_in_use() {
    let (decider, _) = decider(64);
    for _ in 0..2 {
        decider.decide(&ask("real", Cost::Take(4))).await;
    }
    let limiter = Arc::downgrade(&decider.held("real").expect("held"));
    for made_up in 0..10_000 {
        decider
            .decide(&ask(&format!("x/{made_up}"), Cost::Take(1)))
            .await;
        assert!(decider.held.len() <= 48, "{}", decider.held.len());
    }
    assert!(limiter.upgrade().is_some(), "the key in use was dropped");
}

#[tokio::test]
async fn a_key_that_is_not_used_is_let_go() {
    let (decider, clock) = decider(64);
    for _ in 0..2 {
        decider.decide(&ask("idle", Cost::Take(1))).await;
    }
    let idle = Arc::downgrade(&decider.held("idle").expect("held"));
    for _ in 0..3 {
        clock.advance(Duration::from_secs(61));
        for _ in 0..2 {
            decider.decide(&ask("busy", Cost::Take(1))).await;
        }
    }
    assert!(idle.upgrade().is_none(), "an idle key is still held");
}

#[tokio::test]
async fn what_was_spent_already_is_taken_also_beyond_the_limit() {
    let (decider, clock) = decider(64);
    decider.decide(&ask("a", Cost::Take(8))).await;
    let spent = decider.decide(&ask("a", Cost::Spent(17))).await;
    assert_eq!(
        (spent.outcome, spent.remaining),
        (Outcome::Allowed, Some(0))
    );
    // 15 tokens are owed, and the next one comes after them.
    let refused = decider.decide(&ask("a", Cost::Take(1))).await;
    assert_eq!(refused.retry_after, Some(Duration::from_millis(1_600)));
    clock.advance(Duration::from_millis(1_600));
    let both = [ask("a", Cost::Take(1)), ask("b", Cost::Spent(12))];
    let answers = decider.decide_all(&both).await;
    assert!(
        answers
            .iter()
            .all(|answer| answer.outcome == Outcome::Allowed)
    );
    assert_eq!(
        decider.decide(&ask("b", Cost::Peek)).await.outcome,
        Outcome::OverLimit
    );
    // If another question is refused, they are not taken.
    let both = [ask("c", Cost::Spent(12)), ask("a", Cost::Take(1))];
    decider.decide_all(&both).await;
    assert_eq!(remaining(&decider, "c").await, 10);
}
