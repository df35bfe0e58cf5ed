//! Rate limiters for Redis in Python and JavaScript, with only their address changed.
//!
//! The libraries come from the package registries. Where those cannot be reached, the tests say so and check nothing.

#[path = "../../../../tests/tests/support/skipped.rs"]
mod skipped;

use aliquot_client::{KeyRefused, Limit, Limiter};
use aliquot_core::budget::NamedLimit;
use aliquot_faces::decider::{Limiters, Options as Deciding};
use aliquot_faces::resp::{Caller, Options, Server};
use aliquot_faces::{Decider, KeyRules, Scope};
use skipped::skipped;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::process::Command;

/// Limits of this process: a key that ends in a limit has that, and any other five per minute.
#[derive(Default)]
struct Local(Mutex<BTreeMap<String, Limiter>>);

impl Limiters for Local {
    fn limiter(&self, key: &str) -> Result<Limiter, KeyRefused> {
        let mut known = self.0.lock().expect("not poisoned");
        let limiter = known.entry(key.to_owned()).or_insert_with(|| {
            let named = key.rsplit('/').next().map(NamedLimit::try_from);
            let (tokens, per, burst) = match named {
                Some(Ok(named)) => {
                    let per = Duration::from_nanos(named.rate().per().nanos());
                    (named.rate().tokens(), per, named.burst())
                }
                _ => (5, Duration::from_secs(60), 5),
            };
            let limit = Limit::per(tokens, per);
            Limiter::local(limit, burst).expect("a limit")
        });
        Ok(limiter.clone())
    }
}

/// A client that must give a password, or need not.
struct Known {
    must_authenticate: bool,
}

impl Caller for Known {
    type Open = ();

    fn begin(&self) {}

    fn without_password(&self) -> Option<Scope> {
        (!self.must_authenticate).then_some(Scope::ALL)
    }

    fn scope(&self, password: &[u8]) -> Option<Scope> {
        (password == b"s3cret").then_some(Scope::ALL)
    }
}

/// Starts a server, for as long as the runtime lives.
async fn serve(must_authenticate: bool) -> SocketAddr {
    let rules = [
        "redis:* -> redis/*/{limit}",
        // Counters of clients that do not tell their limit.
        "redis:LIMITS:LIMITER/fixed* -> fixed/x*",
        "redis:rl:* -> express/*",
    ];
    let deciding = Deciding {
        rules: KeyRules::parse(rules).expect("valid rules"),
        ..Deciding::default()
    };
    let decider = Decider::of(Local::default(), deciding);
    let server = Arc::new(Server::new(decider, Options::default()));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let server = Arc::clone(&server);
            tokio::spawn(async move {
                let caller = Known { must_authenticate };
                server.serve(stream, &caller, std::future::pending()).await
            });
        }
    });
    address
}

fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/redis_clients")
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// Runs a program that prepares the test. Returns false, and says so, if it fails.
async fn prepared(program: &str, arguments: &[&str], folder: &Path) -> bool {
    std::fs::create_dir_all(folder).expect("a folder");
    let run = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .kill_on_drop(true)
        .output();
    let limit = Duration::from_secs(25);
    let why = match tokio::time::timeout(limit, run).await {
        Ok(Ok(output)) if output.status.success() => return true,
        Ok(Ok(output)) => String::from_utf8_lossy(&output.stderr).into_owned(),
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("it took longer than {limit:?}"),
    };
    skipped(&format!("{program} {}: {why}", arguments.join(" ")));
    false
}

#[track_caller]
fn check(output: &Output) {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    assert!(out.ends_with("all is well\n"), "{out}\n{err}");
}

#[tokio::test(flavor = "multi_thread")]
async fn python_libraries_work_when_their_address_is_changed() {
    let folder = folder("redis-python");
    let venv = ["-m", "venv", "venv"];
    let pip = [
        "-m",
        "pip",
        "install",
        "--quiet",
        "redis==8.1.0",
        "limits==5.8.0",
    ];
    let python = folder.join("venv/bin/python");
    let python = python.to_str().expect("text");
    if !prepared("python3", &venv, &folder).await || !prepared(python, &pip, &folder).await {
        return;
    }
    let (address, closed) = (serve(false).await, serve(true).await);
    let mut command = Command::new(python);
    command.arg(scripts().join("limiters.py"));
    command.args([address.port().to_string(), closed.port().to_string()]);
    check(&command.output().await.expect("it runs"));
}

#[tokio::test(flavor = "multi_thread")]
async fn javascript_libraries_work_when_their_address_is_changed() {
    let folder = folder("redis-javascript");
    let packages = [
        "install",
        "--silent",
        "--no-save",
        "redis@6.3.1",
        "ioredis@6.0.0",
        "rate-limiter-flexible@11.4.0",
        "rate-limit-redis@6.0.1",
        "express-rate-limit@8",
        "@fastify/rate-limit@11.2.0",
        "fastify@5",
    ];
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("package.json"), "{}").expect("a file");
    if !prepared("npm", &packages, &folder).await {
        return;
    }
    let address = serve(false).await;
    // Packages are looked up from the folder of the script.
    let script = folder.join("limiters.mjs");
    std::fs::copy(scripts().join("limiters.mjs"), &script).expect("a copy");
    let mut command = Command::new("node");
    command.arg(&script).arg(address.port().to_string());
    check(&command.output().await.expect("it runs"));
}
