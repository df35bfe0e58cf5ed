//! The settings of a client in the environment of its process.

#[cfg(test)]
#[path = "../../tests/unit/session/environment.rs"]
mod tests;

use crate::session::config::is_address;
use crate::session::error::BuildError;
use crate::session::tls::ClientTls;
use std::ffi::OsString;
use std::fs;
use std::path::Path;

const ENDPOINTS: &str = "ALIQUOT_ENDPOINTS";
const TOKEN_FILE: &str = "ALIQUOT_TOKEN_FILE";
const TLS_CA: &str = "ALIQUOT_CLI_TLS_CA";
const TLS_CERT: &str = "ALIQUOT_CLI_TLS_CERT";
const TLS_KEY: &str = "ALIQUOT_CLI_TLS_KEY";

const ADDRESSES: &str = "addresses of nodes are allowed, such as a:7001,b:7001";
const TOKENS: &str = "a file that contains only a token in visible ASCII is allowed";
const CERTS: &str = "a file of certificates in PEM is allowed";
const KEYS: &str = "a file of a private key in PEM is allowed";

/// Settings that were found in the environment.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) addresses: Vec<String>,
    pub(super) token: Option<String>,
    pub(super) tls: Option<ClientTls>,
}

impl Settings {
    /// Reads the variables and the files that they name. An empty variable counts as not set.
    pub(super) fn read(
        variable: impl Fn(&'static str) -> Option<OsString>,
    ) -> Result<Self, BuildError> {
        let text = |name, allowed| {
            let value = variable(name).filter(|value| !value.is_empty());
            let value = value.map(OsString::into_string).transpose();
            value.map_err(|value| {
                let value = value.to_string_lossy().into_owned();
                wrong(name, value, "is not UTF-8", allowed)
            })
        };
        let identity = (text(TLS_CERT, CERTS)?, text(TLS_KEY, KEYS)?);
        Ok(Self {
            addresses: addresses(text(ENDPOINTS, ADDRESSES)?)?,
            token: text(TOKEN_FILE, TOKENS)?.map(token).transpose()?,
            tls: tls(text(TLS_CA, CERTS)?, identity)?,
        })
    }
}

fn wrong(
    name: &'static str,
    value: impl Into<String>,
    reason: impl Into<String>,
    allowed: &'static str,
) -> BuildError {
    BuildError::Variable {
        name,
        value: value.into(),
        reason: reason.into(),
        allowed,
    }
}

fn addresses(value: Option<String>) -> Result<Vec<String>, BuildError> {
    let Some(value) = value else {
        return Err(wrong(ENDPOINTS, "", "is not set", ADDRESSES));
    };
    let addresses = value.split(',').map(|address| {
        let address = address.trim();
        match is_address(address) {
            Ok(()) => Ok(address.to_owned()),
            Err(reason) => {
                let reason = format!("has {address:?}, which is not a \"host:port\" ({reason})");
                Err(wrong(ENDPOINTS, value.as_str(), reason, ADDRESSES))
            }
        }
    });
    addresses.collect()
}

fn token(path: String) -> Result<String, BuildError> {
    let token = fs::read_to_string(&path).map_err(|error| {
        wrong(
            TOKEN_FILE,
            &path,
            format!("cannot be read: {error}"),
            TOKENS,
        )
    })?;
    let token = token.trim();
    match !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic()) {
        true => Ok(token.to_owned()),
        false => Err(wrong(TOKEN_FILE, path, "holds no token", TOKENS)),
    }
}

fn tls(
    ca: Option<String>,
    identity: (Option<String>, Option<String>),
) -> Result<Option<ClientTls>, BuildError> {
    let of = |name: &'static str, value: &str, allowed: &'static str| {
        let value = value.to_owned();
        move |reason: String| wrong(name, value, reason, allowed)
    };
    let identity = match identity {
        (Some(cert), Some(key)) => Some((cert, key)),
        (None, None) => None,
        (Some(cert), None) => {
            let reason = "needs ALIQUOT_CLI_TLS_KEY, its key";
            return Err(wrong(TLS_CERT, cert, reason, CERTS));
        }
        (None, Some(key)) => {
            let reason = "needs ALIQUOT_CLI_TLS_CERT, its certificate";
            return Err(wrong(TLS_KEY, key, reason, KEYS));
        }
    };
    let (ca, identity) = match (ca, identity) {
        (Some(ca), identity) => (ca, identity),
        (None, None) => return Ok(None),
        (None, Some((cert, _))) => {
            let reason = "needs ALIQUOT_CLI_TLS_CA, the authority of the nodes' certificates";
            return Err(wrong(TLS_CERT, cert, reason, CERTS));
        }
    };
    let tls =
        ClientTls::new(ClientTls::read_certs(Path::new(&ca)).map_err(of(TLS_CA, &ca, CERTS))?);
    let Some((cert, key)) = identity else {
        return Ok(Some(tls));
    };
    let certs = ClientTls::read_certs(Path::new(&cert)).map_err(of(TLS_CERT, &cert, CERTS))?;
    let secret = ClientTls::read_key(Path::new(&key)).map_err(of(TLS_KEY, &key, KEYS))?;
    Ok(Some(tls.identity(certs, secret)))
}
