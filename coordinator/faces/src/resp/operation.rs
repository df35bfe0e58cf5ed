//! One operation on a limit, and its reply in the form that the command's client expects.

use super::reply::Reply;
use crate::decider::{Answer, Outcome};
use aliquot_client::Reason;
use aliquot_core::budget::NamedLimit;
use bytes::Bytes;
use std::time::Duration;

/// An operation on the limit of one key.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Operation {
    /// The key, as the client wrote it.
    pub(super) key: Bytes,
    /// The limit that the command names, if it does.
    pub(super) limit: Option<NamedLimit>,
    pub(super) verb: Verb,
    pub(super) form: Form,
}

/// The change that an operation asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Take(u64),
    /// Takes up to that many, as many as there are.
    AtMost(u64),
    Peek,
    Refund(u64),
}

/// The reply that a client expects.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Form {
    /// redis-cell: limited, limit, remaining, retry after, reset after, in seconds.
    Throttle,
    /// throttlecrab: allowed, limit, remaining, reset after, retry after, in seconds.
    Throttlecrab,
    /// redis_rate: number allowed, remaining, and as texts the seconds to retry and to reset.
    RedisRate,
    /// `limits`: 1 or nil.
    Acquired,
    /// `limits`: the start of the window and the tokens used in it. Has the client's start of a window that
    /// would end now.
    MovingWindow(f64),
    /// `limits`: two pairs of tokens used and time left. Has the window.
    SlidingWindow(Duration),
    /// Spring Cloud Gateway: 1 or 0, and the tokens left.
    Spring,
    /// A counter's value.
    Count,
    /// A counter's value, as text; nil if nothing is used.
    Text,
    /// A counter's value, and the milliseconds until it ends.
    CountAndMillis,
    /// As [`Form::CountAndMillis`], with nil and −2 for a counter that is not there.
    KeyAndMillis,
    /// As [`Form::CountAndMillis`], with zeros for a counter that is not there.
    ReadCountAndMillis,
    /// Seconds until a counter ends; −2 if it is not there.
    Seconds,
    /// Milliseconds until a counter ends; −2 if it is not there.
    Millis,
    /// Always 1, for a key that is there.
    One,
    /// 1 for a counter that is there, and 0 for another.
    Exists,
}

/// Value of a counter that a refusal reports if the client's maximum is not known: above any maximum, and exact
/// in JavaScript.
const COUNT_REFUSED: u64 = (1 << 53) - 1;

impl Operation {
    /// Returns the reply for an answer. `taken` is the number of tokens that were asked for last.
    pub(super) fn reply(&self, answer: &Answer, taken: u64) -> Reply {
        match answer.outcome {
            Outcome::NoBudget if answer.reason == Some(Reason::WrongKind) => Reply::err(format!(
                "the budget of the key {:?} limits concurrency, and this command needs a rate or a quota",
                self.key.escape_ascii().to_string()
            )),
            Outcome::NoBudget => Reply::err(format!(
                "no budget applies to the key {:?}: apply one, or a template with named_limits if the commands name \
                 the limit",
                self.key.escape_ascii().to_string()
            )),
            Outcome::Unavailable => Reply::err(
                "no decision: the cluster did not answer in time, or there is no lease; nothing was charged",
            ),
            Outcome::Allowed => self.form.write(&self.state(answer, taken, true)),
            // A peek or a refund asks for nothing, so nothing is refused.
            Outcome::OverLimit | Outcome::Never => {
                let asks = matches!(self.verb, Verb::Take(_) | Verb::AtMost(_));
                self.form.write(&self.state(answer, taken, !asks))
            }
        }
    }

    /// Returns the reply if the command names no limit and none is known for the key: a limit is not used yet.
    pub(super) fn unknown(&self) -> Reply {
        match (&self.form, self.verb) {
            (_, Verb::Take(_) | Verb::AtMost(_)) => Reply::err(
                "this command names no limit, but its key is mapped to a template with named_limits: map the key to \
                 a budget without {limit}",
            ),
            (Form::One | Form::Count, _) => Reply::Int(0),
            (form, _) => form.write(&State::default()),
        }
    }

    fn state(&self, answer: &Answer, asked: u64, allowed: bool) -> State {
        let named = self.limit.map(NamedLimit::burst);
        let most = named.or(answer.limit).or(answer.remaining);
        let most = most.unwrap_or_default();
        // A command that only reads must not report a limit as used up whose state is not known here.
        let remaining = answer.remaining.unwrap_or(match self.verb {
            Verb::Take(_) | Verb::AtMost(_) => 0,
            Verb::Peek | Verb::Refund(_) => most,
        });
        let used = most.saturating_sub(remaining);
        let count = match (allowed, self.verb) {
            (true, Verb::Take(_) | Verb::AtMost(_)) => used.max(asked),
            (true, _) => used,
            (false, _) => named.map_or(COUNT_REFUSED, |most| most.saturating_add(asked)),
        };
        State {
            allowed,
            asked: if allowed { asked } else { 0 },
            most,
            remaining,
            count,
            retry_after: answer.retry_after,
            missing: self.time_for(asked.saturating_sub(remaining)),
            reset_after: answer.reset_after,
        }
    }

    /// Returns the time in which the named limit makes that many tokens.
    fn time_for(&self, tokens: u64) -> Duration {
        let Some(limit) = self.limit else {
            return Duration::ZERO;
        };
        let (made, per) = (limit.rate().tokens(), limit.rate().per().nanos());
        let nanos = u128::from(tokens) * u128::from(per) / u128::from(made.max(1));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// An answer in the form of a reply.
#[derive(Clone, Debug, Default)]
struct State {
    allowed: bool,
    /// Tokens that were taken.
    asked: u64,
    most: u64,
    remaining: u64,
    /// Value of the counter: tokens used, or above the maximum.
    count: u64,
    retry_after: Option<Duration>,
    /// Time in which the missing tokens are made, if the answer names no time to retry.
    missing: Duration,
    reset_after: Duration,
}

impl State {
    /// Returns the time until a counter would end. A refused client waits until it may retry.
    fn left(&self) -> Duration {
        match self.allowed {
            true => self.reset_after,
            false => self.retry_after.unwrap_or(self.reset_after),
        }
    }

    fn is_used(&self) -> bool {
        self.count > 0
    }

    /// Returns the seconds to wait, rounded up: −1 if the request was allowed or if waiting does not help.
    fn retry_secs(&self) -> i64 {
        match (self.allowed, self.retry_after) {
            (false, Some(wait)) => whole_secs(wait),
            _ => -1,
        }
    }
}

impl Form {
    fn write(&self, state: &State) -> Reply {
        let allowed = i64::from(state.allowed);
        let reset = whole_secs(state.reset_after);
        match self {
            Self::Throttle => Reply::Array(vec![
                Reply::Int(1 - allowed),
                Reply::int(state.most),
                Reply::int(state.remaining),
                Reply::Int(state.retry_secs()),
                Reply::Int(reset),
            ]),
            Self::Throttlecrab => Reply::Array(vec![
                Reply::Int(allowed),
                Reply::int(state.most),
                Reply::int(state.remaining),
                Reply::Int(reset),
                Reply::Int(state.retry_secs().max(0)),
            ]),
            Self::RedisRate => redis_rate(state),
            Self::Acquired if state.allowed => Reply::Int(1),
            Self::Acquired => Reply::Nil,
            Self::MovingWindow(_) if !state.is_used() => Reply::Nil,
            Self::MovingWindow(since) => {
                let start = since + state.reset_after.as_secs_f64();
                Reply::Array(vec![
                    Reply::text(format!("{start:.6}")),
                    Reply::int(state.count),
                ])
            }
            Self::SlidingWindow(window) => sliding_window(state, *window),
            Self::Spring => Reply::Array(vec![Reply::Int(allowed), Reply::int(state.remaining)]),
            Self::Count => Reply::int(state.count),
            Self::Text if !state.is_used() => Reply::Nil,
            Self::Text => Reply::text(state.count.to_string()),
            Self::KeyAndMillis if !state.is_used() => {
                Reply::Array(vec![Reply::Nil, Reply::Int(-2)])
            }
            Self::KeyAndMillis => {
                let count = Reply::text(state.count.to_string());
                Reply::Array(vec![count, Reply::Int(whole_millis(state.left()))])
            }
            Self::CountAndMillis | Self::ReadCountAndMillis => {
                let left = Reply::Int(whole_millis(state.left()));
                Reply::Array(vec![Reply::int(state.count), left])
            }
            Self::Seconds | Self::Millis if !state.is_used() => Reply::Int(-2),
            Self::Seconds => Reply::Int(whole_secs(state.left())),
            Self::Millis => Reply::Int(whole_millis(state.left())),
            Self::One => Reply::Int(1),
            Self::Exists => Reply::Int(state.is_used().into()),
        }
    }
}

/// Writes the reply of redis_rate's scripts, whose times are texts.
fn redis_rate(state: &State) -> Reply {
    let retry = if state.allowed {
        "-1".into()
    } else {
        secs_text(state.retry_after.unwrap_or(state.missing))
    };
    Reply::Array(vec![
        Reply::int(state.asked),
        Reply::int(if state.allowed { state.remaining } else { 0 }),
        Reply::text(retry),
        Reply::text(secs_text(state.reset_after)),
    ])
}

/// Writes a sliding window: no former window, and the present one with its count and its time to live.
///
/// That time stays below two windows: the library takes it modulo the window, and would read two as no wait.
fn sliding_window(state: &State, window: Duration) -> Reply {
    let (count, left) = if state.is_used() {
        let most = window.saturating_sub(Duration::from_millis(1));
        let left = window + state.reset_after.min(most);
        let count = Reply::text(state.count.to_string());
        (count, Reply::Int(whole_millis(left)))
    } else {
        (Reply::Nil, Reply::Int(-2))
    };
    Reply::Array(vec![Reply::Nil, Reply::Int(-2), count, left])
}

/// Returns whole seconds, rounded up: a caller that waits them does not come too early.
fn whole_secs(time: Duration) -> i64 {
    let up = u64::from(time.subsec_nanos() > 0);
    i64::try_from(time.as_secs().saturating_add(up)).unwrap_or(i64::MAX)
}

/// Returns whole milliseconds, rounded up.
fn whole_millis(time: Duration) -> i64 {
    i64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX)
}

/// Returns seconds with up to six decimals, rounded up, as Redis counts time.
fn secs_text(time: Duration) -> String {
    let micros = time.as_nanos().div_ceil(1_000);
    let (whole, rest) = (micros / 1_000_000, micros % 1_000_000);
    match rest {
        0 => whole.to_string(),
        _ => format!("{whole}.{rest:06}")
            .trim_end_matches('0')
            .to_owned(),
    }
}
