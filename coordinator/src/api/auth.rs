//! Access control: roles by certificate name or bearer token.
//!
//! | service | allowed callers |
//! |---|---|
//! | `Admin` | role admin |
//! | `Session` | role client or admin |
//! | health `Watch`, reflection | role client or admin |
//! | health `Check` | all callers |
//! | everything on the peer port | with TLS, certificates of `tls.peers`; without, all callers |
//!
//! A certificate has the roles of the names that it is valid for (subject alternative names, DNS or
//! IP). A token has the role that precedes it in the token file, which is read again when it changes. A name of
//! `tls.clients` and a token of the role client may be confined to the keys under some prefixes, which follow it. Such
//! a caller may ask only at faces, because a session may use any key.
//! If neither TLS nor tokens are configured, every caller is admin. The configuration allows that only
//! on loopback, or as `insecure`.

mod file;
mod reload;
mod role;

pub use file::AuthError;
pub use reload::keep_reading;
pub use role::Role;

use super::tls::secret_is_open;
use crate::config::Config;
use aliquot_faces::Scope;
use rustls_pki_types::{CertificateDer, ServerName};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use tonic::metadata::MetadataMap;
use tonic::service::Interceptor;
use tonic::{Request, Status};

/// The roles of names and tokens.
#[derive(Default)]
pub struct Auth {
    names: Option<Names>,
    tokens: Option<Tokens>,
}

/// Contents of the token file when it was last read.
struct Tokens {
    path: PathBuf,
    all: RwLock<Vec<file::Token>>,
}

#[derive(Clone)]
struct Names {
    admins: Vec<String>,
    clients: Vec<(String, Scope)>,
    peers: Vec<String>,
}

/// Keeps tokens out of logs.
impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Auth")
            .field("by_certificate", &self.names.is_some())
            .field("tokens", &self.path())
            .finish()
    }
}

impl Auth {
    /// Loads the roles of a configuration. Also returns warnings that do not prevent the start.
    ///
    /// # Errors
    ///
    /// [`AuthError`] if the token file cannot be used.
    pub fn load(config: &Config) -> Result<(Self, Vec<String>), AuthError> {
        let names = config.tls.as_ref().map(|tls| Names {
            admins: tls.admins.clone(),
            clients: tls
                .clients
                .iter()
                .map(|client| (client.name.clone(), Scope::of(client.prefixes.clone())))
                .collect(),
            peers: tls.peers.clone(),
        });
        let path = config.tokens.as_deref();
        let warnings = path.and_then(secret_is_open).into_iter().collect();
        let read = |path: &Path| {
            Ok(Tokens {
                path: path.to_owned(),
                all: RwLock::new(file::read(path)?),
            })
        };
        let tokens = path.map(read).transpose()?;
        Ok((Self { names, tokens }, warnings))
    }

    /// Reads the token file again, and returns the number of tokens.
    ///
    /// From now on, callers with other tokens are refused. Streams that are open already are not
    /// affected.
    ///
    /// # Errors
    ///
    /// [`AuthError`] if the file cannot be used. The former tokens stay valid then.
    pub fn reload(&self) -> Result<usize, AuthError> {
        let Some(tokens) = &self.tokens else {
            return Ok(0);
        };
        let read = file::read(&tokens.path)?;
        let count = read.len();
        // A panic leaves nothing under this lock half done.
        *tokens.all.write().unwrap_or_else(PoisonError::into_inner) = read;
        Ok(count)
    }

    /// Returns the path of the token file.
    fn path(&self) -> Option<&Path> {
        self.tokens.as_ref().map(|tokens| tokens.path.as_path())
    }

    /// Returns an interceptor to put before a service:
    /// `InterceptedService::new(SessionServer::new(service), guard)`.
    #[must_use]
    pub fn guard(self: &Arc<Self>, needed: Role) -> Guard {
        Guard {
            auth: Arc::clone(self),
            needed,
        }
    }

    /// Returns an interceptor to put before a face. It adds the [`Scope`] of the caller to the request.
    #[must_use]
    pub fn face_guard(self: &Arc<Self>) -> FaceGuard {
        FaceGuard(self.guard(Role::Client))
    }

    /// Returns true if callers need not show that they have a role.
    const fn is_open(&self, needed: Role) -> bool {
        match needed {
            Role::Peer => self.names.is_none(),
            Role::Client | Role::Admin => self.names.is_none() && self.tokens.is_none(),
        }
    }

    /// Checks that a caller with this certificate and this token has a role. Returns the keys that it may ask for.
    fn check(
        &self,
        needed: Role,
        certificate: Option<&CertificateDer<'_>>,
        token: Option<&[u8]>,
    ) -> Result<Scope, Status> {
        if self.is_open(needed) {
            return Ok(Scope::ALL);
        }
        let by_name = certificate.map(|certificate| self.roles_of_certificate(certificate));
        let by_token = token.map(|token| self.bearer_of(token));
        let shown = by_name.iter().flatten().chain(by_token.iter().flatten());
        let allowing = shown.filter(|(role, _)| role.allows(needed));
        if let Some(scope) = allowing.map(|(_, scope)| scope.clone()).reduce(Scope::or) {
            return Ok(scope);
        }
        if matches!(by_token, Some(None)) {
            return Err(Status::unauthenticated(
                "unknown token: it must be in the node's token file",
            ));
        }
        if by_name.is_none() && by_token.is_none() {
            return Err(Status::unauthenticated(
                "authentication is required: give a bearer token (--token-file), or a client certificate \
                 (--tls-cert and --tls-key)",
            ));
        }
        let shown = by_name.into_iter().flatten().chain(by_token.flatten());
        let roles: Vec<Role> = shown.map(|(role, _)| role).collect();
        Err(denied(needed, &roles))
    }

    /// Returns the roles of a certificate's names, each with the keys that it may ask for.
    fn roles_of_certificate(&self, certificate: &CertificateDer<'_>) -> Vec<(Role, Scope)> {
        let Some(names) = &self.names else {
            return Vec::new();
        };
        let any = |names: &[String]| names.iter().any(|name| bears(certificate, name));
        let clients = names.clients.iter();
        let of_clients = clients.filter(|(name, _)| bears(certificate, name));
        let client = of_clients.map(|(_, scope)| scope.clone()).reduce(Scope::or);
        [
            (Role::Admin, any(&names.admins).then_some(Scope::ALL)),
            (Role::Client, client),
            (Role::Peer, any(&names.peers).then_some(Scope::ALL)),
        ]
        .into_iter()
        .filter_map(|(role, scope)| Some((role, scope?)))
        .collect()
    }

    /// Returns what the bearer of a token may do. Compares with every token completely, so that the time taken reveals
    /// nothing about them.
    fn bearer_of(&self, shown: &[u8]) -> Option<(Role, Scope)> {
        let tokens = self.tokens.as_ref()?;
        let tokens = tokens.all.read().unwrap_or_else(PoisonError::into_inner);
        let found = tokens.iter().fold(None, |found, token| {
            if same(&token.text, shown) {
                Some(token)
            } else {
                found
            }
        });
        found.map(|token| (token.role, token.scope.clone()))
    }
}

fn denied(needed: Role, roles: &[Role]) -> Status {
    let has: Vec<_> = roles.iter().map(|role| role.name()).collect();
    let has = if has.is_empty() {
        "none".to_owned()
    } else {
        has.join(", ")
    };
    let what = match needed {
        Role::Admin => "a certificate with a name of tls.admins, or an admin token",
        Role::Client => "a certificate with a name of tls.clients, or a client token",
        Role::Peer => "a certificate with a name of tls.peers",
    };
    Status::permission_denied(format!(
        "this requires the role {}, and the caller has {has}: use {what}",
        needed.name()
    ))
}

/// Returns true if a certificate, already verified, is valid for a name. `*` stands for any name.
fn bears(certificate: &CertificateDer<'_>, name: &str) -> bool {
    if name == "*" {
        return true;
    }
    let (Ok(certificate), Ok(name)) = (
        webpki::EndEntityCert::try_from(certificate),
        ServerName::try_from(name),
    ) else {
        return false;
    };
    certificate.verify_is_valid_for_subject_name(&name).is_ok()
}

/// Compares in a time that depends only on the lengths.
fn same(left: &[u8], right: &[u8]) -> bool {
    let differ = left.iter().zip(right).fold(0, |differ, (left, right)| {
        std::hint::black_box(differ | (left ^ right))
    });
    left.len() == right.len() && differ == 0
}

/// Interceptor that lets only callers with a role through to a service.
#[derive(Clone, Debug)]
pub struct Guard {
    auth: Arc<Auth>,
    needed: Role,
}

impl Guard {
    /// Returns the keys that the caller may ask for.
    fn scope(&self, request: &Request<()>) -> Result<Scope, Status> {
        let certificates = request.peer_certs();
        let own = certificates.as_ref().and_then(|chain| chain.first());
        let header = request.metadata().get("authorization");
        let token = header.and_then(|header| {
            let (scheme, token) = header.to_str().ok()?.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
        });
        self.auth.check(self.needed, own, token.map(str::as_bytes))
    }
}

/// Interceptor before a face: lets callers with the role client through, and notes which keys they may ask for.
#[derive(Clone, Debug)]
pub struct FaceGuard(Guard);

impl FaceGuard {
    /// Returns true if callers need no role.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.0.auth.is_open(self.0.needed)
    }

    /// Returns the keys that a caller with the certificate in these extensions, and without a token, may ask for;
    /// `None` if it lacks the role.
    #[must_use]
    pub fn scope_without_token(&self, extensions: http::Extensions) -> Option<Scope> {
        let request = Request::from_parts(MetadataMap::new(), extensions, ());
        self.0.scope(&request).ok()
    }

    /// Returns the keys that the bearer of a token may ask for; `None` if it lacks the role.
    #[must_use]
    pub fn scope_of(&self, token: &[u8]) -> Option<Scope> {
        let (role, scope) = self.0.auth.bearer_of(token)?;
        role.allows(self.0.needed).then_some(scope)
    }
}

impl Interceptor for FaceGuard {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        let scope = self.0.scope(&request)?;
        // Without a note, a caller may ask for all keys.
        if scope.is_confined() {
            request.extensions_mut().insert(scope);
        }
        Ok(request)
    }
}

impl Interceptor for Guard {
    fn call(&mut self, request: Request<()>) -> Result<Request<()>, Status> {
        match self.scope(&request)? {
            scope if scope.is_confined() => Err(Status::permission_denied(format!(
                "this caller may use only {scope}: use a face, because a session may use every key"
            ))),
            _ => Ok(request),
        }
    }
}
