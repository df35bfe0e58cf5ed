use super::*;
use openraft::ServerState;
use openraft::async_runtime::watch::WatchSender;
use openraft::type_config::TypeConfigExt;

#[tokio::test]
async fn progress_of_the_log_does_not_notify() {
    let (core, metrics) = super::super::types::Types::watch_channel(Metrics::new_initial(1));
    let StatusReceivers {
        status,
        mut coarse_status,
    } = follow(metrics, Status::default());
    let change = async |what: &dyn Fn(&mut Metrics), seen: &dyn Fn(&Status) -> bool| {
        core.send_if_modified(|metrics| {
            what(metrics);
            true
        });
        let mut status = status.clone();
        status.wait_for(|status| seen(status)).await.unwrap();
    };
    change(&|metrics| metrics.current_term = 3, &|status| {
        status.term == 3
    })
    .await;
    assert!(coarse_status.has_changed().unwrap());
    coarse_status.mark_unchanged();
    change(&|metrics| metrics.last_log_index = Some(6), &|status| {
        status.formed
    })
    .await;
    coarse_status.mark_unchanged();
    change(&|metrics| metrics.last_log_index = Some(7), &|status| {
        status.last == index_out(7)
    })
    .await;
    assert!(!coarse_status.has_changed().unwrap());
    assert_eq!(coarse_status.borrow().last, index_out(7), "but it is known");
    change(&|metrics| metrics.state = ServerState::Leader, &|status| {
        status.leads
    })
    .await;
    assert!(coarse_status.has_changed().unwrap());
}
