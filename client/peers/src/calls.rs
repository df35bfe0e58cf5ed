//! A rate limit service behind gRPC, in the shape of Envoy's `RateLimitService`, over the loopback.

use aliquot_client::{Limit, Limiter};
use std::convert::Infallible;
use std::future::{Future, Ready, ready};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::codegen::http::{Request, Response, uri::PathAndQuery};
use tonic::server::{Grpc, NamedService, UnaryService};
use tonic::transport::{Channel, Endpoint, Server};
use tonic_prost::ProstCodec;

const PATH: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

#[derive(Clone, PartialEq, prost::Message)]
struct Entry {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Descriptor {
    #[prost(message, repeated, tag = "1")]
    entries: Vec<Entry>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct RequestAction {
    #[prost(string, tag = "1")]
    domain: String,
    #[prost(message, repeated, tag = "2")]
    descriptors: Vec<Descriptor>,
    #[prost(uint32, tag = "3")]
    hits: u32,
}

/// 1 is admitted, 2 is over the limit.
#[derive(Clone, PartialEq, prost::Message)]
struct Answered {
    #[prost(int32, tag = "1")]
    code: i32,
}

/// The limiter that decides each call.
#[derive(Clone, Debug)]
struct Decides(Limiter);

impl UnaryService<RequestAction> for Decides {
    type Response = Answered;
    type Future = Ready<Result<tonic::Response<Answered>, tonic::Status>>;

    fn call(&mut self, asked: tonic::Request<RequestAction>) -> Self::Future {
        let hits = asked.into_inner().hits.max(1);
        let code = match self.0.try_acquire(hits.into()) {
            Ok(_) => 1,
            Err(_) => 2,
        };
        ready(Ok(tonic::Response::new(Answered { code })))
    }
}

impl NamedService for Decides {
    const NAME: &'static str = "envoy.service.ratelimit.v3.RateLimitService";
}

impl Service<Request<Body>> for Decides {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let decides = self.clone();
        Box::pin(async move {
            let mut grpc = Grpc::new(ProstCodec::<Answered, RequestAction>::default());
            Ok(grpc.unary(decides, request).await)
        })
    }
}

/// A server in this process, and a connection to it.
pub struct Calls {
    runtime: Runtime,
    channel: Channel,
}

impl Calls {
    pub fn start() -> Self {
        let runtime = crate::leased::runtime();
        let channel = runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
            let address = listener.local_addr().expect("an address");
            let limiter = Limiter::local(Limit::per_sec(1_000_000), 1_000_000).expect("a limit");
            let serving = Server::builder()
                .add_service(Decides(limiter))
                .serve_with_incoming(TcpListenerStream::new(listener));
            tokio::spawn(serving);
            let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("an address");
            endpoint.connect().await.expect("it listens")
        });
        Self { runtime, channel }
    }

    /// Makes `times` calls, `at_once` of them in flight. Returns how many were admitted.
    pub fn ask(&self, times: usize, at_once: usize) -> usize {
        self.runtime.block_on(async {
            let asks = (0..at_once).map(|_| {
                let channel = self.channel.clone();
                tokio::spawn(async move {
                    let mut admitted = 0;
                    for _ in 0..times / at_once {
                        admitted += usize::from(one(&channel).await);
                    }
                    admitted
                })
            });
            let mut admitted = 0;
            for ask in asks.collect::<Vec<_>>() {
                admitted += ask.await.expect("no panic");
            }
            admitted
        })
    }
}

async fn one(channel: &Channel) -> bool {
    let asked = RequestAction {
        domain: "edge".into(),
        descriptors: vec![Descriptor {
            entries: vec![Entry {
                key: "tenant".into(),
                value: "0000000000042".into(),
            }],
        }],
        hits: 1,
    };
    let mut grpc = tonic::client::Grpc::new(channel.clone());
    grpc.ready().await.expect("it is connected");
    let answered: tonic::Response<Answered> = grpc
        .unary(
            tonic::Request::new(asked),
            PathAndQuery::from_static(PATH),
            ProstCodec::<RequestAction, Answered>::default(),
        )
        .await
        .expect("it answers");
    answered.into_inner().code == 1
}
