//! Errors of connections, in words that say what is wrong with TLS, if that is the reason.

use std::error::Error;

/// Part of the text of an error, and its meaning. The transport keeps no more than the text of what was received
/// on a connection, such as an alert, so the text is all there is to read.
const MEANINGS: &[(&str, &str)] = &[
    (
        "invalid peer certificate: UnknownIssuer",
        "the server's certificate is not signed by the given CA",
    ),
    (
        "invalid peer certificate: BadSignature",
        "the server's certificate is not signed by the given CA",
    ),
    (
        "invalid peer certificate: certificate expired",
        "the server's certificate has expired",
    ),
    (
        "invalid peer certificate: certificate not valid yet",
        "the server's certificate is not valid yet",
    ),
    (
        "invalid peer certificate: certificate not valid for name",
        "the server's certificate is for another host name",
    ),
    (
        "invalid peer certificate",
        "the server's certificate cannot be used",
    ),
    ("InvalidContentType", "the server does not speak TLS"),
    (
        "security properties do not meet minimum requirements",
        "the server speaks TLS only, and the client plaintext",
    ),
    (
        "fatal alert: CertificateRequired",
        "the server asks for a client certificate",
    ),
    (
        "fatal alert: UnknownCA",
        "the client's certificate is not signed by the server's CA",
    ),
    (
        "fatal alert: DecryptError",
        "the client's certificate is not signed by the server's CA",
    ),
    (
        "fatal alert: CertificateExpired",
        "the client's certificate has expired, or is not valid yet",
    ),
    (
        "fatal alert: BadCertificate",
        "the server does not accept the client's certificate",
    ),
    (
        "fatal alert: UnsupportedCertificate",
        "the server does not accept the client's certificate",
    ),
    (
        "fatal alert: CertificateUnknown",
        "the server does not accept the client's certificate",
    ),
];

/// Reason why a connection to a node failed or ended.
///
/// # Examples
///
/// ```
/// use aliquot_client::ConnectionError;
///
/// let refused = std::io::Error::other("received fatal alert: CertificateRequired");
/// let refused = ConnectionError::of(&refused);
/// assert!(refused.is_tls());
/// assert_eq!(
///     refused.to_string(),
///     "the server asks for a client certificate (received fatal alert: CertificateRequired)"
/// );
/// let closed = std::io::Error::other("connection refused");
/// assert_eq!(ConnectionError::of(&closed).to_string(), "connection refused");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct ConnectionError {
    text: String,
    is_tls: bool,
}

impl ConnectionError {
    /// Describes an error of the transport: by what is wrong with TLS, if it or its sources tell, and otherwise
    /// by the innermost source. The errors around that carry no useful detail.
    #[must_use]
    pub fn of(error: &(dyn Error + 'static)) -> Self {
        let mut texts = vec![error.to_string()];
        let mut next = error.source();
        while let Some(error) = next {
            texts.push(error.to_string());
            next = error.source();
        }
        for (part, meaning) in MEANINGS {
            if let Some(text) = texts.iter().rev().find(|text| text.contains(part)) {
                let text = format!("{meaning} ({text})");
                return Self { text, is_tls: true };
            }
        }
        let text = texts.into_iter().last().unwrap_or_default();
        Self {
            text,
            is_tls: false,
        }
    }

    /// Describes a status that ended a call. Returns `None` if the node itself sent the status.
    #[must_use]
    pub(crate) fn of_status(status: &tonic::Status) -> Option<Self> {
        status.source().map(Self::of)
    }

    /// Returns true if the two sides do not agree on TLS or on certificates. Then no request was handled.
    #[must_use]
    pub const fn is_tls(&self) -> bool {
        self.is_tls
    }
}
