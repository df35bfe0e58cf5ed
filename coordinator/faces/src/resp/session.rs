//! The commands of one connection: who speaks, in which version, and what is asked.
//!
//! Nothing here waits: a command becomes a reply, or an operation on a limit.

use super::counters;
use super::operation::Operation;
use super::reply::{Reply, Version};
use super::scripts;
use super::throttle::{self, LastLimit};
use super::words::{arity, number};
use crate::scope::Scope;
use bytes::Bytes;
use std::time::Duration;

/// Version of Redis whose protocol this is, for clients that ask before they use a feature.
const REDIS_VERSION: &str = "7.2.0";

/// Surroundings of a session.
pub(super) trait Host {
    /// Returns the keys that a client may ask for before it gives a password; `None` if it must give one.
    fn without_password(&self) -> Option<Scope>;

    /// Returns the keys that a client with this password may ask for; `None` if the password is not known.
    fn scope(&self, password: &[u8]) -> Option<Scope>;

    /// Returns the time since 1970.
    fn unix_time(&self) -> Duration;
}

/// State of a connection.
#[derive(Debug)]
pub(super) struct Session {
    id: u64,
    version: Version,
    must_authenticate: bool,
    authenticated: bool,
    scope: Scope,
    name: Bytes,
    /// Commands since `MULTI`, and their bytes.
    queue: Option<(Vec<Vec<Bytes>>, usize)>,
    last_limit: LastLimit,
}

/// The effect of a command.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    Reply(Reply),
    Run(Operation),
    /// Operations that are answered together, by the sum of their replies.
    RunSum(Vec<Operation>),
    /// The commands of a transaction, in order. They are not atomic together.
    RunAll(Vec<Step>),
    /// The last reply of the connection.
    Close(Reply),
}

impl From<Result<Operation, Reply>> for Step {
    fn from(read: Result<Operation, Reply>) -> Self {
        read.map_or_else(Self::Reply, Self::Run)
    }
}

impl Session {
    /// Maximum number of commands in a transaction.
    const QUEUE_MAX: usize = 128;

    /// Maximum number of bytes of all commands in a transaction.
    const QUEUE_BYTES_MAX: usize = 64 * 1_024;

    /// Bytes that a part of a queued command takes besides its text.
    const PART_BYTES: usize = size_of::<Bytes>();

    /// Begins a session. `scope` has the keys that the client may ask for before it gives a password; `None` if it
    /// must give one.
    pub(super) fn new(id: u64, scope: Option<Scope>) -> Self {
        Self {
            id,
            version: Version::Resp2,
            must_authenticate: scope.is_none(),
            authenticated: false,
            scope: scope.unwrap_or_else(|| Scope::under([])),
            name: Bytes::new(),
            queue: None,
            last_limit: LastLimit::default(),
        }
    }

    pub(super) const fn version(&self) -> Version {
        self.version
    }

    /// Returns the keys that the client may ask for.
    pub(super) const fn scope(&self) -> &Scope {
        &self.scope
    }

    /// Carries out a command. `parts` has its name and its arguments.
    pub(super) fn command(&mut self, parts: &[Bytes], host: &impl Host) -> Step {
        let name = name(parts);
        if self.must_authenticate && !self.authenticated && !is_open(&name) {
            return Step::Reply(Reply::Error("NOAUTH Authentication required.".into()));
        }
        match (name.as_str(), &mut self.queue) {
            ("MULTI", None) => {
                self.queue = Some((Vec::new(), 0));
                Step::Reply(Reply::OK)
            }
            ("MULTI", Some(_)) => Step::Reply(Reply::err("MULTI calls can not be nested")),
            ("EXEC" | "DISCARD", None) => Step::Reply(Reply::err(format!("{name} without MULTI"))),
            ("DISCARD", Some(_)) => {
                self.queue = None;
                Step::Reply(Reply::OK)
            }
            ("EXEC", queue) => {
                let (commands, _) = queue.take().unwrap_or_default();
                let steps = commands.iter();
                let steps = steps.map(|parts| self.plain(&self::name(parts), parts, host));
                Step::RunAll(steps.collect())
            }
            ("QUIT" | "RESET", _) | (_, None) => self.plain(&name, parts, host),
            (_, Some((commands, bytes))) => {
                let more: usize = parts.iter().map(|part| part.len() + Self::PART_BYTES).sum();
                if commands.len() == Self::QUEUE_MAX || *bytes + more > Self::QUEUE_BYTES_MAX {
                    self.queue = None;
                    return Step::Reply(Reply::err(
                        "the transaction is too large: it is discarded",
                    ));
                }
                *bytes += more;
                commands.push(parts.to_vec());
                Step::Reply(Reply::Simple("QUEUED"))
            }
        }
    }

    /// Carries out a command that is no part of a transaction, or whose turn in one has come.
    fn plain(&mut self, name: &str, parts: &[Bytes], host: &impl Host) -> Step {
        let read = throttle::read(name, parts, &mut self.last_limit);
        let read = read.or_else(|| counters::read(name, parts));
        if let Some(read) = read {
            return read.into();
        }
        let args = &parts[1..];
        let reply = match name {
            "EVALSHA" | "EVALSHA_RO" | "EVAL" | "EVAL_RO" => return eval(name, args),
            "EXISTS" if !args.is_empty() => return Step::RunSum(counters::exists(args)),
            "QUIT" => return Step::Close(Reply::OK),
            "PING" => match args.first() {
                None => Reply::Simple("PONG"),
                Some(text) => Reply::Bulk(text.clone()),
            },
            "ECHO" if args.len() == 1 => Reply::Bulk(args[0].clone()),
            "HELLO" => self.hello(args, host),
            "AUTH" => self.auth(args, host),
            "RESET" => {
                *self = Self::new(self.id, host.without_password());
                Reply::Simple("RESET")
            }
            "SELECT" if args.len() == 1 => match number(&args[0]) {
                Ok(0) => Reply::OK,
                Ok(_) => Reply::err("DB index is out of range"),
                Err(error) => error,
            },
            "CLIENT" => self.client(args),
            "SCRIPT" => script(args),
            "COMMAND" => match subcommand(args).as_str() {
                "DOCS" => Reply::Map(Vec::new()),
                "COUNT" => Reply::Int(0),
                _ => Reply::Array(Vec::new()),
            },
            "CONFIG" if subcommand(args) == "GET" => Reply::Map(Vec::new()),
            "INFO" => Reply::text(info()),
            "TIME" => {
                let now = host.unix_time();
                Reply::Array(vec![
                    Reply::text(now.as_secs().to_string()),
                    Reply::text(now.subsec_micros().to_string()),
                ])
            }
            "WATCH" | "UNWATCH" => Reply::OK,
            "CLUSTER" | "READONLY" | "READWRITE" => {
                Reply::err("This instance has cluster support disabled")
            }
            "ECHO" | "SELECT" | "EXISTS" => arity(name),
            _ => unsupported(name),
        };
        Step::Reply(reply)
    }

    /// `HELLO [version [AUTH user password] [SETNAME name]]`
    fn hello(&mut self, args: &[Bytes], host: &impl Host) -> Reply {
        let version = match args.first().map(|version| &version[..]) {
            None => self.version,
            Some(b"2") => Version::Resp2,
            Some(b"3") => Version::Resp3,
            Some(_) => return Reply::Error("NOPROTO unsupported protocol version".into()),
        };
        let (mut rest, mut name) = (args.get(1..).unwrap_or_default(), None);
        let (mut authenticated, mut scope) = (self.authenticated, None);
        while let Some(option) = rest.first() {
            rest = match (option.to_ascii_uppercase().as_slice(), rest) {
                (b"AUTH", [_, _, password, more @ ..]) => {
                    scope = host.scope(password);
                    if self.must_authenticate && scope.is_none() {
                        return refused();
                    }
                    authenticated = true;
                    more
                }
                (b"SETNAME", [_, given, more @ ..]) => {
                    name = Some(given.clone());
                    more
                }
                _ => return Reply::err("syntax error in HELLO"),
            };
        }
        if self.must_authenticate && !authenticated {
            return Reply::Error(
                "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH \
                 <user> <pass> option can be used to authenticate the client and select the RESP protocol version at \
                 the same time"
                    .into(),
            );
        }
        (self.version, self.authenticated) = (version, authenticated);
        self.scope = scope.unwrap_or_else(|| std::mem::take(&mut self.scope));
        self.name = name.unwrap_or_else(|| std::mem::take(&mut self.name));
        let text = |text: &str| Reply::text(text);
        let version = if version == Version::Resp3 { 3 } else { 2 };
        Reply::Map(vec![
            (text("server"), text("redis")),
            (text("version"), text(REDIS_VERSION)),
            (text("proto"), Reply::Int(version)),
            (text("id"), Reply::int(self.id)),
            (text("mode"), text("standalone")),
            (text("role"), text("master")),
            (text("modules"), Reply::Array(Vec::new())),
        ])
    }

    /// `AUTH [user] password`: the user may have any name.
    fn auth(&mut self, args: &[Bytes], host: &impl Host) -> Reply {
        let ([password] | [_, password]) = args else {
            return arity("AUTH");
        };
        if let Some(scope) = host.scope(password) {
            (self.authenticated, self.scope) = (true, scope);
            return Reply::OK;
        }
        match self.must_authenticate {
            true => refused(),
            false => {
                Reply::err("AUTH was called, but no password is required, and this one is unknown")
            }
        }
    }

    fn client(&mut self, args: &[Bytes]) -> Reply {
        match (subcommand(args).as_str(), args) {
            ("SETNAME", [_, name]) => {
                self.name = name.clone();
                Reply::OK
            }
            ("GETNAME", [_]) if self.name.is_empty() => Reply::Nil,
            ("GETNAME", [_]) => Reply::Bulk(self.name.clone()),
            ("ID", [_]) => Reply::int(self.id),
            ("SETINFO", [_, _, _]) | ("NO-EVICT" | "NO-TOUCH", [_, _]) => Reply::OK,
            ("INFO" | "LIST", _) => Reply::text(format!(
                "id={} name={} resp={}\n",
                self.id,
                self.name.escape_ascii(),
                if self.version == Version::Resp3 { 3 } else { 2 }
            )),
            ("SETNAME" | "GETNAME" | "ID" | "SETINFO" | "NO-EVICT" | "NO-TOUCH", _) => {
                arity("client")
            }
            (other, _) => Reply::err(format!("unknown subcommand '{other}'. Try CLIENT HELP.")),
        }
    }
}

/// Returns true for commands that a client may send before it authenticates.
fn is_open(name: &str) -> bool {
    matches!(name, "HELLO" | "AUTH" | "QUIT" | "RESET")
}

fn refused() -> Reply {
    Reply::Error("WRONGPASS invalid username-password pair or user is disabled.".into())
}

/// Returns the name of a command in capitals; empty for an empty one.
fn name(parts: &[Bytes]) -> String {
    let name = parts.first().map_or(&[][..], |name| &name[..]);
    let mut name = shown(name);
    name.make_ascii_uppercase();
    name
}

fn subcommand(args: &[Bytes]) -> String {
    name(args)
}

/// Returns a word that a client sent, short enough to be quoted in an error.
fn shown(word: &[u8]) -> String {
    const MOST: usize = 64;
    let word = &word[..word.len().min(MOST)];
    // Names of commands have nothing to escape, and this is on the path of each request.
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    match str::from_utf8(word) {
        Ok(text) if word.iter().all(plain) => text.to_owned(),
        _ => word.escape_ascii().to_string(),
    }
}

fn eval(name: &str, args: &[Bytes]) -> Step {
    let Some((script, rest)) = args.split_first() else {
        return Step::Reply(arity(name));
    };
    let by_hash = name.starts_with("EVALSHA");
    let known = match by_hash {
        true => scripts::known(script),
        false => scripts::known(scripts::sha1(script).as_bytes()),
    };
    match known {
        Some(known) => known.call(rest).into(),
        None if by_hash => Step::Reply(Reply::Error(
            "NOSCRIPT No matching script. Please use EVAL.".into(),
        )),
        None => Step::Reply(unknown_script(script)),
    }
}

fn script(args: &[Bytes]) -> Reply {
    match (subcommand(args).as_str(), args) {
        ("LOAD", [_, text]) => {
            let sha1 = scripts::sha1(text);
            match scripts::known(sha1.as_bytes()) {
                Some(_) => Reply::text(sha1),
                None => unknown_script(text),
            }
        }
        ("EXISTS", [_, hashes @ ..]) if !hashes.is_empty() => {
            let known = |sha1: &Bytes| Reply::int(scripts::known(sha1).is_some().into());
            Reply::Array(hashes.iter().map(known).collect())
        }
        // The known scripts are built in, so there is nothing to forget.
        ("FLUSH", _) => Reply::OK,
        ("KILL", [_]) => Reply::Error("NOTBUSY No scripts in execution right now.".into()),
        ("LOAD" | "EXISTS" | "KILL", _) => arity("script"),
        (other, _) => Reply::err(format!("unknown subcommand '{other}'. Try SCRIPT HELP.")),
    }
}

fn unknown_script(text: &[u8]) -> Reply {
    Reply::err(format!(
        "this is not Redis: scripts are not executed, and the script with SHA-1 {} is unknown; the scripts of {} \
         are known; use CL.THROTTLE for other limits",
        scripts::sha1(text),
        scripts::LIBRARIES
    ))
}

fn unsupported(name: &str) -> Reply {
    Reply::err(format!(
        "unknown command '{name}': this is not Redis, but a rate limiter; supported are CL.THROTTLE, GCRA, THROTTLE, \
         EVALSHA of known rate limiters, INCR, INCRBY, DECR, DECRBY, GET, EXISTS, TTL, PTTL, EXPIRE, PEXPIRE, DEL, MULTI and \
         EXEC"
    ))
}

fn info() -> String {
    format!(
        "# Server\r\nredis_version:{REDIS_VERSION}\r\nredis_mode:standalone\r\naliquot_version:{}\r\n\
         # Persistence\r\nloading:0\r\n# Replication\r\nrole:master\r\n",
        env!("CARGO_PKG_VERSION")
    )
}

#[cfg(test)]
#[path = "../../tests/unit/resp/session.rs"]
mod tests;
