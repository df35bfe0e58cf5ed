//! Restores a book from its edges.

use super::{Account, Lingering, Slot};
use crate::edge::Vector;
use crate::share::Kind;
use crate::unit::{Incarnation, PeriodId, Span, Tokens};
use alloc::collections::BTreeMap;

impl Account {
    /// Returns the time for which anything of a new edge may outlive its lease.
    #[must_use]
    pub const fn linger(&self) -> Span {
        self.linger
    }

    /// Returns the time for which a permit of an open edge may keep it from returning what is wanted: the
    /// greatest maximum hold that was in force while the edge existed.
    #[must_use]
    pub fn hold_of(&self, child: Incarnation) -> Span {
        let slot = self.open.get(child);
        match self.kind {
            Kind::Concurrency => slot.map_or(self.linger, |slot| slot.linger),
            Kind::Rate | Kind::Quota => Span::ZERO,
        }
    }

    /// Returns the time for which floors of former clients may keep an open edge from returning them: the greatest that
    /// was in force while the edge existed.
    #[must_use]
    pub fn floor_linger_of(&self, child: Incarnation) -> Span {
        let slot = self.open.get(child);
        match self.kind {
            Kind::Rate => slot.map_or(self.linger, |slot| slot.linger),
            Kind::Concurrency | Kind::Quota => Span::ZERO,
        }
    }

    /// Returns this empty book with these edges in it, as a decoder needs. The sum of what is held is
    /// computed. Returns `None` if it is out of the range of the counters, or if an incarnation is both open
    /// and closed.
    #[must_use]
    pub fn restore(
        self,
        period: PeriodId,
        spent: Tokens,
        open: BTreeMap<Incarnation, Slot>,
        kept: BTreeMap<Incarnation, Lingering>,
    ) -> Option<Self> {
        if open
            .keys()
            .any(|incarnation| kept.contains_key(incarnation))
        {
            return None;
        }
        let holdings = open.values().map(|slot| slot.counters.holding(self.kind));
        let lingering = kept.values().map(|kept| kept.holding);
        let held = holdings
            .chain(lingering)
            .try_fold(Vector::ZERO, Vector::plus)?;
        Some(Self {
            period,
            spent,
            open: open.into_iter().collect(),
            kept: kept.into(),
            held: held.into(),
            ..self
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::share::Share;

    fn book() -> Account {
        let mut book = Account::new(Kind::Concurrency, whole(), Span::from_secs(1));
        for incarnation in 1..=3 {
            let given = Vector {
                burst: Tokens::from_grains(2),
                ..Vector::ZERO
            };
            let granted = book.grant(Incarnation::new(incarnation), PeriodId::new(0), given);
            assert!(granted.is_ok());
        }
        book.close(Incarnation::new(3));
        book
    }

    fn whole() -> Share {
        Share {
            burst: Tokens::from_grains(10),
            ..Share::EMPTY
        }
    }

    fn again(book: &Account, kept: BTreeMap<Incarnation, Lingering>) -> Option<Account> {
        let open = book.open().collect();
        let empty = Account::new(book.kind(), book.whole(), book.linger());
        empty.restore(book.period(), book.spent(), open, kept)
    }

    #[test]
    fn a_book_comes_back_from_its_edges() {
        let book = book();
        let kept = book
            .kept()
            .map(|(incarnation, kept)| (incarnation, kept.clone()));
        assert_eq!(again(&book, kept.collect()), Some(book));
    }

    #[test]
    fn no_incarnation_is_both_open_and_closed() {
        let book = book();
        let kept = book
            .kept()
            .map(|(_, kept)| (Incarnation::new(1), kept.clone()));
        assert_eq!(again(&book, kept.collect()), None);
    }
}
