//! Fields of requests and what they may be: by these a request is read, and the description of the face says the same.

/// Maximum number of bytes of a body.
pub const BODY_BYTES_MAX: usize = 1 << 18;

/// Maximum number of questions in one request.
pub const BATCH_MAX: usize = 1_000;

/// Maximum number of keys of a reservation.
pub const PARTS_MAX: usize = 16;

/// Deadline of a decision in milliseconds, unless the request names another, and the longest that it may name.
pub(crate) const WITHIN_MS: (u64, u64) = (250, 10_000);

/// Time of a reservation in seconds, unless the request names another, and the longest that it may name.
pub(crate) const TTL_S: (u64, u64) = (60, 86_400);

/// Maximum number of characters of a reservation's name.
pub(super) const ID_LENGTH_MAX: usize = 128;

/// Maximum number of digits of a number of tokens that is written as a text.
pub(super) const DIGITS_MAX: usize = 19;

/// Fields of `POST /v1/check`.
pub(super) const CHECK: [&str; 3] = ["key", "cost", "within_ms"];

/// Fields of `POST /v1/check:batch`.
pub(super) const BATCH: [&str; 3] = ["checks", "all", "within_ms"];

/// Fields of `POST /v1/reserve`.
pub(super) const RESERVE: [&str; 7] = [
    "key",
    "cost",
    "parts",
    "ttl_s",
    "on_expire",
    "id",
    "within_ms",
];

/// Fields of `POST /v1/settle`.
pub(super) const SETTLE: [&str; 3] = ["id", "cost", "costs"];

/// Fields of `POST /v1/release`.
pub(super) const RELEASE: [&str; 1] = ["id"];

/// Fields of the objects in the lists of a batch and of a reservation.
pub(super) const PART: [&str; 2] = ["key", "cost"];

/// Returns true if a text may be the name of a reservation.
pub(crate) fn is_id(text: &str) -> bool {
    let visible = text.bytes().all(|byte| byte.is_ascii_graphic());
    visible && (1..=ID_LENGTH_MAX).contains(&text.len())
}
