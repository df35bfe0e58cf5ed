//! The quota service up to its bounds, without Envoys.

use crate::support::{setup, together};
use aliquot_coordinator::demo::supervisor::ReservedPort;
use aliquot_tests::fleet::{SOON, until};
use std::collections::HashMap;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Streaming};
use tonic_prost::ProstCodec;

/// A report of Envoy, with what this test needs of it.
#[derive(Clone, PartialEq, prost::Message)]
struct Reports {
    #[prost(bytes = "vec", tag = "1")]
    domain: Vec<u8>,
    #[prost(message, repeated, tag = "2")]
    usages: Vec<Usage>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Usage {
    #[prost(message, optional, tag = "1")]
    bucket: Option<Bucket>,
    #[prost(uint64, tag = "3")]
    allowed: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Bucket {
    #[prost(map = "string, string", tag = "1")]
    entries: HashMap<String, String>,
}

impl Reports {
    fn of(buckets: usize) -> Self {
        let bucket = |number: usize| Bucket {
            entries: [("name".to_owned(), number.to_string())].into(),
        };
        let usages = (0..buckets).map(|number| Usage {
            bucket: Some(bucket(number)),
            allowed: 1,
        });
        Self {
            domain: b"shop".to_vec(),
            usages: usages.collect(),
        }
    }
}

/// Opens a stream of quotas, which lasts as long as both ends that are returned.
async fn quotas(
    channel: &Channel,
) -> Result<(mpsc::Sender<Reports>, Streaming<()>), tonic::Status> {
    const PATH: &str =
        "/envoy.service.rate_limit_quota.v3.RateLimitQuotaService/StreamRateLimitQuotas";
    let (says, said) = mpsc::channel(1);
    let mut grpc = tonic::client::Grpc::new(channel.clone());
    grpc.ready().await.unwrap();
    let (request, path) = (
        Request::new(ReceiverStream::new(said)),
        PATH.parse().unwrap(),
    );
    let codec = ProstCodec::<Reports, ()>::default();
    let answers = grpc.streaming(request, path, codec).await?;
    Ok((says, answers.into_inner()))
}

/// One stream has as many buckets as it may, and the process as many streams.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_and_buckets_of_quotas_are_shown_up_to_their_bounds() {
    const STREAMS: usize = 4_096;
    const OF_A_CONNECTION: usize = 128;
    const BUCKETS: usize = 65_536;
    let _machine = together().await;
    let port = ReservedPort::reserve().unwrap();
    let address = port.address().to_string();
    let mut fleet = setup().nodes(1).plan().await;
    fleet
        .node_mut(0)
        .flag(format!("--faces-rlqs-listen={address}"));
    // Each bucket has the same budget: a node has fewer budgets than a stream may have buckets.
    let rule = "--faces-rules=rlqs:shop/name/* -> shared";
    fleet.node_mut(0).flag(rule);
    fleet.start(0);
    fleet.serves().await;
    fleet.apply("{ key: shared, rate: 1000/s }").await;
    let shown = async |name: &str, value: usize| {
        until(&format!("{name} is {value}"), 2 * SOON, async || {
            let shown = fleet.nodes()[0].figure(name).await?;
            (shown == value as f64).then_some(())
        })
        .await;
    };
    let connect = async || {
        let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
        endpoint.connect().await.unwrap()
    };
    let mut streams = Vec::new();
    for _ in 0..STREAMS / OF_A_CONNECTION {
        let channel = connect().await;
        for _ in 0..OF_A_CONNECTION {
            streams.push(quotas(&channel).await.unwrap());
        }
    }
    shown("aliquot_rlqs_streams", STREAMS).await;
    let refused = quotas(&connect().await).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
    shown("aliquot_rlqs_buckets", 0).await;
    streams[0].0.send(Reports::of(BUCKETS + 10)).await.unwrap();
    shown("aliquot_rlqs_buckets", BUCKETS).await;
    drop(streams);
    shown("aliquot_rlqs_streams", 0).await;
    shown("aliquot_rlqs_buckets", 0).await;
}
