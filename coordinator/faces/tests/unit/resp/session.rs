//! Commands and their replies, without a socket.

use super::*;
use crate::resp::operation::{Form, Verb};

/// A host whose password is `token`, if it has one.
struct TestHost {
    closed: bool,
}

impl Host for TestHost {
    fn without_password(&self) -> Option<Scope> {
        (!self.closed).then_some(Scope::ALL)
    }

    fn scope(&self, password: &[u8]) -> Option<Scope> {
        match password {
            b"token" => Some(Scope::ALL),
            b"confined" => Some(Scope::under(["api".to_owned()])),
            _ => None,
        }
    }

    fn unix_time(&self) -> Duration {
        Duration::from_micros(1_700_000_000_000_042)
    }
}

const OPEN: TestHost = TestHost { closed: false };
const CLOSED: TestHost = TestHost { closed: true };

fn parts(words: &str) -> Vec<Bytes> {
    words
        .split(' ')
        .map(|word| Bytes::copy_from_slice(word.as_bytes()))
        .collect()
}

fn ask(session: &mut Session, host: &TestHost, words: &str) -> Step {
    session.command(&parts(words), host)
}

/// Checks the replies to commands of one connection, in RESP2.
#[track_caller]
fn check(host: &TestHost, commands: &[(&str, &str)]) {
    let mut session = Session::new(7, host.without_password());
    for (words, expect) in commands {
        let reply = match ask(&mut session, host, words) {
            Step::Reply(reply) | Step::Close(reply) => reply,
            other => panic!("{words}: {other:?}"),
        };
        let mut bytes = bytes::BytesMut::new();
        reply.write(Version::Resp2, &mut bytes);
        assert_eq!(str::from_utf8(&bytes), Ok(*expect), "{words}");
    }
}

#[test]
fn clients_connect_as_to_redis() {
    check(
        &OPEN,
        &[
            ("ping", "+PONG\r\n"),
            ("PING hi", "$2\r\nhi\r\n"),
            ("ECHO hi", "$2\r\nhi\r\n"),
            (
                "ECHO",
                "-ERR wrong number of arguments for 'echo' command\r\n",
            ),
            ("SELECT 0", "+OK\r\n"),
            ("SELECT 1", "-ERR DB index is out of range\r\n"),
            ("CLIENT SETINFO LIB-NAME redis-py", "+OK\r\n"),
            ("CLIENT GETNAME", "$-1\r\n"),
            ("CLIENT SETNAME worker", "+OK\r\n"),
            ("CLIENT GETNAME", "$6\r\nworker\r\n"),
            ("CLIENT ID", ":7\r\n"),
            (
                "CLIENT MAINT_NOTIFICATIONS ON",
                "-ERR unknown subcommand 'MAINT_NOTIFICATIONS'. Try CLIENT HELP.\r\n",
            ),
            ("COMMAND DOCS", "*0\r\n"),
            ("CONFIG GET maxmemory", "*0\r\n"),
            ("TIME", "*2\r\n$10\r\n1700000000\r\n$2\r\n42\r\n"),
            (
                "CLUSTER INFO",
                "-ERR This instance has cluster support disabled\r\n",
            ),
            ("HELLO 4", "-NOPROTO unsupported protocol version\r\n"),
            ("HELLO 2 SETNAME", "-ERR syntax error in HELLO\r\n"),
            (
                "AUTH x",
                "-ERR AUTH was called, but no password is required, and this one is unknown\r\n",
            ),
            ("RESET", "+RESET\r\n"),
            ("CLIENT GETNAME", "$-1\r\n"),
        ],
    );
    let mut session = Session::new(7, Some(Scope::ALL));
    assert_eq!(ask(&mut session, &OPEN, "QUIT"), Step::Close(Reply::OK));
    let unknown = ask(&mut session, &OPEN, "HSET a b c");
    let Step::Reply(Reply::Error(text)) = unknown else {
        panic!("an error");
    };
    assert!(text.starts_with("ERR unknown command 'HSET': this is not Redis"));
}

#[test]
fn hello_chooses_the_version_and_tells_the_server() {
    let mut session = Session::new(7, Some(Scope::ALL));
    let Step::Reply(Reply::Map(pairs)) = ask(&mut session, &OPEN, "HELLO 3 SETNAME worker") else {
        panic!("a map");
    };
    assert_eq!(session.version(), Version::Resp3);
    assert!(pairs.contains(&(Reply::text("proto"), Reply::Int(3))));
    assert!(pairs.contains(&(Reply::text("id"), Reply::Int(7))));
    let name = ask(&mut session, &OPEN, "CLIENT GETNAME");
    assert_eq!(name, Step::Reply(Reply::text("worker")));
    ask(&mut session, &OPEN, "HELLO 2");
    assert_eq!(session.version(), Version::Resp2);
}

#[test]
fn each_command_has_the_limit_that_it_names() {
    let mut session = Session::new(7, Some(Scope::ALL));
    let mut limit = |words: &str| match ask(&mut session, &OPEN, words) {
        Step::Run(operation) => operation.limit.map(|limit| limit.to_string()),
        Step::Reply(Reply::Error(_)) => None,
        other => panic!("{words}: {other:?}"),
    };
    for (words, expect) in [
        ("CL.THROTTLE a 15 30 60", Some("30-per-1m-burst-16")),
        ("CL.THROTTLE b 15 30 60", Some("30-per-1m-burst-16")),
        ("THROTTLE a 15 30 60", Some("30-per-1m-burst-15")),
        ("CL.THROTTLE a 15 31 60", Some("31-per-1m-burst-16")),
        ("CL.THROTTLE a 15 31 x", None),
        ("CL.THROTTLE a 15 31 60 2", Some("31-per-1m-burst-16")),
        ("GCRA a 14 31 60", Some("31-per-1m-burst-15")),
    ] {
        assert_eq!(limit(words).as_deref(), expect, "{words}");
    }
}

/// A certificate can let a client ask for some keys without a password. A password's keys replace these.
#[test]
fn a_session_begins_with_the_keys_of_the_connection() {
    let mut session = Session::new(7, Some(Scope::under(["mail".to_owned()])));
    assert!(session.scope().covers("mail/1") && !session.scope().covers("api"));
    ask(&mut session, &OPEN, "AUTH confined");
    assert!(session.scope().covers("api") && !session.scope().covers("mail/1"));
    // `RESET` gives back what the connection has without a password, and before any password that is nothing.
    ask(&mut session, &CLOSED, "RESET");
    assert!(!session.scope().covers("api"));
}

#[test]
fn nothing_is_asked_before_a_client_has_authenticated() {
    const NO: &str = "-NOAUTH Authentication required.\r\n";
    check(
        &CLOSED,
        &[
            ("PING", NO),
            ("CL.THROTTLE a 1 1 1", NO),
            ("MULTI", NO),
            (
                "AUTH wrong",
                "-WRONGPASS invalid username-password pair or user is disabled.\r\n",
            ),
            (
                "HELLO 3 AUTH default wrong",
                "-WRONGPASS invalid username-password pair or user is disabled.\r\n",
            ),
            ("PING", NO),
            ("AUTH default token", "+OK\r\n"),
            ("PING", "+PONG\r\n"),
            ("RESET", "+RESET\r\n"),
            ("PING", NO),
            ("AUTH token", "+OK\r\n"),
            ("PING", "+PONG\r\n"),
        ],
    );
    let mut session = Session::new(7, None);
    let refused = ask(&mut session, &CLOSED, "HELLO 3");
    assert!(matches!(refused, Step::Reply(Reply::Error(text)) if text.starts_with("NOAUTH HELLO")));
    ask(&mut session, &CLOSED, "HELLO 3 AUTH default token");
    assert_eq!(
        ask(&mut session, &CLOSED, "PING"),
        Step::Reply(Reply::Simple("PONG"))
    );
}

#[test]
fn throttling_commands_name_their_limit() {
    let mut session = Session::new(7, Some(Scope::ALL));
    let mut read = |words: &str| match ask(&mut session, &OPEN, words) {
        Step::Run(operation) => {
            let limit = operation.limit.map(|limit| limit.to_string());
            (limit.unwrap_or_default(), operation.verb, operation.form)
        }
        other => panic!("{words}: {other:?}"),
    };
    let limit = || String::from("30-per-1m-burst-15");
    let throttle = Form::Throttle;
    let mut check = |words, verb, form| assert_eq!(read(words), (limit(), verb, form), "{words}");
    check("CL.THROTTLE user 14 30 60", Verb::Take(1), throttle.clone());
    check(
        "cl.throttle user 14 30 60 5",
        Verb::Take(5),
        throttle.clone(),
    );
    check("RL.THROTTLE user 14 30 60 0", Verb::Peek, throttle.clone());
    check(
        "CL.THROTTLE user 14 30 60 -2",
        Verb::Refund(2),
        throttle.clone(),
    );
    check("GCRA user 14 30 60", Verb::Take(1), throttle.clone());
    check("GCRA user 14 30 60 TOKENS 4", Verb::Take(4), throttle);
    check(
        "THROTTLE user 15 30 60 2",
        Verb::Take(2),
        Form::Throttlecrab,
    );
}

#[test]
fn a_wrong_command_is_refused_with_what_is_wrong() {
    check(
        &OPEN,
        &[
            (
                "CL.THROTTLE user 14 30",
                "-ERR wrong number of arguments for 'cl.throttle' command\r\n",
            ),
            (
                "CL.THROTTLE user x 30 60",
                "-ERR value is not an integer or out of range\r\n",
            ),
            (
                "CL.THROTTLE user -1 30 60",
                "-ERR value is not an integer or out of range\r\n",
            ),
            (
                "CL.THROTTLE user 14 0 60",
                "-ERR rate = \"0/m\": must be a rate of at least 1 token per 10 days\r\n",
            ),
            (
                "CL.THROTTLE user 14 30 0",
                "-ERR the period must be more than 0 s, in decimals\r\n",
            ),
            (
                "CL.THROTTLE user 14 30 1m",
                "-ERR the period must be more than 0 s, in decimals\r\n",
            ),
            ("GCRA user 14 30 60 4", "-ERR syntax error\r\n"),
            (
                "INCR",
                "-ERR wrong number of arguments for 'incr' command\r\n",
            ),
            (
                "EXISTS",
                "-ERR wrong number of arguments for 'exists' command\r\n",
            ),
        ],
    );
}

#[test]
fn scripts_are_known_or_refused_with_what_is_known() {
    let sha1 = "f52a5b566060d79fd321d695df55bc918339c4aa";
    let mut session = Session::new(7, Some(Scope::ALL));
    let known = ask(
        &mut session,
        &OPEN,
        &format!("EVALSHA {sha1} 1 rate:a 10 5 1 1"),
    );
    assert!(matches!(known, Step::Run(operation) if operation.form == Form::RedisRate));
    let unknown = "0000000000000000000000000000000000000000";
    check(
        &OPEN,
        &[
            (
                &format!("EVALSHA {unknown} 0"),
                "-NOSCRIPT No matching script. Please use EVAL.\r\n",
            ),
            (
                &format!("SCRIPT EXISTS {sha1} {unknown}"),
                "*2\r\n:1\r\n:0\r\n",
            ),
            ("SCRIPT FLUSH", "+OK\r\n"),
        ],
    );
    for words in ["EVAL return 0", "SCRIPT LOAD return"] {
        let Step::Reply(Reply::Error(text)) = ask(&mut session, &OPEN, words) else {
            panic!("an error");
        };
        assert!(
            text.contains("scripts are not executed") && text.contains("redis_rate"),
            "{text}"
        );
    }
}

#[test]
fn a_transaction_answers_its_commands_together() {
    check(
        &OPEN,
        &[
            ("EXEC", "-ERR EXEC without MULTI\r\n"),
            ("DISCARD", "-ERR DISCARD without MULTI\r\n"),
            ("MULTI", "+OK\r\n"),
            ("MULTI", "-ERR MULTI calls can not be nested\r\n"),
            ("GET a", "+QUEUED\r\n"),
            ("DISCARD", "+OK\r\n"),
            ("EXEC", "-ERR EXEC without MULTI\r\n"),
        ],
    );
    let mut session = Session::new(7, Some(Scope::ALL));
    for words in ["MULTI", "GET a", "PTTL a", "PING"] {
        ask(&mut session, &OPEN, words);
    }
    let Step::RunAll(steps) = ask(&mut session, &OPEN, "EXEC") else {
        panic!("a transaction");
    };
    let forms = steps.iter().map(|step| match step {
        Step::Run(operation) => Some(operation.form.clone()),
        _ => None,
    });
    assert_eq!(
        forms.collect::<Vec<_>>(),
        [Some(Form::Text), Some(Form::Millis), None]
    );
    assert_eq!(steps[2], Step::Reply(Reply::Simple("PONG")));
}

#[test]
fn a_transaction_is_bounded() {
    let mut session = Session::new(7, Some(Scope::ALL));
    ask(&mut session, &OPEN, "MULTI");
    for _ in 0..Session::QUEUE_MAX {
        assert_eq!(
            ask(&mut session, &OPEN, "GET a"),
            Step::Reply(Reply::Simple("QUEUED"))
        );
    }
    let refused = ask(&mut session, &OPEN, "GET a");
    assert!(matches!(refused, Step::Reply(Reply::Error(_))));
    assert!(matches!(
        ask(&mut session, &OPEN, "EXEC"),
        Step::Reply(Reply::Error(_))
    ));
    ask(&mut session, &OPEN, "MULTI");
    let large = "a".repeat(40_000);
    ask(&mut session, &OPEN, &format!("ECHO {large}"));
    let refused = ask(&mut session, &OPEN, &format!("ECHO {large}"));
    assert!(matches!(refused, Step::Reply(Reply::Error(_))));
}
