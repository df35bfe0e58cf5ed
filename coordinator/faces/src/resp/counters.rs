//! Commands on counters, for applications that count by themselves.
//!
//! Such a client never sends its limit, so its keys need a budget of their own: by a rule without `{limit}`. Then
//! `INCR` takes a token, the value of a counter is what is used of the budget, and its time to live is the time
//! until nothing is used. A refused `INCR` answers with a value above any limit. The budget decides the window,
//! so `EXPIRE` changes nothing.

use super::operation::{Form, Operation, Verb};
use super::reply::Reply;
use super::words::{arity, quantity};
use bytes::Bytes;

/// Reads the keys of `EXISTS`. A counter exists while a part of its budget is used.
pub(super) fn exists(keys: &[Bytes]) -> Vec<Operation> {
    let operation = |key: &Bytes| Operation {
        key: key.clone(),
        limit: None,
        verb: Verb::Peek,
        form: Form::Exists,
    };
    keys.iter().map(operation).collect()
}

/// Reads a command. Returns `None` if it is another one.
pub(super) fn read(name: &str, parts: &[Bytes]) -> Option<Result<Operation, Reply>> {
    let (args, verb, form) = match name {
        "INCR" => (2..=2, Verb::Take(1), Form::Count),
        "DECR" => (2..=2, Verb::Refund(1), Form::Count),
        "INCRBY" | "DECRBY" => (3..=3, Verb::Peek, Form::Count),
        "GET" => (2..=2, Verb::Peek, Form::Text),
        "TTL" => (2..=2, Verb::Peek, Form::Seconds),
        "PTTL" => (2..=2, Verb::Peek, Form::Millis),
        "EXPIRE" | "PEXPIRE" => (3..=4, Verb::Peek, Form::One),
        "DEL" | "UNLINK" => (2..=2, Verb::Refund(u64::MAX), Form::One),
        _ => return None,
    };
    if !args.contains(&parts.len()) {
        return Some(Err(arity(name)));
    }
    let verb = match name {
        "INCRBY" => quantity(&parts[2]),
        "DECRBY" => quantity(&parts[2]).map(|verb| match verb {
            Verb::Take(n) => Verb::Refund(n),
            Verb::Refund(n) => Verb::Take(n),
            other => other,
        }),
        _ => Ok(verb),
    };
    Some(verb.map(|verb| Operation {
        key: parts[1].clone(),
        limit: None,
        verb,
        form,
    }))
}
