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
