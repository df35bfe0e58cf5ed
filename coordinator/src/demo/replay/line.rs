//! One line of a file, in either format.

/// One line: nanoseconds from any zero, the key, and the cost.
pub(super) struct Request {
    pub(super) at: i128,
    pub(super) key: String,
    pub(super) cost: u64,
}

/// A field that cannot be read: its name, its value and the allowed values.
pub(super) type Fault = (&'static str, String, &'static str);

/// Makes the error of a field.
pub(super) fn fault<T>(
    field: &'static str,
    value: &str,
    allowed: &'static str,
) -> Result<T, Fault> {
    let value = value.chars().take(80).collect();
    Err((field, value, allowed))
}
