//! The ports of faces: their listeners, and the service on each.

use super::arrival::in_time;
use super::error::ListenError;
use super::port::{self, Listener, Protocol, Redis};
use crate::api::auth::{Auth, FaceGuard};
use crate::api::connections::Connections;
use crate::api::metrics::FaceFigures;
use crate::api::tls::{TlsError, TlsFiles};
use crate::config::{FaceAddress, FacesConfig, face_setting};
use crate::session::STREAMS_PER_CONNECTION_MAX;
use aliquot_client::http::LimitFields;
use aliquot_faces::{Decider, Face, Rlqs, Uncovered, grpc, http as http_face, resp};
use futures_util::future::{Either, FutureExt, ready};
use http::header::{AUTHORIZATION, CONTENT_TYPE, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use std::convert::Infallible;
use std::fs;
use std::io;
use std::mem;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use tokio::net::UnixListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tonic::metadata::MetadataMap;
use tonic::service::interceptor::InterceptedService;
use tonic::service::{Interceptor, Routes};
use tonic::{Code, Status};
use tower::{Service, ServiceExt, service_fn};

/// The bound ports of the faces that are on.
#[derive(Debug, Default)]
pub(super) struct FaceListeners {
    listeners: Vec<(Face, Listener)>,
    uncovered: Uncovered,
    fields: LimitFields,
}

/// Things that the ports of all faces share.
pub(super) struct FacePort<'a> {
    pub(super) tls: Option<&'a TlsFiles>,
    pub(super) auth: &'a Arc<Auth>,
    pub(super) connections: Connections,
    pub(super) stopping: watch::Receiver<bool>,
}

impl FaceListeners {
    /// Binds the ports.
    pub(super) async fn bind(config: &FacesConfig) -> Result<Self, ListenError> {
        let mut bound = Vec::new();
        for (face, address) in &config.listen {
            let listener = match address {
                FaceAddress::Tcp(address) => port::listen(*address).map(Listener::Tcp),
                FaceAddress::Unix(path) => listen_at(path).map(Listener::Unix),
            };
            let listener = listener.map_err(|error| ListenError {
                setting: face_setting(*face),
                address: address.to_string(),
                reason: format!("cannot listen: {error}"),
            })?;
            tracing::info!(face = face.name(), %address, "a face is on");
            bound.push((*face, listener));
        }
        Ok(Self {
            listeners: bound,
            uncovered: config.uncovered,
            fields: config.http,
        })
    }

    /// Returns true if no face is on.
    pub(super) const fn is_empty(&self) -> bool {
        self.listeners.is_empty()
    }

    /// Serves all faces, and returns their tasks and figures.
    pub(super) fn serve(
        self,
        decider: &Decider,
        port: &FacePort<'_>,
    ) -> Result<(Vec<JoinHandle<()>>, FaceFigures), TlsError> {
        let mut tasks = Vec::with_capacity(self.listeners.len());
        let mut figures = FaceFigures::of(decider);
        for (face, listener) in self.listeners {
            // A socket in the file system crosses no network.
            let tls = match listener {
                Listener::Tcp(_) => port.tls.map(TlsFiles::face_server).transpose()?,
                Listener::Unix(_) => None,
            };
            let guard = port.auth.face_guard();
            let (connections, stopping) = (port.connections.clone(), port.stopping.clone());
            let decider = decider.of_face(face);
            let served = match face {
                Face::Http => {
                    let service = guarded(decider, self.fields, guard);
                    let protocol = Protocol::Http { tls };
                    port::serve(listener, connections, protocol, service, stopping).boxed()
                }
                Face::Grpc => {
                    // The service answers for other paths itself, and a router allocates for each request. Without
                    // roles there is nothing to guard.
                    let (limits, open) = (grpc::service(decider), guard.is_open());
                    let protocol = grpc_of(tls, STREAMS_PER_CONNECTION_MAX);
                    if open {
                        let limits = limits.map_request(in_time);
                        port::serve(listener, connections, protocol, limits, stopping).boxed()
                    } else {
                        let limits = InterceptedService::new(limits, guard).map_request(in_time);
                        port::serve(listener, connections, protocol, limits, stopping).boxed()
                    }
                }
                Face::Redis => {
                    let redis = Redis {
                        server: resp::Server::new(decider, resp::Options::default()),
                        guard,
                        stopping: stopping.clone(),
                    };
                    port::serve_exchange(listener, connections, tls, redis, stopping).boxed()
                }
                Face::Rlqs => {
                    let rlqs = Rlqs::new(decider, self.uncovered);
                    let quotas = InterceptedService::new(rlqs.server(), guard);
                    let routes = Routes::new(quotas).prepare();
                    figures.rlqs = Some(rlqs.clone());
                    tokio::spawn(end_streams(rlqs, stopping.clone()));
                    let protocol = grpc_of(tls, QUOTA_STREAMS_PER_CONNECTION_MAX);
                    port::serve(listener, connections, protocol, routes, stopping).boxed()
                }
            };
            tasks.push(tokio::spawn(served));
        }
        Ok((tasks, figures))
    }
}

/// Maximum number of streams of quotas on a connection. An Envoy has one for each filter and worker, each worker with a
/// connection of its own.
const QUOTA_STREAMS_PER_CONNECTION_MAX: u32 = 128;

const fn grpc_of(tls: Option<TlsAcceptor>, streams: u32) -> Protocol {
    Protocol::Grpc {
        tls,
        streams: Some(streams),
    }
}

/// Ends the streams of quotas when the process stops: they would otherwise stay open for as long as they are let.
async fn end_streams(rlqs: Rlqs, mut stopping: watch::Receiver<bool>) {
    // A dropped sender also means stop.
    let _ = stopping.wait_for(|stopping| *stopping).await;
    rlqs.stop();
}

/// Listens at a path. Removes a socket that a process left behind there, and nothing else.
fn listen_at(path: &Path) -> io::Result<UnixListener> {
    if let Ok(found) = fs::symlink_metadata(path) {
        if !found.file_type().is_socket() {
            let what = "a file that is not a socket exists there";
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, what));
        }
        if UnixStream::connect(path).is_ok() {
            let what = "another process listens there";
            return Err(io::Error::new(io::ErrorKind::AddrInUse, what));
        }
        fs::remove_file(path)?;
    }
    let listener = UnixListener::bind(path)?;
    // The owner and the group may connect.
    fs::set_permissions(path, fs::Permissions::from_mode(0o660))?;
    Ok(listener)
}

/// Returns the service of the HTTP face behind its guard.
fn guarded(
    decider: Decider,
    fields: LimitFields,
    mut guard: FaceGuard,
) -> impl Service<
    Request<Incoming>,
    Response = Response<http_face::Body>,
    Error = Infallible,
    Future = impl Future<Output = Result<Response<http_face::Body>, Infallible>> + Send,
> + Clone
+ Send
+ Sync
+ 'static {
    let decider = Arc::new(decider);
    service_fn(move |mut request: Request<Incoming>| {
        let is_head = request.method() == Method::HEAD;
        match admit(&mut guard, &mut request) {
            Ok(()) => Either::Left(http_face::answer(&decider, fields, request).map(Ok)),
            Err(status) if is_head => {
                Either::Right(ready(Ok(http_face::without_body(denied(&status)))))
            }
            Err(status) => Either::Right(ready(Ok(denied(&status)))),
        }
    })
}

/// Adds to a request the keys that its caller may ask for, as the guard finds by its token and its certificate.
fn admit<B>(guard: &mut FaceGuard, request: &mut Request<B>) -> Result<(), Status> {
    if guard.is_open() {
        return Ok(());
    }
    let mut headers = HeaderMap::new();
    if let Some(token) = request.headers().get(AUTHORIZATION) {
        headers.insert(AUTHORIZATION, token.clone());
    }
    let metadata = MetadataMap::from_headers(headers);
    let extensions = mem::take(request.extensions_mut());
    let known = guard.call(tonic::Request::from_parts(metadata, extensions, ()))?;
    (_, *request.extensions_mut(), ()) = known.into_parts();
    Ok(())
}

/// Answers a caller without the role.
fn denied(status: &Status) -> Response<http_face::Body> {
    let code = match status.code() {
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        _ => StatusCode::FORBIDDEN,
    };
    let body = serde_json::json!({
        "type": "about:blank",
        "title": code.canonical_reason(),
        "status": code.as_u16(),
        "detail": status.message(),
    });
    let mut response = Response::new(body.to_string().into());
    *response.status_mut() = code;
    let headers = response.headers_mut();
    let kind = HeaderValue::from_static("application/problem+json");
    headers.insert(CONTENT_TYPE, kind);
    if code == StatusCode::UNAUTHORIZED {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}
