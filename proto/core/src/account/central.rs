//! Parts taken from the free part itself, under no child's edge.

use super::{Account, AccountError};
use crate::edge::Vector;
use crate::planted::{self, Bug};
use crate::share::Kind;
use crate::unit::{Incarnation, PeriodId, Tokens};

impl Account {
    /// Incarnation under which permits of central decisions are booked. No child has it.
    pub const CENTRAL: Incarnation = Incarnation::new(0);

    /// Spends `n` of a quota's free tokens. Returns their period.
    ///
    /// # Errors
    ///
    /// [`AccountError::NotFree`]; nothing was changed.
    pub fn spend_free(&mut self, n: Tokens) -> Result<PeriodId, AccountError> {
        if self.spent().plus(n).is_none() || self.kind != Kind::Quota || n > self.free().tokens {
            return Err(AccountError::NotFree);
        }
        self.spend(n);
        Ok(self.period())
    }

    /// Books `permits` for a central decision.
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
        self.grant(Self::CENTRAL, self.period(), given).map(|_| ())
    }

    /// Releases permits of central decisions, which were returned or are over.
    pub fn release_central(&mut self, permits: Tokens) {
        let back = Vector {
            burst: permits,
            ..Vector::ZERO
        };
        if let Some(returned) = self.counters(Self::CENTRAL).returned.plus(back) {
            // The book refuses more than was booked.
            let _ = self.release(Self::CENTRAL, self.period(), returned);
        }
    }

    /// Returns the number of permits that central decisions gave out.
    #[must_use]
    pub fn central(&self) -> Tokens {
        self.holding(Self::CENTRAL).burst
    }
}
