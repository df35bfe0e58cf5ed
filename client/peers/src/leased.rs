//! Leased limiters: those of a client whose node is in this process and really grants and renews.

#[expect(dead_code, reason = "the node does more for the tests that it is of")]
#[path = "../../tests/sessions/node.rs"]
mod node;

use aliquot_client::{Client, Limiter};
use node::{FakeNode, budget};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

/// A node with two keys: one that admits everything, and one that admits next to nothing.
pub struct Node {
    runtime: Runtime,
    node: FakeNode,
}

/// Returns a runtime with a thread for everything that is not measured.
pub fn runtime() -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime")
}

impl Node {
    pub fn start() -> Self {
        let runtime = runtime();
        let limit = |key: &str, rate: &str, burst: &str| {
            budget(key, |draft| {
                draft.rate = Some(rate.to_owned().into());
                draft.burst = Some(burst.to_owned().into());
            })
        };
        let plenty = ["batched", "off"].map(|mode| {
            [
                limit(&format!("plenty/{mode}"), "1000000000/s", "1000000000"),
                limit(&format!("little/{mode}"), "1/s", "1000"),
            ]
        });
        let node = runtime.block_on(FakeNode::start(1, plenty.into_iter().flatten().collect()));
        Self { runtime, node }
    }

    /// Returns a limiter with thread caches and one without. Only the rate selects the limit here: more than one per
    /// second means plenty.
    pub fn leased(&self, per_sec: u32, _: u32) -> [Limiter; 2] {
        let amount = if per_sec > 1 { "plenty" } else { "little" };
        let batched = self.limiter(&format!("{amount}/batched"));
        [batched, self.limiter(&format!("{amount}/off")).unbatched()]
    }

    fn limiter(&self, key: &str) -> Limiter {
        self.runtime.block_on(async {
            let client = Client::builder()
                .addresses([self.node.address.clone()])
                .connect()
                .expect("a client");
            let limiter = client.limiter(key).expect("a key");
            for _ in 0..1_000 {
                if limiter.peek().burst >= 1_000 {
                    return limiter;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            panic!("no share of {key}: {:?}", limiter.peek());
        })
    }
}
