//! Known scripts of rate limiters, by the SHA-1 of their text.
//!
//! No script is ever run. Each of these is one operation on a limit, so its hash stands for the operation. A script
//! with another text has another hash: a new version of a library is unknown until it is added here, and an
//! application gets an error instead of another limit than it asked for.

use super::operation::{Form, Operation, Verb};
use super::reply::Reply;
use super::words::{millis, number, quantity, secs, text};
use aliquot_core::budget::NamedLimit;
use aliquot_core::unit::Span;
use bytes::Bytes;
use std::time::Duration;

/// A script whose meaning is known.
pub(super) struct Script {
    /// SHA-1 of its text, in lower case.
    pub(super) sha1: &'static str,
    /// The library and the name of the script in it.
    pub(super) of: &'static str,
    read: fn(&Call<'_>) -> Result<Operation, Reply>,
}

/// Keys and arguments of a call.
struct Call<'a> {
    keys: &'a [Bytes],
    args: &'a [Bytes],
}

const fn script(
    sha1: &'static str,
    of: &'static str,
    read: fn(&Call<'_>) -> Result<Operation, Reply>,
) -> Script {
    Script { sha1, of, read }
}

/// The libraries whose scripts are known, as errors name them.
pub(super) const LIBRARIES: &str = "go-redis/redis_rate 10, Python limits 4 and 5, rate-limiter-flexible, \
     rate-limit-redis 4 to 6, @fastify/rate-limit 10 and 11, Spring Cloud Gateway";

/// All known scripts.
#[rustfmt::skip]
pub(super) const KNOWN: [Script; 22] = [
    script("f52a5b566060d79fd321d695df55bc918339c4aa", "redis_rate allowN", allow_n),
    script("054143318f521948424aa25df61d7f7ba835a9d7", "redis_rate allowAtMost", allow_at_most),
    script("741eab638ba93ed71020bb821c45c022d0fa02c4", "limits acquire_moving_window", acquire_moving),
    script("19c9778cd6391e2ee9f90aa518bf56256d15b4ae", "limits 4 acquire_moving_window", acquire_moving),
    script("ad795214f59fe26d6fdec07973836dd16586f5ec", "limits moving_window", moving_window),
    script("f2ef2962263bbe72f66f5bbd0da234e74d880068", "limits 4 moving_window", moving_window),
    script("e8ac2a60cb040b0dbb56815a1e9c6fd032ce62e7", "limits acquire_sliding_window", acquire_sliding),
    script("e7a0a27d4101baabb124af209bb0245197a359a1", "limits sliding_window", sliding_window),
    script("628bd136a573a06b346879695681af12ccef300f", "limits incr_expire", incr_expire),
    script("a1de965f42e177aa339706bd580f049065eca79a", "rate-limiter-flexible rlflxIncr", flexible),
    script("895b92e1712734e1b464999be23953485475357b", "rate-limit-redis 6 increment", increment),
    script("81dbecea94d2d10514719b20ed51faf711529d9d", "rate-limit-redis 5 increment", increment),
    script("3f424a504987d231baa2e19159bb5def8ad32f87", "rate-limit-redis 4 increment", increment),
    script("6aeb97ed6086dcdeafdc6fda3999a0d0e38ec96a", "rate-limit-redis get", get),
    script("b8a19d47785922bb04e7a9fdb49e90d89be1b8af", "@fastify/rate-limit rateLimit", fastify),
    script("4c7d9ef62b3d4f8efd8d11d5d2fd1a56b1e723bc", "@fastify/rate-limit rateLimitRead", fastify_read),
    script("0ad5736ed1c04aae6ec194376c784b89b8c08a7a", "Spring Cloud Gateway 4.3", spring),
    script("775635cca91092477cbcee85fd800accb6adc4b2", "Spring Cloud Gateway 4.2", spring),
    script("76a566c51f92d8f643d16e0ef0101663d5380dba", "Spring Cloud Gateway 3.1", spring),
    script("9d491aea731237273f4274f9ed9660b432b23791", "Spring Cloud Gateway 3.0", spring),
    script("8790f0d99c0c2f9873490f414ad8648ac57b0b2f", "Spring Cloud Gateway 2", spring),
    script("eec77786d43c65f7fd568900b5d2b63b692318dc", "Spring Cloud Gateway 2.0", spring),
];

/// Returns the known script with this hash, in any case.
pub(super) fn known(sha1: &[u8]) -> Option<&'static Script> {
    KNOWN
        .iter()
        .find(|script| script.sha1.as_bytes().eq_ignore_ascii_case(sha1))
}

/// Returns the SHA-1 of a script's text. It names a text, and protects nothing.
pub(super) fn sha1(text: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY, text);
    digest
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

impl Script {
    /// Reads `numkeys key [key …] [arg …]`.
    pub(super) fn call(&self, parts: &[Bytes]) -> Result<Operation, Reply> {
        let (count, rest) = parts.split_first().ok_or_else(|| wrong(self.of))?;
        let count = usize::try_from(number(count)?).unwrap_or(usize::MAX);
        if count > rest.len() {
            return Err(Reply::err(
                "Number of keys can't be greater than number of args",
            ));
        }
        let (keys, args) = rest.split_at(count);
        (self.read)(&Call { keys, args }).map_err(|error| match error {
            Reply::Nil => wrong(self.of),
            error => error,
        })
    }
}

fn wrong(of: &str) -> Reply {
    Reply::err(format!("too few keys or arguments for the script {of}"))
}

impl Call<'_> {
    /// Returns a key. The error of a missing one is completed by the caller.
    fn key(&self, at: usize) -> Result<Bytes, Reply> {
        self.keys.get(at).cloned().ok_or(Reply::Nil)
    }

    fn arg(&self, at: usize) -> Result<&Bytes, Reply> {
        self.args.get(at).ok_or(Reply::Nil)
    }

    fn operation(
        &self,
        limit: Option<NamedLimit>,
        verb: Verb,
        form: Form,
    ) -> Result<Operation, Reply> {
        let key = self.key(0)?;
        Ok(Operation {
            key,
            limit,
            verb,
            form,
        })
    }
}

/// Returns the limit of `tokens` each `per`, all of which may be spent at once, as a counter's may.
fn window(tokens: u64, per: Span) -> Result<Option<NamedLimit>, Reply> {
    NamedLimit::per(tokens, per, tokens)
        .map(Some)
        .map_err(Reply::err)
}

/// burst, rate, period in seconds, n.
fn allow_n(call: &Call<'_>) -> Result<Operation, Reply> {
    let (burst, rate) = (number(call.arg(0)?)?, number(call.arg(1)?)?);
    let limit = NamedLimit::per(rate, secs(call.arg(2)?)?, burst).map_err(Reply::err)?;
    call.operation(Some(limit), quantity(call.arg(3)?)?, Form::RedisRate)
}

fn allow_at_most(call: &Call<'_>) -> Result<Operation, Reply> {
    let mut operation = allow_n(call)?;
    if let Verb::Take(n) = operation.verb {
        operation.verb = Verb::AtMost(n);
    }
    Ok(operation)
}

/// Time of the client, limit, seconds, amount.
fn acquire_moving(call: &Call<'_>) -> Result<Operation, Reply> {
    let limit = window(number(call.arg(1)?)?, secs(call.arg(2)?)?)?;
    call.operation(limit, quantity(call.arg(3)?)?, Form::Acquired)
}

/// Start of the window by the client's time, limit.
fn moving_window(call: &Call<'_>) -> Result<Operation, Reply> {
    let since = text(call.arg(0)?).and_then(|text| text.parse().ok());
    let since = since.filter(|since: &f64| since.is_finite());
    let since = since.ok_or_else(|| Reply::err("value is not a valid float"))?;
    call.operation(None, Verb::Peek, Form::MovingWindow(since))
}

/// Limit, seconds, amount; the second key is that of the running window.
fn acquire_sliding(call: &Call<'_>) -> Result<Operation, Reply> {
    let limit = window(number(call.arg(0)?)?, secs(call.arg(1)?)?)?;
    let operation = call.operation(limit, quantity(call.arg(2)?)?, Form::Acquired)?;
    let key = call.key(1)?;
    Ok(Operation { key, ..operation })
}

/// Seconds.
fn sliding_window(call: &Call<'_>) -> Result<Operation, Reply> {
    let window = Duration::from_nanos(secs(call.arg(0)?)?.nanos());
    let operation = call.operation(None, Verb::Peek, Form::SlidingWindow(window))?;
    let key = call.key(1)?;
    Ok(Operation { key, ..operation })
}

/// Seconds, amount.
fn incr_expire(call: &Call<'_>) -> Result<Operation, Reply> {
    call.operation(None, quantity(call.arg(1)?)?, Form::Count)
}

/// Points, seconds, maximum, and the limiter's own seconds.
fn flexible(call: &Call<'_>) -> Result<Operation, Reply> {
    let limit = window(number(call.arg(2)?)?, secs(call.arg(1)?)?)?;
    call.operation(limit, quantity(call.arg(0)?)?, Form::CountAndMillis)
}

fn increment(call: &Call<'_>) -> Result<Operation, Reply> {
    call.operation(None, Verb::Take(1), Form::CountAndMillis)
}

fn get(call: &Call<'_>) -> Result<Operation, Reply> {
    call.operation(None, Verb::Peek, Form::KeyAndMillis)
}

/// Milliseconds, maximum, and two switches that prolong the window of a refused client, which have no effect:
/// what is refused costs nothing.
fn fastify(call: &Call<'_>) -> Result<Operation, Reply> {
    let limit = window(number(call.arg(1)?)?, millis(call.arg(0)?)?)?;
    call.operation(limit, Verb::Take(1), Form::CountAndMillis)
}

fn fastify_read(call: &Call<'_>) -> Result<Operation, Reply> {
    call.operation(None, Verb::Peek, Form::ReadCountAndMillis)
}

/// Tokens per second, capacity, the client's time, amount.
fn spring(call: &Call<'_>) -> Result<Operation, Reply> {
    let (rate, capacity) = (number(call.arg(0)?)?, number(call.arg(1)?)?);
    let limit = NamedLimit::per(rate, Span::from_secs(1), capacity).map_err(Reply::err)?;
    call.operation(Some(limit), quantity(call.arg(3)?)?, Form::Spring)
}

#[cfg(test)]
#[path = "../../tests/unit/resp/scripts.rs"]
mod tests;
