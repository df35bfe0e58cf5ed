//! One answer: the outcome of a request, and the state of its limit as that outcome left it.

use crate::bucket::described::LimitInfo;
use crate::limiter::refused::{Admission, Refused};
use std::time::Duration;

/// Answer to a request: admitted or refused, with the state of the limit as this decision left it.
///
/// It contains everything that an answer over a network needs: the limit, what remains of it, when it is full
/// again, and when a retry may succeed.
///
/// ```
/// use aliquot_client::{Limit, Limiter};
///
/// let limiter = Limiter::local(Limit::per_sec(10), 5)?;
/// let decision = limiter.decide(3);
/// assert!(decision.is_admitted());
/// let info = decision.info.expect("there is a limit");
/// assert_eq!((info.limit, info.remaining), (10, 2));
/// let refused = limiter.decide(3);
/// assert!(refused.retry_after().is_some());
/// # Ok::<(), aliquot_client::LimitError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "it says whether the request is admitted"]
pub struct Decision<T = Admission> {
    /// The admission, or the refusal with its reason and the wait until a retry may succeed.
    pub outcome: Result<T, Refused>,
    /// State of the limit as this decision left it; `None` if it is not known, or if there is no limit in force.
    pub info: Option<LimitInfo>,
}

impl<T> Decision<T> {
    /// Returns true if the request was admitted.
    #[must_use]
    pub const fn is_admitted(&self) -> bool {
        self.outcome.is_ok()
    }

    /// Returns the refusal; `None` if the request was admitted.
    #[must_use]
    pub const fn refused(&self) -> Option<&Refused> {
        match &self.outcome {
            Ok(_) => None,
            Err(refused) => Some(refused),
        }
    }

    /// Returns the shortest wait after which a retry may succeed. `None` if the request was admitted, if waiting
    /// does not help, or if the wait is not known.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.refused().and_then(|refused| refused.retry_after)
    }

    /// Converts the admission.
    pub fn map<U>(self, to: impl FnOnce(T) -> U) -> Decision<U> {
        Decision {
            outcome: self.outcome.map(to),
            info: self.info,
        }
    }
}
