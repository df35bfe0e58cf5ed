//! Requests that are answered by the task of their connection.

use super::*;
use std::task::Waker;
use tokio::sync::{mpsc, oneshot};

/// Polls all requests, as the task of a connection does.
fn answer(arrived: &Arrived) {
    arrived.answer(&mut Context::from_waker(Waker::noop()));
}

#[test]
fn requests_are_answered_in_order_once_all_have_arrived() {
    let (arrived, (tell, mut told)) = (Arrived::default(), mpsc::unbounded_channel());
    for number in 0..3 {
        let tell = tell.clone();
        arrived.execute(async move { tell.send(number).unwrap() });
    }
    assert!(told.try_recv().is_err(), "more may arrive");
    answer(&arrived);
    let answered: Vec<i32> = std::iter::from_fn(|| told.try_recv().ok()).collect();
    assert_eq!(answered, [0, 1, 2]);
}

#[test]
fn a_request_whose_body_comes_later_needs_no_task() {
    let (arrived, (tell, mut told)) = (Arrived::default(), mpsc::unbounded_channel());
    let (body, comes) = oneshot::channel();
    let late = tell.clone();
    arrived.execute(async move {
        comes.await.unwrap();
        late.send("late").unwrap();
    });
    arrived.execute(async move { tell.send("whole").unwrap() });
    answer(&arrived);
    assert_eq!(told.try_recv(), Ok("whole"));
    assert!(told.try_recv().is_err());
    body.send(()).unwrap();
    // Outside a runtime a task could not begin.
    answer(&arrived);
    assert_eq!(told.try_recv(), Ok("late"));
}

#[tokio::test]
async fn a_request_that_waits_longer_is_given_a_task() {
    let (arrived, (tell, mut told)) = (Arrived::default(), mpsc::unbounded_channel());
    let (go, wait) = oneshot::channel();
    arrived.execute(async move {
        wait.await.unwrap();
        tell.send("slow").unwrap();
    });
    answer(&arrived);
    answer(&arrived);
    go.send(()).unwrap();
    assert_eq!(told.recv().await, Some("slow"));
}
