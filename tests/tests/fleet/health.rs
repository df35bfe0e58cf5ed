//! The state of a node for watchers by gRPC.

use crate::support::{setup, together};
use aliquot_tests::fleet::{Fleet, SOON, until};
use rustix::process::Signal;
use std::collections::BTreeSet;
use tokio_stream::StreamExt;
use tonic::transport::{Channel, Endpoint};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::{v1, v1alpha};

async fn channel(fleet: &Fleet, index: usize) -> Channel {
    let address = format!("http://{}", fleet.nodes()[index].client);
    let endpoint = Endpoint::from_shared(address).unwrap();
    endpoint.connect().await.unwrap()
}

/// Watches the health of the whole node.
async fn health(
    fleet: &Fleet,
    index: usize,
) -> tonic::Streaming<tonic_health::pb::HealthCheckResponse> {
    let mut client = HealthClient::new(channel(fleet, index).await);
    let service = String::new();
    let watch = client.watch(HealthCheckRequest { service }).await;
    watch.unwrap().into_inner()
}

/// Waits for this status, and fails if the stream ends before.
async fn says(
    health: &mut tonic::Streaming<tonic_health::pb::HealthCheckResponse>,
    status: ServingStatus,
) {
    let status_seen = async {
        while let Some(status_seen) = health.next().await {
            if status_seen.unwrap().status() == status {
                return;
            }
        }
        panic!("it ended without {status:?}");
    };
    let status_seen = tokio::time::timeout(SOON, status_seen).await;
    status_seen.unwrap_or_else(|_| panic!("{status:?} was not reported"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_leaves_says_so_before_it_is_gone() {
    let _machine = together().await;
    let fleet = setup().start().await;
    let leader = fleet.leader().await;
    let mut health = health(&fleet, leader).await;
    says(&mut health, ServingStatus::Serving).await;
    fleet.signal(leader, Signal::TERM);
    says(&mut health, ServingStatus::NotServing).await;
}

/// The node still believes that it is the leader.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_without_a_lease_says_that_it_serves_no_client() {
    let _machine = together().await;
    let fleet = setup().start().await;
    let leader = fleet.leader().await;
    let mut health = health(&fleet, leader).await;
    says(&mut health, ServingStatus::Serving).await;
    let others = || (0..3).filter(|index| *index != leader);
    others().for_each(|index| fleet.signal(index, Signal::STOP));
    says(&mut health, ServingStatus::NotServing).await;
    let node = &fleet.nodes()[leader];
    until("no node says that it leads", SOON, async || {
        (node.figure("aliquot_leader").await == Some(0.0)).then_some(())
    })
    .await;
    others().for_each(|index| fleet.signal(index, Signal::CONT));
    says(&mut health, ServingStatus::Serving).await;
    let leader = fleet.leader().await;
    let node = &fleet.nodes()[leader];
    until("a leader says so", SOON, async || {
        (node.figure("aliquot_leader").await == Some(1.0)).then_some(())
    })
    .await;
}

/// Lists the services of one version of the protocol. The messages of both versions look alike
/// but are different types.
macro_rules! services {
    ($version:ident, $channel:expr) => {{
        use $version::server_reflection_client::ServerReflectionClient;
        use $version::server_reflection_request::MessageRequest;
        use $version::server_reflection_response::MessageResponse;
        let ask = $version::ServerReflectionRequest {
            host: String::new(),
            message_request: Some(MessageRequest::ListServices(String::new())),
        };
        let mut client = ServerReflectionClient::new($channel.clone());
        let asked = client.server_reflection_info(tokio_stream::once(ask));
        let answer = asked.await.unwrap().into_inner().next().await;
        match answer.unwrap().unwrap().message_response {
            Some(MessageResponse::ListServicesResponse(list)) => {
                let names = list.service.into_iter().map(|it| it.name);
                names.collect::<BTreeSet<String>>()
            }
            other => panic!("{other:?}"),
        }
    }};
}

/// Both versions of the protocol are served, as tools use either one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reflection_names_what_the_port_serves_and_nothing_else() {
    let _machine = together().await;
    let fleet = setup().nodes(1).start().await;
    let channel = channel(&fleet, 0).await;
    let names = [services!(v1, channel), services!(v1alpha, channel)];
    for (names, version) in names.iter().zip(["v1", "v1alpha"]) {
        let reflection = format!("grpc.reflection.{version}.ServerReflection");
        let expect = [
            "aliquot.v1.Admin",
            "aliquot.v1.Session",
            "grpc.health.v1.Health",
            &reflection,
        ];
        assert_eq!(*names, expect.map(str::to_owned).into());
    }
}
