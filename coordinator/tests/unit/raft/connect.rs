use super::*;
use std::future::poll_fn;
use tokio::runtime::Builder;
use tower::Service;

#[test]
fn a_channel_belongs_to_the_runtime_of_the_log() {
    let runtime = || Builder::new_current_thread().enable_all().build().unwrap();
    let (log, other) = (runtime(), runtime());
    let links = log.block_on(async { Links::new(Arc::new(TcpConnector)) });
    let mut channel = other.block_on(async { links.to("127.0.0.1:1") }).unwrap();
    drop(other);
    let ready = log.block_on(poll_fn(|context| channel.poll_ready(context)));
    ready.unwrap();
}
