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

/// The limit that the last command of a connection named. Most clients name one limit in all their commands, and it
/// takes longer to read one than to decide.
#[derive(Debug, Default)]
pub(super) struct LastLimit(Option<(Words, NamedLimit)>);

/// Burst, count and period as a command names them, and what the burst is above them.
type Words = ([Bytes; 3], u64);

impl LastLimit {
    /// Maximum number of bytes of each word that is kept.
    const BYTES_MAX: usize = 32;

    /// Reads the limit of these words. `extra` is what the burst is above them.
    fn read(&mut self, words: [&Bytes; 3], extra: u64) -> Result<NamedLimit, Reply> {
        if let Some(((last, of), limit)) = &self.0
            && last.each_ref() == words
            && *of == extra
        {
            return Ok(*limit);
        }
        let [burst, count, period] = words;
        let burst = number(burst)?.saturating_add(extra);
        let limit = NamedLimit::per(number(count)?, secs(period)?, burst).map_err(Reply::err)?;
        if words.iter().all(|word| word.len() <= Self::BYTES_MAX) {
            // Copies, which do not keep the read buffer of the command in memory.
            let kept = words.map(|word| Bytes::copy_from_slice(word));
            self.0 = Some(((kept, extra), limit));
        }
        Ok(limit)
    }
}

/// Reads a command. Returns `None` if it is another one.
pub(super) fn read(
    name: &str,
    parts: &[Bytes],
    last: &mut LastLimit,
) -> Option<Result<Operation, Reply>> {
    let mut throttle = |parts, extra, form| throttle(name, parts, last, extra, form);
    Some(match name {
        "CL.THROTTLE" | "RL.THROTTLE" => throttle(parts, 1, Form::Throttle),
        "THROTTLE" => throttle(parts, 0, Form::Throttlecrab),
        "GCRA" => match parts.get(5).map(|word| word.to_ascii_uppercase()) {
            None => throttle(parts, 1, Form::Throttle),
            Some(word) if parts.len() == 7 && (word == b"TOKENS" || word == b"NUM_REQUESTS") => {
                let mut parts = parts.to_vec();
                parts.remove(5);
                throttle(&parts, 1, Form::Throttle)
            }
            Some(_) => Err(Reply::err("syntax error")),
        },
        _ => return None,
    })
}

/// Reads `key max_burst count period [quantity]`. `extra` is what the burst is above `max_burst`.
fn throttle(
    name: &str,
    parts: &[Bytes],
    last: &mut LastLimit,
    extra: u64,
    form: Form,
) -> Result<Operation, Reply> {
    if !(5..=6).contains(&parts.len()) {
        return Err(arity(name));
    }
    Ok(Operation {
        key: parts[1].clone(),
        limit: Some(last.read([&parts[2], &parts[3], &parts[4]], extra)?),
        verb: match parts.get(5) {
            Some(part) => quantity(part)?,
            None => Verb::Take(1),
        },
        form,
    })
}
