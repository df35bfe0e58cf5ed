//! Commands of modules and servers that throttle: the limit comes with each call.
//!
//! | command | limit | reply |
//! |---|---|---|
//! | `CL.THROTTLE`, `RL.THROTTLE` `key max_burst count period [quantity]` | `count` each `period` seconds, a burst of `max_burst + 1` | limited, limit, remaining, retry after or −1, reset after |
//! | `GCRA` `key max_burst count period [TOKENS n]` | the same | the same |
//! | `THROTTLE` `key max_burst count period [quantity]` | `count` each `period` seconds, a burst of `max_burst` | allowed, limit, remaining, reset after, retry after or 0 |
//!
//! A quantity of 0 looks, and a negative one refunds.

use super::operation::{Form, Operation, Verb};
use super::reply::Reply;
use super::words::{arity, number, quantity, secs};
use aliquot_core::budget::NamedLimit;
use bytes::Bytes;

/// Reads a command. Returns `None` if it is another one.
pub(super) fn read(name: &str, parts: &[Bytes]) -> Option<Result<Operation, Reply>> {
    Some(match name {
        "CL.THROTTLE" | "RL.THROTTLE" => throttle(name, parts, 1, Form::Throttle),
        "THROTTLE" => throttle(name, parts, 0, Form::Throttlecrab),
        "GCRA" => match parts.get(5).map(|word| word.to_ascii_uppercase()) {
            None => throttle(name, parts, 1, Form::Throttle),
            Some(word) if parts.len() == 7 && (word == b"TOKENS" || word == b"NUM_REQUESTS") => {
                let mut parts = parts.to_vec();
                parts.remove(5);
                throttle(name, &parts, 1, Form::Throttle)
            }
            Some(_) => Err(Reply::err("syntax error")),
        },
        _ => return None,
    })
}

/// Reads `key max_burst count period [quantity]`. `extra` is what the burst is above `max_burst`.
fn throttle(name: &str, parts: &[Bytes], extra: u64, form: Form) -> Result<Operation, Reply> {
    if !(5..=6).contains(&parts.len()) {
        return Err(arity(name));
    }
    let burst = number(&parts[2])?.saturating_add(extra);
    let limit = NamedLimit::per(number(&parts[3])?, secs(&parts[4])?, burst);
    Ok(Operation {
        key: parts[1].clone(),
        limit: Some(limit.map_err(Reply::err)?),
        verb: match parts.get(5) {
            Some(part) => quantity(part)?,
            None => Verb::Take(1),
        },
        form,
    })
}
