//! The decision: one word, one comparison.

use crate::unit::Tokens;

/// The amount that a bucket's rate has made since the bucket's base tick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Made {
    /// Whole grains.
    pub whole: u64,
    /// The part of the next grain, in billionths.
    pub fraction: u32,
}

impl Made {
    /// Returns whole grains, rounded up, if they fit.
    fn whole_up(self) -> Option<u64> {
        self.whole.checked_add(u64::from(self.fraction > 0))
    }
}

/// Reason why a step did not admit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Short {
    /// More was requested than the bucket can ever hold.
    Burst,
    /// It is admitted as soon as this much was made since the base tick.
    Until(u64),
}

/// One step of the generic cell rate algorithm, in tokens instead of times.
///
/// The bucket is one word, its **debt** `D`: all that was ever taken since the base tick, plus the amount
/// missing then. With `S` made since the base tick and the capacity `B`, the level is `B − (D − S)`, and
///
/// > admit `n` iff `max(D, S) + n ≤ S + B`; then `D := max(D, S) + n`.
///
/// Classic GCRA (ITU-T I.371) keeps a theoretical arrival *time* and divides every cost by the rate, which
/// rounds every decision. Here costs are added as they are, and only `S` is ever rounded, once for the whole
/// span.
///
/// A full bucket (`D ≤ S`) drops its overflow, and with it the unfinished part of a grain: its new debt
/// counts from `S` rounded *up*. Otherwise a later grain would come early, and a window that starts here
/// could admit almost one grain too many. A caller that can move its base tick does so when the bucket is
/// full. It then has no unfinished part, and loses nothing.
///
/// The word would wrap if the debt passed 2⁶⁴ − 1 grains. A step that would do that is refused. The owner of
/// the base tick moves it well before.
///
/// # Errors
///
/// [`Short`], and the word is unchanged.
///
/// ```
/// use aliquot_core::bucket::{Made, Short, admit};
/// use aliquot_core::unit::Tokens;
///
/// let (burst, two) = (Tokens::from_grains(3), Tokens::from_grains(2));
/// let start = Made::default();
/// let debt = admit(0, burst, two, start)?;
/// assert_eq!(admit(debt, burst, two, start), Err(Short::Until(1)));
/// assert_eq!(admit(debt, burst, two, Made { whole: 1, fraction: 0 }), Ok(4));
/// # Ok::<(), Short>(())
/// ```
pub fn admit(debt: u64, burst: Tokens, n: Tokens, made: Made) -> Result<u64, Short> {
    let (burst, n) = (burst.grains(), n.grains());
    if n > burst {
        return Err(Short::Burst);
    }
    if debt <= made.whole {
        return made
            .whole_up()
            .and_then(|start| start.checked_add(n))
            .ok_or(Short::Until(u64::MAX));
    }
    let after = debt.checked_add(n).ok_or(Short::Until(u64::MAX))?;
    let due = after.saturating_sub(burst);
    if due <= made.whole {
        Ok(after)
    } else {
        Err(Short::Until(due))
    }
}

#[cfg(test)]
#[path = "../../tests/unit/bucket/gcra.rs"]
mod tests;
