//! Requests that are answered by the task of their connection.

use super::*;
use tokio::sync::{mpsc, oneshot};

#[tokio::test]
async fn requests_are_answered_in_order_once_all_have_arrived() {
    let (arrived, (tell, mut told)) = (Arrived::default(), mpsc::unbounded_channel());
    for number in 0..3 {
        let tell = tell.clone();
        arrived.execute(async move { tell.send(number).unwrap() });
    }
    assert!(told.try_recv().is_err(), "more may arrive");
    arrived.answer();
    let answered: Vec<i32> = std::iter::from_fn(|| told.try_recv().ok()).collect();
    assert_eq!(answered, [0, 1, 2]);
}

#[tokio::test]
async fn a_request_that_waits_delays_no_other() {
    let (arrived, (tell, mut told)) = (Arrived::default(), mpsc::unbounded_channel());
    let (go, wait) = oneshot::channel();
    let slow = tell.clone();
    arrived.execute(async move {
        wait.await.unwrap();
        slow.send("slow").unwrap();
    });
    arrived.execute(async move { tell.send("fast").unwrap() });
    arrived.answer();
    assert_eq!(told.try_recv(), Ok("fast"));
    assert!(told.try_recv().is_err());
    go.send(()).unwrap();
    assert_eq!(told.recv().await, Some("slow"));
}
