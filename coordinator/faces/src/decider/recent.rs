//! The latest charges of a key, for refunds that name no charge.

use aliquot_client::Limiter;
use aliquot_client::combined::{Combine, Receipt};
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// The latest charges of one key. A refund is made from them, the latest first, so no request gets back tokens that
/// the bucket has made again since.
#[derive(Debug, Default)]
pub(super) struct Recent(Mutex<VecDeque<Receipt>>);

impl Recent {
    /// Maximum number of charges. Older ones cannot be refunded. Each takes about a hundred bytes.
    const MOST: usize = 16;

    /// Remembers a charge.
    pub(super) fn add(&self, charge: Receipt) {
        let mut charges = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if charges.len() == Self::MOST {
            charges.pop_front();
        }
        charges.push_back(charge);
    }

    /// Puts back up to `n` tokens of the key's `limiter`. What is left of a charge that is refunded in part cannot be
    /// refunded any more.
    pub(super) fn refund(&self, limiter: &Limiter, n: u64) {
        let mut left = n;
        while left > 0 {
            let mut charges = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(charge) = charges.pop_back() else {
                return;
            };
            drop(charges);
            let back = left.min(charge.tokens());
            limiter.put_back(&charge, back);
            left -= back;
        }
    }
}
