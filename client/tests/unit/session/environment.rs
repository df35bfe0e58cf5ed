//! The variables of a client.

use super::*;
use crate::session::client::Client;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

/// Files for one test, removed at its end.
struct Files(PathBuf);

impl Files {
    fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!(
            "aliquot-client-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let dir = std::env::temp_dir().join(name);
        fs::create_dir_all(&dir).expect("a directory");
        Self(dir)
    }

    fn add(&self, name: &str, content: &str) -> String {
        let path = self.0.join(name);
        fs::write(&path, content).expect("a file");
        path.to_str().expect("UTF-8").to_owned()
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const CERT: &str = "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n";
const KEY: &str = "-----BEGIN PRIVATE KEY-----\nAA==\n-----END PRIVATE KEY-----\n";

fn of(variables: &[(&str, &str)]) -> Result<Settings, BuildError> {
    Settings::read(|name| {
        let found = variables.iter().find(|(variable, _)| *variable == name);
        found.map(|(_, value)| value.into())
    })
}

#[test]
fn the_variables_set_addresses_token_and_tls() {
    let files = Files::new();
    let token = files.add("token", "a-secret\n");
    let (cert, key) = (files.add("cert.pem", CERT), files.add("key.pem", KEY));
    let all: [(&str, &str); 5] = [
        (ENDPOINTS, "a:7001, b:7001"),
        (TOKEN_FILE, &token),
        (TLS_CA, &cert),
        (TLS_CERT, &cert),
        (TLS_KEY, &key),
    ];
    let shown = |variables: &[(&str, &str)]| {
        let settings = of(variables).expect("settings");
        let tls = settings.tls.as_ref();
        let ca = tls.map(|tls| tls.files().0);
        let identity = tls.and_then(|tls| tls.files().1);
        (settings.addresses, settings.token, ca, identity)
    };
    let addresses = vec!["a:7001".to_owned(), "b:7001".to_owned()];
    let secret = Some("a-secret".to_owned());
    let (ca, identity) = (Some(CERT.into()), Some((CERT.into(), KEY.into())));
    let expect = (addresses.clone(), secret.clone(), ca.clone(), identity);
    assert_eq!(shown(&all), expect);
    assert_eq!(shown(&all[..3]), (addresses.clone(), secret, ca, None));
    assert_eq!(shown(&all[..1]), (addresses, None, None, None));
    let empty = [all[0], (TOKEN_FILE, ""), (TLS_CA, "")];
    assert_eq!(shown(&empty), shown(&all[..1]));
}

#[test]
fn a_variable_that_cannot_be_used_is_named_with_its_value_and_what_is_allowed() {
    let files = Files::new();
    let (cert, key) = (files.add("cert.pem", CERT), files.add("key.pem", KEY));
    let (none, two) = (files.add("none", " \n"), files.add("two", "a b"));
    let check = |variables: &[(&str, &str)], name: &str, reason: &str, allowed: &str| {
        let mut variables = variables.to_vec();
        if name != ENDPOINTS {
            variables.push((ENDPOINTS, "a:7001"));
        }
        let error = of(&variables).expect_err(reason).to_string();
        let value = variables.iter().find(|(variable, _)| *variable == name);
        let value = value.map_or("", |(_, value)| value);
        assert!(error.starts_with(&format!("{name}: {value:?} ")), "{error}");
        assert!(
            error.contains(reason) && error.ends_with(allowed),
            "{error}"
        );
    };
    let no_port = "has \"b\", which is not a \"host:port\"";
    check(&[], ENDPOINTS, "is not set", ADDRESSES);
    check(&[(ENDPOINTS, "")], ENDPOINTS, "is not set", ADDRESSES);
    check(&[(ENDPOINTS, "a:7001,b")], ENDPOINTS, no_port, ADDRESSES);
    check(&[(ENDPOINTS, "a:7001,")], ENDPOINTS, "has \"\"", ADDRESSES);
    check(
        &[(TOKEN_FILE, "no/file")],
        TOKEN_FILE,
        "cannot be read",
        TOKENS,
    );
    check(&[(TOKEN_FILE, &none)], TOKEN_FILE, "holds no token", TOKENS);
    check(&[(TOKEN_FILE, &two)], TOKEN_FILE, "holds no token", TOKENS);
    let [of_ca, of_cert, of_key] = [(TLS_CA, &*cert), (TLS_CERT, &*cert), (TLS_KEY, &*key)];
    check(&[(TLS_CA, "no/file")], TLS_CA, "cannot be read", CERTS);
    check(
        &[(TLS_CA, &key)],
        TLS_CA,
        "holds no certificate in PEM",
        CERTS,
    );
    check(
        &[of_ca, of_cert],
        TLS_CERT,
        "needs ALIQUOT_CLI_TLS_KEY",
        CERTS,
    );
    check(
        &[of_ca, of_key],
        TLS_KEY,
        "needs ALIQUOT_CLI_TLS_CERT",
        KEYS,
    );
    check(
        &[of_cert, of_key],
        TLS_CERT,
        "needs ALIQUOT_CLI_TLS_CA",
        CERTS,
    );
    let no_key = [of_ca, of_cert, (TLS_KEY, &*cert)];
    check(&no_key, TLS_KEY, "holds no private key in PEM", KEYS);
}

#[test]
fn a_file_of_tls_that_cannot_be_used_is_named() {
    let files = Files::new();
    let (cert, key) = (files.add("cert.pem", CERT), files.add("key.pem", KEY));
    ClientTls::from_files(&cert, &cert, &key).expect("three files");
    for (ca, other, secret, wrong, reason) in [
        ("no/file", &*cert, &*key, "no/file", "cannot be read: "),
        (&*cert, "no/file", &*key, "no/file", "cannot be read: "),
        (&*cert, &*cert, "no/file", "no/file", "cannot be read: "),
        (&*key, &*cert, &*key, &*key, "holds no certificate in PEM"),
        (&*cert, &*key, &*key, &*key, "holds no certificate in PEM"),
        (
            &*cert,
            &*cert,
            &*cert,
            &*cert,
            "holds no private key in PEM",
        ),
    ] {
        let error = ClientTls::from_files(ca, other, secret).expect_err(reason);
        let text = error.to_string();
        assert!(
            text.starts_with(&format!("tls: {wrong:?} {reason}")),
            "{text}"
        );
    }
}

#[tokio::test]
async fn a_client_of_files_that_are_no_certificates_says_so() {
    let files = Files::new();
    let (cert, key) = (files.add("cert.pem", CERT), files.add("key.pem", KEY));
    let tls = ClientTls::from_files(&cert, &cert, &key).expect("three files");
    let client = Client::builder().addresses(["127.0.0.1:1"]).tls(tls);
    let client = client.connect().expect("a client");
    for _ in 0..60_000 {
        if client.status().failure.is_some() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    panic!("the client says nothing");
}
