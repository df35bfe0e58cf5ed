//! What is taken from the free part itself, under no child's edge.

use super::{Account, AccountError};
use crate::edge::Vector;
use crate::planted::{self, Bug};
use crate::share::Kind;
use crate::unit::{Incarnation, PeriodId, Tokens};

impl Account {
    /// Under this name permits are booked that were given out centrally. No
    /// child is ever called so.
    pub const CENTRAL: Incarnation = Incarnation::new(0);

    /// Spends `n` of a quota's free tokens. The period that they were of.
    ///
    /// # Errors
    ///
    /// [`AccountError::NotFree`]; nothing was changed.
    pub fn spend_free(&mut self, n: Tokens) -> Result<PeriodId, AccountError> {
        let spent = self.spent.plus(n).ok_or(AccountError::NotFree)?;
        if self.kind != Kind::Quota || n > self.free().tokens {
            return Err(AccountError::NotFree);
        }
        self.spent = spent;
        Ok(self.period)
    }

    /// Books `permits` that are given out centrally.
    ///
    /// # Errors
    ///
    /// [`AccountError`]; nothing was changed.
    pub fn book_central(&mut self, permits: Tokens) -> Result<(), AccountError> {
        if permits > self.free().burst {
            return Err(AccountError::NotFree);
        }
        if planted::is(Bug::KeptAndDealt) {
            return Ok(());
        }
        let more = Vector {
            burst: permits,
            ..Vector::ZERO
        };
        let given = self.counters(Self::CENTRAL).given.plus(more);
        let given = given.ok_or(AccountError::NotFree)?;
        self.grant(Self::CENTRAL, self.period, given).map(|_| ())
    }

    /// Permits that were given out centrally are back, or over.
    pub fn release_central(&mut self, permits: Tokens) {
        let back = Vector {
            burst: permits,
            ..Vector::ZERO
        };
        if let Some(returned) = self.counters(Self::CENTRAL).returned.plus(back) {
            // More than was booked is refused by the book.
            let _ = self.release(Self::CENTRAL, self.period, returned);
        }
    }

    /// The permits that are out centrally.
    #[must_use]
    pub fn central(&self) -> Tokens {
        self.holding(Self::CENTRAL).burst
    }
}
